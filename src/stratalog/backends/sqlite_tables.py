"""The tables of the SQLite file, and the statements that fill them. `formats/folder.md` describes the tables."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache

import apsw

from stratalog.backends.item_rows import CHECKED_LENGTH, CHECKED_PAIR_BYTES, PLAIN_LENGTH
from stratalog.errors import Invalid, Unsupported
from stratalog.sqlite_files import execute_schema, roll_back

__all__ = [
    "BLOB_INSERTS",
    "FORMAT",
    "INSERT_BLOBS_MAX",
    "INSERT_ITEM",
    "INSERT_ROWS_MAX",
    "check_format",
    "grow_log",
    "insert_all",
    "insert_items",
    "prepare",
]

FORMAT = 3
APPLICATION_ID = 0x53544C47
PAGE_BYTES = 4096
SPILLING_PAGES = 10
INSERT_ROWS_MAX = 100
INSERT_BLOBS_MAX = 16

SCHEMA = """
CREATE TABLE items(
    partition TEXT NOT NULL, sort TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY(partition, sort)
) WITHOUT ROWID;
CREATE TABLE messages(
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, receives INTEGER NOT NULL DEFAULT 0,
    hidden_until_ms INTEGER NOT NULL DEFAULT 0, receipt TEXT NOT NULL DEFAULT '', body BLOB NOT NULL
);
CREATE TABLE dead_letters(
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, receives INTEGER NOT NULL, dead_ms INTEGER NOT NULL, body BLOB NOT NULL
);
"""
QUEUE_SCHEMA = """
DROP INDEX IF EXISTS messages_hidden;
CREATE INDEX messages_group ON messages(name);
CREATE INDEX messages_given ON messages(name, hidden_until_ms) WHERE hidden_until_ms > 0;
CREATE TABLE message_groups(name TEXT PRIMARY KEY, visible_ms INTEGER NOT NULL, first INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX message_groups_ready ON message_groups(visible_ms, first);
INSERT INTO message_groups SELECT name, max(hidden_until_ms), min(id) FROM messages GROUP BY name;
"""
BLOB_SCHEMA = """
CREATE TABLE blobs(
    key TEXT PRIMARY KEY, id INTEGER NOT NULL, bytes INTEGER NOT NULL, modified_ms INTEGER NOT NULL,
    stamp INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE blob_bodies(id INTEGER PRIMARY KEY, body BLOB NOT NULL, codec TEXT NOT NULL DEFAULT 'z');
"""

PLAIN_ROW = "(?, ?, ?)"
CHECKED_ROW = (
    f"(?, ?, (SELECT ? FROM items WHERE partition = ? AND sort = ? AND substr(body, 2, {CHECKED_PAIR_BYTES}) = ?))"
)
"""A row with a check: if the check fails, the body is null, and the column's NOT NULL makes the statement fail.

The check compares the encoded name and value of an item's first attribute. This name and value follow the one byte
that starts a MessagePack map of up to 15 pairs. A hash of 32 bytes under a name of one letter takes 36 bytes.
"""

SHAPES_MAX = 1024
BLOB_INSERTS = (
    "INSERT INTO blob_bodies(body) VALUES (?);"
    "INSERT INTO blobs(key, id, bytes, modified_ms, stamp) VALUES (?, last_insert_rowid(), ?, ?, ?);"
)


@lru_cache(SHAPES_MAX)
def insert_items(lengths: tuple[int, ...]) -> str:
    """Return the statement that inserts rows of these lengths, and fails if a key is taken or a check fails."""
    rows = (CHECKED_ROW if length == CHECKED_LENGTH else PLAIN_ROW for length in lengths)
    return f"INSERT INTO items VALUES {', '.join(rows)}"


INSERT_ITEM = {length: insert_items((length,)) for length in (PLAIN_LENGTH, CHECKED_LENGTH)}
"""The statement that inserts one row, by the row's length."""


@lru_cache(SHAPES_MAX)
def insert_all(lengths: tuple[int, ...], blobs: int) -> str:
    """Return the statements of a whole transaction, as one text: `insert_items`, and inserts of ``blobs`` blobs."""
    items = f"{insert_items(lengths)};" if lengths else ""
    return f"BEGIN IMMEDIATE;{items}{BLOB_INSERTS * blobs}COMMIT"


def prepare(connection: apsw.Connection) -> None:
    """Create the missing tables.

    A file of format 1 has no tables for blobs, since all its blobs are files. A file of format 1 or 2 has no table for
    the groups of messages.

    Raises the errors of `check_format`, and apsw's errors.
    """
    version = check_format(connection)
    if not version:
        _create(connection, SCHEMA + BLOB_SCHEMA + QUEUE_SCHEMA)
    elif version < FORMAT:
        _create(connection, QUEUE_SCHEMA if version == 2 else BLOB_SCHEMA + QUEUE_SCHEMA)


def check_format(connection: apsw.Connection) -> int:
    """Return the format of a file; 0 for an empty file.

    Raises Unsupported for a newer format, Invalid for another program's database, and apsw's errors.
    """
    application_id, version = connection.pragma("application_id"), connection.pragma("user_version")
    assert isinstance(version, int)
    if version > FORMAT and application_id == APPLICATION_ID:
        raise Unsupported("the file was written by a newer version of Stratalog", value=version, known=FORMAT)
    if version == 0 and not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
        return 0
    if application_id != APPLICATION_ID:
        raise Invalid("the file is another program's database", path=connection.filename)
    return version


def _create(connection: apsw.Connection, schema: str) -> None:
    connection.pragma("page_size", PAGE_BYTES)
    execute_schema(connection, schema, APPLICATION_ID, FORMAT)


def grow_log(connection: apsw.Connection, log_bytes: int) -> None:
    """Grow SQLite's write-ahead log ahead of time: a commit that extends a file waits for the disk twice as long.

    A transaction larger than the page cache spills into the log, and a rollback does not shorten the log. Without room
    on the disk the log grows with the commits as usual.
    """
    pages = connection.pragma("cache_size")
    with suppress(apsw.Error):
        connection.pragma("cache_size", SPILLING_PAGES)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO items VALUES ('', '', zeroblob(?))", (log_bytes,))
    roll_back(connection)
    connection.pragma("cache_size", pages)
