"""The sides of `bench.peers` that store a map with versions: a document of Stratalog, and `prollytree`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from bench.payload import fact, item_key
from bench.workplace import DOCUMENT, ORGANISATION, reopened
from stratalog import Draft, Rules, Store

__all__ = ["RULES", "DocumentTree", "FileTree", "TreeSide", "VersionedTree"]

NAMESPACE = "bench"
# prollytree writes a file of all staged keys for each key that it stages, so large batches are slow.
STAGED_KEYS = 500


class TreeSide(Protocol):
    """A map of item keys to facts, in files."""

    def update(self, facts: Mapping[int, Mapping[str, Any]]) -> None:
        """Set the items with these numbers, in one commit."""

    def change(self, facts: Mapping[int, Mapping[str, Any]]) -> Callable[[], int] | None:
        """Make two versions that differ in ``facts``. Return a function that counts the differences.

        Return None if the side cannot compare versions.
        """


class DocumentTree:
    """A document in SQLite, whose mutator sets all items of an update.

    An update stores the mutation, and with ``snapshots`` also the changed chunks of the document's tree.
    """

    def __init__(self, store: Store, *, snapshots: bool) -> None:
        self._store = store
        self._document = store.document(ORGANISATION, DOCUMENT)
        self._snapshots = snapshots

    def update(self, facts: Mapping[int, Mapping[str, Any]]) -> None:
        self._document.mutate("put-many", {item_key(number): data for number, data in facts.items()})
        if self._snapshots:
            self._document.snapshot()

    def change(self, facts: Mapping[int, Mapping[str, Any]]) -> Callable[[], int]:
        before = self._document.snapshot()
        self.update(facts)
        after = self._document.snapshot()
        return lambda: sum(1 for _ in reopened(self._store).diff(before, after))


class FileTree:
    """The tree of `prollytree` alone, in files. It has no versions, and its `diff` finds no differences."""

    def __init__(self, folder: Path, count: int) -> None:
        from prollytree import ProllyTree

        self._tree = ProllyTree("file", str(folder))
        self._tree.insert_batch(_rows({number: fact(number) for number in range(count)}))

    def update(self, facts: Mapping[int, Mapping[str, Any]]) -> None:
        self._tree.insert_batch(_rows(facts))

    def change(self, facts: Mapping[int, Mapping[str, Any]]) -> None:
        return None


class VersionedTree:
    """`prollytree` with versions in a Git repository.

    Updates use `NamespacedKvStore`, since `VersionedKvStore` writes all staged changes again for each key. Only
    `VersionedKvStore` compares versions. Its versions are in RocksDB, since it compares versions faster there than in
    Git.
    """

    def __init__(self, folder: Path, memory_folder: Path, count: int) -> None:
        from prollytree import NamespacedKvStore

        self._store = NamespacedKvStore(str(_repository(folder)))
        self._memory_folder = memory_folder
        self._count = count
        self.update({number: fact(number) for number in range(count)})

    def update(self, facts: Mapping[int, Mapping[str, Any]]) -> None:
        for key, value in _rows(facts):
            self._store.ns_insert(NAMESPACE, key, value)
        self._store.commit("update")

    def change(self, facts: Mapping[int, Mapping[str, Any]]) -> Callable[[], int]:
        from prollytree import StorageBackend, VersionedKvStore

        store = VersionedKvStore(str(_repository(self._memory_folder)), StorageBackend.RocksDB)
        for first in range(0, self._count, STAGED_KEYS):
            numbers = range(first, min(self._count, first + STAGED_KEYS))
            before = _commit(store, {number: fact(number) for number in numbers})
        after = _commit(store, facts)
        return lambda: len(store.diff(before, after))


def _put_many(draft: Draft, args: Any) -> None:
    for key, value in args.items():
        draft.put(key, value)


RULES = Rules({"put-many": _put_many})


def _commit(store: Any, facts: Mapping[int, Mapping[str, Any]]) -> str:
    for key, value in _rows(facts):
        store.insert(key, value)
    commit: str = store.commit("update")
    return commit


def _rows(facts: Mapping[int, Mapping[str, Any]]) -> list[tuple[bytes, bytes]]:
    return [(item_key(number).encode(), msgspec.json.encode(data)) for number, data in facts.items()]


def _repository(folder: Path) -> Path:
    """Make a Git repository in the folder, and return the path of a folder in it for data."""
    git = ["git", "-C", str(folder)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    for setting in ("user.name", "user.email"):
        subprocess.run([*git, "config", setting, "bench@example.org"], check=True)
    data = folder / "data"
    data.mkdir()
    return data
