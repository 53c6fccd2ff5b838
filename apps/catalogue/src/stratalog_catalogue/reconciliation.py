"""Reconciliation of works with their sources' records: a scan makes the works that are out of date, or all works.

A work's metadata names the record's version and the transformer that the work was made with. So a scan can stop at any
point, and the next scan finds the works that are still out of date. Concurrent scans make some works twice, with the
same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import msgspec

from stratalog import LimitExceeded, NewBody, NotFound, Records, RecordVersion, StratalogError
from stratalog_catalogue.ingest import IngestFailure, fail, failure_of, resolve
from stratalog_catalogue.letters import ignore_damage
from stratalog_catalogue.limits import CATALOGUE_RECORD_BYTES_MAX
from stratalog_catalogue.model import encode_work
from stratalog_catalogue.names import SOURCES, WORKS, parts_of
from stratalog_catalogue.sources import Source
from stratalog_catalogue.transformers import Given, transformer

__all__ = ["ReconciliationCounts", "reconcile_records"]

TITLE_CHARACTERS = 160
KIND_CHARACTERS = 40


class ReconciliationCounts(msgspec.Struct):
    """The outcomes of a scan of some records, and statistics of these records."""

    looked_at: int = 0
    made: int = 0
    """Works stored as a new version."""

    same: int = 0
    """Works that were up to date, or were made again with the same bytes."""

    deleted: int = 0
    failed: int = 0
    rows: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter)
    """Counts by format, kind and unit. The units are records, versions and bytes."""

    titles: list[tuple[str, str]] = []
    """Each work with its title, in order."""

    def add(self, other: ReconciliationCounts) -> None:
        """Add the counts of ``other`` to these counts, without its titles."""
        for name in ("looked_at", "made", "same", "deleted", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.rows.update(other.rows)


def reconcile_records(
    records: Records, source: Source, record_ids: Sequence[str], everything: bool
) -> ReconciliationCounts:
    """Make the out-of-date works of these records of a source. With ``everything``, make all works of these records.

    ``record_ids`` are ids of the store, in ascending order. If no work can be made of a record, the work becomes a dead
    letter. A scan without ``everything`` tries the work again only with a new version of the record or transformer.
    """
    scan = _Scan(records, source, record_ids, everything)
    for stored in records.put_many(scan.works()):
        if stored.error is not None:
            raise stored.error
        scan.tally.made += stored.new
        scan.tally.same += not stored.new
        if stored.id in scan.dead:
            resolve(records, stored.id)
    return scan.tally


class _Scan:
    """One scan of some records of a source."""

    def __init__(self, records: Records, source: Source, record_ids: Sequence[str], everything: bool) -> None:
        self.tally = ReconciliationCounts(titles=[])
        self._records = records
        self._source = source
        self._record_ids = record_ids
        self._everything = everything
        self._transformer = transformer(source.transformer)
        self.dead = _letters(records, record_ids)

    def works(self) -> Iterator[NewBody]:
        """Yield the works to store. Delete the works of deleted records, and count up-to-date works and failures."""
        for record in self._record_ids:
            self.tally.looked_at += 1
            work = _work_of(record)
            if not self._everything and self._is_up_to_date(record, work):
                continue
            try:
                version, body = self._read(record)
            except NotFound:
                self._delete(work)
                if work in self.dead:
                    resolve(self._records, work)  # the record is gone, so no work can be made of it
                continue
            made = self._made(work, version, body)
            if made is not None:
                yield made

    def _read(self, record: str) -> tuple[RecordVersion, bytes]:
        try:
            got = self._records.get(record, size_max=CATALOGUE_RECORD_BYTES_MAX)
            return got.version, got.body
        except LimitExceeded:
            return self._records.stat(record), b""

    def _is_up_to_date(self, record: str, work: str) -> bool:
        """Return whether the work was made, or failed to be made, from the newest version with this transformer.

        A deleted record is up to date if it has no work or its work is deleted.
        """
        record_version = self._records.stat(record)
        if work in self.dead:
            letter = self._records.failure(work)
            failure = (failure_of(letter) if letter else None) or IngestFailure(id="")
            current = (failure.version, failure.transformer) == (record_version.version, self._transformer.name)
            self.tally.failed += current
            return current
        try:
            work_version = self._records.stat(work)
        except NotFound:
            return record_version.deleted
        if record_version.deleted or work_version.deleted:
            return record_version.deleted and work_version.deleted
        if (work_version.metadata.get("v"), work_version.metadata.get("t")) != (
            record_version.version,
            self._transformer.name,
        ):
            return False
        self.tally.same += 1
        self._see(work, record_version, work_version.metadata)
        return True

    def _made(self, work: str, version: RecordVersion, body: bytes) -> NewBody | None:
        """Return the work of a record, or None after a failure, which becomes a dead letter."""
        id = str(version.metadata.get("id") or parts_of(work)[1])
        form = str(version.metadata.get("format", self._source.format))
        try:
            encoding = str(version.metadata.get("encoding", ""))
            made = self._transformer.make(Given(self._source.name, id, form, body, version.size, encoding))
            stored = encode_work(made)
        except (StratalogError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as exc:
            self.tally.failed += 1
            letter = IngestFailure(id=id, version=version.version, transformer=self._transformer.name)
            fail(self._records, work, f"{type(exc).__name__}: {exc}", letter, None)
            return None
        metadata = {
            "f": form,
            "k": made.kind[:KIND_CHARACTERS],
            "n": made.title[:TITLE_CHARACTERS],
            "t": self._transformer.name,
            "v": version.version,
        }
        self._see(work, version, metadata)
        return NewBody(id=work, body=stored, metadata=metadata)

    def _see(self, work: str, version: RecordVersion, metadata: Mapping[str, Any]) -> None:
        """Add a record that has a work to the statistics."""
        form, kind = str(metadata.get("f", "")), str(metadata.get("k", ""))
        rows = self.tally.rows
        rows[form, kind, "records"] += 1
        rows[form, kind, "versions"] += version.version
        rows[form, kind, "bytes"] += version.size
        self.tally.titles.append((work, str(metadata.get("n", ""))))

    def _delete(self, work: str) -> None:
        try:
            if not self._records.stat(work).deleted:
                self._records.delete(work)
                self.tally.deleted += 1
        except NotFound:
            return


def _letters(records: Records, record_ids: Sequence[str]) -> set[str]:
    """Return the ids of the works of these records that are dead letters."""
    if not record_ids:
        return set()
    first, last = _work_of(record_ids[0]), _work_of(record_ids[-1])
    between = takewhile(lambda letter: letter.id <= last, records.dead_letters(first, damaged=ignore_damage))
    dead = {letter.id for letter in between}
    return dead if records.failure(first) is None else dead | {first}


def _work_of(record: str) -> str:
    return WORKS + record.removeprefix(SOURCES)
