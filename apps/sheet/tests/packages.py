"""Workbooks built from hand-written parts, in the form that other programs write."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
STRICT = "http://purl.oclc.org/ooxml"
NO_VALUES = {why: {"count": 0, "cells": []} for why in ("beyond", "unknown", "characters")}
"""The part of the engine's export that lists formulas written as values, for an export without such formulas."""


def archive(files: Mapping[str, str | bytes]) -> bytes:
    """Return the files as one ZIP archive."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, body in files.items():
            opened.writestr(name, body)
    return packed.getvalue()


def package(
    sheets: Mapping[str, str],
    *,
    workbook: str = "",
    styles: str = "",
    strings: str = "",
    more: Mapping[str, str] | None = None,
) -> bytes:
    """Return a workbook. ``sheets`` maps each sheet's name to the content of its ``worksheet`` element."""
    listed = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="s{n}"/>' for n, name in enumerate(sheets, 1))
    links = "".join(link(f"s{n}", "worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1))
    links += link("styles", "styles", "styles.xml") if styles else ""
    links += link("strings", "sharedStrings", "sharedStrings.xml") if strings else ""
    before, _, after = workbook.partition("<sheets/>")
    files = {
        "[Content_Types].xml": content_types(len(sheets), bool(styles), bool(strings)),
        "_rels/.rels": related(link("w", "officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": (
            f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}">{before}<sheets>{listed}</sheets>{after}</workbook>'
        ),
        "xl/_rels/workbook.xml.rels": related(links),
        **{
            f"xl/worksheets/sheet{n}.xml": f'<worksheet xmlns="{MAIN}" xmlns:r="{RELATIONS}">{body}</worksheet>'
            for n, body in enumerate(sheets.values(), 1)
        },
    }
    if styles:
        files["xl/styles.xml"] = f'<styleSheet xmlns="{MAIN}">{styles}</styleSheet>'
    if strings:
        files["xl/sharedStrings.xml"] = f'<sst xmlns="{MAIN}">{strings}</sst>'
    return archive({**files, **(more or {})})


def content_types(sheets: int, has_styles: bool, has_strings: bool) -> str:
    """Return the content types of the parts of a workbook that `package` makes."""
    kinds = {"workbook.xml": "sheet.main", **{f"worksheets/sheet{n}.xml": "worksheet" for n in range(1, sheets + 1)}}
    kinds |= {"styles.xml": "styles"} if has_styles else {}
    kinds |= {"sharedStrings.xml": "sharedStrings"} if has_strings else {}
    listed = "".join(
        f'<Override PartName="/xl/{path}" '
        f'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.{kind}+xml"/>'
        for path, kind in kinds.items()
    )
    default = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    return f'<Types xmlns="{PACKAGE}/content-types">{default}{listed}</Types>'


def link(id: str, kind: str, target: str) -> str:
    """Return a relationship element."""
    return f'<Relationship Id="{id}" Type="{RELATIONS}/{kind}" Target="{target}"/>'


def related(links: str) -> str:
    """Return a relationships part."""
    return f'<Relationships xmlns="{PACKAGE}/relationships">{links}</Relationships>'


def rows(*cells: str) -> str:
    """Return the sheet data with these cells in the first row."""
    return f'<sheetData><row r="1">{"".join(cells)}</row></sheetData>'
