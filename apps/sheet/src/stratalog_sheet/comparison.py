"""Which cells differ between two versions, told from the entries: no model of either is made.

Both versions go on from a state of a version that both come from. The messages from there to each are followed by
their contents alone. A formula counts as it was written, not as later moves adapted it: nobody changed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from stratalog import Log
from stratalog.errors import VersionForgotten
from stratalog_sheet.cells import cell_name, parse_cell
from stratalog_sheet.contents import CellId, Contents, StateSheet, Tab, read_sheets
from stratalog_sheet.events import REDONE, Restored, Revision, fact_of, target_of
from stratalog_sheet.load_plan import LoadPlan, LoadPlans
from stratalog_sheet.moves import shifts_of
from stratalog_sheet.writes import writes_of

__all__ = ["CellChange", "Comparison"]

Message = dict[str, Any]
Executed = Callable[[list[Message]], list[dict[str, Any]]]
"""What counts of some messages: the id and the commands of each, as the engine executes them."""
UNTOLD = frozenset({"INSERT_PIVOT"})
"""Commands that write what only an engine with all contents knows."""


class CellChange(msgspec.Struct, frozen=True):
    """A cell whose content differs between two versions."""

    sheet_id: str
    sheet: str
    cell: str
    """Its name in the later version; of a cell that is gone, in the earlier one."""

    before: str
    after: str
    earlier_cell: str = ""
    """Its name in the earlier version; empty where it was not there."""


class Comparison:
    """Compares versions of one log."""

    def __init__(self, log: Log, load_plans: LoadPlans, executed: Executed, state_at: Callable[[int], bytes]) -> None:
        self._log = log
        self._load_plans = load_plans
        self._executed = executed
        self._state_at = state_at

    def between(self, source: int, target: int) -> list[CellChange]:
        """The cells whose content differs, in order of where they are in the later version.

        A formula counts as it was written: one that only follows rows or columns that came and went does not differ.
        Where entries do not tell, the two states are compared cell by cell.
        """
        low, high = sorted((source, target))
        changes = self._from_entries(low, high)
        if changes is None:
            changes = _compared(self._state_at(low), self._state_at(high))
        ordered = sorted(changes, key=lambda change: (change.sheet, *reversed(parse_cell(change.cell))))
        if source <= target:
            return ordered
        return [msgspec.structs.replace(change, before=change.after, after=change.before) for change in ordered]

    def moves(self, source: int, target: int) -> list[dict[str, Any]]:
        """Commands that move the cells of one version to where another has them, and delete those that it has not.

        Of contents they say nothing. Raises VersionForgotten where the state that both come from is not kept.
        """
        common = self._common(*sorted((source, target)))
        load_plan = self._load_plans.plan(common)
        sheets = read_sheets(load_plan.base.data)
        old, new = (self._followed(sheets, self._runs(load_plan, common, version)) for version in (source, target))
        return [command for sheet, tab in old.tabs.items() for command in _moves(sheet, tab, new.tabs.get(sheet))]

    def _from_entries(self, low: int, high: int) -> Iterable[CellChange] | None:
        """None where a pivot table was inserted, or the state that both come from is forgotten."""
        common = self._common(low, high)
        try:
            load_plan = self._load_plans.plan(common)
        except VersionForgotten:
            return None
        paths = [self._runs(load_plan, common, version) for version in (low, high)]
        if any(command["type"] in UNTOLD for path in paths for run in path for command in _commands(run)):
            return None
        sheets = read_sheets(load_plan.base.data)
        return _differences(*(self._followed(sheets, path) for path in paths))

    def _common(self, low: int, high: int) -> int:
        """The newest version that both come from: a restored one comes from that whose state it has again."""
        while low != high:
            restored = self._last_restored(low, high)
            if restored is None:
                return low
            low, high = sorted((low, restored[1]))
        return low

    def _runs(self, load_plan: LoadPlan, common: int, version: int) -> list[list[Message]]:
        """The messages from a plan's base to a version that comes from it. Those of a run stand on each other."""
        restored = self._last_restored(common, version)
        if restored is None:
            return [[*load_plan.messages, *self._messages(common, version)]]
        at, wanted = restored
        return [*self._runs(load_plan, common, wanted), self._messages(at, version)]

    def _messages(self, after: int, version: int) -> list[Message]:
        facts = map(fact_of, self._log.read(after, version))
        return [fact.message for fact in facts if isinstance(fact, Revision)]

    def _last_restored(self, after: int, version: int) -> tuple[int, int] | None:
        """The last entry that restored a version, and which."""
        last = None
        for entry in self._log.read(after, version):
            fact = fact_of(entry)
            if isinstance(fact, Restored):
                last = entry.version, fact.version
        return last

    def _followed(self, sheets: list[StateSheet], runs: list[list[Message]]) -> Contents:
        contents = Contents(sheets)
        for run in runs:
            for executed in self._executed(run) if _needs_engine(run) else _counting(run):
                contents.apply(executed["id"], executed["commands"])
        return contents


def _needs_engine(run: list[Message]) -> bool:
    """Whether the messages do not say by themselves where and what they write.

    An undone insertion leaves those after it elsewhere, and a write may tell its text by the one before it.
    """
    undone = set(map(target_of, run))
    return any(
        any(not isinstance(write.content, str) for write in writes_of(command))
        or (message["nextRevisionId"] in undone and any(True for _ in shifts_of(command)))
        for message in run
        for command in message.get("commands", ())
    )


def _counting(run: list[Message]) -> Iterator[dict[str, Any]]:
    """The messages that are not undone in the end, where no undone one moved cells."""
    undone = set()
    for message in run:
        if message["type"] == REDONE:
            undone.discard(target_of(message))
        else:
            undone.add(target_of(message))
    for message in run:
        if not target_of(message) and message["nextRevisionId"] not in undone:
            yield {"id": message["nextRevisionId"], "commands": message["commands"]}


def _commands(run: list[Message]) -> Iterator[dict[str, Any]]:
    for message in run:
        yield from message.get("commands", ())


def _moves(sheet: str, old: Tab, new: Tab | None) -> Iterator[dict[str, Any]]:
    """What leads from the lines of a sheet to those that it has elsewhere."""
    if new is None:
        yield {"type": "DELETE_SHEET", "sheetId": sheet, "sheetName": old.name}
        return
    for dimension, lines, wanted in (("COL", old.columns, new.columns), ("ROW", old.rows, new.rows)):
        of = {"sheetId": sheet, "sheetName": old.name, "dimension": dimension}
        gone = lines.missing(wanted)
        if gone:
            elements = [position for position, line in enumerate(lines) if line in gone]
            yield {"type": "REMOVE_COLUMNS_ROWS", **of, "elements": elements}
        for at, quantity in wanted.runs(wanted.missing(lines)):
            # The engine takes no insertion before the first line that there is not.
            where = {"base": at - 1, "position": "after"} if at else {"base": 0, "position": "before"}
            yield {"type": "ADD_COLUMNS_ROWS", **of, **where, "quantity": quantity}


def _differences(low: Contents, high: Contents) -> Iterator[CellChange]:
    for sheet in dict.fromkeys([*high.tabs, *low.tabs]):
        old, new = low.tabs.get(sheet), high.tabs.get(sheet)
        tab = new or old
        assert tab is not None
        for cell in _candidates(old, new):
            earlier, later = (side.position(cell) if side else None for side in (old, new))
            before = old.content(cell) if old and earlier else ""
            after = new.content(cell) if new and later else ""
            position = later or earlier
            if before != after and position is not None:
                name = cell_name(*earlier) if earlier else ""
                yield CellChange(sheet, tab.name, cell_name(*position), before, after, name)


def _candidates(old: Tab | None, new: Tab | None) -> Iterator[CellId]:
    """The cells that may differ, each once: those written, those on lines that only one side has, or all of a sheet."""
    if old is None or new is None:
        yield from (old or new).filled()  # type: ignore[union-attr]
        return
    cells = old.written.keys() | new.written.keys()
    for tab, other in ((old, new), (new, old)):
        cells |= set(tab.on_lines(tab.columns.missing(other.columns), tab.rows.missing(other.rows)))
    yield from cells


def _compared(source: bytes, target: bytes) -> Iterator[CellChange]:
    """The cells whose content differs between two states, by where they are: one that moved differs in two places."""
    old, new = _contents(source), _contents(target)
    for position in old.keys() | new.keys():
        before, after = old.get(position, ("", ""))[1], new.get(position, ("", ""))[1]
        if before != after:
            sheet, cell = position
            name = (new.get(position) or old[position])[0]
            yield CellChange(sheet, name, cell, before, after, cell)


def _contents(state: bytes) -> dict[tuple[str, str], tuple[str, str]]:
    sheets = msgspec.json.decode(state)["sheets"]
    return {
        (sheet["id"], cell): (sheet["name"], content) for sheet in sheets for cell, content in sheet["cells"].items()
    }
