"""New SQLite files that appear complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable

from stratalog.codec import escaped
from stratalog.errors import Invalid
from stratalog.folders import file_errors, sync_path

__all__ = ["check_path", "create_file"]

UNFINISHED = ".new"
# SQLite applies the file NAME-wal to the database NAME, even if another database wrote the file. The same is true of a
# file with one of the other suffixes.
SUFFIXES = ("-journal", "-wal", "-shm")


def check_path(path: str) -> None:
    """Raise Invalid for a path at which SQLite cannot open a file. SQLite's paths are UTF-8 without a NUL.

    This includes the folders above the file and the targets of symbolic links.
    """
    try:
        if "\0" not in path:
            os.path.realpath(path).encode()
            return
    except UnicodeEncodeError:
        pass  # Python represents a byte that is not UTF-8 as a lone surrogate
    raise Invalid("SQLite needs a path in UTF-8 without a NUL", path=escaped(os.path.abspath(path)))


def create_file(path: str, create: Callable[[str], None]) -> None:
    """Create the file at ``path`` if it is missing or empty. Only one process at a time may call this for a path.

    ``create`` writes a whole database to a temporary path. Then this function renames the file. A database that is made
    under its final name can be lost. SQLite undoes the first transaction of a new file by truncating the file. If the
    sync after the truncation fails, and then the power fails during the next try, the file may keep sectors of zeros.
    A file with such sectors is not a database.

    Raises the errors of ``create``, StorageFull, Unavailable. After an error the next call creates the file.
    """
    path = os.path.realpath(path)
    if os.path.exists(path) and os.path.getsize(path):
        return
    unfinished = path + UNFINISHED
    with file_errors():
        for left in (unfinished, *(name + suffix for name in (unfinished, path) for suffix in SUFFIXES)):
            if os.path.exists(left):
                os.unlink(left)
    create(unfinished)
    with file_errors():
        os.replace(unfinished, path)
        sync_path(os.path.dirname(path))
