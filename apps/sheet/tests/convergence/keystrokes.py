"""The check of typed texts: an entry wrote each text to its cell, or a client lists it under *While you were away*.

A cell keeps its identity when its row or column moves (see `stratalog_sheet.contents`). The clients type each text
once, unless a redo repeats the text. A text may be missing if its author later overwrote or deleted the cell. A text
may be missing or in another cell if a client undid or redid the creation, duplication or deletion of a sheet between
the typing and the commit. The check counts these two kinds of texts separately.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from stratalog_sheet import Sheet
from stratalog_sheet.comparison import Comparison
from stratalog_sheet.contents import CellId, Contents, read_sheets
from stratalog_sheet.events import Revision, fact_of, target_of
from stratalog_sheet.writes import writes_of

__all__ = ["Keystrokes"]

SHEETS = ("CREATE_SHEET", "DELETE_SHEET", "DUPLICATE_SHEET")
Typed = dict[str, Any]
Cell = tuple[str, CellId]
"""The id of a sheet, and the identity of a cell in the sheet."""


class Keystrokes:
    """The texts that the clients of a run typed, to compare with the log's entries and the clients' lists."""

    def __init__(self, sheet: Sheet, typed: list[Typed], listed: list[dict[str, Any]]) -> None:
        self._sheet = sheet
        self._typed = typed
        self._listed = {str(item.get("text")) for item in listed}
        load_plans = sheet._load_plans
        self._plan = load_plans.plan(1)
        self._comparison = Comparison(sheet.log, load_plans, sheet._executed, sheet.state)
        self._committed = {
            fact.message["nextRevisionId"]: (entry.version, fact.message)
            for entry in sheet.log.read(0)
            if isinstance(fact := fact_of(entry), Revision)
        }
        self._known: dict[int, list[list[dict[str, Any]]]] = {}
        self.counts: Counter[str] = Counter()

    def lost(self) -> Iterator[str]:
        """Yield a message for each lost text.

        A text is lost if no client lists it, it is not in its cell, and neither reason of the module's docstring holds.
        """
        for number, typed in enumerate(self._typed):
            text = self._text(typed)
            if not text:
                continue
            cell = self._cell_typed(typed)
            version, written = self._written(typed, text)
            if written is not None and written == cell:
                self.counts["in their cells"] += 1
            elif text in self._listed:
                self.counts["listed"] += 1
            elif written is None and self._is_replaced(number, cell):
                self.counts["replaced by their authors"] += 1
            elif self._crosses_undone_sheets(typed["version"], version):
                self.counts["across undone sheets"] += 1
            else:
                typed_at = f"“{text}” was typed at version {typed['version']} in {cell}"
                now_at = f"version {version} wrote it to {written}" if written else "no entry wrote it"
                yield f"{typed_at}; {now_at}, and it is in no list"

    def _text(self, typed: Typed) -> str:
        command = typed["command"]
        text = command.get("content", "") if command["type"] == "UPDATE_CELL" else ""
        return text if text.startswith(typed["name"]) else ""

    def _written(self, typed: Typed, text: str) -> tuple[int, Cell | None]:
        """Return the version of the text's revision, and the cell to which the revision wrote the text.

        The version is 0 if the log lacks the revision. The cell is None if the revision did not write the text.
        """
        version, message = self._committed.get(typed["revision"], (0, {}))
        for command in message.get("commands", ()):
            if command.get("content") == text:
                return version, _cell(self._contents(version - 1), command)
        return version, None

    def _cell_typed(self, typed: Typed) -> Cell | None:
        contents = self._contents(typed["version"])
        for waiting in typed["before"]:
            contents.apply(waiting["id"], waiting["commands"])
        return _cell(contents, typed["command"])

    def _is_replaced(self, number: int, cell: Cell | None) -> bool:
        """Return whether the author of a text later overwrote or deleted its cell."""
        name = self._typed[number]["name"]
        for later in self._typed[number + 1 :]:
            if later["name"] != name or cell is None:
                continue
            contents = self._contents(later["version"])
            for waiting in later["before"]:
                contents.apply(waiting["id"], waiting["commands"])
            tab = contents.tabs.get(cell[0])
            if tab is None or (position := tab.position(cell[1])) is None:
                continue
            column, row = position
            command = later["command"]
            for write in writes_of(command):
                (left, top), (right, bottom) = write.first, write.last
                if write.sheet == cell[0] and left <= column <= right and top <= row <= bottom:
                    return True
            contents.apply("later", [command])
            if cell[0] not in contents.tabs or tab.position(cell[1]) is None:
                return True
        return False

    def _crosses_undone_sheets(self, after: int, version: int) -> bool:
        """Return whether a client undid or redid the creation, duplication or deletion of a sheet between two versions.

        ``version`` 0 means the newest version.
        """
        for entry in self._sheet.log.read(after, version or None):
            fact = fact_of(entry)
            if isinstance(fact, Revision) and (target := target_of(fact.message)):
                commands = self._committed[target][1].get("commands", ())
                if any(command["type"] in SHEETS for command in commands):
                    return True
        return False

    def _contents(self, version: int) -> Contents:
        if version not in self._known:
            self._known[version] = self._comparison._runs(self._plan, 1, version)
        return self._comparison._followed(read_sheets(self._plan.base.data), self._known[version])


def _cell(contents: Contents, command: dict[str, Any]) -> Cell | None:
    tab = contents.tabs.get(command["sheetId"])
    if tab is None or command["col"] >= len(tab.columns) or command["row"] >= len(tab.rows):
        return None
    return command["sheetId"], (tab.columns.at(command["col"]), tab.rows.at(command["row"]))
