"""Replay: a fork's own mutations run again on another base, with a report of what came out differently.

Merging is replay that commits. The mutations are committed as client ``replay/<fork incarnation>``, numbered by the
fork's order and with their origin, so a merge repeated, or continued after a crash, changes nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from stratalog.codec import decode
from stratalog.documents.commit_builder import load_arguments
from stratalog.documents.commits import Commit, read_commit
from stratalog.documents.document import Document
from stratalog.documents.run import Ran, run_batch
from stratalog.documents.state import State
from stratalog.protocol.messages import Mutation

__all__ = ["Replayed", "merge", "replay"]

BATCH_MUTATIONS = 100
"""Mutations committed together by a merge."""


class Replayed(msgspec.Struct, frozen=True):
    """One mutation of the fork, there and here."""

    client: str
    id: int
    name: str
    args: Any
    version: int
    """The fork's version that committed it."""

    reason_before: str | None
    reason_after: str | None
    same: bool
    """Whether it was applied or rejected as before, and left the keys it touched as it left them before."""

    differences: dict[str, tuple[Any, Any]]
    """Key → the value it left in the fork, the value it leaves here; None where it is absent."""

    merged_in: int | None = None
    """The version of the target that committed it, after a merge."""


def replay(fork: Document, target: Document, *, after: int | None = None) -> list[Replayed]:
    """Run the fork's own mutations on the target's newest state, and only report."""
    state = target.state()
    batch = list(_own_mutations(fork, fork.log.first if after is None else after))
    return _reports(batch, state, target)


def merge(fork: Document, target: Document) -> list[Replayed]:
    """Run the fork's own mutations on the target and commit them there; report as `replay` does."""
    report: list[Replayed] = []
    own = list(_own_mutations(fork, fork.log.first))
    for start in range(0, len(own), BATCH_MUTATIONS):
        batch = own[start : start + BATCH_MUTATIONS]
        outcomes = target.apply([change.mutation for change in batch], author=_replay_client(fork))
        version = next((outcome.version for outcome in outcomes if outcome.version), None)
        state = target.state(None if version is None else version - 1)
        report += [
            msgspec.structs.replace(change, merged_in=outcome.version)
            for change, outcome in zip(_reports(batch, state, target), outcomes, strict=True)
        ]
    return report


class _Own(msgspec.Struct, frozen=True):
    """A mutation of the fork on its way to another base, and what it did in the fork."""

    mutation: Mutation
    version: int
    reason: str | None
    effects: dict[str, Any]


def _own_mutations(fork: Document, after: int) -> Iterator[_Own]:
    number = 0
    for entry in fork.log.read(fork.log.first):
        commit = read_commit(entry)
        for position, recorded in enumerate(commit.mutations):
            number += 1
            if entry.version <= after:
                continue
            mutation = Mutation(
                client=_replay_client(fork),
                id=number,
                name=recorded.name,
                args=load_arguments(recorded, fork.values),
                origin=recorded.origin or (recorded.client, recorded.id),
            )
            yield _Own(mutation, entry.version, recorded.reason, _effects(fork, commit, position))


def _effects(fork: Document, commit: Commit, position: int) -> dict[str, Any]:
    """What a mutation left behind: the keys it was the last of its entry to touch."""
    return {
        change.key: None if change.value is None else decode(fork.values.load(change.value))
        for change in commit.patch
        if change.by and change.by[-1] == position
    }


def _reports(batch: list[_Own], state: State, target: Document) -> list[Replayed]:
    """Run a batch on a state of the target, without those that it has merged already, and compare."""
    newest = state.client(batch[0].mutation.client) if batch else None
    waiting = [change.mutation for change in batch if newest is None or change.mutation.id > newest.id]
    unnumbered = [msgspec.structs.replace(mutation, id=0) for mutation in waiting]
    run = run_batch(state, target.values, target.rules.mutators, unnumbered, "", "")
    by_id = {mutation.id: ran for mutation, ran in zip(waiting, run.ran, strict=False)}
    return [_report(change, by_id.get(change.mutation.id)) for change in batch]


def _report(own: _Own, ran: Ran | None) -> Replayed:
    """Compare there and here. A mutation that was merged before is not run again and counts as the same."""
    origin = own.mutation.origin or ("", 0)
    reason = ran.reason if ran else own.reason
    differences = _differences(own, ran) if ran else {}
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


def _differences(own: _Own, ran: Ran) -> dict[str, tuple[Any, Any]]:
    here = {key: None if encoded is None else decode(encoded) for key, encoded in ran.changes.items()}
    if own.reason is not None or ran.reason is not None:
        return {}
    return {key: (value, here.get(key)) for key, value in own.effects.items() if value != here.get(key)}


def _replay_client(fork: Document) -> str:
    return f"replay/{fork.log.record.incarnation}"
