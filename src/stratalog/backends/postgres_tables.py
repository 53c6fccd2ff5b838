"""Creates and checks the tables of a store in PostgreSQL. `formats/postgres.md` describes the tables.

Keys are `bytea`. PostgreSQL's `text` cannot store the character U+0000, and the order of `text` depends on the
collation of the database.
"""

from __future__ import annotations

import psycopg
from psycopg import sql

from stratalog.backends.postgres_connections import Connection, PoolerRefused, PostgresConnections, error_of
from stratalog.codec import is_decimal
from stratalog.errors import Invalid, Unavailable, Unsupported

__all__ = ["create_tables", "require_tables"]

FORMAT = 1

SCHEMA = """
CREATE TABLE items(partition bytea NOT NULL, sort bytea NOT NULL, body bytea NOT NULL, PRIMARY KEY(partition, sort));
CREATE TABLE blobs(
    key bytea PRIMARY KEY, bytes bigint NOT NULL, modified_ms bigint NOT NULL, stamp bigint NOT NULL,
    codec text NOT NULL DEFAULT 'z', body bytea NOT NULL
);
ALTER TABLE items ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE blobs ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE message_groups(name bytea PRIMARY KEY, visible_ms bigint NOT NULL, first bigint NOT NULL);
CREATE INDEX message_groups_ready ON message_groups(visible_ms, first);
CREATE TABLE messages(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name bytea NOT NULL, receives integer NOT NULL DEFAULT 0,
    hidden_until_ms bigint NOT NULL DEFAULT 0, receipt text NOT NULL DEFAULT '', body bytea NOT NULL
);
CREATE INDEX messages_group ON messages(name, id);
CREATE INDEX messages_given ON messages(name, hidden_until_ms) WHERE hidden_until_ms > 0;
CREATE TABLE dead_letters(
    id bigint PRIMARY KEY, name bytea NOT NULL, receives integer NOT NULL, dead_ms bigint NOT NULL, body bytea NOT NULL
);
CREATE TABLE store_format(version integer NOT NULL);
"""

OTHER_PROGRAM = "the schema has tables of another program; name another schema in the URL of the store"
NOT_CREATED = "the role may not create the store; run `stratalog init` with a role that may create schemas and tables"
EXISTS = (
    "SELECT to_regclass(format('%%I.store_format', %s::text)) IS NOT NULL, to_regnamespace(quote_ident(%s)) IS NOT NULL"
)


def create_tables(connections: PostgresConnections, schema: str) -> list[str]:
    """Create the schema and its tables if they do not exist. Return the names of the created objects.

    Several processes may call this function at once. A role without the right to create can open an existing store.
    Raises Unsupported for a newer format, Invalid if the schema has tables of another program or behind a pooler that
    the store cannot use, Unavailable. After an error nothing was created.
    """
    connection = _connect(connections)
    try:
        with connection.transaction():
            # Without the lock, one of two processes that create the same schema would fail with a unique violation in
            # PostgreSQL's catalogue.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('stratalog'), hashtext(%s))", (schema,))
            has_tables, has_schema = _exist(connection, schema)
            if has_tables:
                _check_format(connection)
                return []
            return _create(connection, schema, has_schema)
    except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateObject) as exc:
        raise Invalid(OTHER_PROGRAM, schema=schema, reason=exc.diag.message_primary) from exc
    except psycopg.Error as exc:
        raise error_of(exc) from exc
    finally:
        connection.close()


def _create(connection: Connection, schema: str, has_schema: bool) -> list[str]:
    made = [] if has_schema else [f"schema {schema}"]
    try:
        if not has_schema:
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        connection.execute(SCHEMA)
    except psycopg.errors.InsufficientPrivilege as exc:
        raise Unavailable(NOT_CREATED, schema=schema, reason=exc.diag.message_primary) from exc
    connection.execute("INSERT INTO store_format VALUES (%s)", (FORMAT,))
    return [*made, f"tables in schema {schema}"]


def require_tables(connections: PostgresConnections, schema: str) -> None:
    """Raise Invalid if the schema has no store or another program's, and Unsupported if the store has a newer format.

    Raises Invalid behind a pooler that the store cannot use, Unavailable.
    """
    connection = _connect(connections)
    try:
        has_tables, _ = _exist(connection, schema)
        if not has_tables:
            raise Invalid("the database has no store; create it with `stratalog init`", schema=schema)
        _check_format(connection)
    except psycopg.Error as exc:
        raise error_of(exc) from exc
    finally:
        connection.close()


def _connect(connections: PostgresConnections) -> Connection:
    try:
        return connections.connect()
    except PoolerRefused as exc:
        raise Invalid(exc.message) from exc


def _exist(connection: Connection, schema: str) -> tuple[bool, bool]:
    row = connection.execute(EXISTS, (schema, schema)).fetchone()
    assert row is not None, "the query has one row"
    return row[0], row[1]


def _check_format(connection: Connection) -> None:
    # As text: psycopg cannot load every value that the column of another program's table may have.
    try:
        row = connection.execute("SELECT version::text FROM store_format").fetchone()
    except psycopg.errors.UndefinedColumn as exc:
        raise Invalid(OTHER_PROGRAM, reason=exc.diag.message_primary) from exc
    if row is None:
        raise Unavailable("the tables of the store are not complete")
    if row[0] is None or not is_decimal(row[0]):
        raise Invalid(OTHER_PROGRAM, version=row[0])
    if int(row[0]) > FORMAT:
        raise Unsupported("the tables were made by a newer version of Stratalog", value=int(row[0]), known=FORMAT)
