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
HEADINGS = ("figure", "value", "unit", "reference", "ratio", "goal", "")
PACKAGES = ("apsw", "eventsourcing", "msgspec", "zstandard")


def table(results: Sequence[Result]) -> str:
    """Return a line for each row, in aligned columns."""
    rows = [HEADINGS, *(_cells(result) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "\n".join(_line(row, widths) for row in rows)


def legend(results: Sequence[Result]) -> str:
    """Return a line for each row: the name of the row and its explanation."""
    width = max(len(result.name) for result in results)
    return "\n".join(f"{result.name:<{width}}  {_figure(result).what}" for result in results)


def machine() -> Iterator[tuple[str, str]]:
    """Yield the facts, besides the code, that the figures depend on."""
    yield "machine", f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    yield "python", platform.python_version()
    yield "sqlite", f"{sqlite3.sqlite_version} (plain), {apsw.sqlite_lib_version()} (ours)"
    yield from ((package, version(package)) for package in PACKAGES)


def _cells(result: Result) -> tuple[str, ...]:
    return (
        result.name,
        _number(result.value),
        result.unit,
        _number(result.reference),
        _number(result.ratio),
        _goal(result),
        MARKS[result.meets],
    )


def _goal(result: Result) -> str:
    figure = _figure(result)
    if figure.goal is None:
        return ""
    sign = "≥" if figure.better == "more" else "≤"
    return f"{sign} {figure.goal:g}" + (f" {figure.unit}" if figure.goal_bounds == "value" else "")


def _figure(result: Result) -> Figure:
    return next(figure for figure in FIGURES if figure.name == result.name)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    """Return a line with texts aligned to the left and numbers to the right."""
    left = {0, 2, 5, 6}
    cells = (
        cell.ljust(width) if column in left else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join(cells).rstrip()
