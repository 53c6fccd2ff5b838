"""The parts of a table as frozen, pure data: key columns, partitions, files, and references of files on partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from stratalog.errors import Invalid
from stratalog.limits import INTEGER_MAX
from stratalog_table.row_order import Key, decode_key, encode_key, minimum_key

__all__ = [
    "ROOT",
    "Column",
    "File",
    "FileReference",
    "Held",
    "NewFile",
    "NewReference",
    "Partition",
    "Region",
    "Rows",
    "Schema",
    "contains",
    "overlaps",
]

ROOT = "root"
Rows = Annotated[int, msgspec.Meta(ge=0, le=INTEGER_MAX)]
Region = tuple[tuple[str, str | None], ...]
"""For each key column the lower bound and the exclusive upper bound, as `row_order` text. None means no upper bound."""


class Column(msgspec.Struct, frozen=True):
    """A column of the row key."""

    name: str
    type: str
    """The type of the keys: int, long, string, bytes, date, timestamp, float, double or decimal(PRECISION,SCALE)."""


class Schema(msgspec.Struct, frozen=True):
    """The columns of the row key, in the order by which rows are sorted."""

    keys: tuple[Column, ...]

    def full_region(self) -> Region:
        """Return the region that contains every row."""
        return tuple((minimum_key(column.type), None) for column in self.keys)

    def region(self, ranges: Sequence[tuple[Key | None, Key | None]]) -> Region:
        """Return the region with a range of keys per column: the lower bound and the exclusive upper bound.

        None leaves a side of a range open. Columns without a range are not bounded. Raises Invalid.
        """
        if len(ranges) > len(self.keys):
            raise Invalid("there are more ranges than key columns", value=len(ranges), limit=len(self.keys))
        given = [*ranges, *[(None, None)] * (len(self.keys) - len(ranges))]
        return tuple(_range(column, *pair) for column, pair in zip(self.keys, given, strict=True))

    def keys_of(self, bounds: tuple[str, str | None], dimension: int) -> tuple[Key | None, Key | None]:
        """Return the bounds of a region in one key column as keys. An open side is None."""
        kind = self.keys[dimension].type
        low, high = bounds
        return (
            None if low == minimum_key(kind) else decode_key(kind, low),
            None if high is None else decode_key(kind, high),
        )


class Partition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of the key space. A leaf has no children. ``dimension`` is the index of the key column of the split."""

    id: str
    region: Region
    parent: str | None = None
    children: tuple[str, ...] = ()
    dimension: int = -1

    @property
    def is_leaf(self) -> bool:
        """Whether the partition was never split."""
        return not self.children


class NewReference(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A reference to add: its partition and its number of rows."""

    partition: str
    rows: Rows
    approximate: bool = False
    complete: bool = True
    """Whether all rows of the file lie in the partition."""


class NewFile(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A file to add, with its references."""

    filename: str
    references: tuple[NewReference, ...] = ()


class FileReference(msgspec.Struct, frozen=True, gc=False):
    """The rows of a file that belong to one partition, and the job that is to merge them, if any."""

    filename: str
    partition: str
    rows: int
    approximate: bool = False
    complete: bool = True
    job: str | None = None


class File(msgspec.Struct, frozen=True, gc=False):
    """A tracked file and the partitions with a reference to the file, in order.

    Maintenance collects a file without references.
    """

    filename: str
    partitions: tuple[str, ...]


class Held(msgspec.Struct, frozen=True):
    """A partition with its references, in order of file."""

    partition: str
    region: Region
    references: tuple[FileReference, ...]


def overlaps(left: Region, right: Region) -> bool:
    """Return whether two regions share a key."""
    pairs = zip(left, right, strict=True)
    return all((b is None or c < b) and (d is None or a < d) for (a, b), (c, d) in pairs)


def contains(region: Region, keys: Sequence[str]) -> bool:
    """Return whether a row with these keys lies in a region."""
    return all(low <= key and (high is None or key < high) for (low, high), key in zip(region, keys, strict=True))


def _range(column: Column, low: Key | None, high: Key | None) -> tuple[str, str | None]:
    return (
        minimum_key(column.type) if low is None else encode_key(column.type, low),
        None if high is None else encode_key(column.type, high),
    )
