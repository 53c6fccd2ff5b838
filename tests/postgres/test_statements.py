"""The statements take arrays in PostgreSQL's binary format, and read only the rows they need."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest
from psycopg import ClientCursor, sql

import stratalog
from stratalog.backends import postgres, postgres_commits, postgres_queue, postgres_session, postgres_tables
from stratalog.backends.item_rows import CHECKED_PAIR_BYTES
from stratalog.backends.postgres_address import parse_address
from stratalog.backends.postgres_connections import Connection, PostgresConnections
from stratalog.testing.postgres_server import PostgresServer
from tests.sql_statements import hidden_statements, statements_of

MODULES = (postgres, postgres_commits, postgres_queue, postgres_session, postgres_tables)
STATEMENTS = statements_of(*MODULES)
ARRAY = r"%(.)::\w+\[\]"
WITH_ARRAYS = [text for text in STATEMENTS.values() if re.search(ARRAY, text)]

FEW, MANY = 30, 20_000
HIDDEN_MS = 10**13
"""Until this time all messages that were given are hidden."""


def _key(number: int) -> bytes:
    return b"%08d" % number


def _keys(count: int) -> list[bytes]:
    """Return keys that are spread over the table."""
    return [_key(1 + number * (MANY // count)) for number in range(count)]


def _page(case: tuple[bool, bool, bool]) -> Callable[[int], Sequence[Any]]:
    bounds = [bound for bound, given in ((_key(2), case[0]), (_key(MANY - 2), case[1])) if given]
    return lambda count: (b"p", *bounds, count, 0)


NUMBERS = itertools.count()
"""The numbers of the schemas. pytest sets a fixture up again if tests of its other parameter come in between."""

SINGLE, ARRAYS, PAGES = (1,), (2, 32, 500, 1000), (1, 128, 1024)
PAIR = b"x" * CHECKED_PAIR_BYTES
CASES: dict[str, tuple[Sequence[int], Callable[[int], Sequence[Any]]]] = {
    "postgres.GET": (SINGLE, lambda _: (b"p", _key(7))),
    **{f"postgres.PAGES[{case}]": (PAGES, _page(case)) for case in postgres.PAGES},
    "postgres.BODY": (SINGLE, lambda _: (_key(7),)),
    "postgres.STAT": (SINGLE, lambda _: (_key(7),)),
    "postgres.PAGE": (PAGES, lambda count: (b"0", _key(7), count, 0)),
    "postgres.DELETE_BLOB": (SINGLE, lambda _: (_key(7), 1)),
    "postgres_commits.INSERT_PLAIN": (SINGLE, lambda _: (b"q", _key(7), b"body")),
    "postgres_commits.INSERT_CHECKED": (SINGLE, lambda _: (b"q", _key(7), b"body", b"p", _key(7), PAIR)),
    "postgres_commits.INSERT_MANY": (
        ARRAYS,
        lambda count: (
            [b"q"] * count,
            _keys(count),
            [b"body"] * count,
            [*[b"p"] * (count - 1), None],
            [*_keys(count)[1:], None],
            [*[PAIR] * (count - 1), None],
        ),
    ),
    "postgres_commits.PUT_BLOBS": (
        ARRAYS,
        lambda count: ([b"body"] * count, _keys(count), [1] * count, [1] * count, [1] * count),
    ),
    "postgres_commits.INSERT_ABSENT": (ARRAYS, lambda count: ([b"p"] * count, _keys(count), [b"body"] * count)),
    "postgres_commits.LOCK": (ARRAYS, lambda count: ([b"p"] * count, _keys(count))),
    "postgres_commits.UPDATE": (ARRAYS, lambda count: ([b"p"] * count, _keys(count), [b"body"] * count)),
    "postgres_commits.DELETE": (ARRAYS, lambda count: ([b"p"] * count, _keys(count))),
    "postgres_queue.LOCK_TO_SEND": (SINGLE, lambda _: (b"large",)),
    "postgres_queue.SEND": (ARRAYS, lambda count: (b"large", [b"body"] * count)),
    "postgres_queue.SET_FIRST": (SINGLE, lambda _: (1, b"large")),
    "postgres_queue.READY": (SINGLE, lambda _: (HIDDEN_MS - 1,)),
    "postgres_queue.NEVER_HIDDEN": (PAGES, lambda count: (count,)),
    "postgres_queue.VISIBLE_AGAIN": (PAGES, lambda count: (HIDDEN_MS, count)),
    "postgres_queue.STUCK": (PAGES, lambda count: (count,)),
    "postgres_queue.OLDEST": (PAGES, lambda count: (b"large", b"large", count)),
    "postgres_queue.GIVE": (SINGLE, lambda _: ("receipt", HIDDEN_MS, 7)),
    "postgres_queue.MOVE_ASIDE": (SINGLE, lambda _: (b"large", HIDDEN_MS, 10, 1)),
    "postgres_queue.LAST_HIDDEN": (SINGLE, lambda _: (b"large",)),
    "postgres_queue.LOCK_GROUP": (SINGLE, lambda _: (b"large",)),
    "postgres_queue.ACKNOWLEDGE": (SINGLE, lambda _: (7, "", 1)),
    "postgres_queue.RELEASE": (SINGLE, lambda _: (1, 7, "", 1)),
    "postgres_queue.SET_GROUP": (SINGLE, lambda _: (1, 1, b"large")),
    "postgres_queue.DELETE_GROUP": (SINGLE, lambda _: (b"large",)),
    "postgres_queue.DEAD_LETTERS": ((10,), lambda _: (7,)),
    "postgres_queue.HAS_MESSAGES": (SINGLE, lambda _: ()),
}
"""For each statement the numbers of rows that it reads, and its parameters for such a number."""

TYPES = {bytes: "bytea", int: "bigint", str: "text"}


@pytest.mark.parametrize("statement", WITH_ARRAYS)
def test_an_array_is_sent_in_the_binary_format(statement: str) -> None:
    """In the text format psycopg escapes each element in Python, and the server parses twice as many bytes."""
    assert set(re.findall(ARRAY, statement)) == {"b"}


def test_seven_statements_take_arrays() -> None:
    assert len(WITH_ARRAYS) == 7


def test_each_statement_has_a_case() -> None:
    assert sorted(CASES) == sorted(STATEMENTS)
    assert hidden_statements(*MODULES) == []


@pytest.fixture(scope="module")
def grown(postgres_process: PostgresServer) -> Iterator[Connection]:
    """A session that has planned each statement for small tables, which the server had analysed. Then they grew."""
    with _session(f"{postgres_process.url}&schema=grown") as connection:
        _fill(connection, 0, FEW)
        _analyse(connection)
        for name, (counts, parameters) in CASES.items():
            _prepare(connection, name, parameters(counts[0]))
            _explained(connection, name, parameters(counts[0]), "FORMAT JSON")
        _fill(connection, FEW, MANY)
        yield connection


@pytest.fixture(scope="module", params=[False, True], ids=["without statistics", "with statistics"])
def filled(request: pytest.FixtureRequest, postgres_process: PostgresServer) -> Iterator[Connection]:
    """A session that plans each statement for its parameters, on large tables."""
    with _session(f"{postgres_process.url}&schema=filled_{next(NUMBERS)}") as connection:
        _fill(connection, 0, MANY)
        if request.param:
            _analyse(connection)
        for name, (counts, parameters) in CASES.items():
            _prepare(connection, name, parameters(counts[0]))
        yield connection


@pytest.mark.parametrize("name", CASES)
def test_a_statement_reads_the_rows_of_its_keys_and_not_the_table(filled: Connection, name: str) -> None:
    _require_few_rows(filled, name)


@pytest.mark.parametrize("name", CASES)
def test_a_statement_that_was_planned_for_a_small_table_reads_few_rows_of_a_large_one(
    grown: Connection, name: str
) -> None:
    _require_few_rows(grown, name)


def _require_few_rows(connection: Connection, name: str) -> None:
    counts, parameters = CASES[name]
    for count in counts:
        plan = _explained(connection, name, parameters(count), "ANALYZE, TIMING OFF, FORMAT JSON")
        assert max(_rows_read(plan)) <= 2 * count, (count, plan)


@contextmanager
def _session(url: str) -> Iterator[Connection]:
    stratalog.open(url).close()
    address = parse_address(url)
    with closing(PostgresConnections(address.conninfo, address.schema).connect()) as connection:
        for table in ("items", "blobs", "messages", "message_groups", "dead_letters"):
            # A vacuum in the background would make statistics, and end the plans that the session has made.
            connection.execute(sql.SQL("ALTER TABLE {} SET (autovacuum_enabled = off)").format(sql.Identifier(table)))
        connection.execute("DELETE FROM items")
        yield connection


def _fill(connection: Connection, first: int, end: int) -> None:
    """Add rows from number ``first`` on. All given messages are hidden, and the last group has half of the messages."""
    rows = f"FROM generate_series({first}, {end - 1}) AS number ORDER BY hashint4(number)"
    key = "lpad(number::text, 8, '0')::bytea"
    connection.execute(f"INSERT INTO items SELECT 'p', {key}, repeat('x', 100)::bytea {rows}".encode())
    connection.execute(
        f"INSERT INTO blobs(key, bytes, modified_ms, stamp, body) SELECT {key}, 1, 1, 1, 'x' {rows}".encode()
    )
    connection.execute(f"INSERT INTO dead_letters SELECT number, 'd', 10, 1, 'x' {rows}".encode())
    connection.execute(
        f"INSERT INTO messages(name, hidden_until_ms, receives, body) SELECT {key}, {HIDDEN_MS}, 1, 'x' {rows}".encode()
    )
    connection.execute(f"INSERT INTO messages(name, body) SELECT 'large', 'x' {rows}".encode())
    connection.execute(f"INSERT INTO message_groups SELECT {key}, {HIDDEN_MS}, 1 {rows}".encode())
    connection.execute(f"INSERT INTO message_groups VALUES ('large', {HIDDEN_MS}, 1) ON CONFLICT DO NOTHING".encode())


def _analyse(connection: Connection) -> None:
    connection.execute("ANALYZE items, blobs, messages, message_groups, dead_letters")


def _prepare(connection: Connection, name: str, parameters: Sequence[Any]) -> None:
    numbers = iter(range(1, len(parameters) + 1))
    text = STATEMENTS[name].replace("%(name)s AND %(name)s", "%s AND %s").replace("%(limit)s", "%s")
    text = re.sub("%[sb]", lambda _: f"${next(numbers)}", text)
    types = f"({', '.join(map(_type, parameters))})" if parameters else ""
    connection.execute(f'PREPARE "{name}"{types} AS {text}'.encode())


def _type(parameter: Any) -> str:
    return f"{_type(parameter[0])}[]" if isinstance(parameter, list) else TYPES[type(parameter)]


def _explained(connection: Connection, name: str, parameters: Sequence[Any], options: str) -> dict[str, Any]:
    """Return the plan of a prepared statement. If ``options`` execute the statement, undo its effect."""
    marks = f"({', '.join(['%s'] * len(parameters))})" if parameters else ""
    execute = f'EXPLAIN ({options}) EXECUTE "{name}"{marks}'
    connection.execute("BEGIN")
    explained = ClientCursor(connection).execute(execute.encode(), parameters).fetchone()
    connection.execute("ROLLBACK")
    assert explained is not None
    plan: dict[str, Any] = explained[0][0]["Plan"]
    return plan


def _rows_read(plan: dict[str, Any]) -> Iterator[float]:
    """Yield, for each step of an executed plan, the number of rows that it returned or left out."""
    removed = sum(rows for field, rows in plan.items() if field.startswith("Rows Removed"))
    yield (plan["Actual Rows"] + removed) * plan["Actual Loops"]
    for step in plan.get("Plans", ()):
        yield from _rows_read(step)
