"""Which files are merged: those of about one size on one leaf, so that a row is rewritten seldom, however many come.

Sizes are tiers, each eight times the one below. Merging ``files_min`` files makes one that is ``files_min`` times as
large, so a row is rewritten at most as often as the logarithm of the leaf's rows by that number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stratalog_table.messages import TransactionRefused
from stratalog_table.model import FileReference
from stratalog_table.references import Assignment
from stratalog_table.table import Table

__all__ = ["plan", "size_tier"]

TIER_RATIO = 8
FILES_PER_JOB_MAX = 100


def plan(table: Table, files_min: int, files_max: int = FILES_PER_JOB_MAX) -> int:
    """Give the references of each leaf that has enough of one size without a job to a job; how many jobs.

    Files that were set aside are left out.
    """
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


def size_tier(rows: int) -> int:
    """How many times the ratio of tiers goes into a number of rows."""
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
    """Whether the references got the job. Refused: somebody else was first."""
    try:
        table.assign_job_ids([request])
    except TransactionRefused:
        return False
    return True
