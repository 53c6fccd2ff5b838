"""The failures of a backup that concern one restored log. Its siblings in the family may have failures of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from stratalog.backups.format import BackupFailure
from stratalog.codec import is_decimal
from stratalog.keys import entries_partition, number, parse_number, segments_partition, snapshots_partition
from stratalog.log.environment import Environment
from stratalog.log.names import NameRecord
from stratalog.maintenance.marks import Marking, Reached
from stratalog.ports.index import Item

__all__ = ["failures_of_log"]

BLOB = re.compile("[^/ ]+/[0-9a-f]{64}")
"""The key of a blob without its owner. The key of an item contains a space."""


def failures_of_log(backup: Environment, record: NameRecord, failures: Iterable[BackupFailure]) -> list[BackupFailure]:
    """Return the failures that concern the log ``record`` of ``backup``, or the ancestors' versions that it inherits.

    A lost blob concerns the log if an item of the log or of these versions refers to the blob. If the references cannot
    all be read, all lost blobs of the family count.
    """
    segments = {prefix: list(_segments(backup, prefix, before)) for prefix, before in _parts(record)}
    held = {f"{prefix}/{parse_number(item.sort)}" for prefix, items in segments.items() for item in items}
    chosen, lost = list[BackupFailure](), list[BackupFailure]()
    for failure in failures:
        prefix, _, first = failure.what.rpartition("/")
        if BLOB.fullmatch(failure.what.removeprefix(f"{record.owner}/")):
            lost.append(failure)
        elif prefix in segments and is_decimal(first):
            chosen += [failure] if failure.what in held else []
        elif failure.what == record.owner or failure.what.startswith(tuple(segments)):
            chosen.append(failure)
    needed = _needed_blobs(backup, record) if lost else None
    return chosen + [each for each in lost if needed is None or each.what.removeprefix(f"{record.owner}/") in needed]


def _parts(record: NameRecord) -> list[tuple[str, str | None]]:
    """Return the prefixes of a log and its ancestors, each with the key after the last version that the log has."""
    return [(record.prefix, None), *((parent.prefix, number(parent.version + 1)) for parent in record.lineage)]


def _segments(backup: Environment, prefix: str, before: str | None) -> Iterator[Item]:
    return backup.index.query(segments_partition(prefix), before=before)


def _needed_blobs(backup: Environment, record: NameRecord) -> set[str] | None:
    """Return the keys, without the owner, of the blobs that a log needs; None if some references cannot be read."""
    needed, unreadable = set[str](), list[Exception]()
    marking = Marking(backup, record.owner, needed.add, Reached(), set(), lambda: None, unreadable.append)
    for prefix, before in _parts(record):
        segments = list(_segments(backup, prefix, before))
        partitions = [entries_partition(prefix, parse_number(segment.sort)) for segment in segments]
        for item in segments:
            marking.mark_item(item)
        for partition in (*partitions, snapshots_partition(prefix)):
            for item in backup.index.query(partition, before=before):
                marking.mark_item(item)
    return None if unreadable else needed
