"""Sessions of PostgreSQL whose role, database or failed statement would change what later statements do."""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from queue import SimpleQueue
from typing import Any

import psycopg
import pytest
from psycopg import sql

from stratalog.backends import postgres_commits, postgres_connections
from stratalog.backends.postgres import PostgresStore
from stratalog.backends.postgres_address import parse_address
from stratalog.backends.postgres_commits import put_blobs
from stratalog.backends.postgres_connections import Connection
from stratalog.backends.row_blobs import BlobRow
from stratalog.clock import SystemClock
from stratalog.codec import sha256
from stratalog.errors import ConditionFailed, OutcomeUnknown, StratalogError, Unavailable
from stratalog.ports.index import Absent, Item, Put
from tests.threads import SECONDS_MAX, until

COMMITS_MAX = 8
"""psycopg prepares a statement at its sixth use."""

ROLE_DEFAULTS = [
    ("default_transaction_isolation", "serializable", "read committed"),
    ("standard_conforming_strings", "off", "on"),
    ("array_nulls", "off", "on"),
    ("jit", "on", "off"),
]


@pytest.fixture
def connection(postgres: str) -> Iterator[psycopg.Connection[Any]]:
    """Another session."""
    with closing(psycopg.connect(parse_address(postgres).conninfo, autocommit=True)) as connection:
        yield connection


@pytest.fixture
def latin1(connection: psycopg.Connection[Any], postgres: str) -> str:
    """The URL of a new database whose encoding is LATIN1."""
    name = f"latin1_{parse_address(postgres).schema}"
    options = "ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    connection.execute(sql.SQL("CREATE DATABASE {} " + options).format(sql.Identifier(name)))
    return postgres.replace("/postgres?", f"/{name}?")


@contextmanager
def opened(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(parse_address(url), SystemClock())) as store:
        store.create()
        yield store


@contextmanager
def default_of_role(connection: psycopg.Connection[Any], name: str, value: str) -> Iterator[None]:
    setting = sql.Identifier(name)
    connection.execute(sql.SQL("ALTER ROLE stratalog SET {} TO {}").format(setting, value))
    try:
        yield
    finally:
        connection.execute(sql.SQL("ALTER ROLE stratalog RESET {}").format(setting))


@pytest.mark.parametrize("before", range(COMMITS_MAX))
def test_a_commit_succeeds_after_a_commit_that_waited_too_long_for_a_lock(
    postgres: str, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """After a failed statement the server skips the rest of the pipeline, perhaps a statement that psycopg prepared."""
    monkeypatch.setitem(postgres_connections.SETTINGS, "lock_timeout", "50ms")
    connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(parse_address(postgres).schema)))
    with opened(postgres) as store:
        put = Put(Item("p", "s", {}))
        store.index.commit([put])
        with suppress(ConditionFailed):  # so psycopg knows the statement ROLLBACK
            store.index.commit([Put(put.item, Absent())])
        for _ in range(before):
            store.index.commit([put])
        with connection.transaction():
            connection.execute("SELECT FROM items FOR UPDATE")
            with pytest.raises(Unavailable, match="lock timeout"):
                store.index.commit([put])
        store.index.commit([put])


@pytest.mark.parametrize(("name", "value", "needed"), ROLE_DEFAULTS)
def test_a_session_replaces_the_defaults_of_its_role_that_change_its_statements(
    postgres: str, connection: psycopg.Connection[Any], name: str, value: str, needed: str
) -> None:
    with (
        default_of_role(connection, name, value),
        opened(postgres) as store,
        closing(store._connections.connect()) as session,
    ):
        assert session.execute(sql.SQL("SHOW {}").format(sql.Identifier(name))).fetchall() == [(needed,)]


def test_a_store_reads_back_its_bytes_if_its_role_turns_off_standard_conforming_strings(
    postgres: str, connection: psycopg.Connection[Any]
) -> None:
    with default_of_role(connection, "standard_conforming_strings", "off"), opened(postgres) as store:
        store.index.commit([Put(Item("p", "s", {"b": b"\\x00"}))])
        store.queue.send("g", [b"\\x00"])
        assert store.index.get("p", "s") == Item("p", "s", {"b": b"\\x00"})
        assert [message.body for message in store.queue.receive()] == [b"\\x00"]


def test_rows_that_a_policy_hides_from_the_role_are_an_error_and_not_absent(
    postgres: str, connection: psycopg.Connection[Any]
) -> None:
    schema = sql.Identifier(parse_address(postgres).schema)
    with opened(postgres) as store:
        store.index.commit([Put(Item("p", "s", {}))])
    connection.execute(sql.SQL("SET search_path TO {}").format(schema))
    connection.execute("ALTER TABLE items ENABLE ROW LEVEL SECURITY; CREATE ROLE hidden LOGIN")
    connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {0} TO hidden").format(schema))
    connection.execute(sql.SQL("GRANT ALL ON ALL TABLES IN SCHEMA {0} TO hidden").format(schema))
    try:
        with (
            closing(PostgresStore(parse_address(f"{postgres}&user=hidden"), SystemClock())) as other,
            pytest.raises(Unavailable, match="row-level security"),
        ):
            other.index.get("p", "s")
    finally:
        connection.execute("DROP OWNED BY hidden; DROP ROLE hidden")


def test_hints_are_heard_of_names_that_the_database_s_encoding_lacks(
    latin1: str, connection: psycopg.Connection[Any]
) -> None:
    heard: SimpleQueue[tuple[str, str]] = SimpleQueue()
    with opened(latin1) as sender, opened(latin1) as other:
        other.announcements.listen(lambda organisation, name: heard.put((organisation, name)))

        def is_heard() -> bool:
            sender.announcements.announce("acme", "表")
            return not heard.empty()

        until(is_heard)
    assert heard.get() == ("acme", "表")


def test_a_schema_whose_name_the_database_s_encoding_lacks_is_refused(latin1: str) -> None:
    url = latin1.replace(f"schema={parse_address(latin1).schema}", "schema=%E8%A1%A8")
    with pytest.raises(Unavailable, match="character with byte sequence"), opened(url):
        pass


@pytest.mark.parametrize(
    ("part", "wrong", "reason"),
    [
        ("/postgres?", "/none?", 'FATAL:  database "none" does not exist'),
        ("?", "?port=1&", "No such file or directory"),
    ],
)
def test_an_error_shows_why_the_server_cannot_be_reached(postgres: str, part: str, wrong: str, reason: str) -> None:
    with pytest.raises(Unavailable) as raised, opened(postgres.replace(part, wrong)):
        pass
    assert reason in str(raised.value)


def test_a_process_that_stops_after_it_has_locked_items_does_not_block_other_processes(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres_connections.SETTINGS, "lock_timeout", "30s")
    with opened(postgres) as stopped, opened(postgres) as other:
        stopped.index.commit([Put(Item("p", "s", {}))])
        # Only now, so that a process which stops during the first commit does not lose its session.
        session = stopped.index._index._writer._connection
        session.execute("SET idle_in_transaction_session_timeout TO '100ms'")
        apply = postgres_commits._Changes.apply

        def apply_after_another_commit(changes: Any, commit: Any) -> StratalogError | None:
            monkeypatch.setattr(postgres_commits._Changes, "apply", apply)
            other.index.commit([Put(Item("p", "s", {"by": "other"}))])
            return apply(changes, commit)

        monkeypatch.setattr(postgres_commits._Changes, "apply", apply_after_another_commit)
        with pytest.raises(OutcomeUnknown):
            stopped.index.commit([Put(Item("p", "s", {"by": "stopped"}))])
        assert stopped.index.get("p", "s") == Item("p", "s", {"by": "other"})


def test_a_lost_race_with_a_blob_logs_nothing(
    postgres: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def put_after_the_failure(connection: Connection, rows: Sequence[BlobRow]) -> None:
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        assert poll.poll(SECONDS_MAX * 1000)
        put_blobs(connection, rows)

    put = Put(Item("p", "s", {}), Absent())
    with opened(postgres) as store:
        store.index.commit([put])
        monkeypatch.setattr(postgres_commits, "put_blobs", put_after_the_failure)
        with pytest.raises(ConditionFailed):
            store.index.commit([put], {f"acme/d/{sha256(b'body').hex()}": b"body"})
    assert [record.getMessage() for record in caplog.records if record.name.startswith("psycopg")] == []


def test_a_failed_transaction_logs_nothing(postgres: str, caplog: pytest.LogCaptureFixture) -> None:
    with opened(postgres) as store:
        with pytest.raises(Unavailable):
            store.queue._connections.transact(lambda connection: connection.execute("SELECT 1 / 0"))
        store.queue.send("g", [b"m"])
    assert [record.getMessage() for record in caplog.records if record.name.startswith("psycopg")] == []
