"""Records into the store: newer wins, what is stale or the same writes nothing, failures become dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from stratalog import Conflict, NewBody, NotFound, OutcomeUnknown, Records, Stored, StratalogError, Unavailable
from stratalog import VersionConflict as Overtaken
from stratalog.limits import REASON_BYTES_MAX
from stratalog_catalogue.folder import Step
from stratalog_catalogue.names import SOURCES, parts_of, source_id, stored_id
from stratalog_catalogue.record_splitter import PIECE_BYTES, SplitRecord, Unreadable
from stratalog_catalogue.sources import Source

__all__ = ["IngestCounts", "IngestFailure", "fail", "take", "take_record"]

TRIES_MAX = 3
ID_BYTES_MAX = 960
LETTER_BODY_BYTES_MAX = 64 * 1024 * 1024


class IngestCounts(msgspec.Struct):
    """What came of the records of a source: each is in one of the last four counts."""

    read: int = 0
    new: int = 0
    """Stored as a new version."""

    same: int = 0
    """Stale or the same as what stands; nothing was written."""

    deleted: int = 0
    failed: int = 0

    def add(self, other: IngestCounts) -> None:
        """Count these as well."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class IngestFailure(msgspec.Struct, frozen=True, kw_only=True):
    """What a dead letter's pointer says, so that the record can be tried again."""

    id: str
    time_ms: int = 0
    changed_only: bool = False
    version: int = 0
    """Of a work's letter: the version of the source's record that no work could be made of."""

    transformer: str = ""


def take(
    records: Records, source: Source, step: Step, progress: Callable[[int], None] = lambda count: None
) -> IngestCounts:
    """Take all records of a step. Raises Unavailable and what else keeps the store from taking anything in."""
    counts = IngestCounts()
    seen: set[str] = set()
    for stored in records.put_many(_bodies(records, source, step, counts, seen, progress)):
        _count(records, source, step, stored, counts)
    if step.is_complete and not counts.failed:
        counts.deleted += _delete_missing(records, source, step.time_ms, seen)
    return counts


def take_record(records: Records, source: Source, record: SplitRecord, time_ms: int) -> bool:
    """Take one record alone; whether it made a new version. A file streams, whatever its size."""
    record_id, time = source_id(source.name, record.id), _time(record, time_ms)
    if record.deleted:
        return _delete(records, record_id, time)
    if record.path is not None:
        metadata = _metadata(source, record)
        return records.put_if_newer(record_id, _file_parts(record.path), time, metadata=metadata) is not None
    (stored,) = records.put_many([_body(source, record, time_ms)])
    if stored.error is not None:
        raise stored.error
    return stored.new


def fail(records: Records, record_id: str, reason: str, letter: IngestFailure, body: bytes | None) -> None:
    """Put a record among the dead letters, with what is needed to try it again. Raises Unavailable."""
    short = reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore") or "no reason was given"
    pointer = msgspec.json.encode(letter).decode()
    with_body = body if body and len(body) <= LETTER_BODY_BYTES_MAX else None
    Records(records.environment, records.organisation, failures_max=1).fail(
        record_id, short, body=with_body, pointer=pointer
    )


def _bodies(
    records: Records, source: Source, step: Step, counts: IngestCounts, seen: set[str], progress: Callable[[int], None]
) -> Iterator[NewBody]:
    """What is to be stored jointly; everything else is dealt with in passing."""
    for record in step.records:
        counts.read += 1
        progress(1)
        if step.is_complete and isinstance(record, SplitRecord):
            seen.add(stored_id(record.id))
        if isinstance(record, Unreadable):
            counts.failed += 1
            _fail(records, source, step, record, record.reason)
        elif record.deleted or record.path is not None:
            _take_alone(records, source, step, record, counts)
        else:
            yield _body(source, record, step.time_ms)


def _take_alone(records: Records, source: Source, step: Step, record: SplitRecord, counts: IngestCounts) -> None:
    for left in reversed(range(TRIES_MAX)):
        try:
            changed = take_record(records, source, record, step.time_ms)
        except (Unavailable, OutcomeUnknown, Conflict):
            if not left:
                raise
        except (StratalogError, OSError) as exc:
            counts.failed += 1
            _fail(records, source, step, Unreadable(id=record.id, reason=str(exc)), str(exc))
            return
        else:
            counts.deleted += changed and record.deleted
            counts.new += changed and not record.deleted
            counts.same += not changed
            return


def _count(records: Records, source: Source, step: Step, stored: Stored, counts: IngestCounts) -> None:
    """Note what came of a put. Of a store that cannot be reached nothing is noted: the poll ends and is repeated."""
    if isinstance(stored.error, Unavailable | OutcomeUnknown | Conflict):
        raise stored.error
    if stored.error is not None:
        counts.failed += 1
        _fail(records, source, step, Unreadable(id=parts_of(stored.id)[1], reason=""), str(stored.error))
    else:
        counts.new += stored.new
        counts.same += not stored.new


def _fail(records: Records, source: Source, step: Step, unreadable: Unreadable, reason: str) -> None:
    time_ms = step.time_ms if unreadable.file_time_ms is None else unreadable.file_time_ms
    letter = IngestFailure(id=unreadable.id, time_ms=time_ms, changed_only=not source.time)
    fail(records, source_id(source.name, unreadable.id), reason, letter, unreadable.body)


def _body(source: Source, record: SplitRecord, time_ms: int) -> NewBody:
    return NewBody(
        id=source_id(source.name, record.id),
        body=record.body,
        source_time_ms=_time(record, time_ms),
        metadata=_metadata(source, record),
        newer_only=True,
        changed_only=record.time_ms is None,
    )


def _time(record: SplitRecord, time_ms: int) -> int:
    """The record's own time, else that of its file, else ``time_ms``."""
    times = (time for time in (record.time_ms, record.file_time_ms) if time is not None)
    return next(times, time_ms)


def _metadata(source: Source, record: SplitRecord) -> dict[str, Any]:
    plain = {"format": source.format}
    long = stored_id(record.id) != record.id and len(record.id.encode(errors="surrogatepass")) <= ID_BYTES_MAX
    return {**plain, "id": record.id} if long else plain


def _delete(records: Records, record_id: str, time_ms: int) -> bool:
    """Store a deletion, unless what stands is newer, or deleted, or was never there."""
    while True:
        try:
            latest = records.stat(record_id)
        except NotFound:
            return False
        if latest.deleted or (latest.source_time_ms or 0) > time_ms:
            return False
        try:
            records.delete(record_id, expected=latest.version, source_time_ms=time_ms)
            return True
        except Overtaken:
            continue


def _delete_missing(records: Records, source: Source, time_ms: int, seen: Iterable[str]) -> int:
    prefix = f"{SOURCES}{source.name}/"
    gone = [line.id for line in records.list(prefix=prefix) if line.id.removeprefix(prefix) not in seen]
    return sum(_delete(records, record_id, time_ms) for record_id in gone)


def _file_parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(PIECE_BYTES):
            yield part
