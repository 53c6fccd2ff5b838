"""The events of a sheet's log: one typed, versioned event per entry. `formats/sheet.md` describes the events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import msgspec

from stratalog import Entry, Event, Upcasters
from stratalog.codec import encode
from stratalog.errors import Corrupt, Invalid, LimitExceeded, Unsupported
from stratalog.limits import WRITE_ID_BYTES_MAX
from stratalog.struct_types import resolved
from stratalog_sheet.bounds import check_bounds
from stratalog_sheet.command_fields import COMMANDS, check_fields
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
IN_ORDER = "ordered"
"""The value of `rebase` in an ordered undo.

For an ordered undo, the engine rebases the inverse of the undone message over each later message (`web/rebase.js`).
"""

TARGETS = {UNDONE: "undoneRevisionId", REDONE: "redoneRevisionId"}
MESSAGES = (REVISION, UNDONE, REDONE)


class Created(msgspec.Struct, frozen=True):
    """The first entry of a sheet that was created empty, with its title, the engine's initial JSON and its revision."""

    title: str
    revision: str
    data: bytes
    kind: ClassVar[str] = "created"


class Imported(msgspec.Struct, frozen=True):
    """The first entry of an imported sheet, with the unchanged file and the engine's JSON for this file."""

    title: str
    revision: str
    data: bytes
    file_name: str
    xlsx: bytes
    report: bytes = b""
    """The losses of the import as a `FileReport` in JSON; empty if the report has no findings."""

    kind: ClassVar[str] = "imported"


class Revision(msgspec.Struct, frozen=True):
    """One complete message of the engine. ``target`` is the version that an undo or redo refers to, else 0.

    In each fact with a field ``titled``, the field is the version of the last renaming in this log, or 0 without one.
    """

    message: dict[str, Any]
    target: int = 0
    titled: int = 0
    kind: ClassVar[str] = "revision"


class Restored(msgspec.Struct, frozen=True):
    """The state of ``version`` was restored under a new revision. ``before`` is the revision before the restore."""

    version: int
    before: str
    revision: str
    titled: int = 0
    kind: ClassVar[str] = "restored"


class Named(msgspec.Struct, frozen=True):
    """A version was labelled. An empty ``label`` removes the version's label."""

    version: int
    label: str
    titled: int = 0
    kind: ClassVar[str] = "named"


class Renamed(msgspec.Struct, frozen=True):
    """The sheet was renamed. ``before`` is the former title."""

    title: str
    before: str
    kind: ClassVar[str] = "renamed"


class Forked(msgspec.Struct, frozen=True):
    """The first entry of a fork after the shared history. ``source`` is the name of the source sheet.

    ``version`` is the last shared version.
    """

    title: str
    source: str
    version: int
    kind: ClassVar[str] = "forked"


Fact = Created | Imported | Revision | Restored | Named | Renamed | Forked
FACTS: Mapping[str, type[Fact]] = {
    kind.kind: kind for kind in (Created, Imported, Revision, Restored, Named, Renamed, Forked)
}
SCHEMAS: Mapping[str, int] = {**dict.fromkeys(FACTS, 1), Revision.kind: 2}
"""The newest schema of each type that this program reads."""

UPCASTERS: Upcasters = {}
"""Functions that convert an event's data to the next schema.

There are none, because schema 2 only adds ordered undos.
"""


class SheetChange(msgspec.Struct, frozen=True):
    """An entry as readers see it. A revision has the engine's ``message``; other types have fields in ``data``."""

    version: int
    created_ms: int
    author: str
    type: str
    message: dict[str, Any] | None = None
    data: dict[str, Any] = {}
    hash: str = ""
    """The entry's hash in hexadecimal. The hash identifies the history up to this version."""


def event_of(fact: Fact) -> Event:
    """Return the fact as an event of the log. To save bytes, leave out a ``titled`` of 0 and an empty ``report``."""
    data = msgspec.to_builtins(fact, builtin_types=(bytes,))
    for name in ("titled", "report"):
        if not data.get(name):
            data.pop(name, None)
    # An older program would execute an ordered undo differently. Schema 2 makes the older program refuse the entry.
    is_in_order = isinstance(fact, Revision) and "rebase" in fact.message
    return Event(fact.kind, data, 2 if is_in_order else 1)


def fact_of(entry: Entry) -> Fact:
    """Return an entry's fact. Raises Corrupt for a wrong shape, and Unsupported for a newer type or schema."""
    (event,) = entry.events
    kind = FACTS.get(event.type)
    if kind is None or event.schema > SCHEMAS[event.type]:
        raise Unsupported(
            "a sheet's entry was written by a newer version of the program", type=event.type, schema=event.schema
        )
    try:
        return msgspec.convert(event.data, resolved(kind))
    except msgspec.ValidationError as exc:
        raise Corrupt("a sheet's entry has the wrong shape", version=entry.version, reason=str(exc)) from exc


def change_of(entry: Entry) -> SheetChange:
    """Return the entry as readers see it, without files and states."""
    fact = fact_of(entry)
    if isinstance(fact, Revision):
        return SheetChange(
            entry.version, entry.created_ms, entry.author, fact.kind, fact.message, hash=entry.hash.hex()
        )
    plain = msgspec.structs.asdict(fact).items()
    details = {name: value for name, value in plain if not isinstance(value, bytes) and name != "titled"}
    return SheetChange(entry.version, entry.created_ms, entry.author, fact.kind, None, details, entry.hash.hex())


def changes_within(entries: Iterable[Entry], bytes_max: int) -> list[SheetChange] | None:
    """Return the entries as readers see them. Stop and return None once the changes exceed ``bytes_max`` bytes."""
    changes: list[SheetChange] = []
    for entry in entries:
        changes.append(change_of(entry))
        bytes_max -= len(msgspec.msgpack.encode(changes[-1]))
        if bytes_max < 0:
            return None
    return changes


def titled_at(fact: Fact, version: int) -> int:
    """Return the version of the last renaming up to ``version``, or 0. ``fact`` is the fact of this version's entry."""
    if isinstance(fact, Renamed):
        return version
    return fact.titled if isinstance(fact, Revision | Restored | Named) else 0


def target_of(message: Mapping[str, Any]) -> str:
    """Return the id of the revision that an undo or redo refers to; empty for another message."""
    name = TARGETS.get(message["type"])
    return message[name] if name else ""


def check_message(message: Any) -> dict[str, Any]:
    """Return a message with a valid type, valid commands and a permitted size. Raises Invalid, LimitExceeded."""
    if not isinstance(message, dict):
        raise Invalid("a message must be an object", value=type(message).__name__)
    kind = message.get("type")
    if kind not in MESSAGES:
        raise Invalid("a message has an unknown type", value=kind)
    names = ["serverRevisionId", "nextRevisionId", *([TARGETS[kind]] if kind in TARGETS else ["clientId"])]
    for name in names:
        _check_revision(message.get(name), name)
    if kind == REVISION:
        _check_commands(message.get("commands"))
    if "rebase" in message and (kind != UNDONE or message["rebase"] != IN_ORDER):
        raise Invalid("a message has an unknown value of `rebase`", value=message["rebase"], type=kind)
    if (size := len(encode(message))) > SHEET_MESSAGE_BYTES_MAX:
        raise LimitExceeded("a message is too large", value=size, limit=SHEET_MESSAGE_BYTES_MAX)
    return message


def check_text(text: str, what: str) -> str:
    """Return a valid title, label or file name. ``what`` names the text in errors. Raises Invalid, LimitExceeded."""
    if not isinstance(text, str):
        raise Invalid(f"a {what} must be text", value=type(text).__name__)
    if (size := len(text.encode(errors="replace"))) > SHEET_TEXT_BYTES_MAX:
        raise LimitExceeded(f"a {what} is too long", value=size, limit=SHEET_TEXT_BYTES_MAX)
    return text


def check_title(title: str) -> str:
    """Return a valid title with its white space collapsed. Raises the errors of `check_text`.

    Raises Invalid for an empty title.
    """
    text = " ".join(check_text(title, "title").split())
    if not text:
        raise Invalid("a title must not be empty")
    return text


def _check_revision(value: Any, name: str) -> None:
    if not isinstance(value, str) or not 0 < len(value.encode(errors="replace")) <= WRITE_ID_BYTES_MAX:
        raise Invalid("an id in a message is missing or too long", name=name, limit=WRITE_ID_BYTES_MAX)


def _check_commands(commands: Any) -> None:
    if not isinstance(commands, list) or len(commands) > SHEET_COMMANDS_MAX:
        raise Invalid("the commands of a message must be a list of limited length", limit=SHEET_COMMANDS_MAX)
    for command in commands:
        kind = command.get("type") if isinstance(command, dict) else type(command).__name__
        if not isinstance(command, dict) or not isinstance(kind, str) or kind not in COMMANDS:
            raise Invalid("a message has a command that the engine does not know", value=kind)
        check_fields(command)
    check_bounds(commands)
