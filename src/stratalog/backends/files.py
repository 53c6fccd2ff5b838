"""Blobs as files of a folder: one file a blob, written beside and linked into place.

A file's name is the blob's key, the suffix of its kind and that of its codec, so that a person can open it. In a folder
of format 1 it is the key alone; such a file is read as it is, and takes its name when it is put again.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import NoReturn

from stratalog.clock import Clock, new_id
from stratalog.codec import ZSTD, codec_named, compress, decompress
from stratalog.errors import (
    Closed,
    Corrupt,
    Invalid,
    NotFound,
    OutcomeUnknown,
    StorageFull,
    StratalogError,
    Unavailable,
)
from stratalog.limits import BLOB_BYTES_MAX
from stratalog.ports.blob_kinds import JSON, MSGPACK, OCTETS, kind_of, kinds_of
from stratalog.ports.blobs import BlobStat, check_put, key_hash, verified

__all__ = ["FileBlobs", "make_folder"]

# No key component starts with a dot, so these two never meet a key.
NEW = ".new"
ASIDE = ".aside"
DIGITS = 64
KINDS = frozenset(kind.suffix for kind in (JSON, MSGPACK, OCTETS))
GAP_SECONDS = 0.002
FILES_LOOKED_AT_MAX = 10_000
FOLDERS_REMEMBERED_MAX = 10_000
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FileBlobs:
    """Blobs under ``folder``, which several processes may share. Needs POSIX renames and hard links.

    A file's modification time is the blob's age by ``clock``, with random digits below the millisecond, so that inode
    and time together name one generation. A file left in ``.new`` by a crash is harmless; one left in ``.aside`` is
    put back when the folder is next opened, since it may have been refreshed just before. ``sync`` makes durable what
    a descriptor, of a file or of a folder, stands for.
    """

    def __init__(self, folder: str | Path, clock: Clock, *, sync: Callable[[int], None] | None = None) -> None:
        self._folder = os.fspath(folder)
        self._clock = clock
        self._sync_descriptor = sync or _sync_descriptor
        self._closed = False
        self._durable_folders: set[str] = set()
        make_folder(self._folder, sync=sync)
        with _errors():
            os.makedirs(os.path.join(self._folder, NEW), exist_ok=True)
            os.makedirs(os.path.join(self._folder, ASIDE), exist_ok=True)
            self._sync(self._folder)
            self._put_back_all()

    def put(self, key: str, body: bytes) -> None:
        base = self._base(key)
        check_put(key, body)
        path = f"{base}{kind_of(key, body).suffix}{ZSTD.suffix}"
        while not (self._refresh(path) or self._write(path, compress(body))):
            pass
        _unlink_if_there(base)

    def get(self, key: str) -> bytes:
        paths = self._paths(key)
        for last in (False, True):
            for path in paths:
                with _errors(), suppress(FileNotFoundError):
                    return verified(key, decompress(Path(path).read_bytes(), BLOB_BYTES_MAX))
            self._wait_for_gap(last)
        with _errors():
            _refuse_unknown_codec(key, paths[-1])
        raise NotFound("no such blob", key=key)

    def stat(self, key: str) -> BlobStat | None:
        return self._find(key)[1]

    def list(self, prefix: str, *, after: str = "") -> Iterator[BlobStat]:
        self._check_open()
        for key, path in _walk(self._folder, "", prefix, after):
            self._check_open()
            with _errors(), suppress(FileNotFoundError):
                yield _stat(key, os.stat(path))

    def delete(self, key: str, stamp: str) -> bool:
        """Rename aside, look, unlink: what is looked at can no longer be refreshed, so the look decides."""
        path, stat = self._find(key)
        if stat is None or stat.stamp != stamp:
            return stat is None
        aside = self._aside(path)
        with _errors():
            try:
                os.makedirs(os.path.dirname(aside), exist_ok=True)
                os.rename(path, aside)
            except FileNotFoundError:
                return self.stat(key) is None
            if _stat(key, os.stat(aside)).stamp != stamp:
                self._put_back(aside, path)
                return False
            os.unlink(aside)
            self._sync(os.path.dirname(path))
        return True

    def close(self) -> None:
        self._closed = True

    def _find(self, key: str) -> tuple[str, BlobStat | None]:
        """The file of a blob, and how it looks."""
        paths = self._paths(key)
        for last in (False, True):
            for path in paths:
                with _errors(), suppress(FileNotFoundError):
                    return path, _stat(key, os.stat(path))
            self._wait_for_gap(last)
        return "", None

    def _refresh(self, path: str) -> bool:
        """Start the age of a standing blob anew, durably. False where none stands, or was renamed aside meanwhile.

        A damaged one is removed first: its presence says nothing of its bytes.

        The lock is held from taking the time to setting it: one who is frozen between the two would else make the blob
        as old as that, although others put it later. What is renamed aside after the second look is younger by then
        than what its deleter looked at.
        """
        with _errors(), suppress(FileNotFoundError), open(path, "rb", buffering=0) as file:
            if not _is_intact(path, file.read()):
                self._remove_damaged(path)
                return False
            fcntl.flock(file, fcntl.LOCK_EX)
            os.utime(file.fileno(), ns=self._times())
            fcntl.flock(file, fcntl.LOCK_UN)
            if os.fstat(file.fileno()).st_ino != os.stat(path).st_ino:
                return False
            self._sync_descriptor(file.fileno())
            self._sync_folders(os.path.dirname(path))
            return True
        return False

    def _remove_damaged(self, path: str) -> None:
        """As `delete` does: what was renamed aside is looked at once more, since another put may have replaced it."""
        aside = self._aside(path)
        os.makedirs(os.path.dirname(aside), exist_ok=True)
        os.rename(path, aside)
        if _is_intact(path, Path(aside).read_bytes()):
            self._put_back(aside, path)
        else:
            os.unlink(aside)

    def _write(self, path: str, data: bytes) -> bool:
        """False where another put was first: a link gives way to its blob, which may be younger than this one."""
        temporary = os.path.join(self._folder, NEW, new_id(self._clock, 26))
        try:
            with _errors():
                self._write_durably(temporary, data)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                if not _link(temporary, path):
                    return False
        finally:
            with suppress(OSError):
                os.unlink(temporary)
        try:
            self._sync_folders(os.path.dirname(path))
        except OSError as exc:
            raise OutcomeUnknown("a blob's folder cannot be made durable", reason=str(exc)) from exc
        return True

    def _write_durably(self, path: str, data: bytes) -> None:
        with open(path, "xb") as file:
            file.write(data)
            file.flush()
            os.utime(file.fileno(), ns=self._times())
            self._sync_descriptor(file.fileno())

    def _times(self) -> tuple[int, int]:
        now_ns = self._clock.wall_ms() * 1_000_000 + int.from_bytes(self._clock.random_bytes(4), "big") % 1_000_000
        return now_ns, now_ns

    def _sync_folders(self, folder: str) -> None:
        """Make the names in ``folder`` durable, and once a process the names of it and of the folders above it."""
        self._sync(folder)
        if folder in self._durable_folders:
            return
        above = folder
        while above != self._folder:
            above = os.path.dirname(above)
            self._sync(above)
        if len(self._durable_folders) == FOLDERS_REMEMBERED_MAX:
            self._durable_folders.clear()
        self._durable_folders.add(folder)

    def _sync(self, path: str) -> None:
        _sync_path(path, self._sync_descriptor)

    def _put_back(self, aside: str, path: str) -> None:
        """By a link, which keeps the generation and gives way to a blob that was put meanwhile.

        A blob of format 1 that was put meanwhile has another name. Its old file goes, as `put` removes it.
        """
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _link(aside, path)
        if any(os.path.exists(f"{path}{kind}{ZSTD.suffix}") for kind in KINDS):
            _unlink_if_there(path)
        self._sync(os.path.dirname(path))
        os.unlink(aside)

    def _put_back_all(self) -> None:
        root = os.path.join(self._folder, ASIDE)
        for folder, _, names in os.walk(root):
            for name in names:
                target = os.path.join(self._folder, os.path.relpath(folder, root), name.rpartition(".")[0])
                with suppress(FileNotFoundError):
                    self._put_back(os.path.join(folder, name), os.path.normpath(target))

    def _paths(self, key: str) -> tuple[str, ...]:
        """Where a blob may lie: under the names of its kinds, else under that of format 1."""
        base = self._base(key)
        return (*(f"{base}{kind.suffix}{ZSTD.suffix}" for kind in kinds_of(key)), base)

    def _base(self, key: str) -> str:
        """The path of a blob's file without the suffixes."""
        self._check_open()
        key_hash(key)
        components = key.split("/")
        if any(not component or component.startswith(".") or "\0" in component for component in components):
            raise Invalid("a blob key has a component that is no file name", value=key)
        return os.path.join(self._folder, *map(_file_name, components))

    def _aside(self, path: str) -> str:
        return os.path.join(self._folder, ASIDE, f"{os.path.relpath(path, self._folder)}.{new_id(self._clock)}")

    def _wait_for_gap(self, last: bool) -> None:
        """A delete that finds another generation has it aside for a moment: who misses a blob looks once more."""
        if not last:
            self._clock.sleep(GAP_SECONDS)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the blobs are closed")


def make_folder(folder: str | Path, *, sync: Callable[[int], None] | None = None) -> None:
    """Make ``folder`` and the folders above it that are missing, durably; one that stands is fine.

    A folder is made only in one whose own name was synced, whoever made that: so where one stands, the names of all
    above it are durable, and only its own may still be on the way. Raises Unavailable, StorageFull.
    """
    with _errors():
        _make_folder(os.path.abspath(folder), sync or _sync_descriptor)


def _make_folder(folder: str, sync: Callable[[int], None]) -> None:
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


def _sync_path(path: str, sync: Callable[[int], None]) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def _walk(folder: str, base: str, prefix: str, after: str) -> Iterator[tuple[str, str]]:
    """Keys and paths in order of key: a folder sorts as its name with a slash, as it does within keys.

    Of two files of one blob the one that has the name of format 1 is left out.
    """
    with _errors():
        try:
            entries = [
                (_key_part(entry.name) + "/" if entry.is_dir() else _digest_of(entry.name), entry.path)
                for entry in os.scandir(folder)
            ]
        except FileNotFoundError:
            return
    for name, path in dict(sorted(entries)).items():
        key = base + name
        if name.startswith(".") or not (key.startswith(prefix) or prefix.startswith(key)):
            continue
        if name.endswith("/"):
            if key > after or after.startswith(key):
                yield from _walk(path, key, prefix, after)
        elif name and key > after and key.startswith(prefix):
            yield key, path


def _file_name(text: str) -> str:
    """A part of a key as a path has it: names of files are its UTF-8, whatever the locale says of file names."""
    return text if text.isascii() else os.fsdecode(text.encode())


def _key_part(name: str) -> str:
    return name if name.isascii() else os.fsencode(name).decode(errors="surrogateescape")


def _digest_of(name: str) -> str:
    """The last component of the key of the blob whose file has that name; empty for what is no file of ours."""
    digest, suffix = name[:DIGITS], name[DIGITS:]
    if len(digest) < DIGITS or "." in digest:
        return ""
    return digest if not suffix or (suffix.removesuffix(ZSTD.suffix) in KINDS and suffix.endswith(ZSTD.suffix)) else ""


def _refuse_unknown_codec(key: str, base: str) -> None:
    """Raise Unsupported where a blob is there, in a file of a codec that this program does not know.

    A look at so many files is quick. In a larger folder such a blob is not found.
    """
    folder, digest = os.path.split(base)
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in islice(entries, FILES_LOOKED_AT_MAX):
            kind, codec = os.path.splitext(entry.name.removeprefix(digest))
            if codec and kind in KINDS and entry.name.startswith(digest):
                codec_named(codec, key)


def _unlink_if_there(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _link(source: str, target: str) -> bool:
    """Whether nothing stood at the target."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    return True


def _is_intact(path: str, data: bytes) -> bool:
    """Whether ``data`` are the bytes of the blob that the file ``path`` is named after."""
    try:
        verified(os.path.basename(path)[:DIGITS], decompress(data, BLOB_BYTES_MAX))
    except Corrupt:
        return False
    return True


def _stat(key: str, status: os.stat_result) -> BlobStat:
    stamp = f"{status.st_ino:x}-{status.st_mtime_ns:x}"
    return BlobStat(key, status.st_size, status.st_mtime_ns // 1_000_000, stamp)


def _sync_descriptor(descriptor: int) -> None:
    """On macOS fsync leaves bytes in the drive's cache; F_FULLFSYNC does not."""
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, full_sync)


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as exc:
        _raise_ours(exc)


def _raise_ours(exc: OSError) -> NoReturn:
    kind: type[StratalogError] = StorageFull if exc.errno in NO_ROOM else Unavailable
    raise kind("the file system refused", reason=exc.strerror, path=exc.filename) from exc
