"""Rows of items, for an index in SQL: encodes attributes, makes the rows of commits that only insert, reads pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from stratalog.errors import Corrupt, Invalid
from stratalog.ports.damaged_keys import DamagedKey, KeyPosition
from stratalog.ports.index import Absent, Check, Equals, Item, Put, Write, check_blobs, check_commit, small_bytes

__all__ = [
    "CHECKED_LENGTH",
    "CHECKED_PAIR_BYTES",
    "PLAIN_LENGTH",
    "Row",
    "bounds_of",
    "encoded_commit",
    "item_of",
    "key_of",
    "page_statements",
    "pages",
    "text_of",
]

QUERY_ROWS_FIRST = 128
QUERY_ROWS_MAX = 1024
QUERY_BYTES_MAX = 4 * 1024 * 1024

PLAIN_LENGTH = 3
CHECKED_LENGTH = 6
"""The length of a row without a check, and the length of a row with a check."""

CHECKED_PAIR_BYTES = 36
"""The size of an encoded name and value that a check compares: a name of one letter, and a hash of 32 bytes."""

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError)
"""The errors of a body that does not decode: a TypeError if its column has text or a number instead of bytes."""

Row = tuple[Any, ...]
"""An item's partition, sort and body. With a check, also the partition, sort and first attribute of the checked item.

The first attribute is an encoded name and value. In a body this name and value follow the first byte, if the
MessagePack map has up to 15 pairs.
"""

ReadPage = Callable[[str | None, str | None, int], Sequence[tuple[str, bytes]]]
"""Reads one page. The arguments are ``after``, ``before`` and the maximum number of rows.

The result has the sort and the body of each row, in the order of the query.
"""


def pages(
    read: ReadPage, partition: str, after: str | None, before: str | None, reverse: bool, limit: int | None
) -> Iterator[list[Item]]:
    """Yield the items of a query by pages. Each page has up to twice as many rows as the page before it.

    `_next_rows_max` limits the rows of a page. Raises Corrupt, and DamagedKey for a sort key that is no text.
    """
    left = limit
    rows_max = QUERY_ROWS_FIRST
    while left is None or left > 0:
        wanted = rows_max if left is None else min(left, rows_max)
        rows = read(after, before, wanted)
        yield from _decoded(partition, rows, before if reverse else after)
        if len(rows) < wanted:
            return
        after, before = (after, rows[-1][0]) if reverse else (rows[-1][0], before)
        left = None if left is None else left - len(rows)
        rows_max = _next_rows_max(rows)


def page_statements(mark: str) -> dict[tuple[bool, bool, bool], str]:
    """Return the SQL of a page by (has ``after``, has ``before``, ``reverse``), with ``mark`` for each parameter."""
    return {
        (after, before, reverse): (
            f"SELECT sort, body FROM items WHERE partition = {mark}"
            + (f" AND sort > {mark}" if after else "")
            + (f" AND sort < {mark}" if before else "")
            + f" ORDER BY sort {'DESC' if reverse else 'ASC'} LIMIT {mark}"
        )
        for after in (False, True)
        for before in (False, True)
        for reverse in (False, True)
    }


def encoded_commit(
    writes: Sequence[Write], blobs: Mapping[str, bytes], blob_bytes_max: int
) -> tuple[Sequence[bytes], Sequence[Row]]:
    """Check a commit. Return the encoded item of each write, and the rows to insert.

    The encoded item of a delete or a check is empty. Only a commit of inserts, with at most one check for a
    hash, has rows to insert; see `_rows_if_absent`.

    Raises Invalid, LimitExceeded.
    """
    if row := _append_row(writes):
        if blobs:
            check_blobs(blobs, blob_bytes_max)
        return (row[2], b""), (row,)
    bodies = [_encoded(write.item) if type(write) is Put else b"" for write in writes]
    check_commit(writes, blobs, blob_bytes_max, bodies)
    return bodies, _rows_if_absent(writes, bodies)


def _rows_if_absent(writes: Sequence[Write], bodies: Sequence[bytes]) -> list[Row]:
    """Return the rows of a commit that consists of puts with the condition `Absent`; [] for any other commit.

    A backend does such a commit by one INSERT, and the primary key checks `Absent`. After the puts the commit may have
    one check for a hash, as in an append. The first row then has the check. The INSERT compares only the first
    attribute of the checked item. If the hash is another attribute, the INSERT fails. The backend then does the commit
    by its general statements.
    """
    rows: list[Row] = []
    check = writes[-1] if writes and type(writes[-1]) is Check else None
    for write, body in zip(writes[:-1] if check else writes, bodies, strict=False):
        if type(write) is not Put or type(write.condition) is not Absent:
            return []
        rows.append((write.item.partition, write.item.sort, body))
    if check and rows:
        pair = _hash_pair(check)
        if not pair:
            return []
        rows[0] += (check.partition, check.sort, pair)
    return rows


def _append_row(writes: Sequence[Write]) -> Row | None:
    """Return the row of an append of one entry; None for any other commit, and for an item that needs a full check.

    An item needs a full check if it may exceed a limit or be invalid; see `small_bytes`.

    Most commits append one entry. Without the general checks, such a commit takes 27 µs instead of 30 µs.
    """
    if len(writes) != 2:
        return None
    put, check = writes
    if type(put) is not Put or type(check) is not Check or type(put.condition) is not Absent:
        return None
    item, pair = put.item, _hash_pair(check)
    partition, sort = item.partition, item.sort
    if not pair or (sort == check.sort and partition == check.partition):
        return None
    body = _encoded(item)
    return (partition, sort, body, check.partition, check.sort, pair) if small_bytes(item, body) else None


def _hash_pair(check: Check) -> bytes:
    """Return the encoded name and value that a check for a hash expects; empty for any other check."""
    condition = check.condition
    if type(condition) is not Equals or type(condition.value) is not bytes:
        return b""
    pair = _encode({condition.name: condition.value})[1:]
    return pair if len(pair) == CHECKED_PAIR_BYTES else b""


def _decoded(partition: str, rows: Sequence[tuple[Any, bytes]], bound: str | None) -> Iterator[list[Item]]:
    """Yield the items of a page that begins after ``bound``. At a damaged item, yield the items before it, then raise.

    A sort key may have another type than text, because SQLite stores a value of any type in any column. SQLite orders
    values of other types before or after all text. So if the first and the last sort key are text, all are, except
    texts that are not UTF-8. In place of such a text the caller passes its bytes, with a body that does not decode.
    """
    if not rows or type(rows[0][0]) is type(rows[-1][0]) is str:
        try:
            yield [Item(partition, sort, _decode_attributes(body)) for sort, body in rows]
            return
        except UNDECODABLE:
            pass
    for sort, body in rows:
        if type(sort) is not str:
            raise DamagedKey(partition, sort, KeyPosition.after_damage(bound))
        yield [item_of(partition, sort, body)]
        bound = sort


def item_of(partition: str, sort: str, body: bytes) -> Item:
    """Return the item of a row. Raises Corrupt."""
    try:
        return Item(partition, sort, _decode_attributes(body))
    except UNDECODABLE as exc:
        raise Corrupt("an item cannot be decoded", partition=partition, sort=sort, reason=str(exc)) from exc


def bounds_of(after: str | None, before: str | None, reverse: bool) -> tuple[bool, bool, list[str], int]:
    """Return whether a page has a lower and an upper bound, the bounds that it has, and the number of rows to skip."""
    start, skipped = before if reverse else after, 0
    if isinstance(start, KeyPosition):
        skipped, start = start.skipped, start.bound
    after, before = (after, start) if reverse else (start, before)
    return after is not None, before is not None, [bound for bound in (after, before) if bound is not None], skipped


def text_of(sort: bytes) -> str | bytes:
    """Return a stored sort key as a text; its bytes if they are not UTF-8."""
    try:
        return sort.decode()
    except UnicodeDecodeError:
        return sort


def key_of(write: Write) -> tuple[str, str]:
    """Return the key that the write names."""
    return (write.item.partition, write.item.sort) if isinstance(write, Put) else (write.partition, write.sort)


def _encoded(item: Item) -> bytes:
    """Return the item's attributes as one MessagePack map. Raises Invalid."""
    attributes = item.attributes
    try:
        return _encode(attributes if type(attributes) is dict else dict(attributes))
    except (TypeError, OverflowError) as exc:
        raise Invalid("an attribute must be text, bytes or an integer of 64 bits", reason=str(exc)) from exc


_decode_attributes = msgspec.msgpack.Decoder(dict[str, Any]).decode
_encode = msgspec.msgpack.Encoder().encode
"""Keeps attributes in the caller's order: sorting takes time, and `_rows_if_absent` needs the hash to stay first."""


def _next_rows_max(rows: Sequence[tuple[str, bytes]]) -> int:
    """Return the number of rows for the next page: twice as many, within `QUERY_ROWS_MAX` and `QUERY_BYTES_MAX`."""
    row_bytes = sum(len(body) for _, body in rows) // len(rows) + 1
    return max(1, min(2 * len(rows), QUERY_ROWS_MAX, QUERY_BYTES_MAX // row_bytes))
