"""A backup of a store with a damaged item names the item, its log or its record, and contains everything else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import stratalog
from stratalog.backups.backup import back_up
from stratalog.backups.failures_of_log import failures_of_log
from stratalog.backups.format import BackupFailure
from stratalog.backups.records import RecordsBackup
from stratalog.backups.restored_log import restore_log
from stratalog.keys import (
    NAME_SORT,
    dead_letters_partition,
    entries_partition,
    failures_partition,
    family_partition,
    name_partition,
    number,
    record_key,
    record_partition,
    segments_partition,
)
from stratalog.limits import BODY_PART_BYTES
from stratalog.log import delete_log
from stratalog.log.directory import LOGS, RECORDS, directory_put, organisation_put
from stratalog.log.retention import archive_segments, raise_floor
from stratalog.log.sweep import sweep_deleted
from stratalog.ports.index import Delete, Item, Put
from stratalog.testing.clock import ManualClock
from tests.backups.stores import Backups
from tests.inline_store import open_inline
from tests.maintenance.growing import SETTINGS, contents_of


@pytest.fixture
def memory() -> stratalog.Store:
    return open_inline(settings=SETTINGS, clock=ManualClock())


def store_with_two_of_each(store: stratalog.Store) -> None:
    """Create two logs, two records, and two dead letters."""
    for name in ("a", "b"):
        store.create_log("acme", name).append(stratalog.Event("seen", name))
        store.records("acme").put(name, name.encode())
        for _ in range(5):
            store.records("acme").fail(f"dead {name}", "no good", body=b"x" * 20_000)


def lose_attribute(store: stratalog.Store, partition: str, sort: str, name: str) -> None:
    """Remove an attribute of an item, as a flipped bit in the name of the attribute does."""
    index = store.environment.index
    item = index.get(partition, sort)
    assert item is not None
    index.commit([Put(Item(partition, sort, {key: item.attributes[key] for key in item.attributes if key != name}))])


@pytest.mark.parametrize("with_base", [False, True])
def test_a_damaged_name_record_is_a_failure_and_the_rest_is_backed_up(memory: stratalog.Store, with_base: bool) -> None:
    """A log whose name record is damaged is backed up as the previous backup has it."""
    backups = Backups(memory.environment.clock)
    store_with_two_of_each(memory)
    if with_base:
        backups.make(memory)
        memory.log("acme", "b").append(stratalog.Event("seen", 2))
    owner = memory.log("acme", "a").record.owner
    lose_attribute(memory, name_partition("acme", "a"), NAME_SORT, "o")
    failures = backups.make(memory).manifest.failures
    named = ["acme/a", owner] if with_base else ["acme/a"]
    assert [(failure.what, failure.code) for failure in failures] == [(what, "corrupt") for what in named]
    restored = backups.restored(backups.view())
    assert [listing.id for listing in restored.list("acme")] == (["a", "b"] if with_base else ["b"])
    assert restored.log("acme", "b").head().version == 1 + with_base
    assert [record.id for record in restored.records("acme").list()] == ["a", "b"]


def test_a_log_with_a_damaged_name_record_stays_in_the_next_backup_with_its_fork(memory: stratalog.Store) -> None:
    """The intact logs of the family stay as they were too, so a failure names the family."""
    backups = Backups(memory.environment.clock)
    log = memory.create_log("acme", "z")
    log.append(stratalog.Event("seen", 1))
    memory.fork_log(log, "draft", 1).append(stratalog.Event("seen", 2))
    backups.make(memory)
    lose_attribute(memory, name_partition("acme", "z"), NAME_SORT, "o")
    failures = backups.make(memory).manifest.failures
    assert {failure.what for failure in failures} == {"acme/z", log.record.owner}
    restored = backups.restored(backups.view())
    assert [restored.log("acme", name).head().version for name in ("draft", "z")] == [2, 1]


@pytest.mark.parametrize("with_base", [False, True])
@pytest.mark.parametrize("name", ["k", "c"])
def test_a_damaged_directory_line_is_a_failure_and_the_backup_rebuilds_the_line(
    memory: stratalog.Store, name: str, with_base: bool
) -> None:
    backups = Backups(memory.environment.clock)
    store_with_two_of_each(memory)
    wanted = contents_of(memory)
    if with_base:
        backups.make(memory)
    lines = [directory_put("acme", shelf, "a", "", 0).item for shelf in (LOGS, RECORDS)]
    intact = [memory.environment.index.get(line.partition, line.sort) for line in lines]
    for line in lines:
        lose_attribute(memory, line.partition, line.sort, name)
    failures = backups.make(memory).manifest.failures
    assert {failure.what for failure in failures} == {f"{line.partition} {line.sort}" for line in lines}
    index = backups.view().environment.index
    assert [index.get(line.partition, line.sort) for line in lines] == intact
    assert contents_of(backups.restored(backups.view())) == wanted


@pytest.mark.parametrize("with_base", [False, True])
def test_a_log_that_lost_the_record_of_its_current_segment_is_a_failure(
    memory: stratalog.Store, with_base: bool
) -> None:
    """Without the record a backup has no entries of the segment, so a restoration would lose the newest entries."""
    backups = Backups(memory.environment.clock)
    store_with_two_of_each(memory)
    if with_base:
        backups.make(memory)
        memory.log("acme", "a").append(stratalog.Event("seen", 2))
    record = memory.log("acme", "a").record
    memory.environment.index.commit([Delete(segments_partition(record.prefix), number(1))])
    assert [failure.what for failure in backups.make(memory).manifest.failures] == [record.owner]
    restored = backups.restored(backups.view())
    assert [line.id for line in restored.list("acme")] == (["a", "b"] if with_base else ["b"])


def test_a_damaged_line_of_an_organisation_is_a_failure_and_made_anew(tmp_path: Path) -> None:
    backups = Backups(ManualClock())
    with open_inline(tmp_path, settings=SETTINGS, clock=ManualClock()) as store:
        store_with_two_of_each(store)
        wanted = contents_of(store)
        apsw.Connection(str(tmp_path / "index.sqlite")).execute(
            "UPDATE items SET body = x'c1' WHERE partition = '!organisations'"
        )
        failures = backups.make(store).manifest.failures
    assert [(failure.what, failure.is_complete) for failure in failures] == [("!organisations acme", True)]
    assert contents_of(backups.restored(backups.view())) == wanted


def test_a_record_that_is_lost_after_its_read_is_backed_up_with_a_new_line(
    memory: stratalog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    backups = Backups(memory.environment.clock)
    store_with_two_of_each(memory)
    wanted = contents_of(memory)
    line = directory_put("acme", RECORDS, "a", "", 0).item
    lose_attribute(memory, line.partition, line.sort, "k")
    index, partition = memory.environment.index, record_partition("acme", record_key("a"))

    read_record = RecordsBackup._read_record

    def read_and_lose(backup: RecordsBackup, id: str) -> object:
        result = read_record(backup, id)
        for item in list(index.query(partition) if id == "a" else ()):
            index.commit([Delete(partition, item.sort)])
        return result

    monkeypatch.setattr(RecordsBackup, "_read_record", read_and_lose)
    backups.make(memory)
    assert contents_of(backups.restored(backups.view())) == wanted


@pytest.mark.parametrize(
    ("partition", "sort", "name"),
    [
        pytest.param(dead_letters_partition("acme"), "dead a", "w", id="dead letter, w"),
        pytest.param(failures_partition("acme"), "dead%20a", "w", id="failures, w"),
        pytest.param(failures_partition("acme"), "dead%20a", "d", id="failures, d"),
        pytest.param(failures_partition("acme"), "dead%20a", "q", id="failures, q"),
        pytest.param(failures_partition("acme"), "dead%20a", "x", id="failures, x"),
        pytest.param(dead_letters_partition("acme"), "dead a", "x", id="dead letter, x"),
        pytest.param(failures_partition("acme"), "dead%20a", "", id="failures"),
        pytest.param(dead_letters_partition("acme"), "dead a", "", id="dead letter"),
    ],
)
def test_a_damaged_dead_letter_of_a_record_is_a_failure_and_is_made_anew_from_its_twin(
    memory: stratalog.Store, partition: str, sort: str, name: str
) -> None:
    """In the last two cases the whole item is lost, not one of its attributes."""
    backups = Backups(memory.environment.clock)
    store_with_two_of_each(memory)
    wanted = contents_of(memory)
    if name:
        lose_attribute(memory, partition, sort, name)
    else:
        memory.environment.index.commit([Delete(partition, sort)])
    [failure] = backups.make(memory).manifest.failures
    assert (failure.what, failure.code) == (f"{partition} {sort}", "corrupt")
    restored = backups.restored(backups.view())
    assert contents_of(restored) == wanted
    assert b"".join(restored.records("acme").open_dead_letter("dead a")) == b"x" * 20_000


def test_a_damaged_version_or_segment_is_a_failure_and_the_rest_is_backed_up(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    store_with_two_of_each(memory)
    owners = [memory.log("acme", name).record.owner for name in ("a", "b")]
    lose_attribute(memory, record_partition("acme", record_key("a")), number(1), "ch")
    lose_attribute(memory, segments_partition(owners[0]), number(1), "m")
    lose_attribute(memory, family_partition(owners[1]), owners[1], "d")
    failures = backups.make(memory).manifest.failures
    assert {failure.what for failure in failures} == {"acme/a", *owners}
    restored = backups.restored(backups.view())
    assert [record.id for record in restored.records("acme").list()] == ["b"]
    assert list(restored.list("acme")) == []


@pytest.mark.parametrize("shelf", [LOGS, RECORDS])
def test_an_undecodable_directory_line_is_a_failure_and_the_backup_rebuilds_the_line(
    tmp_path: Path, shelf: str
) -> None:
    """The damage is in a store in a folder, since an item in memory always decodes."""
    clock = ManualClock()
    store, backups = open_inline(tmp_path / "store", settings=SETTINGS, clock=clock), Backups(clock)
    store_with_two_of_each(store)
    wanted = contents_of(store)
    line = directory_put("acme", shelf, "a", "", 0).item
    database = apsw.Connection(str(tmp_path / "store" / "index.sqlite"))
    database.execute("UPDATE items SET body = x'c1' WHERE partition = ? AND sort = ?", (line.partition, line.sort))
    database.close()
    [failure] = backups.make(store).manifest.failures
    assert failure.what == f"{line.partition} a"
    assert contents_of(backups.restored(backups.view())) == wanted
    store.close()


def test_a_missing_family_item_of_an_ancestor_is_a_failure_and_other_families_are_backed_up(
    memory: stratalog.Store,
) -> None:
    backups = Backups(memory.environment.clock)
    memory.create_log("acme", "a").append(stratalog.Event("seen", 1))
    log = memory.create_log("acme", "z")
    log.append(stratalog.Event("seen", 1))
    memory.fork_log(log, "draft", 1).append(stratalog.Event("seen", 2))
    memory.environment.index.commit([Delete(family_partition(log.record.owner), log.record.prefix)])
    [failure] = backups.make(memory).manifest.failures
    assert (failure.code, failure.what) == ("corrupt", f"{family_partition(log.record.owner)} {log.record.prefix}")
    assert contents_of(backups.restored(backups.view())) == contents_of(memory)


@pytest.mark.parametrize("name", ["z", "draft"])
def test_a_log_whose_family_item_is_missing_is_a_failure_and_is_backed_up(memory: stratalog.Store, name: str) -> None:
    backups, log = Backups(memory.environment.clock), memory.create_log("acme", "z")
    log.append(stratalog.Event("seen", 1))
    if name == "draft":
        log = memory.fork_log(log, "draft", 1)
    family = family_partition(log.record.owner)
    memory.environment.index.commit([Delete(family, log.record.prefix)])
    [failure] = backups.make(memory).manifest.failures
    assert (failure.code, failure.what) == ("corrupt", f"{family} {log.record.prefix}")
    assert contents_of(backups.restored(backups.view())) == contents_of(memory)


def test_a_log_without_its_name_record_is_a_failure_and_stays_in_the_next_backup(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    store_with_two_of_each(memory)
    memory.fork_log(memory.log("acme", "b"), "draft", 1)
    owners = [memory.log("acme", name).record.owner for name in ("a", "b")]
    wanted = contents_of(memory)
    backups.make(memory)
    for name in ("a", "draft"):
        memory.environment.index.commit([Delete(name_partition("acme", name), NAME_SORT)])
    failures = backups.make(memory).manifest.failures
    assert {(failure.what, failure.code) for failure in failures} == {
        (what, "corrupt") for what in ("acme/a", "acme/draft", *owners)
    }
    assert contents_of(backups.restored(backups.view())) == wanted


@pytest.mark.parametrize("is_archived", [False, True])
@pytest.mark.parametrize("first", [1, 5, 9])
def test_a_log_without_a_segment_record_is_a_failure_and_stays_in_the_next_backup(
    memory: stratalog.Store, first: int, is_archived: bool
) -> None:
    backups, log = Backups(memory.environment.clock), memory.create_log("acme", "a")
    for count in range(10):
        log.append(stratalog.Event("seen", count))
    if is_archived:
        archive_segments(log)
    wanted = contents_of(memory)
    backups.make(memory)
    memory.environment.index.commit([Delete(segments_partition(log.record.prefix), number(first))])
    [failure] = backups.make(memory).manifest.failures
    assert (failure.what, failure.code) == (log.record.owner, "corrupt")
    assert f"version={first}" in failure.reason
    assert contents_of(backups.restored(backups.view())) == wanted


def test_a_lost_line_of_a_list_is_a_failure_of_the_next_backup_which_restores_the_line(memory: stratalog.Store) -> None:
    """A lost line of an organisation hides all its logs and records; one of the directory hides a log or record."""
    backups, index = Backups(memory.environment.clock), memory.environment.index
    store_with_two_of_each(memory)
    memory.create_log("zeta", "c")
    memory.log("acme", "a").append(stratalog.Event("seen", 1))
    wanted = contents_of(memory)
    backups.make(memory)
    lines = [directory_put("acme", shelf, "a", "", 0).item for shelf in (LOGS, RECORDS)]
    lines += [organisation_put(organisation).item for organisation in ("acme", "zeta")]
    index.commit([Delete(line.partition, line.sort) for line in lines])
    failures = backups.make(memory).manifest.failures
    assert {failure.what for failure in failures} == {f"{line.partition} {line.sort}" for line in lines}
    assert contents_of(backups.restored(backups.view())) == wanted


def test_a_line_that_only_an_earlier_backup_has_is_no_failure_if_its_content_is_gone(memory: stratalog.Store) -> None:
    """The store was restored as of a time before the content, or the log was deleted."""
    backups = Backups(memory.environment.clock)
    store_with_two_of_each(memory)
    backups.make(memory)
    memory.delete_log(memory.log("acme", "a"))
    assert backups.make(memory).manifest.failures == ()
    for organisations in (["acme"], []):
        restored = open_inline(settings=SETTINGS, clock=memory.environment.clock)
        for organisation in organisations:
            restored.records(organisation).put("b", b"b")
        report = backups.make(restored)
        assert (report.manifest.failures, report.manifest.logs) == ((), 0)
        assert list(backups.view().organisations()) == organisations


def test_a_missing_entry_or_version_is_damage_and_no_conflict(memory: stratalog.Store) -> None:
    """Nobody writes, so nothing changes between two attempts to read the log and the record."""
    backups, log = Backups(memory.environment.clock), memory.create_log("acme", "z")
    for count in range(3):
        log.append(stratalog.Event("seen", count))
        memory.records("acme").put("r", bytes([count]))
    store_with_two_of_each(memory)
    prefix, record = log.record.prefix, record_partition("acme", record_key("r"))
    memory.environment.index.commit([Delete(entries_partition(prefix, 1), number(2)), Delete(record, number(2))])
    failures = {failure.what: failure for failure in backups.make(memory).manifest.failures}
    assert {what: failure.code for what, failure in failures.items()} == {prefix: "corrupt", "acme/r": "corrupt"}
    assert all("version=2" in failure.reason for failure in failures.values())
    assert [listing.id for listing in backups.view().list("acme")] == ["a", "b"]


@pytest.mark.parametrize("parts", [1, 2])
def test_a_lost_body_of_a_record_is_a_failure_and_stays_in_later_backups(memory: stratalog.Store, parts: int) -> None:
    """Each later backup reads the record again, since the record has changed or the last backup has a failure."""
    backups, records, blobs = Backups(memory.environment.clock), memory.records("acme"), memory.environment.blobs
    body = b"1" * (20_000 if parts == 1 else BODY_PART_BYTES + 1)
    records.put("r", body)
    backups.make(memory)
    lost = [stat for stat in blobs.list("acme/records/r/") if parts == 1 or blobs.get(stat.key)[:1] == b"1"]
    for stat in lost:
        blobs.delete(stat.key, stat.stamp)
    records.put("r", b"2" * 20_000)
    for _ in range(2):
        failures = backups.make(memory).manifest.failures
        assert [(failure.what, failure.code) for failure in failures] == [(stat.key, "corrupt") for stat in lost]
        assert backups.view().records("acme").get("r", 1).body == body
    assert Backups(memory.environment.clock).make(memory).manifest.failures == failures


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", ["b", "c", "ch", "h", "n", "p", "t", "u", "w"])
def test_a_version_that_lost_an_attribute_is_a_failure_and_stays_as_in_the_previous_backup(
    memory: stratalog.Store, name: str, version: int
) -> None:
    backups, records = Backups(memory.environment.clock), memory.records("acme")
    for body in (b"1", b"2"):
        records.put("r", body, source_time_ms=5, metadata={"a": 1}, principal="ada")
    wanted = [records.get("r", each) for each in (1, 2)]
    backups.make(memory)
    sort, partition = number(version), record_partition("acme", record_key("r"))
    lose_attribute(memory, partition, sort, name)
    if version == 1:  # the record changes, too
        records.put("r", b"3")
    for _ in range(2):
        assert [failure.what for failure in backups.make(memory).manifest.failures] == [f"{partition} {sort}"]
        backup = backups.view().records("acme")
        assert [backup.get("r", each) for each in (1, 2)] == wanted


def test_the_first_backup_names_a_version_that_lost_an_attribute(memory: stratalog.Store) -> None:
    """The damaged version is copied as it is."""
    records, partition = memory.records("acme"), record_partition("acme", record_key("r"))
    for body in (b"1", b"2"):
        records.put("r", body)
    lose_attribute(memory, partition, number(1), "w")
    [failure] = Backups(memory.environment.clock).make(memory).manifest.failures
    assert (failure.what, failure.code) == (f"{partition} {number(1)}", "corrupt")


def test_a_redaction_after_the_previous_backup_is_no_failure(memory: stratalog.Store) -> None:
    backups, records = Backups(memory.environment.clock), memory.records("acme")
    for body in (b"1", b"2"):
        records.put("r", body, source_time_ms=5, metadata={"a": 1})
    backups.make(memory)
    records.redact("r", 1)
    assert backups.make(memory).manifest.failures == ()
    assert backups.view().records("acme").stat("r", 1).redacted


@pytest.mark.parametrize("name", ["c", "r"])
def test_a_damaged_segment_record_does_not_replace_the_record_in_the_previous_backup(
    memory: stratalog.Store, name: str
) -> None:
    backups, log = Backups(memory.environment.clock), memory.create_log("acme", "a")
    for count in range(10):
        log.append(stratalog.Event("seen", count))
    archive_segments(log)
    wanted = contents_of(memory)
    backups.make(memory)
    lose_attribute(memory, segments_partition(log.record.prefix), number(5), name)
    [failure] = backups.make(memory).manifest.failures
    assert (failure.what, failure.code) == (log.record.owner, "corrupt")
    assert contents_of(backups.restored(backups.view())) == wanted


def test_a_fork_that_forgets_its_deleted_parent_during_a_backup_is_no_failure(
    memory: stratalog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stores list a family page by page. The parent is swept after the page of the fork and before its own page."""
    backups, index = Backups(memory.environment.clock), memory.environment.index
    parent = memory.create_log("acme", "z")
    fork = parent
    for number_of_versions in (3, 6):
        for count in range(number_of_versions):
            fork.append(stratalog.Event("seen", count))
        fork = memory.fork_log(parent, "a", 3) if fork is parent else fork
    delete_log(parent)
    memory.environment.clock.sleep(10_000)
    family, query = family_partition(parent.record.owner), index.query
    swept: list[int] = []

    def in_pages(partition: str, **options: Any) -> Iterator[Item]:
        items = query(partition, **options)
        if partition != family or options or swept:
            yield from items
            return
        yield (first := next(items))
        raise_floor(fork, 7)
        swept.append(sweep_deleted(memory.environment, "acme"))
        yield from query(partition, after=first.sort)

    monkeypatch.setattr(index, "query", in_pages)
    assert backups.make(memory).manifest.failures == ()
    assert swept == [1]


def test_a_record_that_is_put_again_during_a_backup_after_a_restore_is_no_failure(memory: stratalog.Store) -> None:
    """The store was restored to a time before its records existed. The last backup has these records."""
    backups, ids = Backups(memory.environment.clock), [f"r{number}" for number in range(40)]
    for id in ids:
        memory.records("acme").put(id, b"x")
    backups.make(memory)
    restored = open_inline(settings=SETTINGS, clock=memory.environment.clock)
    for id in ids[::2]:
        restored.records("acme").put(id, b"y")
    steps: list[int] = []

    def put_again(count: int) -> None:
        steps.append(count)
        if len(steps) == 3:
            for id in ids:
                restored.records("acme").put(id, b"z")

    assert back_up(restored, backups.repository(), put_again).manifest.failures == ()


def test_a_damaged_archive_after_a_fork_is_a_failure_of_the_parent_and_not_of_the_fork(memory: stratalog.Store) -> None:
    parent = memory.create_log("acme", "parent")
    for count in range(10):
        parent.append(stratalog.Event("seen", count))
    fork = memory.fork_log(parent, "fork", 3)
    failures = [BackupFailure(f"{parent.record.prefix}/{first}", "corrupt", "damaged") for first in (1, 5)]
    environment = memory.environment
    assert failures_of_log(environment, parent.record, failures) == failures
    assert failures_of_log(environment, fork.record, failures) == failures[:1]


@pytest.mark.parametrize("damages", ["record", "log"])
def test_a_hash_of_the_wrong_type_is_a_failure_and_the_rest_is_backed_up(memory: stratalog.Store, damages: str) -> None:
    store_with_two_of_each(memory)
    index, log = memory.environment.index, memory.log("acme", "a").record
    partition, name = (
        (record_partition("acme", record_key("a")), "ch")
        if damages == "record"
        else (entries_partition(log.prefix, 1), "h")
    )
    item = index.get(partition, number(1))
    assert item is not None
    index.commit([Put(Item(partition, number(1), {**item.attributes, name: "text"}))])
    backups = Backups(memory.environment.clock)
    assert len(backups.make(memory).manifest.failures) == 1
    restored = backups.restored(backups.view())
    assert restored.records("acme").get("b").body == b"b"
    assert restored.log("acme", "b").head().version == 1


@pytest.mark.parametrize("kind", ["log", "record"])
def test_a_history_that_lost_its_newest_version_since_the_previous_backup_is_a_failure(
    memory: stratalog.Store, kind: str
) -> None:
    backups, index = Backups(memory.environment.clock), memory.environment.index
    log, records = memory.create_log("acme", "a"), memory.records("acme")
    for count in range(3):
        log.append(stratalog.Event("seen", count))
        records.put("b", f"{count}".encode())
    assert backups.make(memory).manifest.failures == ()
    partition = entries_partition(log.record.prefix, 1) if kind == "log" else record_partition("acme", record_key("b"))
    index.commit([Delete(partition, number(3))])
    named = {"log": "acme/a", "record": "acme/b"}[kind]
    assert [(failure.what, failure.code) for failure in backups.make(memory).manifest.failures] == [(named, "corrupt")]


def test_a_hash_of_the_wrong_length_does_not_end_the_backups_of_the_rest(memory: stratalog.Store) -> None:
    store_with_two_of_each(memory)
    backups, index, log = Backups(memory.environment.clock), memory.environment.index, memory.log("acme", "a").record
    backups.make(memory)
    for partition, name in ((entries_partition(log.prefix, 1), "h"), (record_partition("acme", record_key("a")), "ch")):
        item = index.get(partition, number(1))
        assert item is not None
        index.commit([Put(Item(partition, number(1), {**item.attributes, name: b"short"}))])
    for content in (b"2", b"3"):  # the base of the second backup has the damaged hashes too
        memory.records("acme").put("b", content)
        backups.make(memory)
        assert backups.view().records("acme").get("b").body == content


def test_a_log_that_was_restored_at_an_older_version_under_its_name_is_no_failure(memory: stratalog.Store) -> None:
    backups, log = Backups(memory.environment.clock), memory.create_log("acme", "a")
    for count in range(3):
        log.append(stratalog.Event("seen", count))
    backups.make(memory)
    delete_log(log)
    restore_log(backups.view_of(log.record.prefix, 2), "acme", "a", memory, "a")
    assert memory.log("acme", "a").head().version == 2
    assert backups.make(memory).manifest.failures == ()
