"""Rebuilding: compute a document's state again from its log; it must have the same roots as every snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from stratalog.documents.commits import BASE
from stratalog.documents.snapshots import base_digest, load_state, roots_of, tree_roots
from stratalog.documents.state import EMPTY_ROOTS, State
from stratalog.errors import Corrupt, Redacted
from stratalog.log import Entry, Log
from stratalog.log.chain import checked_entries
from stratalog.log.snapshots import Snapshot, list_snapshots
from stratalog.tree.chunks import Chunks
from stratalog.tree.reach import verify as verify_tree

__all__ = ["BaseContradicted", "Rebuild", "Verified", "verify"]

BATCH_ENTRIES = 500


class _Document(Protocol):
    """A document as seen here: a log, and the chunks of its owner."""

    @property
    def log(self) -> Log: ...

    @property
    def chunks(self) -> Chunks: ...


class Verified(msgspec.Struct, frozen=True):
    """The facts that a verification established."""

    version: int
    start: int
    """The version it rebuilt from: 0, the floor, or where the document was forked."""

    snapshots: int
    root: str
    digest: str
    hash: bytes
    """The hash of the history up to the version."""

    redacted: tuple[int, ...] = ()
    """Versions whose bodies were erased. Up to the next snapshot only the chain was verified, since no state exists."""


def verify(document: _Document, upto: int | None = None, *, progress: Callable[[int], None] | None = None) -> Verified:
    """Rebuild from the first kept version up to ``upto`` (the head, if None), comparing with every snapshot on the way.

    Reads every entry. After a redacted entry it resumes from the next snapshot, and reads every chunk of that.
    ``progress`` is called with the number of entries read since its last call.

    Raises Corrupt where a root differs, an entry is missing or does not continue the history before it, or bytes are
    damaged; Redacted where no state of ``upto`` can be computed.
    """
    rebuild = Rebuild(document.log, _uncached(document), progress)
    last, start = document.log.head().version if upto is None else upto, rebuild.version
    for snapshot in list_snapshots(document.log.environment.index, document.log.record.prefix):
        if start < snapshot.version <= last:
            rebuild.advance(snapshot.version)
            rebuild.compare(snapshot)
    rebuild.advance(last)
    if rebuild.state is None:
        raise Redacted("there is no snapshot between a redacted version and this one", version=last)
    roots = tree_roots(rebuild.state)
    return Verified(
        last,
        start,
        rebuild.compared,
        roots.content.address.hex(),
        roots.content.digest.hex(),
        rebuild.hash,
        tuple(rebuild.redacted),
    )


def _uncached(document: _Document) -> Chunks:
    """Return chunks that bypass the store's cache, so that the stored bytes are verified."""
    return Chunks(document.log.environment.blobs, document.log.record.owner)


class BaseContradicted(Corrupt):
    """The base that a rebuild began with is not the base named by an entry above it."""


class Rebuild:
    """A walk over the entries. ``state`` is None from a redacted entry to the next snapshot.

    The chunks of the states on the way are written to ``chunks``, and those of the first state are read from there.
    """

    def __init__(self, log: Log, chunks: Chunks, progress: Callable[[int], None] | None = None) -> None:
        """Raises Corrupt or VersionForgotten where the first state cannot be loaded."""
        self._log = log
        self._chunks = chunks
        self._progress = progress
        state = _start(log, chunks)
        self._start, self._base = state.version, base_digest(tree_roots(state))
        self.state: State | None = state
        self.version, self.hash = state.version, state.hash
        self.compared: int = 0
        self.redacted: list[int] = []

    def advance(self, upto: int) -> None:
        """Read the entries up to a version."""
        while self.version < upto:
            before = self.version
            entries = self._log.read(before, min(upto, before + BATCH_ENTRIES))
            self._take(self._readable(checked_entries(self.hash, entries)))
            if self._progress:
                self._progress(self.version - before)

    def compare(self, snapshot: Snapshot) -> None:
        """Compare with a snapshot of the current version, and continue from it.

        Where no state was computed, every chunk of the snapshot is read instead. Raises Corrupt.
        """
        _compare_hash(snapshot.version, self.hash, snapshot.hash)
        chunks = self._chunks
        if self.state is None:
            roots = roots_of(snapshot)
            for root in (roots.content, roots.clients, roots.tombstones):
                verify_tree(chunks, root)
        else:
            _compare(self.state, snapshot)
            roots = tree_roots(self.state)
            self.compared += 1
        self.state = State.at_snapshot(chunks, self.version, self.hash, roots)

    def _take(self, entries: Iterator[Entry]) -> None:
        count = len(self.redacted)
        if self.state is None:
            for _ in entries:
                pass
            return
        state = self.state.after(entries)
        # Fold the batch into trees, so that memory holds the changes of one batch at most.
        self.state = State.at_snapshot(self._chunks, state.version, state.hash, tree_roots(state))
        if len(self.redacted) > count:
            self.state = None

    def _readable(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        """Yield the entries before the first redacted one, and pass over that one; `advance` continues after it."""
        for entry in entries:
            self.version, self.hash = entry.version, entry.hash
            if entry.redacted:
                self.redacted.append(entry.version)
                return
            self._check_base(entry)
            yield entry

    def _check_base(self, entry: Entry) -> None:
        """Raise BaseContradicted if an entry names another base at the start than this rebuild began with."""
        for event in entry.events:
            if event.type == BASE and event.data[0] == self._start and event.data[1] != self._base:
                raise BaseContradicted("the base contradicts the history", version=self._start)


def _start(log: Log, chunks: Chunks) -> State:
    """Return the state that a rebuild begins with: the base at the floor, the state forked from, or the empty state."""
    first = max(log.floor(), log.first)
    if not first:
        return State.at_snapshot(chunks, 0, log.hash_at(0), EMPTY_ROOTS)
    state = load_state(log, chunks, first)
    _compare_hash(state.version, state.hash, log.hash_at(first))
    return state


def _compare(state: State, snapshot: Snapshot) -> None:
    rebuilt, stored = tree_roots(state), roots_of(snapshot)
    for name in ("content", "clients", "tombstones"):
        ours, theirs = getattr(rebuilt, name).address, getattr(stored, name).address
        if ours != theirs:
            raise Corrupt(
                f"a snapshot's {name} contradicts its log",
                version=state.version,
                stored=theirs.hex(),
                rebuilt=ours.hex(),
            )
    if rebuilt != stored:
        raise Corrupt("a snapshot's client numbers contradict its log", version=state.version)


def _compare_hash(version: int, computed: bytes, stored: bytes) -> None:
    if computed != stored:
        raise Corrupt(
            "a snapshot or a floor belongs to another history than its log",
            version=version,
            stored=stored.hex(),
            computed=computed.hex(),
        )
