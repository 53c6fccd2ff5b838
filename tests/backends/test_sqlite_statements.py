"""The statements of SQLite read only the rows that they need, however many rows the tables have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from stratalog.backends import sqlite, sqlite_blobs, sqlite_file, sqlite_queue, sqlite_tables
from stratalog.backends.item_rows import CHECKED_PAIR_BYTES
from tests.sql_statements import hidden_statements, statements_of

MODULES = (sqlite, sqlite_blobs, sqlite_file, sqlite_queue, sqlite_tables)
STATEMENTS = statements_of(*MODULES)

FEW, MANY = 100, 10_000
ALLOWED = 20
"""More steps and pages on a large table: its trees are deeper."""
HIDDEN_MS = 10**13
"""Until this time all messages that were given are hidden."""

PAGE_COUNTERS = (apsw.SQLITE_DBSTATUS_CACHE_HIT, apsw.SQLITE_DBSTATUS_CACHE_MISS)
KEY, PAIR = "000007", b"x" * CHECKED_PAIR_BYTES
ROW = ("q", KEY, b"body")


def _page(case: tuple[bool, bool, bool]) -> Sequence[Any]:
    return ("p", *[bound for bound, given in (("000002", case[0]), ("000090", case[1])) if given], 10)


CASES: dict[str, Sequence[Any]] = {
    "sqlite.GET": ("p", KEY),
    "sqlite.GET_OF_DAMAGED": ("p", KEY),
    "sqlite.REPLACE": ("p", KEY, b"body"),
    "sqlite.DELETE": ("p", KEY),
    **{f"sqlite.PAGES[{case}]": _page(case) for case in sqlite.PAGES},
    **{f"sqlite.PAGES_OF_DAMAGED[{case}]": (*_page(case), 0) for case in sqlite.PAGES},
    "sqlite_blobs.GET": (KEY,),
    "sqlite_blobs.STAT": (KEY,),
    "sqlite_blobs.PAGE": ("0", KEY, 10),
    "sqlite_blobs.PAGE_OF_DAMAGED": ("0", KEY, 10, 0),
    "sqlite_blobs.OTHER_TYPES": (),
    "sqlite_blobs.STANDING": (KEY,),
    "sqlite_blobs.RENEW": (1, 1, KEY),
    "sqlite_blobs.REPAIR": (7, b"body"),
    "sqlite_blobs.RESIZE": (1, KEY),
    "sqlite_blobs.FORGET": (KEY, 1),
    "sqlite_blobs.FREE": (7,),
    "sqlite_queue.SEND": ("large", b"body"),
    "sqlite_queue.SEND_GROUP": ("large",),
    "sqlite_queue.READY": (HIDDEN_MS - 1, HIDDEN_MS),
    "sqlite_queue.NEVER_HIDDEN": (10,),
    "sqlite_queue.VISIBLE_AGAIN": (HIDDEN_MS, 10),
    "sqlite_queue.STUCK": (HIDDEN_MS - 1, 10),
    "sqlite_queue.OLDEST": ("large", 10),
    "sqlite_queue.GIVE": (7, "receipt", HIDDEN_MS),
    "sqlite_queue.MOVE_ASIDE": ("large", HIDDEN_MS, 10),
    "sqlite_queue.DELETE_EXPIRED": ("large", HIDDEN_MS, 10),
    "sqlite_queue.LAST_HIDDEN": ("large",),
    "sqlite_queue.ACKNOWLEDGE": (7, "", 1),
    "sqlite_queue.RELEASE": (7, "", 1, 1),
    "sqlite_queue.SET_GROUP": ("large", HIDDEN_MS, 1),
    "sqlite_queue.DELETE_GROUP": ("large",),
    "sqlite_queue.DEAD_LETTERS": (7,),
    "sqlite_queue.HAS_MESSAGES": (),
    "sqlite_tables.BLOB_INSERTS": (b"body", "new", 1, 1, 1),
    "sqlite_tables.INSERT_ITEM[3]": ROW,
    "sqlite_tables.INSERT_ITEM[6]": ("q", KEY, b"body", "p", KEY, PAIR),
}
"""The parameters of each statement."""


def test_each_statement_has_a_case() -> None:
    assert sorted(CASES) == sorted(STATEMENTS)
    assert hidden_statements(*MODULES) == []


@pytest.fixture(scope="module", params=["never", "first", "last"])
def connections(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[apsw.Connection]]:
    """A file with few rows, and one with many. The files were never analysed, or with the first rows, or with all."""
    folder = tmp_path_factory.mktemp("statements")
    with (
        closing(_filled(folder / "few", FEW, request.param)) as few,
        closing(_filled(folder / "many", MANY, request.param)) as many,
    ):
        yield [few, many]


@pytest.mark.parametrize("name", CASES)
def test_the_work_of_a_statement_does_not_grow_with_the_table(connections: list[apsw.Connection], name: str) -> None:
    few, many = (_work(connection, STATEMENTS[name], CASES[name]) for connection in connections)
    assert many <= few + ALLOWED


def _filled(path: Path, rows: int, analysed: str) -> apsw.Connection:
    with closing(apsw.Connection(str(path))) as connection:
        sqlite_tables.prepare(connection)
        _fill(connection, 0, FEW)
        if analysed == "first":
            connection.execute("ANALYZE")
        _fill(connection, FEW, rows)
        if analysed == "last":
            connection.execute("ANALYZE")
    return apsw.Connection(str(path))


def _fill(connection: apsw.Connection, first: int, end: int) -> None:
    """Add rows from number ``first`` on. All given messages are hidden, and the last group has half of the messages."""
    with connection:
        for number in range(first, end):
            key = f"{number:06}"
            connection.execute("INSERT INTO items VALUES ('p', ?, ?)", (key, b"x" * 100))
            connection.execute(sqlite_tables.BLOB_INSERTS, (b"x", key, 1, 1, 1))
            connection.execute("INSERT INTO dead_letters VALUES (?, 'd', 10, 1, 'x')", (number,))
            connection.execute(
                "INSERT INTO messages(name, hidden_until_ms, receives, body) VALUES (?, ?, 1, 'x')", (key, HIDDEN_MS)
            )
            connection.execute("INSERT INTO message_groups VALUES (?, ?, 1)", (key, HIDDEN_MS))
        connection.executemany("INSERT INTO messages(name, body) VALUES ('large', 'x')", [()] * (end - first))
        connection.execute("INSERT OR IGNORE INTO message_groups VALUES ('large', ?, 1)", (HIDDEN_MS,))


def _work(connection: apsw.Connection, statement: str, parameters: Sequence[Any]) -> int:
    """Execute a statement, undo its effect, and return the number of instructions of SQLite's machine, and of pages.

    `count(*)` is one instruction, which reads all pages of a table.
    """
    steps: list[int] = []
    connection.execute("BEGIN")
    connection.trace_v2(
        apsw.SQLITE_TRACE_PROFILE, lambda event: steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])
    )
    for counter in PAGE_COUNTERS:
        connection.status(counter, True)
    connection.execute(statement, parameters).fetchall()
    pages = sum(connection.status(counter, True)[0] for counter in PAGE_COUNTERS)
    connection.trace_v2(0)
    connection.execute("ROLLBACK")
    return sum(steps) + pages
