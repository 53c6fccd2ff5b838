"""Bodies of the spreadsheet's routes: requests in JSON, and responses that describe sheets."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from stratalog.server import Principal
from stratalog_sheet.sheet import Sheet

__all__ = [
    "Facts",
    "ListedSheet",
    "Moment",
    "NewFork",
    "NewMessage",
    "NewRows",
    "NewSheet",
    "NewText",
    "Title",
    "facts_of",
]

Number = Annotated[int, msgspec.Meta(ge=0)]


class ListedSheet(msgspec.Struct, frozen=True):
    """A sheet in a list. ``read_only`` is true if the caller may only read the sheet."""

    name: str
    title: str
    version: int
    created_ms: int
    changed_ms: int
    incarnation: str
    read_only: bool


class Title(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The new title of a sheet."""

    title: str


class NewSheet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The title of a new sheet."""

    title: str = ""


class Facts(msgspec.Struct, frozen=True):
    """A sheet with its oldest kept and its newest version. ``author`` is the author of the caller's changes."""

    organisation: str
    name: str
    title: str
    incarnation: str
    first: int
    version: int
    author: str
    read_only: bool


class NewMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One complete message of the engine, and the version and hash of the newest entry that its sender has."""

    message: dict[str, Any]
    version: Number = 0
    hash: str = ""


class NewText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The new content of a cell, as a user types it."""

    content: str


class NewRows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``count`` empty rows before ``row``, counted from 1."""

    row: Annotated[int, msgspec.Meta(ge=1)]
    count: Annotated[int, msgspec.Meta(ge=1)] = 1


class Moment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A version, and its new label. An empty label removes the version's label. A restore ignores the label."""

    version: Number
    label: str = ""


class NewFork(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The copy's name and title, and the version to copy."""

    name: str
    version: Number
    title: str = ""


def facts_of(who: Principal, sheet: Sheet) -> Facts:
    """Return the facts of a sheet, read now."""
    return Facts(
        organisation=sheet.organisation,
        name=sheet.name,
        title=sheet.title,
        incarnation=sheet.log.record.incarnation,
        first=max(1, sheet.log.floor()),
        version=sheet.version,
        author=who.author,
        read_only=who.read_only,
    )
