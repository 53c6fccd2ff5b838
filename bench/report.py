"""The report: a table, an explanation of each row, and a description of the machine."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Iterator, Sequence
from importlib.metadata import version

import apsw

from bench.figures import FIGURES, Figure, Result

__all__ = ["legend", "machine", "table"]

MARKS = {True: "✓", False: "✗", None: ""}
HEADINGS = ("figure", "medium", "value", "unit", "reference", "ratio", "µs above plain", "goal", "")
PACKAGES = ("apsw", "eventsourcing", "msgspec", "zstandard")


def table(results: Sequence[Result], figures: Sequence[Figure] = FIGURES) -> str:
    """Return a line for each row, in aligned columns."""
    by_name = {figure.name: figure for figure in figures}
    rows = [HEADINGS, *(_cells(result, by_name[result.name]) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "\n".join(_line(row, widths) for row in rows)


def legend(results: Sequence[Result], figures: Sequence[Figure] = FIGURES) -> str:
    """Return a line for each figure: its name and its explanation."""
    by_name = {figure.name: figure for figure in figures}
    names = list(dict.fromkeys(result.name for result in results))
    width = max(map(len, names))
    return "\n".join(f"{name:<{width}}  {by_name[name].what}" for name in names)


def machine() -> Iterator[tuple[str, str]]:
    """Yield the facts on which the figures depend, except the code."""
    yield "machine", f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    yield "load", f"{os.getloadavg()[0]:.1f} in the last minute"
    yield "python", platform.python_version()
    yield "sqlite", f"{sqlite3.sqlite_version} (plain), {apsw.sqlite_lib_version()} (ours)"
    yield from ((package, version(package)) for package in PACKAGES)


def _cells(result: Result, figure: Figure) -> tuple[str, ...]:
    return (
        result.name,
        result.medium or "",
        _number(result.value),
        result.unit,
        _number(result.reference),
        _number(result.ratio),
        _number(result.above_us),
        _goal(result, figure),
        MARKS[result.meets],
    )


def _goal(result: Result, figure: Figure) -> str:
    if result.goal is None:
        return ""
    sign = "≥" if figure.better == "more" else "≤"
    return f"{sign} {result.goal:g}" + (f" {figure.unit}" if figure.goal_bounds == "value" else "")


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    """Return a line with texts aligned to the left and numbers to the right."""
    left = {0, 1, 3, 7, 8}
    cells = (
        cell.ljust(width) if column in left else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join(cells).rstrip()
