"""Deletions of a source's records, and the records that a complete state lacks."""

from __future__ import annotations

from collections.abc import Set

from stratalog import NotFound, Records, VersionConflict
from stratalog_catalogue.limits import CATALOGUE_DELETIONS_UNASKED_MAX
from stratalog_catalogue.names import SOURCES
from stratalog_catalogue.sources import Source

__all__ = ["delete_record", "living_version", "missing_records"]


def delete_record(records: Records, record_id: str, time_ms: int) -> bool:
    """Delete a record and return True.

    Return False if the record is newer than ``time_ms``, already deleted, or unknown.
    """
    while (latest := living_version(records, record_id, time_ms)) is not None:
        try:
            records.delete(record_id, expected=latest, source_time_ms=time_ms)
            return True
        except VersionConflict:
            continue
    return False


def living_version(records: Records, record_id: str, time_ms: int) -> int | None:
    """Return the latest version of a record, or None if the record is deleted, unknown or newer than ``time_ms``."""
    try:
        latest = records.stat(record_id)
    except NotFound:
        return None
    return None if latest.deleted or (latest.source_time_ms or 0) > time_ms else latest.version


def missing_records(records: Records, source: Source, seen: Set[str], allow_deletions: bool) -> tuple[list[str], int]:
    """Return the records that a complete state lacks and that may be deleted, and the number of withheld deletions.

    If the state lacks too many records, all its deletions are withheld.
    """
    prefix = f"{SOURCES}{source.name}/"
    unseen = (line.id for line in records.list(prefix=prefix) if line.id.removeprefix(prefix) not in seen)
    missing = [record_id for record_id in unseen if not records.stat(record_id).deleted]
    if allow_deletions or not _is_too_much(source, len(missing), len(seen)):
        return missing, 0
    return [], len(missing)


def _is_too_much(source: Source, missing: int, present: int) -> bool:
    """Return whether a complete state lacks more records than may be deleted without ``allow_deletions``.

    An empty state lacks too many records if any record is stored.
    """
    if not present:
        return missing > 0
    percent = 100 * missing / (missing + present)
    return missing > CATALOGUE_DELETIONS_UNASKED_MAX and percent > source.deletions_percent_max
