"""The page of limits says what the code does: no limit is missing or stale, and each has a test that reaches it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import msgspec
import pytest

import stratalog_catalogue.limits
import stratalog_sheet.limits
import stratalog_table.limits
from stratalog import limits
from stratalog.log import LogSettings
from stratalog.server.application import ServerLimits
from stratalog.worker import WorkerSettings
from tests.sources import ROOT
from tests.test_docs import is_defined

PAGE = "docs/limits.md"
MODULES: tuple[ModuleType, ...] = (limits, stratalog_sheet.limits, stratalog_catalogue.limits, stratalog_table.limits)
SETTINGS: tuple[type[msgspec.Struct], ...] = (ServerLimits, LogSettings, WorkerSettings)
NAME = re.compile(r"`(\w+)`")
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")
FOLDERS = ("src/stratalog/server", "src/stratalog/sync", "src/stratalog/aws")
BOUND = re.compile(r"^([A-Z_]+_(?:MAX|MIN))\b[^=\n]*=", re.MULTILINE)
INNER = {
    "ADDRESSES_REMEMBERED_MAX",  # three caches of parsed addresses
    "ADDRESS_BYTES_MAX",  # a longer text is no address
    "ANNOUNCE_SECONDS_MAX",  # who is told later finds the commit when it looks
    "ARENAS_MAX",
    "CHARACTER_BYTES_MAX",
    "DEADLINE_CHECK_SECONDS_MAX",
    "DEBT_SECONDS_MAX",  # follows from CALLER_PAUSE_SECONDS_MAX
    "DOUBLE_MAX",  # what a number of Replicache's may be
    "FREE_BYTES_MAX",
    "LOADED_SHARE_MIN",
    "LOOP_BYTES_MAX",
    "MAPPED_BYTES_MIN",
    "M_ARENA_MAX",  # a name of glibc
    "SPOOL_BYTES_MAX",  # more of a body waits in a file
    "WATCH_SHARE_MAX",
}
"""Constants of modules that refuse nothing to anybody, and are no limits of a caller."""

HEADER = "| limit | default | unit | counted for | where it is reached | test |"


class Row(msgspec.Struct, frozen=True):
    """One row of the page, with the constant and the setting that it is about."""

    names: tuple[str, ...]
    default: str
    unit: str
    scope: str
    effect: str
    test: str


def test_every_limit_has_a_row() -> None:
    named = {name for row in rows(page()) for name in row.names}
    missing = [f"add to {PAGE}: {suggested(name, value)}" for name, value in known().items() if name not in named]
    assert not missing, "\n".join(missing)


def test_every_row_is_of_a_limit_that_is_there() -> None:
    stale = [f"remove from {PAGE}: {name}" for row in rows(page()) for name in row.names if name not in known()]
    assert not stale, "\n".join(stale)


def test_what_bounds_a_caller_is_a_constant_of_the_limits() -> None:
    bounds = {
        name for folder in FOLDERS for path in (ROOT / folder).glob("*.py") for name in BOUND.findall(path.read_text())
    }
    assert bounds == INNER


def test_no_limit_has_two_rows() -> None:
    names = [name for row in rows(page()) for name in row.names]
    assert [name for name in set(names) if names.count(name) > 1] == []


def test_every_default_is_that_of_the_code() -> None:
    wrong = [
        f"{PAGE} says {row.default} of {name}, the code {shown(known()[name])}"
        for row in rows(page())
        for name in row.names
        if name in known() and row.default != shown(known()[name])
    ]
    assert not wrong, "\n".join(wrong)


def test_every_row_says_for_whom_a_limit_is_counted_and_what_happens() -> None:
    assert [row.names[0] for row in rows(page()) if not row.scope or not row.effect] == []


def test_every_row_names_a_test_that_is_there() -> None:
    missing = [
        f"{row.names[0]}: no such test: {row.test}"
        for row in rows(page())
        if not (found := TEST.fullmatch(row.test)) or not is_defined(ROOT / found[1], found[2])
    ]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        (f"{HEADER}\n|---|\n| `A`, `a` | 1,000 | bytes | process | 400 invalid | `tests/test_a.py::test_a` |\n", 1),
        ("| other | table |\n|---|---|\n| `A` | 1 |\n", 0),
    ],
)
def test_a_row_is_read_from_tables_of_limits_alone(text: str, count: int) -> None:
    assert len(rows(text)) == count


def page() -> str:
    return (ROOT / PAGE).read_text()


def rows(text: str) -> list[Row]:
    """The rows of the page's tables, each of six columns."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:3] == "| `"]
    return [Row(tuple(NAME.findall(row[0])), *row[1:]) for row in cells if len(row) == len(Row.__struct_fields__)]


def known() -> Mapping[str, Any]:
    """Every limit and setting, with its default."""
    constants = {name: value for module in MODULES for name, value in vars(module).items() if name.isupper()}
    settings = {name: getattr(kind(), name) for kind in SETTINGS for name in kind.__struct_fields__}
    return constants | settings


def shown(value: float) -> str:
    """A number as the page writes it."""
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def suggested(name: str, value: float) -> str:
    """The row to add, with what a person has to fill in."""
    test = "`tests/….py::test_…` (a test that reaches it)"
    return (
        f"| `{name}` | {shown(value)} | (unit) | (counted for) | (status and code, or refuses nothing: what) | {test} |"
    )
