"""Helpers of the table tests: small tables on any backend, transactions, and assertions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

import stratalog
from stratalog import Store
from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.cache import ByteCache
from stratalog.limits import CHUNK_CACHE_BYTES_MAX
from stratalog.log import Environment, LogSettings
from stratalog.log.tasks import InlineTasks
from stratalog.testing.clock import ManualClock
from stratalog_table import (
    Assignment,
    Column,
    NewFile,
    NewReference,
    Output,
    ReplaceFileReferences,
    Schema,
    Split,
    Table,
    TransactionRefused,
    collection,
    create_table,
    maintenance,
)
from stratalog_table.model import Partition

LONG = Schema((Column("id", "long"),))
TWO = Schema((Column("id", "long"), Column("name", "string")))


def memory_store(clock: ManualClock | None = None, index: Any = None, **settings: Any) -> Store:
    """Return a store in memory that uses a test's clock."""
    clock = clock or ManualClock()
    environment = Environment(
        index or MemoryIndex(), MemoryBlobs(clock), clock, LogSettings(**settings), background=InlineTasks()
    )
    return Store(environment, MemoryQueue(clock))


def system_store() -> Store:
    """Return a store in memory that uses the machine's clock. The times of files on disk come from the same clock."""
    return stratalog.open("memory:")


def table_of(store: Store, name: str = "events", schema: Schema = LONG, points: Sequence[Any] = ()) -> Table:
    """Create a table."""
    return create_table(store, "acme", name, schema, points)


def reopened(table: Table) -> Table:
    """Open the table as another process would, with empty caches."""
    from stratalog_table import open_table

    table.store.environment.chunk_cache = ByteCache(CHUNK_CACHE_BYTES_MAX)
    return open_table(table.store, table.document.organisation, table.document.name)


def collect_now(table: Table, data_files: Any) -> int:
    """Collect all garbage of a table."""
    with everything_is_old():
        return collection.collect(table, data_files, 0)


@contextmanager
def everything_is_old() -> Iterator[None]:
    """Let collections with an age of 0 delete all garbage.

    Without this context, a collection with that age spares files that are as new as the clock's current tick. Also, the
    clock of the storage may differ a little from the clock of this process.
    """

    def retained_ms(table: Table, age_ms: int) -> int:
        return collection_ms(table, age_ms) or -2000

    collection_ms = collection.retained_ms
    with patch.object(collection, "retained_ms", retained_ms), patch.object(maintenance, "retained_ms", retained_ms):
        yield


def leaves(table: Table) -> list[str]:
    """Return the ids of the leaves, in order of region."""
    return [holding.partition for holding in table.at().holdings() if holding.leaf]


def new_file(filename: str, *references: tuple[str, int], partition: str = "root", rows: int = 100) -> NewFile:
    """Return a file on one partition, or on the given partitions with the given numbers of rows."""
    chosen = references or ((partition, rows),)
    is_complete = len(chosen) == 1
    return NewFile(filename, tuple(NewReference(id, count, complete=is_complete) for id, count in chosen))


def assignment(job: str, *filenames: str, partition: str = "root") -> Assignment:
    """Return an assignment of references to a job."""
    return Assignment(job, partition, filenames)


def replacement(
    job: str, *inputs: str, output: str = "", partition: str = "root", rows: int = 100
) -> ReplaceFileReferences:
    """Return the result of a job."""
    return ReplaceFileReferences(job, partition, inputs, Output(output or f"{job}.parquet", rows))


def halves(filename: str, parent: str, children: Sequence[str], rows: int) -> Split:
    """Return a split of a reference into two halves that together have ``rows`` rows."""
    left = rows // 2
    pieces = tuple(
        NewReference(child, count, approximate=True, complete=False)
        for child, count in zip(children, (left, rows - left), strict=True)
    )
    return Split(filename, parent, pieces)


def children_of(table: Table, partition: str = "root") -> tuple[str, ...]:
    """Return the children of a partition, the left child first."""
    return table.at().partition(partition).children


def leaf(id: str, low: str, high: str | None, parent: str | None = None) -> Partition:
    """Return a leaf in a table with one key column."""
    return Partition(id, ((low, high),), parent)


@contextmanager
def refused(kind: str, *reasons: str) -> Iterator[None]:
    """Expect that the block raises a refusal of this kind, with exactly these reasons."""
    with pytest.raises(TransactionRefused) as caught:
        yield
    assert [failure.reason for failure in caught.value.failures] == [*reasons]
    assert caught.value.kind == kind


def rows_held(table: Table) -> int:
    """Return the number of rows of all references, and check that the tallies of the partitions have the same sum."""
    view = table.at()
    rows = sum(reference.rows for reference in view.file_references())
    assert rows == sum(holding.tally.rows for holding in view.holdings())
    return rows
