"""Repair of an export's figures: the engine's drawings and charts, changed so that other programs open them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stratalog_sheet.file_reports import LAST_LINES, Findings
from stratalog_sheet.formulas import COLUMNS_MAX, exceeds_file
from stratalog_sheet.sheet_names import with_file_names
from stratalog_sheet.xlsx_markup import Allowance, Attributes
from stratalog_sheet.xlsx_repair import NO_NAMES, OrderRepair

__all__ = ["ChartRepair", "DrawingRepair"]


class ChartRepair(OrderRepair):
    """Rewrites a chart without the series that need cells that a file cannot contain."""

    def __init__(
        self, part: str, allowance: Allowance, findings: Findings, names: Mapping[str, str] = NO_NAMES
    ) -> None:
        super().__init__(part, allowance)
        self._names = names
        self._findings = findings
        self._reference: list[str] | None = None
        self._beyond = ""

    def start(self, name: str, attributes: Attributes) -> None:
        """Begin an element. Collect the text of a reference to cells."""
        if name == "c:f":
            self._reference = []
        super().start(name, attributes)

    def text(self, text: str) -> None:
        """Write text. Collect the text of a reference."""
        if self._reference is not None:
            self._reference.append(text)
        else:
            super().text(text)

    def end(self, name: str) -> None:
        """End an element. Remove a series with a reference to cells that a file cannot contain, and report it."""
        if name == "c:f":
            reference, self._reference = with_file_names("".join(self._reference or []), self._names), None
            super().text(reference)
            super().end(name)
            if exceeds_file(reference):
                self._beyond = reference
            return
        super().end(name)
        if name == "c:ser" and self._beyond:
            self.discard()
            text = f"series of charts that need cells after {LAST_LINES} are left out"
            self._findings.add("beyond-series", text, self._beyond)
            self._beyond = ""


class DrawingRepair(OrderRepair):
    """Rewrites a drawing without the figures that begin after the last column of a file, or whose content is missing.

    ``missing`` has the ids of the drawing's relationships to missing parts.
    ``anchors`` counts the remaining figures.
    """

    def __init__(self, part: str, allowance: Allowance, missing: Collection[str]) -> None:
        super().__init__(part, allowance)
        self.anchors = 0
        self._missing = missing
        self._anchor: int | None = None
        self._is_missing = False
        self._corner = self._name = ""

    def start(self, name: str, attributes: Attributes) -> None:
        """Record where a figure begins, and whether its content is missing."""
        self._name = name
        if name in ("xdr:from", "xdr:to"):
            self._corner = name
        if name.endswith("Anchor"):
            self._anchor, self._is_missing = len(self._out), False
        if self._missing & {attributes.get("r:embed"), attributes.get("r:id")}:  # type: ignore[operator]
            self._is_missing = True
        super().start(name, attributes)

    def text(self, text: str) -> None:
        """Write text. Remove a figure that begins after the last column, and end other figures in the last column."""
        if self._name == "xdr:col" and int(text) >= COLUMNS_MAX:
            self._is_missing |= self._corner == "xdr:from"
            text = str(COLUMNS_MAX - 1)
        super().text(text)

    def end(self, name: str) -> None:
        """End an element. Remove a figure with missing content."""
        self._name = ""
        super().end(name)
        if name.endswith("Anchor") and self._anchor is not None:
            if self._is_missing:
                del self._out[self._anchor :]
            else:
                self.anchors += 1
