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
from stratalog_catalogue.names import SOURCES, kept_id, parts_of, source_id
from stratalog_catalogue.record_splitter import PIECE_BYTES, SplitRecord, Unreadable
from stratalog_catalogue.sources import Source

__all__ = ["IngestCounts", "IngestFailure", "fail", "take", "take_one"]

TRIES_MAX = 3
ID_CHARACTERS_MAX = 200
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
    taken = IngestCounts()
    seen: set[str] = set()
    for stored in records.put_many(_bodies(records, source, step, taken, seen, progress)):
        _count(records, source, step, stored, taken)
    if step.whole and not taken.failed:
        taken.deleted += _delete_missing(records, source, step.time_ms, seen)
    return taken


def take_one(records: Records, source: Source, found: SplitRecord, time_ms: int) -> bool:
    """Take one record alone; whether it made a new version. A file streams, whatever its size."""
    kept, time = source_id(source.name, found.id), _time(found, time_ms)
    if found.deleted:
        return _delete(records, kept, time)
    if found.path is not None:
        metadata = _metadata(source, found)
        return records.put_if_newer(kept, _file_parts(found.path), time, metadata=metadata) is not None
    (stored,) = records.put_many([_body(source, found, time_ms)])
    if stored.error is not None:
        raise stored.error
    return stored.new


def fail(records: Records, kept: str, reason: str, letter: IngestFailure, body: bytes | None) -> None:
    """Put a record among the dead letters, with what is needed to try it again. Raises Unavailable."""
    short = reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore") or "no reason was given"
    pointer = msgspec.json.encode(letter).decode()
    with_body = body if body and len(body) <= LETTER_BODY_BYTES_MAX else None
    Records(records.environment, records.organisation, failures_max=1).fail(
        kept, short, body=with_body, pointer=pointer
    )


def _bodies(
    records: Records, source: Source, step: Step, taken: IngestCounts, seen: set[str], progress: Callable[[int], None]
) -> Iterator[NewBody]:
    """What is to be stored jointly; everything else is dealt with in passing."""
    for found in step.found:
        taken.read += 1
        progress(1)
        if step.whole and isinstance(found, SplitRecord):
            seen.add(kept_id(found.id))
        if isinstance(found, Unreadable):
            taken.failed += 1
            _fail(records, source, step, found, found.reason)
        elif found.deleted or found.path is not None:
            _take_alone(records, source, step, found, taken)
        else:
            yield _body(source, found, step.time_ms)


def _take_alone(records: Records, source: Source, step: Step, found: SplitRecord, taken: IngestCounts) -> None:
    for left in reversed(range(TRIES_MAX)):
        try:
            changed = take_one(records, source, found, step.time_ms)
        except (Unavailable, OutcomeUnknown, Conflict):
            if not left:
                raise
        except (StratalogError, OSError) as exc:
            taken.failed += 1
            _fail(records, source, step, Unreadable(id=found.id, reason=str(exc)), str(exc))
            return
        else:
            taken.deleted += changed and found.deleted
            taken.new += changed and not found.deleted
            taken.same += not changed
            return


def _count(records: Records, source: Source, step: Step, stored: Stored, taken: IngestCounts) -> None:
    """Note what came of a put. Of a store that cannot be reached nothing is noted: the poll ends and is repeated."""
    if isinstance(stored.error, Unavailable | OutcomeUnknown | Conflict):
        raise stored.error
    if stored.error is not None:
        taken.failed += 1
        _fail(records, source, step, Unreadable(id=parts_of(stored.id)[1], reason=""), str(stored.error))
    else:
        taken.new += stored.new
        taken.same += not stored.new


def _fail(records: Records, source: Source, step: Step, found: Unreadable, reason: str) -> None:
    time_ms = step.time_ms if found.file_time_ms is None else found.file_time_ms
    letter = IngestFailure(id=found.id, time_ms=time_ms, changed_only=not source.time)
    fail(records, source_id(source.name, found.id), reason, letter, found.body)


def _body(source: Source, found: SplitRecord, time_ms: int) -> NewBody:
    return NewBody(
        id=source_id(source.name, found.id),
        body=found.body,
        source_time_ms=_time(found, time_ms),
        metadata=_metadata(source, found),
        newer_only=True,
        changed_only=found.time_ms is None,
    )


def _time(found: SplitRecord, time_ms: int) -> int:
    """The record's own time, else that of its file, else ``time_ms``."""
    said = (one for one in (found.time_ms, found.file_time_ms) if one is not None)
    return next(said, time_ms)


def _metadata(source: Source, found: SplitRecord) -> dict[str, Any]:
    plain = {"format": source.format}
    long = kept_id(found.id) != found.id and len(found.id) <= ID_CHARACTERS_MAX
    return {**plain, "id": found.id} if long else plain


def _delete(records: Records, kept: str, time_ms: int) -> bool:
    """Store a deletion, unless what stands is newer, or deleted, or was never there."""
    while True:
        try:
            latest = records.stat(kept)
        except NotFound:
            return False
        if latest.deleted or (latest.source_time_ms or 0) > time_ms:
            return False
        try:
            records.delete(kept, expected=latest.version, source_time_ms=time_ms)
            return True
        except Overtaken:
            continue


def _delete_missing(records: Records, source: Source, time_ms: int, seen: Iterable[str]) -> int:
    prefix = f"{SOURCES}{source.name}/"
    gone = [line.id for line in records.list(prefix=prefix) if line.id.removeprefix(prefix) not in seen]
    return sum(_delete(records, kept, time_ms) for kept in gone)


def _file_parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(PIECE_BYTES):
            yield part
