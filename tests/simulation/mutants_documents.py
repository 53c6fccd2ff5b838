"""Bugs planted in documents. A checker of the world of documents must catch each bug."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import msgspec

from stratalog.codec import sha256
from stratalog.documents import Document, projections, rejections, run, snapshots, writer
from stratalog.documents.commit_builder import commit_of
from stratalog.documents.layer import Layer
from stratalog.documents.run import Run, _Running, run_batch
from stratalog.documents.state import ClientState, Roots, State
from stratalog.documents.writer import MutationBatch, Writer
from stratalog.keys import number, snapshots_partition
from stratalog.log import Entry, retention
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.bodies import BodyRef, write_body
from stratalog.log.environment import Environment
from stratalog.log.names import NameRecord
from stratalog.log.snapshots import Snapshot, newest_snapshot
from stratalog.ports.index import Delete, Item, Put
from stratalog.protocol import Mutation, Outcome
from tests.simulation.mutants import Mutant, replaced, together
from tests.simulation.world_documents import DocumentWorld

__all__ = ["MUTANTS"]

# In the package `documents`, the function `replay` hides the module of the same name.
replay: Any = import_module("stratalog.documents.replay")

_run = _Running._run
_status = _Running._status
_commit = Writer._commit
_try = Writer._try
_write_letters = rejections.write_letters
_forget_below = retention._forget_below
_own_mutations = replay._own_mutations


def _unrecorded_rejection(running: _Running, mutation: Mutation, args: bytes) -> Outcome:
    outcome = _run(running, mutation, args)
    if outcome.status == "rejected":
        running.ran.pop()
        running._clients[mutation.client] = ClientState(mutation.id - 1, b"")
    return outcome


def _apply_again(running: _Running, mutation: Mutation, last: Any, id: int, args: bytes) -> Any:
    status = _status(running, mutation, last, id, args)
    return None if status == "seen" else status


def _skip_gaps(running: _Running, mutation: Mutation, last: Any, id: int, args: bytes) -> Any:
    status = _status(running, mutation, last, id, args)
    return None if status == "gap" else status


def _answer_from_memory(self: Writer, batch: MutationBatch, attempt: Any) -> Sequence[Outcome]:
    state = self._states.cached or self._states.fresh()
    batch_run = run_batch(state, self._values, batch.mutators, batch.mutations, batch.group, batch.owner)
    return _commit(self, batch, attempt) if batch_run.ran else batch_run.outcomes


def _replace_newest(
    environment: Environment,
    record: NameRecord,
    version: int,
    hash: bytes,
    body: bytes,
    base: Snapshot | None,
    blobs: Mapping[str, bytes],
) -> bool:
    """Store each snapshot under the newest number, so that an older snapshot replaces a newer one."""
    newest = newest_snapshot(environment.index, record.prefix, 10**9)
    sort = number(max(version, newest.version if newest else 0))
    item = Item(snapshots_partition(record.prefix), sort, {"c": 1, "w": "one", "b": body, "h": hash})
    environment.index.commit([Put(item)], blobs)
    environment.count("snapshot")
    return True


def _forget_base(environment: Environment, prefix: str, floor: int) -> None:
    _forget_below(environment, prefix, floor)
    environment.index.commit([Delete(snapshots_partition(prefix), number(floor))])


def _unnumbered(fork: Document) -> Iterator[Any]:
    for own in _own_mutations(fork):
        yield msgspec.structs.replace(own, mutation=msgspec.structs.replace(own.mutation, id=0))


def _onto_alone(state: State, snapshot_version: int, roots: Roots) -> State:
    """Move the state onto a newer snapshot without the commits made since that snapshot."""
    empty = (Layer(roots.content), Layer(roots.clients), Layer(roots.tombstones))
    moved = State(state.chunks, state.version, state.hash, snapshot_version, roots, empty)
    moved.fields_bytes, moved.floor = state.fields_bytes, state.floor
    return moved


class _Later(BlobBatch):
    """A batch that only collects its blobs. The caller puts the blobs later."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.waiting: list[tuple[str, bytes]] = []

    def write(self, prefix: str, body: bytes) -> BodyRef:
        self.waiting.append((prefix, body))
        return BodyRef(sha256(body), len(body))


def _append_first(
    self: Writer, state: State, run: Run, batch: MutationBatch, merged: Any, blob_batch: BlobBatch
) -> Entry:
    later = _Later(self._log.environment)
    event = commit_of(state, run, self._values, later, merged).event()
    entry = self._log.append(event, expected=state.version, author=batch.author, principal=batch.owner)
    for prefix, body in later.waiting:
        write_body(self._log.environment.blobs, prefix, body)
    return entry


def _forget_deferred(blob_batch: BlobBatch) -> None:
    """Count the deferred blobs as put."""
    deferred, blob_batch._deferred = blob_batch._deferred, None
    blob_batch._ahead.update(deferred or {})


ONCE = ("once", "answers", "acknowledged", "client-order")


def _no_letters(environment: Environment, record: Any, failed: Any) -> None:
    """Write no dead letters for faults. The commit stores only the rejection."""


def _letters_last(self: Writer, *arguments: Any) -> Run:
    """Write dead letters after the commit. A process that ends after the commit then loses the letter."""
    ran = _try(self, *arguments)
    if ran.failed:
        failed = [(failure.mutation.client, failure.id, failure.reason or "") for failure in ran.failed]
        _write_letters(self._log.environment, self._log.record, failed)
    return ran


MUTANTS = (
    Mutant("documents: rejection unrecorded", DocumentWorld, replaced(_Running, "_run", _unrecorded_rejection), ONCE),
    Mutant(
        "documents: seen mutation applied again",
        DocumentWorld,
        replaced(_Running, "_status", _apply_again),
        (*ONCE, "key-bound"),
    ),
    Mutant("documents: gap skipped", DocumentWorld, replaced(_Running, "_status", _skip_gaps), ONCE),
    Mutant(
        "documents: final answer from memory",
        DocumentWorld,
        replaced(Writer, "_commit", _answer_from_memory),
        ("answers",),
    ),
    Mutant(
        "documents: older snapshot replaces newer",
        DocumentWorld,
        replaced(snapshots, "put_snapshot", _replace_newest),
        ("state", "rebuilt", "outcome", "kept", "key-bound", *ONCE),
    ),
    Mutant(
        "documents: commits during a snapshot forgotten",
        DocumentWorld,
        replaced(State, "onto", _onto_alone),
        ("state", "rebuilt", "outcome", "kept", "key-bound", *ONCE),
    ),
    Mutant(
        "documents: base collected",
        DocumentWorld,
        replaced(retention, "_forget_below", _forget_base),
        ("kept", "dangling"),
    ),
    Mutant(
        "documents: merge without the fork's ids",
        DocumentWorld,
        replaced(replay, "_own_mutations", _unnumbered),
        ("merged",),
    ),
    Mutant(
        "documents: outcomes of a merge not checked",
        DocumentWorld,
        replaced(replay, "_check_outcome", lambda own, outcome, target: None),
        ("merged",),
    ),
    Mutant(
        "documents: payload of the last number not compared",
        DocumentWorld,
        replaced(run, "same_payload", lambda stored, asked: True),
        ("key-bound",),
    ),
    Mutant(
        "documents: checkpoint unconditional",
        DocumentWorld,
        replaced(projections, "Equals", lambda name, value: None),
        ("projected",),
    ),
    Mutant(
        "documents: client collected without marker",
        DocumentWorld,
        replaced(State, "group_collected", lambda state, group: False),
        ("collected",),
    ),
    Mutant(
        "documents: shortage committed as a rejection",
        DocumentWorld,
        together(
            replaced(run, "PORT_ERRORS", tuple(kind for kind in run.PORT_ERRORS if kind is not MemoryError)),
            replaced(run, "is_shortage", lambda exc: False),
            replaced(run, "is_unexpected", lambda exc: type(exc) is ZeroDivisionError),
        ),
        ("outcome",),
    ),
    Mutant(
        "documents: fault without a letter",
        DocumentWorld,
        replaced(writer, "write_letters", _no_letters),
        ("letters",),
    ),
    Mutant(
        "documents: letter after the entry",
        DocumentWorld,
        together(replaced(writer, "write_letters", _no_letters), replaced(Writer, "_try", _letters_last)),
        ("letters",),
    ),
    Mutant(
        "documents: rule treated as a fault",
        DocumentWorld,
        replaced(run, "is_unexpected", lambda exc: True),
        ("letters",),
    ),
    Mutant("documents: pointer before blob", DocumentWorld, replaced(Writer, "_append", _append_first), ("dangling",)),
    Mutant(
        "documents: deferred blob not put",
        DocumentWorld,
        replaced(BlobBatch, "put_deferred", _forget_deferred),
        ("dangling",),
    ),
)
