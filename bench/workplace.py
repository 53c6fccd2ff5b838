"""The folders, sizes, and large stores that the benchmarks use."""

from __future__ import annotations

import shutil
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from bench.payload import fact, item_key
from stratalog import Document, Event, LogSettings, Rules, Store
from stratalog.backends.files import FileBlobs
from stratalog.backends.sqlite import SqliteDatabase
from stratalog.clock import SystemClock
from stratalog.codec import encode
from stratalog.documents.snapshots import tree_roots
from stratalog.homes import BLOBS_FOLDER, INDEX_FILE
from stratalog.log import Environment
from stratalog.log.snapshots import put_snapshot
from stratalog.tree.chunks import Chunks
from stratalog.tree.nodes import Slot
from stratalog.tree.update import build

__all__ = ["DOCUMENT", "FULL", "LOG", "ORGANISATION", "QUICK", "Scale", "Workplace", "reopened", "unsynced_store"]

ORGANISATION = "bench"
DOCUMENT = "document"
LOG = "log"


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a run. The goals are for the full scale. The quick scale only shows that the program runs."""

    rounds: int
    commits: int
    entries_read: int
    entries_loaded: int
    versions: int
    keys: int
    items: int
    log_entries: int
    tail_commits: int
    """The number of commits from which a percentile is computed. A document's snapshot is due after 500 mutations."""


FULL = Scale(
    rounds=21,
    commits=200,
    entries_read=100_000,
    entries_loaded=10_000,
    versions=100_000,
    keys=1_000_000,
    items=200,
    log_entries=1_000_000,
    tail_commits=4000,
)
QUICK = Scale(
    rounds=2,
    commits=12,
    entries_read=500,
    entries_loaded=200,
    versions=700,
    keys=2000,
    items=5,
    log_entries=1500,
    tail_commits=20,
)


class Workplace:
    """A working folder and a scale.

    With a ``source``, `document` and `log` copy the stores of this other workplace.
    """

    def __init__(self, folder: Path, scale: Scale, source: Workplace | None = None) -> None:
        self.scale = scale
        self._folder = folder
        self._source = source
        self._numbers = count(1)
        self._stores: dict[tuple[str, int], Path] = {}
        self.results: dict[str, Any] = {}
        """Measurements that several rows of the report use, by name."""

    def fresh(self) -> Path:
        """Create an empty folder and return its path."""
        folder = self._folder / str(next(self._numbers))
        folder.mkdir()
        return folder

    @property
    def million(self) -> Path:
        """The folder of a store whose document has `Scale.keys` keys."""
        return self.document(self.scale.keys)

    def document(self, keys: int) -> Path:
        """Return the folder of a store whose document has ``keys`` keys.

        The benchmark builds the state directly as a tree, and stores a snapshot of version 1 that refers to the tree. A
        million mutations would take many minutes.
        """
        return self._store("document", keys)

    def log(self, entries: int) -> Path:
        """Return the folder of a store whose log has ``entries`` entries."""
        return self._store("log", entries)

    def _store(self, kind: str, size: int) -> Path:
        if (kind, size) not in self._stores:
            folder = self.fresh()
            if self._source is not None:
                shutil.copytree(self._source._store(kind, size), folder, dirs_exist_ok=True)
            elif kind == "log":
                _fill_log(folder, size)
            else:
                _build_document(folder, size)
            self._stores[kind, size] = folder
        return self._stores[kind, size]

    @cached_property
    def long(self) -> Path:
        """The folder of a store whose document has `Scale.versions` versions, plus half a snapshot interval."""
        folder = self.fresh()
        with unsynced_store(folder) as store:
            document = store.create(ORGANISATION, DOCUMENT)
            for number in range(self.scale.versions + store.environment.settings.snapshot_entries_interval // 2):
                document.mutate("put", {"key": item_key(number % 1000), "value": fact(number)})
        return folder


def _build_document(folder: Path, keys: int) -> None:
    with unsynced_store(folder) as store:
        document = store.create(ORGANISATION, DOCUMENT)
        document.mutate("put", {"key": "title", "value": "a million"})
        state = document.state()
        cells = ((item_key(number), Slot(encode(fact(number)), 1)) for number in range(keys))
        roots = msgspec.structs.replace(tree_roots(state), content=build(document.chunks, cells))
        put_snapshot(store.environment, document.log.record, 1, state.hash, encode(roots), None)


def _fill_log(folder: Path, entries: int) -> None:
    with unsynced_store(folder) as store:
        log = store.create_log(ORGANISATION, LOG)
        for number in range(entries):
            log.append(Event("paid", fact(number)))


def unsynced_store(folder: Path, settings: LogSettings | None = None, rules: Rules | None = None) -> Store:
    """Open a store whose index does not wait for the disk, to fill a folder quickly.

    For measurements, open the folder again with `open_store`.
    """
    clock = SystemClock()
    database = SqliteDatabase(folder / INDEX_FILE, clock, synchronous="OFF")
    blobs = database.blobs(FileBlobs(folder / BLOBS_FOLDER, clock))
    return Store(Environment(database.index, blobs, clock, settings), database.queue, rules)


def reopened(store: Store) -> Document:
    """Return the document without its state in memory, and without the chunks that the store caches."""
    log = store.log(ORGANISATION, DOCUMENT)
    return Document(log, store.rules, chunks=Chunks(log.environment.blobs, log.record.owner))
