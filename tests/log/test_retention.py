"""The floor: a log forgets the entries below it, and a snapshot (the base) must exist before the floor rises."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from stratalog.errors import NotFound, OutcomeUnknown, Unavailable, VersionForgotten
from stratalog.log import Log, fork_log, open_log
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
    clock_of,
    data,
    fill,
    lost_answer,
    new_log,
    new_place,
    scripted,
    unavailable,
)


def other(log: Log) -> Log:
    return open_log(another(log.environment), ORGANISATION, NAME)


def filled(count: int = 10) -> Log:
    log = new_log(segment_entries_target=4)
    fill(log, count)
    return log


def firsts(log: Log) -> list[int]:
    return [segment.first for segment in list_segments(log.environment.index, log.record.prefix)]


def test_versions_in_segments_below_the_floor_are_forgotten() -> None:
    log = filled()
    assert raise_floor(log, 6) == 6
    with pytest.raises(VersionForgotten):
        log.entry(4)
    with pytest.raises(VersionForgotten):
        data(log)
    assert data(log, 6) == ["plan:7", "plan:8", "plan:9", "plan:10"]


def test_forgotten_segments_go_once_nobody_can_rely_on_them() -> None:
    log = filled()
    raise_floor(log, 8)
    assert free_segments(log) == 0
    clock_of(log.environment).sleep(DUE_SECONDS)
    assert (free_segments(log), firsts(log)) == (2, [9])


def test_the_floor_never_falls() -> None:
    log = filled()
    raise_floor(log, 8)
    assert raise_floor(log, 3) == 8
    assert other(log).floor() == 8


def test_a_handle_knows_the_floor_that_another_raised_and_it_reports() -> None:
    log = filled()
    raise_floor(other(log), 6)
    assert raise_floor(log, 3) == 6
    with pytest.raises(VersionForgotten):
        log.entry(5)


def test_the_floor_stays_at_or_below_the_head() -> None:
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


def test_a_base_that_cannot_be_made_keeps_everything() -> None:
    log = filled()

    def fail(floor: int) -> None:
        raise Unavailable("no base")

    with pytest.raises(Unavailable):
        raise_floor_onto(log, 6, fail)
    assert len(data(other(log))) == 10


def test_the_first_kept_segment_names_the_base() -> None:
    log = filled()
    raise_floor(log, 6)
    assert [segment.base for segment in list_segments(log.environment.index, log.record.prefix)] == [0, 6, 0]


def test_snapshots_below_the_base_go_with_it() -> None:
    log = filled()
    for version in (2, 6, 9):
        log.save_snapshot(version, [b"state"])
    raise_floor(log, 6)
    assert [snapshot.version for snapshot in list_snapshots(log.environment.index, log.record.prefix)] == [6, 9]


def test_a_floor_whose_answer_is_lost_is_raised_once() -> None:
    log = filled()
    scripted(log.environment).script = [lost_answer]
    assert raise_floor(log, 6) == 6


def test_what_a_crash_left_unforgotten_is_forgotten_the_next_time() -> None:
    log = filled()
    scripted(log.environment).script = [after(lambda: scripted(log.environment).script.append(unavailable))]
    with pytest.raises(OutcomeUnknown):  # Unavailable would mean that nothing was written
        raise_floor(log, 8)
    assert other(log).floor() == 8
    raise_floor(log, 8)
    with pytest.raises(VersionForgotten):
        log.entry(4)


def test_what_was_archived_can_be_forgotten() -> None:
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
    found = newest_snapshot(log.environment.index, log.record.prefix, 10)
    assert found is not None
    assert found.body == b"new"


def test_a_second_snapshot_of_a_version_is_not_stored() -> None:
    log = filled()
    assert put_snapshot(log.environment, log.record, 4, log.hash_at(4), b"first", None)
    assert not put_snapshot(log.environment, log.record, 4, log.hash_at(4), b"second", None)


def test_a_snapshot_whose_answer_is_lost_is_stored() -> None:
    log = filled()
    scripted(log.environment).script = [lost_answer]
    assert put_snapshot(log.environment, log.record, 4, log.hash_at(4), b"", None)


def test_a_snapshot_of_a_log_whose_name_record_changes_at_every_try_is_given_up() -> None:
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


def test_a_fork_sees_its_ancestors_snapshots_up_to_where_it_began() -> None:
    log = filled()
    for version in (3, 8):
        put_snapshot(log.environment, log.record, version, log.hash_at(version), b"", None)
    found = fork_log(log, "fork", 6).snapshot_at(6)
    assert found is not None
    assert found.version == 3


def test_a_commit_in_doubt_never_ends_as_unavailable() -> None:
    environment = new_place(append_seconds_max=0.1)
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


def test_freeing_and_archiving_stop_between_segments_when_told_to() -> None:
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
