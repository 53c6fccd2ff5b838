"""Drawings and charts: rewritten for the engine by an import, and for other programs by an export."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from stratalog_sheet import losses
from stratalog_sheet.file_reports import LAST_LINES, Findings
from stratalog_sheet.formulas import COLUMNS_MAX, exceeds_file
from stratalog_sheet.sheet_names import NO_NAMES, with_sheet_names
from stratalog_sheet.workbook_names import WorkbookNames
from stratalog_sheet.xlsx_markup import Allowance, Attributes, PartWriter
from stratalog_sheet.xlsx_repair import OrderRepair
from stratalog_sheet.xlsx_rules import RANGE

__all__ = ["ChartRepair", "DrawingRepair", "FigureWriter"]

SEVERAL_RANGES = re.compile(r"\(((?:'(?:[^']|'')*'|[^',()])+),.*\)", re.DOTALL)
THIS_WORKBOOK = "[0]!"
"""Excel writes this before a defined name of the whole workbook."""

CHART_TEXTS = ("c:tx", "c:cat")
CHART_VALUES = ("c:val", "c:yVal")
CHARTS = ("lineChart", "radarChart", "scatterChart", "pieChart", "doughnutChart", "barChart")


class FigureWriter(PartWriter):
    """Rewrites a drawing, a chart, a table or an external link.

    Reports charts and shapes that the engine cannot read. Drops and reports the labels of single points of charts, all
    ranges of a chart series except the first, and titles and labels of series that are texts instead of references to
    cells. LibreOffice writes such texts.
    """

    packs_pieces = False

    def __init__(self, part: str, allowance: Allowance, findings: Findings, sheet: str, names: WorkbookNames) -> None:
        super().__init__(part, allowance)
        self._names = names
        self._has_values = False
        self._text_start: int | None = None
        self._is_literal = False
        self._findings = findings
        self._sheet = sheet
        self._range: list[str] | None = None
        self._collected = 0

    def start(self, name: str, attributes: Attributes) -> None:
        prefix, _, local = name.rpartition(":")
        if prefix == "c" and local.endswith("Chart") and local not in CHARTS:
            self._findings.add(*losses.CHARTS, self._sheet)
        elif name == "c:dLbl" and not self.is_skipping:
            # The engine applies the settings of a single point's label to the whole series.
            self._findings.add("chart-label", "labels of single points of charts are not kept", self._sheet)
            self.skip()
            return
        elif name in CHART_TEXTS and not self.is_skipping:
            self._text_start, self._is_literal = len(self._out), False
        elif name in CHART_VALUES:
            self._has_values = True
        elif name == "c:f" and not self.is_skipping:
            self._range = []
        elif prefix == "xdr" and local in ("sp", "cxnSp", "grpSp"):
            self._findings.add(*losses.SHAPES, self._sheet)
        super().start(name, attributes)

    def end(self, name: str) -> None:
        if name == "c:f" and self._range is not None:
            text, self._range, self._collected = "".join(self._range), None, 0
            several = SEVERAL_RANGES.fullmatch(text)
            if several:
                self._findings.add("chart-range", "a chart series of several ranges keeps only the first", self._sheet)
            text = several[1] if several else text
            text = self._names.operand(text.removeprefix(THIS_WORKBOOK), self._sheet, (0, 0))
            super().text(text)
            self._is_literal = RANGE.fullmatch(text) is None
            if self._is_literal and self._has_values:
                self._findings.add(
                    "chart-series", "chart series that are not ranges of cells are not kept", self._sheet
                )
        elif name in CHART_VALUES:
            self._has_values = False
        super().end(name)
        if name in CHART_TEXTS and self._text_start is not None:
            if self._is_literal:
                del self._out[self._text_start :]
                text = "titles and labels of chart series that are not in cells are not kept"
                self._findings.add("chart-text", text, self._sheet)
            self._text_start = None

    def text(self, text: str) -> None:
        if self._range is None:
            super().text(text)
        else:
            self._collected += len(text)
            self.allowance.check(self._collected)
            self._range.append(text)


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
            reference, self._reference = with_sheet_names("".join(self._reference or []), self._names), None
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
