"""Dead letters of a catalogue: each stores the bytes of one file, page or record that failed, and can be redriven."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

import stratalog
from apps.catalogue.tests.helpers import Catalogue
from apps.catalogue.tests.test_commands import Shell, shell
from stratalog import Corrupt, Invalid, LimitExceeded, Records
from stratalog.keys import dead_letters_partition, id_sort
from stratalog.ports.index import Item, Put
from stratalog.testing.clock import ManualClock
from stratalog_catalogue import ingest, polls
from stratalog_catalogue.folder import poll_file, read_file
from stratalog_catalogue.ingest import take
from stratalog_catalogue.metrics import exposition
from stratalog_catalogue.names import source_id
from stratalog_catalogue.queries import differences, read_work
from stratalog_catalogue.redrive import redrive
from stratalog_catalogue.source_rename import rename_source
from stratalog_catalogue.sources import Source
from stratalog_catalogue.summary import read_stats

__all__ = ["shell"]

LINES = {"format": "jsonl", "transformer": "plain", "id": "id", "complete": False}


def letters(catalogue: Catalogue) -> list[bytes]:
    return [b"".join(catalogue.records.open_dead_letter(letter.id)) for letter in catalogue.records.dead_letters()]


def redriven(catalogue: Catalogue) -> list[bool]:
    return [letter.resolved for letter in redrive(catalogue.store, "acme", catalogue.connect)]


def test_a_damaged_gzip_file_becomes_a_dead_letter_and_intact_files_are_ingested(catalogue: Catalogue) -> None:
    catalogue.add("lines", **LINES)
    damaged = gzip.compress(b'{"id":1}\n' * 100)[:-5]
    catalogue.write(damaged, source="lines", name="a.gz")
    catalogue.write(b'{"id":2}', source="lines", name="b.jsonl", day=2)
    outcome = catalogue.poll()
    assert (outcome.reason, catalogue.ids("source/lines/"), letters(catalogue)) == ("", ["2"], [damaged])
    assert redriven(catalogue) == [False]
    catalogue.write(gzip.compress(b'{"id":1}'), source="lines", name="a.gz")
    assert redriven(catalogue) == [True]
    assert catalogue.ids("source/lines/") == ["1", "2"]


def test_two_failures_at_the_same_position_make_two_dead_letters(catalogue: Catalogue) -> None:
    catalogue.add("lines", **LINES)
    for day, line in enumerate((b"{bad", b"{worse"), 1):
        catalogue.write(line, source="lines", name="today.jsonl", day=day)
        assert catalogue.poll().taken.failed == 1
    assert sorted(letters(catalogue)) == [b"{bad", b"{worse"]


def test_a_redrive_succeeds_after_the_encoding_is_declared(catalogue: Catalogue) -> None:
    catalogue.add("lines", **LINES)
    catalogue.write(b'{"id":"Caf\xe9"}', source="lines", name="a.jsonl")
    assert catalogue.poll().taken.failed == 1
    catalogue.add("lines", **LINES, encoding="latin-1")
    assert redriven(catalogue) == [True]
    assert catalogue.records.get("source/lines/Café").body == b'{"id":"Caf\xe9"}'
    catalogue.scan()
    assert read_work(catalogue.records, "lines", "Café").title == "Café"


def test_a_poll_after_the_redrive_of_a_complete_state_s_record_deletes_what_the_state_lacks(
    catalogue: Catalogue,
) -> None:
    settings = {"format": "jsonl", "transformer": "plain", "id": "id"}
    catalogue.add("books", time="changed", **settings)
    states = ({"1": "2020", "2": "2020"}, {"1": "2020", "3": "yesterday"})
    for day, state in enumerate(states):
        lines = "".join(f'{{"id": "{id}", "changed": "{changed}"}}\n' for id, changed in state.items())
        catalogue.write(lines, source="books", name=f"{day}.jsonl", day=day)
    assert (catalogue.poll().taken.failed, catalogue.ids("source/books/")) == (1, ["1", "2"])
    catalogue.add("books", **settings)
    assert [redriven.resolved for redriven in redrive(catalogue.store, "acme", catalogue.connect)] == [True]
    taken = catalogue.poll().taken
    # The earlier state is not read again.
    assert (taken.read, taken.same, taken.deleted) == (2, 2, 1)
    assert catalogue.ids("source/books/") == ["1", "3"]
    assert catalogue.poll().taken.read == 0


def test_a_redriven_record_has_the_metadata_that_its_bytes_do_not_contain(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = {"format": "xml", "transformer": "plain", "records": "book", "id": "id", "complete": False}
    catalogue.add("books", **books, time="changed")
    book = "<b:book><b:id>1</b:id><b:changed>soon</b:changed></b:book>"
    catalogue.write(f'<b:all xmlns:b="urn:b">{book}</b:all>', source="books", name="books.xml")
    catalogue.add("scans", **{**LINES, "format": "file"})
    name, long_id = b"a\xff", "/".join(["d" * 230] * 4)
    catalogue.write("x", source="scans", name=os.fsdecode(name))
    (catalogue.folder / "scans" / long_id).parent.mkdir(parents=True)
    catalogue.write("x", source="scans", name=long_id)
    with monkeypatch.context() as patched:
        patched.setattr(Records, "put_if_newer", lambda *_, **__: raise_(LimitExceeded("too large", limit=1)))
        assert [catalogue.poll(source).taken.failed for source in ("books", "scans")] == [1, 2]
    catalogue.add("books", **books)
    assert redriven(catalogue) == [True, True, True]
    (stored,) = catalogue.ids("source/books/")
    assert catalogue.records.stat(f"source/books/{stored}").metadata["namespaces"] == {"xmlns:b": "urn:b"}
    scans = [catalogue.records.stat(f"source/scans/{id}").metadata for id in catalogue.ids("source/scans/")]
    assert scans == [{"format": "file", "name_hex": name.hex()}, {"format": "file", "id": long_id}]


def test_versions_in_another_encoding_are_compared_by_value(catalogue: Catalogue) -> None:
    catalogue.add("lines", **LINES, encoding="latin-1")
    for day, name in enumerate(("Caf\xe9", "Th\xe9"), 1):
        catalogue.write(f'{{"id":1,"name":"{name}"}}'.encode("latin-1"), source="lines", name="a", day=day)
        catalogue.poll()
    (change,) = differences(catalogue.records, "lines", "1", 1, 2).changes
    assert (change.path, change.before, change.after) == ("name", "Café", "Thé")


def test_a_dead_letter_of_a_csv_row_has_the_header_and_can_be_redriven(catalogue: Catalogue) -> None:
    rows = {**LINES, "format": "csv"}
    catalogue.add("rows", **rows, time="t")
    catalogue.write(b"id,t\na,2024\nb,soon\n", source="rows", name="a.csv")
    assert (catalogue.poll().taken.new, letters(catalogue)) == (1, [b"id,t\nb,soon\n"])
    assert (redriven(catalogue), letters(catalogue)) == ([False], [b"id,t\nb,soon\n"])
    catalogue.add("rows", **rows)
    assert (redriven(catalogue), catalogue.ids("source/rows/")) == ([True], ["a", "b"])


@pytest.mark.parametrize("form", ["jsonl", "file"])
def test_a_record_that_the_store_refuses_becomes_a_dead_letter(
    catalogue: Catalogue, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.add("lines", **{**LINES, "format": form})
    catalogue.write(b'{"id":1}', source="lines", name="1")
    with monkeypatch.context() as patched:
        refused = LimitExceeded("too large", limit=1)
        if form == "file":
            patched.setattr(Records, "put_if_newer", lambda *_, **__: raise_(refused))
        else:
            patched.setattr("stratalog.records.batch.check_metadata", lambda *_: raise_(refused))
        assert catalogue.poll().taken.failed == 1
    assert letters(catalogue) == [b'{"id":1}']
    assert (redriven(catalogue), catalogue.ids("source/lines/")) == ([True], ["1"])


def raise_(error: Exception) -> Any:
    raise error


def test_a_letter_of_a_record_with_a_very_long_id_is_written(catalogue: Catalogue) -> None:
    source = catalogue.add("lines", **LINES)
    letter = ingest.IngestFailure(id="x" * 10_000)
    ingest.fail(catalogue.records, source_id(source.name, letter.id), "a \ud800 reason", letter, b"body")
    assert letters(catalogue) == [b"body"]


def test_a_file_that_cannot_be_opened_becomes_a_dead_letter_and_is_retried_by_each_poll(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.add("scans", **{**LINES, "format": "file"})
    catalogue.write("x", source="scans", name="a")
    catalogue.write("y", source="scans", name="b", day=2)
    real = Path.open

    def denied(path: Path, *arguments: Any, **more: Any) -> Any:
        if path.name == "a":
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", denied)
        assert (catalogue.poll().taken.failed, catalogue.poll().taken.failed) == (1, 1)
    (letter,) = catalogue.records.dead_letters()
    assert ("Permission denied" in letter.reason, letter.failures) == (True, 2)
    assert catalogue.poll().taken.new == 1
    assert (catalogue.ids("source/scans/"), list(catalogue.records.dead_letters())) == (["a", "b"], [])


def test_a_redrive_resolves_no_letter_of_files_that_still_cannot_be_opened(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.add("scans", **{**LINES, "format": "file"})
    for name in ("a", "b"):
        catalogue.write("x", source="scans", name=name)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", _deny)
        assert catalogue.poll().taken.failed == 2
        assert redriven(catalogue) == [False, False]
    assert redriven(catalogue) == [True, True]
    assert (catalogue.ids("source/scans/"), letters(catalogue)) == (["a", "b"], [])


def test_a_redrive_whose_poll_fails_resolves_no_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        catalogue = Catalogue(store, tmp_path)
        catalogue.add("scans", **{**LINES, "format": "file"})
        for name in ("a", "b"):
            catalogue.write("x", source="scans", name=name)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "open", _deny)
            assert catalogue.poll().taken.failed == 2
        before = list(catalogue.records.dead_letters())
        (catalogue.folder / "scans").rename(catalogue.folder / "away")
        for _ in range(2):
            outcomes = list(redrive(store, "acme", catalogue.connect))
            assert [(outcome.resolved, "folder does not exist" in outcome.reason) for outcome in outcomes] == [
                (False, True)
            ] * 2
            assert list(catalogue.records.dead_letters()) == before
        (catalogue.folder / "away").rename(catalogue.folder / "scans")
        assert (redriven(catalogue), letters(catalogue)) == ([True, True], [])


def test_a_redrive_does_not_resolve_the_letter_of_a_source_that_fails_again(tmp_path: Path) -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        catalogue = Catalogue(store, tmp_path)
        catalogue.add("scans", **{**LINES, "format": "file"})
        (catalogue.folder / "scans").rename(catalogue.folder / "away")
        while not catalogue.poll().dead:
            pass
        for _ in range(2):
            assert redriven(catalogue) == [False]
        (catalogue.folder / "away").rename(catalogue.folder / "scans")
        assert (redriven(catalogue), list(catalogue.records.dead_letters())) == ([True], [])


def damage(catalogue: Catalogue, source: str, name: str) -> None:
    """Make a dead letter of a damaged file of a source."""
    catalogue.add(source, **LINES)
    catalogue.write(gzip.compress(b'{"id":1}\n' * 100)[:-5], source=source, name=name)
    assert catalogue.poll(source).taken.failed == 1


def test_a_redrive_follows_no_link_out_of_the_folder(catalogue: Catalogue) -> None:
    damage(catalogue, "lines", "a.gz")
    secret = catalogue.folder / "secret.gz"
    secret.write_bytes(gzip.compress(b'{"id":"secret"}'))
    path = catalogue.folder / "lines" / "a.gz"
    path.unlink()
    path.symlink_to(secret)
    assert (redriven(catalogue), catalogue.ids("source/lines/")) == ([False], [])
    path.unlink()
    catalogue.write(gzip.compress(b'{"id":2}'), source="lines", name="a.gz", day=2)
    assert (redriven(catalogue), catalogue.ids("source/lines/")) == ([True], ["2"])


def test_an_unreadable_file_does_not_stop_the_redrive_of_other_letters(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(catalogue, "first", "a.gz")
    damage(catalogue, "second", "b.gz")
    catalogue.write(gzip.compress(b'{"id":2}'), source="second", name="b.gz", day=2)
    real = Path.open

    def denied(path: Path, *arguments: Any, **more: Any) -> Any:
        return _deny(path) if path.name == "a.gz" else real(path, *arguments, **more)

    monkeypatch.setattr(Path, "open", denied)
    assert (redriven(catalogue), catalogue.ids("source/second/")) == ([False, True], ["2"])


def test_an_unexpected_error_does_not_stop_the_redrive_of_other_letters(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(catalogue, "first", "a.gz")
    damage(catalogue, "second", "b.gz")
    catalogue.write(gzip.compress(b'{"id":2}'), source="second", name="b.gz", day=2)
    real = read_file

    def failing(source: Any, id: str) -> Any:
        return raise_(ZeroDivisionError("a fault")) if source.name == "first" else real(source, id)

    monkeypatch.setattr("stratalog_catalogue.redrive.read_file", failing)
    first, second = redrive(catalogue.store, "acme", catalogue.connect)
    assert (first.reason, second.resolved) == ("ZeroDivisionError: a fault", True)


def _deny(path: Path, *arguments: Any, **more: Any) -> Any:
    raise PermissionError(13, "Permission denied")


def write_foreign_letters(records: Records) -> list[str]:
    """Write the dead letters of another program that uses the same organisation, and return their ids in order."""
    ids = ["order", "order/1", "orders/lines/1", "polls/lines/1", 'polls/two"words', "source/lines", "works/lines"]
    for id in ids:
        Records(records.environment, "acme", failures_max=1).fail(id, "not paid", pointer="42")
    return ids


def test_a_redrive_leaves_the_letters_of_other_programs(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue.add("lines", **LINES)
    foreign = write_foreign_letters(catalogue.records)
    catalogue.write(b'{"id":1}', source="lines", name="a")
    with monkeypatch.context() as patched:
        patched.setattr(
            "stratalog.records.batch.check_metadata", lambda *_: raise_(LimitExceeded("too large", limit=1))
        )
        assert catalogue.poll().taken.failed == 1
    assert (redriven(catalogue), catalogue.ids("source/lines/")) == ([True], ["1"])
    assert [letter.id for letter in catalogue.records.dead_letters()] == foreign


def test_the_letters_of_other_programs_are_counted_for_no_source(catalogue: Catalogue) -> None:
    catalogue.add("lines", **LINES)
    write_foreign_letters(catalogue.records)
    stats = read_stats(catalogue.records)
    assert stats.dead_letters == {}
    assert "dead_letters{" not in exposition(stats)


@pytest.mark.parametrize("pointer", ["", "42", '{"time_ms": 1}'])
def test_a_foreign_letter_of_a_source_stops_no_scan_redrive_or_rename(catalogue: Catalogue, pointer: str) -> None:
    catalogue.add("lines", **LINES)
    catalogue.write(b'{"id":1}\n{"id":2}', source="lines", name="a")
    catalogue.poll()
    program = Records(catalogue.records.environment, "acme", failures_max=1)
    program.fail("source/lines/1", "not paid", body=b"order", pointer=pointer)
    program.fail("works/lines/1", "not paid", pointer=pointer)
    assert catalogue.scan().made == 2
    program.fail("works/lines/1", "not paid", pointer=pointer)
    assert redriven(catalogue) == [False, True]
    assert rename_source(catalogue.records, "lines", "rows").letters == 0
    assert [letter.id for letter in catalogue.records.dead_letters()] == ["source/lines/1"]


def test_a_link_that_leads_out_of_the_folder_is_named_and_not_read(catalogue: Catalogue) -> None:
    catalogue.add("scans", **{**LINES, "format": "file"})
    (catalogue.folder / "secret").write_text("secret")
    catalogue.write("x", source="scans", name="a")
    (catalogue.folder / "scans" / "inside").symlink_to("a")
    (catalogue.folder / "scans" / "outside").symlink_to(catalogue.folder / "secret")
    (catalogue.folder / "scans" / "nowhere").symlink_to("nothing")
    taken = catalogue.poll().taken
    assert (taken.new, taken.failed, catalogue.ids("source/scans/")) == (2, 2, ["a", "inside"])
    nowhere, outside = catalogue.records.dead_letters()
    assert "leads to no file" in nowhere.reason
    assert "leads out" in outside.reason


def test_an_unexpected_error_of_an_adapter_does_not_stop_other_sources(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bad", "good"):
        catalogue.add(name, **LINES)
        catalogue.write(b'{"id":1}', source=name, name="a.jsonl")
    real = polls.poll_folder

    def poll_folder(source: Any, checkpoint: Any, clock: Any) -> Any:
        return raise_(ZeroDivisionError("a fault")) if source.name == "bad" else real(source, checkpoint, clock)

    monkeypatch.setattr(polls, "poll_folder", poll_folder)
    first, second = polls.poll(catalogue.store, "acme", catalogue.connect)
    assert (first.reason, second.taken.new) == ("ZeroDivisionError: a fault", 1)


def test_a_file_is_ingested_by_its_literal_name_and_deletes_no_other_record(catalogue: Catalogue) -> None:
    source = catalogue.add("scans", format="file", transformer="plain")
    for name in ("[ab]", "a"):
        catalogue.write(name, source="scans", name=name)
        (step,) = poll_file(source, catalogue.folder / "scans" / name)
        assert take(catalogue.records, source, step).new == 1
    assert catalogue.ids("source/scans/") == ["[ab]", "a"]
    with pytest.raises(Invalid, match="not a file"):
        list(poll_file(source, catalogue.folder))


def test_a_named_link_that_leads_to_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nothing")
    source = Source(name="s", adapter="folder", location=str(tmp_path), format="file")
    with pytest.raises(Invalid, match="not a file"):
        list(poll_file(source, tmp_path / "link"))


def test_a_named_file_may_be_a_link_to_another_folder(catalogue: Catalogue, tmp_path: Path) -> None:
    source = catalogue.add("scans", format="file", transformer="plain")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "target").write_bytes(b"content")
    link = tmp_path / "elsewhere" / "linked"
    link.symlink_to(tmp_path / "target")
    (step,) = poll_file(source, link)
    assert take(catalogue.records, source, step).new == 1


def test_commands_show_and_dismiss_letters_and_pause_rename_and_remove_sources(shell: Shell) -> None:
    (shell.folder / "in" / "broken").write_bytes(b"no: field\xff\n")
    shell("poll", "acme")
    (letter,) = shell("dead-letters", "acme")
    assert shell.raw("letter", "acme", letter["id"]) == b"no: field\xff\n"
    shell("dismiss", "acme", letter["id"])
    assert (shell.code, shell("dead-letters", "acme")) == (0, [])
    assert [source["paused"] for source in shell("sources", "acme")] == [False]
    assert shell("pause", "acme/debian")[0]["paused"] is True
    assert shell("poll", "acme") == []
    assert shell("resume", "acme/debian")[0]["paused"] is False
    assert shell("rename", "acme/debian", "packages")[0]["records"] == 1
    shell("remove", "acme/packages")
    assert (shell("sources", "acme"), shell("poll", "acme"), shell.code) == ([], [], 0)
    assert os.listdir(shell.folder / "in")


def test_a_damaged_letter_stops_no_poll_scan_count_or_rename_of_another_source(tmp_path: Path) -> None:
    with stratalog.open("memory:") as store:
        catalogue = Catalogue(store, tmp_path)
        catalogue.add("films", **LINES)
        catalogue.add("scans", **{**LINES, "format": "file"})
        catalogue.add("zines", **LINES)
        catalogue.write(b"[", source="zines", name="a.jsonl")
        catalogue.write(b"x", source="scans", name="a")
        assert catalogue.poll("zines").taken.failed == 1
        (letter,) = catalogue.records.dead_letters()
        damaged = Item(dead_letters_partition("acme"), id_sort(letter.id), {"q": -1})
        store.environment.index.commit([Put(damaged)])
        assert (catalogue.poll("scans").taken.new, catalogue.scan().made) == (1, 1)
        assert read_stats(catalogue.records).dead_letters == {"zines": 1}
        assert rename_source(catalogue.records, "scans", "images").records == 1
        with pytest.raises(Corrupt):
            rename_source(catalogue.records, "zines", "papers")


def test_a_redrive_names_each_damaged_letter(tmp_path: Path) -> None:
    with stratalog.open("memory:") as store:
        catalogue = Catalogue(store, tmp_path)
        catalogue.add("lines", **LINES)
        for name in "abc":
            catalogue.write(b"[", source="lines", name=name)
        catalogue.poll()
        ids = [letter.id for letter in catalogue.records.dead_letters()]
        for id in ids[1:]:
            store.environment.index.commit([Put(Item(dead_letters_partition("acme"), id_sort(id), {"q": -1}))])
        outcomes = redrive(store, "acme", catalogue.connect)
        assert [next(outcomes).id, next(outcomes).id] == ids[:2]
        with pytest.raises(Corrupt, match=ids[2]):
            next(outcomes)
