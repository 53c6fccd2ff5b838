"""Archiving and freeing continue after a damaged segment, and report each segment also if they raise in the end."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import stratalog
from stratalog.backends.memory import MemoryBlobs
from stratalog.documents.expiry import idle_clients
from stratalog.errors import Corrupt, Unavailable, VersionForgotten
from stratalog.keys import NAME_SORT, entries_partition, name_partition, number, segments_partition
from stratalog.log import Event, Log, fork_log, open_log
from stratalog.log.lifecycle import delete_log
from stratalog.log.retention import archive_segments, free_segments, free_segments_below, raise_floor
from stratalog.log.segments import list_segments
from stratalog.log.sweep import sweep_deleted
from stratalog.maintenance.policy import MaintenancePolicy, RetentionPolicy
from stratalog.maintenance.store_pass import maintain
from stratalog.ports.index import Delete, Item, Put
from stratalog.records import retention
from stratalog.testing.clock import ManualClock
from tests.damage import damage_blob
from tests.documents.helpers import World, inc
from tests.log.helpers import DUE_SECONDS, clock_of, fill, new_log


def filled() -> Log:
    """A log with four segments. Three are sealed: 1 to 4, 5 to 8, and 9 to 12."""
    log = new_log(segment_entries_target=4)
    fill(log, 14)
    return log


def lose_entry(log: Log, first: int, version: int) -> None:
    log.environment.index.commit([Delete(entries_partition(log.record.prefix, first), number(version))])


def marked(log: Log) -> list[bool]:
    return [bool(segment.marked_ms) for segment in list_segments(log.environment.index, log.record.prefix)]


def freed(log: Log) -> list[bool]:
    return [segment.freed for segment in list_segments(log.environment.index, log.record.prefix)]


@pytest.mark.parametrize("first", [1, 5])
@pytest.mark.parametrize("is_fork", [False, True], ids=["log", "fork"])
def test_a_kept_version_whose_segment_record_is_lost_is_damage(first: int, is_fork: bool) -> None:
    log = filled()
    reader = fork_log(log, "fork", 12) if is_fork else log
    log.environment.index.commit([Delete(segments_partition(log.record.prefix), number(first))])
    with pytest.raises(Corrupt):
        list(reader.read())
    with pytest.raises(Corrupt):
        reader.entry(first)


@pytest.mark.parametrize("damage", [{"s": 8}, {"s": 12}, {"s": 15}, {"i": "another"}])
@pytest.mark.parametrize("floor", [0, 6])
def test_no_append_uses_an_empty_segment_that_a_damaged_name_record_names(damage: dict[str, Any], floor: int) -> None:
    """Otherwise version 8 or 12 would exist twice."""
    log = filled()
    index = log.environment.index
    if floor:
        raise_floor(log, floor)
    intact = index.get(name_partition("acme", "plan"), NAME_SORT)
    assert intact is not None
    index.commit([Put(Item(intact.partition, intact.sort, {**intact.attributes, **damage}))])
    damaged = open_log(log.environment, "acme", "plan")
    with pytest.raises(Corrupt, match="names an empty segment"):
        damaged.append(Event("set", 1))
    assert not list(index.query(entries_partition(damaged.record.prefix, damaged.record.segment)))
    index.commit([Put(intact)])
    assert open_log(log.environment, "acme", "plan").append(Event("set", 1)).version == 15


def test_the_first_append_of_a_log_with_a_damaged_incarnation_is_refused() -> None:
    log = new_log()
    log.append(Event("set", 1))
    index = log.environment.index
    intact = index.get(name_partition("acme", "plan"), NAME_SORT)
    assert intact is not None
    index.commit([Put(Item(intact.partition, intact.sort, {**intact.attributes, "i": "another"}))])
    with pytest.raises(Corrupt, match="names an empty segment"):
        open_log(log.environment, "acme", "plan").append(Event("set", 2))


@pytest.mark.parametrize("floor", [0, 4])
def test_no_append_uses_the_freed_first_segment_that_a_damaged_name_record_names(floor: int) -> None:
    """The head before the first segment is version 0, as in a new log. Only its hash shows the damage."""
    log = filled()
    if floor:
        raise_floor(log, floor)
    archive_segments(log)
    clock_of(log.environment).sleep(DUE_SECONDS)
    free_segments_below(log, lambda: None)
    free_segments(log)
    index = log.environment.index
    assert not list(index.query(entries_partition(log.record.prefix, 1)))
    intact = index.get(name_partition("acme", "plan"), NAME_SORT)
    assert intact is not None
    index.commit([Put(Item(intact.partition, intact.sort, {**intact.attributes, "s": 1}))])
    with pytest.raises(Corrupt, match="names an empty segment"):
        open_log(log.environment, "acme", "plan").append(Event("set", 1))


def test_above_the_floor_a_version_without_a_segment_is_damage_and_at_the_floor_it_is_forgotten() -> None:
    log = filled()
    old = open_log(log.environment, log.record.organisation, log.record.name)
    raise_floor(log, 6)
    log.environment.index.commit([Delete(segments_partition(log.record.prefix), number(5))])
    with pytest.raises(Corrupt, match="the segment of a kept version is missing"):
        old.entry(7)
    with pytest.raises(VersionForgotten):
        old.entry(6)  # the entry of a floor may be forgotten with its segment


def test_the_entries_of_a_swept_log_are_forgotten_and_not_damaged() -> None:
    log = filled()
    head = log.head()
    delete_log(log)
    for _ in range(2):
        clock_of(log.environment).sleep(DUE_SECONDS)
        sweep_deleted(log.environment, log.record.organisation)
    with pytest.raises(VersionForgotten):
        list(log.read(0, head.version, head=head))
    with pytest.raises(VersionForgotten):
        log.entry(1)


def test_archiving_continues_after_a_damaged_segment_and_reports_the_archived_segments() -> None:
    log, reported = filled(), list[int]()
    lose_entry(log, 5, 6)
    with pytest.raises(Corrupt):
        archive_segments(log, report=reported.append)
    assert (reported, marked(log)) == ([1, 1], [True, False, True, False])
    assert log.environment.counters["archive"] == 2


def test_freeing_continues_after_a_damaged_archive_and_reports_the_freed_segments() -> None:
    log, reported = filled(), list[int]()
    assert archive_segments(log) == 3
    blobs = log.environment.blobs
    assert isinstance(blobs, MemoryBlobs)
    for stat in list(blobs.list("")):
        if b"plan:6" in blobs.get(stat.key):
            damage_blob(blobs, stat.key, "lose")
    lose_entry(log, 5, 6)
    clock_of(log.environment).sleep(DUE_SECONDS)
    with pytest.raises(Corrupt):
        free_segments(log, report=reported.append)
    assert (reported, freed(log)) == ([1, 1], [True, False, True, False])
    assert log.environment.counters["freed segment"] == 2


def test_a_damaged_base_stops_the_freeing_of_forgotten_segments_but_not_of_archived_segments() -> None:
    log, reported, asked = filled(), list[int](), list[int]()
    raise_floor(log, 8)
    archive_segments(log)
    clock_of(log.environment).sleep(DUE_SECONDS)

    def damaged() -> None:
        asked.append(1)
        raise Corrupt("the base is damaged")

    with pytest.raises(Corrupt, match="the base is damaged"):
        free_segments_below(log, damaged, report=reported.append)
    assert (reported, asked, freed(log)) == ([1], [1], [False, False, True, False])


def test_a_maintenance_pass_counts_the_segments_that_it_archived_beside_a_damaged_segment() -> None:
    store = stratalog.open("memory:", settings=stratalog.LogSettings(segment_entries_target=4))
    log = store.create_log("acme", "events")
    fill(log, 14)
    lose_entry(log, 5, 6)
    report = maintain(store, MaintenancePolicy(logs=RetentionPolicy(archive_days=0)))
    assert ([failure.code for failure in report.failures], report.archived_segments) == (["corrupt"], 2)


def test_an_expiry_of_clients_reports_the_clients_of_each_entry_before_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stratalog.documents.document.idle_clients", partial(idle_clients, limit=1))
    world, reported = World(append_seconds_max=0), list[int]()
    document = world.create()
    for client in ("ada", "bob"):
        document.apply([inc(client=client, id=1)], group=client)

    def fail(name: str, target: str) -> None:
        if name == "commit" and reported:
            raise Unavailable("the index is away")

    world.recorder.before = fail
    world.clock.sleep(1)
    with pytest.raises(Unavailable):
        document.expire_clients(world.clock.wall_ms(), report=reported.append)
    assert reported == [1]


def test_freeing_a_record_reports_the_items_of_each_commit_before_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    store, reported = stratalog.open("memory:", clock=ManualClock()), list[int]()
    records = store.records("acme")
    for body in (b"1", b"2", b"3", b"4"):
        records.put("a", body)
    records.prune("a", retain=1)
    clock_of(store.environment).sleep(DUE_SECONDS)
    monkeypatch.setattr("stratalog.log.retention.COMMIT_WRITES_MAX", 2)

    def report(count: int) -> None:
        reported.append(count)
        monkeypatch.setattr(store.environment.index, "commit", fail)

    def fail(*_: object) -> None:
        raise Unavailable("the index is away")

    with pytest.raises(Unavailable):
        retention.free_versions(store.environment, records._name("a"), report=report)
    assert reported == [2]
