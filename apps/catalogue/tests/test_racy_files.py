"""Files that change twice within one tick of the file system's clock, and keep their time and size."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from apps.catalogue.tests.helpers import Catalogue
from stratalog.errors import NotFound
from stratalog.testing.clock import ManualClock
from stratalog_catalogue import folder
from stratalog_catalogue.ingest import IngestCounts
from stratalog_catalogue.limits import CATALOGUE_FILE_TICK_SECONDS_MAX
from stratalog_catalogue.polls import poll_source
from stratalog_catalogue.redrive import redrive
from stratalog_catalogue.sources import Source

TICK_NS = 1_700_000_000_000_000_000
TICK_MS = TICK_NS // 1_000_000


class Folder:
    """A polled folder whose files have the times of a coarse clock. ``clock`` is the clock of the polls."""

    def __init__(self, catalogue: Catalogue, **settings: Any) -> None:
        given = {"format": "json", "transformer": "plain", "id": "id", "complete": False}
        self.source: Source = catalogue.add("books", **{**given, **settings})
        self.clock = ManualClock(TICK_MS)
        self.catalogue = catalogue

    def write(self, text: str, name: str = "a.json", *, time_ns: int = TICK_NS) -> None:
        path = Path(self.source.location) / name
        path.write_text(text)
        os.utime(path, ns=(time_ns, time_ns))

    def poll(self) -> IngestCounts:
        polled = poll_source(self.catalogue.records, self.source, self.catalogue.connect, self.clock)
        assert not polled.reason
        return polled.taken

    def body(self, id: str) -> bytes:
        return self.catalogue.records.get(f"source/books/{id}").body


KINDS = {
    "records": ({}, "7"),
    "states": ({"complete": True}, "7"),
    "files": ({"format": "file"}, "a.json"),
    "mirror": ({"format": "file", "complete": True}, "a.json"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_of_the_same_size_and_time_is_read(catalogue: Catalogue, kind: str) -> None:
    settings, id = KINDS[kind]
    books = Folder(catalogue, **settings)
    for number in range(4):
        books.write(f'{{"id": 7, "title": "{number}"}}')
        books.clock.sleep(0.4)
        assert books.poll().new == 1
        assert f'"title": "{number}"'.encode() in books.body(id) or b'"title":"%d"' % number in books.body(id)
    books.clock.sleep(10)
    assert books.poll().read == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_in_a_later_tick_is_read_after_a_change_within_a_tick(catalogue: Catalogue, kind: str) -> None:
    settings, id = KINDS[kind]
    books = Folder(catalogue, **settings)
    for number, tick_ns in enumerate((0, 0, 1000, 1_000_000, 2_000_000)):
        books.write(f'{{"id": 7, "title": "{number}"}}', time_ns=TICK_NS + tick_ns)
        assert books.poll().new == 1
    assert b"4" in books.body(id)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_replaced_by_a_file_with_an_older_time_is_read(catalogue: Catalogue, kind: str) -> None:
    settings, id = KINDS[kind]
    books = Folder(catalogue, **settings)
    books.write('{"id": 7, "title": "first"}')
    assert books.poll().new == 1
    for days in (2, 1):
        books.write(f'{{"id": 7, "title": "older {days}"}}', time_ns=TICK_NS - days * 86_400 * 10**9)
        assert books.poll().new == 1
        assert b"older %d" % days in books.body(id)
    assert books.poll().read == 0


def test_an_older_state_that_is_replaced_does_not_replace_the_newest_state(catalogue: Catalogue) -> None:
    books = Folder(catalogue, complete=True)
    for number, name in enumerate(("a.json", "b.json")):
        books.write(f'{{"id": 7, "title": "{name}"}}', name, time_ns=TICK_NS + number * 10**9)
    assert books.poll().new == 2
    books.write('{"id": 7, "title": "an older state"}', "a.json", time_ns=TICK_NS - 10**9)
    assert books.poll().read == 0
    assert b"b.json" in books.body("7")


def test_an_unchanged_file_is_hashed_only_until_its_tick_is_over(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    real = folder._hash
    monkeypatch.setattr(folder, "_hash", lambda file: hashed.append(file.id) or real(file))
    books = Folder(catalogue)
    books.write('{"id": 7}')
    books.poll()
    books.clock.sleep(CATALOGUE_FILE_TICK_SECONDS_MAX)
    assert books.poll().read == 0
    assert len(hashed) == 2
    books.clock.sleep(0.001)
    assert books.poll().read == 0
    assert len(hashed) == 3
    assert books.poll().read == 0
    assert len(hashed) == 3


def test_a_file_that_is_older_than_a_tick_is_not_hashed(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    books = Folder(catalogue)
    books.write('{"id": 7}')
    books.clock.sleep(CATALOGUE_FILE_TICK_SECONDS_MAX + 0.001)
    monkeypatch.delattr(folder, "_hash")
    assert (books.poll().new, books.poll().read) == (1, 0)


def test_a_file_with_a_time_in_the_future_is_hashed(catalogue: Catalogue) -> None:
    books = Folder(catalogue)
    for title in "ab":
        books.write(f'{{"id": 7, "title": "{title}"}}', time_ns=TICK_NS + 10**13)
        assert books.poll().new == 1


def test_a_state_that_is_read_again_does_not_hide_another_file_of_the_same_tick(catalogue: Catalogue) -> None:
    books = Folder(catalogue, complete=True)
    for title in "ab":
        books.write(f'{{"id": 7, "title": "{title}"}}')
        books.poll()
    books.write('{"id": 7, "title": "c"}', "b.json")
    assert books.poll().new == 1
    assert b'"c"' in books.body("7")


def test_a_state_that_a_redrive_reads_again_is_later_than_all_states_of_its_tick(catalogue: Catalogue) -> None:
    settings: dict[str, Any] = {"format": "jsonl", "complete": True}
    books = Folder(catalogue, **settings)
    for state in ('{"id": 7}\n{"id": 8}', '{"id": 7}\n{"id": 8}\n{"id": 9}'):
        books.write(state)
        assert books.poll().new > 0
    books = Folder(catalogue, **settings, time="changed")
    books.write('{"id": 7, "changed": "2020"}\n{"id": 10, "changed": "soon"}')
    assert (books.poll().failed, len(catalogue.ids("source/books/"))) == (1, 3)
    books = Folder(catalogue, **settings)
    assert [letter.resolved for letter in redrive(catalogue.store, "acme", catalogue.connect)] == [True]
    assert (books.poll().deleted, catalogue.ids("source/books/")) == (2, ["10", "7"])


def test_a_mirror_deletes_a_removed_newest_file_and_stores_it_again_when_it_reappears(catalogue: Catalogue) -> None:
    books = Folder(catalogue, format="file", complete=True)
    for number, name in enumerate(("a.json", "b.json")):
        books.write(f'{{"title": "{number}"}}', name, time_ns=TICK_NS + number * 10**9)
    assert books.poll().new == 2
    newest = Path(books.source.location) / "b.json"
    away = newest.rename(newest.parent.parent / "b.json")
    books.clock.sleep(60)
    assert books.poll().deleted == 1
    with pytest.raises(NotFound):
        books.body("b.json")
    away.rename(newest)
    assert books.poll().new == 1
    assert b'"1"' in books.body("b.json")
    assert books.poll().read == 0
