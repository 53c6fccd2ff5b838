"""Rebuilding: a document's state once more from its log, which must arrive at the same roots as every snapshot."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stratalog.documents.document import Document
from stratalog.documents.snapshots import load_state, roots_of, tree_roots
from stratalog.documents.state import EMPTY_ROOTS, State
from stratalog.errors import Corrupt
from stratalog.log.chain import checked_entries
from stratalog.log.snapshots import Snapshot, list_snapshots

__all__ = ["Verified", "verify"]

BATCH_ENTRIES = 500


class Verified(msgspec.Struct, frozen=True):
    """What a verification found to hold."""

    version: int
    start: int
    """The base it rebuilt from: 0, the floor, or where the document was forked."""

    snapshots: int
    root: str
    digest: str


def verify(document: Document, upto: int | None = None, *, progress: Callable[[int], None] | None = None) -> Verified:
    """Rebuild from the first version kept up to ``upto`` and compare with every snapshot on the way.

    Reads every entry. Raises Corrupt where a root differs, an entry is missing or does not continue the history before
    it, or bytes are damaged.
    """
    state = _start(document)
    last = document.version if upto is None else upto
    start, compared = state.version, 0
    for snapshot in list_snapshots(document.log.environment.index, document.log.record.prefix):
        if start < snapshot.version <= last:
            state = _advance(document, state, snapshot.version, progress)
            _compare(state, snapshot)
            state = State.at_snapshot(document.chunks, state.version, state.hash, tree_roots(state))
            compared += 1
    state = _advance(document, state, last, progress)
    roots = tree_roots(state)
    return Verified(last, start, compared, roots.content.address.hex(), roots.content.digest.hex())


def _start(document: Document) -> State:
    """Where a rebuild begins: the base at the floor, the state forked from, or nothing at all."""
    first = max(document.log.floor(), document.log.first)
    if not first:
        return State.at_snapshot(document.chunks, 0, document.log.hash_at(0), EMPTY_ROOTS)
    state = load_state(document.log, document.chunks, first)
    _compare_hash(state, document.log.hash_at(first))
    return state


def _advance(document: Document, state: State, upto: int, progress: Callable[[int], None] | None) -> State:
    while state.version < upto:
        before = state.version
        entries = document.log.read(before, min(upto, before + BATCH_ENTRIES))
        state = state.after(checked_entries(state.hash, entries))
        state = State.at_snapshot(document.chunks, state.version, state.hash, tree_roots(state))
        if progress:
            progress(state.version - before)
    return state


def _compare(state: State, snapshot: Snapshot) -> None:
    _compare_hash(state, snapshot.hash)
    rebuilt, stored = tree_roots(state), roots_of(snapshot)
    for name in ("content", "clients", "tombstones"):
        ours, theirs = getattr(rebuilt, name).address, getattr(stored, name).address
        if ours != theirs:
            raise Corrupt(
                f"a snapshot's {name} is not what its log says",
                version=state.version,
                stored=theirs.hex(),
                rebuilt=ours.hex(),
            )


def _compare_hash(state: State, stored: bytes) -> None:
    if state.hash != stored:
        raise Corrupt(
            "a snapshot or a floor names another history than its log",
            version=state.version,
            stored=stored.hex(),
            computed=state.hash.hex(),
        )
