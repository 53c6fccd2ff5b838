"""Where data files lie, as a table stores it: relative to a store in a folder, where that is possible.

Data files below the store's folder or beside it go along when both are moved, and a copy of both has files of its own.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from stratalog import Invalid, Store

__all__ = ["folder_of", "open_location", "store_location"]

RELATIVE = "store:"
"""What a relative location begins with; the rest is a path from the store's folder."""


def store_location(store: Store, url: str) -> str:
    """What a table stores of the URL of its data files: relative where they lie below or beside the store."""
    folder = folder_of(store.location)
    parts = urlsplit(url)
    if folder is None or parts.scheme not in ("", "file"):
        return url
    path = Path(os.path.abspath(unquote(parts.path)))
    if folder.parent not in path.parents:
        return url
    return RELATIVE + Path(os.path.relpath(path, folder)).as_posix()


def open_location(store: Store, location: str) -> str:
    """The URL behind what a table stores. Raises Invalid where it stores none, or one of a store in a folder."""
    if not location:
        raise Invalid("the table does not say where its data files lie")
    if not location.startswith(RELATIVE):
        return location
    folder = folder_of(store.location)
    if folder is None:
        text = "the data files lie relative to a store in a folder; say where with `stratalog table adopt --data`"
        raise Invalid(text, data=location, store=store.location)
    return Path(os.path.normpath(folder / location.removeprefix(RELATIVE))).as_uri()


def folder_of(location: str) -> Path | None:
    """The folder of a store; None for one that is elsewhere."""
    return Path(location) if location.startswith("/") else None
