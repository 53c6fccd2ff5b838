"""The plan of merge jobs: a job merges files of similar size on one leaf, so that each row is rewritten rarely.

The plan groups files by their number of rows in tiers. The bounds of a tier are eight times the bounds of the tier
below. If ``files_min`` is eight or more, each merge moves its rows to a higher tier. So a row is rewritten at most
log8(rows of the leaf) times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stratalog import Invalid
from stratalog_table.limits import FILES_PER_JOB_MAX
from stratalog_table.messages import TransactionRefused
from stratalog_table.model import FileReference
from stratalog_table.references import Assignment
from stratalog_table.table import Table

__all__ = ["check_files_min", "plan", "size_tier"]

TIER_RATIO = 8


def plan(table: Table, files_min: int, files_max: int = FILES_PER_JOB_MAX) -> int:
    """Assign references to merge jobs and return the number of jobs.

    A job gets ``files_min`` to ``files_max`` references of one leaf and one size tier that have no job yet. Files that
    were set aside are left out. Raises Invalid as `check_files_min` does.
    """
    check_files_min(files_min, files_max)
    view = table.at()
    damaged = {file.filename for file in view.damaged()}
    jobs = 0
    for holding in view.holdings():
        if holding.leaf and holding.tally.files >= files_min:
            references = view.on_partition(holding.partition).references
            free = (ref for ref in references if ref.job is None and ref.filename not in damaged)
            for names in _groups(free, files_min, files_max):
                jobs += _is_assigned(table, Assignment(table.new_id(), holding.partition, names))
    return jobs


def check_files_min(files_min: int, files_max: int = FILES_PER_JOB_MAX) -> None:
    """Raise Invalid unless the minimum of files of a job is 2 to ``files_max``.

    A job of one file would only copy the file, in each pass again.
    """
    if not 2 <= files_min <= files_max:
        raise Invalid("the minimum of files of a merge job is outside its range", value=files_min, limit=files_max)


def size_tier(rows: int) -> int:
    """Return the size tier of a number of rows: its logarithm to the base `TIER_RATIO`, rounded down."""
    tier = 0
    while rows >= TIER_RATIO:
        rows //= TIER_RATIO
        tier += 1
    return tier


def _groups(references: Iterable[FileReference], files_min: int, files_max: int) -> Iterator[tuple[str, ...]]:
    tiers: dict[int, list[str]] = {}
    for reference in references:
        tiers.setdefault(size_tier(reference.rows), []).append(reference.filename)
    for tier in sorted(tiers):
        names = tiers[tier]
        while len(names) >= files_min:
            yield tuple(names[:files_max])
            names = names[files_max:]


def _is_assigned(table: Table, request: Assignment) -> bool:
    """Return whether the references were assigned. After a refusal, another process changed a reference first."""
    try:
        table.assign_job_ids([request])
    except TransactionRefused:
        return False
    return True
