"""Keeping a table well: leaves that grew large are split, references moved down, files merged, garbage collected.

Any number of processes may do any of it at once, and end anywhere. Each step is a transaction with its checks, so what
somebody else did first is refused and left; what was begun by a process that is gone is found and gone on with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from stratalog import NotFound
from stratalog_table.collection import collect
from stratalog_table.data_files import DataFiles, counts
from stratalog_table.messages import TransactionRefused
from stratalog_table.model import FileReference, Held, NewReference, Region
from stratalog_table.queries import Holding
from stratalog_table.references import Assignment, Output, ReplaceFileReferences, Split
from stratalog_table.row_order import EDGE_BYTES_MAX, encode_key
from stratalog_table.rows import new_filename
from stratalog_table.table import Table

__all__ = [
    "TableMaintenanceReport",
    "collect",
    "compact",
    "maintain_table",
    "plan",
    "push_down",
    "run_job",
    "split_large",
]

SAMPLE_KEYS = 1000


class TableMaintenanceReport(msgspec.Struct, frozen=True):
    """What one pass did."""

    splits: int = 0
    moved: int = 0
    jobs: int = 0
    collected: int = 0


def maintain_table(
    table: Table, data_files: DataFiles, *, rows_max: int, files_min: int, age_ms: int, lease_ms: int = 0
) -> TableMaintenanceReport:
    """One pass of everything."""
    splits = split_large(table, data_files, rows_max)
    moved = push_down(table, data_files)
    jobs = compact(table, data_files, files_min=files_min, lease_ms=lease_ms)
    collected = collect(table, data_files, age_ms)
    if table.cleared_ms() < table.store.environment.clock.wall_ms() - age_ms:
        # Not before: the rows that a clear left behind name the files that are to be collected.
        table.purge()
    return TableMaintenanceReport(splits, moved, jobs, collected)


def split_large(table: Table, data_files: DataFiles, rows_max: int) -> int:
    """Split each leaf with more rows at about its median, on the first column where there is one; how many."""
    large = [holding for holding in table.at().holdings() if holding.leaf and holding.tally.rows > rows_max]
    return sum(_split_leaf(table, data_files, holding) for holding in large)


def push_down(table: Table, data_files: DataFiles) -> int:
    """Move references from partitions that were split to the leaves below, rows counted; how many references."""
    above = [holding for holding in table.at().holdings() if not holding.leaf]
    return sum(
        _push_reference(table, data_files, reference) for holding in above for reference in _free(table, holding)
    )


def plan(table: Table, files_min: int, files_max: int = 100) -> int:
    """Give the references of each leaf that has enough of them without a job to a job; how many jobs."""
    jobs = 0
    contended = [holding for holding in table.at().holdings() if holding.leaf and holding.tally.files >= files_min]
    for holding in contended:
        names = [reference.filename for reference in _free(table, holding)]
        if len(names) >= files_min:
            request = Assignment(table.new_id(), holding.partition, tuple(names[:files_max]))
            jobs += _is_committed(partial(table.assign_job_ids, [request]))
    return jobs


def compact(table: Table, data_files: DataFiles, *, files_min: int, lease_ms: int = 0) -> int:
    """Plan jobs, then do all that nobody seems to be doing; how many were done.

    A job is left to others until nothing was heard of it for ``lease_ms``. Two who do the same one waste time only.
    """
    plan(table, files_min)
    view, before = table.at(), table.store.environment.clock.wall_ms() - lease_ms
    waiting = [(job, partition) for job, partition, _ in view.jobs()]
    # Everybody begins elsewhere, so that few do the same.
    waiting.sort(key=lambda _: table.new_id())
    return sum(run_job(table, data_files, *pair) for pair in waiting if _since_ms(table, *pair) <= before)


def run_job(table: Table, data_files: DataFiles, job: str, partition: str) -> bool:
    """Merge the files of a job and commit it. False where somebody else had done it."""
    held = table.at().on_partition(partition)
    inputs = [reference.filename for reference in held.references if reference.job == job]
    if not inputs:
        return False
    try:
        rows = _merged(data_files, held.region, inputs)
    except FileNotFoundError:
        if table.at().job_since(job, partition) is None:
            return False
        raise
    filename = new_filename(table)
    data_files.write(filename, rows)
    done = ReplaceFileReferences(job, partition, tuple(inputs), Output(filename, rows.num_rows))
    if _is_committed(lambda: table.replace_file_references([done])):
        return True
    data_files.delete(filename)
    return False


def _split_leaf(table: Table, data_files: DataFiles, holding: Holding) -> bool:
    held = table.at().on_partition(holding.partition)
    for dimension in range(len(data_files.schema.keys)):
        try:
            point = _median(data_files, held, dimension)
        except FileNotFoundError:
            return False
        if point is not None:
            return _is_committed(partial(table.split_at, held.partition, point, dimension))
    return False


def _median(data_files: DataFiles, held: Held, dimension: int) -> int | str | bytes | None:
    """The median of evenly spaced keys of each file, weighted by its rows; None where no key lies below it."""
    column = data_files.schema.keys[dimension]
    sample: list[tuple[str, int]] = []
    for reference in held.references:
        keys = data_files.read(reference.filename, held.region, [column.name]).column(0)
        step = max(1, len(keys) // SAMPLE_KEYS)
        sample += [
            (encode_key(column.type, keys[position].as_py()), step) for position in range(step // 2, len(keys), step)
        ]
    sample.sort()
    left = sum(weight for _, weight in sample) / 2
    low = held.region[dimension][0]
    for text, weight in sample:
        left -= weight
        if left <= 0 and low < text and len(text) <= 2 * EDGE_BYTES_MAX and sample[0][0] < text:
            return data_files.scalar(dimension, text).as_py()  # type: ignore[no-any-return]
    return None


def _push_reference(table: Table, data_files: DataFiles, reference: FileReference) -> bool:
    view = table.at()
    source = view.partition(reference.partition)
    leaves = [leaf for leaf in view.in_range(source.region) if _lies_in(leaf, source.region, source.id)]
    try:
        rows = data_files.keys(reference.filename, source.region)
    except FileNotFoundError:
        return False
    counted = list(zip(leaves, counts(data_files, rows, [leaf.region for leaf in leaves]), strict=True))
    chosen = [(leaf.partition, count) for leaf, count in counted if count] or [(leaves[0].partition, 0)]
    is_complete = reference.complete and len(chosen) == 1
    pieces = tuple(NewReference(id, count, complete=is_complete) for id, count in chosen)
    return _is_committed(lambda: table.split_file_references([Split(reference.filename, source.id, pieces)]))


def _lies_in(held: Held, region: Region, id: str) -> bool:
    """Whether a partition lies in a region and is not the one that has it, nor above that."""
    inside = all(
        low <= a and (high is None or (b is not None and b <= high))
        for (low, high), (a, b) in zip(region, held.region, strict=True)
    )
    return inside and held.partition != id


def _merged(data_files: DataFiles, region: Region, inputs: Sequence[str]) -> pa.Table:
    parts = [data_files.read(filename, region) for filename in inputs]
    merged = pa.concat_tables(parts, promote_options="permissive")
    return merged.sort_by([(column.name, "ascending") for column in data_files.schema.keys])


def _free(table: Table, holding: Holding) -> list[FileReference]:
    held = table.at().on_partition(holding.partition)
    return [reference for reference in held.references if reference.job is None]


def _since_ms(table: Table, job: str, partition: str) -> int:
    version = table.at().job_since(job, partition)
    try:
        return table.changed_ms(version) if version else 0
    except NotFound:
        return 0


def _is_committed(act: Callable[[], object]) -> bool:
    """Whether a transaction was committed. Refused: somebody else was first, and what it is about is done."""
    try:
        act()
    except TransactionRefused:
        return False
    return True
