"""A folder of data files, on this machine or in S3, that gives access to the files below it and to no other files.

Names of files come from the log, and any program may write names into the log. The folder refuses a name that leads out
of the folder by `..`, as an absolute path or through a symbolic link to a folder. It does not refuse a file that is
itself a symbolic link.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import fs

from stratalog import Invalid
from stratalog_table.locations import split_location

__all__ = ["UNFINISHED", "DataFile", "DataFolder"]

UNFINISHED = ".unfinished"


class DataFile(msgspec.Struct, frozen=True):
    """A data file in a listing, last written at ``modified_ms``."""

    filename: str
    modified_ms: int


class DataFolder:
    """The files below one URL: ``file:///…`` or ``s3://bucket/prefix``, as pyarrow opens it. Raises Invalid."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.files, self.base = _opened(url)
        self.is_local = isinstance(self.files, fs.LocalFileSystem)

    def path(self, filename: str) -> str:
        """Return the path of a file. Raises Invalid for a name that leads out of the folder."""
        if not self.holds(filename):
            raise Invalid("the name of a data file leads out of the table's folder", filename=filename)
        return f"{self.base}/{filename}"

    def holds(self, filename: str) -> bool:
        """Return whether a name leads to a path inside the folder."""
        is_plain = "\0" not in filename and all(part not in ("", ".", "..") for part in filename.split("/"))
        return is_plain and self._is_inside(f"{self.base}/{filename}")

    def write_with(self, filename: str, write: Any) -> None:
        """Write a new file atomically with ``write(path)``. The file is durable on return.

        If ``write`` raises an error, no file is left. On an object store, ``write`` uses the final name. So a part of
        the file may be visible before the error, and a file that already had the name would be lost.
        """
        path = self.path(filename)
        self._write(path + UNFINISHED if self.is_local else path, path, write)

    def replace_bytes(self, filename: str, body: bytes, token: str) -> None:
        """Write or replace a small file, atomically and durably. After an error it has the old or the new bytes.

        The bytes are first written under a name that contains ``token``. The token must be unique among concurrent
        writers.
        """

        def write(path: str) -> None:
            with self.files.open_output_stream(path) as stream:
                stream.write(body)

        path = self.path(filename)
        self._write(f"{path}.{token}{UNFINISHED}", path, write)

    def read_bytes(self, filename: str) -> bytes | None:
        """Return the bytes of a small file, or None if it does not exist."""
        try:
            with self.files.open_input_stream(self.path(filename)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def delete(self, filename: str) -> None:
        """Delete a file. A missing file is no error."""
        try:
            self.files.delete_file(self.path(filename))
        except FileNotFoundError:
            return

    def list(self, below: str = "") -> Iterator[DataFile]:
        """Yield the files in the folder or in its subfolder ``below``. Files behind a symbolic link are left out."""
        top = f"{self.base}/{below}".rstrip("/")
        for info in self._infos(top, recursive=True):
            if info.type == fs.FileType.File and info.mtime_ns is not None and self._is_inside(info.path):
                yield DataFile(info.path[len(self.base) + 1 :], info.mtime_ns // 1_000_000)

    def modified_ms(self, filename: str) -> int | None:
        """Return the time of the last write of a file in milliseconds, or None if the file does not exist."""
        info = self.files.get_file_info(self.path(filename))
        return info.mtime_ns // 1_000_000 if info.type == fs.FileType.File and info.mtime_ns is not None else None

    def is_empty(self) -> bool:
        """Return whether the folder is empty or missing. If the path is a file, return False."""
        if self.is_local and os.path.lexists(self.base) and not os.path.isdir(self.base):
            return False
        return self.is_vacant(self.base)

    def is_vacant(self, path: str) -> bool:
        """Return whether the folder at a path of the same file system is empty or missing.

        In an object store, subfolders without files do not count.
        """
        infos = self._infos(path, recursive=False)
        if self.is_local or any(info.type == fs.FileType.File for info in infos):
            return not infos
        # A folder that S3 lists may be only the marker of a folder whose files were deleted.
        return all(self.is_vacant(info.path) for info in infos)

    def remove_empty(self, below: str) -> None:
        """Remove each empty folder in the subfolder ``below``, and ``below`` itself. "" is the folder itself.

        On an object store, do nothing.
        """
        if self.is_local:
            for folder, _, _ in os.walk(os.path.join(self.base, below), topdown=False):
                with suppress(OSError):
                    os.rmdir(folder)

    def _infos(self, path: str, *, recursive: bool) -> Any:
        """Return pyarrow's listing of a folder, which is empty if the folder is missing."""
        selector = fs.FileSelector(path, recursive=recursive, allow_not_found=True)
        try:
            return self.files.get_file_info(selector)
        except FileNotFoundError:
            # pyarrow found no folder, then looked again, and another process had created the folder.
            return self.files.get_file_info(selector)

    def _write(self, source: str, path: str, write: Any) -> None:
        """Write a file at ``source`` and move it to ``path``. After an error, delete the file at ``source``."""
        if self.is_local:
            self.files.create_dir(os.path.dirname(path), recursive=True)  # unlike `os.makedirs`, at any depth
        try:
            write(source)
            if self.is_local:
                _settle(source, path)
            elif source != path:
                self.files.move(source, path)
        except BaseException:
            with suppress(OSError):
                self.files.delete_file(source)
            raise

    def _is_inside(self, path: str) -> bool:
        if not self.is_local:
            return True
        base, folder = Path(os.path.realpath(self.base)), Path(os.path.realpath(os.path.dirname(path)))
        # The file itself may be a link, because a delete removes only the link. The folder of the file must be the base
        # or inside the base.
        return folder == base or base in folder.parents


def _opened(url: str) -> tuple[Any, str]:
    parts = split_location(url)
    if parts.scheme in ("", "file"):
        return fs.LocalFileSystem(), os.path.abspath(unquote(parts.path)).rstrip("/")
    try:
        files, base = fs.FileSystem.from_uri(url)
    except (pa.ArrowInvalid, OSError) as exc:
        raise Invalid("the URL of the data files cannot be opened", url=url, reason=str(exc)) from exc
    if not base.strip("/"):
        raise Invalid("the URL of the data files names no bucket", url=url)
    return files, base.rstrip("/")


def _settle(source: str, target: str) -> None:
    """Sync a written file to disk, rename it to its final name, and sync the folder."""
    with open(source, "rb") as written:
        os.fsync(written.fileno())
    os.rename(source, target)
    folder = os.open(os.path.dirname(target), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
