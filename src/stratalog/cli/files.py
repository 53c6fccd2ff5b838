"""Files of the user that commands read and write."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from stratalog.errors import Invalid
from stratalog.folders import sync_descriptor

__all__ = ["output_file", "read_text"]


@contextmanager
def output_file(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a file for the content of ``path``. The content replaces an existing file once the block ends.

    After an error of the block an existing file is unchanged, and a missing one stays missing. A symbolic link stays a
    link. A device or a pipe is written directly. Raises OSError, which names ``path``.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as out:
            yield out
        return
    try:
        # Another command may write the same file, so the temporary file needs a name of its own.
        descriptor, temporary = tempfile.mkstemp(prefix=".stratalog-", suffix=".partial", dir=target.parent)
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, str(path)) from exc
    try:
        with os.fdopen(descriptor, "wb") as out:
            yield out
            out.flush()
            sync_descriptor(descriptor)
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def read_text(path: Path) -> str:
    """Return the text of a file. Raises Invalid if the bytes are not UTF-8, and OSError."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as exc:
        raise Invalid("the file is not UTF-8 text", file=path) from exc
