"""Folders of files: made durably, synced, and removed once empty. File system errors are raised as ours."""

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
    """Syncs of the folders below ``root``: of the names in a folder, and of the names of new folders above them."""

    def __init__(self, root: str, sync: Sync) -> None:
        self._root = root
        self._sync_descriptor = sync
        self._durable: dict[str, tuple[tuple[int, int], ...]] = {}

    def sync(self, folder: str) -> None:
        """Make the names in one folder durable."""
        _sync_path(folder, self._sync_descriptor)

    def sync_up(self, folder: str) -> None:
        """Make the names in ``folder`` durable, its own name, and the names of the folders above it.

        The folders above are synced once per process and again after any change in them: another process may have
        removed the empty folder, and a third may have made it again without having synced its name yet. Raises
        FileNotFoundError where another process removes the folder during the call.
        """
        self.sync(folder)
        above = list(self._above(folder))
        # Read before the syncs: a change during them makes the next call sync again.
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
    """Remove ``folder`` and then each folder above it below ``root``, up to the first that is not empty."""
    while folder != root:
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)


def make_shared_folder(folder: str) -> None:
    """Make ``folder`` and the missing folders above it while other processes may remove empty ones. Syncs nothing.

    It retries, since one `os.makedirs` fails where another process removes the folder between the attempt to make it
    and the check for an existing one, or removes a folder above it. Raises OSError.
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
    """Make ``folder`` and the missing folders above it, durably. An existing folder is fine.

    Every process makes a folder only inside a folder whose own name it has synced. So of an existing folder the names
    of all folders above are durable, and only its own name may still be unsynced. Raises Unavailable, StorageFull.
    """
    with file_errors():
        _make_folder(os.path.abspath(folder), sync or sync_descriptor)


def sync_descriptor(descriptor: int) -> None:
    """Make the file or folder behind a descriptor durable.

    On macOS `fsync` leaves bytes in the drive's cache, so `F_FULLFSYNC` is used there.
    """
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, full_sync)


@contextmanager
def file_errors() -> Iterator[None]:
    """Raise an OSError of the block as StorageFull or Unavailable: nothing was written."""
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
        # An existing folder inside one that this process may not read was made, and its name synced, by another user.
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
