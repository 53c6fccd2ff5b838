"""The queue path in memory: a store, a server that queues pushes, a worker, and a manual clock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, NoReturn

from stratalog.documents import Document, Rules
from stratalog.errors import Unavailable
from stratalog.keys import entries_partition, number
from stratalog.ports.index import Item, Put
from stratalog.ports.queue import Message
from stratalog.protocol import BUILT_IN_MUTATORS, Draft, Mutation
from stratalog.protocol.sync import Push, Pushed
from stratalog.store import Store, open_store
from stratalog.testing.clock import ManualClock
from stratalog.worker.queued_pushes import QueuedPushes
from stratalog.worker.worker import Worker


class Killed(BaseException):
    """The simulated end of the worker's process. No code of the worker may catch this exception."""


class AtOnce(Executor):
    """An executor that runs each call immediately on the caller's thread. The future has the call's result or error."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(function(*arguments, **options))
        except Exception as exc:  # noqa: BLE001 - an executor catches every Exception
            done.set_exception(exc)
        return done


def put(client: str, id: int, key: str = "k", value: Any = 1) -> Mutation:
    return Mutation(client=client, id=id, name="put", args={"key": key, "value": value})


def named(client: str, id: int, name: str) -> Mutation:
    return Mutation(client=client, id=id, name=name)


def kill(draft: Draft, args: Any) -> None:
    raise Killed


class QueuePath:
    """A document ``plan``, a server that queues pushes to it, and one worker at a time."""

    def __init__(self, **mutators: Callable[[Draft, Any], None]) -> None:
        self.clock = ManualClock()
        self.store: Store = open_store("memory:", clock=self.clock, rules=Rules({**BUILT_IN_MUTATORS, **mutators}))
        self.backlog = QueuedPushes(self.store)
        self.document: Document = self.store.create("acme", "plan")
        self.failures: list[str] = []
        self.worker = self.new_worker()

    def new_worker(self) -> Worker:
        """Replace the worker, as a restart of its process does."""
        self.worker = Worker(self.store, report_failure=lambda message, reason: self.failures.append(reason))
        return self.worker

    def push(self, *mutations: Mutation, document: Document | None = None, group: str = "g", owner: str = "") -> Pushed:
        """Push to a document (by default ``plan``) with the document's origin, and return the server's answer."""
        document = document or self.document
        return self.backlog.push(document, Push(group, list(mutations), document.origin), owner)

    def work(self) -> None:
        """Let the worker handle all messages that the queue delivers now."""
        while self.worker.step():
            pass

    def work_through(self, seconds: int) -> int:
        """Let ``seconds`` pass while the worker works. Replace killed workers, and return the number of kills."""
        killed = 0
        for _ in range(seconds):
            try:
                self.work()
            except Killed:
                killed += 1
                self.new_worker()
            self.clock.sleep(1)
        return killed

    def damage(self) -> Callable[[], None]:
        """Damage the document's first entry, and start a worker without caches.

        Return a function that repairs the entry.
        """
        self.document.mutate("put", {"key": "k", "value": 0})
        prefix = self.document.log.record.prefix
        index = self.store.environment.index
        (entry,) = index.query(entries_partition(prefix, 1))
        index.commit([Put(Item(entry.partition, number(1), {**entry.attributes, "b": b"damaged"}))])
        self.store = Store(self.store.environment, self.store.queue, self.store.rules)
        self.new_worker()
        return lambda: index.commit([Put(entry)])

    def out_of_reach(self) -> NoReturn:
        """Fail after five seconds, like a document whose blob store does not respond."""
        self.clock.sleep(5)
        raise Unavailable("simulated")

    def waiting(self) -> list[Message]:
        """Receive the messages that the queue delivers now."""
        return self.store.queue.receive()
