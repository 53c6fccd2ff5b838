"""New SQLite files that appear complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable

from stratalog.folders import file_errors, sync_path

__all__ = ["create_file"]

UNFINISHED = ".new"
# SQLite applies a file with such a suffix to the database of that name, even if it was written for another database.
SUFFIXES = ("-journal", "-wal", "-shm")


def create_file(path: str, create: Callable[[str], None]) -> None:
    """Create the file at ``path`` where it is missing or empty. The caller lets one process at a time do that.

    ``create`` writes a whole database to the path that it is given, and the file is then renamed. A file that is made
    under its final name can be lost: SQLite undoes the first transaction of a new file by truncating it. If the sync
    after that fails, and then the power fails during the next try, the file may keep sectors of zeros, which are not a
    database.

    Raises the errors of ``create``, StorageFull, Unavailable: the next call creates the file.
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
