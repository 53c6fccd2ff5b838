"""Snapshots of documents: a version's trees as chunk blobs, and their roots in the log's snapshot record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

import msgspec

from stratalog.codec import encode, sha256
from stratalog.documents.layer import Layer
from stratalog.documents.state import EMPTY_ROOTS, Roots, State, reading_chunks
from stratalog.errors import ConditionFailed, Corrupt, Unavailable, VersionForgotten
from stratalog.limits import BLOB_SLICE_BYTES
from stratalog.log import Log
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.chain import genesis
from stratalog.log.head import Head
from stratalog.log.snapshots import Snapshot, put_snapshot
from stratalog.tree.chunks import Chunks
from stratalog.tree.lookup import scan
from stratalog.tree.nodes import EMPTY, Chunk, Slot
from stratalog.tree.update import Write, no_pause, update

__all__ = [
    "LOOKS_MAX",
    "base_digest",
    "load_state",
    "roots_in",
    "roots_of",
    "take_snapshot",
    "tree_roots",
    "unwritten_roots",
]

LOOKS_MAX = 4


def load_state(log: Log, chunks: Chunks, at: int, head: Head | None = None) -> State:
    """Return the state at ``at``, from the newest snapshot at or below ``at`` and the entries after the snapshot.

    ``head`` is a head at or above ``at``; by default the newest head known.

    Raises VersionForgotten if ``at`` is below the floor; Redacted if one of these entries is redacted; Corrupt if kept
    history is missing; Unavailable if the floor rose during each attempt.
    """
    floor = None
    for _ in range(LOOKS_MAX):
        try:
            return _load_once(log, chunks, at, head)
        except VersionForgotten as exc:
            # The floor may have risen above the snapshot or the entries that this attempt used. The snapshot of the new
            # floor replaces them. If the floor did not rise during this attempt, its snapshot is missing.
            before, floor = floor, log.floor()
            if at < floor:
                raise
            if floor == before:
                raise Corrupt("the snapshot of the floor is missing", document=log.record.name, floor=floor) from exc
    raise Unavailable("the history was forgotten while it was read; read again", document=log.record.name)


def _load_once(log: Log, chunks: Chunks, at: int, head: Head | None) -> State:
    """Load the state at ``at``. Raises VersionForgotten if the floor rises above a version that this function reads."""
    snapshot = log.snapshot_at(at)
    version, hash = (snapshot.version, snapshot.hash) if snapshot else (0, genesis(log.record.origin))
    state = State.at_snapshot(chunks, version, hash, roots_in(log, snapshot), partial(_is_retained, log))
    head = head or log.known_head() or log.head()
    if state.version < min(at, log.first):
        # Up to the fork point the clients belong to the ancestor. A fork begins without clients.
        state = state.after(log.read(state.version, min(at, log.first), head=head), clients=False)
    return state.after(log.read(state.version, at, head=head)) if state.version < at else state


def _is_retained(log: Log, version: int, snapshot_version: int) -> bool:
    """Return whether a state's version and snapshot are kept, so that the collector deletes no blob of the state.

    The state's snapshot may be below the floor. It is kept until retention deletes it, after the floor has risen.
    """
    if version < log.floor():
        return False
    snapshot = log.snapshot_at(snapshot_version) if snapshot_version else None
    return (snapshot.version if snapshot else 0) == snapshot_version


def take_snapshot(log: Log, state: State, pause: Callable[[], None] = no_pause) -> State:
    """Make the snapshot of ``state`` unless it exists; return the same state over this snapshot.

    The new snapshot shares chunks with the former snapshot of ``state``: the one at its ``snapshot_version``. The new
    chunks are durable no later than the new snapshot's record. The record is committed only while the former snapshot
    exists and the floor is not above ``state``. Otherwise the collector could delete chunks or values that the new
    snapshot names. If the former snapshot is gone or the version is forgotten, the function makes no snapshot and
    returns ``state`` unchanged. The caller then loads the next state from a snapshot that exists. ``pause`` is called
    after each rewritten chunk.
    """
    base = log.snapshot_at(state.snapshot_version) if state.snapshot_version else None
    if (base.version if base else 0) != state.snapshot_version:
        log.environment.count("snapshot whose base was gone")
        return state
    if base is not None and (base.version, base.prefix) == (state.version, log.record.prefix):
        return state
    blob_batch = BlobBatch(log.environment, BLOB_SLICE_BYTES)
    roots = tree_roots(state, partial(_put_chunks, blob_batch, state.chunks), pause)
    try:
        with blob_batch.sending():
            put_snapshot(log.environment, log.record, state.version, state.hash, encode(roots), base, blob_batch.blobs)
    except ConditionFailed:
        log.environment.count("snapshot whose base was gone")
        return state
    except VersionForgotten:
        log.environment.count("snapshot of a forgotten version")
        return state
    return state.onto(state.version, roots)


def _put_chunks(blob_batch: BlobBatch, chunks: Chunks, fresh: Collection[Chunk]) -> None:
    blob_batch.put_all(chunks.bodies(fresh))
    chunks.note_written(fresh)


def tree_roots(state: State, write: Write | None = None, pause: Callable[[], None] = no_pause) -> Roots:
    """Return the roots of a state's trees. ``write``, or else `Chunks.write_all`, writes the changed chunks.

    If a chunk of the state's snapshot is missing, raises Unavailable if the snapshot was deleted, else Corrupt.
    """
    roots, chunks = state.roots, state.chunks
    with reading_chunks(state):
        tombstones = {**_expired(state), **_patch(state.tombstones, above=state.floor)}
        return Roots(
            update(chunks, roots.content, _patch(state.content), write, pause),
            update(chunks, roots.clients, _patch(state.clients), write, pause),
            update(chunks, roots.tombstones, tombstones, write, pause),
            state.fields_bytes,
            state.floor,
            state.orders,
        )


def unwritten_roots(state: State) -> Roots:
    """Return the roots of a state's trees like `tree_roots`, and write nothing: the changed chunks are dropped."""
    return tree_roots(state, lambda chunks: None)


def base_digest(roots: Roots) -> bytes:
    """Return the hash that identifies a base. The hash covers the base's content and clients.

    The hash does not cover the tombstones, since later floors drop some of them.
    """
    return sha256(encode([roots.content.address, roots.content.digest, roots.clients.address]))


def roots_of(snapshot: Snapshot) -> Roots:
    """Return the roots in a snapshot record. Raises Corrupt."""
    try:
        return _decode_roots(snapshot.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Corrupt("a snapshot's roots cannot be decoded", version=snapshot.version, reason=str(exc)) from exc


def roots_in(log: Log, snapshot: Snapshot | None) -> Roots:
    """Return a snapshot's roots for this log. The clients up to a fork point belong to the ancestor: leave them out."""
    if snapshot is None:
        return EMPTY_ROOTS
    roots = roots_of(snapshot)
    return msgspec.structs.replace(roots, clients=EMPTY) if snapshot.version <= log.first else roots


_decode_roots = msgspec.msgpack.Decoder(Roots).decode


def _patch(layer: Layer, above: int = 0) -> Mapping[str, Slot | None]:
    return {
        key: slot if slot.value and (slot.version > above or key.startswith("\0")) else None
        for key, slot in layer.changes().items()
    }


def _expired(state: State) -> dict[str, Slot | None]:
    """Return the deletions of the tombstones at or below the floor, if the floor rose since the last snapshot.

    The tree also has a row for each collection, with the newest version that changed the collection. These rows stay.
    Their keys begin with a null character.
    """
    if state.floor == state.roots.floor:
        return {}
    tombstones = scan(state.chunks, state.roots.tombstones)
    return {key: None for key, slot in tombstones if slot.version <= state.floor and not key.startswith("\0")}
