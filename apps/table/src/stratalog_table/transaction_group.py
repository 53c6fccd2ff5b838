"""Committing transactions of one process: those that wait for each other's turn become one entry of the log.

Each keeps its own outcome. Every batch is numbered, so that one whose answer was lost is sent again and found.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from stratalog import (
    ContentionError,
    Document,
    Invalid,
    LimitExceeded,
    Mutation,
    Outcome,
    OutcomeUnknown,
    StratalogError,
    Unavailable,
)
from stratalog.clock import Clock, Observation, backoff_seconds, new_id
from stratalog.group_commit import GroupCommit, Latch
from stratalog.limits import MUTATIONS_PER_BATCH_MAX

__all__ = ["REQUESTS_MAX", "TRANSIENT", "CommittedTransaction", "Committer", "Request"]

CLIENT_CHARACTERS = 16
REQUESTS_MAX = MUTATIONS_PER_BATCH_MAX // 2
"""How many requests one call may bring: with those of others they are still one entry."""

WEIGHT_MAX = 20_000
"""How many files and partitions the transactions of one entry name; one that names more goes alone."""

SNAPSHOT_WEIGHT = 200_000
"""After so many files and partitions the changes go from memory into the tree; twice as many wait for it at most."""

RETRY_SECONDS = 60.0
RETRY_SECONDS_FIRST = 0.02
RETRY_SECONDS_MAX = 2.0
PAUSE_MS_MIN = 1
PAUSE_MS_MAX = 4
TRANSIENT = (ContentionError, OutcomeUnknown, Unavailable)


class Request(msgspec.Struct, frozen=True):
    """A transaction to be committed: its mutator, its arguments, and how many files and partitions it names."""

    name: str
    args: Any
    weight: int = 1


class CommittedTransaction(msgspec.Struct, frozen=True):
    """What became of a transaction: the version that has it, and why it was rejected, if it was."""

    version: int
    reason: str | None = None


class Committer:
    """Commits to one document, from any number of threads."""

    def __init__(self, document: Document, clock: Clock, author: str = "") -> None:
        self._document = document
        self._clock = clock
        self._author = author
        self._begin_anew()
        self._group_commit: GroupCommit[_Waiting] = GroupCommit()
        self._contenders = 1
        self._commit_ms = 0
        self._weight = 0
        self._snapshot: threading.Thread | None = None

    def commit(self, requests: Sequence[Request]) -> list[CommittedTransaction]:
        """Commit at most `REQUESTS_MAX` requests in order, in one entry; what became of each.

        Raises Invalid and LimitExceeded: nothing of this call is written. Raises ContentionError and Unavailable after
        a minute's tries, OutcomeUnknown where it cannot be told.
        """
        if len(requests) > REQUESTS_MAX:
            raise LimitExceeded("too many transactions at once", value=len(requests), limit=REQUESTS_MAX)
        waiting = _Waiting(requests)
        if not self._group_commit.enter(waiting):
            return waiting.answer()
        served: list[_Waiting] = []
        try:
            self._let_others_come()
            batch = self._gather(waiting, served)
            begun = Observation(self._clock)
            self._serve(batch)
            self._contenders, self._commit_ms = len(batch), round(begun.age_seconds() * 1000)
            self._keep_small(sum(one.weight for one in batch))
        finally:
            self._group_commit.leave(served, again=[one for one in served if not one.settled])
        return waiting.answer()

    def _keep_small(self, weight: int) -> None:
        """Make a snapshot once large transactions changed much: versions do not say how much is in memory.

        Commits go on beside it until as much has changed again: then they wait, so that memory has a bound.
        """
        self._weight += weight
        if self._weight >= SNAPSHOT_WEIGHT:
            if self._snapshot is not None:
                self._snapshot.join()
            self._weight = 0
            self._snapshot = self._document.log.environment.background.start(self._make_snapshot)

    def _make_snapshot(self) -> None:
        """One that fails is made up by the next: the changes are in the log. Where a program ends, none is begun."""
        with suppress(StratalogError, RuntimeError):
            self._document.snapshot()

    def _let_others_come(self) -> None:
        """Wait for as many as the last commit served, a fifth of its time or a little: those who were just answered
        will be back, and would else have to wait for all of the next one.
        """
        if self._contenders > 1:
            pause_ms = min(max(self._commit_ms / 5, PAUSE_MS_MIN), PAUSE_MS_MAX)
            self._group_commit.await_others(self._contenders - 1, pause_ms / 1000)

    def _gather(self, first: _Waiting, served: list[_Waiting]) -> list[_Waiting]:
        """The caller's requests, and those of others as far as they fit beside them."""
        batch, count, weight = [first], len(first.requests), first.weight
        while count <= REQUESTS_MAX and weight < WEIGHT_MAX and (other := self._group_commit.next()) is not None:
            served.append(other)
            batch.append(other)
            count, weight = count + len(other.requests), weight + other.weight
        return batch

    def _serve(self, batch: list[_Waiting]) -> None:
        try:
            answers = self._apply([request for waiting in batch for request in waiting.requests])
        except (Invalid, LimitExceeded) as exc:
            if len(batch) == 1:
                batch[0].error = exc
            else:
                for waiting in batch:
                    self._serve([waiting])
        except StratalogError as exc:
            self._begin_anew()
            for waiting in batch:
                waiting.error = exc.copy()  # each is raised by another thread
        except BaseException:
            self._begin_anew()
            for waiting in batch:
                waiting.error = OutcomeUnknown("the thread that committed for others was interrupted")
            raise
        else:
            for waiting in batch:
                count = len(waiting.requests)
                waiting.answers, answers = answers[:count], answers[count:]

    def _begin_anew(self) -> None:
        """The last batch may be committed or not, now or later. No other batch may use its numbers."""
        self._client, self._number = f"table/{new_id(self._clock, CLIENT_CHARACTERS)}", 0

    def _apply(self, requests: Sequence[Request]) -> list[CommittedTransaction]:
        mutations = [
            Mutation(client=self._client, id=self._number + position, name=request.name, args=request.args)
            for position, request in enumerate(requests, 1)
        ]
        outcomes = self._patiently(mutations)
        self._number += len(mutations)
        if all(outcome.version is not None for outcome in outcomes):
            return [CommittedTransaction(outcome.version or 0, outcome.reason) for outcome in outcomes]
        return self._found(mutations)

    def _patiently(self, mutations: list[Mutation]) -> list[Outcome]:
        """Apply a batch, again where somebody was first or the store was out of reach: numbers make it safe."""
        begun, attempt = Observation(self._clock), 0
        while True:
            try:
                return self._document.apply(mutations, author=self._author)
            except TRANSIENT:
                attempt += 1
                if begun.age_seconds() > RETRY_SECONDS:
                    raise
                seconds = backoff_seconds(self._clock, attempt, RETRY_SECONDS_FIRST, RETRY_SECONDS_MAX)
                self._clock.sleep(seconds)

    def _found(self, mutations: list[Mutation]) -> list[CommittedTransaction]:
        """What became of a batch that was committed before the answer was lost."""
        version = self._document.applied_in(self._client, mutations[0].id)
        if version is None:
            raise OutcomeUnknown("a batch is neither committed nor free to be", document=self._document.name)
        (found,) = self._document.versions(version - 1, version)
        return [CommittedTransaction(version, one.reason) for one in found.mutations if one.client == self._client]


class _Waiting:
    """What one thread wants committed."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = list(requests)
        self.weight = sum(request.weight for request in requests)
        self.answers: list[CommittedTransaction] | None = None
        self.error: StratalogError | None = None
        self.latch: Latch | None = None
        self.is_leader: bool | None = None

    @property
    def settled(self) -> bool:
        """Whether its answers or its error are known."""
        return self.answers is not None or self.error is not None

    def answer(self) -> list[CommittedTransaction]:
        """The answers, or the error raised."""
        if self.answers is None:
            raise self.error or OutcomeUnknown("a commit ended without an answer")
        return self.answers
