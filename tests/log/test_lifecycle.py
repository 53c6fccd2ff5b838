"""Tests of the creation, deletion, re-creation and forks of logs, and of the items that a sweep leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count as numbers

import pytest

from stratalog.errors import Conflict, LimitExceeded, NotFound, OutcomeUnknown, Unavailable, VersionForgotten
from stratalog.keys import ORGANISATIONS_PARTITION, deleted_partition, entries_partition, forks_partition
from stratalog.limits import FORK_DEPTH_MAX
from stratalog.log import Environment, Log, create_log, delete_log, fork_log, open_log
from stratalog.log.directory import LOGS, NameHolder, list_directory, list_organisations, organisations_of
from stratalog.log.names import read_name
from stratalog.log.retention import archive_segments, free_segments, raise_floor
from stratalog.log.sweep import sweep_deleted
from stratalog.ports.index import NO_BLOBS, Item, Put, Write
from tests.log.helpers import (
    DUE_SECONDS,
    NAME,
    ORGANISATION,
    ScriptedIndex,
    after,
    another,
    behind,
    calls_of,
    clock_of,
    data,
    event,
    fill,
    lost_answer,
    lost_request,
    new_environment,
    new_log,
    scripted,
    unavailable,
)


def other(log: Log, name: str = NAME) -> Log:
    return open_log(another(log.environment), ORGANISATION, name)


def filled(count: int, **settings: int) -> Log:
    log = new_log(**settings)
    fill(log, count)
    return log


def swept(log: Log) -> int:
    clock_of(log.environment).sleep(DUE_SECONDS)
    return sweep_deleted(log.environment, ORGANISATION)


def test_creating_a_log_with_a_used_name_raises_conflict() -> None:
    log = new_log()
    with pytest.raises(Conflict):
        create_log(log.environment, ORGANISATION, NAME)


def test_logs_with_the_same_name_in_two_organisations_are_independent() -> None:
    log = filled(2)
    theirs = create_log(log.environment, "other", NAME)
    assert (theirs.append(event("theirs")).version, data(other(log))) == (1, ["plan:1", "plan:2"])
    delete_log(theirs)
    assert data(other(log)) == ["plan:1", "plan:2"]
    assert create_log(log.environment, "other", NAME).head().version == 0


def test_organisations_of_lists_the_organisations_that_have_a_log_with_the_name() -> None:
    environment = new_environment()
    create_log(environment, "umbrella", "z", "document")
    gone = create_log(environment, "acme", "z")
    create_log(environment, "globex", "z")
    create_log(environment, "globex", "z.2")
    delete_log(gone)
    organisations = list(organisations_of(environment.index, "z"))
    assert organisations == [NameHolder("globex", "log"), NameHolder("umbrella", "document")]
    create_log(environment, "acme", "z")
    assert [holder.organisation for holder in organisations_of(environment.index, "z")] == [
        "acme",
        "globex",
        "umbrella",
    ]


@pytest.mark.parametrize(
    "odd", ["home", "names", "!names", "!home", "!organisations", "records", "queue", "a/b", "計画"]
)
def test_an_organisation_and_a_log_may_be_called_like_a_part_of_a_key(odd: str) -> None:
    environment = new_environment()
    for organisation, name in ((odd, NAME), (NAME, odd), (odd, odd)):
        assert create_log(environment, organisation, name).append(event()).version == 1
    assert list(list_organisations(environment.index)) == sorted({odd, NAME})
    assert {holder.organisation for holder in organisations_of(environment.index, odd)} == {odd, NAME}
    delete_log(open_log(environment, odd, odd))
    assert [holder.organisation for holder in organisations_of(environment.index, odd)] == [NAME]
    assert [line.id for line in list_directory(environment.index, odd, LOGS)] == [NAME]


def test_only_the_first_log_of_an_organisation_enters_the_organisation_in_the_directory() -> None:
    log = new_log()
    written: list[str] = []
    original = log.environment.index.commit

    def commit(writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        written.extend(write.item.partition for write in writes if isinstance(write, Put))
        original(writes, blobs)

    vars(log.environment.index)["commit"] = commit
    for environment in (log.environment, another(log.environment)):
        create_log(environment, ORGANISATION, f"second {id(environment)}")
    assert ORGANISATIONS_PARTITION not in written
    create_log(log.environment, "other", NAME)
    assert written.count(ORGANISATIONS_PARTITION) == 1


def test_a_creation_whose_answer_is_lost_succeeds() -> None:
    environment = new_environment()
    scripted(environment).script = [lost_answer]
    assert create_log(environment, ORGANISATION, NAME).append(event()).version == 1


def test_opening_a_log_that_was_never_created_raises_not_found() -> None:
    with pytest.raises(NotFound):
        open_log(new_environment(), ORGANISATION, NAME)


def test_the_directory_lists_the_logs_of_an_organisation_in_order() -> None:
    environment = new_environment()
    for name in ("b", "a", "c/d"):
        create_log(environment, ORGANISATION, name, "sheet")
    create_log(environment, "umbrella", "z")
    assert [(line.id, line.kind) for line in list_directory(environment.index, ORGANISATION, LOGS)] == [
        ("a", "sheet"),
        ("b", "sheet"),
        ("c/d", "sheet"),
    ]
    assert [line.id for line in list_directory(environment.index, ORGANISATION, LOGS, after="a")] == ["b", "c/d"]
    assert list(list_organisations(environment.index)) == ["acme", "umbrella"]


def test_organisations_of_an_unused_name_is_empty() -> None:
    assert list(organisations_of(new_environment().index, NAME)) == []


def test_an_append_to_a_deleted_log_raises_not_found() -> None:
    log = filled(2)
    stale = other(log)
    stale.head()
    delete_log(log)
    for handle in (log, stale):
        with pytest.raises(NotFound):
            handle.append(event())


def test_a_deleted_log_is_in_no_directory() -> None:
    log = new_log()
    delete_log(log)
    assert list(list_directory(log.environment.index, ORGANISATION, LOGS)) == []
    with pytest.raises(NotFound):
        open_log(log.environment, ORGANISATION, NAME)


def test_a_deletion_that_loses_a_race_to_an_append_still_deletes_the_log() -> None:
    log = filled(2)
    rival = other(log)
    scripted(log.environment).script = [after(lambda: rival.append(event()))]
    delete_log(log)
    with pytest.raises(NotFound):
        rival.append(event())


def test_the_loser_of_two_concurrent_deletions_raises_not_found() -> None:
    log = filled(2)
    rival = other(log)
    scripted(log.environment).script = [after(lambda: delete_log(rival))]
    with pytest.raises(NotFound):
        delete_log(log)


def test_a_lost_deletion_raises_not_found_if_a_rival_deleted_in_the_same_millisecond() -> None:
    log = filled(2)
    rival = other(log)

    def second(index: ScriptedIndex, writes: Sequence[Write]) -> None:
        delete_log(rival)
        lost_request(index, writes)

    scripted(log.environment).script = [second]
    with pytest.raises(NotFound):
        delete_log(log)


def test_a_deletion_delayed_past_a_roll_over_still_ends_the_log() -> None:
    log = filled(4, segment_entries_target=4)
    rival = other(log)
    original = scripted(log.environment).get

    def frozen(partition: str, sort: str) -> Item | None:
        vars(log.environment.index).pop("get")
        fill(rival, 5)
        archive_segments(rival)
        clock_of(log.environment).sleep(DUE_SECONDS)
        free_segments(rival)
        rival.head()  # this call caches the head, so the next append reads nothing first
        return original(partition, sort)

    vars(log.environment.index)["get"] = frozen
    delete_log(log)
    with pytest.raises(NotFound):
        rival.append(event())


def test_a_deletion_whose_answer_is_lost_succeeds() -> None:
    log = filled(2)
    scripted(log.environment).script = [lost_answer]
    delete_log(log)
    assert log.environment.counters["deletion"] == 1


def create_anew(environment: Environment, seconds: float = 0) -> None:
    """In another process, delete the log, sweep after ``seconds``, and create a new log of the same name."""
    rival = open_log(another(environment), ORGANISATION, NAME)
    delete_log(rival)
    clock_of(environment).sleep(seconds)
    sweep_deleted(rival.environment, ORGANISATION)
    create_log(rival.environment, ORGANISATION, NAME)


def test_a_creation_whose_log_is_deleted_before_its_answer_arrives_succeeds() -> None:
    environment = new_environment()

    def create_and_lose(index: ScriptedIndex, writes: Sequence[Write]) -> None:
        index.backend.commit(writes)
        create_anew(environment)
        lost_request(index, writes)

    scripted(environment).script = [create_and_lose]
    log = create_log(environment, ORGANISATION, NAME)
    assert environment.counters["creation"] == 1
    with pytest.raises(NotFound):
        log.append(event())


def test_a_creation_whose_log_may_have_been_swept_raises_outcome_unknown() -> None:
    """The first commit takes effect after the writer looked for its result. The second commit freezes the writer."""
    environment = new_environment()

    def frozen(index: ScriptedIndex, writes: Sequence[Write]) -> None:
        index.backend.commit(writes)  # the first commit takes effect late
        create_anew(environment, DUE_SECONDS)
        index.backend.commit(writes)

    scripted(environment).script = [lost_request, frozen]
    with pytest.raises(OutcomeUnknown):
        create_log(environment, ORGANISATION, NAME)


def test_a_creation_that_never_took_effect_raises_conflict_if_the_name_is_taken() -> None:
    environment = new_environment()

    def frozen(index: ScriptedIndex, writes: Sequence[Write]) -> None:
        create_log(another(environment), ORGANISATION, NAME)
        clock_of(environment).sleep(DUE_SECONDS)
        index.backend.commit(writes)

    scripted(environment).script = [lost_request, frozen]
    with pytest.raises(Conflict):
        create_log(environment, ORGANISATION, NAME)


def test_a_recreated_log_has_a_new_incarnation_and_starts_at_version_1() -> None:
    log = filled(3)
    delete_log(log)
    again = create_log(log.environment, ORGANISATION, NAME)
    assert again.record.incarnation != log.record.incarnation
    assert again.append(event("new")).version == 1
    with pytest.raises(NotFound):
        log.append(event())
    assert data(other(again)) == ["new"]


def test_a_sweep_waits_for_the_grace_period_and_leaves_no_entry_but_the_end_marker() -> None:
    log = filled(10, segment_entries_target=4)
    delete_log(log)
    assert sweep_deleted(log.environment, ORGANISATION) == 0
    assert swept(log) == 1
    left = [
        item
        for segment in (1, 5, 9)
        for item in log.environment.index.query(entries_partition(log.record.prefix, segment))
    ]
    assert [item.attributes["k"] for item in left] == ["e"]
    assert swept(log) == 0


def test_a_sweep_of_the_last_log_of_a_family_deletes_the_blobs() -> None:
    log = filled(1, body_inline_bytes_max=8)
    fork = fork_log(log, "fork", 1)
    delete_log(log)
    delete_log(fork)
    assert list(log.environment.blobs.list("")) != []
    assert swept(log) + swept(log) == 2
    assert list(log.environment.blobs.list("")) == []


def test_a_read_during_a_sweep_is_complete_or_raises_not_found() -> None:
    for commits in numbers(1):
        log = filled(10, segment_entries_target=4)
        reading = other(log).read()
        next(reading)
        delete_log(log)
        # The sweep stops after ``commits`` commits. The reader may still read entries that the sweep has not reached.
        script = scripted(log.environment).script = [*[after()] * commits, unavailable]
        with suppress(Unavailable):
            swept(log)
        is_gone = False
        try:
            assert len(list(reading)) == 9
        except NotFound:
            is_gone = True
        if script:
            break
    assert is_gone
    assert commits > 6


def test_a_fork_has_the_entries_of_its_parent_followed_by_its_own() -> None:
    log = filled(10, segment_entries_target=4)
    fork = fork_log(log, "fork", 6)
    assert fork.append(event("own")).version == 7
    fill(log, 1)
    assert data(other(log, "fork")) == [*data(log, 0, 6), "own"]


def test_the_cost_of_a_fork_does_not_depend_on_the_length_of_the_history() -> None:
    costs = []
    for count in (100, 10_000):
        log = filled(count, segment_entries_target=50)
        costs.append(calls_of(log, lambda log=log: fork_log(log, "fork", 7)))  # type: ignore[misc]
    assert costs == [Counter({"get": 5, "query": 2, "commit": 1})] * 2


def test_a_fork_of_a_fork_reads_the_entries_of_both_ancestors() -> None:
    log = filled(6)
    fork = fork_log(log, "fork", 4)
    fill(fork, 3)
    again = fork_log(fork, "again", 6)
    fill(again, 1)
    assert data(other(again, "again")) == ["plan:1", "plan:2", "plan:3", "plan:4", "fork:5", "fork:6", "again:7"]


def test_a_fork_of_a_fork_below_its_fork_point_descends_only_from_the_grandparent() -> None:
    log = filled(6)
    fork = fork_log(log, "fork", 4)
    again = fork_log(fork, "again", 2)
    assert [parent.name for parent in again.record.lineage] == [NAME]
    assert data(again) == ["plan:1", "plan:2"]


def test_forks_nest_up_to_a_bound() -> None:
    log = filled(1)
    for depth in range(FORK_DEPTH_MAX):
        log = fork_log(log, f"fork-{depth}", depth + 1)
        fill(log, 1)
    with pytest.raises(LimitExceeded) as caught:
        fork_log(log, "deep", FORK_DEPTH_MAX + 1)
    assert caught.value.details["limit"] == FORK_DEPTH_MAX


@pytest.mark.parametrize("at", [-1, 4])
def test_a_fork_at_a_missing_version_raises_not_found(at: int) -> None:
    with pytest.raises(NotFound):
        fork_log(filled(3), "fork", at)


def test_a_deleted_log_cannot_be_forked() -> None:
    log = filled(3)
    delete_log(log)
    with pytest.raises(NotFound):
        fork_log(log, "fork", 2)


def test_a_fork_outlives_its_parent() -> None:
    log = filled(10, segment_entries_target=4)
    fork = fork_log(log, "fork", 6)
    delete_log(log)
    assert swept(log) == 0
    assert len(data(other(fork, "fork"))) == 6


def test_a_fork_below_the_floor_is_refused() -> None:
    log = filled(10, segment_entries_target=4)
    raise_floor(log, 9)
    with pytest.raises(VersionForgotten):
        fork_log(log, "fork", 5)


def test_a_log_deleted_by_a_clock_that_was_far_ahead_is_swept_after_the_grace_period() -> None:
    log = filled(3)
    clock = clock_of(log.environment)
    now_ms = clock.wall_ms()
    clock.set_wall(now_ms + 365 * 86_400_000)
    delete_log(log)
    clock.set_wall(now_ms)
    assert sweep_deleted(log.environment, ORGANISATION, dry_run=True) == 0
    assert sweep_deleted(log.environment, ORGANISATION) == 0
    [line] = log.environment.index.query(deleted_partition(ORGANISATION))
    record = read_name(log.environment.index, ORGANISATION, NAME)
    assert record is not None
    assert record.deleted_ms == line.attributes["m"] == now_ms
    assert swept(log) == 1


def test_a_process_whose_clock_is_days_behind_leaves_the_time_of_a_deletion_as_it_is() -> None:
    log = filled(3)
    delete_log(log)
    assert sweep_deleted(behind(log.environment), ORGANISATION) == 0
    clock_of(log.environment).sleep(DUE_SECONDS / 2)
    assert sweep_deleted(log.environment, ORGANISATION) == 0
    assert swept(log) == 1


def test_a_fork_pins_the_floor() -> None:
    log = filled(10, segment_entries_target=4)
    fork_log(log, "fork", 6)
    assert raise_floor(log, 9) == 6


def test_a_fork_created_while_the_floor_is_raised_pins_the_floor() -> None:
    log = filled(10, segment_entries_target=4)
    rival = other(log)
    scripted(log.environment).script = [after(lambda: fork_log(rival, "fork", 6))]
    assert raise_floor(log, 9) == 6


def test_a_fork_whose_floor_rises_above_its_fork_point_removes_its_pin() -> None:
    log = filled(10, segment_entries_target=4)
    fork = fork_log(log, "fork", 6)
    fill(fork, 2)
    assert raise_floor(fork, 7) == 7
    assert list(log.environment.index.query(forks_partition(log.record.prefix))) == []
    assert raise_floor(log, 9) == 9
    assert data(other(fork, "fork"), 6) == ["fork:7", "fork:8"]


def test_entries_of_a_fork_are_never_dated_before_the_entries_of_its_parent() -> None:
    log = filled(3)
    clock_of(log.environment).set_wall(log.head().created_ms - 60_000)
    fork = fork_log(log, "fork", 3)
    fill(fork, 1)
    times = [entry.created_ms for entry in fork.read()]
    assert times == sorted(times)
