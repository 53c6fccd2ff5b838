"""A schema with tables of another program, which a store refuses and does not change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import sql

import stratalog
from stratalog.backends.postgres_address import parse_address
from stratalog.errors import Invalid

OBJECTS = {
    "a table": "CREATE TABLE dead_letters(subject text); INSERT INTO dead_letters VALUES ('returned')",
    "a view": "CREATE VIEW items AS SELECT 1 AS number",
    "a type": "CREATE TYPE blobs AS ENUM ('small')",
    "an index": "CREATE TABLE parts(number integer); CREATE INDEX messages_group ON parts(number)",
}
FORMATS = {
    "another column": "(name text)",
    "a text": "(version text); INSERT INTO store_format VALUES ('first')",
    "null": "(version integer); INSERT INTO store_format VALUES (NULL)",
    "a time that Python lacks": "(version timestamp); INSERT INTO store_format VALUES ('infinity')",
}
RELATIONS = "SELECT relname, relfilenode FROM pg_class WHERE relnamespace = %s::regnamespace ORDER BY relname"


@pytest.fixture
def connection(postgres: str) -> Iterator[psycopg.Connection[Any]]:
    """A session of the other program, in the schema of the store's URL."""
    address = parse_address(postgres)
    with closing(psycopg.connect(address.conninfo, autocommit=True)) as connection:
        schema = sql.Identifier(address.schema)
        connection.execute(sql.SQL("CREATE SCHEMA {0}; SET search_path TO {0}").format(schema))
        yield connection


@pytest.mark.parametrize("name", OBJECTS)
def test_a_schema_with_an_object_of_another_program_is_refused_and_stays_as_it_is(
    postgres: str, connection: psycopg.Connection[Any], name: str
) -> None:
    connection.execute(OBJECTS[name])
    before = _relations(connection, postgres)
    with pytest.raises(Invalid, match="another program"):
        stratalog.open(postgres)
    assert _relations(connection, postgres) == before


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("name", FORMATS)
def test_a_schema_whose_format_another_program_wrote_is_refused(
    postgres: str, connection: psycopg.Connection[Any], name: str, create: bool
) -> None:
    connection.execute(f"CREATE TABLE store_format{FORMATS[name]}")
    with pytest.raises(Invalid, match="another program"):
        stratalog.open(postgres, create=create)


def _relations(connection: psycopg.Connection[Any], url: str) -> list[tuple[Any, ...]]:
    return connection.execute(RELATIONS, (sql.Identifier(parse_address(url).schema).as_string(),)).fetchall()
