"""Maintenance of a table: split large leaves, move references down, merge files and collect garbage.

Any number of processes may run any step at once, and each process may stop at any point. Each step commits as a
transaction that checks its inputs, so a step that another process already did is rejected and skipped. A pass finds the
unfinished work of a stopped process and resumes it. A pass lists a failure with one file, job or leaf, and continues.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from stratalog.errors import Conflict, Corrupt, Invalid
from stratalog_table.arrow_types import comparable
from stratalog_table.collection import collect, retained_ms
from stratalog_table.data_files import DataFileDamaged, DataFiles, counts
from stratalog_table.job_worker import JobWorker
from stratalog_table.limits import EDGE_BYTES_MAX, check_duration
from stratalog_table.maintenance_faults import MaintenanceFault, MaintenanceFaults, isolated
from stratalog_table.merge_plan import check_files_min, plan
from stratalog_table.messages import TransactionRefused
from stratalog_table.model import FileReference, Held, NewReference
from stratalog_table.queries import Holding
from stratalog_table.references import Split
from stratalog_table.row_order import Key, decode_key, encode_key
from stratalog_table.rows import require_present
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
    """The counts of one maintenance pass, and its faults."""

    splits: int = 0
    moved: int = 0
    jobs: int = 0
    collected: int = 0
    faults: tuple[MaintenanceFault, ...] = ()


def maintain_table(
    table: Table, data_files: DataFiles, *, rows_max: int, files_min: int, age_ms: int, lease_ms: int = 0
) -> TableMaintenanceReport:
    """Run one pass of all steps and return its report.

    The pass splits each leaf with more than ``rows_max`` rows, and merges ``files_min`` or more files of one size tier
    on a leaf. It collects a file once ``age_ms``, or the table's retention if that is longer, has passed since the
    last version that needs the file. It takes over a merge job of another worker if the job's claim is older than
    ``lease_ms``. It lets the job tracker catch up. Raises Invalid for an age, a lease or a ``files_min`` out of range,
    and NotFound if the table's files are not in their folder, with nothing done.
    """
    check_files_min(files_min)
    check_duration("age_ms", age_ms)
    check_duration("lease_ms", lease_ms)
    require_present(table, data_files.folder)
    faults = MaintenanceFaults(table)
    splits = split_large(table, data_files, rows_max, faults)
    moved = push_down(table, data_files, faults)
    jobs = compact(table, data_files, faults, files_min=files_min, lease_ms=lease_ms)
    collected = collect(table, data_files, age_ms, faults)
    if table.cleared_ms() < table.store.environment.clock.wall_ms() - retained_ms(table, age_ms):
        # Purge only once the clear is older than the retained time. The rows that a clear leaves behind name the files
        # that `collect` still has to delete.
        table.purge()
    _follow_jobs(table, faults)
    return TableMaintenanceReport(splits, moved, jobs, collected, tuple(faults.faults))


def split_large(table: Table, data_files: DataFiles, rows_max: int, faults: MaintenanceFaults | None = None) -> int:
    """Split each leaf with more than ``rows_max`` rows near its median and return the number of splits.

    The first key column with a usable median decides the split point. A leaf without a usable median is not split.
    """
    large = [holding for holding in table.at().holdings() if holding.leaf and holding.tally.rows > rows_max]
    splits = 0
    for holding in large:
        with isolated(faults, "split", holding.partition):
            splits += _split_leaf(table, data_files, holding, faults)
    return splits


def push_down(table: Table, data_files: DataFiles, faults: MaintenanceFaults | None = None) -> int:
    """Move references from split partitions to the leaves below and return the number of moved references.

    The function counts the rows of each file on each leaf. References of a job and of damaged files stay.
    """
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
    """Plan merge jobs, do every job that no other worker has claimed, and return the number of finished jobs.

    A claimed job stays with its worker until ``lease_ms`` have passed without a renewal of the claim.
    """
    worker = JobWorker(table, data_files, lease_ms)
    plan(table, files_min)
    waiting = [(job, partition) for job, partition, _ in table.at().jobs()]
    # Use a random order, so that workers that start together rarely claim the same job.
    waiting.sort(key=lambda _: table.new_id())
    done = 0
    for job, partition in waiting:
        with isolated(faults, "merge", job):
            done += worker.work(job, partition)
    return done


def retry_damaged(table: Table, data_files: DataFiles) -> int:
    """Read each file that was set aside, release the readable files, and return the number of released files."""
    view = table.at()
    files = data_files.with_columns(view.columns())
    released = 0
    for damage in list(view.damaged()):
        try:
            files.check(damage.filename)
        except (OSError, DataFileDamaged, Invalid):  # Invalid: the file's name cannot be a name of a data file
            continue
        released += _is_committed(partial(table.release_files, [damage.filename]))
    return released


def _follow_jobs(table: Table, faults: MaintenanceFaults) -> None:
    """Let the job tracker catch up. A retention policy of the store forgets versions without asking the tracker."""
    try:
        table.jobs.catch_up()
    except (Conflict, Corrupt) as exc:
        faults.faults.append(MaintenanceFault("list", "jobs", str(exc)))


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
    """Return evenly spaced keys of a file, each with the number of rows it represents. A missing file gives no key."""
    column = data_files.schema.keys[dimension]
    try:
        keys = comparable(column.type, data_files.read(filename, held.region, [column.name]).column(0))
    except FileNotFoundError:
        return []
    step = max(1, len(keys) // SAMPLE_KEYS)
    return [(encode_key(column.type, keys[position].as_py()), step) for position in range(step // 2, len(keys), step)]


def _median(data_files: DataFiles, held: Held, dimension: int, sample: list[tuple[str, int]]) -> Key | None:
    """Return the first usable key at or above the median of a sorted sample, weighted by rows, or None.

    A usable key is short enough for an edge, and is above the lowest sampled key. A split at the lowest key would make
    an empty leaf.
    """
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
    # Not `in_range`, which also returns the split partitions below the source that still have references. Their leaves
    # have the same rows.
    leaves = view.leaves_in_range(source.region)
    try:
        rows = data_files.keys(reference.filename, source.region)
    except FileNotFoundError as exc:
        # Read a new view. If the reference is gone, another process moved or merged it, and the file was collected. A
        # missing file with a reference is damage.
        if table.at().reference(source.id, reference.filename) is None:
            return False
        raise DataFileDamaged("a data file is missing", filename=reference.filename) from exc
    if rows.num_rows != reference.rows and not reference.approximate:
        text = "a data file does not have the rows that the table records"
        raise DataFileDamaged(text, filename=reference.filename, value=rows.num_rows, rows=reference.rows)
    counted = list(zip(leaves, counts(data_files, rows, [leaf.region for leaf in leaves]), strict=True))
    chosen = [(leaf.partition, count) for leaf, count in counted if count] or [(leaves[0].partition, 0)]
    is_complete = reference.complete and len(chosen) == 1
    pieces = tuple(NewReference(id, count, complete=is_complete) for id, count in chosen)
    return _is_committed(lambda: table.split_file_references([Split(reference.filename, source.id, pieces)]))


def _is_committed(act: Callable[[], object]) -> bool:
    """Run a transaction and return whether it was committed. After a refusal, another process did the work first."""
    try:
        act()
    except TransactionRefused:
        return False
    return True
