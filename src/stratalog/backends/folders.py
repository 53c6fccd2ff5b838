"""Folders of files: made and kept durable, removed once they are empty, and the errors of the file system as ours."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from stratalog.errors import StorageFull, StratalogError, Unavailable

__all__ = ["DurableFolders", "file_errors", "make_folder", "make_shared_folder", "remove_empty", "sync_descriptor"]

FOLDERS_REMEMBERED_MAX = 10_000
MAKE_TRIES_MAX = 100
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
Sync = Callable[[int], None]


class DurableFolders:
    """Makes names in the folders below ``root`` durable, and the names of the folders themselves where they are new."""

    def __init__(self, root: str, sync: Sync) -> None:
        self._root = root
        self._sync_descriptor = sync
        self._durable: dict[str, tuple[tuple[int, int], ...]] = {}

    def sync(self, folder: str) -> None:
        """Make the names in one folder durable."""
        _sync_path(folder, self._sync_descriptor)

    def sync_up(self, folder: str) -> None:
        """Make the names in ``folder`` durable, its own, and those of the folders above it.

        What this process did for a folder holds while no name above it changed since: another process may have removed
        the folder when it was empty, and a third may have made it again without having synced its name yet. Raises
        FileNotFoundError where it is removed just now.
        """
        self.sync(folder)
        above = list(self._above(folder))
        # Taken before the syncs: a change beside them is noticed next time.
        changed = tuple((status.st_ino, status.st_mtime_ns) for status in map(os.stat, above))
        if self._durable.get(folder) == changed:
            return
        for parent in above:
            self.sync(parent)
        if len(self._durable) >= FOLDERS_REMEMBERED_MAX:
            self._durable.clear()
        self._durable[folder] = changed

    def _above(self, folder: str) -> Iterator[str]:
        while folder != self._root:
            folder = os.path.dirname(folder)
            yield folder


def remove_empty(folder: str, root: str) -> None:
    """Remove ``folder`` and the folders above it up to ``root``, as far as they are empty."""
    while folder != root:
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)


def make_shared_folder(folder: str) -> None:
    """Make ``folder`` and the missing ones above it, which others may remove at any moment, being empty. Syncs nothing.

    `os.makedirs` fails where a folder stood at its attempt and was removed before its look, or one above it was.
    Raises OSError.
    """
    for _ in range(MAKE_TRIES_MAX):
        try:
            os.makedirs(folder, exist_ok=True)
        except (FileExistsError, FileNotFoundError):
            if os.path.lexists(folder) and not os.path.isdir(folder):
                raise
        else:
            return
    os.makedirs(folder, exist_ok=True)


def make_folder(folder: str | Path, *, sync: Sync | None = None) -> None:
    """Make ``folder`` and the folders above it that are missing, durably; one that stands is fine.

    A folder is made only in one whose own name was synced, whoever made that: so where one stands, the names of all
    above it are durable, and only its own may still be on the way. Raises Unavailable, StorageFull.
    """
    with file_errors():
        _make_folder(os.path.abspath(folder), sync or sync_descriptor)


def sync_descriptor(descriptor: int) -> None:
    """Make durable what a descriptor stands for. On macOS fsync leaves bytes in the drive's cache; F_FULLFSYNC not."""
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, full_sync)


@contextmanager
def file_errors() -> Iterator[None]:
    """Raise StorageFull or Unavailable for what the file system raises: nothing was written."""
    try:
        yield
    except OSError as exc:
        _raise_ours(exc)


def _make_folder(folder: str, sync: Sync) -> None:
    above = os.path.dirname(folder)
    stood = os.path.isdir(folder)
    if not stood:
        _make_folder(above, sync)
        os.makedirs(folder, exist_ok=True)
    try:
        _sync_path(above, sync)
    except PermissionError:
        # What stands in a folder that may not be read was made by somebody else, who answers for its name.
        if not stood:
            raise


def _sync_path(path: str, sync: Sync) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def _raise_ours(exc: OSError) -> NoReturn:
    kind: type[StratalogError] = StorageFull if exc.errno in NO_ROOM else Unavailable
    raise kind("the file system refused", reason=exc.strerror, path=exc.filename) from exc
