"""The list of a folder's files, with the files, links and subfolders that cannot be read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from stratalog import Unavailable
from stratalog_catalogue.names import file_id

__all__ = ["ListedFile", "list_files", "listed_file"]


class ListedFile(NamedTuple):
    """A listed file. Files are ordered by time."""

    time_ns: int
    size: int
    id: str
    path: Path
    fault: str = ""
    """The reason why the file cannot be read, or "" if the listing found no reason."""

    @property
    def time_ms(self) -> int:
        """The time in milliseconds, rounded down."""
        return self.time_ns // 1_000_000


def list_files(folder: Path, pattern: str) -> list[ListedFile]:
    """Return the files of a folder that match the pattern, oldest first, and what cannot be read.

    Raises Unavailable if the folder cannot be listed.
    """
    try:
        root = folder.resolve()
        paths = list(folder.glob(pattern))
        if not folder.is_dir():
            raise Unavailable("the source's folder does not exist", folder=folder)
        faults = list(_unreadable_folders(folder, pattern))
    except (OSError, ValueError, NotImplementedError) as exc:
        raise Unavailable("the source's folder cannot be read", folder=folder, reason=str(exc)) from exc
    listed = (file for path in paths if (file := listed_file(root, folder, path)) is not None)
    return sorted([*faults, *listed])


def _unreadable_folders(folder: Path, pattern: str) -> Iterator[ListedFile]:
    """Yield each subfolder that may have files of the pattern but cannot be listed. A glob leaves it out in silence.

    Raises OSError if the folder itself cannot be listed.
    """
    names = Path(pattern).parts
    fixed = list(takewhile(lambda name: name != "**", names[:-1]))

    def may_enter(parts: tuple[str, ...]) -> bool:
        fits = all(fnmatchcase(part, name) for part, name in zip(parts, fixed, strict=False))
        return fits and (len(parts) <= len(fixed) or "**" in names)

    errors: list[OSError] = []
    for path, subfolders, _ in os.walk(folder, onerror=errors.append):
        parts = Path(path).relative_to(folder).parts
        subfolders[:] = [name for name in subfolders if may_enter((*parts, name))]
    for error in errors:
        where = Path(error.filename)
        if where == folder:
            raise error
        if not isinstance(error, FileNotFoundError):
            id = file_id(where.relative_to(folder).as_posix())
            yield ListedFile(0, 0, id, where, f"the folder cannot be read: {error}")


def listed_file(root: Path, folder: Path, path: Path) -> ListedFile | None:
    """Return a path as a listed file, or None if it is not a file or no longer exists."""
    id = file_id(path.relative_to(folder).as_posix())
    try:
        if not path.is_file():
            # The lock of an editor such as Emacs is a link to no file. It must not hold back the deletions of a mirror.
            is_broken = path.is_symlink() and not path.exists() and not path.name.startswith(".#")
            return ListedFile(0, 0, id, path, "a link leads to no file") if is_broken else None
        stat = path.stat()
        fault = "" if path.resolve().is_relative_to(root) else "a link leads out of the source's folder"
        return ListedFile(stat.st_mtime_ns, stat.st_size, id, path, fault)
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError) as exc:
        return ListedFile(0, 0, id, path, f"the file cannot be read: {exc}")
