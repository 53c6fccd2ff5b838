"""Rebuilding: compute a document's state again from its log. The state's roots must equal each snapshot's roots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Protocol, runtime_checkable

import msgspec

from stratalog.arguments import check_class
from stratalog.documents.commits import BASE, check_form
from stratalog.documents.named_chunks import NamedChunks, names_chunk
from stratalog.documents.snapshots import base_digest, load_state, roots_in, roots_of, tree_roots
from stratalog.documents.state import EMPTY_ROOTS, Roots, State
from stratalog.errors import Corrupt, NotFound, Redacted, Unavailable
from stratalog.log import Entry, Log
from stratalog.log.callbacks import Report
from stratalog.log.chain import checked_entries
from stratalog.log.snapshots import Snapshot, list_snapshots
from stratalog.log.verification import check_upto
from stratalog.ports.scratch import Scratch, ScratchBlobs
from stratalog.tree.chunks import Chunks
from stratalog.tree.reach import verify as verify_tree

__all__ = ["BaseContradicted", "Rebuild", "Verified", "verify", "verify_and_put"]

BATCH_ENTRIES = 500


@runtime_checkable
class _Document(Protocol):
    """The parts of a document that this module uses: a log, and the chunks of the log's owner."""

    @property
    def log(self) -> Log: ...

    @property
    def chunks(self) -> Chunks: ...


class Verified(msgspec.Struct, frozen=True):
    """The facts that a verification established."""

    version: int
    start: int
    """The version from which the verification rebuilt: 0, the floor, or the fork point."""

    snapshots: int
    root: str
    digest: str
    hash: bytes
    """The hash of the history up to the version."""

    redacted: tuple[int, ...] = ()
    """Versions whose bodies were erased.

    From each to the next snapshot no state exists, so only the chain was verified.
    """


def verify(document: _Document, upto: int | None = None, *, progress: Report | None = None) -> Verified:
    """Rebuild from the first kept version up to ``upto`` (the head, if None), and compare with every snapshot on the
    way.

    Reads every entry and writes nothing: the rebuilt chunks go to a temporary file. Each chunk of a compared snapshot
    must be stored. After a redacted entry the rebuild resumes from the next snapshot, and reads all chunks of it.
    ``progress`` is called with the number of entries read since its last call.

    Raises Corrupt for a root that differs, an entry that is missing or does not continue the history before it, a
    missing chunk of a snapshot, or damaged bytes. Raises Redacted if no state of ``upto`` can be computed, NotFound if
    ``upto`` is beyond the head, VersionForgotten if it is below the floor, and Invalid if it is before the fork point.
    """
    check_class(_Document, document=document)
    while True:
        floor = document.log.floor()
        try:
            return _verified_aside(document, upto, progress)
        except (Corrupt, NotFound, Unavailable):
            # If the floor rose meanwhile, the versions below it are forgotten. Verify again, from the new floor.
            if not floor < document.log.floor() <= (document.log.head().version if upto is None else upto):
                raise


def verify_and_put(document: _Document, upto: int, progress: Report | None = None) -> Verified:
    """Verify up to ``upto``, and put the rebuilt chunks into the store, which restores lost chunks.

    Does not check whether the store had the chunks: the caller reads back the snapshot that it needs. Raises the errors
    of `verify`, and NotFound if a chunk of the first state is missing.
    """
    return _verified(document.log, Rebuild(document.log, _uncached(document), progress), upto, lambda roots: None)


def _verified_aside(document: _Document, upto: int | None, progress: Report | None) -> Verified:
    log = document.log
    with closing(Scratch()) as scratch, closing(NamedChunks()) as named:
        rebuilt = Chunks(ScratchBlobs(log.environment.blobs, scratch), log.record.owner)
        rebuild = Rebuild(log, rebuilt, progress, _uncached(document))
        named.add(rebuilt, rebuild.base)
        verified = _verified(log, rebuild, upto, partial(named.add, rebuilt))
        _require_stored(log, rebuilt, verified, named)
        return verified


def _verified(log: Log, rebuild: Rebuild, upto: int | None, compared: Callable[[Roots], None]) -> Verified:
    """Advance ``rebuild`` to ``upto``, and call ``compared`` with the roots of each snapshot on the way."""
    last, start = log.head().version if upto is None else upto, rebuild.version
    check_upto(log, last, start)
    for snapshot in list_snapshots(log.environment.index, log.record.prefix):
        if start < snapshot.version <= last:
            rebuild.advance(snapshot.version)
            rebuild.compare(snapshot)
            compared(roots_of(snapshot))
    rebuild.advance(last)
    if rebuild.state is None:
        raise Redacted("there is no snapshot between a redacted version and the requested version", version=last)
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


def _require_stored(log: Log, rebuilt: Chunks, verified: Verified, named: NamedChunks) -> None:
    """Raise Corrupt if the store lacks a chunk of a snapshot that still exists."""
    blobs = log.environment.blobs
    for address in named.lost(blobs, log.record.owner):
        key = rebuilt.key(address)
        try:
            blobs.get(key)
        except NotFound as exc:
            # A snapshot that was deleted meanwhile no longer needs its chunks. Report only an existing snapshot.
            for version, roots in _snapshots(log, verified):
                if names_chunk(rebuilt, roots, address):
                    raise Corrupt("a chunk of a snapshot is missing", version=version, key=key) from exc


def _snapshots(log: Log, verified: Verified) -> Iterator[tuple[int, Roots]]:
    """Yield the version and roots of the snapshot at the verification's start, and of each later one up to its end."""
    base = log.snapshot_at(verified.start)
    if base is not None:
        yield base.version, roots_in(log, base)
    for snapshot in list_snapshots(log.environment.index, log.record.prefix, first=verified.start + 1):
        if snapshot.version > verified.version:
            return
        yield snapshot.version, roots_of(snapshot)


def _uncached(document: _Document) -> Chunks:
    """Return chunks that bypass the store's cache, so that the stored bytes are verified."""
    return Chunks(document.log.environment.blobs, document.log.record.owner)


class BaseContradicted(Corrupt):
    """The base that a rebuild began with is not the base that a later entry names."""


class Rebuild:
    """A walk over the entries. ``state`` is None from a redacted entry to the next snapshot.

    The chunks of the first state are read from ``chunks``, and the chunks of later states are written to ``chunks``. If
    ``chunks`` are not the store's own chunks, ``stored`` are the store's chunks. A snapshot for which no state was
    computed is read from ``stored``.
    """

    def __init__(
        self,
        log: Log,
        chunks: Chunks,
        progress: Report | None = None,
        stored: Chunks | None = None,
    ) -> None:
        """Raises Corrupt, NotFound, VersionForgotten or Redacted if the first state cannot be loaded."""
        self._log = log
        self._chunks = chunks
        self._stored = chunks if stored is None else stored
        self._progress = progress
        state = _start(log, chunks)
        self._start, self._base = state.version, base_digest(tree_roots(state))
        self.base: Roots = state.roots
        """The roots of the first state's snapshot."""

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
        """Compare the state with a snapshot of the current version, and continue from that snapshot.

        If no state was computed, read every chunk of the snapshot instead. Raises Corrupt.
        """
        _compare_hash(snapshot.version, self.hash, snapshot.hash)
        if self.state is None:
            roots = roots_of(snapshot)
            for root in (roots.content, roots.clients, roots.tombstones):
                verify_tree(self._stored, root)
        else:
            _compare(self.state, snapshot)
            roots = tree_roots(self.state)
            self.compared += 1
        self.state = State.at_snapshot(self._chunks, self.version, self.hash, roots)

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
        """Yield the entries before the first redacted entry and skip that entry; `advance` continues after it."""
        for entry in entries:
            self.version, self.hash = entry.version, entry.hash
            if entry.redacted:
                self.redacted.append(entry.version)
                return
            self._check_base(entry)
            yield entry

    def _check_base(self, entry: Entry) -> None:
        """Raise BaseContradicted if an entry names another base for the start than this rebuild's base."""
        for event in entry.events:
            if event.type != BASE:
                continue
            check_form(event, entry.version)
            if event.data[0] == self._start and event.data[1] != self._base:
                raise BaseContradicted("the base contradicts the history", version=self._start)


def _start(log: Log, chunks: Chunks) -> State:
    """Return the first state of a rebuild: at the floor, at the fork point, or the empty state at version 0."""
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
        raise Corrupt("a snapshot's roots contradict its log", version=state.version)


def _compare_hash(version: int, computed: bytes, stored: bytes) -> None:
    if computed != stored:
        raise Corrupt(
            "a snapshot or a floor belongs to another history than its log",
            version=version,
            stored=stored.hex(),
            computed=computed.hex(),
        )
