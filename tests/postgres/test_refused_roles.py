"""Roles and hosts that PostgreSQL refuses, in whole or in part. Each error says what to do, and nothing was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import sql

import stratalog
from stratalog.backends.postgres import PostgresStore
from stratalog.backends.postgres_address import parse_address
from stratalog.clock import SystemClock
from stratalog.codec import sha256
from stratalog.errors import Unavailable
from stratalog.ports.index import Absent, Item, Put

WRITES: dict[str, Callable[[PostgresStore], object]] = {
    "insert": lambda store: store.index.commit([Put(Item("p", "new", {}), Absent())]),
    "put": lambda store: store.index.commit([Put(Item("p", "old", {"n": 2}))]),
    "blob": lambda store: store.blobs.put(f"acme/d/{sha256(b'body').hex()}", b"body"),
    "send": lambda store: store.queue.send("g", [b"m"]),
}
ROWS = "SELECT (SELECT count(*) FROM items), (SELECT count(*) FROM blobs), (SELECT count(*) FROM messages)"


@pytest.fixture
def admin(postgres: str) -> Iterator[psycopg.Connection[Any]]:
    """A session of the store's owner, in the schema of a store with one item. The role `plain` has no right yet."""
    address = parse_address(postgres)
    with closing(PostgresStore(address, SystemClock())) as store:
        store.create()
        store.index.commit([Put(Item("p", "old", {"n": 1}))])
    with closing(psycopg.connect(address.conninfo, autocommit=True)) as connection:
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(address.schema)))
        connection.execute("CREATE ROLE plain LOGIN")
        yield connection
        connection.execute("DROP OWNED BY plain; DROP ROLE plain")


@pytest.fixture
def plain(postgres: str, admin: psycopg.Connection[Any]) -> str:
    """The store's URL for the role `plain`."""
    return f"{postgres}&user=plain"


def grant(admin: psycopg.Connection[Any], postgres: str, rights: str) -> None:
    schema = sql.Identifier(parse_address(postgres).schema)
    admin.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO plain").format(schema))
    admin.execute(sql.SQL(f"GRANT {rights} ON ALL TABLES IN SCHEMA {{}} TO plain").format(schema))


@pytest.mark.parametrize("has_schema", [False, True])
def test_a_role_that_may_not_create_the_store_is_told_to_create_it_with_another_role(
    plain: str, admin: psycopg.Connection[Any], has_schema: bool
) -> None:
    schema = f"{parse_address(plain).schema}_other"
    if has_schema:
        name = sql.Identifier(schema)
        admin.execute(sql.SQL("CREATE SCHEMA {0}; GRANT USAGE ON SCHEMA {0} TO plain").format(name))
    with pytest.raises(Unavailable, match="may not create the store; run `stratalog init` with a role that may"):
        stratalog.open(f"{plain}&schema={schema}".replace(f"&schema={parse_address(plain).schema}&", "&"))


@pytest.mark.parametrize("create", [True, False])
def test_a_role_without_rights_on_an_existing_store_is_told_to_get_them(plain: str, create: bool) -> None:
    with pytest.raises(Unavailable, match="lacks a right; grant it"):
        stratalog.open(plain, create=create)


@pytest.mark.parametrize("name", WRITES)
def test_a_role_that_may_only_read_is_told_which_rights_it_lacks_and_writes_nothing(
    plain: str, postgres: str, admin: psycopg.Connection[Any], name: str
) -> None:
    grant(admin, postgres, "SELECT")
    with closing(PostgresStore(parse_address(plain), SystemClock())) as store:
        store.require()
        before = admin.execute(ROWS).fetchall()
        with pytest.raises(Unavailable, match=r"lacks a right; grant it .* reason='permission denied for table"):
            WRITES[name](store)
        assert store.index.get("p", "old") == Item("p", "old", {"n": 1})
    assert admin.execute(ROWS).fetchall() == before


@pytest.mark.parametrize("name", WRITES)
def test_a_role_that_loses_the_right_to_the_schema_is_not_told_only_to_create_the_store(
    plain: str, postgres: str, admin: psycopg.Connection[Any], name: str
) -> None:
    """PostgreSQL then reports that the tables do not exist."""
    grant(admin, postgres, "SELECT, INSERT, UPDATE, DELETE")
    with closing(PostgresStore(parse_address(plain), SystemClock())) as store:
        WRITES[name](store)
        schema = sql.Identifier(parse_address(postgres).schema)
        admin.execute(sql.SQL("REVOKE USAGE ON SCHEMA {} FROM plain").format(schema))
        with pytest.raises(Unavailable, match="or grant the role USAGE on the schema"):
            store.index.get("p", "old")
        admin.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO plain").format(schema))
        WRITES["put"](store)


def test_a_role_that_must_only_read_is_told_so_and_not_that_the_server_is_away(
    plain: str, postgres: str, admin: psycopg.Connection[Any]
) -> None:
    grant(admin, postgres, "SELECT, INSERT, UPDATE, DELETE")
    admin.execute("ALTER ROLE plain SET default_transaction_read_only TO on")
    with pytest.raises(Unavailable, match=r"accepts no writes; promote the standby, .* reason='session is read-only'"):
        stratalog.open(plain)


@pytest.mark.parametrize("name", WRITES)
def test_a_write_to_a_database_that_accepts_no_writes_says_so_and_writes_nothing(
    plain: str, postgres: str, admin: psycopg.Connection[Any], name: str
) -> None:
    grant(admin, postgres, "SELECT, INSERT, UPDATE, DELETE")
    admin.execute("ALTER ROLE plain SET default_transaction_read_only TO on")
    with closing(PostgresStore(parse_address(f"{plain}&target_session_attrs=any"), SystemClock())) as store:
        before = admin.execute(ROWS).fetchall()
        with pytest.raises(Unavailable, match="accepts no writes"):
            WRITES[name](store)
        assert store.index.get("p", "old") == Item("p", "old", {"n": 1})
    assert admin.execute(ROWS).fetchall() == before
