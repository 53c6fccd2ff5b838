"""A store whose documents are pushed to by way of the queue, with everything in memory and a clock moved by hand."""

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
    """The worker's process ends: nothing of the worker may catch it."""


class AtOnce(Executor):
    """Does what it is given at once, on no other thread, and keeps what that raised to itself."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(function(*arguments, **options))
        except Exception as exc:  # noqa: BLE001 - as an executor does
            done.set_exception(exc)
        return done


def put(client: str, id: int, key: str = "k", value: Any = 1) -> Mutation:
    return Mutation(client=client, id=id, name="put", args={"key": key, "value": value})


def named(client: str, id: int, name: str) -> Mutation:
    return Mutation(client=client, id=id, name=name)


def kill(draft: Draft, args: Any) -> None:
    raise Killed


class QueuePath:
    """A document ``plan``, a server that queues pushes for it, and workers that come one after the other."""

    def __init__(self, **mutators: Callable[[Draft, Any], None]) -> None:
        self.clock = ManualClock()
        self.store: Store = open_store("memory:", clock=self.clock, rules=Rules({**BUILT_IN_MUTATORS, **mutators}))
        self.backlog = QueuedPushes(self.store)
        self.document: Document = self.store.create("acme", "plan")
        self.failures: list[str] = []
        self.worker = self.new_worker()

    def new_worker(self) -> Worker:
        """Another process in the place of the one before."""
        self.worker = Worker(self.store, report_failure=lambda message, reason: self.failures.append(reason))
        return self.worker

    def push(self, *mutations: Mutation, document: Document | None = None, group: str = "g", owner: str = "") -> Pushed:
        """What the server answers to a push that says which document it is meant for."""
        document = document or self.document
        return self.backlog.push(document, Push(group, list(mutations), document.origin), owner)

    def work(self) -> None:
        """Let the worker take all that the queue gives now."""
        while self.worker.step():
            pass

    def work_through(self, seconds: int) -> int:
        """Let time pass while workers work, each started anew after it was killed; how often that was."""
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
        """Put something else in the place of the document's first entry; what mends it. The next worker reads it."""
        self.document.mutate("put", {"key": "k", "value": 0})
        prefix = self.document.log.record.prefix
        index = self.store.environment.index
        (entry,) = index.query(entries_partition(prefix, 1))
        index.commit([Put(Item(entry.partition, number(1), {**entry.attributes, "b": b"damaged"}))])
        self.store = Store(self.store.environment, self.store.queue, self.store.rules)
        self.new_worker()
        return lambda: index.commit([Put(entry)])

    def out_of_reach(self) -> NoReturn:
        """What a document does whose blobs do not answer: it takes its time, and then fails."""
        self.clock.sleep(5)
        raise Unavailable("simulated")

    def waiting(self) -> list[Message]:
        """What the queue would give now."""
        return self.store.queue.receive()
