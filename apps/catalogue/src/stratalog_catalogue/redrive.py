"""Redrive of dead letters. A redrive reads a record from its letter, makes a work again, or polls a source again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from stratalog import DeadLetter, Records, Store
from stratalog.errors import Corrupt
from stratalog_catalogue.encodings import UTF8, is_utf8
from stratalog_catalogue.folder import Step, is_mirror, read_file, suffix_of, unpacked
from stratalog_catalogue.ingest import (
    IngestFailure,
    fail,
    failure_of,
    is_row_letter,
    metadata_of,
    resolve,
    take,
    take_record,
)
from stratalog_catalogue.letters import ignore_damage
from stratalog_catalogue.names import SOURCES, WORKS, source_of_letter
from stratalog_catalogue.polls import Connect, poll_source, read_state_again, reason_of
from stratalog_catalogue.reconciliation import reconcile_records
from stratalog_catalogue.record_splitter import SplitRecord, Unreadable, split
from stratalog_catalogue.sources import Source, forget_checkpoint, read_source

__all__ = ["Redriven", "redrive"]

_POSITION = re.compile(r"#[0-9]+$")


class Redriven(msgspec.Struct, frozen=True):
    """The outcome for one dead letter.

    After a failed retry the letter stays, unless a poll resolved the letter and then failed.
    """

    id: str
    resolved: bool
    reason: str = ""


def redrive(store: Store, organisation: str, connect: Connect, *, sources: tuple[str, ...] = ()) -> Iterator[Redriven]:
    """Retry each dead letter of these sources, or of all sources, and yield each outcome.

    The function skips letters of other programs in the organisation. After the retries it yields each damaged letter
    but the last, with its error as the reason, and raises Corrupt for the last.
    """
    records = store.records(organisation)
    polled: dict[str, str] = {}
    errors = list[Corrupt]()
    for letter in list(records.dead_letters(damaged=errors.append)):
        name = source_of_letter(letter.id)
        if name is None or (sources and name not in sources):
            continue
        try:
            source = read_source(records, name)
            reason = _try(store, records, source, letter, connect, polled)
        except Exception as exc:  # noqa: BLE001 - an error of one letter must not stop the retries of other letters
            reason = reason_of(exc)
        yield Redriven(letter.id, not reason, reason)
    for error in errors[:-1]:
        yield Redriven(str(error.details["sort"]), False, str(error))
    if errors:
        raise errors[-1]


def _try(
    store: Store, records: Records, source: Source, letter: DeadLetter, connect: Connect, polled: dict[str, str]
) -> str:
    """Retry a letter. Return "" if the retry succeeded, else the reason of the failure.

    ``polled`` has each source that this redrive has polled, with the reason if the poll failed.
    """
    if letter.id.startswith(WORKS):
        record = SOURCES + letter.id.removeprefix(WORKS)
        return _reason_left(records, letter) if reconcile_records(records, source, [record], True).failed else ""
    if letter.id.startswith(SOURCES) and is_row_letter(letter):
        return f"run the migration again: {letter.reason}"
    if letter.id.startswith(SOURCES) and letter.size is not None:
        reason = _take_stored_body(records, source, letter)
        if source.complete and not reason:
            # The poll that made the letter deleted no record, because a record of the source's state had failed. So the
            # next poll must read this state again.
            read_state_again(records, source)
        return reason
    if source.name not in polled:
        polled[source.name] = _poll_anew(store, records, source, letter, connect)
    return polled[source.name] or _reason_left(records, letter)


def _take_stored_body(records: Records, source: Source, letter: DeadLetter) -> str:
    """Read a letter's body with the source's present settings, and store the body's record or records.

    If the letter of a record names an encoding, it replaces the encoding in the settings. Return the reason of a
    failure, or "".
    """
    failure = failure_of(letter)
    if failure is None:
        return "the letter has no data for a redrive"
    if failure.document:
        return _take_document(records, source, letter, failure)
    if source.format == "file":
        metadata = metadata_of(source, SplitRecord(id=failure.id, metadata=failure.metadata))
        records.put_if_newer(letter.id, records.open_dead_letter(letter.id), failure.time_ms, metadata=metadata)
        resolve(records, letter.id)
        return ""
    body = b"".join(records.open_dead_letter(letter.id))
    reason = "the body contains no record"
    for record in split(_single_record_source(source, failure, body), [body], failure.id):
        if isinstance(record, SplitRecord):
            record = msgspec.structs.replace(record, metadata={**failure.metadata, **record.metadata})
            take_record(records, source, record, failure.time_ms)
            resolve(records, letter.id)
            return ""
        reason = record.reason
    fail(records, letter.id, reason, failure, body)
    return reason


def _take_document(records: Records, source: Source, letter: DeadLetter, failure: IngestFailure) -> str:
    """Store all records of the file or answer in a letter. Return the reason of a failure, or "".

    If the source is a folder and the letter's document is still unreadable, the function reads the file as it is now.
    """
    pieces = records.open_dead_letter(letter.id)
    if source.adapter == "folder":
        pieces = unpacked(pieces, suffix_of(failure.id))
    # A page's letter has the charset of its response, which counts only if the settings name no encoding.
    encoding = source.encoding or failure.encoding
    if source.format == "csv" and _POSITION.search(failure.id):
        encoding = _encoding_of_part(source, failure, records.open_dead_letter(letter.id))
    lettered = msgspec.structs.replace(source, encoding=encoding)
    refused = _take_all(records, source, split(lettered, pieces, failure.id), failure.time_ms)
    if refused and source.adapter == "folder":
        read = read_file(source, failure.id)
        if read is not None and not _take_all(records, source, read, failure.time_ms):
            refused = []
    if refused:
        return refused[0]
    resolve(records, letter.id)
    return ""


def _take_all(records: Records, source: Source, read: Iterator[SplitRecord | Unreadable], time_ms: int) -> list[str]:
    """Store the readable records of a document, and make a dead letter of each unreadable record.

    If the document itself cannot be split to its end, return the reason in a list, else an empty list.
    """
    refused: list[str] = []

    def readable() -> Iterator[SplitRecord | Unreadable]:
        for record in read:
            if isinstance(record, Unreadable) and record.document:
                refused.append(record.reason)
            else:
                yield record if record.file_time_ms else msgspec.structs.replace(record, file_time_ms=time_ms)

    take(records, source, Step(readable(), {}, time_ms, is_current=False))
    return refused


def _poll_anew(store: Store, records: Records, source: Source, letter: DeadLetter, connect: Connect) -> str:
    """Poll a source from its beginning, or compare all files of a mirror. Return the reason of a failure, or "".

    After a poll without a failure, the function resolves each letter without a body that the poll did not write again.
    A poll that failed may not have read the files of these letters, so it resolves none of them.
    """
    prefix = f"{SOURCES}{source.name}/"
    before = [
        other
        for other in records.dead_letters(damaged=ignore_damage)
        if other.size is None and not is_row_letter(other) and (other.id.startswith(prefix) or other.id == letter.id)
    ]
    # A mirror keeps its checkpoint. Each poll of a mirror compares all files in any case, and without the checkpoint's
    # time, a deletion could have an earlier time than its record, and so have no effect.
    if not (is_mirror(source) and read_state_again(records, source)):
        forget_checkpoint(records, source.name)
    done = poll_source(records, source, connect, store.environment.clock)
    if done.reason:
        return done.reason
    for other in before:
        if records.failure(other.id) == other:  # a new failure changes the count
            resolve(records, other.id)
    return ""


def _reason_left(records: Records, letter: DeadLetter) -> str:
    """Return the reason of the failure that the retry counted for the letter, or "" if the letter is resolved."""
    again = records.failure(letter.id)
    return again.reason if again else ""


def _encoding_of_part(source: Source, failure: IngestFailure, pieces: Iterable[bytes]) -> str:
    """Return the encoding of a record or row that was split off its document."""
    if failure.encoding or not source.encoding:
        return failure.encoding or source.encoding
    # The letter names no encoding, so the text was read as UTF-8. If the text is valid UTF-8, UTF-8 is probably right:
    # earlier builds stored no encoding if a byte order mark named UTF-8. Other text needs the encoding in the settings,
    # which was declared after the failure.
    return UTF8 if is_utf8(pieces) else source.encoding


def _single_record_source(source: Source, failure: IngestFailure, body: bytes) -> Source:
    """Return the source with the settings to read a single record that was split off its document."""
    single = {"csv": "json", "jsonl": "json"}.get(source.format, source.format)
    encoding = _encoding_of_part(source, failure, [body])
    alone = msgspec.structs.replace(source, records="", format=single, encoding=encoding)
    if source.adapter == "oai":
        return msgspec.structs.replace(alone, id="header.identifier", time="header.datestamp")
    return alone
