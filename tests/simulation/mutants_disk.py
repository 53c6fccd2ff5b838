"""Bugs in the SQLite file and the folder of blobs. Each bug breaks a rule about the state after a power failure."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import apsw

from stratalog import sqlite_files
from stratalog.backends import files, sqlite, sqlite_blobs, sqlite_file
from stratalog.backends.files import FileBlobs
from stratalog.backends.sqlite import SqliteIndex
from stratalog.backends.sqlite_connections import open_writer
from stratalog.errors import ConditionFailed, StratalogError, Unavailable
from stratalog.folders import DurableFolders, OpenPath
from stratalog.log.blob_batch import BlobBatch
from stratalog.ports.index import NO_BLOBS, Write
from tests.simulation.mutants import Mutant, replaced, together
from tests.simulation.world_disk import DiskWorld

__all__ = ["MUTANTS"]


def _settle_early(early: type, *, release: bool) -> Callable[[], AbstractContextManager[None]]:
    """Plant a `_GroupWriter._run_each` that settles outcomes of the type ``early`` before COMMIT.

    With ``release``, the mutant also lets the waiting writers of these outcomes continue.
    """

    def run_each(self: Any, group: Sequence[Any]) -> list[Any]:
        outcomes = _run_each(self, group)
        for ticket, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, early):
                ticket.settle(outcome)
                if release and ticket is not group[0]:
                    ticket.is_leader = False
                    ticket.latch.release()
        return outcomes

    return replaced(sqlite_file._GroupWriter, "_run_each", run_each)


def _open_unsynced(*arguments: Any) -> tuple[apsw.Connection | None, OpenPath]:
    """The mutant of `open_writer` that leaves syncs to the operating system."""
    connection, opened = open_writer(*arguments)
    if connection is not None:
        connection.pragma("synchronous", "OFF")
    return connection, opened


def _fail_undecided(group: Sequence[Any], error: StratalogError) -> None:
    """The mutant of `_fail` that reports a conflict even if the transaction of the conflict failed."""
    _fail([ticket for ticket in group if not isinstance(ticket._outcome, ConditionFailed)], error)


def _refresh_unsynced(self: Any, path: str) -> bool:
    """The mutant of `FileBlobs._refresh` that does not sync the new age."""
    if not os.path.exists(path):
        return False
    os.utime(path, ns=self._times())
    return True


def _write_unsynced(self: Any, path: str, data: bytes) -> None:
    """The mutant of `FileBlobs._write_durably` that does not sync the file."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.utime(file.fileno(), ns=self._times())


def _link_over(source: str, target: str) -> bool:
    """The mutant of `files._link` that replaces an existing blob, which may be younger."""
    os.rename(source, target)
    return True


def _commit_then_store(self: Any, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
    """The mutant of `SqliteIndex.commit` that commits the blobs after the items."""
    _commit(self, writes)
    if blobs:
        _commit(self, (), blobs)


def _store_then_commit(self: Any, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
    """The mutant of `SqliteIndex.commit` that commits the blobs first, even if the commit of the items then fails."""
    if blobs:
        _commit(self, (), blobs)
    _commit(self, writes)


def _store_new(rows: Sequence[Any], clock: Any, connection: apsw.Connection) -> None:
    """The mutant of `store_blobs` that does not renew the age of an existing blob."""
    for row in rows:
        if not connection.execute(sqlite_blobs.STANDING, (row[1],)).fetchall():
            _store_blobs([row], clock, connection)


def _hold_all(self: BlobBatch, bodies: Mapping[str, bytes]) -> None:
    """The mutant of `BlobBatch._put_ahead` that only collects the blobs."""
    self._ahead.update(bodies)


def _put_held(self: BlobBatch) -> None:
    """The mutant of `BlobBatch.renew` that puts the collected blobs, after the commit's answer."""
    self._put(self._ahead)


_commit = SqliteIndex.commit
_store_blobs = sqlite_blobs.store_blobs
_fail = sqlite_file._fail
_run_each = sqlite_file._GroupWriter._run_each

LOST = ("acknowledged", "witnessed")
MUTANTS = (
    Mutant(
        "answer given before the group's COMMIT",
        DiskWorld,
        _settle_early(object, release=True),
        (*LOST, "acknowledged blob"),
    ),
    Mutant(
        "conflict answered before COMMIT",
        DiskWorld,
        _settle_early(ConditionFailed, release=True),
        ("witnessed",),
    ),
    Mutant(
        "conflict reported although COMMIT failed",
        DiskWorld,
        together(_settle_early(ConditionFailed, release=False), replaced(sqlite_file, "_fail", _fail_undecided)),
        ("witnessed",),
    ),
    Mutant(
        "failed COMMIT reported as unavailable",
        DiskWorld,
        replaced(sqlite_files, "OutcomeUnknown", Unavailable),
        ("refused",),
    ),
    Mutant(
        "acknowledged before fsync (SQLite)",
        DiskWorld,
        replaced(sqlite_file, "open_writer", _open_unsynced),
        (*LOST, "integrity", "opens", "brought blob"),
    ),
    Mutant(
        "acknowledged before fsync (files)",
        DiskWorld,
        replaced(FileBlobs, "_write_durably", _write_unsynced),
        ("whole blobs", "blob's age"),
    ),
    Mutant(
        "blob's name not made durable",
        DiskWorld,
        replaced(DurableFolders, "sync_up", lambda self, folder: None),
        ("acknowledged blob", "document"),
    ),
    Mutant(
        "file of a blob written after the entry",
        DiskWorld,
        together(replaced(BlobBatch, "_put_ahead", _hold_all), replaced(BlobBatch, "renew", _put_held)),
        ("document", "corrupt"),
    ),
    Mutant("older blob put over a younger", DiskWorld, replaced(files, "_link", _link_over), ("blob's age",)),
    Mutant(
        "blob's new age not made durable",
        DiskWorld,
        replaced(FileBlobs, "_refresh", _refresh_unsynced),
        ("blob's age",),
    ),
    Mutant(
        "blob committed after the item (SQLite)",
        DiskWorld,
        replaced(SqliteIndex, "commit", _commit_then_store),
        ("brought blob",),
    ),
    Mutant(
        "failed condition writes blobs (SQLite)",
        DiskWorld,
        replaced(SqliteIndex, "commit", _store_then_commit),
        ("brought blob",),
    ),
    Mutant(
        "age of a stored row not renewed",
        DiskWorld,
        together(replaced(sqlite_blobs, "store_blobs", _store_new), replaced(sqlite, "store_blobs", _store_new)),
        ("blob's age",),
    ),
)
