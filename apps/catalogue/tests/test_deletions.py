"""Deletions by complete states that lack records, the limit of deletions, and paused and removed sources."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stratalog
from apps.catalogue.tests.helpers import Catalogue, catalogue_in, killed_after
from stratalog import LimitExceeded, NotFound, Records
from stratalog.testing.clock import ManualClock
from stratalog_catalogue.limits import CATALOGUE_DELETIONS_UNASKED_MAX
from stratalog_catalogue.polls import poll
from stratalog_catalogue.redrive import redrive
from stratalog_catalogue.sources import pause_source, read_source, remove_source, source_names


def write_books(catalogue: Catalogue, count: int, day: int) -> None:
    body = msgspec.json.encode([{"id": n} for n in range(count)])
    catalogue.write(body, source="books", name="books.json", day=day)


@pytest.fixture
def books(catalogue: Catalogue) -> Catalogue:
    catalogue.add("books", format="json", transformer="plain", id="id")
    write_books(catalogue, 200, 1)
    assert catalogue.poll().taken.new == 200
    return catalogue


@pytest.mark.parametrize(("count", "missing"), [(0, 200), (100, 100), (159, 41)])
def test_a_state_that_lacks_too_many_records_deletes_none_until_deletions_are_allowed(
    books: Catalogue, count: int, missing: int
) -> None:
    write_books(books, count, 2)
    for _ in range(2):
        outcome = books.poll()
        assert (outcome.taken.deleted, outcome.taken.withheld) == (0, missing)
        assert f"missing={missing} limit='20.0 %'" in outcome.reason
    assert len(books.ids("source/books/")) == 200
    (allowed,) = poll(books.store, "acme", books.connect, allow_deletions=True)
    assert (allowed.taken.deleted, allowed.taken.withheld, allowed.reason) == (missing, 0, "")
    assert len(books.ids("source/books/")) == count
    assert books.poll().taken.read == 0


def test_a_record_that_returns_with_its_own_earlier_time_is_stored_again(catalogue: Catalogue) -> None:
    catalogue.add("books", format="json", transformer="plain", id="id", time="changed")
    present, changed = ({"id": 1, "changed": f"2020-01-0{day}"} for day in (1, 2))
    for day, books in enumerate(([present], [], [present], [changed]), 1):
        catalogue.write(msgspec.json.encode([{"id": 2, "changed": "2020"}, *books]), source="books", day=day)
        (predicted,) = poll(catalogue.store, "acme", catalogue.connect, dry_run=True)
        assert predicted.taken == catalogue.poll().taken
    versions = list(catalogue.records.versions("source/books/1"))
    assert [version.deleted for version in versions] == [False, True, False, False]
    assert versions[0].source_time_ms == versions[2].source_time_ms
    assert catalogue.records.stat("source/books/2").version == 1


def test_a_state_that_lacks_few_records_deletes_them_without_permission(books: Catalogue) -> None:
    write_books(books, 160, 2)
    assert books.poll().taken.deleted == 40
    write_books(books, 160 - CATALOGUE_DELETIONS_UNASKED_MAX, 3)
    assert books.poll().taken.deleted == CATALOGUE_DELETIONS_UNASKED_MAX


def test_a_source_sets_the_percentage_of_records_that_a_state_may_delete(books: Catalogue) -> None:
    books.add("books", format="json", transformer="plain", id="id", deletions_percent_max=60.0)
    write_books(books, 100, 2)
    assert books.poll().taken.deleted == 100


def test_files_that_are_records_together_form_a_single_state(catalogue: Catalogue) -> None:
    catalogue.add("scans", format="file", transformer="plain")
    for day, name in enumerate("abc", 1):
        catalogue.write(name, source="scans", name=name, day=day)
    assert catalogue.poll().taken.new == 3
    catalogue.write("newer", source="scans", name="b", day=9)
    (catalogue.folder / "scans" / "a").unlink()
    taken = catalogue.poll().taken
    assert (taken.read, taken.new, taken.deleted) == (1, 1, 1)
    assert catalogue.ids("source/scans/") == ["b", "c"]
    assert catalogue.poll().taken.read == 0


@pytest.fixture
def scans(tmp_path: Path) -> Catalogue:
    """A folder of the files a, b and c, each a record. The newest file, c, is removed after the first poll."""
    catalogue = catalogue_in(tmp_path)
    catalogue.add("scans", format="file", transformer="plain")
    for day, name in enumerate("abc", 1):
        catalogue.write(name, source="scans", name=name, day=day)
    assert catalogue.poll().taken.new == 3
    (catalogue.folder / "scans" / "c").unlink()
    return catalogue


def versions(catalogue: Catalogue) -> dict[str, int]:
    return {id: catalogue.records.stat(f"source/scans/{id}").version for id in catalogue.ids("source/scans/")}


@pytest.mark.parametrize("is_redriven", [False, True])
def test_a_file_that_was_removed_when_another_file_was_refused_is_deleted_later(
    scans: Catalogue, monkeypatch: pytest.MonkeyPatch, is_redriven: bool
) -> None:
    scans.write("A", source="scans", name="a", day=2)
    with monkeypatch.context() as patch:
        patch.setattr(Records, "put_if_newer", refused)
        assert (scans.poll().taken.failed, versions(scans)) == (1, {"a": 1, "b": 1, "c": 1})
    if is_redriven:
        assert [letter.resolved for letter in redrive(scans.store, "acme", scans.connect)] == [True]
    else:
        # The file is older than the removed file.
        scans.write("smaller", source="scans", name="a", day=2)
    taken = scans.poll().taken
    assert (taken.new, taken.deleted, versions(scans)) == (not is_redriven, 1, {"a": 2, "b": 1})
    assert scans.poll().taken.read == 0


@pytest.mark.parametrize("repair", ["a poll", "a redrive", "a removal"])
def test_a_file_that_was_removed_when_another_file_was_unreadable_is_deleted_later(
    scans: Catalogue, repair: str
) -> None:
    file = scans.folder / "scans" / "a"
    file.unlink()
    scans.write("no scan", source=".", name="elsewhere")
    file.symlink_to(scans.folder / "elsewhere")
    assert (scans.poll().taken.failed, versions(scans)) == (1, {"a": 1, "b": 1, "c": 1})
    file.unlink()
    if repair != "a removal":
        scans.write("A", source="scans", name="a", day=2)
    if repair == "a redrive":
        assert [letter.resolved for letter in redrive(scans.store, "acme", scans.connect)] == [True]
    scans.poll()
    assert versions(scans) == ({"b": 1} if repair == "a removal" else {"a": 2, "b": 1})
    assert scans.poll().taken.read == 0


@pytest.mark.parametrize("target", ["away", "a"])
def test_a_file_whose_link_leads_to_no_file_now_is_named_and_not_deleted(scans: Catalogue, target: str) -> None:
    file = scans.folder / "scans" / "a"
    file.unlink()
    file.symlink_to(target)
    for _ in range(2):
        assert (scans.poll().taken.failed, versions(scans)) == (1, {"a": 1, "b": 1, "c": 1})
    (letter,) = scans.records.dead_letters()
    assert (letter.id, letter.reason) == ("source/scans/a", "a link leads to no file")


def test_a_lock_of_an_editor_is_no_file_and_holds_back_no_deletion(scans: Catalogue) -> None:
    (scans.folder / "scans" / ".#b").symlink_to("ada@host.123:456")
    taken = scans.poll().taken
    assert (taken.failed, taken.deleted, versions(scans)) == (0, 1, {"a": 1, "b": 1})
    assert list(scans.records.dead_letters()) == []


@pytest.mark.parametrize("pattern", ["**/*", "sub/*", "s*/**/*.txt"])
def test_the_files_of_a_folder_that_cannot_be_listed_are_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    catalogue = catalogue_in(tmp_path)
    catalogue.add("scans", format="file", transformer="plain", pattern=pattern)
    sub = catalogue.folder / "scans" / "sub"
    sub.mkdir()
    (sub / "a.txt").write_text("a")
    assert catalogue.poll().taken.new == 1
    with monkeypatch.context() as patch:
        refuse_listing(patch, sub)
        for _ in range(2):
            taken = catalogue.poll().taken
            assert (taken.failed, taken.deleted, versions(catalogue)) == (1, 0, {"sub/a.txt": 1})
    (letter,) = catalogue.records.dead_letters()
    assert (letter.id, "folder cannot be read" in letter.reason) == ("source/scans/sub", True)
    assert [letter.resolved for letter in redrive(catalogue.store, "acme", catalogue.connect)] == [True]
    assert (versions(catalogue), catalogue.poll().taken.read) == ({"sub/a.txt": 1}, 0)


def test_a_folder_that_the_pattern_does_not_enter_may_be_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = catalogue_in(tmp_path)
    catalogue.add("scans", format="file", transformer="plain", pattern="*/*.txt")
    closed = catalogue.folder / "scans" / "sub" / "closed"
    closed.mkdir(parents=True)
    (closed.parent / "a.txt").write_text("a")
    refuse_listing(monkeypatch, closed)
    taken = catalogue.poll().taken
    assert (taken.new, taken.failed) == (1, 0)


def test_a_source_whose_folder_cannot_be_listed_is_not_empty(scans: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans.store.environment.clock, "sleep", lambda seconds: None)
    refuse_listing(monkeypatch, scans.folder / "scans")
    assert "cannot be read" in scans.poll().reason


def refuse_listing(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Refuse the listing of a folder, as for a user without permission. The tests may run as root."""
    real = os.scandir

    def scandir(path: Any) -> Any:
        if Path(path) == folder:
            raise PermissionError(errno.EACCES, "Permission denied", os.fspath(path))
        return real(path)

    patch.setattr(os, "scandir", scandir)


def test_a_file_that_was_removed_when_the_folder_was_moved_is_deleted(scans: Catalogue) -> None:
    (scans.folder / "scans").rename(scans.folder / "moved")
    scans.add("scans", format="file", transformer="plain", location=str(scans.folder / "moved"))
    taken = scans.poll().taken
    assert (taken.same, taken.deleted, versions(scans)) == (2, 1, {"a": 1, "b": 1})
    assert scans.poll().taken.read == 0


def refused(*given: Any, **options: Any) -> None:
    raise LimitExceeded("too large", limit=1)


def test_an_empty_folder_deletes_no_record(catalogue: Catalogue) -> None:
    catalogue.add("scans", format="file", transformer="plain")
    catalogue.write("x", source="scans", name="a")
    catalogue.poll()
    (catalogue.folder / "scans" / "a").unlink()
    assert (catalogue.poll().taken.withheld, catalogue.ids("source/scans/")) == (1, ["a"])


def test_a_removed_source_stops_no_poll_or_scan_and_its_records_stay(books: Catalogue) -> None:
    books.add("later", format="json", transformer="plain", id="id", complete=False)
    books.write('[{"id":1}]', source="later", name="a.json")
    remove_source(books.records, "books")
    assert (books.poll().source, books.poll("later").reason) == ("later", "")
    books.scan()
    assert len(books.ids("source/books/")) == 200
    with pytest.raises(NotFound):
        books.poll("books")
    with pytest.raises(NotFound):
        remove_source(books.records, "books")


def test_a_removal_killed_at_any_write_can_be_repeated(tmp_path: Path) -> None:
    is_killed, writes = True, 0
    while is_killed:
        with stratalog.open("memory:", clock=ManualClock()) as store:
            catalogue = Catalogue(store, tmp_path)
            catalogue.add("scans", format="file", transformer="plain")
            catalogue.write("x", source="scans", name="a")
            assert catalogue.poll().taken.new == 1
            (tmp_path / "scans").rename(tmp_path / "away")
            while not catalogue.poll().dead:
                pass
            (tmp_path / "away").rename(tmp_path / "scans")
            with killed_after(catalogue.records, writes):
                remove_source(catalogue.records, "scans")
                is_killed = False
            if is_killed:
                remove_source(catalogue.records, "scans")
            assert [*source_names(catalogue.records), *catalogue.records.dead_letters()] == []
            catalogue.add("scans", format="file", transformer="plain")
            assert (catalogue.poll().taken.read, catalogue.ids("source/scans/")) == (1, ["a"])
        writes += 1
    assert writes > 3


def test_a_source_removed_during_a_poll_does_not_stop_other_sources(books: Catalogue) -> None:
    for name in ("later", "last"):
        books.add(name, format="json", transformer="plain", id="id", complete=False)
    polled = poll(books.store, "acme", books.connect)
    first = next(polled)
    remove_source(books.records, "last")
    assert [first.source, *(each.source for each in polled)] == ["books", "later"]


def test_a_source_with_settings_of_a_newer_program_is_reported_and_other_sources_are_polled(books: Catalogue) -> None:
    books.records.put("catalogue/source/aaa", b'{"name":"aaa","unknown":1}')
    write_books(books, 201, 2)
    first, second = poll(books.store, "acme", books.connect)
    assert (first.source, "unknown to this program" in first.reason) == ("aaa", True)
    assert second.taken.new == 1
    books.scan()


def test_a_paused_source_is_polled_only_by_name(books: Catalogue) -> None:
    write_books(books, 201, 2)
    pause_source(books.records, "books", True)
    assert list(poll(books.store, "acme", books.connect)) == []
    assert books.poll("books").taken.new == 1
    pause_source(books.records, "books", False)
    assert read_source(books.records, "books").paused is False
    assert list(source_names(books.records)) == ["books"]
