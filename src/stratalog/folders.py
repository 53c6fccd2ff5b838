"""Creates folders, syncs folders, and removes empty folders. `OpenPath` detects files and folders that were moved.

`file_errors` converts errors of the file system.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from stratalog.errors import StorageFull, StratalogError, Unavailable

__all__ = [
    "NO_ROOM",
    "DurableFolders",
    "OpenPath",
    "absolute_path",
    "file_error",
    "file_errors",
    "make_folder",
    "make_folders",
    "make_shared_folder",
    "remove_empty",
    "sync_descriptor",
    "sync_path",
]

DURABLE = ".durable"
MAKE_TRIES_MAX = 100
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The errors of a full device, a used-up quota, and a file at its size limit."""

Sync = Callable[[int], None]


class DurableFolders:
    """Makes the names of files and of new folders below ``root`` durable.

    An empty file named `DURABLE` in a folder marks that the folder's own name, and the names of the folders above it,
    are durable. `remove_empty` removes the mark before the folder, so a folder that is made again under the same name
    has no mark. Times and inode numbers cannot replace the mark. File systems set times in steps of milliseconds, and
    they give the inode number of a removed folder to a new folder.
    """

    def __init__(self, root: str, sync: Sync) -> None:
        self._root = root
        self._sync_descriptor = sync

    def sync(self, folder: str) -> None:
        """Make the names in one folder durable."""
        sync_path(folder, self._sync_descriptor)

    def sync_up(self, folder: str) -> None:
        """Make durable the names in ``folder``, the name of ``folder``, and the names of the folders above it.

        The caller has just put a file into ``folder``. Raises OSError; FileNotFoundError means that another process
        removed that file and then the folder.
        """
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._sync_descriptor(descriptor)
            if _is_marked(descriptor):
                return
            for parent in self._above(folder):
                self.sync(parent)
            _mark(descriptor)
        finally:
            os.close(descriptor)

    def _above(self, folder: str) -> Iterator[str]:
        while folder != self._root:
            folder = os.path.dirname(folder)
            yield folder


class OpenPath:
    """The file or folder that ``path`` names when the object is made; ``what`` describes it in an error.

    An open file stays usable after it was moved, deleted or replaced, for example by a restoration. A process would
    lose the data that it then writes to the file. A process that opens files by the path of a folder would use another
    folder that now has this path. So make the object before the file is opened, and call `check` after the open and
    before each use. Then the process uses this file, and no other file that has replaced it.
    """

    def __init__(self, path: str, what: str) -> None:
        self.path = path
        self._what = what
        self._identity = _identity_of(path)

    def check(self) -> None:
        """Raise Unavailable if the path names another file or folder, or none, or the file system does not answer."""
        if _identity_of(self.path) != self._identity:
            raise Unavailable(f"{self._what} was moved, deleted or replaced: open it again", path=self.path)


def absolute_path(path: str | Path) -> str:
    """Return the path from the root, so that a later change of the working directory does not change what it names.

    Keeps ``..``: after a symbolic link, ``..`` is the folder above the link's target. Raises Unavailable.
    """
    with file_errors():
        return _absolute(path)


def remove_empty(folder: str, root: str) -> None:
    """Remove ``folder`` if it is empty, then each empty folder above it. Stop at ``root`` or at the first error.

    A folder that contains only the file `DURABLE` counts as empty. The removal of a folder with other content fails.
    """
    while folder != root:
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in islice(entries, 2)]
            if names == [DURABLE]:
                os.unlink(os.path.join(folder, DURABLE))
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)


def make_shared_folder(folder: str, root: str) -> None:
    """Make ``folder`` and the missing folders between it and ``root``, without a sync. Raises OSError.

    Raises FileNotFoundError if ``root`` is missing, and does not make ``root``: a person may have moved it away, to
    put another folder in its place.

    Other processes may remove empty folders meanwhile. So a folder may vanish before the next one is made in it. The
    function then begins again.
    """
    for _ in range(MAKE_TRIES_MAX):
        try:
            _make_folders_below(folder, root)
        except (FileExistsError, FileNotFoundError):
            if os.path.lexists(folder) and not os.path.isdir(folder):
                raise
        else:
            return
    _make_folders_below(folder, root)


def make_folders(folder: str, mode: int = 0o777) -> None:
    """Make ``folder``, with ``mode``, and the missing folders above it, without a sync. Raises OSError.

    `os.makedirs` calls itself for each missing folder, and would raise RecursionError for about 900 of them.
    """
    for missing in _missing_folders(folder):
        _mkdir(missing, mode if missing == _absolute(folder) else 0o777)


def make_folder(folder: str | Path, *, sync: Sync | None = None) -> None:
    """Make ``folder`` and the missing folders above it, durably. The folder may exist.

    This function makes a folder only inside a folder whose name it has synced. If a call is interrupted, only the
    lowest folder that it made may have an unsynced name. So each call first syncs the name of the lowest existing
    folder.

    Raises Unavailable, StorageFull.
    """
    with file_errors(os.fspath(folder)):
        _make_folder(_absolute(folder), sync or sync_descriptor)


def sync_descriptor(descriptor: int) -> None:
    """Make the file or folder behind a descriptor durable.

    On macOS `fsync` leaves bytes in the drive's cache, so this function uses `F_FULLFSYNC` if the system has it.
    """
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, full_sync)


def sync_path(path: str, sync: Sync | None = None) -> None:
    """Make a file, or the names in a folder, durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        (sync or sync_descriptor)(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def file_errors(path: str | None = None) -> Iterator[None]:
    """Raise `file_error` for an OSError of the block. ``path`` is the path for an error that names no file."""
    try:
        yield
    except OSError as exc:
        raise file_error(exc, "the file system refused the operation", exc.filename or path) from exc


def file_error(exc: OSError, message: str, path: object) -> StratalogError:
    """Return ``exc`` as StorageFull or Unavailable. Both errors mean that nothing was written."""
    kind: type[StratalogError] = StorageFull if exc.errno in NO_ROOM else Unavailable
    return kind(message, path=path, reason=exc.strerror, **_owner_details(exc, path))


def _make_folder(folder: str, sync: Sync) -> None:
    missing = _missing_folders(folder)
    existing = os.path.dirname(missing[0]) if missing else folder
    # A process cannot sync a folder that it may not read. Then another user has usually made the existing folder.
    with suppress(PermissionError):
        sync_path(os.path.dirname(existing), sync)
    for made in missing:
        _mkdir(made)
        sync_path(os.path.dirname(made), sync)


def _absolute(path: str | Path) -> str:
    return os.fspath(Path(path).absolute())


def _make_folders_below(folder: str, root: str) -> None:
    for missing in _missing_folders(folder):
        if not missing.startswith(os.path.join(root, "")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), root)
        _mkdir(missing)


def _missing_folders(folder: str) -> list[str]:
    """Return the absolute paths of the missing folders of a path, topmost first."""
    missing, folder = list[str](), _absolute(folder)
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing[::-1]


def _mkdir(folder: str, mode: int = 0o777) -> None:
    try:
        os.mkdir(folder, mode)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise


def _identity_of(path: str) -> tuple[int, int] | None:
    """Return the device and the inode number of the file or folder at ``path``; None if there is none.

    Raises Unavailable.
    """
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        with file_errors():  # not around the call above: a context manager takes time in every read
            raise
    return status.st_dev, status.st_ino


def _is_marked(descriptor: int) -> bool:
    try:
        os.stat(DURABLE, dir_fd=descriptor)
    except FileNotFoundError:
        return False
    return True


def _mark(descriptor: int) -> None:
    """Mark the folder of a descriptor. The path may name a newer folder by now, which no process has synced.

    Raises FileNotFoundError if the folder was removed. Another error, for example of a full disk, is ignored: without a
    mark the next put syncs again.
    """
    try:
        os.close(os.open(DURABLE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666, dir_fd=descriptor))
    except FileNotFoundError:
        raise
    except OSError:
        return


def _owner_details(exc: OSError, path: object) -> dict[str, str]:
    """Return the owner of ``path`` and the user of this process if ``exc`` is a lack of permission; else {}.

    If there is no access to the path, the owner is that of the nearest folder above with access. The details name a
    common reason for the error: the file or folder is another user's. If it is this user's, the result is {} too.
    """
    if exc.errno not in (errno.EACCES, errno.EPERM) or not isinstance(path, str) or not os.path.isabs(path):
        return {}
    user = os.geteuid()
    for each in (Path(path), *Path(path).parents):
        with suppress(OSError):
            owner = os.lstat(each).st_uid
            return {} if owner == user else {"owner": _user_name(owner), "user": _user_name(user)}
    return {}


def _user_name(id: int) -> str:
    try:
        return pwd.getpwuid(id).pw_name
    except KeyError:
        return str(id)
