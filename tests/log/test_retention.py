"""A log forgets the entries below its floor. A log with states needs a snapshot, the base, before its floor rises."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from stratalog.errors import NotFound, OutcomeUnknown, Unavailable, VersionForgotten
from stratalog.log import Log, create_log, delete_log, fork_log, open_log
from stratalog.log.commit import commit_once
from stratalog.log.names import name_put, require_name
from stratalog.log.retention import archive_segments, free_segments, raise_floor, raise_floor_onto
from stratalog.log.segments import list_segments
from stratalog.log.snapshots import Snapshot, list_snapshots, newest_snapshot, put_snapshot
from stratalog.ports.index import Absent, Item, Put, Write
from tests.log.helpers import (
    DUE_SECONDS,
    NAME,
    ORGANISATION,
    ScriptedIndex,
    after,
    another,
    behind,
    clock_of,
    data,
    fill,
    lost_answer,
    new_environment,
    new_log,
    scripted,
    unavailable,
)

YEAR_MS = 365 * 86_400_000


def other(log: Log) -> Log:
    return open_log(another(log.environment), ORGANISATION, NAME)


def filled(count: int = 10) -> Log:
    log = new_log(segment_entries_target=4)
    fill(log, count)
    return log


def firsts(log: Log) -> list[int]:
    return [segment.first for segment in list_segments(log.environment.index, log.record.prefix)]


def test_versions_below_the_floor_are_forgotten_also_in_a_segment_that_stays() -> None:
    log = filled()
    assert raise_floor(log, 6) == 6
    assert firsts(log) == [1, 5, 9]
    for version in (4, 5):
        with pytest.raises(VersionForgotten):
            log.entry(version)
    with pytest.raises(VersionForgotten):
        data(log)
    assert data(log, 6) == ["plan:7", "plan:8", "plan:9", "plan:10"]


def test_forgotten_segments_are_freed_after_the_grace_period() -> None:
    log = filled()
    raise_floor(log, 8)
    assert free_segments(log) == 0
    clock_of(log.environment).sleep(DUE_SECONDS)
    assert (free_segments(log), firsts(log)) == (2, [9])


@pytest.mark.parametrize("archives", [False, True])
def test_segments_marked_by_a_clock_that_was_far_ahead_are_freed_after_the_grace_period(archives: bool) -> None:
    log = filled()
    clock = clock_of(log.environment)
    now_ms = clock.wall_ms()
    clock.set_wall(now_ms + YEAR_MS)
    _ = archive_segments(log) if archives else raise_floor(log, 8)
    clock.set_wall(now_ms)
    assert free_segments(log) == 0
    clock.sleep(DUE_SECONDS / 2)
    assert free_segments(log) == 0
    clock.sleep(DUE_SECONDS / 2)
    assert free_segments(log) == 2
    assert len(data(other(log), 0 if archives else 8)) == (10 if archives else 2)


def test_a_process_whose_clock_is_days_behind_leaves_the_marks_of_segments_as_they_are() -> None:
    log = filled()
    clock = clock_of(log.environment)
    raise_floor(log, 8)
    assert free_segments(open_log(behind(log.environment), ORGANISATION, NAME)) == 0
    clock.sleep(DUE_SECONDS / 2)
    assert free_segments(log) == 0
    clock.sleep(DUE_SECONDS / 2)
    assert free_segments(log) == 2


def test_the_floor_never_falls() -> None:
    log = filled()
    raise_floor(log, 8)
    assert raise_floor(log, 3) == 8
    assert other(log).floor() == 8


def test_a_handle_refuses_versions_below_a_floor_that_another_handle_raised() -> None:
    log = filled()
    raise_floor(other(log), 6)
    assert raise_floor(log, 3) == 6
    with pytest.raises(VersionForgotten):
        log.entry(5)


def test_a_read_of_the_versions_above_the_floor_begins_again_if_the_floor_rises_meanwhile() -> None:
    log, floors = filled(), []

    def read(floor: int) -> list[int]:
        floors.append(floor)
        if floor == 0:
            raise_floor(other(log), 6)
        return [entry.version for entry in log.read(floor)]

    assert log.above_floor(read) == [7, 8, 9, 10]
    assert floors == [0, 6]


def test_a_read_below_a_floor_that_has_not_risen_meanwhile_raises_version_forgotten() -> None:
    log, floors = filled(), []
    raise_floor(log, 6)
    with pytest.raises(VersionForgotten):
        log.above_floor(lambda floor: floors.append(floor) or log.entry(5))
    assert floors == [6]


def test_raising_the_floor_above_the_head_raises_not_found() -> None:
    with pytest.raises(NotFound):
        raise_floor(filled(3), 4)


def test_the_base_is_made_before_anything_is_forgotten() -> None:
    log = filled()
    readable: list[object] = []

    def prove(floor: int) -> Snapshot | None:
        readable.append((floor, other(log).entry(1).version))
        put_snapshot(log.environment, log.record, floor, log.hash_at(floor), b"", None)
        return newest_snapshot(log.environment.index, log.record.prefix, floor)

    assert raise_floor_onto(log, 6, prove) == 6
    assert readable == [(6, 1)]


def test_no_entry_is_forgotten_if_the_base_cannot_be_created() -> None:
    log = filled()

    def fail(floor: int) -> None:
        raise Unavailable("no base")

    with pytest.raises(Unavailable):
        raise_floor_onto(log, 6, fail)
    assert len(data(other(log))) == 10


def test_the_first_retained_segment_refers_to_the_base() -> None:
    log = filled()
    raise_floor(log, 6)
    assert [segment.base for segment in list_segments(log.environment.index, log.record.prefix)] == [0, 6, 0]


def test_raising_the_floor_deletes_the_snapshots_below_the_base() -> None:
    log = filled()
    for version in (2, 6, 9):
        log.save_snapshot(version, [b"state"])
    raise_floor(log, 6)
    assert [snapshot.version for snapshot in list_snapshots(log.environment.index, log.record.prefix)] == [6, 9]


def test_a_floor_is_raised_although_the_answer_is_lost() -> None:
    log = filled()
    scripted(log.environment).script = [lost_answer]
    assert raise_floor(log, 6) == 6


def test_raising_the_floor_again_completes_a_run_that_crashed() -> None:
    log = filled()
    scripted(log.environment).script = [after(lambda: scripted(log.environment).script.append(unavailable))]
    with pytest.raises(OutcomeUnknown):  # Unavailable would mean that nothing was written
        raise_floor(log, 8)
    assert other(log).floor() == 8
    raise_floor(log, 8)
    clock_of(log.environment).sleep(DUE_SECONDS)
    assert free_segments(log) == 2


def test_archived_entries_can_be_forgotten() -> None:
    log = filled()
    archive_segments(log)
    raise_floor(log, 8)
    with pytest.raises(VersionForgotten):
        other(log).entry(2)
    clock_of(log.environment).sleep(DUE_SECONDS)
    free_segments(log)
    assert firsts(log) == [9]


def test_an_older_snapshot_never_replaces_a_newer_one() -> None:
    log = filled()
    put_snapshot(log.environment, log.record, 9, log.hash_at(9), b"new", None)
    put_snapshot(log.environment, log.record, 4, log.hash_at(4), b"old", None)
    snapshot = newest_snapshot(log.environment.index, log.record.prefix, 10)
    assert snapshot is not None
    assert snapshot.body == b"new"


def test_a_second_snapshot_of_a_version_is_not_stored() -> None:
    log = filled()
    assert put_snapshot(log.environment, log.record, 4, log.hash_at(4), b"first", None)
    assert not put_snapshot(log.environment, log.record, 4, log.hash_at(4), b"second", None)


def test_a_snapshot_whose_answer_is_lost_is_stored() -> None:
    log = filled()
    scripted(log.environment).script = [lost_answer]
    assert put_snapshot(log.environment, log.record, 4, log.hash_at(4), b"", None)


def test_a_snapshot_that_loses_every_race_raises_unavailable() -> None:
    log = filled()

    def change(index: ScriptedIndex, writes: Sequence[Write]) -> None:
        index.script.append(change)
        record = require_name(index, ORGANISATION, NAME)
        index.backend.commit([name_put(msgspec.structs.replace(record, revision=record.revision + 1))])
        index.backend.commit(writes)

    scripted(log.environment).script = [change]
    with pytest.raises(Unavailable):
        put_snapshot(log.environment, log.record, 4, log.hash_at(4), b"", None)
    assert log.snapshot_at(4) is None


def test_a_fork_sees_the_snapshots_of_its_ancestors_up_to_its_fork_point() -> None:
    log = filled()
    for version in (3, 8):
        put_snapshot(log.environment, log.record, version, log.hash_at(version), b"", None)
    snapshot = fork_log(log, "fork", 6).snapshot_at(6)
    assert snapshot is not None
    assert snapshot.version == 3


def forks_of_two() -> tuple[Log, Log, Log]:
    """Return a log, its fork at version 8, and a fork of that fork at version 16."""
    log = filled(8)
    middle = fork_log(log, "middle", 8)
    fill(middle, 8)
    fork = fork_log(middle, "fork", 16)
    fill(fork, 2)
    return log, middle, fork


def test_a_fork_has_the_floor_that_an_ancestor_raised_later() -> None:
    log, _, fork = forks_of_two()
    log.save_snapshot(6, [b"state"])
    expected = log.hash_at(6)
    assert raise_floor(log, 6) == 6
    assert (fork.floor(), fork.hash_at(6)) == (6, expected)
    assert [entry.version for entry in fork.read(fork.floor())] == [*range(7, 19)]
    with pytest.raises(VersionForgotten):
        fork.entry(5)
    assert raise_floor(fork, 3) == 6


def test_a_fork_whose_floor_is_its_fork_point_forgets_no_entry_of_its_ancestors() -> None:
    _, middle, fork = forks_of_two()
    assert raise_floor(middle, 8) == 8
    assert fork.floor() == 0
    assert len(data(fork)) == 18


def test_the_floor_of_a_fork_is_the_floor_of_its_nearest_ancestor_that_forgot_entries() -> None:
    log, middle, fork = forks_of_two()
    assert (raise_floor(log, 6), raise_floor(middle, 12), fork.floor()) == (6, 12, 12)
    assert len(data(fork, 12)) == 6


@pytest.mark.parametrize("is_reused", [False, True])
@pytest.mark.parametrize("has_state", [False, True])
def test_a_deleted_ancestor_still_has_a_floor(is_reused: bool, has_state: bool) -> None:
    """A new log of the same name replaces the ancestor's name record. Then segments and snapshots show the floor."""
    log = filled()
    if has_state:
        log.save_snapshot(6, [b"state"])
    fork = fork_log(log, "fork", 9)
    hash = log.hash_at(6)
    assert raise_floor(log, 6) == 6
    delete_log(log)
    if is_reused:
        create_log(log.environment, ORGANISATION, NAME)
    assert (fork.floor(), fork.hash_at(6)) == (6, hash)
    assert [entry.version for entry in fork.read(6)] == [7, 8, 9]


def test_a_fork_at_the_floor_of_a_deleted_ancestor_has_the_same_floor() -> None:
    log = filled(8)
    fork = fork_log(log, "fork", 8)
    fill(fork, 2)
    fill(log, 1)
    assert raise_floor(log, 8) == 8
    delete_log(log)
    create_log(log.environment, ORGANISATION, NAME)
    assert (fork.floor(), fork.hash_at(8)) == (8, fork.record.lineage[-1].hash)
    assert data(fork, 8) == ["fork:9", "fork:10"]


def test_the_hash_of_a_floor_that_another_handle_raised_is_known() -> None:
    log = filled()
    expected, handle = log.hash_at(4), other(log)
    assert raise_floor(log, 4) == 4
    assert handle.hash_at(4) == expected


def test_a_commit_in_doubt_never_ends_as_unavailable() -> None:
    environment = new_environment(append_seconds_max=0.1)
    write = Put(Item("p", "s", {}), Absent())
    scripted(environment).script = [lost_answer]

    def landed() -> bool:
        raise Unavailable("scripted")

    with pytest.raises(OutcomeUnknown):
        commit_once(environment, [write], landed)


@pytest.mark.parametrize(("joint_commits", "commits"), [(True, 1), (False, 5)])
def test_items_are_deleted_one_by_one_where_a_joint_commit_costs_more(joint_commits: bool, commits: int) -> None:
    """DynamoDB bills each write in a transaction twice. Here a segment has four entries and a seal."""
    log = filled()
    raise_floor(log, 8)
    clock_of(log.environment).sleep(DUE_SECONDS)
    index = log.environment.index
    index.joint_commits = joint_commits
    before = index.calls["commit"]  # type: ignore[attr-defined]
    free_segments(log)
    settled = 1
    assert index.calls["commit"] - before == 2 * (commits + settled)  # type: ignore[attr-defined]


def test_freeing_and_archiving_stop_between_segments_on_request() -> None:
    log = filled(14)
    answers = iter([False, True])
    assert archive_segments(log, stop=lambda: next(answers)) == 1
    assert log.environment.counters["archive"] == 1
    archive_segments(log)
    assert log.environment.counters["archive"] == 3
    clock_of(log.environment).sleep(DUE_SECONDS)
    answers = iter([False, False, True])
    assert free_segments(log, stop=lambda: next(answers)) == 2
    assert free_segments(log) == 1
