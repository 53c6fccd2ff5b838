"""Replay: run a fork's own mutations again on another document, and report the differences.

A merge is a replay that commits. The merge commits the mutations under one client per fork, numbered in the fork's
order and with their origin. So a merge that is repeated, or resumed after a crash, applies nothing twice. The target
records the progress of the merge. A later merge compares this record with the fork, and detects a fork that lost merged
mutations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from stratalog.arguments import check_class
from stratalog.codec import decode
from stratalog.documents.commit_builder import load_arguments
from stratalog.documents.commits import Commit, Merged, read_commit
from stratalog.documents.document import Document
from stratalog.documents.history import reading_entry
from stratalog.documents.run import Ran, Run, run_batch
from stratalog.documents.state import ClientState, State
from stratalog.documents.view import View
from stratalog.errors import Invalid, MergeConflict, NotFound, VersionForgotten
from stratalog.protocol.messages import Mutation, Outcome

__all__ = ["ReplayReport", "Replayed", "merge", "merge_client", "replay"]

BATCH_MUTATIONS = 100
"""A merge commits at most this many mutations as one entry."""


class Replayed(msgspec.Struct, frozen=True):
    """One mutation of the fork, with its outcome in the fork and on the target."""

    client: str
    id: int
    name: str
    args: Any
    version: int
    """The fork's version that committed the mutation."""

    reason_before: str | None
    reason_after: str | None
    same: bool
    """Whether the fork and the target both rejected the mutation, or both applied it with the same resulting values.

    The keys that the mutation changed in the fork or on the target are compared, except keys that a later mutation of
    the same entry changed.
    """

    differences: dict[str, tuple[Any, Any]]
    """Key → (the value afterwards in the fork, the value afterwards on the target); None for an absent key."""

    merged_in: int | None = None
    """After a merge, the version of the target that committed the mutation; None if an earlier merge committed it."""


class ReplayReport(msgspec.Struct, frozen=True):
    """The mutations of a replay or merge, in the fork's order, with counts by outcome."""

    mutations: list[Replayed]

    @property
    def applied(self) -> int:
        """The number of mutations that take effect on the target."""
        return sum(replayed.reason_after is None for replayed in self.mutations)

    @property
    def rejected(self) -> int:
        """The number of mutations that the target rejects."""
        return len(self.mutations) - self.applied

    @property
    def different(self) -> int:
        """The number of mutations whose values differ from the fork's, or that only the fork or the target rejects."""
        return sum(not replayed.same for replayed in self.mutations)

    def __iter__(self) -> Iterator[Replayed]:
        return iter(self.mutations)

    def __len__(self) -> int:
        return len(self.mutations)


def replay(fork: Document, target: Document, *, after: int | None = None) -> ReplayReport:
    """Run the fork's own mutations on the target's newest state and report the results. Commits nothing.

    The replay leaves out the mutations of the fork's versions up to ``after``. It does not run mutations that were
    merged before. Raises MergeConflict for a fork that lost merged mutations, Invalid for a document and itself, and
    VersionForgotten or Redacted if an entry of the fork cannot be read.
    """
    _check_pair(fork, target)
    state = target.state()
    own = list(_own_mutations(fork))
    _check_continues(state, own, target)
    start = fork.log.first if after is None else after
    return ReplayReport(_replayed([change for change in own if change.version > start], state, fork, target))


def merge(fork: Document, target: Document) -> ReplayReport:
    """Run the fork's own mutations on the target and commit them to the target; return a report as `replay` does.

    The merge first runs all mutations on one state of the target. This run must apply each mutation, or reject it as
    the fork did, or find that it was merged before.

    Raises MergeConflict if a mutation fails this condition: nothing more is written. A merge of more than
    `BATCH_MUTATIONS` mutations takes several entries. If another writer commits between two of these entries, the merge
    checks the remaining mutations again on one state. If this check fails, the entries written so far stay. Raises
    Invalid for a document and itself. Also raises the errors of `Document.apply`: call `merge` again, which resumes the
    merge.
    """
    _check_pair(fork, target)
    return _Merge(fork, target).run()


def _check_pair(fork: Document, target: Document) -> None:
    check_class(Document, fork=fork, target=target)
    if fork.log.record.prefix == target.log.record.prefix:
        # Each merge would add the mutations of the last merge to the next one.
        raise Invalid("a document cannot be merged into itself", document=fork.name)


def merge_client(fork: Document) -> str:
    """Return the client that commits a fork's merge: ``replay/<branch>/<fork point>``.

    Exports, imports and copies of the fork keep this client. The branch is the hash of the fork's first own entry. The
    origin would not identify the fork: all forks of one document at one version have the same origin.
    """
    try:
        branch = fork.log.entry(fork.log.first + 1).hash.hex()
    except VersionForgotten:
        # VersionForgotten is a NotFound too, but means that the first own entry existed.
        raise
    except NotFound:
        branch = fork.log.record.incarnation  # no own entry, so no mutation is ever committed as this client
    return f"replay/{branch}/{fork.log.first}"


def continues_merge(merged: ClientState, own: Sequence[_Own]) -> bool:
    """Return whether the fork with the mutations ``own`` still has all merged mutations, in the same entries.

    Equal payloads prove nothing: a fork that was rolled back may have made the same change again.
    """
    if merged.id > len(own):
        return False
    last = own[merged.id - 1]
    return merged.merged == (last.version, last.hash)


class _Own(msgspec.Struct, frozen=True):
    """A mutation of the fork that will run on the target, and its effects in the fork."""

    mutation: Mutation
    version: int
    hash: bytes
    reason: str | None
    effects: dict[str, Any]
    position: int
    """The position of the mutation in its entry."""

    last: Mapping[str, int]
    """Each key that the entry changed, and the position of the last mutation that changed it. The mutations of an entry
    share this mapping."""

    def is_overwritten(self, key: str) -> bool:
        """Return whether a later mutation of the same entry changed the key."""
        return self.last.get(key, -1) > self.position


class _Merge:
    """One merge, committed in batches. Each batch is checked on the state that its entry follows."""

    def __init__(self, fork: Document, target: Document) -> None:
        self._fork = fork
        self._target = target
        self._own = list(_own_mutations(fork))
        self._start = 0
        self._approved = -1
        """The target's version on which all mutations from ``_start`` on were checked."""

        self._reports: list[Replayed] = []

    def run(self) -> ReplayReport:
        report: list[Replayed] = []
        while self._start < len(self._own):
            batch = self._batch()
            author = batch[0].mutation.client
            outcomes = self._target.apply_merge([own.mutation for own in batch], self._approve, author=author)
            report += [
                msgspec.structs.replace(replayed, merged_in=outcome.version)
                for replayed, outcome in zip(self._reports, outcomes, strict=True)
            ]
            self._start += len(batch)
            # If no other writer commits in between, the checks of later mutations stay valid after this batch's entry.
            self._approved = max(outcome.version or self._approved for outcome in outcomes)
        return ReplayReport(report)

    def _batch(self) -> list[_Own]:
        return self._own[self._start : self._start + BATCH_MUTATIONS]

    def _approve(self, state: State, run: Run) -> Merged:
        """Check the batch and all later mutations on ``state``; return the progress to record. Raises MergeConflict."""
        batch, rest = self._batch(), self._own[self._start :]
        _check_continues(state, self._own, self._target)
        if state.version != self._approved:
            outcomes = run.outcomes if len(rest) == len(batch) else self._run_all(state, rest).outcomes
            for own, outcome in zip(rest, outcomes, strict=True):
                _check_outcome(own, outcome, self._target)
            self._approved = state.version
        # Before the commit: the comparison reads values, and an error of a read must not hide a commit.
        self._reports = _reports(batch, {ran.id: ran for ran in run.ran}, state, self._fork, self._target)
        return Merged(batch[-1].mutation.client, batch[-1].version, batch[-1].hash)

    def _run_all(self, state: State, rest: Sequence[_Own]) -> Run:
        values, mutators = self._target.stored_values, self._target.rules.mutators
        return run_batch(state, values, mutators, [own.mutation for own in rest], "", "")


def _check_continues(state: State, own: Sequence[_Own], target: Document) -> None:
    merged = state.client(own[0].mutation.client) if own else None
    if merged is not None and not continues_merge(merged, own):
        raise MergeConflict("the fork lost history that was merged", log=target.name, merged=merged.id)


def _check_outcome(own: _Own, outcome: Outcome, target: Document) -> None:
    if outcome.status in ("applied", "seen") or (outcome.status == "rejected" and own.reason is not None):
        return
    client, id = own.mutation.origin or ("", 0)
    raise MergeConflict(
        "a mutation of the fork cannot be merged",
        log=target.name,
        client=client,
        id=id,
        status=outcome.status,
        reason=outcome.reason or "",
    )


def _own_mutations(fork: Document) -> Iterator[_Own]:
    number, client = 0, merge_client(fork)
    for entry in fork.log.read(fork.log.first):
        commit = read_commit(entry)
        last = {change.key: change.by[-1] for change in commit.patch if change.by}
        with reading_entry(fork.log, entry.version):
            effects = _effects(fork, commit)
            arguments = [load_arguments(recorded, commit.patch, fork.stored_values) for recorded in commit.mutations]
        for position, (recorded, args) in enumerate(zip(commit.mutations, arguments, strict=True)):
            number += 1
            mutation = Mutation(
                client=client,
                id=number,
                name=recorded.name,
                args=args,
                origin=recorded.origin or (recorded.client, recorded.id),
            )
            yield _Own(mutation, entry.version, entry.hash, recorded.reason, effects.get(position, {}), position, last)


def _effects(fork: Document, commit: Commit) -> dict[int, dict[str, Any]]:
    """Return by position the values of the keys that a mutation touched and no later mutation of its entry touched."""
    effects: dict[int, dict[str, Any]] = {}
    for change in commit.patch:
        if change.by:
            value = None if change.value is None else decode(fork.stored_values.load(change.value))
            effects.setdefault(change.by[-1], {})[change.key] = value
    return effects


def _replayed(batch: list[_Own], state: State, fork: Document, target: Document) -> list[Replayed]:
    """Run the mutations of a batch that are not merged yet on a state of the target, and compare the results."""
    newest = state.client(batch[0].mutation.client) if batch else None
    waiting = [change.mutation for change in batch if newest is None or change.mutation.id > newest.id]
    # The mutations run without numbers: the numbers of a replay that starts later in the fork would have a gap.
    unnumbered = [msgspec.structs.replace(mutation, id=0) for mutation in waiting]
    run = run_batch(state, target.stored_values, target.rules.mutators, unnumbered, "", "")
    by_id = {mutation.id: ran for mutation, ran in zip(waiting, run.ran, strict=False)}
    return _reports(batch, by_id, state, fork, target)


def _reports(
    batch: list[_Own], by_id: Mapping[int, Ran], state: State, fork: Document, target: Document
) -> list[Replayed]:
    """Compare the results in the fork and on the target. A mutation that was merged before is not in ``by_id``."""
    comparison = _Comparison(batch, by_id, state, fork, target)
    return [_report(own, by_id.get(own.mutation.id), comparison) for own in batch]


def _report(own: _Own, ran: Ran | None, comparison: _Comparison) -> Replayed:
    """Return the results of one mutation. A mutation that was merged before counts as the same."""
    origin = own.mutation.origin or ("", 0)
    reason = ran.reason if ran else own.reason
    differences = comparison.differences(own, ran) if ran else {}
    return Replayed(
        client=origin[0],
        id=origin[1],
        name=own.mutation.name,
        args=own.mutation.args,
        version=own.version,
        reason_before=own.reason,
        reason_after=reason,
        same=not differences and (own.reason is None) == (reason is None),
        differences=differences,
    )


class _Comparison:
    """Compares the values after each mutation in the fork with the values after a run on ``state`` of the target."""

    def __init__(
        self, batch: list[_Own], by_id: Mapping[int, Ran], state: State, fork: Document, target: Document
    ) -> None:
        self._fork = fork
        self._view: View | None = None
        self._state = View(state, target.stored_values)
        self._changes: dict[str, bytes | None] = {}
        self._last: dict[tuple[int, str], int] = {}
        """(version of the fork, key) → the last mutation of this version that changed the key on the target."""

        for own in batch:
            if (ran := by_id.get(own.mutation.id)) is not None:
                self._last.update(dict.fromkeys(((own.version, key) for key in ran.changes), own.mutation.id))

    def differences(self, own: _Own, ran: Ran) -> dict[str, tuple[Any, Any]]:
        """Return the differences after one mutation. Call this method for the mutations in their order."""
        self._changes.update(ran.changes)
        if own.reason is not None or ran.reason is not None:
            return {}
        changed = {key for key in ran.changes if self._last[own.version, key] == own.mutation.id}
        keys = sorted(own.effects.keys() | {key for key in changed if not own.is_overwritten(key)})
        values = {key: (self._in_fork(own, key), self._on_target(key)) for key in keys}
        return {key: pair for key, pair in values.items() if pair[0] != pair[1]}

    def _in_fork(self, own: _Own, key: str) -> Any:
        if key in own.effects:
            return own.effects[key]
        if self._view is None or self._view.version != own.version:
            self._view = self._fork.at(own.version)
        return self._view.get(key)

    def _on_target(self, key: str) -> Any:
        if key not in self._changes:
            return self._state.get(key)
        encoded = self._changes[key]
        return None if encoded is None else decode(encoded)
