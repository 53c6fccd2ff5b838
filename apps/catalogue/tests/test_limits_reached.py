"""The limits of the catalogue that no other test reaches. `docs/limits.md` names a test for each limit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from apps.catalogue.tests.helpers import Catalogue
from stratalog import Conflict
from stratalog_catalogue import ingest, polls, summary
from stratalog_catalogue.limits import CATALOGUE_METADATA_BYTES_MAX, CATALOGUE_RECORD_TRIES_MAX
from stratalog_catalogue.metrics import exposition
from stratalog_catalogue.record_splitter import SplitRecord

LINES = {"format": "jsonl", "transformer": "plain", "id": "id", "complete": False}


def test_a_value_that_does_not_fit_into_a_record_s_metadata_is_left_out(catalogue: Catalogue) -> None:
    source = catalogue.add("lines", **LINES)
    facts = {"namespaces": {"xmlns": "x" * CATALOGUE_METADATA_BYTES_MAX}}
    metadata = ingest.metadata_of(source, SplitRecord(id="1", encoding="latin-1", metadata=facts))
    assert metadata == {"format": "jsonl", "encoding": "latin-1"}
    assert len(msgspec.json.encode(metadata)) <= CATALOGUE_METADATA_BYTES_MAX


def test_a_record_in_constant_conflict_ends_the_poll_after_a_bounded_number_of_tries(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def changed(records: Any, source: Any, record: SplitRecord, time_ms: int) -> bool:
        tried.append(record.id)
        raise Conflict("somebody else was first")

    catalogue.add("scans", **{**LINES, "format": "file"})
    catalogue.write("x", source="scans", name="a")
    monkeypatch.setattr(ingest, "take_record", changed)
    monkeypatch.setattr(polls, "CATALOGUE_POLL_TRIES_MAX", 1)
    assert "somebody else was first" in catalogue.poll().reason
    assert len(tried) == CATALOGUE_RECORD_TRIES_MAX


def test_a_summary_counts_a_bounded_number_of_letters_and_reports_that_more_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(summary, "CATALOGUE_LETTERS_COUNTED_MAX", 2)
    assert summary._letters(["polls/a", "polls/b"]) == ({"a": 1, "b": 1}, False)
    assert summary._letters(["polls/a", "polls/b", "polls/c"]) == ({"a": 1, "b": 1}, True)


def test_a_source_named_more_is_counted_like_any_other(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "CATALOGUE_LETTERS_COUNTED_MAX", 2)
    for name in ("a", "more", "z"):
        catalogue.add(name, **LINES)
        catalogue.scan()
    for id in ("more/1", "more/2", "z/1"):
        ingest.fail(catalogue.records, f"source/{id}", "no id", ingest.IngestFailure(id=id), None)
    stats = summary.read_stats(catalogue.records)
    assert (stats.dead_letters, stats.more_dead_letters) == ({"more": 2}, True)
    letters = [line for line in exposition(stats).splitlines() if "dead_letters" in line and line[0] != "#"]
    # The count ends before the source z, so the metrics have no sample for z.
    assert letters == [
        'stratalog_catalogue_dead_letters{source="more"} 2',
        "stratalog_catalogue_more_dead_letters 1",
    ]
