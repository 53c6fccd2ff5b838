"""Ingest of records: store newer records, discard stale or equal records, and make dead letters of failures."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from stratalog import (
    Conflict,
    DeadLetter,
    NewBody,
    NotFound,
    OutcomeUnknown,
    Records,
    RecordVersion,
    Stored,
    StratalogError,
    Unavailable,
)
from stratalog import VersionConflict as Overtaken
from stratalog.codec import sha256
from stratalog.limits import POINTER_BYTES_MAX, REASON_BYTES_MAX
from stratalog.struct_types import resolved
from stratalog_catalogue.deletions import delete_record, missing_records
from stratalog_catalogue.encodings import UTF8
from stratalog_catalogue.folder import Step
from stratalog_catalogue.letters import letters_with
from stratalog_catalogue.limits import (
    CATALOGUE_ID_STORED_BYTES_MAX,
    CATALOGUE_METADATA_BYTES_MAX,
    CATALOGUE_RECORD_TRIES_MAX,
)
from stratalog_catalogue.names import SOURCES, letter_id, source_id, stored_id
from stratalog_catalogue.precedence import note_read, replaces
from stratalog_catalogue.record_splitter import PIECE_BYTES, SplitRecord, Unreadable
from stratalog_catalogue.sources import Source

__all__ = [
    "ROW",
    "IngestCounts",
    "IngestFailure",
    "body_of",
    "fail",
    "failure_of",
    "is_row_letter",
    "metadata_of",
    "resolve",
    "take",
    "take_record",
    "time_of",
]

ROW = "row of version"
"""The beginning of the reason of a dead letter of a row that a migration could not copy."""


class IngestCounts(msgspec.Struct):
    """The counts of a source's records by outcome.

    Each of the ``read`` records is new, same, deleted or failed. ``deleted`` also counts the records that a complete
    state lacks.
    """

    read: int = 0
    new: int = 0
    """Records that were stored as a new version."""

    same: int = 0
    """Records that are stale or equal to the stored version, and deletions without effect. Nothing was written."""

    deleted: int = 0
    failed: int = 0
    withheld: int = 0
    """Deletions that were not done, because a complete state lacked too many records."""

    conflicting: int = 0
    """Those of ``same`` that differ from the stored version although they have its time.

    Usually, an earlier record of the same file or answer has the same id.
    """

    def add(self, other: IngestCounts) -> None:
        """Add the counts of ``other`` to these counts."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class IngestFailure(msgspec.Struct, frozen=True, kw_only=True):
    """The data in a dead letter's pointer, which a redrive needs."""

    id: str
    time_ms: int = 0
    changed_only: bool = False
    version: int = 0
    """In the dead letter of a work, the version of the record from which no work could be made."""

    transformer: str = ""
    document: bool = False
    """Whether the body is a whole file or HTTP answer. A redrive splits this body into records."""

    encoding: str = ""
    """The encoding of a record, row or page. It is empty for UTF-8 without a byte order mark, and if the bytes name it.

    Earlier builds also left it empty for UTF-8 with a mark, and for every row of CSV.
    """

    metadata: dict[str, Any] = {}
    """The properties of the record that its bytes do not contain, if the pointer has room for them."""


def take(
    records: Records,
    source: Source,
    step: Step,
    progress: Callable[[int], None] = lambda count: None,
    allow_deletions: bool = False,
) -> IngestCounts:
    """Store all records of a step and return their counts.

    The function deletes the records that a complete state lacks. If any record of the state failed, it deletes no
    record. If the state lacks too many records, it deletes no record unless ``allow_deletions`` is True.

    Raises Unavailable, OutcomeUnknown, Conflict, and the errors of reading the step. The records before the error are
    stored, and the step can be repeated.
    """
    intake = _Intake(records, source, step, progress)
    for stored in records.put_many(intake.bodies()):
        intake.settle(stored)
    if intake.error is not None:
        raise intake.error
    counts = intake.counts
    if step.is_complete and not counts.failed:
        missing, counts.withheld = missing_records(records, source, step.seen, allow_deletions)
        counts.deleted += sum(delete_record(records, record_id, step.time_ms) for record_id in missing)
    return counts


def take_record(records: Records, source: Source, record: SplitRecord, time_ms: int) -> bool:
    """Store or delete one record in its own commit. Return whether this made a version. A file may have any size."""
    record_id, time = source_id(source.name, record.id), time_of(record, time_ms)
    if record.deleted:
        return delete_record(records, record_id, time)
    if record.path is not None:
        metadata = metadata_of(source, record)
        return records.put_if_newer(record_id, _file_parts(record.path), time, metadata=metadata) is not None
    (stored,) = records.put_many([body_of(source, record, time_ms)])
    if stored.error is not None:
        raise stored.error
    return stored.new


def fail(
    records: Records, record_id: str, reason: str, letter: IngestFailure, body: bytes | Iterable[bytes] | None
) -> None:
    """Store a record as a dead letter, with its body and the pointer that a redrive needs. Raises Unavailable."""
    short = reason.encode(errors="replace")[:REASON_BYTES_MAX].decode(errors="ignore") or "no reason was given"
    if len(letter.id.encode(errors="surrogatepass")) > CATALOGUE_ID_STORED_BYTES_MAX:
        letter = msgspec.structs.replace(letter, id=stored_id(letter.id))
    if len(pointer := msgspec.json.encode(letter)) > POINTER_BYTES_MAX:
        pointer = msgspec.json.encode(msgspec.structs.replace(letter, metadata={}))
    Records(records.environment, records.organisation, failures_max=1).fail(
        record_id, short, body=body or None, pointer=pointer.decode()
    )


def resolve(records: Records, letter_id: str) -> None:
    """Resolve a dead letter, or do nothing if another process has resolved the letter. Raises Unavailable."""
    with suppress(NotFound):
        records.resolve_dead_letter(letter_id)


def failure_of(letter: DeadLetter) -> IngestFailure | None:
    """Return the data in a letter's pointer, or None if the catalogue did not write the pointer."""
    try:
        return msgspec.json.decode(letter.pointer, type=resolved(IngestFailure))
    except (msgspec.DecodeError, RecursionError):
        return None


def is_row_letter(letter: DeadLetter) -> bool:
    """Return whether a dead letter is that of a row. Only another migration can resolve the letter."""
    return letter.size is None and letter.reason.startswith(ROW)


class _Intake:
    """The records of one step while they are stored."""

    def __init__(self, records: Records, source: Source, step: Step, progress: Callable[[int], None]) -> None:
        self.counts = IngestCounts()
        self.error: Exception | None = None
        """The error that ended the bodies. `put_many` reads ahead, so the bodies before the error are stored first."""

        self._records = records
        self._source = source
        self._step = step
        self._progress = progress
        self._given: deque[tuple[SplitRecord, bool]] = deque()
        """The records whose puts are under way, and whether each is the first record of its id in the poll."""

        step.seen.update(map(stored_id, step.present))
        self._bodiless = _bodiless(records, source) if source.format == "file" else set()

    def bodies(self) -> Iterator[NewBody]:
        """Yield the bodies that may share a commit. Keep an error in ``error``, and end.

        Between the bodies, store files and deletions, and make dead letters of unreadable records.
        """
        try:
            yield from self._bodies()
        except Exception as exc:  # noqa: BLE001 - `take` raises the error after it has stored the bodies
            self.error = exc

    def _bodies(self) -> Iterator[NewBody]:
        for record in self._step.records:
            self.counts.read += 1
            self._progress(1)
            if isinstance(record, Unreadable):
                self._refuse(record)
                continue
            is_first = note_read(self._source, self._step, record, time_of(record, self._step.time_ms))
            if record.deleted or record.path is not None:
                self._take_alone(record)
            else:
                self._given.append((record, is_first))
                yield body_of(self._source, record, self._step.time_ms)

    def settle(self, stored: Stored) -> None:
        """Count the outcome of a put. Raise the put's error if a repetition of the step may succeed."""
        record, is_first = self._given.popleft()
        try:
            if stored.error is not None:
                raise stored.error
            new = stored.new or (is_first and stored.version is not None and self._replace(record, stored.version))
        except (Unavailable, OutcomeUnknown, Conflict):
            raise
        except StratalogError as exc:
            self._refuse_record(record, str(exc))
        else:
            self.counts.new += new
            self.counts.same += not new
            self.counts.conflicting += not new and self._is_conflicting(record, stored.version)

    def _is_conflicting(self, record: SplitRecord, latest: RecordVersion | None) -> bool:
        """Return whether the record differs from the stored version although both have the same time."""
        if latest is None or latest.deleted or latest.redacted:
            return False
        return latest.source_time_ms == time_of(record, self._step.time_ms) and latest.digest != sha256(record.body)

    def _replace(self, record: SplitRecord, latest: RecordVersion) -> bool:
        """Store a record that replaces a version with the same or a later time. Return whether it does."""
        body = body_of(self._source, record, self._step.time_ms)
        time_ms = time_of(record, self._step.time_ms)
        while replaces(self._source, self._step, record, time_ms, latest):
            try:
                self._records.put(
                    body.id, body.body, expected=latest.version, source_time_ms=time_ms, metadata=body.metadata
                )
                return True
            except Overtaken:
                latest = self._records.stat(body.id)
        return False

    def _take_alone(self, record: SplitRecord) -> None:
        for left in reversed(range(CATALOGUE_RECORD_TRIES_MAX)):
            try:
                changed = take_record(self._records, self._source, record, self._step.time_ms)
            except (Unavailable, OutcomeUnknown, Conflict):
                if not left:
                    raise
            except StratalogError as exc:
                self._refuse_record(record, str(exc))
                return
            else:
                self.counts.deleted += changed and record.deleted
                self.counts.new += changed and not record.deleted
                self.counts.same += not changed
                if self._bodiless:
                    self._forget_bodiless(source_id(self._source.name, record.id))
                return

    def _refuse_record(self, record: SplitRecord, reason: str) -> None:
        """Make a dead letter of a record that the store refused. A later failure of the record replaces the letter."""
        self.counts.failed += 1
        letter = self._letter(record)
        body = record.body if record.path is None else _file_parts(record.path)
        fail(self._records, source_id(self._source.name, record.id), reason, letter, body)

    def _refuse(self, unreadable: Unreadable) -> None:
        """Make a dead letter of unreadable bytes.

        The letter's id has the hash of the bytes, so the letter replaces no letter of other bytes. If no bytes could be
        read, the id has no hash.
        """
        self.counts.failed += 1
        letter = msgspec.structs.replace(self._letter(unreadable), document=unreadable.document)
        body: bytes | Iterator[bytes] = unreadable.body
        where = unreadable.id
        if unreadable.path is not None:
            where = letter_id(where, _file_digest(unreadable.path))
            body = _file_parts(unreadable.path)
        elif unreadable.body:
            where = letter_id(where, sha256(unreadable.body))
        fail(self._records, source_id(self._source.name, where), unreadable.reason, letter, body)

    def _letter(self, read: SplitRecord | Unreadable) -> IngestFailure:
        time_ms = self._step.time_ms if read.file_time_ms is None else read.file_time_ms
        changed_only = not self._source.time
        return IngestFailure(
            id=read.id, time_ms=time_ms, changed_only=changed_only, encoding=read.encoding, metadata=read.metadata
        )

    def _forget_bodiless(self, record_id: str) -> None:
        if record_id in self._bodiless:
            self._bodiless.discard(record_id)
            resolve(self._records, record_id)


def _bodiless(records: Records, source: Source) -> set[str]:
    """Return the ids of dead letters without a body: the letters of files that could not be opened.

    The ingest resolves such a letter when it stores the file.
    """
    letters = letters_with(records, f"{SOURCES}{source.name}/")
    return {letter.id for letter in letters if letter.size is None and not is_row_letter(letter)}


def body_of(source: Source, record: SplitRecord, time_ms: int) -> NewBody:
    """Return the body to store for a record of a document, with its time and metadata."""
    return NewBody(
        id=source_id(source.name, record.id),
        body=record.body,
        source_time_ms=time_of(record, time_ms),
        metadata=metadata_of(source, record),
        newer_only=True,
        changed_only=record.time_ms is None,
    )


def time_of(record: SplitRecord, time_ms: int) -> int:
    """Return the record's own time, else the time of its file, else ``time_ms``."""
    return next((time for time in (record.time_ms, record.file_time_ms) if time is not None), time_ms)


def metadata_of(source: Source, record: SplitRecord) -> dict[str, Any]:
    """Return the metadata to store with a record."""
    metadata: dict[str, Any] = {"format": source.format}
    if (
        stored_id(record.id) != record.id
        and len(record.id.encode(errors="surrogatepass")) <= CATALOGUE_ID_STORED_BYTES_MAX
    ):
        metadata["id"] = record.id
    encoding = {} if record.encoding in ("", UTF8) else {"encoding": record.encoding}
    for name, value in {**encoding, **record.metadata}.items():
        # The namespaces around a record may be too long. A value that does not fit is left out.
        if len(msgspec.json.encode({**metadata, name: value})) <= CATALOGUE_METADATA_BYTES_MAX:
            metadata[name] = value
    return metadata


def _file_digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _file_parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(PIECE_BYTES):
            yield part
