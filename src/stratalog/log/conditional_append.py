"""The conditional append: entry n + 1 is written by one conditional put that succeeds only if no entry n + 1 exists.

Entries of logs (`append.py`) and versions of records (`stratalog/records/put.py`) share this state machine. A subclass
defines the head, the writes after it, and how to recognise its own write.
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
    """The newest entry, read or written after ``seen`` was taken."""

    @property
    def seen(self) -> Observation: ...


class _Plan(Protocol):
    """The writes and blobs of one commit."""

    @property
    def writes(self) -> Sequence[Write]: ...

    @property
    def blobs(self) -> Mapping[str, bytes]: ...


H = TypeVar("H", bound=_Head)
P = TypeVar("P", bound=_Plan)


class Idle(msgspec.Struct, frozen=True):
    """No commit is in flight and no failure is pending: the next try may begin at once."""


class InFlight(msgspec.Struct, Generic[P], frozen=True):
    """A commit was sent and its answer has not arrived."""

    plan: P


class RaceLost(msgspec.Struct, frozen=True):
    """Another writer, or an earlier try, committed first. The next try reads the head and commits inside the turn."""

    cause: ConditionFailed


class StoreFailed(msgspec.Struct, frozen=True):
    """The store failed. The positions in doubt, not this state, record whether a commit may have taken effect."""

    cause: Unavailable | OutcomeUnknown


IDLE = Idle()


class ConditionalAppend(ABC, Generic[H, P]):
    """One append, from the first try to the last.

    The state of an append is `Idle`, `InFlight`, `RaceLost` or `StoreFailed`. Two more facts outlive a try. The head is
    *fresh* if it was read during this call; only with a fresh head may a try settle the append without a commit. A
    position is *in doubt* if a write of this append may be stored there, now or later. While a position is in doubt,
    each try first reads the head and checks that position.
    """

    what = "an append"
    others = "other writers kept appending first"

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._begun = self._sent = Observation(environment.clock)
        self._state: Idle | InFlight[P] | RaceLost | StoreFailed = IDLE
        self._fresh = False
        self._retry: Retry | None = None

    def run(self) -> None:
        """Try until the append is settled.

        Raises ContentionError, Unavailable: nothing is written, except the entries of a batch that an earlier try has
        settled. Raises OutcomeUnknown: an unsettled entry may be written too. Also raises the errors of the subclass's
        methods.
        """
        if not self._reads_first():
            self._try_once()
        while not self._is_settled():
            self._try_again()

    def interrupt(self) -> None:
        """Handle an interrupt of the thread: a commit in flight is in doubt, and the next leader must check it."""
        if isinstance(self._state, InFlight):
            self._mark_in_doubt(self._state.plan)

    @abstractmethod
    def _is_settled(self) -> bool:
        """Return whether the outcome is known."""

    @abstractmethod
    def _in_doubt(self) -> bool:
        """Return whether a write of this append may be stored, now or later, at a position in doubt."""

    @abstractmethod
    def _known_head(self) -> H | None:
        """Return the head that this process last read or wrote; None if there is none or it is probably outdated.

        The caller then reads the head.
        """

    @abstractmethod
    def _reread(self) -> H:
        """Read the head consistently. After the call the head is fresh."""

    @abstractmethod
    def _resolve_doubts(self, head: H) -> None:
        """Check each position in doubt. A position stays in doubt while the write may still be stored there."""

    @abstractmethod
    def _plan(self, head: H) -> tuple[P, H] | None:
        """Return the next commit and the head that it follows; None if this try has nothing to write."""

    @abstractmethod
    def _learn(self, plan: P, head: H, conflict: ConditionFailed) -> bool:
        """Handle a failed condition: another writer, or an earlier try, has written.

        Return whether the next try backs off and takes the turn.
        """

    @abstractmethod
    def _land(self, plan: P, head: H) -> None:
        """Settle the plan, or mark it in doubt if the answer came later than the observation rule allows."""

    @abstractmethod
    def _mark_in_doubt(self, plan: P) -> None:
        """Record that the writes of the plan may be stored, now or later."""

    @abstractmethod
    def _turn(self) -> AbstractContextManager[bool]:
        """See `Index.turn`."""

    @abstractmethod
    def _details(self) -> dict[str, Any]:
        """Return the details that name the log or the record in errors."""

    def _reads_first(self) -> bool:
        """Return whether the first try must already take the turn and read the head before it puts."""
        return False

    def _prepare(self) -> None:
        """Prepare a try. Each try begins with a call of this method."""

    def _pace(self) -> Pace | None:
        """Return the contention that earlier appends observed, for the back-off; None for the default back-off."""
        return None

    def _try_again(self) -> None:
        """Make the next try. After a lost race, or if the try must read the head first, the try is inside the turn."""
        before, self._state = self._state, IDLE
        if isinstance(before, StoreFailed):
            self._wait(before.cause)  # outside the turn, so that other writers need not wait too
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
        """Return the remembered head. If it is unknown, outdated, or too old by the observation rule, read the head."""
        head = None if in_doubt else self._known_head()
        if head is None:
            return self._reread()
        # A head may use half of the observation time. The other half is for the commit and its answer.
        return head if head.seen.seconds_until(self._sent) <= OBSERVATION_SECONDS_MAX / 2 else self._reread()

    def _commit(self, plan: P, head: H) -> None:
        self._state = InFlight(plan)
        try:
            self._environment.index.commit(plan.writes, plan.blobs)
        except ConditionFailed as exc:
            self._state = IDLE
            self._environment.count("conflict")
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
        error: Exception = cause
        if isinstance(cause, ConditionFailed):
            error = ContentionError(self.others, attempts=self._retry.attempts, **self._details())
        error = self._verdict(error)
        if error is cause:
            raise error
        raise error from cause

    def _verdict(self, cause: Exception) -> Exception:
        """Return ``cause``, or OutcomeUnknown if the write of an earlier try may be stored, now or later."""
        if self._in_doubt() or isinstance(cause, OutcomeUnknown):
            return OutcomeUnknown(f"the outcome of {self.what} did not arrive in time", **self._details())
        return cause
