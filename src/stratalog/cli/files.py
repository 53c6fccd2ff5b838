"""Files of the user that commands read and write."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from stratalog.errors import Invalid
from stratalog.folders import sync_descriptor

__all__ = ["output_file", "read_text", "standard_input", "standard_output"]


_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,9})")
_NOT_REPLACEABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY})
"""The errors of a folder in which the user may not make files, and of a file that is a mount point."""


def standard_input() -> BinaryIO:
    """Return the bytes of standard input. Raises Invalid if the caller of the program closed it."""
    if sys.stdin is None:
        raise Invalid("standard input is closed")
    return sys.stdin.buffer


def standard_output() -> BinaryIO:
    """Return standard output for bytes. Raises Invalid if the caller of the program closed it."""
    if sys.stdout is None:
        raise Invalid("standard output is closed")
    return sys.stdout.buffer


@contextmanager
def output_file(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a file for the content of ``path``. The content replaces an existing file once the block ends.

    After an error of the block an existing file is unchanged, and a missing file stays missing. A symbolic link stays a
    link. A device, a pipe or an open descriptor such as ``/dev/stdout`` is written directly. Raises Invalid if ``path``
    is empty, or is an existing file that cannot be replaced in its folder. Any other error of the file is an OSError
    that names ``path``.
    """
    if not str(path):
        raise Invalid("the name of the output file is empty", file="")
    descriptor = _descriptor_of(str(path))
    if descriptor is not None or (Path(path).exists() and not Path(path).is_file()):
        with _opened(path, descriptor) as out:
            yield out
        return
    target = Path(os.path.realpath(path))
    try:
        # Another command may write the same file, so the temporary file needs a name of its own.
        made, temporary = tempfile.mkstemp(prefix=".stratalog-", suffix=".partial", dir=target.parent)
    except OSError as exc:
        raise _refusal(exc, path, target) from exc
    try:
        with io.BufferedWriter(_NamedOutput(made, path)) as out:
            yield out
            out.flush()
            with _named(path):
                sync_descriptor(made)
        if target.exists():
            shutil.copymode(target, temporary)
        try:
            os.replace(temporary, target)
        except OSError as exc:
            raise _refusal(exc, path, target) from exc
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _descriptor_of(path: str) -> int | None:
    """Return the open descriptor of this process that a path names; None for another path."""
    match = _DESCRIPTOR.fullmatch(path)
    return int(match[1]) if match else _STANDARD.get(path)


def _opened(path: str | Path, descriptor: int | None) -> BinaryIO:
    """Open a device or pipe, or a copy of a descriptor, which continues at the position of the descriptor."""
    with _named(path):
        return io.BufferedWriter(_NamedOutput(str(path) if descriptor is None else os.dup(descriptor), path))


class _NamedOutput(io.FileIO):
    """A file that is written. The error of a write, for example of a full disk, names ``path``."""

    def __init__(self, file: str | int, path: str | Path) -> None:
        super().__init__(file, "wb")
        self._path = path

    def write(self, data: Any) -> int:
        with _named(self._path):
            return super().write(data)


@contextmanager
def _named(path: str | Path) -> Iterator[None]:
    """Raise an OSError of the block as an OSError that names ``path``."""
    try:
        yield
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, str(path)) from exc


def _refusal(cause: OSError, path: str | Path, target: Path) -> Exception:
    """Return the error for a temporary file that could not be made, or could not replace ``target``."""
    if cause.errno in _NOT_REPLACEABLE and target.exists():
        return Invalid(
            "the output file cannot be replaced in its folder; name another file", file=str(path), reason=cause.strerror
        )
    return OSError(cause.errno, cause.strerror, str(path))


def read_text(path: Path) -> str:
    """Return the text of a file. Raises Invalid if the bytes are not UTF-8, and OSError."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as exc:
        raise Invalid("the file is not UTF-8 text", file=path) from exc
