"""docs/limits.md agrees with the code: no limit is missing or stale, and each row names a test that exists."""

from __future__ import annotations

import inspect
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
FOLDERS = (
    "src/stratalog/server",
    "src/stratalog/sync",
    "src/stratalog/aws",
    "src/stratalog/worker",
    "apps/catalogue/src",
    "apps/sheet/src",
    "apps/table/src",
)
BOUND = re.compile(r"^(_?[A-Z][A-Z0-9_]*_(?:MAX|MIN))\b[^=\n]*=(?!=)", re.MULTILINE)
INNER = {
    # The server
    "server.addresses.ADDRESSES_REMEMBERED_MAX",  # the size of a cache
    "server.allocator.ARENAS_MAX",
    "server.allocator.FREE_BYTES_MAX",
    "server.allocator.MAPPED_BYTES_MIN",
    "server.allocator.M_ARENA_MAX",  # the number of the glibc option with this name
    "server.bodies.LOOP_BYTES_MAX",  # the server decodes a larger body on a thread
    "server.decoded_sizes.CHARACTER_BYTES_MAX",
    "server.hub.WATCH_SHARE_MAX",
    "server.paces.DEBT_SECONDS_MAX",  # follows from CALLER_PAUSE_SECONDS_MAX
    "server.paces.LOADED_SHARE_MIN",
    "server.records.SPOOL_BYTES_MAX",  # a larger body is spooled to a file
    "server.row_pages.DAMAGED_NAMED_MAX",  # a page names no more damaged rows, and still lists the others
    "server.trusted_proxies.ADDRESS_BYTES_MAX",  # a longer text cannot be an address
    "server.turns.READY_PER_SERVED_MAX",  # each turn looks at all ready sockets, so this limits the number of turns
    "server.web_server.DEADLINE_CHECK_SECONDS_MAX",
    "sync.replicache.DOUBLE_MAX",  # a larger integer is not converted to a double
    "aws.listeners.ANNOUNCE_SECONDS_MAX",  # after this time, the remaining listeners get no poke, and pull later
    "worker.coalescing.COALESCED_BYTES_MAX",  # a larger message is applied alone, in a separate entry
    # Catalogues
    "stratalog_catalogue.feed.SECONDS_DIGITS_MAX",  # a longer number in Retry-After is ignored
    "stratalog_catalogue.record_splitter.MILLISECONDS_MIN",  # a smaller number means seconds
    "stratalog_catalogue.xml.DECLARATION_BYTES_MAX",  # the leading bytes that may declare an encoding
    # Sheets
    "stratalog_sheet.contents.ZONE_CELLS_MAX",  # in a larger range only the filled cells are cleared
    "stratalog_sheet.engine_files.FETCH_SECONDS_MAX",  # the deadline of the command that installs the engine
    "stratalog_sheet.engine_files.NODE_MAJOR_MIN",
    "stratalog_sheet.formulas.COLUMNS_MAX",  # the largest sheet of an .xlsx file: an export reports the rest
    "stratalog_sheet.formulas.ROWS_MAX",
    "stratalog_sheet.load_plan.BASES_HELD_MAX",  # the size of a cache
    "stratalog_sheet.models.MESSAGES_MAX",  # `Models` opens a new model after this many messages
    "stratalog_sheet.state.PART_BYTES_MAX",  # a part of a state ends at this size
    "stratalog_sheet.state.PART_BYTES_MIN",
    "stratalog_sheet.state.RUN_ITEMS_MIN",
    "stratalog_sheet.xlsx_repair.HOLE_MAX",  # the largest doughnut hole that Excel reads
    "stratalog_sheet.xlsx_repair.LIST_CHARACTERS_MAX",
    # Tables
    "stratalog_table.jobs.REOPENED_MAX",  # how often a query opens a replaced model again
    "stratalog_table.maintenance_commands.FILES_MIN",  # defaults of options
    "stratalog_table.maintenance_commands.ROWS_MAX",
    "stratalog_table.queries.INNER_SCANNED_MAX",  # with more inner partitions, a query reads the leaves' ancestors
    "stratalog_table.queries.UNWANTED_MAX",
    "stratalog_table.transaction_group.DELAY_MS_MIN",  # the shortest delay in which other transactions may join
    "stratalog_table.transaction_group.WEIGHT_MAX",  # no further transaction joins an entry of this weight
}
"""Bounds that refuse no request of a caller. So `docs/limits.md` needs no row for these bounds."""

HEADER = "| limit | default | unit | counted for | where it is reached | test |"


class Row(msgspec.Struct, frozen=True):
    """One row of the page. ``names`` has the name of the constant, of the setting, or both."""

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


def test_every_row_names_an_existing_limit() -> None:
    stale = [f"remove from {PAGE}: {name}" for row in rows(page()) for name in row.names if name not in known()]
    assert not stale, "\n".join(stale)


def test_a_bound_outside_the_limits_modules_is_explained() -> None:
    modules = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if path.name != "limits.py")
    bounds = {f"{path.parent.name}.{path.stem}.{name}" for path in modules for name in BOUND.findall(path.read_text())}
    assert sorted(bounds - INNER) == [], "move the bound to its package's limits, or explain it in INNER"
    assert sorted(INNER - bounds) == []


@pytest.mark.parametrize(
    ("line", "bounds"),
    [
        ("ROWS_MAX = 1", ["ROWS_MAX"]),
        ("_ROWS_2_MAX: Final = 1 << 3", ["_ROWS_2_MAX"]),
        ("SECONDS_MIN = OTHER_MAX // 2", ["SECONDS_MIN"]),
        ("    ROWS_MAX = 1", []),
        ("MAXIMUM = 1", []),
        ("ROWS_MAX == 1", []),
    ],
)
def test_a_bound_is_recognised_by_the_name_of_its_module_constant(line: str, bounds: list[str]) -> None:
    assert BOUND.findall(line) == bounds


def test_no_two_packages_have_a_limit_of_one_name() -> None:
    names = [name for module in MODULES for name in own_limits(module)]
    assert [name for name in set(names) if names.count(name) > 1] == []


def test_no_limit_has_two_rows() -> None:
    names = [name for row in rows(page()) for name in row.names]
    assert [name for name in set(names) if names.count(name) > 1] == []


def test_every_default_on_the_page_equals_the_default_in_the_code() -> None:
    wrong = [
        f"{PAGE} gives {name} the default {row.default}, but the code gives it {shown(known()[name])}"
        for row in rows(page())
        for name in row.names
        if name in known() and row.default != shown(known()[name])
    ]
    assert not wrong, "\n".join(wrong)


def test_every_row_has_a_scope_and_an_effect() -> None:
    assert [row.names[0] for row in rows(page()) if not row.scope or not row.effect] == []


def test_every_row_names_an_existing_test() -> None:
    missing = [
        f"{row.names[0]}: no such test: {row.test}"
        for row in rows(page())
        if not (matched := TEST.fullmatch(row.test)) or not is_defined(ROOT / matched[1], matched[2])
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
def test_rows_are_read_only_from_tables_of_limits(text: str, count: int) -> None:
    assert len(rows(text)) == count


def page() -> str:
    return (ROOT / PAGE).read_text()


def rows(text: str) -> list[Row]:
    """Return the rows of the page's tables that have six columns."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:3] == "| `"]
    return [Row(tuple(NAME.findall(row[0])), *row[1:]) for row in cells if len(row) == len(Row.__struct_fields__)]


def known() -> Mapping[str, Any]:
    """Return every limit and setting with its default."""
    constants = {name: value for module in MODULES for name, value in own_limits(module).items()}
    settings = {name: getattr(kind(), name) for kind in SETTINGS for name in kind.__struct_fields__}
    return constants | settings


def own_limits(module: ModuleType) -> Mapping[str, Any]:
    """Return the limits that a module itself assigns, without imported limits."""
    assigned = set(re.findall(r"^([A-Z][A-Z0-9_]*)\b[^=\n]*=", inspect.getsource(module), re.MULTILINE))
    return {name: value for name, value in vars(module).items() if name in assigned}


def shown(value: float) -> str:
    """Return a number as the page writes it."""
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def suggested(name: str, value: float) -> str:
    """Return a row for a missing limit, with placeholders that a person fills in."""
    test = "`tests/….py::test_…` (a test that reaches it)"
    return (
        f"| `{name}` | {shown(value)} | (unit) | (counted for) | (status and code, or refuses nothing: what) | {test} |"
    )
