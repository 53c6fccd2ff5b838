"""The stored location of a table's data files: a path relative to the store's folder, or a URL.

The location is relative if the data files are below the store's folder, or in a folder next to the store's folder. Then
the store finds the data files after both folders are moved together. A copy of both folders uses the copied files.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from stratalog import Invalid, Store

__all__ = ["folder_of", "open_location", "split_location", "store_location"]

RELATIVE = "store:"
"""The prefix of a relative location. The rest is a path from the store's folder."""


def store_location(store: Store, url: str) -> str:
    """Return the location to store for the URL of data files.

    The location is relative if the data files are below the store's parent folder.
    """
    folder = folder_of(store.location)
    parts = split_location(url)
    if folder is None or parts.scheme not in ("", "file"):
        return url
    path = Path(os.path.abspath(unquote(parts.path)))
    if folder.parent not in path.parents:
        return url
    return RELATIVE + Path(os.path.relpath(path, folder)).as_posix()


def split_location(url: str) -> SplitResult:
    """Return the parts of the URL of data files. Raises Invalid if the URL is malformed."""
    try:
        return urlsplit(url)
    except ValueError as exc:
        raise Invalid("the URL of the data files is malformed", url=url) from exc


def open_location(store: Store, location: str) -> str:
    """Return the URL of a stored location.

    Raises Invalid if the location is empty, or if it is relative and the store is not a folder.
    """
    if not location:
        raise Invalid("the table has no location of data files")
    if not location.startswith(RELATIVE):
        return location
    folder = folder_of(store.location)
    if folder is None:
        text = (
            "the location of the data files is relative to the store's folder, but this store is no folder; "
            "set the location with `stratalog table adopt --data`"
        )
        raise Invalid(text, data=location, store=store.location)
    return Path(os.path.normpath(folder / location.removeprefix(RELATIVE))).as_uri()


def folder_of(location: str) -> Path | None:
    """Return the folder of a store, or None if the store is not a folder of this machine."""
    return Path(location) if location.startswith("/") else None
