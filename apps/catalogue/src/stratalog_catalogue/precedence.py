"""Whether a record replaces the stored version although its time is not later. By default it does not."""

from __future__ import annotations

from stratalog import RecordVersion
from stratalog.codec import sha256
from stratalog_catalogue.folder import Step
from stratalog_catalogue.names import stored_id
from stratalog_catalogue.record_splitter import SplitRecord
from stratalog_catalogue.sources import Source

__all__ = ["may_replace", "note_read", "replaces"]


def note_read(source: Source, step: Step, record: SplitRecord, time_ms: int) -> bool:
    """Remember that the poll has read a record. Return whether the record is the first of its id in the poll.

    The id is remembered only if the step is a complete state or if `replaces` may be True, since a poll may read any
    number of records.
    """
    id = stored_id(record.id)
    is_first = id not in step.seen
    if step.is_complete or may_replace(source, step, record, time_ms):
        step.seen.add(id)
    return is_first


def may_replace(source: Source, step: Step, record: SplitRecord, time_ms: int) -> bool:
    """Return whether `replaces` may be True. If not, the stored version need not be read."""
    is_later_state = step.is_complete and time_ms < step.time_ms
    return step.is_current and (is_later_state or _has_coarse_time(source, record))


def replaces(source: Source, step: Step, record: SplitRecord, time_ms: int, latest: RecordVersion) -> bool:
    """Return whether a record with the time ``time_ms`` replaces the latest version, whose time is the same or later.

    A complete state that is later than a deletion proves that the record is back, whatever the record's own time. And
    if the source's times are coarse, other content with the same time is a later change. A redacted version is not
    replaced: the content may be the redacted one. The bytes of a dead letter replace no version, since the version may
    be later than the letter. The record must be the first of its id in the poll: of two records with one id and one
    time, the first one counts.
    """
    if latest.redacted or not may_replace(source, step, record, time_ms):
        return False
    if latest.deleted and step.is_complete and (latest.source_time_ms or 0) < step.time_ms:
        return True
    is_other = latest.deleted or latest.digest != sha256(record.body)
    return is_other and latest.source_time_ms == time_ms and _has_coarse_time(source, record)


def _has_coarse_time(source: Source, record: SplitRecord) -> bool:
    """Return whether a record may change twice within its time, a day or a second, and be read after each change.

    A harvest of OAI-PMH repeats the last day or second of the harvest before. A feed's response has a time in seconds.
    The adapter of a folder gives each change of a file a later time. If the settings name the field of a record's time,
    that time alone decides.
    """
    return source.adapter == "oai" or (source.adapter == "http" and record.time_ms is None)
