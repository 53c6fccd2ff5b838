"""Comparison of two versions cell by cell, derived from the log's entries without opening a model of either version.

If the entries do not suffice, `Comparison.between` compares the states of the two versions instead.

The comparison of entries starts from the base state of the newest common ancestor of both versions. For each version,
the comparison applies the messages from the base state to that version. The result is a `Contents`, which has only the
contents of cells. The comparison uses each formula as its author wrote it. When rows or columns move, the engine adapts
references in formulas. The comparison does not report an adapted reference, because no author wrote it.
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
"""Returns the id and the effective commands of each edit that is not undone, as the engine executes them."""
UNTOLD = frozenset({"INSERT_PIVOT"})
"""Commands that write contents which only an engine with the whole model can compute."""


class CellChange(msgspec.Struct, frozen=True):
    """A cell whose content differs between two versions."""

    sheet_id: str
    sheet: str
    cell: str
    """The cell's name in the later version; for a removed cell, its name in the earlier version."""

    before: str
    after: str
    earlier_cell: str = ""
    """The cell's name in the earlier version; empty if the earlier version does not have the cell.

    If `Comparison.between` compared two states, this name is always equal to ``cell``.
    """


class Comparison:
    """Compares versions of one log."""

    def __init__(self, log: Log, load_plans: LoadPlans, executed: Executed, state_at: Callable[[int], bytes]) -> None:
        self._log = log
        self._load_plans = load_plans
        self._executed = executed
        self._state_at = state_at

    def between(self, source: int, target: int) -> list[CellChange]:
        """Return the cells whose content differs, ordered by sheet, row and column in the later version.

        A formula that the engine only adapted to inserted or removed rows and columns does not differ. If the entries
        do not suffice, this method compares the two states position by position. It then also returns adapted formulas,
        and both positions of a moved cell.
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
        """Return commands that move the cells of ``source`` to their positions in ``target``, or delete them.

        The commands write no contents. Raises VersionForgotten if the log has forgotten the state of the common
        ancestor, or an entry between this ancestor and one of the versions.
        """
        common = self._common(*sorted((source, target)))
        load_plan = self._load_plans.plan(common)
        sheets = read_sheets(load_plan.base.data)
        old, new = (self._followed(sheets, self._runs(load_plan, common, version)) for version in (source, target))
        return [command for sheet, tab in old.tabs.items() for command in _moves(sheet, tab, new.tabs.get(sheet))]

    def _from_entries(self, low: int, high: int) -> Iterable[CellChange] | None:
        """Return the changes; None if a pivot table was inserted or the log has forgotten a needed entry or state."""
        try:
            common = self._common(low, high)
            load_plan = self._load_plans.plan(common)
            paths = [self._runs(load_plan, common, version) for version in (low, high)]
        except VersionForgotten:
            return None  # the two versions may have snapshots of their own, so compare their states
        if any(command["type"] in UNTOLD for path in paths for run in path for command in _commands(run)):
            return None
        sheets = read_sheets(load_plan.base.data)
        return _differences(*(self._followed(sheets, path) for path in paths))

    def _common(self, low: int, high: int) -> int:
        """Return the newest common ancestor. A restored version descends from the version whose state was restored."""
        while low != high:
            restored = self._last_restored(low, high)
            if restored is None:
                return low
            low, high = sorted((low, restored[1]))
        return low

    def _runs(self, load_plan: LoadPlan, common: int, version: int) -> list[list[Message]]:
        """Return the messages from a plan's base to a descendant, in runs.

        Within a run, each message is based on the previous message. A new run begins after each restored version.
        """
        restored = self._last_restored(common, version)
        if restored is None:
            return [[*load_plan.messages, *self._messages(common, version)]]
        at, wanted = restored
        return [*self._runs(load_plan, common, wanted), self._messages(at, version)]

    def _messages(self, after: int, version: int) -> list[Message]:
        facts = map(fact_of, self._log.read(after, version))
        return [fact.message for fact in facts if isinstance(fact, Revision)]

    def _last_restored(self, after: int, version: int) -> tuple[int, int] | None:
        """Return (version, restored version) of the last `Restored` entry; None if no entry is a `Restored` entry."""
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
    """Return whether only the engine can compute the positions and contents that the messages write.

    After an undone insertion or removal of lines, later messages take effect at other positions. The content of a
    `SQUISHED_UPDATE_CELL` command may be relative to the previous write.
    """
    undone = set(map(target_of, run))
    return any(
        any(not isinstance(write.content, str) for write in writes_of(command))
        or (message["nextRevisionId"] in undone and any(True for _ in shifts_of(command)))
        for message in run
        for command in message.get("commands", ())
    )


def _counting(run: list[Message]) -> Iterator[dict[str, Any]]:
    """Yield the messages that are not undone at the end of the run. No undone message of the run may move cells."""
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
    """Yield the commands that turn the rows and columns of ``old`` into those of ``new``, or that delete the sheet.

    ``new`` is None if the sheet was deleted.
    """
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
            # Insert after the previous line, because the engine refuses a base line beyond the last one.
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
    """Yield once each cell that may differ: a written cell, or a cell whose line or sheet only one version has."""
    if old is None or new is None:
        yield from (old or new).filled()  # type: ignore[union-attr]
        return
    cells = old.written.keys() | new.written.keys()
    for tab, other in ((old, new), (new, old)):
        cells |= set(tab.on_lines(tab.columns.missing(other.columns), tab.rows.missing(other.rows)))
    yield from cells


def _compared(source: bytes, target: bytes) -> Iterator[CellChange]:
    """Yield the positions whose content differs between two states. A moved cell differs at two positions."""
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
