"""The register of a folder of data files: the tables that have files in the folder, and the store of each table.

A table enters the register before it writes data files. If a store's folder is copied, a table has the same incarnation
in both stores. So the register names the only store that may write and delete the data files of a table. Each entry is
a separate file, so tables do not contend.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from stratalog import Conflict, Log, Store
from stratalog.clock import new_id
from stratalog.struct_types import resolved
from stratalog_table.data_folder import UNFINISHED, DataFolder
from stratalog_table.locations import folder_of

__all__ = ["REGISTER", "DataFolderTaken", "FolderRegister", "Registration", "check_vacant", "origin_of"]

REGISTER = ".stratalog-tables"
SUFFIX = ".json"
TOKEN_CHARACTERS = 12
INDEX_FILE = "index.sqlite"
BLOBS_FOLDER = "blobs"
"""A folder with a store contains `INDEX_FILE` and this subfolder: see `formats/folder.md`."""


class DataFolderTaken(Conflict):
    """The table may not use the folder for its data files.

    The folder has other content, is inside another table's folder or a store's blobs, or belongs to the same table in
    another store.
    """

    code = "data-folder-taken"


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """One table that has files in the folder."""

    incarnation: str
    organisation: str
    table: str
    origin: str
    store: str
    """The table's store: the store's path relative to the data folder if both are local folders, else its location."""

    is_owner: bool = False
    """Whether the folder was made for the table, or the table adopted it.

    If true, the files without an incarnation in their names belong to the table.
    """

    entered_ms: int = 0


class FolderRegister:
    """The register as one table reads and writes it."""

    def __init__(self, store: Store, log: Log, folder: DataFolder) -> None:
        self._store = store
        self._record = log.record
        self._origin = origin_of(log)
        self._folder = folder

    def enter(self, *, is_owner: bool = False) -> Registration:
        """Return the table's entry, and write it if it is missing, damaged, or names a store that no longer exists.

        If the store of the entry no longer exists, the register assumes that the store was moved and is now this store.
        Raises DataFolderTaken if the entry names another store that exists. The table in that store has the same
        incarnation and owns the files.
        """
        known = self.registration(self._record.incarnation)
        if known is not None and self.is_ours(known):
            return known
        if known is not None and self._exists(known):
            raise DataFolderTaken(
                "the data files belong to the table in another store; adopt them with `stratalog table adopt`",
                data=self._folder.url,
                store=known.store,
            )
        return self._write(is_owner or (known is not None and known.is_owner))

    def adopt(self) -> Registration:
        """Make this store's table the owner of the folder's files, even if another store's table owned them."""
        return self._write(is_owner=True)

    def registration(self, incarnation: str) -> Registration | None:
        """Return the entry of a table, or None if it is missing or cannot be decoded."""
        body = self._folder.read_bytes(_name(incarnation))
        try:
            return None if body is None else msgspec.json.decode(body, type=resolved(Registration))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def is_entered(self, incarnation: str) -> bool:
        """Return whether a table has an entry, intact or not, or began to write one."""
        return any(file.filename.startswith(_name(incarnation)) for file in self._folder.list(REGISTER))

    def others(self) -> Iterator[Registration]:
        """Yield the entries of the other tables that have files in the folder."""
        for file in self._folder.list(REGISTER):
            incarnation = os.path.basename(file.filename).removesuffix(SUFFIX)
            other = self.registration(incarnation) if incarnation != self._record.incarnation else None
            if other is not None:
                yield other

    def relatives_elsewhere(self) -> list[Registration]:
        """Return the entries of the table's copies and forks in other stores that exist. See `_exists`."""
        return [
            other
            for other in self.others()
            if other.origin == self._origin and not self.is_ours(other) and self._exists(other)
        ]

    def is_ours(self, registration: Registration) -> bool:
        """Return whether an entry names this store."""
        return self._resolved(registration.store) == self._resolved(self._store_text())

    def retire(self, incarnation: str) -> None:
        """Remove a table from the register, then the empty folders. The table must have no data files in the folder."""
        self._folder.delete(_name(incarnation))
        self._folder.remove_empty(incarnation)
        self.remove_unfinished(incarnation)
        self._folder.remove_empty("")

    def remove_unfinished(self, incarnation: str) -> None:
        """Remove the temporary files that interrupted writes of a table's entry left.

        Call this method only while no other process writes the entry.
        """
        for file in self._folder.list(REGISTER):
            if file.filename.startswith(f"{_name(incarnation)}.") and file.filename.endswith(UNFINISHED):
                self._folder.delete(file.filename)
        self._folder.remove_empty(REGISTER)

    def _write(self, is_owner: bool) -> Registration:
        record = self._record
        registration = Registration(
            incarnation=record.incarnation,
            organisation=record.organisation,
            table=record.name,
            origin=self._origin,
            store=self._store_text(),
            is_owner=is_owner,
            entered_ms=self._store.environment.clock.wall_ms(),
        )
        token = new_id(self._store.environment.clock, TOKEN_CHARACTERS)
        self._folder.replace_bytes(_name(record.incarnation), msgspec.json.encode(registration), token)
        return registration

    def _store_text(self) -> str:
        folder = folder_of(self._store.location)
        if folder is None or not self._folder.is_local:
            return self._store.location
        return os.path.relpath(os.path.realpath(folder), os.path.realpath(self._folder.base))

    def _resolved(self, text: str) -> str:
        if _is_elsewhere(text):
            return text
        return os.path.realpath(os.path.join(os.path.realpath(self._folder.base), text))

    def _exists(self, registration: Registration) -> bool:
        """Return whether the store of an entry exists.

        A store with a URL counts as existing. So does a store whose index file cannot be checked, because its table may
        own the files. A store in memory counts as missing.
        """
        resolved = self._resolved(registration.store)
        if _is_elsewhere(resolved):
            return "://" in resolved
        return _may_exist(os.path.join(resolved, INDEX_FILE))


def check_vacant(folder: DataFolder) -> None:
    """Raise DataFolderTaken for a folder that is not empty, or is inside another table's folder or a store's blobs."""
    if folder.is_local and _may_exist(os.path.join(folder.base, INDEX_FILE)):
        raise DataFolderTaken("the folder for data files contains a store", data=folder.url)
    if not folder.is_empty():
        raise DataFolderTaken("the folder for data files is not empty", data=folder.url)
    below, above = folder.base, os.path.dirname(folder.base)
    while above and above != below:
        if not folder.is_vacant(f"{above}/{REGISTER}"):
            raise DataFolderTaken(
                "the folder for data files is inside another table's folder", data=folder.url, other=above
            )
        is_store = folder.is_local and _may_exist(os.path.join(above, INDEX_FILE))
        if is_store and os.path.basename(below) == BLOBS_FOLDER:
            raise DataFolderTaken(
                "the folder for data files is inside a store's folder of blobs", data=folder.url, store=above
            )
        below, above = above, os.path.dirname(above)


def origin_of(log: Log) -> str:
    """Return the origin that all copies of a history share, without the id that an import may add in front."""
    return log.record.origin.rpartition("/")[2]


def _name(incarnation: str) -> str:
    """Return the name of a table's entry."""
    return f"{REGISTER}/{incarnation}{SUFFIX}"


def _may_exist(path: str) -> bool:
    """Return False only if no file has the path. `os.path.exists` returns False after any error."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a path with a null byte
        return False
    except OSError:
        return True
    return True


def _is_elsewhere(text: str) -> bool:
    return not text or "://" in text or text == "memory:"
