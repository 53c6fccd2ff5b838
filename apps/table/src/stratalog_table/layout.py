"""The layout of a table's state: the keys of its document and the content of its rows. See `formats/table.md`.

The rows of leaves are in the order of their upper bounds in the first key column, cut after 64 characters. The rows of
the references on a leaf follow the leaf's row, and precede the rows of leaves with a higher cut bound. So a query of a
range of keys reads a range of rows, unless the tree is split on a column other than the first.

A clear deletes no rows of files, references and jobs. It increments the numbers in the names of the collections, and
`purge` deletes the rows under the old numbers.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stratalog_table.model import FileReference, Partition, Region, Schema

__all__ = [
    "COLLECTED",
    "COLUMN",
    "INNER",
    "TABLE",
    "TIMES",
    "Layout",
    "Meta",
    "TableTally",
    "partition_from",
    "partition_row",
    "position_of",
    "reference_from",
    "reference_row",
    "region_from",
    "tally_from",
]

TABLE = "table"
"""The field with the table's metadata: a `Meta`."""

INNER = "inner"
"""The field with the number of inner partitions (not leaves) that have references.

The field is absent if there are no such partitions.
"""

COLLECTED = "collected/"
"""Prefix of the keys of files that were collected before a transaction added them. No transaction can add them."""

TIMES = "times"
"""The field with recorded times of versions: see `version_times`."""

COLUMN = "column/"
"""Prefix of the keys of value columns, by number. A row is `[name, type]`. See `Meta.has_columns`."""

EDGE_CHARACTERS = 64
UNBOUNDED = "~"
APPROXIMATE = 1
PART = 2


class Meta(msgspec.Struct, frozen=True, omit_defaults=True):
    """The metadata of a table, with the numbers of its collections."""

    schema: Schema
    data: str = ""
    """The location of the table's data files: see `locations`. Empty if another program manages the data files."""

    tree: int = 0
    files: int = 0
    purged_tree: int = 0
    purged_files: int = 0
    crossed: bool = False
    """Whether any partition of the tree was split on a column other than the first."""

    has_columns: bool = False
    """Whether the table declares its value columns."""

    retention_days: int = 0
    """The minimum number of days that data files stay after the last version that needs them.

    A collection also keeps files for the age that its caller gives. With 0 only this age counts.
    """

    @property
    def layout(self) -> Layout:
        """The keys of the table's rows."""
        return Layout(self.tree, self.files)


class TableTally(msgspec.Struct, frozen=True, gc=False):
    """The counts of a partition: references, rows, and ``sure``, the rows of references that are exact and complete."""

    files: int = 0
    rows: int = 0
    sure: int = 0

    def changed(self, reference: FileReference, by: int) -> TableTally:
        """Return the tally with the reference added (``by`` is 1) or removed (-1)."""
        sure = 0 if reference.approximate or not reference.complete else reference.rows
        return TableTally(self.files + by, self.rows + by * reference.rows, self.sure + by * sure)


class Layout(msgspec.Struct, frozen=True):
    """The keys for one pair of collection numbers. A *position* orders partitions by region: see `position_of`."""

    tree: int
    files: int

    def partition(self, id: str = "") -> str:
        """Return the key of a partition, by its id."""
        return f"partition{self.tree}/{id}"

    def file(self, filename: str = "") -> str:
        """Return the key of a tracked file.

        The row is the id of the file's partition if the file never had several, else the number of its partitions.
        """
        return f"file{self.files}/{filename}"

    def location(self, filename: str, partition: str = "") -> str:
        """Return the key that records one of the partitions of a file with several partitions."""
        return f"of{self.files}/{filename}\t{partition}"

    def unreferenced(self, filename: str = "") -> str:
        """Return the key of a file without references.

        The version of its row is the version in which the file lost its last reference.
        """
        return f"unreferenced{self.files}/{filename}"

    def job(self, job: str, partition: str) -> str:
        """Return the key whose row is the number of references on a partition that are assigned to a job."""
        return f"job{self.files}/{job}\t{partition}"

    def jobs(self) -> str:
        """Return the prefix of the keys of all jobs."""
        return f"job{self.files}/"

    def claim(self, job: str, partition: str) -> str:
        """Return the key of the claim of a job on a partition. Its row has the worker and the number of heartbeats."""
        return f"claim{self.files}/{job}\t{partition}"

    def damaged(self, filename: str = "") -> str:
        """Return the key of a tracked file that is set aside. Its row is the reason."""
        return f"damaged{self.files}/{filename}"

    def leaf(self, position: str = "") -> str:
        """Return the key of a leaf's tally. This key sorts before the keys of the references on the leaf."""
        return f"at{self.files}/{position}"

    def inner(self, position: str = "") -> str:
        """Return the key of the tally of an inner partition that still has references."""
        return f"inner{self.files}/{position}"

    def reference(self, position: str, filename: str = "") -> str:
        """Return the key of a reference, or the prefix of all references of a partition."""
        return f"at{self.files}/{position}/{filename}"


def position_of(partition: str, region: Region) -> str:
    """Return the position of a partition: the start of its upper bound in the first key column, then its id."""
    edge = region[0][1]
    return f"{UNBOUNDED if edge is None else edge[:EDGE_CHARACTERS]}/{partition}"


def partition_row(partition: Partition) -> list[Any]:
    """Return the row of a partition."""
    return [_flat(partition.region), partition.parent, *partition.children, *_split_on(partition)]


def partition_from(id: str, row: list[Any]) -> Partition:
    """Return the partition of a row."""
    region, parent, *split = row
    if not split:
        return Partition(id, region_from(region), parent)
    return Partition(id, region_from(region), parent, (split[0], split[1]), split[2])


def reference_row(reference: FileReference) -> int | list[Any]:
    """Return the row of a reference: only its number of rows, unless it has flags or a job."""
    flags = APPROXIMATE * reference.approximate + PART * (not reference.complete)
    if reference.job is not None:
        return [reference.rows, flags, reference.job]
    return [reference.rows, flags] if flags else reference.rows


def reference_from(partition: str, filename: str, row: int | list[Any]) -> FileReference:
    """Return the reference of a row."""
    if isinstance(row, int):
        return FileReference(filename, partition, row)
    rows, flags, *job = row
    return FileReference(
        filename, partition, rows, bool(flags & APPROXIMATE), not flags & PART, job[0] if job else None
    )


def tally_row(tally: TableTally, region: Region) -> list[Any]:
    """Return the row of the tally of a leaf or of an inner partition with references."""
    return [tally.files, tally.rows, tally.sure, _flat(region)]


def tally_from(row: list[Any]) -> TableTally:
    """Return the tally of a row."""
    return TableTally(row[0], row[1], row[2])


def region_from(flat: list[Any]) -> Region:
    """Return the region of a flat list of bounds."""
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def _flat(region: Region) -> list[str | None]:
    return [edge for bounds in region for edge in bounds]


def _split_on(partition: Partition) -> list[int]:
    return [partition.dimension] if partition.children else []
