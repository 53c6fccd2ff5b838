"""Segments are sealed when full, archived and later freed. A writer that was frozen for long damages no segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from stratalog.errors import Corrupt, OutcomeUnknown, Unavailable
from stratalog.keys import entries_partition, number
from stratalog.log import Log, delete_log, open_log
from stratalog.log.pending_entry import prepare_entry
from stratalog.log.retention import archive_segments, free_segments, raise_floor
from stratalog.log.segments import Segment, list_segments, segment_put
from stratalog.log.snapshots import put_snapshot
from stratalog.log.sweep import sweep_deleted
from stratalog.ports.index import Absent, Delete, Item, Put, Write
from tests.log.helpers import (
    DUE_SECONDS,
    NAME,
    ORGANISATION,
    ScriptedIndex,
    after,
    another,
    answered_late,
    calls_of,
    clock_of,
    data,
    event,
    fill,
    lost_answer,
    new_log,
    scripted,
    unavailable,
)


def other(log: Log) -> Log:
    return open_log(another(log.environment), ORGANISATION, NAME)


def firsts(log: Log) -> list[int]:
    return [segment.first for segment in list_segments(log.environment.index, log.record.prefix)]


def expected_data(count: int) -> list[str]:
    return [f"{NAME}:{version}" for version in range(1, count + 1)]


def test_a_full_segment_is_sealed_and_versions_continue_in_the_next_segment() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 10)
    assert firsts(log) == [1, 5, 9]
    assert data(log) == expected_data(10)


def test_a_roll_over_is_one_commit() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 4)
    assert calls_of(log, lambda: log.append(event()))["commit"] == 1


def test_a_roll_over_whose_answer_is_lost_happens_once() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 4)
    scripted(log.environment).script = [lost_answer]
    assert log.append(event()).version == 5
    assert firsts(log) == [1, 5]


def test_two_concurrent_roll_overs_create_a_single_segment() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 4)
    rival = other(log)
    scripted(log.environment).script = [after(lambda: rival.append(event()))]
    assert log.append(event()).version == 6
    assert firsts(log) == [1, 5]


def test_a_stale_writer_follows_the_seal() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 3)
    fill(other(log), 7)
    assert log.append(event()).version == 11


def test_a_segment_that_a_group_of_appends_overfills_is_sealed() -> None:
    log = new_log(segment_entries_target=16)
    for _ in range(3):
        log._appender._run([prepare_entry(log.environment, log.record.owner, [event()]) for _ in range(17)])
    assert firsts(log) == [1, 18, 35]


def test_below_the_hard_cap_a_log_with_state_rolls_over_only_after_a_snapshot() -> None:
    log = new_log("model", segment_entries_target=8)
    fill(log, 12)
    assert firsts(log) == [1]
    put_snapshot(log.environment, log.record, 12, log.hash_at(12), b"state", None)
    fill(log, 2)
    assert firsts(log) == [1, 13]


def test_a_log_with_state_rolls_over_without_a_snapshot_at_the_hard_cap() -> None:
    log = new_log("model", segment_entries_target=8)
    fill(log, 17)
    assert firsts(log) == [1, 17]
    assert log.environment.counters["roll-over without snapshot"] == 1


def test_the_cost_of_an_append_does_not_depend_on_the_number_of_segments() -> None:
    few, many = new_log(), new_log()
    last = grow(many, 10_000)
    assert calls_of(many, lambda: other(many).append(event())) == calls_of(few, lambda: other(few).append(event()))
    cold = other(many)
    assert scripted(cold.environment).calls == {"get": 1}
    assert calls_of(cold, lambda: cold.append(event())) == {"query": 1, "commit": 1}
    assert cold.head().version == last + 2


def grow(log: Log, segments: int) -> int:
    """Write segments of one entry each directly into the index. Return the number of segments."""
    index, prefix = scripted(log.environment).backend, log.record.prefix
    name = index.get(f"{ORGANISATION}/{NAME}", "name")
    assert name is not None
    fill(log, 1)
    for version in range(2, segments + 1):
        old, new = entries_partition(prefix, version - 1), entries_partition(prefix, version)
        index.commit(
            [
                Put(Item(old, number(version), {"c": 1, "k": "s"})),
                segment_put(prefix, Segment(first=version, created_ms=1), Absent()),
                Put(Item(new, number(version), {"c": 1, "h": b"", "w": str(version), "s": b"", "b": b"\x90"})),
            ]
        )
    index.commit([Put(Item(name.partition, name.sort, {**name.attributes, "s": segments}))])
    log._appender.heads.drop(log.known_head())
    return segments


def test_an_archived_segment_reads_as_before() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 10)
    before = list(log.read())
    assert archive_segments(log) == 2
    assert list(other(log).read()) == before
    assert other(log).entry(3) == before[2]


def test_only_sealed_segments_are_archived() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 4)
    assert archive_segments(log) == 0


def test_archiving_stops_at_the_given_version() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 10)
    assert archive_segments(log, upto=4) == 1


def test_nothing_is_freed_before_the_observation_window_and_the_grace() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 10)
    archive_segments(log)
    clock_of(log.environment).sleep(DUE_SECONDS - 1)
    assert free_segments(log) == 0
    clock_of(log.environment).sleep(2)
    assert free_segments(log) == 2
    assert list(log.environment.index.query(entries_partition(log.record.prefix, 1))) == []


def test_a_freed_segment_reads_from_its_archive() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 10)
    before = list(log.read())
    free_all(log)
    assert list(other(log).read()) == before
    assert free_segments(log) == 0


def free_all(log: Log) -> None:
    archive_segments(log)
    clock_of(log.environment).sleep(DUE_SECONDS)
    free_segments(log)


def forget_all(log: Log) -> None:
    raise_floor(log, log.head().version)
    clock_of(log.environment).sleep(DUE_SECONDS)
    free_segments(log)


def test_an_archiver_overtaken_by_another_reports_no_damage() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 6)
    slow = other(log)
    pages = [lambda: None, lambda: free_all(log)]
    scripted(slow.environment).before_page = pages
    assert archive_segments(slow) == 0


@pytest.mark.parametrize("error", [OutcomeUnknown("scripted"), MemoryError(), KeyboardInterrupt()])
def test_an_archive_is_put_again_if_the_answer_to_its_commit_is_lost(error: BaseException) -> None:
    """The commit that marks the segment as archived may have taken effect.

    A running collection may have listed the archive as old before that commit.
    """
    log = new_log(segment_entries_target=4)
    fill(log, 6)

    def late(index: ScriptedIndex, writes: Sequence[Write]) -> None:
        clock_of(log.environment).sleep(DUE_SECONDS)
        index.backend.commit(writes)
        raise error

    scripted(log.environment).script = [late]
    with pytest.raises(type(error)):
        archive_segments(log)
    (stat,) = log.environment.blobs.list("")
    assert clock_of(log.environment).wall_ms() - stat.modified_ms < 1000


def test_freeing_skips_a_segment_that_is_forgotten_while_its_archive_is_read() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 10)
    archive_segments(log)
    clock_of(log.environment).sleep(DUE_SECONDS)
    blobs = log.environment.blobs

    def forgotten(key: str) -> bytes:
        """As another process, raise the floor and free the segments below it. As a collection, delete the archives."""
        vars(blobs).pop("get")
        raise_floor(other(log), 9)
        clock_of(log.environment).sleep(DUE_SECONDS)
        free_segments(other(log))
        for stat in list(blobs.list("")):
            blobs.delete(stat.key, stat.stamp)
        return blobs.get(key)

    vars(blobs)["get"] = forgotten
    assert free_segments(log) == 0
    assert data(log, after=9) == expected_data(10)[9:]


def lose_archives(log: Log) -> None:
    for stat in list(log.environment.blobs.list("")):
        log.environment.blobs.delete(stat.key, stat.stamp)


def test_entries_that_differ_from_their_damaged_archive_are_not_freed() -> None:
    """Both the archive and one entry are damaged. Once the entry is repaired, the log writes the archive again."""
    log = new_log(segment_entries_target=4)
    fill(log, 6)
    archive_segments(log)
    clock_of(log.environment).sleep(DUE_SECONDS)
    index = scripted(log.environment).backend
    third = index.get(entries_partition(log.record.prefix, 1), number(3))
    assert third is not None
    index.commit([Put(Item(third.partition, third.sort, {**third.attributes, "c": 1}))])
    lose_archives(log)
    for _ in range(2):
        with pytest.raises(Corrupt, match="the entries differ from their damaged archive"):
            free_segments(other(log))
    assert "archive made anew" not in log.environment.counters
    assert [entry.version for entry in other(log).read()] == [1, 2, 3, 4, 5, 6]
    index.commit([Put(third)])
    assert free_segments(other(log)) == 1
    assert data(other(log)) == expected_data(6)


def test_a_segment_freed_while_its_lost_archive_is_rebuilt_is_not_reported_as_damage() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 10)
    archive_segments(log)
    clock_of(log.environment).sleep(DUE_SECONDS)
    lose_archives(log)

    def forget() -> None:
        raise_floor(other(log), 9)
        clock_of(log.environment).sleep(DUE_SECONDS)
        free_segments(other(log))

    # `free_segments` reads three pages: the segments, the first segment again, and the entries of that segment.
    scripted(log.environment).before_page = [lambda: None, lambda: None, forget]
    assert free_segments(log) == 0
    assert data(log, after=9) == expected_data(10)[9:]


def test_archiving_does_not_overwrite_a_base_that_a_concurrently_raised_floor_recorded() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 10)
    slow = other(log)
    scripted(slow.environment).script = [after(lambda: raise_floor(log, 6))]
    archive_segments(slow)
    segment = next(each for each in list_segments(log.environment.index, log.record.prefix) if each.first == 5)
    assert segment.base == 6


def test_a_read_of_a_freed_segment_with_a_lost_archive_raises_corrupt() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 6)
    free_all(log)
    lose_archives(log)
    with pytest.raises(Corrupt):
        data(other(log))


def test_an_append_that_lands_late_in_a_freed_segment_is_repeated_at_the_head() -> None:
    """The writer sends its put. A rival rolls over, archives and frees the segment before the put takes effect."""
    log = new_log(segment_entries_target=4)
    fill(log, 3)
    rival = other(log)
    rival.head()

    def meanwhile() -> None:
        fill(rival, 5)
        free_all(rival)

    scripted(log.environment).script = [after(meanwhile)]
    assert log.append(event("late")).version == 9
    assert data(other(log)) == [*expected_data(8), "late"]


def test_an_orphaned_write_that_its_writer_cannot_delete_is_removed_by_the_sweep() -> None:
    log = new_log(segment_entries_target=4)
    scripted(log.environment).joint_commits = False  # a joint commit checks the head and leaves no orphaned write
    fill(log, 3)
    rival = other(log)

    def meanwhile() -> None:
        fill(rival, 5)
        free_all(rival)

    scripted(log.environment).script = [after(meanwhile), unavailable]
    assert log.append(event("late")).version == 9
    assert data(other(log)) == [*expected_data(8), "late"]
    freed = entries_partition(log.record.prefix, 1)
    assert [item.sort for item in log.environment.index.query(freed)] == [number(4)]
    delete_log(log)
    clock_of(log.environment).sleep(DUE_SECONDS)
    assert sweep_deleted(log.environment, log.record.organisation) == 1
    assert list(log.environment.index.query(freed)) == []


def test_an_orphaned_write_in_a_freed_segment_is_never_read() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 3)
    rival, bystander = other(log), other(log)
    bystander.head()
    fill(rival, 5)
    free_all(rival)
    stray = Item(entries_partition(log.record.prefix, 1), number(4), {"c": 1, "w": "stray", "b": b"\x90"})
    rival.environment.index.commit([Put(stray)])
    assert bystander.append(event("true")).version == 9
    assert log.entry(3).write_id != "stray"
    assert log.entry(4).write_id != "stray"
    assert data(bystander) == [*expected_data(8), "true"]


def test_a_writer_recognises_its_entry_in_the_archive_of_a_freed_segment() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 3)
    rival = other(log)

    def land_and_freeze(index: object, writes: list[Put]) -> None:
        scripted(log.environment).backend.commit(writes)
        fill(rival, 5)
        free_all(rival)

    scripted(log.environment).script = [land_and_freeze]  # type: ignore[list-item]
    assert log.append(event("once")).version == 4
    assert data(other(log)).count("once") == 1


@pytest.mark.parametrize(
    "joint_commits", [True, False], ids=["commits check the head", "commits do not check the head"]
)
@pytest.mark.parametrize(("free", "left"), [(free_all, [1, 5, 9]), (forget_all, [9])], ids=["archived", "forgotten"])
def test_a_writer_delayed_before_a_roll_over_appends_to_the_newest_segment(
    free: Callable[[Log], None], left: list[int], joint_commits: bool
) -> None:
    rival = new_log(segment_entries_target=4)
    fill(rival, 4)
    log = open_log(another(rival.environment, joint_commits=joint_commits), ORGANISATION, NAME)
    log.head()
    original = log.environment.index.get

    def frozen(*where: str, consistent: bool = True) -> Item | None:
        vars(log.environment.index).pop("get")
        fill(rival, 5)
        free(rival)
        return original(*where)

    vars(log.environment.index)["get"] = frozen
    assert log.append(event("late")).version == 10
    assert firsts(other(log)) == left


def test_the_body_of_an_append_with_a_late_answer_is_put_again() -> None:
    log = new_log(body_inline_bytes_max=64)
    scripted(log.environment).script = [answered_late(clock_of(log.environment), 200)]
    log.append(event("x" * 100))
    (stat,) = log.environment.blobs.list("")
    assert clock_of(log.environment).wall_ms() - stat.modified_ms < 1000


def test_an_append_is_written_once_if_the_repeated_put_of_its_body_fails_at_first() -> None:
    """The answer is so late that the writer reads the head and puts the body again. The first repeated put fails."""
    log = new_log(body_inline_bytes_max=64, append_seconds_max=1000)
    blobs = vars(log.environment.blobs)

    def fail_once(key: str, body: bytes) -> None:
        blobs.pop("put")
        raise Unavailable("scripted")

    def late(index: ScriptedIndex, writes: Sequence[Write]) -> None:
        answered_late(clock_of(log.environment), 200)(index, writes)
        blobs["put"] = fail_once

    scripted(log.environment).script = [late]
    assert log.append(event("x" * 100)).version == 1
    assert "put" not in blobs
    assert log.head().version == 1


def test_a_gap_below_the_head_is_corrupt_and_never_skipped() -> None:
    log = new_log()
    fill(log, 5)
    log.environment.index.commit([Delete(entries_partition(log.record.prefix, 1), number(3))])
    with pytest.raises(Corrupt):
        data(other(log))
