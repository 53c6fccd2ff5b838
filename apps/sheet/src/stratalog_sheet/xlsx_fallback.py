"""Reduced copies of a workbook that the engine refuses, without the likely causes. The report lists the losses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from stratalog_sheet.file_reports import FileFinding, FileReport
from stratalog_sheet.xlsx_import import Workbook

__all__ = ["reduced"]

FIGURES = ("xl/drawings/", "xl/charts/", "xl/media/")
TABLES = ("xl/tables/",)
DRAWING = re.compile(r"<drawing\b[^>]*></drawing>")
RULES = re.compile(
    r"<(cols|conditionalFormatting|dataValidations|hyperlinks|tableParts|autoFilter)\b.*?</\1>", re.DOTALL
)
LINK = r'<Relationship\b[^>]*/relationships/(?:%s)"[^>]*/>'
DRAWING_LINK = re.compile(LINK % "drawing")
RULE_LINKS = re.compile(LINK % "hyperlink|table")


def reduced(workbook: Workbook) -> Iterator[Workbook]:
    """Yield a copy without charts and images, then a copy that also lacks rules, tables, links and widths.

    Both copies have every cell.
    """
    without_figures = _without(
        workbook,
        FIGURES,
        lambda path, text: DRAWING.sub("", text) if _is_sheet(path) else DRAWING_LINK.sub("", text),
        FileFinding("figures-refused", "the engine cannot read a chart or an image, so none of them is kept", 1),
    )
    yield without_figures
    yield _without(
        without_figures,
        TABLES,
        lambda path, text: RULES.sub("", text) if _is_sheet(path) else RULE_LINKS.sub("", text),
        FileFinding(
            "rules-refused", "the engine cannot read a rule, a table, a link or a width, so none of them is kept", 1
        ),
    )


def _without(
    workbook: Workbook, folders: tuple[str, ...], change: Callable[[str, str], str], finding: FileFinding
) -> Workbook:
    files: dict[str, Any] = {}
    for path, text in workbook.files.items():
        if path.startswith(folders):
            continue
        is_of_sheet = path.startswith("xl/worksheets/") and isinstance(text, str)
        files[path] = change(path, text) if is_of_sheet else text
    kinds = re.compile(f'<Override PartName="/(?:{"|".join(folders)})[^>]*/>')
    files["[Content_Types].xml"] = kinds.sub("", files["[Content_Types].xml"])
    report = FileReport([*workbook.report.findings, finding])
    return msgspec.structs.replace(workbook, files=files, report=report)


def _is_sheet(path: str) -> bool:
    return not path.endswith(".rels")
