"""The merge of sorted data files in bounded memory: a few rows of each input, and the rows of one part of output."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from stratalog_table.arrow_types import comparable
from stratalog_table.model import Schema

__all__ = ["OutOfOrder", "merged"]

OUTPUT_ROWS = 64 * 1024


class OutOfOrder(Exception):
    """The rows of one input are not in the order of the key. ``position`` is its index among the inputs."""

    def __init__(self, position: int) -> None:
        super().__init__(f"the rows of input {position} are not in the order of the key")
        self.position = position


def merged(schema: Schema, inputs: Iterable[Iterator[pa.Table]]) -> Iterator[pa.Table]:
    """Yield the rows of all inputs in the order of the key. Each part except the last has at least `OUTPUT_ROWS` rows.

    Each input must be in the order of the key. Otherwise the generator raises OutOfOrder before it yields a row out of
    order.
    """
    waiting: list[pa.Table] = []
    count = 0
    for part in _in_order(schema, inputs):
        waiting.append(part)
        count += part.num_rows
        if count >= OUTPUT_ROWS:
            yield pa.concat_tables(waiting)
            waiting, count = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


def _in_order(schema: Schema, inputs: Iterable[Iterator[pa.Table]]) -> Iterator[pa.Table]:
    """Yield the merged rows step by step. Each step takes the rows up to the smallest of the heads' last keys.

    Every later row of every input has a key at or above this bound, so the steps are in order.
    """
    heads = [head for position, rows in enumerate(inputs) if (head := _Head(schema, rows, position)).advance()]
    before: tuple[Any, ...] | None = None
    while heads:
        bound = min(head.last for head in heads)
        taken = [head.upto(bound) for head in heads]
        part = pa.concat_tables(taken).sort_by([(column.name, "ascending") for column in schema.keys])
        assert part.num_rows, "each step uses up the head whose last key is the bound"
        if not _is_between(schema, part, before, bound):
            wrong = (
                head for head, rows in zip(heads, taken, strict=True) if not _are_between(schema, rows, before, bound)
            )
            raise OutOfOrder(next(wrong).position)
        yield part
        before = bound
        heads = [head for head in heads if not head.is_used_up or head.advance()]


def _is_between(schema: Schema, part: pa.Table, before: tuple[Any, ...] | None, bound: tuple[Any, ...]) -> bool:
    """Return whether the first key of ``part`` is not below ``before``, and its last key is not above ``bound``."""
    columns = [comparable(column.type, part.column(column.name)) for column in schema.keys]
    first, last = (tuple(column[position].as_py() for column in columns) for position in (0, part.num_rows - 1))
    return (before is None or before <= first) and last <= bound


def _are_between(schema: Schema, rows: pa.Table, before: tuple[Any, ...] | None, bound: tuple[Any, ...]) -> bool:
    """Return whether all keys of ``rows`` are between ``before`` and ``bound``."""
    return all(_is_between(schema, rows.slice(row, 1), before, bound) for row in range(rows.num_rows))


class _Head:
    """The rows of one input that are in memory and not merged yet."""

    def __init__(self, schema: Schema, rows: Iterator[pa.Table], position: int) -> None:
        self._schema = schema
        self._rows = rows
        self.position = position
        self._part: Any = None
        self._keys: list[Any] = []
        self._start = 0

    @property
    def is_used_up(self) -> bool:
        """Whether all rows in memory were merged."""
        return bool(self._start == self._part.num_rows)

    @property
    def last(self) -> tuple[Any, ...]:
        """The greatest key in memory."""
        return self._key(self._part.num_rows - 1)

    def advance(self) -> bool:
        """Load the next rows of the input and return True, or return False at its end."""
        part = next(self._rows, None)
        if part is None:
            return False
        self._part, self._start = part.combine_chunks(), 0
        self._keys = [comparable(column.type, self._part.column(column.name)) for column in self._schema.keys]
        return True

    def upto(self, bound: tuple[Any, ...]) -> pa.Table:
        """Return the unmerged rows up to and including a key, and count them as merged. Raises OutOfOrder."""
        positions = range(self._part.num_rows)
        stop = bisect_right(positions, bound, lo=self._start, key=self._key)
        # If the part is sorted and its last key is at most the bound, no row remains. Any row that remains would be
        # merged too late or never.
        if stop < len(positions) and self.last <= bound:
            raise OutOfOrder(self.position)
        rows = self._part.slice(self._start, stop - self._start)
        self._start = stop
        return rows

    def _key(self, position: int) -> tuple[Any, ...]:
        return tuple(column[position].as_py() for column in self._keys)
