"""Dry runs of an ingest: they count the changes that an ingest would make, and write nothing."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stratalog import Records, StratalogError, Unavailable
from stratalog_catalogue.deletions import living_version, missing_records
from stratalog_catalogue.folder import Step
from stratalog_catalogue.ingest import IngestCounts, body_of, time_of
from stratalog_catalogue.names import source_id, stored_id
from stratalog_catalogue.precedence import may_replace, note_read, replaces
from stratalog_catalogue.record_splitter import SplitRecord, Unreadable
from stratalog_catalogue.sources import Source

__all__ = ["preview"]


def preview(
    records: Records,
    source: Source,
    step: Step,
    progress: Callable[[int], None] = lambda count: None,
    allow_deletions: bool = False,
) -> IngestCounts:
    """Return the counts that `take` would return for a step, if the poll has no record twice. Raises Unavailable.

    The function writes nothing, not even a dead letter. It compares each record with the present state of the store. So
    it counts both copies of a new record in one poll as new, while `take` counts the second copy as same. It counts no
    conflicting records.
    """
    counts = IngestCounts()
    step.seen.update(map(stored_id, step.present))
    for record in step.records:
        counts.read += 1
        progress(1)
        if isinstance(record, Unreadable):
            counts.failed += 1
            continue
        is_first = note_read(source, step, record, time_of(record, step.time_ms))
        try:
            changes = _would_change(records, source, record, step, is_first)
        except Unavailable:
            raise
        except StratalogError:
            counts.failed += 1
            continue
        counts.deleted += changes and record.deleted
        counts.new += changes and not record.deleted
        counts.same += not changes
    if step.is_complete and not counts.failed:
        missing, counts.withheld = missing_records(records, source, step.seen, allow_deletions)
        living = (living_version(records, record_id, step.time_ms) for record_id in missing)
        counts.deleted += sum(version is not None for version in living)
    return counts


def _would_change(records: Records, source: Source, record: SplitRecord, step: Step, is_first: bool) -> bool:
    time_ms = time_of(record, step.time_ms)
    if record.deleted:
        return living_version(records, source_id(source.name, record.id), time_ms) is not None
    body = body_of(source, record, step.time_ms)
    if record.path is not None:  # the time alone decides for a file, so its bytes are not read
        return records.would_put(msgspec.structs.replace(body, changed_only=False))
    if records.would_put(body):
        return True
    if not (is_first and may_replace(source, step, record, time_ms)):
        return False
    return replaces(source, step, record, time_ms, records.stat(body.id))
