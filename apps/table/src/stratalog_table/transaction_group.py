"""Committing transactions of one process: those that wait for each other's turn become one entry of the log.

Each keeps its own outcome. Every batch is numbered, so that one whose answer was lost is sent again and found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
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
from stratalog.clock import Clock, Observation, new_id
from stratalog.group_commit import GroupCommit, PendingCommit
from stratalog.limits import MUTATIONS_PER_BATCH_MAX
from stratalog.retry import Retry, RetryPolicy

__all__ = [
    "REQUESTS_MAX",
    "TRANSIENT",
    "CommittedTransaction",
    "Committer",
    "PendingTransaction",
    "Request",
    "committed_with",
]

CLIENT_CHARACTERS = 16
REQUESTS_MAX = MUTATIONS_PER_BATCH_MAX // 2
"""How many requests one call may bring: with those of others they are still one entry."""

WEIGHT_MAX = 20_000
"""How many files and partitions the transactions of one entry name; one that names more goes alone."""

SNAPSHOT_WEIGHT = 200_000
"""After so many files and partitions the changes go from memory into the tree; twice as many wait for it at most."""

RETRY_POLICY = RetryPolicy(seconds_max=60, wait_seconds_first=0.02, wait_seconds_max=2)
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


class PendingTransaction(PendingCommit[list[CommittedTransaction]]):
    """Requests of one caller on their way into an entry."""

    def __init__(self, requests: Sequence[Request]) -> None:
        super().__init__()
        self.requests = list(requests)
        self.weight = sum(request.weight for request in requests)


class Committer:
    """Commits to one document, from any number of threads."""

    def __init__(self, document: Document, clock: Clock, author: str = "") -> None:
        self._document = document
        self._clock = clock
        self._author = author
        self._client: tuple[str, int] | None = self._new_client()
        self._group_commit: GroupCommit[PendingTransaction] = GroupCommit()
        self._contenders = 1
        self._commit_ms = 0
        self._weight = 0
        self._await_snapshot: Callable[[], None] | None = None

    def commit(self, requests: Sequence[Request]) -> list[CommittedTransaction]:
        """Commit at most `REQUESTS_MAX` requests in order, in one entry; what became of each.

        Raises Invalid and LimitExceeded: nothing of this call is written. Raises ContentionError and Unavailable after
        a minute's tries, OutcomeUnknown where it cannot be told.
        """
        if len(requests) > REQUESTS_MAX:
            raise LimitExceeded("too many transactions at once", value=len(requests), limit=REQUESTS_MAX)
        pending = PendingTransaction(requests)
        self._group_commit.commit(pending, self._serve)
        return pending.answer()

    def _serve(self, batch: list[PendingTransaction]) -> None:
        """As the leader: commit the caller's transaction with those of others."""
        self._let_others_come()
        self._gather(batch)
        begun = Observation(self._clock)
        self._commit(batch)
        self._contenders, self._commit_ms = len(batch), round(begun.age_seconds() * 1000)
        self._snapshot_when_due(sum(pending.weight for pending in batch))

    def _snapshot_when_due(self, weight: int) -> None:
        """Make a snapshot once large transactions changed much: versions do not say how much is in memory.

        Commits go on beside it until as much has changed again: then they wait, so that memory has a bound. They also
        wait for one that the store cannot begin beside them.
        """
        self._weight += weight
        if self._weight >= SNAPSHOT_WEIGHT:
            if self._await_snapshot is not None:
                self._await_snapshot()
            self._weight = 0
            task = self._document.log.environment.background.offer(self._make_snapshot)
            self._await_snapshot = None if task is None else task.join
            if task is None:
                self._make_snapshot()

    def _make_snapshot(self) -> None:
        """One that fails is made up by the next: the changes are in the log."""
        with suppress(StratalogError):
            self._document.snapshot()

    def _let_others_come(self) -> None:
        """Wait for as many as the last commit served, a fifth of its time or a little: those who were just answered
        will be back, and would else have to wait for all of the next one.
        """
        if self._contenders > 1:
            pause_ms = min(max(self._commit_ms / 5, PAUSE_MS_MIN), PAUSE_MS_MAX)
            self._group_commit.await_others(self._contenders - 1, pause_ms / 1000)

    def _gather(self, batch: list[PendingTransaction]) -> None:
        """Add the requests of others, as far as they fit beside the caller's."""
        count, weight = len(batch[0].requests), batch[0].weight
        while count <= REQUESTS_MAX and weight < WEIGHT_MAX and self._group_commit.take(batch):
            count, weight = count + len(batch[-1].requests), weight + batch[-1].weight

    def _commit(self, batch: list[PendingTransaction]) -> None:
        for pending in batch:
            pending.send()
        try:
            answers = iter(self._apply([request for pending in batch for request in pending.requests]))
        except (Invalid, LimitExceeded) as exc:
            if len(batch) == 1:
                batch[0].settle(exc)
                return
            for pending in batch:
                pending.withdraw()
            for pending in batch:
                self._commit([pending])
        except StratalogError as exc:
            for pending in batch:
                pending.settle(exc.copy())  # each is raised by another thread
        else:
            for pending in batch:
                pending.settle(list(islice(answers, len(pending.requests))))

    def _new_client(self) -> tuple[str, int]:
        """A client of this committer's own, and the number of its last mutation."""
        return f"table/{new_id(self._clock, CLIENT_CHARACTERS)}", 0

    def _apply(self, requests: Sequence[Request]) -> list[CommittedTransaction]:
        """Commit one batch. After an error other than Invalid and LimitExceeded it may still be committed later.

        So no other batch may use its numbers: the client is set again only once the outcome is certain.
        """
        client, number = self._client or self._new_client()
        self._client = None
        mutations = [
            Mutation(client=client, id=number + position, name=request.name, args=request.args)
            for position, request in enumerate(requests, 1)
        ]
        try:
            outcomes = self._retried(mutations)
        except (Invalid, LimitExceeded):
            self._client = client, number
            raise
        if all(outcome.version is not None for outcome in outcomes):
            answers = [CommittedTransaction(outcome.version or 0, outcome.reason) for outcome in outcomes]
        else:  # committed before the answer was lost
            answers = [*committed_with(self._document, client, number + 1).values()]
            if not answers:
                raise OutcomeUnknown("a batch is neither committed nor free to be", document=self._document.name)
        self._client = client, number + len(mutations)
        return answers

    def _retried(self, mutations: list[Mutation]) -> list[Outcome]:
        """Apply a batch, again where somebody was first or the store was out of reach: numbers make it safe."""
        retry = Retry(self._clock, RETRY_POLICY)
        while True:
            try:
                return self._document.apply(mutations, author=self._author)
            except TRANSIENT as exc:
                if not retry.wait(exc):
                    raise


def committed_with(document: Document, client: str, id: int) -> dict[int, CommittedTransaction]:
    """What became of the client's mutations in the version that has the one numbered ``id``. Empty: none has it yet.

    Raises VersionForgotten: committed, but not kept.
    """
    version = document.applied_in(client, id)
    if version is None:
        return {}
    (committed_version,) = document.versions(version - 1, version)
    return {
        mutation.id: CommittedTransaction(version, mutation.reason)
        for mutation in committed_version.mutations
        if mutation.client == client
    }
