"""Keeping a table well: leaves that grew large are split, references moved down, files merged, garbage collected.

Any number of processes may do any of it at once, and end anywhere. Each step is a transaction with its checks, so what
somebody else did first is refused and left; what was begun by a process that is gone is found and gone on with. What
fails for one file, job or leaf is listed, and everything else goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from stratalog_table.arrow_types import comparable
from stratalog_table.collection import collect, retained_ms
from stratalog_table.data_files import DataFileDamaged, DataFiles, counts
from stratalog_table.job_worker import JobWorker
from stratalog_table.maintenance_faults import MaintenanceFault, MaintenanceFaults, isolated
from stratalog_table.merge_plan import plan
from stratalog_table.messages import TransactionRefused
from stratalog_table.model import FileReference, Held, NewReference, Region
from stratalog_table.queries import Holding
from stratalog_table.references import Split
from stratalog_table.row_order import EDGE_BYTES_MAX, Key, decode_key, encode_key
from stratalog_table.table import Table

__all__ = [
    "TableMaintenanceReport",
    "collect",
    "compact",
    "maintain_table",
    "push_down",
    "retry_damaged",
    "split_large",
]

SAMPLE_KEYS = 1000


class TableMaintenanceReport(msgspec.Struct, frozen=True):
    """What one pass did, and what it could not do."""

    splits: int = 0
    moved: int = 0
    jobs: int = 0
    collected: int = 0
    faults: tuple[MaintenanceFault, ...] = ()


def maintain_table(
    table: Table, data_files: DataFiles, *, rows_max: int, files_min: int, age_ms: int, lease_ms: int = 0
) -> TableMaintenanceReport:
    """One pass of everything."""
    faults = MaintenanceFaults(table)
    splits = split_large(table, data_files, rows_max, faults)
    moved = push_down(table, data_files, faults)
    jobs = compact(table, data_files, faults, files_min=files_min, lease_ms=lease_ms)
    collected = collect(table, data_files, age_ms, faults)
    if table.cleared_ms() < table.store.environment.clock.wall_ms() - retained_ms(table, age_ms):
        # Not before: the rows that a clear left behind name the files that are to be collected.
        table.purge()
    return TableMaintenanceReport(splits, moved, jobs, collected, tuple(faults.faults))


def split_large(table: Table, data_files: DataFiles, rows_max: int, faults: MaintenanceFaults | None = None) -> int:
    """Split each leaf with more rows at about its median, on the first column where there is one; how many."""
    large = [holding for holding in table.at().holdings() if holding.leaf and holding.tally.rows > rows_max]
    splits = 0
    for holding in large:
        with isolated(faults, "split", holding.partition):
            splits += _split_leaf(table, data_files, holding, faults)
    return splits


def push_down(table: Table, data_files: DataFiles, faults: MaintenanceFaults | None = None) -> int:
    """Move references from partitions that were split to the leaves below, rows counted; how many references."""
    damaged = _damaged(table)
    moved = 0
    for holding in [holding for holding in table.at().holdings() if not holding.leaf]:
        for reference in table.at().on_partition(holding.partition).references:
            if reference.job is None and reference.filename not in damaged:
                with isolated(faults, "move", reference.filename):
                    moved += _push_reference(table, data_files, reference)
    return moved


def compact(
    table: Table,
    data_files: DataFiles,
    faults: MaintenanceFaults | None = None,
    *,
    files_min: int,
    lease_ms: int = 0,
) -> int:
    """Plan jobs, then do all that nobody does; how many were done.

    A job that somebody does is left to them until nothing was heard of it for ``lease_ms``.
    """
    plan(table, files_min)
    waiting = [(job, partition) for job, partition, _ in table.at().jobs()]
    # Everybody begins elsewhere, so that few want the same one.
    waiting.sort(key=lambda _: table.new_id())
    worker = JobWorker(table, data_files, lease_ms)
    done = 0
    for job, partition in waiting:
        with isolated(faults, "merge", job):
            done += worker.work(job, partition)
    return done


def retry_damaged(table: Table, data_files: DataFiles) -> int:
    """Read the files that were set aside, and take back those that can be read; how many."""
    files = data_files.with_columns(table.at().columns())
    released = 0
    for damage in list(table.at().damaged()):
        try:
            files.check(damage.filename)
        except (OSError, DataFileDamaged):
            continue
        released += _is_committed(partial(table.release_files, [damage.filename]))
    return released


def _damaged(table: Table) -> set[str]:
    return {damage.filename for damage in table.at().damaged()}


def _split_leaf(table: Table, data_files: DataFiles, holding: Holding, faults: MaintenanceFaults | None) -> bool:
    held, damaged = table.at().on_partition(holding.partition), _damaged(table)
    for dimension in range(len(data_files.schema.keys)):
        sample: list[tuple[str, int]] = []
        for reference in held.references:
            if reference.filename not in damaged:
                with isolated(faults, "split", reference.filename):
                    sample += _sample(data_files, held, reference.filename, dimension)
        point = _median(data_files, held, dimension, sorted(sample))
        if point is not None:
            return _is_committed(partial(table.split_at, held.partition, point, dimension))
    return False


def _sample(data_files: DataFiles, held: Held, filename: str, dimension: int) -> list[tuple[str, int]]:
    """Evenly spaced keys of a file, each with the rows that it stands for. None of a file that is gone by now."""
    column = data_files.schema.keys[dimension]
    try:
        keys = comparable(column.type, data_files.read(filename, held.region, [column.name]).column(0))
    except FileNotFoundError:
        return []
    step = max(1, len(keys) // SAMPLE_KEYS)
    return [(encode_key(column.type, keys[position].as_py()), step) for position in range(step // 2, len(keys), step)]


def _median(data_files: DataFiles, held: Held, dimension: int, sample: list[tuple[str, int]]) -> Key | None:
    """The median of a sample in order, weighted by rows; None where no key lies below it."""
    left = sum(weight for _, weight in sample) / 2
    low = held.region[dimension][0]
    for text, weight in sample:
        left -= weight
        if left <= 0 and low < text and len(text) <= 2 * EDGE_BYTES_MAX and sample[0][0] < text:
            return decode_key(data_files.schema.keys[dimension].type, text)
    return None


def _push_reference(table: Table, data_files: DataFiles, reference: FileReference) -> bool:
    view = table.at()
    source = view.partition(reference.partition)
    leaves = [leaf for leaf in view.in_range(source.region) if _lies_in(leaf, source.region, source.id)]
    try:
        rows = data_files.keys(reference.filename, source.region)
    except FileNotFoundError as exc:
        if table.at().reference(source.id, reference.filename) is None:
            return False
        raise DataFileDamaged("a data file is missing", filename=reference.filename) from exc
    if rows.num_rows != reference.rows and not reference.approximate:
        text = "a data file has other rows than the table says"
        raise DataFileDamaged(text, filename=reference.filename, value=rows.num_rows, rows=reference.rows)
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


def _is_committed(act: Callable[[], object]) -> bool:
    """Whether a transaction was committed. Refused: somebody else was first, and what it is about is done."""
    try:
        act()
    except TransactionRefused:
        return False
    return True
