"""Group commit of one process's transactions: concurrent transactions become one entry of the log.

Each transaction has its own outcome. The mutations of every batch are numbered. So the committer can repeat a batch
whose answer was lost: the numbers show whether the batch was committed.
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
from stratalog.clock import Clock, new_id
from stratalog.group_commit import CommitDelay, GroupCommit, PendingCommit
from stratalog.retry import Retry, RetryPolicy
from stratalog_table.limits import TRANSACTIONS_PER_CALL_MAX

__all__ = [
    "TRANSIENT",
    "CommittedTransaction",
    "Committer",
    "PendingTransaction",
    "Request",
    "committed_with",
]

CLIENT_CHARACTERS = 16
WEIGHT_MAX = 20_000
"""Once an entry names this many files and partitions, no further call joins it. One call alone may name more."""

SNAPSHOT_WEIGHT = 200_000
"""After transactions that name this many files and partitions, a snapshot moves the changes from memory into the tree.

Commits wait for the snapshot once transactions with as much weight again are in memory.
"""

RETRY_POLICY = RetryPolicy(seconds_max=60, wait_seconds_first=0.02, wait_seconds_max=2)
DELAY_MS_MIN = 1
TRANSIENT = (ContentionError, OutcomeUnknown, Unavailable)


class Request(msgspec.Struct, frozen=True):
    """A transaction to commit: its mutator, its arguments, and the number of files and partitions that it names."""

    name: str
    args: Any
    weight: int = 1


class CommittedTransaction(msgspec.Struct, frozen=True):
    """The outcome of a transaction: the version that contains it, and the reason if it was rejected."""

    version: int
    reason: str | None = None


class PendingTransaction(PendingCommit[list[CommittedTransaction]]):
    """The requests of one caller that wait for their commit."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = list(requests)
        self.weight = sum(request.weight for request in requests)


class Committer:
    """The committer of one document's transactions. Any number of threads may share it."""

    def __init__(self, document: Document, clock: Clock, author: str = "") -> None:
        self._document = document
        self._clock = clock
        self._author = author
        self._client: tuple[str, int] | None = self._new_client()
        self._group_commit: GroupCommit[PendingTransaction] = GroupCommit()
        self._delay: CommitDelay[PendingTransaction] = CommitDelay(clock, DELAY_MS_MIN)
        self._weight = 0
        self._await_snapshot: Callable[[], None] | None = None

    def commit(self, requests: Sequence[Request]) -> list[CommittedTransaction]:
        """Commit at most `TRANSACTIONS_PER_CALL_MAX` requests in order, in one entry, and return the outcome of each.

        Raises Invalid and LimitExceeded, with nothing of this call written. Raises ContentionError and Unavailable
        after retries for a minute. Raises OutcomeUnknown if the requests may be committed.
        """
        if len(requests) > TRANSACTIONS_PER_CALL_MAX:
            raise LimitExceeded("too many transactions at once", value=len(requests), limit=TRANSACTIONS_PER_CALL_MAX)
        pending = PendingTransaction(requests)
        self._group_commit.commit(pending, self._serve)
        return pending.answer()

    def _serve(self, batch: list[PendingTransaction]) -> None:
        """Commit, as the leader, the caller's requests together with the requests of waiting callers."""
        self._delay.wait(self._group_commit)
        self._gather(batch)
        self._delay.measure(batch, self._commit)
        self._snapshot_when_due(sum(pending.weight for pending in batch))

    def _snapshot_when_due(self, weight: int) -> None:
        """Write a snapshot once the weight since the last snapshot is large.

        A few versions can have many changes in memory. Commits continue while the snapshot is written, until
        transactions with as much weight again are committed. Then commits wait for the snapshot, so that memory is
        bounded. If the store cannot start a background task, the commit writes the snapshot itself.
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
        """Write a snapshot and ignore its failure: the changes are in the log, and the next snapshot contains them."""
        with suppress(StratalogError):
            self._document.snapshot()

    def _gather(self, batch: list[PendingTransaction]) -> None:
        """Add the requests of other callers to the batch while it has room."""
        count, weight = len(batch[0].requests), batch[0].weight
        while count <= TRANSACTIONS_PER_CALL_MAX and weight < WEIGHT_MAX and self._group_commit.take(batch):
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
            # Nothing was written. Commit each call on its own, so that only the faulty call fails.
            for pending in batch:
                pending.withdraw()
            for pending in batch:
                self._commit([pending])
        except StratalogError as exc:
            for pending in batch:
                pending.settle(exc.copy())  # each caller raises its own copy in its own thread
        else:
            for pending in batch:
                pending.settle(list(islice(answers, len(pending.requests))))

    def _new_client(self) -> tuple[str, int]:
        """Return a new client id for this committer, and 0 as the number of its last mutation."""
        return f"table/{new_id(self._clock, CLIENT_CHARACTERS)}", 0

    def _apply(self, requests: Sequence[Request]) -> list[CommittedTransaction]:
        """Commit one batch. After an error other than Invalid and LimitExceeded the batch may still be committed later.

        No other batch may then use the batch's numbers. So the method unsets the client, and sets it again only once
        the outcome is certain. Without a client, the next batch takes a new client.
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
        else:  # An attempt whose answer was lost committed the batch.
            answers = [*committed_with(self._document, client, number + 1).values()]
            if not answers:
                raise OutcomeUnknown("the outcome of a batch is unknown", document=self._document.name)
        self._client = client, number + len(mutations)
        return answers

    def _retried(self, mutations: list[Mutation]) -> list[Outcome]:
        """Apply a batch. Retry after lost races and while the store is unavailable. The numbers make a retry safe.

        The definite failure of one attempt does not decide the outcome of an earlier attempt that is in doubt. So the
        method then raises OutcomeUnknown.
        """
        retry = Retry(self._clock, RETRY_POLICY)
        in_doubt = False
        while True:
            try:
                return self._document.apply(mutations, author=self._author)
            except StratalogError as exc:
                in_doubt = in_doubt or isinstance(exc, OutcomeUnknown)
                if isinstance(exc, TRANSIENT) and retry.wait(exc):
                    continue
                if not in_doubt:
                    raise
                raise OutcomeUnknown("the outcome of a batch is unknown", document=self._document.name) from exc


def committed_with(document: Document, client: str, id: int) -> dict[int, CommittedTransaction]:
    """Return the outcomes of the client's mutations in the version that contains mutation ``id``, by number.

    Returns an empty dict if no version contains the mutation yet. Raises VersionForgotten if the log has
    forgotten the version that contained the mutation.
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
