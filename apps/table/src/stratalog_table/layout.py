"""Where the rows of a table's state stand: the keys of its document, and what a row holds. See `formats/table.md`.

References lie beside the leaf that holds them, in the order of the leaves, so that a range of keys is a range of rows.
What a clear leaves behind is not deleted row by row: the numbers in the names of the collections move on.
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
"""The field that says what table this is: a `Meta`."""

INNER = "inner"
"""The field that says how many partitions which are no leaves hold references; absent for none."""

COLLECTED = "collected/"
"""Files whose data was deleted although no transaction had added them; none may be added late."""

COLUMN = "column/"
"""Value columns by their number, in their order: `[name, type]`. `Meta.has_columns` says whether they are known."""

EDGE_CHARACTERS = 64
UNBOUNDED = "~"
APPROXIMATE = 1
PART = 2


class Meta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a table is, and which numbers its collections have."""

    schema: Schema
    data: str = ""
    """Where its data files lie, if this program keeps them."""

    tree: int = 0
    files: int = 0
    purged_tree: int = 0
    purged_files: int = 0
    crossed: bool = False
    """Whether a partition was ever split on another column than the first."""

    has_columns: bool = False
    """Whether something has said which value columns there are."""

    retention_days: int = 0
    """For so many days data files stay after the last version that needs them. See `retention`."""

    @property
    def layout(self) -> Layout:
        """The keys of its rows."""
        return Layout(self.tree, self.files)


class TableTally(msgspec.Struct, frozen=True, gc=False):
    """What a partition holds: references, rows, and those of them that are counted exactly and wholly in it."""

    files: int = 0
    rows: int = 0
    sure: int = 0

    def changed(self, reference: FileReference, by: int) -> TableTally:
        """The tally with the reference added (1) or taken away (-1)."""
        sure = 0 if reference.approximate or not reference.complete else reference.rows
        return TableTally(self.files + by, self.rows + by * reference.rows, self.sure + by * sure)


class Layout(msgspec.Struct, frozen=True):
    """The keys of one numbering. A *position* is a partition's place in the order of regions: `position_of`."""

    tree: int
    files: int

    def partition(self, id: str = "") -> str:
        """A partition by its id."""
        return f"partition{self.tree}/{id}"

    def file(self, filename: str = "") -> str:
        """A tracked file: the one partition it is on since it was added, or on how many it is."""
        return f"file{self.files}/{filename}"

    def location(self, filename: str, partition: str = "") -> str:
        """One of several partitions that a file is on."""
        return f"of{self.files}/{filename}\t{partition}"

    def unreferenced(self, filename: str = "") -> str:
        """A file without references. The version that wrote the row is when it lost the last."""
        return f"unreferenced{self.files}/{filename}"

    def job(self, job: str, partition: str) -> str:
        """How many references of a partition wait for a job."""
        return f"job{self.files}/{job}\t{partition}"

    def jobs(self) -> str:
        """Before every job."""
        return f"job{self.files}/"

    def claim(self, job: str, partition: str) -> str:
        """Who does a job, and how often that worker has said so."""
        return f"claim{self.files}/{job}\t{partition}"

    def damaged(self, filename: str = "") -> str:
        """A tracked file that is set aside since it cannot be read, and why."""
        return f"damaged{self.files}/{filename}"

    def leaf(self, position: str = "") -> str:
        """What a leaf holds, and before all references on it."""
        return f"at{self.files}/{position}"

    def inner(self, position: str = "") -> str:
        """What a partition holds that is no leaf and still has references."""
        return f"inner{self.files}/{position}"

    def reference(self, position: str, filename: str = "") -> str:
        """A reference."""
        return f"at{self.files}/{position}/{filename}"


def position_of(partition: str, region: Region) -> str:
    """Where a partition stands: by the end of its region in the first column, as far as that is short."""
    edge = region[0][1]
    return f"{UNBOUNDED if edge is None else edge[:EDGE_CHARACTERS]}/{partition}"


def partition_row(partition: Partition) -> list[Any]:
    """What the row of a partition holds."""
    return [_flat(partition.region), partition.parent, *partition.children, *_split_on(partition)]


def partition_from(id: str, row: list[Any]) -> Partition:
    """The partition a row holds."""
    region, parent, *split = row
    if not split:
        return Partition(id, region_from(region), parent)
    return Partition(id, region_from(region), parent, (split[0], split[1]), split[2])


def reference_row(reference: FileReference) -> int | list[Any]:
    """What the row of a reference holds: mostly just how many rows."""
    flags = APPROXIMATE * reference.approximate + PART * (not reference.complete)
    if reference.job is not None:
        return [reference.rows, flags, reference.job]
    return [reference.rows, flags] if flags else reference.rows


def reference_from(partition: str, filename: str, row: int | list[Any]) -> FileReference:
    """The reference a row holds."""
    if isinstance(row, int):
        return FileReference(filename, partition, row)
    rows, flags, *job = row
    return FileReference(
        filename, partition, rows, bool(flags & APPROXIMATE), not flags & PART, job[0] if job else None
    )


def tally_row(tally: TableTally, region: Region) -> list[Any]:
    """What the row of a leaf, or of another partition with references, holds."""
    return [tally.files, tally.rows, tally.sure, _flat(region)]


def tally_from(row: list[Any]) -> TableTally:
    """The tally a row holds."""
    return TableTally(row[0], row[1], row[2])


def region_from(flat: list[Any]) -> Region:
    """The region behind its flat list."""
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def _flat(region: Region) -> list[str | None]:
    return [edge for bounds in region for edge in bounds]


def _split_on(partition: Partition) -> list[int]:
    return [partition.dimension] if partition.children else []
