"""An append commits its entry and the prepared snapshot of the state after it together, or neither."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.backends.memory import MemoryBlobs
from stratalog.codec import sha256
from stratalog.errors import (
    ConditionFailed,
    ContentionError,
    Invalid,
    LimitExceeded,
    OutcomeUnknown,
    Unavailable,
    VersionConflict,
)
from stratalog.group_commit import LEADER
from stratalog.keys import number, snapshots_partition
from stratalog.limits import BODY_PART_BYTES
from stratalog.log import Log, fork_log, open_log
from stratalog.log.append import JOINT_ENTRIES_MAX
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.pending_entry import prepare_entry
from stratalog.log.retention import archive_segments, free_segments, raise_floor
from stratalog.maintenance.collection import OLD_SECONDS, collect_family
from stratalog.ports.index import Check, Delete, Put
from tests.log.helpers import (
    DUE_SECONDS,
    NAME,
    ORGANISATION,
    after,
    another,
    calls_of,
    clock_of,
    event,
    fill,
    lost_answer,
    lost_request,
    new_log,
    scripted,
    unavailable,
)

PARTS = [b"part one", b"part two"]


def parts_at(log: Log, version: int) -> list[bytes] | None:
    """Return the parts of the snapshot of exactly this version; None without one."""
    snapshot = log.app_snapshot(version)
    return list(log.read_snapshot(snapshot)) if snapshot is not None and snapshot.version == version else None


def other(log: Log, *, joint_commits: bool = True) -> Log:
    return open_log(another(log.environment, joint_commits=joint_commits), ORGANISATION, NAME)


def delete_snapshot(log: Log, version: int) -> None:
    """Delete a snapshot of `PARTS` and its parts, as a rising floor and a collection do."""
    scripted(log.environment).backend.commit([Delete(snapshots_partition(log.record.prefix), number(version))])
    for part in PARTS:
        stat = log.environment.blobs.stat(f"{log.record.owner}/app-snapshots/{sha256(part).hex()}")
        assert stat is not None
        log.environment.blobs.delete(stat.key, stat.stamp)


def test_one_commit_stores_the_entry_and_its_snapshot() -> None:
    log = new_log("model")
    prepared = log.prepare_snapshot(PARTS)
    calls = calls_of(log, lambda: log.append(event(), expected=0, snapshot=prepared))
    assert calls["commit"] == 1
    assert parts_at(log, 1) == PARTS
    snapshot = log.snapshot_at(1)
    assert snapshot is not None
    assert snapshot.hash == log.hash_at(1)


def test_a_part_of_the_newest_snapshot_is_not_put_again() -> None:
    log = new_log("model")
    log.append(event(), expected=0, snapshot=log.prepare_snapshot(PARTS))
    before = {stat.key: stat.stamp for stat in log.environment.blobs.list("")}
    prepared = log.prepare_snapshot([PARTS[0], b"changed"])
    log.append(event(), expected=1, snapshot=prepared)
    now = {stat.key: stat.stamp for stat in log.environment.blobs.list("")}
    assert before.items() <= now.items()
    assert len(now) == len(before) + 1
    assert parts_at(log, 2) == [PARTS[0], b"changed"]


@pytest.mark.parametrize("mishap", [lost_answer, lost_request, unavailable])
def test_a_commit_that_fails_or_whose_answer_is_lost_leaves_one_entry_with_one_snapshot(mishap: object) -> None:
    log = new_log("model")
    prepared = log.prepare_snapshot(PARTS)
    scripted(log.environment).script = [mishap]  # type: ignore[list-item]
    assert log.append(event(), expected=0, snapshot=prepared).version == 1
    assert log.head().version == 1
    assert parts_at(log, 1) == PARTS


@pytest.mark.parametrize("joint", [True, False])
def test_a_lost_race_leaves_no_snapshot_and_the_prepared_snapshot_can_be_appended_again(joint: bool) -> None:
    log = other(new_log("model"), joint_commits=joint)
    prepared = log.prepare_snapshot(PARTS)
    scripted(log.environment).script = [after(lambda: fill(other(log), 1))]
    with pytest.raises(VersionConflict):
        log.append(event(), expected=0, snapshot=prepared)
    assert parts_at(log, 1) is None
    assert log.append(event(), expected=1, snapshot=prepared).version == 2
    assert parts_at(log, 2) == PARTS


@pytest.mark.parametrize("joint", [True, False])
def test_a_changed_name_record_delays_the_append_but_does_not_fail_it(joint: bool) -> None:
    log = other(new_log("model"), joint_commits=joint)
    fill(log, 2)
    prepared = log.prepare_snapshot(PARTS)
    scripted(log.environment).script = [after(lambda: fork_log(other(log), "branch", 1))]
    assert log.append(event(), expected=2, snapshot=prepared).version == 3
    assert parts_at(log, 3) == PARTS


def test_an_append_gives_up_if_the_name_record_keeps_changing() -> None:
    log = new_log("model")
    fill(log, 1)
    prepared = log.prepare_snapshot(PARTS)
    names = iter(range(1000))
    scripted(log.environment).script = [after(lambda: fork_log(other(log), f"branch-{next(names)}", 1))] * 1000
    with pytest.raises(ContentionError):
        log.append(event(), expected=1, snapshot=prepared)
    assert (log.head().version, parts_at(log, 2)) == (1, None)


@pytest.mark.parametrize("joint", [True, False])
def test_shared_parts_are_put_if_their_snapshot_is_deleted_during_the_commit(joint: bool) -> None:
    log = other(new_log("model"), joint_commits=joint)
    log.append(event(), expected=0, snapshot=log.prepare_snapshot(PARTS))
    prepared = log.prepare_snapshot([*PARTS, b"part three"])
    fill(log, 1)
    scripted(log.environment).script = [after(lambda: delete_snapshot(log, 1))]
    assert log.append(event(), expected=2, snapshot=prepared).version == 3
    assert parts_at(log, 3) == [*PARTS, b"part three"]


def test_failed_puts_of_shared_parts_are_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    log = other(new_log("model"))
    log.append(event(), expected=0, snapshot=log.prepare_snapshot(PARTS))
    prepared = log.prepare_snapshot(PARTS)
    delete_snapshot(log, 1)
    put, failures = MemoryBlobs.put, iter([OutcomeUnknown("scripted")])

    def failing(blobs: MemoryBlobs, key: str, body: bytes) -> None:
        if failure := next(failures, None):
            raise failure
        put(blobs, key, body)

    monkeypatch.setattr(MemoryBlobs, "put", failing)
    assert log.append(event(), expected=1, snapshot=prepared).version == 2
    assert parts_at(log, 2) == PARTS


def test_no_append_is_in_doubt_if_only_the_put_of_its_parts_or_body_is(monkeypatch: pytest.MonkeyPatch) -> None:
    log = new_log("model")

    def in_doubt(blobs: MemoryBlobs, key: str, body: bytes) -> None:
        raise OutcomeUnknown("scripted")

    monkeypatch.setattr(MemoryBlobs, "put", in_doubt)
    with pytest.raises(Unavailable):
        log.prepare_snapshot(PARTS)
    with pytest.raises(Unavailable):
        log.append(event(log.environment.clock.random_bytes(BODY_PART_BYTES)))


def test_parts_that_share_nothing_need_no_check_of_another_snapshot() -> None:
    log = other(new_log("model"))
    log.append(event(), expected=0, snapshot=log.prepare_snapshot(PARTS))
    prepared = log.prepare_snapshot([b"all new"])
    scripted(log.environment).script = [after(lambda: delete_snapshot(log, 1))]
    calls = calls_of(log, lambda: log.append(event(), expected=1, snapshot=prepared))
    assert calls["commit"] == 1


def test_a_late_writer_replaces_no_snapshot_in_a_freed_segment() -> None:
    """Without the check of the name record, the entry lands in a freed position, and its snapshot replaces another."""
    log = new_log("model", segment_entries_target=2)
    late = other(log, joint_commits=False)
    prepared = late.prepare_snapshot([b"late"])

    def free() -> None:
        for version in range(3):
            log.append(event(), expected=version, snapshot=log.prepare_snapshot([b"state of %d" % (version + 1)]))
        assert archive_segments(log)
        clock_of(log.environment).sleep(DUE_SECONDS)
        assert free_segments(log)

    scripted(late.environment).script = [after(free)]
    with pytest.raises(ContentionError):
        late.append(event("late"), expected=0, snapshot=prepared)
    assert [parts_at(log, version) for version in (1, 2, 3)] == [[b"state of 1"], [b"state of 2"], [b"state of 3"]]


@pytest.mark.parametrize("late", ["before the commit", "before the answer"])
def test_parts_that_grew_old_are_put_again(late: str) -> None:
    log = new_log("model")
    fill(log, 1)
    prepared = log.prepare_snapshot(PARTS)

    def collect() -> None:
        clock_of(log.environment).sleep(OLD_SECONDS + 1)
        collect_family(log.environment, log.record.owner)

    if late == "before the commit":
        collect()
    else:
        scripted(log.environment).script = [after(collect)]
    assert log.append(event(), expected=1, snapshot=prepared).version == 2
    assert parts_at(log, 2) == PARTS


def test_a_repeated_append_returns_the_first_entry_and_stores_no_second_snapshot() -> None:
    log = new_log("model")
    first = log.append(event(), expected=0, write_id="restore-1", snapshot=log.prepare_snapshot(PARTS))
    fill(log, 1)
    again = log.append(event(), expected=0, write_id="restore-1", snapshot=log.prepare_snapshot([b"others"]))
    assert again == first
    assert (parts_at(log, 1), parts_at(log, 2)) == (PARTS, None)


def test_an_entry_with_a_snapshot_may_begin_a_segment_and_history_may_begin_with_it() -> None:
    log = new_log("model", segment_entries_target=2)
    for version in range(6):
        prepared = log.prepare_snapshot([b"same", b"of %d" % version])
        log.append(event(version), expected=version, snapshot=prepared)
    assert log.head().segment == 5
    assert raise_floor(log, 5) == 5
    assert parts_at(log, 5) == [b"same", b"of 4"]


def test_a_commit_has_at_most_one_snapshot_and_the_last_entry_of_a_full_commit_may_have_it() -> None:
    log = new_log("model", segment_entries_target=4)
    log.append(event(), expected=0, snapshot=log.prepare_snapshot(PARTS))
    fill(log, 3)
    appender = log._appender

    def pending(expected: int | None = None) -> object:
        entry = prepare_entry(log.environment, log.record.owner, [event()], expected=expected)
        if expected is not None:
            entry.snapshot = log.prepare_snapshot(PARTS)
        return entry

    batch = [pending()]
    filler = JOINT_ENTRIES_MAX - 2
    last = 4 + JOINT_ENTRIES_MAX - 1
    appender._group_commit.waiting.extend([*(pending() for _ in range(filler)), pending(last), pending(last + 1)])  # type: ignore[arg-type]
    appender._fill(batch)  # type: ignore[arg-type]
    assert len(batch) == JOINT_ENTRIES_MAX
    appender._run(batch)  # type: ignore[arg-type]
    assert log.head().segment == 5  # the commit also rolled over
    assert (log.head().version, parts_at(log, last + 1)) == (last + 1, PARTS)
    assert LEADER not in appender._group_commit._leadership
    batch = [appender._group_commit.waiting.popleft()]
    appender._group_commit.waiting.append(pending())  # type: ignore[arg-type]
    appender._fill(batch)
    assert len(batch) == 1


def test_arguments_that_cannot_be_committed_together_are_refused() -> None:
    log = new_log("model")
    prepared = log.prepare_snapshot(PARTS)
    fork = fork_log(log, "branch", 0)
    refused: list[Callable[[], object]] = [
        lambda: log.append(event(), snapshot=prepared),
        lambda: fork.append(event(), expected=0, snapshot=prepared),
        lambda: log.append(event(), expected=0, snapshot=prepared, blob_batch=BlobBatch(log.environment)),
    ]
    for call in refused:
        with pytest.raises(Invalid):
            call()
    with pytest.raises(LimitExceeded):
        log.prepare_snapshot([])
    with pytest.raises(LimitExceeded):
        log.prepare_snapshot([bytes(BODY_PART_BYTES + 1)])
    assert log.head().version == 0


@pytest.mark.parametrize("joint", [True, False])
def test_a_snapshot_that_is_newer_than_the_expected_version_is_a_lost_race(joint: bool) -> None:
    """The handle has not seen the entry of the newest snapshot. The commit must not check and put one key."""
    log = new_log("model")
    log.append(event())
    behind = other(log, joint_commits=joint)
    assert behind.head().version == 1
    log.append(event(), expected=1, snapshot=log.prepare_snapshot(PARTS))
    prepared = log.prepare_snapshot([PARTS[0], b"another part"])
    with pytest.raises(VersionConflict):
        behind.append(event(), expected=1, snapshot=prepared)
    assert parts_at(log, 2) == PARTS
    behind.append(event(), expected=2, snapshot=prepared)
    assert parts_at(log, 3) == [PARTS[0], b"another part"]


def test_a_damaged_list_of_parts_of_the_newest_snapshot_prevents_no_append() -> None:
    log = new_log("model")
    many = [b"%d" % number for number in range(1000)]
    log.append(event(), expected=0, snapshot=log.prepare_snapshot(many))
    key = f"{log.record.owner}/app-snapshots/{sha256(b''.join(map(sha256, many))).hex()}"
    stat = log.environment.blobs.stat(key)
    assert stat is not None
    log.environment.blobs.delete(key, stat.stamp)
    log.append(event(), expected=1, snapshot=log.prepare_snapshot(many))
    assert parts_at(log, 2) == many


def test_the_checks_of_a_snapshot_are_not_taken_for_the_check_of_the_head() -> None:
    """If the last write were a check, its failure would look like a changed history."""
    log = other(new_log("model"), joint_commits=False)
    log.append(event(), expected=0, snapshot=log.prepare_snapshot(PARTS))
    sent: list[object] = []

    def fail(index: object, writes: object) -> None:
        sent.extend(writes)  # type: ignore[call-overload]
        raise ConditionFailed({})

    prepared = log.prepare_snapshot(PARTS)
    scripted(log.environment).script = [fail]  # type: ignore[list-item]
    log.append(event(), expected=1, snapshot=prepared)
    assert isinstance(sent[-1], Put)
    assert sum(isinstance(write, Check) for write in sent) == 2
