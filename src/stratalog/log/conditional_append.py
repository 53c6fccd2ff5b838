"""The conditional append: entry n + 1 is written by one conditional put that succeeds only where no entry n + 1 stands.

Entries of logs (`append.py`) and versions of records (`stratalog/records/put.py`) are written by the same machine. A
subclass says what the head is, what to write after it, and how it knows its own write again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from stratalog.clock import Observation
from stratalog.errors import ConditionFailed, ContentionError, OutcomeUnknown, StratalogError, Unavailable
from stratalog.limits import OBSERVATION_SECONDS_MAX
from stratalog.log.environment import Environment
from stratalog.ports.index import Write, no_turn
from stratalog.retry import Pace, Retry

__all__ = ["ConditionalAppend"]


class _Head(Protocol):
    """The newest entry, as it was when ``seen`` was taken."""

    @property
    def seen(self) -> Observation: ...


class _Plan(Protocol):
    """What one commit is to write."""

    @property
    def writes(self) -> Sequence[Write]: ...

    @property
    def blobs(self) -> Mapping[str, bytes]: ...


H = TypeVar("H", bound=_Head)
P = TypeVar("P", bound=_Plan)


class Idle(msgspec.Struct, frozen=True):
    """The next try may begin at once."""


class InFlight(msgspec.Struct, Generic[P], frozen=True):
    """A commit was sent and is not answered."""

    plan: P


class RaceLost(msgspec.Struct, frozen=True):
    """Another writer came first. The next try reads the head and commits inside the turn."""

    cause: ConditionFailed


class StoreFailed(msgspec.Struct, frozen=True):
    """The store failed. Whether a commit of ours may stand is told by the doubts, not by this."""

    cause: Unavailable | OutcomeUnknown


IDLE = Idle()


class ConditionalAppend(ABC, Generic[H, P]):
    """One append on its way, from the first try to the last.

    Its state is `Idle`, `InFlight`, `RaceLost` or `StoreFailed`. Two more facts outlast a try. The head is fresh once
    it was read during this call, and only then may a final answer be given from it. A doubt is a place where a write
    of ours may stand or may still come to stand; while there is one, each try reads the head and looks there first.
    """

    what = "an append"
    others = "others kept appending first"

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._begun = self._sent = Observation(environment.clock)
        self._state: Idle | InFlight[P] | RaceLost | StoreFailed = IDLE
        self._fresh = False
        self._retry: Retry | None = None

    def run(self) -> None:
        """Try until it is settled. Raises ContentionError, Unavailable: nothing written. OutcomeUnknown."""
        if not self._reads_first():
            self._try_once()
        while not self._is_settled():
            self._try_again()

    def interrupt(self) -> None:
        """The thread is interrupted. Its commit may have been under way, so whoever goes on must look for it."""
        if isinstance(self._state, InFlight):
            self._mark_in_doubt(self._state.plan)

    @abstractmethod
    def _is_settled(self) -> bool:
        """Whether the answer is known."""

    @abstractmethod
    def _in_doubt(self) -> bool:
        """Whether a write of ours may stand or may still come to stand."""

    @abstractmethod
    def _known_head(self) -> H | None:
        """The head as last seen; None where it must be read, since others have left it behind, or probably have."""

    @abstractmethod
    def _reread(self) -> H:
        """Read the head consistently: from now on it is fresh."""

    @abstractmethod
    def _resolve_doubts(self, head: H) -> None:
        """Look at each doubtful place. A doubt lasts while its place is free: the write may still come."""

    @abstractmethod
    def _plan(self, head: H) -> tuple[P, H] | None:
        """What to write, and after which head; None where there is nothing to write just now."""

    @abstractmethod
    def _learn(self, plan: P, head: H, conflict: ConditionFailed) -> bool:
        """Others stand where we wanted to be, or an earlier write of ours. Answers whether to back off."""

    @abstractmethod
    def _land(self, plan: P, head: H) -> None:
        """The commit was answered: done, unless the answer came too late to rely on what the plan was made from."""

    @abstractmethod
    def _mark_in_doubt(self, plan: P) -> None:
        """The commit may stand, or may still come to stand."""

    @abstractmethod
    def _turn(self) -> AbstractContextManager[bool]:
        """See `Index.turn`."""

    @abstractmethod
    def _details(self) -> dict[str, Any]:
        """What names the log or the record in errors."""

    def _reads_first(self) -> bool:
        """Whether even the first try reads the head before it puts, inside the turn."""
        return False

    def _prepare(self) -> None:
        """Called at the beginning of each try."""

    def _pace(self) -> Pace | None:
        """What earlier appends have learnt of other writers."""
        return None

    def _try_again(self) -> None:
        """The next try. One that reads the head first, as after a lost race, reads and commits inside the turn."""
        before, self._state = self._state, IDLE
        if isinstance(before, StoreFailed):
            self._wait(before.cause)  # not inside the turn: others would wait for it
        with self._turn() if isinstance(before, RaceLost) or self._reads_first() else no_turn() as has_turn:
            if isinstance(before, RaceLost):
                self._wait(before.cause, has_turn=has_turn)
            self._sent = Observation(self._environment.clock)
            self._try_once()

    def _try_once(self) -> None:
        try:
            self._prepare()
            self._try()
        except (Unavailable, OutcomeUnknown) as exc:
            self._state = StoreFailed(exc)

    def _try(self) -> None:
        in_doubt = self._in_doubt()
        head = self._usable_head(in_doubt)
        if in_doubt:
            self._resolve_doubts(head)
            if self._is_settled():
                return
        planned = self._plan(head)
        if planned is not None:
            self._commit(*planned)

    def _usable_head(self, in_doubt: bool) -> H:
        """The head as remembered, or read anew where it is unknown, too old to be relied on or left behind."""
        head = None if in_doubt else self._known_head()
        if head is None:
            return self._reread()
        return head if head.seen.seconds_until(self._sent) <= OBSERVATION_SECONDS_MAX / 2 else self._reread()

    def _commit(self, plan: P, head: H) -> None:
        self._state = InFlight(plan)
        try:
            self._environment.index.commit(plan.writes, plan.blobs)
        except ConditionFailed as exc:
            self._state = IDLE
            self._environment.counters["conflict"] += 1
            if self._learn(plan, head, exc):
                self._state = RaceLost(exc)
        except OutcomeUnknown:
            self._mark_in_doubt(plan)
            raise
        else:
            self._land(plan, head)
            self._state = IDLE

    def _wait(self, cause: StratalogError, *, has_turn: bool = False) -> None:
        """Back off before the next try. Raises when the time budget is used up."""
        if self._retry is None:
            self._retry = self._environment.retry(self._begun, pace=self._pace())
        if self._retry.wait(cause, has_turn=has_turn):
            return
        error = cause
        if isinstance(cause, ConditionFailed):
            error = ContentionError(self.others, attempts=self._retry.attempts, **self._details())
        error = self._verdict(error)
        if error is cause:
            raise error
        raise error from cause

    def _verdict(self, cause: StratalogError) -> StratalogError:
        """``cause``, or OutcomeUnknown where an earlier try may stand or may still come to stand."""
        if self._in_doubt() or isinstance(cause, OutcomeUnknown):
            return OutcomeUnknown(f"{self.what} was not answered in time", **self._details())
        return cause
