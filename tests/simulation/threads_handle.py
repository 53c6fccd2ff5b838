"""One handle that the threads of a process share. The handle checks each call against earlier answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from stratalog.documents import Document
from stratalog.errors import OutcomeUnknown, StratalogError, Unavailable
from stratalog.log import Log
from stratalog.log.pending_entry import FORGOTTEN
from stratalog.ports.blobs import Blobs
from stratalog.ports.blobs_wrapper import BlobsWrapper
from stratalog.ports.index import NO_BLOBS, Index, Item, Write
from stratalog.testing.checkers import Violation
from stratalog.testing.scheduler import Actor, Interrupt, Scheduler

__all__ = ["AnsweredBlobs", "AnsweredIndex", "Ended", "Handle", "Interrupter"]

T = TypeVar("T")
INTERRUPT_RATE = 0.03
SLOW_MS_MAX = 400


class Ended(Exception):
    """An interrupt ended a call, so the outcome of the call is unknown."""


class Interrupter:
    """Interrupts threads during their calls of a handle: at most ``count`` times, and at most once in each call."""

    def __init__(self, scheduler: Scheduler, count: int) -> None:
        self.inside: list[Actor] = []
        self._scheduler = scheduler
        self.slow_rate = scheduler.random.choice((0.0, 0.05, 0.2))
        self._left = count

    def step(self) -> None:
        """Simulate the return of an answer: the answer may be late, and other actors may run meanwhile.

        The step may interrupt a thread that is inside a call. Raises Interrupt if that thread is the caller.
        """
        scheduler = self._scheduler
        if scheduler.current is None:
            return
        if self._left and self.inside and scheduler.random.random() < INTERRUPT_RATE:
            self._left -= 1
            scheduler.interrupt(self.inside.pop(int(scheduler.random.random() * len(self.inside))))
        if scheduler.random.random() < self.slow_rate:
            scheduler.sleep(1 + int(SLOW_MS_MAX * scheduler.random.random()))
        scheduler.yield_here()
        scheduler.deliver()


class Handle:
    """A log that the threads of one process share, and a document on the log, if the world has a document."""

    def __init__(self, log: Log, document: Document | None, interrupter: Interrupter, *, calm: bool) -> None:
        self.log = log
        self.document = document
        self.calm = calm
        self.has_dropped = False
        """Whether `Document.forget_below` was called, which drops the cached state."""

        self.crashed = False
        self.version = 0
        """The newest version that any call has returned or reported."""

        self.floor = 0
        """The highest floor that any call has returned."""

        self._interrupter = interrupter
        self._newest: Counter[str] = Counter()
        self._errors: list[StratalogError] = []

    def call(self, actor: Actor, function: Callable[[], T]) -> T:
        """Run ``function`` as a call by ``actor`` and return its result. Raises the function's StratalogError.

        Raises Ended after an interrupt of the actor, and Violation if the call broke a rule.
        """
        inside = self._interrupter.inside
        inside.append(actor)
        try:
            return function()
        except Interrupt as exc:
            if exc.victim is not actor:
                raise Violation("bystander", "a thread got the interrupt of another thread", actor=actor.name) from exc
            raise Ended from exc
        except StratalogError as exc:
            self._check_error(exc)
            raise
        finally:
            actor.interrupt = None
            if actor in inside:
                inside.remove(actor)
            self._check_known()

    def learn(self, version: int, before: int) -> int:
        """Record and return the ``version`` that a call returned or reported.

        Raises Violation if ``version`` is below ``before``, the lowest version that the call may return.
        """
        if version < before:
            raise Violation(
                "monotonic", "a handle returned an older version than before", version=version, before=before
            )
        self.version = max(self.version, version)
        return version

    def held_locks(self) -> list[str]:
        """Return the names of the locks that are held. While no call runs, no lock should be held."""
        appender = self.log._appender
        locks: dict[str, Any] = {"head": appender.heads._lock}
        if (document := self.document) is not None:
            locks |= {"commit": document._writer._lock, "snapshots": document._snapshots._lock}
            locks |= {"state": document._states._shared._lock}
        held = [name for name, lock in locks.items() if lock.locked()]
        return ["leadership", *held] if appender._group_commit._leadership else held

    def _check_error(self, error: StratalogError) -> None:
        if any(error is other for other in self._errors):
            raise Violation("bystander", "two threads raised the same exception object", error=error)
        self._errors.append(error)
        if self.calm and isinstance(error, OutcomeUnknown | Unavailable) and error.message != FORGOTTEN:
            raise Violation("bystander", "a call failed although no port failed", error=repr(error)) from error

    def _check_known(self) -> None:
        """Raise Violation if a value inside the handle became older, even if no call has returned this value."""
        head = self.log.known_head()
        self._check_newest("head", head.version if head else None)
        self._check_newest("floor", self.log._floor.require().version)
        if self.document is not None:
            state = self.document._states.cached
            self._check_newest("state", state.version if state else None)
            # While no state is dropped, no later state is based on an older snapshot. After a drop, a thread may offer
            # a state that it loaded before the newest snapshot was made.
            if self.calm and not self.has_dropped:
                self._check_newest("base", state.snapshot_version if state else None)

    def _check_newest(self, name: str, version: int | None) -> None:
        if version is not None:
            if version < self._newest[name]:
                raise Violation(
                    "monotonic", f"the handle's {name} became older", version=version, was=self._newest[name]
                )
            self._newest[name] = version


class AnsweredIndex:
    """An index that calls ``step`` after each read and commit, before the caller gets the answer."""

    def __init__(self, index: Index, step: Callable[[], None]) -> None:
        self.joint_commits = index.joint_commits
        self.blob_bytes_max = index.blob_bytes_max
        self._index = index
        self._step = step

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        item = self._index.get(partition, sort, consistent=consistent)
        self._step()
        return item

    def query(self, partition: str, **options: Any) -> Iterator[Item]:
        items = self._index.query(partition, **options)
        first = next(items, None)
        self._step()
        if first is not None:
            yield first
            yield from items

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        self._index.commit(writes, blobs)
        self._step()

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        return self._index.turn(partition)

    def close(self) -> None:
        """Do nothing, because the backend outlives its processes."""


class AnsweredBlobs(BlobsWrapper):
    """Blobs that call ``step`` after each put and get, before the caller gets the answer."""

    def __init__(self, blobs: Blobs, step: Callable[[], None]) -> None:
        super().__init__(blobs)
        self._step = step

    def put(self, key: str, body: bytes) -> None:
        self._blobs.put(key, body)
        self._step()

    def get(self, key: str) -> bytes:
        body = self._blobs.get(key)
        self._step()
        return body

    def close(self) -> None:
        """Do nothing, because the backend outlives its processes."""
