"""A restore rebuilds a whole store as of a time, or one log as of a version in a store that has other logs."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stratalog
from stratalog.backups.restored_log import restore_log
from stratalog.errors import Conflict, NotFound, VersionForgotten
from stratalog.log import delete_log, fork_log
from stratalog.log.retention import archive_segments, free_segments, free_segments_below, raise_floor
from stratalog.log.sweep import sweep_deleted
from stratalog.maintenance.collection import collect
from stratalog.maintenance.verification import HistoryName, list_histories, verify_history
from stratalog.testing.clock import ManualClock
from tests.backups.stores import Backups
from tests.inline_store import open_inline
from tests.maintenance.growing import SETTINGS, contents_of, grow

pytestmark = pytest.mark.slow


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 12), min_size=2, max_size=5))
def test_a_store_is_restored_as_it_was_at_a_time(seed: int, steps: list[int]) -> None:
    """If a log or record has forgotten its history at that time, the restore raises VersionForgotten instead."""
    clock, chance = ManualClock(seed=seed), Random(seed)
    store, backups = open_inline(settings=SETTINGS, clock=clock), Backups(clock)
    moments = []
    for count in steps:
        grow(store, chance, count)
        moments.append((clock.wall_ms(), entries_of(store)))
        clock.sleep(5)
    backups.make(store)
    incarnations = {name: incarnation for name, (incarnation, _) in entries_of(store).items()}
    for time_ms, wanted in moments:
        try:
            restored = backups.restored(backups.view_at(time_ms))
        except VersionForgotten:
            continue
        restored_entries = entries_of(restored)
        assert restored_entries.keys() <= wanted.keys()
        for name, (incarnation, entries) in wanted.items():
            if incarnations.get(name) == incarnation:
                assert restored_entries[name][0] == incarnation
                assert same(restored_entries[name][1], entries)
        for history in list_histories(restored):
            assert verify_history(restored, history).findings == ()


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(5, 50))
def test_a_log_is_restored_at_any_version_into_a_store_with_other_logs(seed: int, steps: int) -> None:
    clock, chance = ManualClock(seed=seed), Random(seed)
    store, backups = open_inline(settings=SETTINGS, clock=clock), Backups(clock)
    grow(store, chance, steps)
    backups.make(store)
    for line in list(backups.view().list("acme")):
        log = backups.view().log("acme", line.id)
        version = chance.randint(max(log.floor(), log.first), log.head().version)
        made = restore_log(backups.view_of(log.record.prefix, version), "acme", line.id, store, f"{line.id} again")
        assert made.incarnation != log.record.incarnation
        assert made.origin == log.record.origin
        again = store.log("acme", made.name)
        assert (again.head().version, again.hash_at(version)) == (version, log.hash_at(version))
        assert verify_history(store, HistoryName("log", "acme", made.name)).findings == ()
        if line.kind == "document":
            wanted = backups.view().document("acme", line.id).at(version)
            assert store.document("acme", made.name).at(version).to_dict() == wanted.to_dict()
            store.document("acme", made.name).mutate("put", {"key": "items/z", "value": 1})
    clock.sleep(3000)
    assert collect(store.environment, "acme").failures == ()
    contents_of(store)


def test_a_restored_copy_of_a_log_survives_the_deletion_of_the_original(memory: stratalog.Store) -> None:
    """The test deletes and sweeps the original and its ancestor. The restored log still has all values and entries."""
    backups = Backups(memory.environment.clock)
    plan = memory.create("acme", "plan")
    for number in range(6):
        plan.mutate("put", {"key": "items/a", "value": f"{number}" * 2000})
    copy = plan.fork("copy", at=5)
    copy.mutate("put", {"key": "items/a", "value": "own"})
    backups.make(memory)
    restore_log(backups.view(), "acme", "copy", memory, "copy again")
    assert [line.id for line in memory.list("acme")] == ["copy", "copy again", "plan"]
    delete_log(copy.log)
    delete_log(plan.log)
    for _ in range(3):
        memory.environment.clock.sleep(10_000)
        sweep_deleted(memory.environment, "acme")
        collect(memory.environment, "acme")
    again = memory.document("acme", "copy again")
    assert [again.at(version).to_dict()["items/a"] for version in (1, 5, 6)] == ["0" * 2000, "4" * 2000, "own"]
    delete_log(again.log)
    for _ in range(3):
        memory.environment.clock.sleep(10_000)
        sweep_deleted(memory.environment, "acme")
    assert list(memory.environment.blobs.list("acme/")) == []


def test_a_log_restored_at_a_version_inside_an_archived_segment_accepts_appends(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    log = memory.create_log("acme", "events")
    for number in range(12):
        log.append(stratalog.Event("seen", number))
    archive_segments(log)
    memory.environment.clock.sleep(1000)
    free_segments(log)
    backups.make(memory)
    cut = backups.view_of(log.record.prefix, 6)
    restore_log(cut, "acme", "events", memory, "again")
    again = memory.log("acme", "again")
    assert [entry.events[0].data for entry in again.read()] == [0, 1, 2, 3, 4, 5]
    again.append(stratalog.Event("seen", "other"))
    assert again.head().version == 7


@pytest.mark.parametrize("is_fork", [False, True], ids=["log", "fork"])
def test_a_log_restored_at_its_floor_without_an_entry_accepts_appends(is_fork: bool) -> None:
    """The floor's segment is forgotten, so the first segment of the restored log is empty."""
    clock = ManualClock()
    store, backups = open_inline(settings=stratalog.LogSettings(segment_entries_target=4), clock=clock), Backups(clock)
    log = store.create_log("acme", "source" if is_fork else "plan")
    if is_fork:
        log.append(stratalog.Event("set", 0))
        log = fork_log(log, "plan", 1)
    for value in range(14):
        log.append(stratalog.Event("set", value))
    floor = log.first + 8
    assert raise_floor(log, floor) == floor
    clock.sleep(3000)
    free_segments_below(log, lambda: None)
    backups.make(store)
    made = restore_log(backups.view_of(log.record.prefix, floor), "acme", "plan", store, "again")
    again = store.log("acme", made.name)
    assert (again.head().version, made.floor, made.segment, made.lineage) == (floor, floor, floor + 1, ())
    assert again.append(stratalog.Event("set", "new")).version == floor + 1
    assert verify_history(store, HistoryName("log", "acme", made.name)).findings == ()


def test_a_record_that_was_created_and_pruned_after_a_time_does_not_prevent_a_restore_as_of_that_time(
    memory: stratalog.Store,
) -> None:
    clock, records = memory.environment.clock, memory.records("acme")
    backups = Backups(clock)
    records.put("old", b"first")
    time_ms = clock.wall_ms()
    for number in range(3):
        clock.sleep(5)
        records.put("new", b"%d" % number)
    records.prune("new", retain=1)
    backups.make(memory)
    restored = backups.restored(backups.view_at(time_ms)).records("acme")
    assert [line.id for line in restored.list()] == ["old"]
    with pytest.raises(VersionForgotten, match="record='new'"):
        backups.restored(backups.view_at(time_ms + 5_000))


def test_restoring_a_forgotten_or_missing_version_names_the_log_or_the_version(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    plan = memory.create("acme", "plan")
    times = []
    for number in range(9):
        plan.mutate("put", {"key": "items/a", "value": number})
        times.append(memory.environment.clock.wall_ms())
        memory.environment.clock.sleep(1)
    plan.forget_below(6)
    backups.make(memory)
    with pytest.raises(VersionForgotten, match="plan"):
        backups.restored(backups.view_at(times[2]))
    with pytest.raises(VersionForgotten, match="version=3"):
        backups.view_of(plan.log.record.prefix, 3).document("acme", "plan")
    with pytest.raises(NotFound, match="version=99"):
        backups.view_of(plan.log.record.prefix, 99).document("acme", "plan")
    assert backups.restored(backups.view_at(times[7])).document("acme", "plan").version == 8


def test_a_restoration_at_a_time_has_the_records_of_that_time_and_no_later_records(memory: stratalog.Store) -> None:
    backups, clock = Backups(memory.environment.clock), memory.environment.clock
    records = memory.records("acme")
    records.put("a", b"first")
    time_ms = clock.wall_ms()
    clock.sleep(5)
    records.put("a", b"second")
    records.put("b", b"later")
    backups.make(memory)
    restored = backups.restored(backups.view_at(time_ms)).records("acme")
    assert restored.get("a").body == b"first"
    assert [line.id for line in restored.list()] == ["a"]
    records.prune("a", retain=1)
    backups.make(memory)
    with pytest.raises(VersionForgotten, match="record='a'"):
        backups.restored(backups.view_at(time_ms))


def test_restoring_a_log_under_a_name_in_use_is_a_conflict(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    memory.create("acme", "plan")
    backups.make(memory)
    with pytest.raises(Conflict):
        restore_log(backups.view(), "acme", "plan", memory, "plan")
    delete_log(memory.document("acme", "plan").log)
    assert restore_log(backups.view(), "acme", "plan", memory, "plan").name == "plan"


@pytest.fixture
def memory() -> stratalog.Store:
    return open_inline(settings=SETTINGS, clock=ManualClock())


def entries_of(store: stratalog.Store) -> dict[str, tuple[str, list[object]]]:
    """Return the incarnation and the entries of each log, with None in place of a forgotten entry."""
    answers: dict[str, tuple[str, list[object]]] = {}
    for organisation in store.organisations():
        for line in store.list(organisation):
            log = store.log(organisation, line.id)
            entries = described_entries(log)
            answers[f"{organisation}/{line.id}"] = (log.record.incarnation, entries)
    return answers


def described_entries(log: stratalog.Log) -> list[object]:
    entries: list[object] = []
    for version in range(1, log.head().version + 1):
        try:
            entries.append(log.entry(version))
        except NotFound:
            entries.append(None)
    return entries


def same(actual: list[object], wanted: list[object]) -> bool:
    """Return whether each entry in ``actual`` is None or equals the same version's entry in ``wanted``."""
    pairs = zip(actual, wanted, strict=True)
    return all(actual_item is None or actual_item == other for actual_item, other in pairs)
