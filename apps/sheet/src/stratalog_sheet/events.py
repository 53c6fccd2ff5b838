"""What a sheet's log holds: one event an entry, typed and versioned. `formats/sheet.md` tells them for readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from stratalog import Entry, Event, Upcasters
from stratalog.codec import encode
from stratalog.errors import Corrupt, Invalid, LimitExceeded, Unsupported
from stratalog.limits import WRITE_ID_BYTES_MAX
from stratalog_sheet.bounds import check_bounds
from stratalog_sheet.limits import SHEET_COMMANDS_MAX, SHEET_MESSAGE_BYTES_MAX, SHEET_TEXT_BYTES_MAX

__all__ = [
    "MESSAGES",
    "REDONE",
    "UPCASTERS",
    "Created",
    "Fact",
    "Forked",
    "Imported",
    "Named",
    "Renamed",
    "Restored",
    "Revision",
    "SheetChange",
    "change_of",
    "changes_within",
    "check_message",
    "check_text",
    "check_title",
    "event_of",
    "fact_of",
    "target_of",
    "titled_at",
]

REVISION = "REMOTE_REVISION"
UNDONE = "REVISION_UNDONE"
REDONE = "REVISION_REDONE"
TARGETS = {UNDONE: "undoneRevisionId", REDONE: "redoneRevisionId"}
MESSAGES = (REVISION, UNDONE, REDONE)

# What the engine of this version calls its commands; those of another are refused, since it would pass them over.
NAMES = """
SQUISHED_UPDATE_CELL UPDATE_CELL UPDATE_CELL_POSITION CLEAR_CELL CLEAR_CELLS DELETE_CONTENT ADD_COLUMNS_ROWS
REMOVE_COLUMNS_ROWS RESIZE_COLUMNS_ROWS HIDE_COLUMNS_ROWS UNHIDE_COLUMNS_ROWS SET_GRID_LINES_VISIBILITY
UNFREEZE_COLUMNS UNFREEZE_ROWS FREEZE_COLUMNS FREEZE_ROWS UNFREEZE_COLUMNS_ROWS ADD_MERGE REMOVE_MERGE CREATE_SHEET
DELETE_SHEET DUPLICATE_SHEET MOVE_SHEET RENAME_SHEET COLOR_SHEET HIDE_SHEET SHOW_SHEET LOCK_SHEET UNLOCK_SHEET
MOVE_RANGES ADD_CONDITIONAL_FORMAT REMOVE_CONDITIONAL_FORMAT CHANGE_CONDITIONAL_FORMAT_PRIORITY CREATE_FIGURE
DELETE_FIGURE UPDATE_FIGURE CREATE_CAROUSEL UPDATE_CAROUSEL SET_FORMATTING CLEAR_FORMATTING SET_BORDER
SET_ZONE_BORDERS SET_BORDERS_ON_TARGET CREATE_CHART UPDATE_CHART DELETE_CHART CREATE_TABLE REMOVE_TABLE UPDATE_TABLE
CREATE_TABLE_STYLE REMOVE_TABLE_STYLE CREATE_IMAGE GROUP_HEADERS UNGROUP_HEADERS UNFOLD_HEADER_GROUP
FOLD_HEADER_GROUP FOLD_ALL_HEADER_GROUPS UNFOLD_ALL_HEADER_GROUPS UNFOLD_HEADER_GROUPS_IN_ZONE
FOLD_HEADER_GROUPS_IN_ZONE ADD_DATA_VALIDATION_RULE REMOVE_DATA_VALIDATION_RULE UPDATE_LOCALE CREATE_NAMED_RANGE
UPDATE_NAMED_RANGE DELETE_NAMED_RANGE ADD_PIVOT UPDATE_PIVOT INSERT_PIVOT RENAME_PIVOT REMOVE_PIVOT DUPLICATE_PIVOT
"""
COMMANDS = frozenset(NAMES.split())


_Line = Annotated[int, msgspec.Meta(ge=0, le=2**31)]


class _Zone(msgspec.Struct):
    left: _Line
    right: _Line
    top: _Line
    bottom: _Line


# What the fields must be of those commands that anything here looks at; none of them may be missing.
FIELDS: Mapping[str, Any] = {
    "sheetId": str,
    "sheetIdTo": str,
    "col": _Line,
    "row": _Line,
    "base": _Line,
    "quantity": _Line,
    "position": Literal["before", "after"],
    "dimension": Literal["ROW", "COL"],
    "elements": list[_Line],
    "target": list[_Zone],
    "targetRange": Annotated[str, msgspec.Meta(pattern="^[A-Z]{1,3}[0-9]{1,7}(:[A-Z]{1,3}[0-9]{1,7})?$")],
}
NEEDED: Mapping[str, tuple[str, ...]] = {
    "UPDATE_CELL": ("sheetId", "col", "row"),
    "CLEAR_CELL": ("sheetId", "col", "row"),
    "SQUISHED_UPDATE_CELL": ("sheetId", "targetRange"),
    "CLEAR_CELLS": ("sheetId", "target"),
    "DELETE_CONTENT": ("sheetId", "target"),
    "ADD_COLUMNS_ROWS": ("sheetId", "dimension", "base", "quantity", "position"),
    "REMOVE_COLUMNS_ROWS": ("sheetId", "dimension", "elements"),
    "CREATE_SHEET": ("sheetId",),
    "DELETE_SHEET": ("sheetId",),
    "DUPLICATE_SHEET": ("sheetId", "sheetIdTo"),
}


class Created(msgspec.Struct, frozen=True):
    """The first entry of a sheet that began empty: the engine's JSON to begin with, and its revision."""

    title: str
    revision: str
    data: bytes
    kind: ClassVar[str] = "created"


class Imported(msgspec.Struct, frozen=True):
    """The first entry of a sheet that was a workbook: the file as it came, and the engine's JSON of it."""

    title: str
    revision: str
    data: bytes
    file_name: str
    xlsx: bytes
    report: bytes = b""
    """What of the file was not understood, a `FileReport` as JSON; empty where nothing was lost."""

    kind: ClassVar[str] = "imported"


class Revision(msgspec.Struct, frozen=True):
    """One whole message of the engine. ``target`` is the version that an undo or redo refers to, else 0.

    ``titled`` is the version that renamed the sheet last, here and in other facts; 0 where none did.
    """

    message: dict[str, Any]
    target: int = 0
    titled: int = 0
    kind: ClassVar[str] = "revision"


class Restored(msgspec.Struct, frozen=True):
    """From here on the state is that of ``version`` again, under a revision of its own. ``before`` was the last one."""

    version: int
    before: str
    revision: str
    titled: int = 0
    kind: ClassVar[str] = "restored"


class Named(msgspec.Struct, frozen=True):
    """Somebody called a version something; an empty label takes the name away."""

    version: int
    label: str
    titled: int = 0
    kind: ClassVar[str] = "named"


class Renamed(msgspec.Struct, frozen=True):
    """Somebody called the sheet something; ``before`` is what it was called until then."""

    title: str
    before: str
    kind: ClassVar[str] = "renamed"


class Forked(msgspec.Struct, frozen=True):
    """The first entry of a fork's own: its title, and which version of which sheet it is a copy of."""

    title: str
    source: str
    version: int
    kind: ClassVar[str] = "forked"


Fact = Created | Imported | Revision | Restored | Named | Renamed | Forked
FACTS: Mapping[str, type[Fact]] = {
    kind.kind: kind for kind in (Created, Imported, Revision, Restored, Named, Renamed, Forked)
}
SCHEMAS: Mapping[str, int] = dict.fromkeys(FACTS, 1)
UPCASTERS: Upcasters = {}
"""What turns the data of an older schema into that of the next. Every type is at its first one."""


class SheetChange(msgspec.Struct, frozen=True):
    """An entry as readers see it. ``message`` is the engine's, of a revision; ``data`` is what else there is to say."""

    version: int
    created_ms: int
    author: str
    type: str
    message: dict[str, Any] | None = None
    data: dict[str, Any] = {}
    hash: str = ""
    """Names the history up to the version, in hexadecimal."""


def event_of(fact: Fact) -> Event:
    """The fact as an event of the log. An empty `Revision.titled` or `Imported.report` costs nothing."""
    data = msgspec.to_builtins(fact, builtin_types=(bytes,))
    for name in ("titled", "report"):
        if not data.get(name):
            data.pop(name, None)
    return Event(fact.kind, data, SCHEMAS[fact.kind])


def fact_of(entry: Entry) -> Fact:
    """What the entry says. Raises Unsupported for a type or schema that is newer than this program, Corrupt."""
    (event,) = entry.events
    kind = FACTS.get(event.type)
    if kind is None or event.schema > SCHEMAS[event.type]:
        raise Unsupported("a sheet's entry is newer than this program", type=event.type, schema=event.schema)
    try:
        return msgspec.convert(event.data, kind)
    except msgspec.ValidationError as exc:
        raise Corrupt("a sheet's entry has the wrong shape", version=entry.version, reason=str(exc)) from exc


def change_of(entry: Entry) -> SheetChange:
    """The entry as readers see it, without what is large."""
    fact = fact_of(entry)
    if isinstance(fact, Revision):
        return SheetChange(
            entry.version, entry.created_ms, entry.author, fact.kind, fact.message, hash=entry.hash.hex()
        )
    plain = msgspec.structs.asdict(fact).items()
    details = {name: value for name, value in plain if not isinstance(value, bytes) and name != "titled"}
    return SheetChange(entry.version, entry.created_ms, entry.author, fact.kind, None, details, entry.hash.hex())


def changes_within(entries: Iterable[Entry], bytes_max: int) -> list[SheetChange] | None:
    """The entries as readers see them; None where they take more than ``bytes_max``, beyond which none is read."""
    changes: list[SheetChange] = []
    for entry in entries:
        changes.append(change_of(entry))
        bytes_max -= len(msgspec.msgpack.encode(changes[-1]))
        if bytes_max < 0:
            return None
    return changes


def titled_at(fact: Fact, version: int) -> int:
    """The version that renamed the sheet last, as of an entry that says ``fact``; 0 where it is called as at first."""
    if isinstance(fact, Renamed):
        return version
    return fact.titled if isinstance(fact, Revision | Restored | Named) else 0


def target_of(message: Mapping[str, Any]) -> str:
    """The revision that an undo or redo refers to; empty for another message."""
    name = TARGETS.get(message["type"])
    return message[name] if name else ""


def check_message(message: Any) -> dict[str, Any]:
    """A message of the engine as it may be committed: known, whole, not too large. Raises Invalid, LimitExceeded."""
    if not isinstance(message, dict):
        raise Invalid("a message must be an object", value=type(message).__name__)
    kind = message.get("type")
    if kind != REVISION and kind not in TARGETS:
        raise Invalid("a message of that type is not kept", value=kind)
    names = ["serverRevisionId", "nextRevisionId", *([TARGETS[kind]] if kind in TARGETS else ["clientId"])]
    for name in names:
        _check_revision(message.get(name), name)
    if kind == REVISION:
        _check_commands(message.get("commands"))
    if (size := len(encode(message))) > SHEET_MESSAGE_BYTES_MAX:
        raise LimitExceeded("a message is too large", value=size, limit=SHEET_MESSAGE_BYTES_MAX)
    return message


def check_text(text: str, what: str) -> str:
    """A title, a label, a file's name. Raises Invalid, LimitExceeded."""
    if not isinstance(text, str):
        raise Invalid(f"a {what} must be text", value=type(text).__name__)
    if (size := len(text.encode(errors="replace"))) > SHEET_TEXT_BYTES_MAX:
        raise LimitExceeded(f"a {what} is too long", value=size, limit=SHEET_TEXT_BYTES_MAX)
    return text


def check_title(title: str) -> str:
    """A title that a sheet may be given, without the space around it. Raises Invalid, LimitExceeded."""
    text = " ".join(check_text(title, "title").split())
    if not text:
        raise Invalid("a title must not be empty")
    return text


def _check_revision(value: Any, name: str) -> None:
    if not isinstance(value, str) or not 0 < len(value.encode(errors="replace")) <= WRITE_ID_BYTES_MAX:
        raise Invalid("a message lacks a name that it needs, or it is too long", name=name, limit=WRITE_ID_BYTES_MAX)


def _check_commands(commands: Any) -> None:
    if not isinstance(commands, list) or len(commands) > SHEET_COMMANDS_MAX:
        raise Invalid("a message's commands must be a list that is not too long", limit=SHEET_COMMANDS_MAX)
    for command in commands:
        if not isinstance(command, dict) or command.get("type") not in COMMANDS:
            kind = command.get("type") if isinstance(command, dict) else type(command).__name__
            raise Invalid("a message holds a command that the engine does not know", value=kind)
        _check_fields(command)
    check_bounds(commands)


def _check_fields(command: dict[str, Any]) -> None:
    kind = command["type"]
    missing = [name for name in NEEDED.get(kind, ()) if name not in command]
    if missing:
        raise Invalid("a command lacks what it needs", type=kind, missing=", ".join(missing))
    try:
        for name in NEEDED.get(kind, ()):
            msgspec.convert(command[name], FIELDS[name])
    except msgspec.ValidationError as exc:
        raise Invalid("a command holds what the engine does not take", type=kind, reason=str(exc)) from exc
