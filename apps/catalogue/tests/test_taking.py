"""Ingest stores newer records, writes nothing for equal records, skips no record, and makes failures dead letters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stratalog
from apps.catalogue.tests.helpers import DAY_NS, PACKAGE, START_NS, Catalogue
from stratalog import NotFound, Unavailable
from stratalog.testing.clock import ManualClock
from stratalog_catalogue import record_splitter
from stratalog_catalogue.folder import Step, poll_folder
from stratalog_catalogue.ingest import take
from stratalog_catalogue.names import source_id, stored_id, work_id
from stratalog_catalogue.record_splitter import SplitRecord, Unreadable, split, time_ms_of
from stratalog_catalogue.redrive import redrive
from stratalog_catalogue.sources import Source

BOMB = b"""<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;">]><a><id>&c;</id></a>"""


def written(catalogue: Catalogue) -> list[tuple[str, int]]:
    return [(line.id, catalogue.records.stat(line.id).version) for line in catalogue.records.list(prefix="source/")]


def test_a_poll_stores_new_records_and_the_next_poll_writes_nothing(catalogue: Catalogue) -> None:
    catalogue.add()
    catalogue.write_packages({"bash": "5.2", "zsh": "5.9"})
    assert (catalogue.poll().taken.new, catalogue.ids("source/debian/")) == (2, ["bash/amd64", "zsh/amd64"])
    before = written(catalogue)
    assert catalogue.poll().taken.read == 0
    assert written(catalogue) == before


def test_a_newer_state_makes_versions_of_changed_records_and_deletes_missing_records(catalogue: Catalogue) -> None:
    catalogue.add()
    catalogue.write_packages({"bash": "5.2", "dash": "0.5", "zsh": "5.9"})
    catalogue.poll()
    catalogue.write_packages({"bash": "5.3", "zsh": "5.9"}, day=2)
    taken = catalogue.poll().taken
    assert (taken.new, taken.same, taken.deleted) == (1, 1, 1)
    assert catalogue.ids("source/debian/") == ["bash/amd64", "zsh/amd64"]
    assert catalogue.records.stat("source/debian/dash/amd64").version == 2


def test_an_older_state_that_comes_late_changes_nothing(catalogue: Catalogue) -> None:
    catalogue.add()
    catalogue.write_packages({"bash": "5.3", "zsh": "5.9"}, day=5)
    catalogue.poll()
    before = written(catalogue)
    # The older state also lacks a record.
    catalogue.write(PACKAGE.format(name="bash", version="5.2"), name="late", day=3)
    polled = catalogue.poll()
    assert (polled.reason, polled.taken.new, polled.taken.deleted, written(catalogue)) == ("", 0, 0, before)
    assert b"5.3" in catalogue.records.get("source/debian/bash/amd64").body


def test_a_state_with_an_unreadable_record_deletes_nothing(catalogue: Catalogue) -> None:
    catalogue.add()
    catalogue.write_packages({"bash": "5.2", "zsh": "5.9"})
    catalogue.poll()
    catalogue.write("Package: zsh\nArchitecture: amd64\n\nno field that matters: 1\n", day=2)
    taken = catalogue.poll().taken
    assert (taken.failed, taken.deleted) == (1, 0)
    assert catalogue.ids("source/debian/") == ["bash/amd64", "zsh/amd64"]


def test_a_records_own_time_decides_which_is_newer(catalogue: Catalogue) -> None:
    catalogue.add("books", format="json", transformer="plain", id="id", time="changed", records="items", complete=False)

    def take(title: str, changed: str, day: int) -> int:
        body = {"items": [{"id": 7, "title": title, "changed": changed}]}
        catalogue.write(msgspec.json.encode(body), source="books", name="books.json", day=day)
        return catalogue.poll().taken.new

    assert take("first", "2024-01-02T00:00:00Z", 1) == 1
    assert take("older", "2024-01-01T00:00:00Z", 2) == 0
    assert take("second", "2024-01-03T00:00:00Z", 3) == 1
    assert [record.version for record in catalogue.records.versions("source/books/7")] == [1, 2]


def test_a_crash_before_the_checkpoint_repeats_records_and_skips_none(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.add()
    catalogue.write_packages({f"p{n}": "1" for n in range(50)})

    def crash(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("stratalog_catalogue.polls._save_checkpoint", crash)
        with pytest.raises(KeyboardInterrupt):
            catalogue.poll()
    taken = catalogue.poll().taken
    assert (taken.read, taken.new, taken.same) == (50, 0, 50)


def test_files_ingested_in_the_same_step_have_separate_times(catalogue: Catalogue) -> None:
    source = catalogue.add("books", format="json", transformer="plain", id="id", complete=False)
    for day in range(5):
        catalogue.write(b'{"id": %d}' % day, source="books", name=f"{day}.json", day=day)
    catalogue.write(b'{"id": 0, "title": "newer"}', source="books", name="a.json", day=9)
    assert len(list(poll_folder(source, {}, ManualClock()))) == 1
    assert catalogue.poll().taken.new == 6
    times = [catalogue.records.stat(f"source/books/{n}").source_time_ms for n in range(5)]
    assert times == [(START_NS + day * DAY_NS) // 1_000_000 for day in (9, 1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("form", "text", "ids"),
    [
        ("json", b'[{"id": 1}, {"id": "b"}]', ["1", "b"]),
        ("jsonl", b'{"id": 1}\n\n{"id": 2}\n', ["1", "2"]),
        ("csv", "\ufeffid,title\r\n1,\u00e9\r\n2,b\r\n".encode(), ["1", "2"]),
        ("rfc822", b"id: 1\ntext: a\n b\n\n\nid: 2\n", ["1", "2"]),
        ("xml", b"<r xmlns='x'><i><id>1</id></i><o/><i><id>2</id></i></r>", ["1", "2"]),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_every_format_is_cut_into_records_however_its_bytes_arrive(
    form: str, text: bytes, ids: list[str], size: int
) -> None:
    source = Source(name="s", adapter="folder", location="", format=form, records="i" if form == "xml" else "")  # type: ignore[arg-type]
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert [record.id for record in split(source, pieces, "file") if isinstance(record, SplitRecord)] == ids


@pytest.mark.parametrize(("form", "limit"), [("jsonl", "RECORD"), ("json", "DOCUMENT")])
def test_a_record_or_document_without_end_is_unreadable_beyond_a_limit(
    form: Any, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_splitter, f"CATALOGUE_{limit}_BYTES_MAX", 100)
    source = Source(name="s", adapter="folder", location="", format=form)
    (unreadable,) = split(source, itertools.repeat(b"x" * 30), "file")
    assert isinstance(unreadable, Unreadable)
    assert "limit=100" in unreadable.reason


def test_xml_whose_document_type_has_declarations_becomes_a_dead_letter(catalogue: Catalogue) -> None:
    catalogue.add("feed", format="xml", records="a", id="id", complete=False)
    catalogue.write(BOMB, source="feed", name="bomb.xml")
    assert catalogue.poll().taken.failed == 1
    (letter,) = catalogue.records.dead_letters()
    assert "document type" in letter.reason


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8"])
def test_an_xml_bomb_is_refused_in_utf_16_and_in_utf_8_and_in_any_pieces(encoding: str) -> None:
    source = Source(name="s", adapter="folder", location="", format="xml", records="a")
    text = BOMB.decode().removeprefix('<?xml version="1.0"?>').encode(encoding)
    for size in (1, 13, len(text)):
        pieces = (text[start : start + size] for start in range(0, len(text), size))
        (unreadable,) = split(source, pieces, "file")
        assert isinstance(unreadable, Unreadable)
        assert "document type" in unreadable.reason


def test_bad_records_become_dead_letters_and_the_other_records_are_stored(catalogue: Catalogue) -> None:
    catalogue.add("lines", format="jsonl", transformer="plain", id="id", complete=False)
    catalogue.write(b'{"id": 1}\n{broken\n{"no": "id"}\n{"id": 2}\n', source="lines", name="a.jsonl")
    taken = catalogue.poll().taken
    assert (taken.new, taken.failed) == (2, 2)
    letters = list(catalogue.records.dead_letters())
    assert [b"".join(catalogue.records.open_dead_letter(letter.id)) for letter in letters] == [
        b"{broken",
        b'{"no": "id"}',
    ]


def test_a_redrive_stores_the_record_of_a_letter_whose_cause_is_fixed(catalogue: Catalogue) -> None:
    catalogue.add("lines", format="jsonl", transformer="plain", id="isbn", complete=False)
    catalogue.write(b'{"id": 1, "title": "a"}\n', source="lines", name="a.jsonl")
    catalogue.poll()
    assert [result.resolved for result in redrive(catalogue.store, "acme", catalogue.connect)] == [False]
    catalogue.add("lines", format="jsonl", transformer="plain", id="id", complete=False)
    assert [result.resolved for result in redrive(catalogue.store, "acme", catalogue.connect)] == [True]
    assert catalogue.ids("source/lines/") == ["1"]
    assert list(catalogue.records.dead_letters()) == []


def test_a_file_that_could_not_be_read_is_read_again_by_a_redrive(catalogue: Catalogue) -> None:
    catalogue.add("books", format="json", transformer="plain", id="id", complete=False)
    catalogue.write(b'[{"id": 1}', source="books", name="a.json")
    assert catalogue.poll().taken.failed == 1
    catalogue.write(b'[{"id": 1}]', source="books", name="a.json")
    assert [result.resolved for result in redrive(catalogue.store, "acme", catalogue.connect)] == [True]
    assert catalogue.ids("source/books/") == ["1"]


def test_a_source_unavailable_for_five_polls_becomes_a_dead_letter_that_a_redrive_resolves(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue.store.environment.clock, "sleep", lambda seconds: None)
    catalogue.add(location=str(catalogue.folder / "away"))
    assert [catalogue.poll().dead for _ in range(5)] == [False] * 4 + [True]
    (catalogue.folder / "away").mkdir()
    assert [result.resolved for result in redrive(catalogue.store, "acme", catalogue.connect)] == [True]
    assert list(catalogue.records.dead_letters()) == []


def test_a_large_file_is_a_record_of_its_own(catalogue: Catalogue) -> None:
    catalogue.add("scans", format="file", transformer="plain", complete=False)
    large = bytes(range(256)) * 4000
    catalogue.write(large, source="scans", name="box 1.tiff")
    assert catalogue.poll().taken.new == 1
    assert b"".join(catalogue.records.open("source/scans/box 1.tiff")) == large
    assert catalogue.scan().made == 1


def test_long_ids_are_shortened_to_different_ids(catalogue: Catalogue) -> None:
    ids = ["\u00e9" * 460 + str(n) for n in range(3)]
    catalogue.add("lines", format="jsonl", transformer="plain", id="id", complete=False)
    lines = b"\n".join(msgspec.json.encode({"id": id}) for id in ids)
    catalogue.write(lines, source="lines", name="a.jsonl")
    assert catalogue.poll().taken.new == 3
    catalogue.scan()
    for id in ids:
        assert catalogue.records.stat(source_id("lines", id)).metadata["id"] == id
        assert msgspec.json.decode(catalogue.records.get(work_id("lines", id)).body)["id"] == id
    assert stored_id("short") == "short"


@pytest.mark.parametrize("text", ["2024-01-02T03:04:05Z", "Tue, 02 Jan 2024 03:04:05 GMT", "1704164645", 1704164645])
def test_a_time_is_read_in_any_of_the_usual_ways(text: str | int) -> None:
    assert time_ms_of(text) == 1_704_164_645_000


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2023", 1_672_531_200_000),
        (2023, 1_672_531_200_000),
        ("2023-05", 1_682_899_200_000),
        ("20230501", 1_682_899_200_000),
        ("1704164645000", 1_704_164_645_000),
        ("86400", 86_400_000),
    ],
)
def test_a_number_is_read_as_a_year_a_month_a_day_milliseconds_or_seconds(text: str | int, moment: int) -> None:
    assert time_ms_of(text) == moment


def test_a_store_that_cannot_be_reached_ends_the_poll_and_moves_no_checkpoint(tmp_path: Path) -> None:
    # A put retries for ten seconds, so the test uses a simulated clock.
    catalogue = Catalogue(stratalog.open("memory:", clock=ManualClock()), tmp_path)
    catalogue.add()
    catalogue.write_packages({"bash": "1"})
    real = catalogue.store.environment.index.commit

    def away(*_: object) -> None:
        raise Unavailable("away")

    catalogue.store.environment.index.commit = away  # type: ignore[method-assign,assignment]
    with pytest.raises(Unavailable):
        catalogue.poll()
    catalogue.store.environment.index.commit = real  # type: ignore[method-assign]
    with pytest.raises(NotFound):
        catalogue.records.get("catalogue/checkpoint/debian")
    assert catalogue.poll().taken.new == 1


@pytest.mark.parametrize("form", ["json", "csv", "rfc822"])
@pytest.mark.parametrize("complete", [False, True])
def test_records_of_one_file_that_share_an_id_and_differ_are_counted(
    catalogue: Catalogue, form: str, complete: bool
) -> None:
    texts = {
        "json": '[{"id": 1, "t": "a"}, {"id": 1, "t": "a"}, {"id": 1, "t": "b"}, {"id": 2, "t": "a"}]',
        "csv": "id,t\n1,a\n1,a\n1,b\n2,a\n",
        "rfc822": "id: 1\nt: a\n\nid: 1\nt: a\n\nid: 1\nt: b\n\nid: 2\nt: a\n",
    }
    catalogue.add(format=form, transformer="plain", id="id", complete=complete)
    catalogue.write(texts[form])
    taken = catalogue.poll().taken
    assert (taken.read, taken.new, taken.same, taken.conflicting) == (4, 2, 2, 1)


def test_the_records_before_an_error_of_their_step_are_stored(catalogue: Catalogue) -> None:
    source = catalogue.add(format="json", transformer="plain", id="id", complete=False)

    def read() -> Iterator[SplitRecord]:
        yield SplitRecord(id="a", body=b"{}")
        yield SplitRecord(id="b", body=b"{}")
        raise Unavailable("the source ends the connection")

    with pytest.raises(Unavailable):
        take(catalogue.records, source, Step(read(), {}, 1, is_complete=True))
    assert catalogue.ids("source/debian/") == ["a", "b"]
