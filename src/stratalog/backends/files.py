"""Blobs as files of a folder. Each blob is one file, written under a temporary name and then linked to its path.

A file's path is the blob's key plus the suffixes of its kind and codec, so that a person can open it. In format 1 the
path is the key alone. A file of format 1 can still be read. The next put of the blob writes a file with suffixes and
removes the old file.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO
from weakref import finalize

from stratalog.clock import Clock, Observation, new_id
from stratalog.codec import ZSTD, codec_named, compress, decompress
from stratalog.errors import Closed, Corrupt, Invalid, NotFound, OutcomeUnknown, Unavailable
from stratalog.folders import (
    DurableFolders,
    OpenPath,
    absolute_path,
    file_errors,
    make_folder,
    make_folders,
    make_shared_folder,
    remove_empty,
    sync_descriptor,
)
from stratalog.limits import BLOB_BYTES_MAX, FILE_LOCK_WAIT_MS_MAX
from stratalog.ports.blob_kinds import JSON, MSGPACK, OCTETS, kind_of, kinds_of
from stratalog.ports.blobs import BlobStat, Damaged, check_put, ignore, key_hash, sound_keys, unpacked, verified
from stratalog.ports.damaged_keys import readable_key
from stratalog.recent_reads import RecentReads

__all__ = ["FileBlobs"]

# No key component starts with a dot, so the folders `NEW` and `ASIDE` never clash with a key.
NEW = ".new"
# To delete a blob, Stratalog before 0.1.0 moved its file to this folder, and then compared the stamp.
ASIDE = ".aside"
DIGITS = 64
KINDS = frozenset(kind.suffix for kind in (JSON, MSGPACK, OCTETS))
# The number of times that a reader looks at all possible paths. A put may replace a file of format 1 by one with
# suffixes, just after the reader looked for that one. The second look also finds a file of a folder that is back.
LOOKS = 2
FILES_LOOKED_AT_MAX = 10_000
PUT_TRIES_MAX = 100
LOCK_POLL_MS = 1


class FileBlobs:
    """Blobs under ``folder``, which several processes may share. Needs hard links and `flock`.

    A blob's age starts at its file's modification time, set by ``clock`` with random digits below the millisecond.
    Inode and modification time together are the stamp of one generation. A process holds the lock of a blob's file
    while it renews or deletes the blob. So an intact blob is at its path from its first put to its deletion, and a
    reader never waits. A put removes a damaged file before it writes a new one. A crash may leave an unfinished file in
    ``.new``. The next process that opens the folder removes this file. ``sync`` makes the file or folder behind a
    descriptor durable. The default is `sync_descriptor`. If the folder itself is moved, deleted or replaced, then puts,
    lists, and reads that find nothing raise Unavailable.
    """

    def __init__(self, folder: str | Path, clock: Clock, *, sync: Callable[[int], None] | None = None) -> None:
        self._folder = absolute_path(folder)
        self._clock = clock
        self._sync_descriptor = sync or sync_descriptor
        self._folders = DurableFolders(self._folder, self._sync_descriptor)
        self._closed = False
        self._reads = RecentReads()
        make_folder(self._folder, sync=sync)
        with file_errors():
            make_folders(os.path.join(self._folder, NEW))
            self._folders.sync(self._folder)
            self._remove_unfinished()
            self._put_back()
            # Some network file systems give a folder another inode number unless a process has it open.
            self._release = finalize(self, os.close, os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC))
        self._opened = OpenPath(self._folder, "the folder of the blobs")

    def put(self, key: str, body: bytes) -> None:
        base = self._base(key)
        check_put(key, body)
        path = f"{base}{kind_of(key, body).suffix}{ZSTD.suffix}"
        for _ in range(PUT_TRIES_MAX):
            is_stored = self._refresh(path) or self._write(path, compress(body))
            self._opened.check()
            # Test the path after the check. A test before it may see the file in another folder, which had replaced
            # this folder for a moment.
            if is_stored and os.path.exists(path):
                _unlink_if_there(base)
                return
        raise Unavailable("other processes keep changing the folder of a blob", key=key, tries=PUT_TRIES_MAX)

    def get(self, key: str) -> bytes:
        paths = self._paths(key)
        for _ in range(LOOKS):
            for path in paths:
                with file_errors(), suppress(FileNotFoundError):
                    return unpacked(key, ZSTD, Path(path).read_bytes())
            self._opened.check()
        with file_errors():
            _refuse_unknown_codec(key, paths[-1])
        raise NotFound("blob not found", key=key)

    def stat(self, key: str) -> BlobStat | None:
        return self._find(key)[1]

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        self._check_open()
        yield from sound_keys(self._list(prefix, after, damaged), damaged)
        self._opened.check()  # at the end, since a folder that was moved away looks like an empty folder

    def _list(self, prefix: str, after: str, damaged: Damaged) -> Iterator[BlobStat]:
        for key, path in _walk(self._folder, "", prefix, after):
            self._check_open()
            try:
                key.encode()
            except UnicodeEncodeError:
                damaged(readable_key(key.encode(errors="surrogateescape")))
                continue
            with file_errors(), suppress(FileNotFoundError):
                yield _stat(key, os.stat(path))
                continue
            with suppress(Invalid):  # a put may have replaced the file of format 1; a damaged key is Invalid
                yield from filter(None, [self.stat(key)])

    def delete(self, key: str, stamp: str) -> bool:
        """Lock the file to compare its stamp and unlink it, so that no put renews the file in between."""
        path, stat = self._find(key)
        if stat is None or stat.stamp != stamp:
            return stat is None
        with file_errors():
            if not self._unlink_generation(path, stamp):
                return self.stat(key) is None
            with suppress(FileNotFoundError):
                self._folders.sync(os.path.dirname(path))
            remove_empty(os.path.dirname(path), self._folder)
        return True

    def close(self) -> None:
        self._closed = True
        self._release()

    def _find(self, key: str) -> tuple[str, BlobStat | None]:
        """Return the path of a blob's file and its stat; an empty path and None if there is no file."""
        paths = self._paths(key)
        for _ in range(LOOKS):
            for path in paths:
                with file_errors(), suppress(FileNotFoundError):
                    return path, _stat(key, os.stat(path))
            self._opened.check()
        return "", None

    def _refresh(self, path: str) -> bool:
        """Renew the modification time of an existing file, durably, and return True.

        Return False if there is no file, or if another process removed or replaced the file meanwhile. Read the file's
        bytes once per observation window, since presence does not prove integrity. Remove a damaged file, and return
        False.
        """
        looked = Observation(self._clock)
        with file_errors(path), suppress(FileNotFoundError), open(path, "rb", buffering=0) as file:
            seen = self._reads.find(path, _generation(os.fstat(file.fileno())))
            if seen is None and not _is_intact(path, file.read()):
                with self._locked(file):
                    if _is_at(path, file):
                        os.unlink(path)
                return False
            # Hold the lock from reading the clock to setting the time. Otherwise a process that is suspended between
            # these steps could replace the time of a later put by an older time. A delete could also unlink the file.
            with self._locked(file):
                os.utime(file.fileno(), ns=self._times())
                renewed = os.fstat(file.fileno())
            # A delete that takes the lock later finds a newer stamp. But an earlier delete may have unlinked the file.
            if not _is_at(path, file):
                return False
            self._reads.note(path, _generation(renewed), seen or looked)
            self._sync_descriptor(file.fileno())
            self._folders.sync_up(os.path.dirname(path))
            return True
        return False

    def _write(self, path: str, data: bytes) -> bool:
        """Write a new file and link it to ``path``, durably, and return True.

        Return False if another put has made the file first. A link does not replace the other file, which may be
        younger. Return False also if another process has removed the empty folder, or has removed the temporary file
        as unfinished.
        """
        temporary = os.path.join(self._folder, NEW, new_id(self._clock, 26))
        try:
            with file_errors(self._folder), suppress(FileNotFoundError):
                self._write_durably(temporary, data)
                make_shared_folder(os.path.dirname(path), self._folder)
                if _link(temporary, path):
                    return self._make_durable(path)
        finally:
            _unlink_if_there(temporary)
        return False

    def _make_durable(self, path: str) -> bool:
        """Sync the folders above a new file. Return False if the file's folder was removed. Raises OutcomeUnknown."""
        try:
            self._folders.sync_up(os.path.dirname(path))
        except FileNotFoundError:
            return False
        except OSError as exc:
            raise OutcomeUnknown("a blob's folder cannot be made durable", reason=str(exc)) from exc
        return True

    def _write_durably(self, path: str, data: bytes) -> None:
        # Lock the file, so that `_remove_unfinished` of another process does not remove it.
        with open(path, "xb") as file, self._locked(file):
            file.write(data)
            file.flush()
            os.utime(file.fileno(), ns=self._times())
            self._sync_descriptor(file.fileno())

    def _remove_unfinished(self) -> None:
        """Remove unfinished files of processes that have ended. A process that still writes a file holds its lock."""
        with os.scandir(os.path.join(self._folder, NEW)) as entries:
            for entry in entries:
                with suppress(OSError), open(entry.path, "rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(entry.path)

    def _times(self) -> tuple[int, int]:
        now_ns = self._clock.wall_ms() * 1_000_000 + int.from_bytes(self._clock.random_bytes(4), "big") % 1_000_000
        return now_ns, now_ns

    def _unlink_generation(self, path: str, stamp: str) -> bool:
        """Unlink the file and return True. Return False if the file does not exist or has another stamp."""
        with suppress(FileNotFoundError), open(path, "rb", buffering=0) as file, self._locked(file):
            if _is_at(path, file) and _stamp(os.fstat(file.fileno())) == stamp:
                os.unlink(path)
                return True
        return False

    @contextmanager
    def _locked(self, file: IO[bytes]) -> Iterator[None]:
        """Wait for the lock of an open file and hold it. Raises Unavailable after `FILE_LOCK_WAIT_MS_MAX`.

        Closing the file would not be enough to free the lock: a child that was just forked still has the file open.
        """
        for _ in range(FILE_LOCK_WAIT_MS_MAX // LOCK_POLL_MS):
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            self._clock.sleep(LOCK_POLL_MS / 1000)
        else:
            raise Unavailable(
                "another process keeps a blob's file locked", path=file.name, limit_ms=FILE_LOCK_WAIT_MS_MAX
            )
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)

    def _put_back(self) -> None:
        """Put back the files that a Stratalog before 0.1.0 moved to `ASIDE` before it crashed.

        A put may have renewed such a file before the move, so the file must not be lost. A link keeps the generation
        and does not replace a blob that was put since.
        """
        root = os.path.join(self._folder, ASIDE)
        for folder, _, names in os.walk(root, topdown=False):
            for name in names:
                target = os.path.join(self._folder, os.path.relpath(folder, root), name.rpartition(".")[0])
                target = os.path.normpath(target)
                make_shared_folder(os.path.dirname(target), self._folder)
                with suppress(FileNotFoundError):  # another process puts the file back
                    _link(os.path.join(folder, name), target)
                    self._folders.sync_up(os.path.dirname(target))
                    os.unlink(os.path.join(folder, name))
            with suppress(OSError):
                os.rmdir(folder)

    def _paths(self, key: str) -> tuple[str, ...]:
        """Return the possible paths of a blob's file: one for each kind, and last the path of format 1."""
        base = self._base(key)
        return (*(f"{base}{kind.suffix}{ZSTD.suffix}" for kind in kinds_of(key)), base)

    def _base(self, key: str) -> str:
        """Return the path of a blob's file without the suffixes. Raises Invalid, Closed."""
        self._check_open()
        key_hash(key)
        components = key.split("/")
        if any(not component or component.startswith(".") or "\0" in component for component in components):
            raise Invalid("a blob key has a component that is not a file name", value=key)
        return os.path.join(self._folder, *map(_file_name, components))

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the blobs are closed")


def _walk(folder: str, base: str, prefix: str, after: str) -> Iterator[tuple[str, str]]:
    """Yield keys and paths in order of key. A folder's name sorts with a slash at its end, as within keys.

    If a blob has two files, the file of format 1 is left out. This file sorts first, and the file with suffixes
    replaces it in the `dict`.
    """
    with file_errors():
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
    """Return a key component as a file name. On disk the name is always UTF-8, whatever the locale's encoding is."""
    return text if text.isascii() else os.fsdecode(text.encode())


def _key_part(name: str) -> str:
    return name if name.isascii() else os.fsencode(name).decode(errors="surrogateescape")


def _digest_of(name: str) -> str:
    """Return the last component of the key of the blob whose file has this name; empty for a foreign file."""
    digest, suffix = name[:DIGITS], name[DIGITS:]
    if len(digest) < DIGITS or "." in digest:
        return ""
    return digest if not suffix or (suffix.removesuffix(ZSTD.suffix) in KINDS and suffix.endswith(ZSTD.suffix)) else ""


def _refuse_unknown_codec(key: str, base: str) -> None:
    """Raise Unsupported if the blob's file exists with a codec that this program does not support.

    Only the first `FILES_LOOKED_AT_MAX` names of the folder are read, so that a large folder costs little time.
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
    """Link ``source`` to ``target``. Return False, and change nothing, if ``target`` exists."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    return True


def _is_intact(path: str, data: bytes) -> bool:
    """Return whether ``data`` is an intact stored form of the blob whose file is ``path``."""
    try:
        verified(os.path.basename(path)[:DIGITS], decompress(data, BLOB_BYTES_MAX))
    except Corrupt:
        return False
    return True


def _is_at(path: str, file: IO[bytes]) -> bool:
    """Return whether ``path`` still leads to the open ``file``. No other file has the inode number of an open file.

    Raises FileNotFoundError if ``path`` does not exist.
    """
    return os.path.samestat(os.stat(path), os.fstat(file.fileno()))


def _stat(key: str, status: os.stat_result) -> BlobStat:
    return BlobStat(key, status.st_size, status.st_mtime_ns // 1_000_000, _stamp(status))


def _stamp(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}"


def _generation(status: os.stat_result) -> str:
    """Return a name of the file's present content.

    Unlike a stamp, the name also changes if a program writes the file in place and then restores the modification time.
    """
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_ctime_ns:x}-{status.st_size}"
