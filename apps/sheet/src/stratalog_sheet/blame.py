"""Blame: the author, time and contents of each change of a cell, traced through inserted and removed rows and columns.

`Blame` reads the entries once and traces them backwards from the cell's position after the last entry. Each edit states
the cells that it writes and moves. An undone edit moves no cell, and its writes count until the undo. As in the engine,
a cell has the content of the newest write that is not undone. If an insertion or removal of rows or columns was undone,
`Blame` asks the engine at which positions the edits around that change took effect. `Blame` shows a formula as its
author wrote it. But if the log has forgotten the write, the formula comes from a saved state, where the engine may have
adapted its references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from stratalog import Entry, Log
from stratalog.errors import VersionForgotten
from stratalog_sheet.cells import cell_name
from stratalog_sheet.events import REDONE, Created, Imported, Restored, Revision, fact_of, target_of
from stratalog_sheet.moves import Born, Inserted, Removed, Shift, Spot, before, shifts_of
from stratalog_sheet.retention import read_retained
from stratalog_sheet.writes import CellWrite, writes_of

__all__ = ["Blame", "CellHistory"]

FOR_EVER = 1 << 62
Executed = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
"""Returns the id and the effective commands of each edit that is not undone, as the engine executes them."""


class CellHistory(msgspec.Struct, frozen=True):
    """One change of a cell. ``how`` is the action, for example “wrote”.

    ``cell`` is the cell's name at ``version``. For an undo or redo, it is the name at the version of the write.
    """

    version: int
    created_ms: int
    author: str
    cell: str
    before: str
    after: str
    how: str


class _Put(msgspec.Struct):
    """A range that a command writes. ``command`` is the command's position in its message."""

    written: CellWrite
    command: int


class _Step(msgspec.Struct):
    """One message with its effects. ``gone`` lists (undo, redo) for each undo; redo is None if no redo followed."""

    entry: Entry
    message: dict[str, Any]
    commands: list[dict[str, Any]]
    effects: list[_Put | Shift]
    gone: list[tuple[Entry, Entry | None]] = []

    def counts_at(self, version: int) -> bool:
        return not any(undo.version <= version and (redo is None or version < redo.version) for undo, redo in self.gone)

    @property
    def last_change(self) -> int:
        """The version of the message's last undo or redo."""
        undo, redo = self.gone[-1]
        return (redo or undo).version


class _Write(msgspec.Struct, frozen=True):
    """One write to the cell, and the cell's name at the version of the write."""

    step: _Step
    content: str
    cell: str


class Blame:
    """Derives the histories of cells from the entries up to version ``at``; None means the head.

    The constructor reads the kept entries once. ``state_at`` returns the state of a version. If the log has forgotten a
    cell's earlier changes, the cell's first known content comes from such a state.
    """

    def __init__(self, log: Log, executed: Executed, state_at: Callable[[int], bytes], at: int | None = None) -> None:
        self._entries = read_retained(log, log.floor(), at)
        self._after = self._entries[0].version - 1 if self._entries else 0
        self._state_at = state_at
        self._facts = [fact_of(entry) for entry in self._entries]
        self._executed = executed
        self._known: dict[tuple[Spot, int], tuple[str, list[CellHistory]]] = {}

    def of(self, spot: Spot) -> list[CellHistory]:
        """Return the changes of the cell that is at ``spot`` after the last of the entries, newest first."""
        return self._changes(spot, len(self._entries))[1] if self._entries else []

    def _changes(self, spot: Spot, upto: int) -> tuple[str, list[CellHistory]]:
        """Return the content of one cell after the first ``upto`` entries, and its changes in these entries.

        After these entries the cell is at ``spot``.
        """
        if (spot, upto) in self._known:
            return self._known[spot, upto]
        complete_states = (
            at for at in range(upto - 1, -1, -1) if isinstance(self._facts[at], Created | Imported | Restored)
        )
        start = next(complete_states, -1)  # -1: the complete state is below the floor, and the log has forgotten it
        origin, writes = self._follow(self._steps(start + 1, upto), spot)
        older: list[CellHistory]
        if origin is None:
            base, older = "", []
        elif start < 0:
            base, older = self._content_at(self._after, origin), []
        else:
            base, older = self._origin(start, origin)
        newer = _history_of(writes, base)
        self._known[spot, upto] = (newer[-1].after if newer else base, [*reversed(newer), *older])
        return self._known[spot, upto]

    def _origin(self, position: int, spot: Spot) -> tuple[str, list[CellHistory]]:
        """Return a cell's content in a complete state, and the changes that led to this content, newest first."""
        entry, fact = self._entries[position], self._facts[position]
        if isinstance(fact, Created | Imported):
            held = _content_in(fact.data, spot)
            return held, [_line(entry, cell_name(*spot.position), "", held, fact.kind)] if held else []
        assert isinstance(fact, Restored)
        was, _ = self._changes(spot, position)
        if fact.version >= self._after:
            held, older = self._changes(spot, fact.version - self._after)
        else:
            held, older = self._content_at(entry.version, spot), []
        restoration = _line(entry, cell_name(*spot.position), was, held, f"restored version {fact.version}")
        return held, [*([restoration] if was != held else []), *older]

    def _content_at(self, version: int, spot: Spot) -> str:
        """Return the content of the cell in a version's state; empty if the log has forgotten the state."""
        if not version:
            return ""
        try:
            return _content_in(self._state_at(version), spot)
        except VersionForgotten:
            return ""

    def _steps(self, start: int, stop: int) -> list[_Step]:
        """Return the edits among the entries ``start`` to ``stop``, without ``stop``, with their effects.

        The positions in the effects are positions in a sheet in which no undone message has moved a cell.
        """
        steps: dict[str, _Step] = {}
        for entry, fact in zip(self._entries[start:stop], self._facts[start:stop], strict=True):
            if not isinstance(fact, Revision):
                continue
            target = target_of(fact.message)
            if target and target not in steps:
                continue  # the log has forgotten the edit that this message undoes or redoes
            if not target:
                message, commands = fact.message, fact.message["commands"]
                steps[message["nextRevisionId"]] = _Step(entry, message, commands, list(_effects(commands)))
            elif fact.message["type"] == REDONE:
                undone = steps[target].gone
                undone[-1] = (undone[-1][0], entry)
            else:
                steps[target].gone = [*steps[target].gone, (entry, None)]
        ordered = list(steps.values())
        for run in _runs_to_settle(ordered):
            self._settle(ordered, run)
        return ordered

    def _follow(self, steps: list[_Step], spot: Spot) -> tuple[Spot | None, list[_Write]]:
        """Return the cell's position before the steps, and the steps' writes to the cell, oldest first.

        The position is None if one of the steps inserted the cell or created its sheet.
        """
        writes: list[_Write] = []
        for step in reversed(steps):
            counts = step.counts_at(FOR_EVER)
            for effect in reversed(step.effects):
                if isinstance(effect, _Put):
                    if _holds(effect, spot):
                        writes.append(_Write(step, self._content(step, effect, spot), cell_name(*spot.position)))
                elif counts:
                    try:
                        spot = before(effect, spot)
                    except Born:
                        return None, writes[::-1]
        return spot, writes[::-1]

    def _settle(self, steps: list[_Step], run: tuple[int, int]) -> None:
        """For the edits of a run that are not undone, replace the effects with the engine's results.

        ``run`` is (first version, last version).
        """
        first, last = (version - self._entries[0].version for version in run)
        messages = [fact.message for fact in self._facts[first : last + 1] if isinstance(fact, Revision)]
        executed = {result["id"]: result["commands"] for result in self._executed(messages)}
        for step in steps:
            if run[0] <= step.entry.version <= run[1] and step.counts_at(FOR_EVER):
                step.commands = executed.get(step.message["nextRevisionId"], [])
                step.effects = list(_effects(step.commands))

    def _content(self, step: _Step, put: _Put, spot: Spot) -> str:
        command = step.commands[put.command]
        if command["type"] not in ("UPDATE_CELL", "SQUISHED_UPDATE_CELL"):
            return ""
        content = command["content"]
        if command["type"] == "UPDATE_CELL" and isinstance(content, str):
            return content
        for plain in (plain for result in self._executed([step.message]) for plain in result["commands"]):
            if plain["type"] == "UPDATE_CELL" and Spot(plain["sheetId"], (plain["col"], plain["row"])) == spot:
                return str(plain.get("content") or "")
        return ""


def _effects(commands: list[dict[str, Any]]) -> Iterator[_Put | Shift]:
    for number, command in enumerate(commands):
        yield from (_Put(written, number) for written in writes_of(command))
        yield from shifts_of(command)


def _runs_to_settle(steps: list[_Step]) -> Iterator[tuple[int, int]]:
    """Yield (first version, last version) of each run of messages around undone insertions or removals.

    An edit and its undo are both inside a run or both outside. A redone edit counts as undone here.
    """
    undone = [(step.entry.version, step.last_change) for step in steps if step.gone]
    run: tuple[int, int] | None = None
    for step in steps:
        if not step.gone or not any(isinstance(effect, Inserted | Removed) for effect in step.effects):
            continue
        if run is not None and step.entry.version <= run[1]:
            continue
        run = _closed((step.entry.version, step.last_change), undone)
        yield run


def _closed(run: tuple[int, int], undone: list[tuple[int, int]]) -> tuple[int, int]:
    """Extend a run until it contains every interval that it overlaps.

    An interval leads from an undone edit to its last undo or redo.
    """
    while True:
        met = [edit for edit in undone if edit[0] <= run[1] and edit[1] >= run[0]]
        wider = (min(run[0], *(edit[0] for edit in met)), max(run[1], *(edit[1] for edit in met)))
        if wider == run:
            return run
        run = wider


def _holds(put: _Put, spot: Spot) -> bool:
    written = put.written
    (left, top), (right, bottom), (column, row) = written.first, written.last, spot.position
    return written.sheet == spot.sheet and left <= column <= right and top <= row <= bottom


def _history_of(writes: list[_Write], base: str) -> list[CellHistory]:
    """Return the cell's changes, oldest first.

    The list has each write of a content, and each clearing, undo and redo that changed the content.
    """
    moments: dict[int, tuple[Entry, str, str]] = {}
    for write in writes:
        entry = write.step.entry
        moments[entry.version] = (entry, write.cell, "wrote" if write.content else "cleared")
    for write in writes:
        version = write.step.entry.version
        for undo, redo in write.step.gone:
            moments[undo.version] = (undo, write.cell, f"undid version {version}")
            if redo is not None:
                moments[redo.version] = (redo, write.cell, f"redid version {version}")
    changes: list[CellHistory] = []
    held = base
    for version in sorted(moments):
        entry, cell, how = moments[version]
        now = _held_at(writes, version, base)
        if now != held or how == "wrote":
            changes.append(_line(entry, cell, held, now, how))
        held = now
    return changes


def _held_at(writes: list[_Write], version: int, base: str) -> str:
    for write in reversed(writes):
        if write.step.entry.version <= version and write.step.counts_at(version):
            return write.content
    return base


def _line(entry: Entry, cell: str, was: str, held: str, how: str) -> CellHistory:
    return CellHistory(entry.version, entry.created_ms, entry.author, cell, was, held, how)


def _content_in(data: bytes, spot: Spot) -> str:
    for sheet in msgspec.json.decode(data)["sheets"]:
        if sheet["id"] == spot.sheet:
            return str(sheet.get("cells", {}).get(cell_name(*spot.position)) or "")
    return ""
