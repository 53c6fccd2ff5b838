"""Blobs behind a cache in a folder of this machine, which its processes share."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

from stratalog.clock import Clock, new_id
from stratalog.codec import compress_quickly, decompress, sha256
from stratalog.errors import Closed, Corrupt
from stratalog.folders import absolute_path, make_folders
from stratalog.limits import BLOB_BYTES_MAX, CHUNK_FILES_BYTES_MAX
from stratalog.ports.blobs import Blobs, key_hash, verified
from stratalog.ports.blobs_wrapper import BlobsWrapper

__all__ = ["CachedBlobs"]

FOLDERS = 256
BLOCK_BYTES = 4096
# After a process has added a file, it checks the file's folder with a probability in proportion to the file's size. On
# average it checks once while it adds `CHECKED_SHARE` of the folder's limit. The check removes files until
# `FREED_SHARE` of the limit is free. So no process counts the bytes of the others. One folder may exceed its limit for
# a while, but the sum of all folders hardly does.
CHECKED_SHARE = 1 / 16
FREED_SHARE = 2 * CHECKED_SHARE

_log = logging.getLogger("stratalog")


class CachedBlobs(BlobsWrapper):
    """``blobs`` with a cache of their content below ``folder``. Only `get` reads the cache; all else goes to ``blobs``.

    So the cache never shows that a blob is stored. After another process has deleted a blob, `get` may still return
    its content.

    A file contains one blob, compressed, and its name is the hash of the blob's key. Each read compares the content
    with the key's hash, and removes a damaged file. Nothing is made durable. An error of the folder fails no call: the
    blob then comes from ``blobs``. The files have hardly more than ``bytes_max`` bytes together; see `CHECKED_SHARE`.
    The least recently read files are removed first, also files that a crash has left unfinished.
    """

    def __init__(
        self, blobs: Blobs, folder: str | Path, clock: Clock, *, bytes_max: int = CHUNK_FILES_BYTES_MAX
    ) -> None:
        super().__init__(blobs)
        self._folder = absolute_path(folder)
        self._clock = clock
        self._folder_bytes_max = bytes_max // FOLDERS
        self._is_warned = False
        self._closed = False

    def get(self, key: str) -> bytes:
        if self._closed:
            raise Closed("the blobs are closed")
        key_hash(key)
        path = self._path(key)
        body = self._read(key, path)
        if body is None:
            body = self._blobs.get(key)
            self._write(path, compress_quickly(body))
        return body

    def is_near(self, key: str) -> bool:
        """Return whether the folder has a file for the blob."""
        return os.path.exists(self._path(key))

    def delete(self, key: str, stamp: str) -> bool:
        is_gone = self._blobs.delete(key, stamp)
        if is_gone:
            with suppress(OSError):
                os.unlink(self._path(key))
        return is_gone

    def close(self) -> None:
        self._closed = True
        self._blobs.close()

    def _path(self, key: str) -> str:
        name = sha256(key.encode()).hex()
        return os.path.join(self._folder, name[:2], name)

    def _read(self, key: str, path: str) -> bytes | None:
        """Return the cached content, and make its file the most recently read one. Return None without a sound file."""
        try:
            body = verified(key, decompress(Path(path).read_bytes(), BLOB_BYTES_MAX))
        except FileNotFoundError:
            return None
        except Corrupt:
            with suppress(OSError):
                os.unlink(path)
            return None
        except OSError as exc:
            self._warn(exc)
            return None
        with suppress(OSError):
            os.utime(path, ns=self._now())
        return body

    def _write(self, path: str, frame: bytes) -> None:
        """Write a file under a temporary name and rename it, so that no process reads an unfinished file."""
        size = _allocated(len(frame))
        if size > self._folder_bytes_max:
            return
        folder = os.path.dirname(path)
        temporary = os.path.join(folder, new_id(self._clock))
        try:
            make_folders(folder, 0o700)
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(frame)
            os.utime(temporary, ns=self._now())
            os.rename(temporary, path)
            if self._clock.random() * self._folder_bytes_max * CHECKED_SHARE < size:
                self._free(folder)
        except OSError as exc:
            self._warn(exc)
            with suppress(OSError):
                os.unlink(temporary)

    def _free(self, folder: str) -> None:
        """Remove the least recently read files of a folder, if its files have too many bytes."""
        files: list[tuple[int, int, str]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # another process removes files too
                    stat = entry.stat()
                    files.append((stat.st_mtime_ns, _allocated(stat.st_size), entry.path))
        excess = sum(size for _, size, _ in files) - self._folder_bytes_max * (1 - FREED_SHARE)
        for _, size, path in sorted(files):
            if excess <= 0:
                return
            with suppress(FileNotFoundError):
                os.unlink(path)
            excess -= size

    def _now(self) -> tuple[int, int]:
        now_ns = self._clock.wall_ms() * 1_000_000
        return now_ns, now_ns

    def _warn(self, exc: OSError) -> None:
        """Log the first error of the folder, since an unusable cache is otherwise only slow."""
        if not self._is_warned:
            self._is_warned = True
            _log.warning("the cache of chunks cannot be used: %s: %s", exc.strerror, exc.filename)


def _allocated(size: int) -> int:
    """Return the bytes that a file of ``size`` bytes takes on the disk."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES
