"""The results of a scan: counts and titles of a source's works, stored so that a query needs no scan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice

import msgspec

from stratalog import NotFound, Records
from stratalog.struct_types import resolved
from stratalog_catalogue.limits import CATALOGUE_LETTERS_COUNTED_MAX
from stratalog_catalogue.names import SUMMARIES, TITLES, WORKS, source_of_letter
from stratalog_catalogue.reconciliation import ReconciliationCounts
from stratalog_catalogue.sources import read_sources

__all__ = ["Row", "Stats", "Summary", "read_stats", "read_titles", "write_summary"]

VERSIONS_RETAINED = 3


class Row(msgspec.Struct, frozen=True):
    """The records of one format that became works of one kind."""

    format: str
    kind: str
    records: int
    versions: int
    """The number of versions of these records, including pruned versions."""

    bytes: int
    """The size of the latest versions of these records."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a source from its last complete scan."""

    source: str
    as_of_ms: int
    works: int
    failed: int
    rows: tuple[Row, ...]


class Stats(msgspec.Struct, frozen=True):
    """The summaries of all sources, and the number of dead letters now."""

    sources: tuple[Summary, ...]
    not_scanned: tuple[str, ...]
    dead_letters: dict[str, int]
    """The number of dead letters of each source."""

    more_dead_letters: bool
    """Whether there are more than `CATALOGUE_LETTERS_COUNTED_MAX` dead letters. The further letters are not counted."""


def write_summary(records: Records, source: str, tally: ReconciliationCounts, now_ms: int) -> Summary:
    """Store the counts and titles of a complete scan. Titles equal to the stored titles are not stored again."""
    keys = sorted({key[:2] for key in tally.rows})
    rows = tuple(Row(*key, *(tally.rows[*key, what] for what in ("records", "versions", "bytes"))) for key in keys)
    summary = Summary(source=source, as_of_ms=now_ms, works=len(tally.titles), failed=tally.failed, rows=rows)
    lines = (f"{_written(work)}\t{' '.join(title.split())}\n" for work, title in tally.titles)
    for id, body in (
        (TITLES + source, "".join(lines).encode(errors="replace")),
        (SUMMARIES + source, msgspec.json.encode(summary)),
    ):
        records.put(id, body)
        records.prune(id, retain=VERSIONS_RETAINED)
    return summary


def read_stats(records: Records) -> Stats:
    """Return the counts of the last scans, and the number of dead letters. The function reads no source's records."""
    summaries: list[Summary] = []
    missing: list[str] = []
    for source in read_sources(records):
        try:
            summaries.append(msgspec.json.decode(records.get(SUMMARIES + source.name).body, type=resolved(Summary)))
        except NotFound:
            missing.append(source.name)
    return Stats(tuple(summaries), tuple(missing), *_letters(_letter_ids(records)))


def _letter_ids(records: Records) -> Iterator[str]:
    """Yield the ids of all dead letters. The id of a damaged letter follows that of the next readable letter."""
    damaged = list[str]()
    for letter in records.dead_letters(damaged=lambda error: damaged.append(str(error.details["sort"]))):
        yield letter.id
        yield from damaged
        damaged.clear()
    yield from damaged


def read_titles(records: Records, source: str) -> Iterator[tuple[str, str]]:
    """Yield the id and title of each work of a source, as of its last scan."""
    try:
        text = records.get(TITLES + source).body.decode()
    except NotFound:
        return
    begun = ""
    for line in text.split("\n"):
        # Earlier builds wrote each id as it is. A work's id may have tabs and line breaks. Its title has none.
        work, tab, title = f"{begun}{line}".rpartition("\t")
        begun = "" if tab else f"{title}\n"
        if work.startswith('"'):
            # The rest of an earlier build's id may begin with a quotation mark.
            with suppress(msgspec.DecodeError, RecursionError):
                work = msgspec.json.decode(work, type=str)
        if work.startswith(f"{WORKS}{source}/"):
            yield work, title


def _written(work: str) -> str:
    """Return a work's id without tabs and line breaks: an id with any of them is written as a JSON text."""
    return msgspec.json.encode(work).decode() if "\t" in work or "\n" in work else work


def _letters(ids: Iterable[str]) -> tuple[dict[str, int], bool]:
    """Return the number of the sources' dead letters by source, and whether there are more letters than the limit."""
    counted: dict[str, int] = {}
    rest = iter(ids)
    for id in islice(rest, CATALOGUE_LETTERS_COUNTED_MAX):
        source = source_of_letter(id)
        if source is not None:
            counted[source] = counted.get(source, 0) + 1
    return counted, next(rest, None) is not None
