"""Writing to a document from many threads: batches that run on a state, and events that depend on a state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from stratalog.documents.commit_builder import commit_of
from stratalog.documents.commits import Merged
from stratalog.documents.rejections import UNEXPECTED, write_letters
from stratalog.documents.run import Run, refuse_mutators, run_batch
from stratalog.documents.state import State
from stratalog.documents.state_cache import StateCache
from stratalog.documents.values import Values
from stratalog.errors import (
    ContentionError,
    Corrupt,
    MergeConflict,
    OutcomeUnknown,
    QuotaExceeded,
    Unavailable,
    VersionConflict,
)
from stratalog.log import Entry, Event, Log
from stratalog.log.admission import UNBOUND, Reservation
from stratalog.log.blob_batch import BlobBatch, BlobsDeferred
from stratalog.log.usage import Amounts
from stratalog.ports.index import no_turn
from stratalog.process_fork import close_in_child
from stratalog.protocol.messages import Mutation, Outcome
from stratalog.protocol.mutators import Mutators
from stratalog.retry import Retry

__all__ = ["Approve", "MutationBatch", "Writer"]

Approve = Callable[[State, Run], Merged]
"""Checks a batch's run before the run is written: raises MergeConflict, or returns the merge's progress to record."""


class MutationBatch(msgspec.Struct, frozen=True):
    """Mutations to be committed as one entry, with their mutators and the principal for whom they run."""

    mutations: Sequence[Mutation]
    mutators: Mutators
    group: str = ""
    owner: str = ""
    author: str = ""
    approve: Approve | None = None
    admitted: bool = False
    """Whether the batch was acknowledged earlier, so that no quota may refuse it."""


class _Attempt:
    """A batch in flight: its blobs, and its last run, which stays valid until another writer commits.

    ``counted`` is the number of new clients that were already counted as created by the batch's principal.
    """

    __slots__ = ("blob_batch", "counted", "run", "state")

    def __init__(self, blob_batch: BlobBatch) -> None:
        self.blob_batch = blob_batch
        self.state: State | None = None
        self.run: Run | None = None
        self.counted = 0


class Writer:
    """Writes to one document for a handle. Safe to share between threads."""

    def __init__(self, log: Log, states: StateCache, values: Values) -> None:
        self._log = log
        self._states = states
        self._values = values
        # One thread of a handle commits at a time, so that threads do not lose races to each other. The lock does not
        # exclude other processes: the conditional put stops a commit on an old version. Readers need no lock, see
        # `StateCache`.
        self._lock = threading.Lock()
        close_in_child(self, "_lock")

    def commit(self, batch: MutationBatch) -> list[Outcome]:
        """Commit a batch as one entry; return each mutation's outcome. Raises the errors of `Document.apply`.

        If the first run has blobs that the commit itself cannot store, this method puts them while no lock is held. So
        other threads' commits do not wait for these puts. If the run is repeated after these puts, its new blobs are
        put under the lock. Reads of states and values are under the lock too.
        """
        refuse_mutators()
        attempt = _Attempt(BlobBatch(self._log.environment))
        attempt.blob_batch.defer()
        try:
            with self._lock:
                return self._commit(batch, attempt)
        except BlobsDeferred:
            attempt.blob_batch.put_deferred()
            with self._lock:
                return self._commit(batch, attempt)

    def append_decided(self, decide: Callable[[State], Event | None], owner: str = "") -> tuple[Entry | None, State]:
        """Append the event that ``decide`` returns for the newest state; return the entry and the state after it.

        The entry directly follows the state of the decision: if another writer commits first, ``decide`` is called
        again on a fresh state. If ``decide`` returns None, nothing is committed and the entry is None. Raises
        ContentionError.
        """
        refuse_mutators()
        retry: Retry | None = None
        while True:
            try:
                with self._lock, self._log.turn() if retry else no_turn() as has_turn:
                    return self._try_decided(decide, owner)
            except VersionConflict as exc:
                retry = retry or self._log.retry()
                if not retry.wait(exc, has_turn=has_turn):
                    raise self._contention() from exc

    def append(self, event: Event) -> Entry:
        """Append an event that depends on no state, and drop the held state."""
        refuse_mutators()
        with self._lock:
            state = self._states.cached
            entry = self._log.append(event)
            self._states.drop(state)
        return entry

    def _commit(self, batch: MutationBatch, attempt: _Attempt) -> list[Outcome]:
        """Run the batch on a state and append it; repeat on a fresh state while other writers commit first.

        The time budget for repetitions begins with the first lost race.
        """
        retry: Retry | None = None
        lost: VersionConflict | None = None
        state = self._states.cached
        fresh = state is None or self._log.is_behind()
        while True:
            # Read inside the turn: otherwise a busy process could commit between the read and the append.
            with self._log.turn() if fresh else no_turn() as has_turn:
                if retry and lost and not retry.wait(lost, has_turn=has_turn):
                    raise self._contention() from lost
                if state is None or fresh:
                    state = self._states.fresh()
                try:
                    run = self._try(state, batch, attempt)
                    # A run that writes nothing is final only on a fresh state.
                    if run.ran or fresh:
                        self._report(run)
                        return run.outcomes
                except VersionConflict as exc:
                    lost, retry = exc, retry or self._log.retry()
                except (MergeConflict, QuotaExceeded):
                    # A refusal on an older state may be outdated: run again on a fresh state.
                    if fresh:
                        raise
            fresh = True

    def _try(self, state: State, batch: MutationBatch, attempt: _Attempt) -> Run:
        """Run the batch on ``state`` and commit the mutations that ran, rejected ones too.

        Commits nothing if none ran. Raises VersionConflict, BlobsDeferred.
        """
        try:
            # After `BlobsDeferred` the same run is committed, unless another thread has committed meanwhile.
            run = attempt.run if attempt.run is not None and attempt.state is state else None
            if run is None:
                run = run_batch(state, self._values, batch.mutators, batch.mutations, batch.group, batch.owner)
                attempt.state, attempt.run = state, run
            merged = batch.approve(state, run) if batch.approve else None
            if run.failed:
                # Write the dead letters before the entry, so that no crash loses a letter.
                failed = [(ran.mutation.client, ran.id, ran.reason or "") for ran in run.failed]
                write_letters(self._log.environment, self._log.record, failed)
            if run.ran:
                with self._reserve(state, run, batch, attempt):
                    try:
                        entry = self._append(state, run, batch, merged, attempt.blob_batch)
                    except OutcomeUnknown:
                        # If the entry is committed, a repeated push runs nothing and so reports nothing.
                        self._report(run)
                        raise
                self._states.offer(state.after([entry]))
        except (Corrupt, Unavailable):
            # Any port may have failed. Keep the state unless a chunk of its snapshot is missing. Another load would
            # read all entries since the last snapshot. These are many entries if the blob store has been unreachable
            # for long.
            if state.stale:
                self._states.drop(state)
            raise
        return run

    def _reserve(self, state: State, run: Run, batch: MutationBatch, attempt: _Attempt) -> Reservation:
        """Reserve quota for new clients. Raises the errors of `Admission.reserve`."""
        if batch.admitted or not run.bindings:
            return UNBOUND
        newcomers = Amounts(clients=len(run.bindings))
        organisation = self._log.record.organisation
        # After a lost race the clients are reserved again, but count only once as created.
        creator = batch.owner if newcomers.clients > attempt.counted else ""
        reservation = self._log.environment.reserve(
            organisation, newcomers, document_clients=state.count_clients, principal=creator
        )
        attempt.counted = newcomers.clients
        return reservation

    def _contention(self) -> ContentionError:
        return ContentionError("other writers kept committing to the document first", document=self._log.record.name)

    def _report(self, run: Run) -> None:
        for ran in run.failed:
            of = {"client": ran.mutation.client, "id": ran.id, "mutator": ran.mutation.name}
            kind = (ran.reason or "").partition(":")[0]
            self._log.environment.report(UNEXPECTED, document=self._log.record.name, **of, kind=kind, at=ran.fault)

    def _append(
        self, state: State, run: Run, batch: MutationBatch, merged: Merged | None, blob_batch: BlobBatch
    ) -> Entry:
        blob_batch.begin_try()
        event = commit_of(state, run, self._values, blob_batch, merged).event()
        entry = self._log.append(
            event,
            expected=state.version,
            author=batch.author,
            principal=batch.owner,
            blob_batch=blob_batch,
            checked=True,
        )
        assert entry.version == state.version + 1, "the outcomes of the run name the entry's version"
        return entry

    def _try_decided(self, decide: Callable[[State], Event | None], owner: str) -> tuple[Entry | None, State]:
        state = self._states.fresh()
        event = decide(state)
        if event is None:
            return None, state
        entry = self._log.append(event, expected=state.version, principal=owner)
        return entry, self._states.offer(state.after([entry]))
