"""Tests of appends: versions, expected versions, shared commits, the number of requests, and lost answers."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from functools import partial

import pytest

from stratalog.clock import Clock, Observation, SystemClock
from stratalog.errors import ContentionError, OutcomeUnknown, Unavailable, VersionConflict
from stratalog.keys import entries_partition, number
from stratalog.log import Log, open_log
from stratalog.log.append import Appender, LogAppend
from stratalog.log.pending_entry import DRAWN_BYTES, WRITE_ID_CHARACTERS, PendingEntry, draw_ids, prepare_entry
from stratalog.ports.index import Put, Write, item_bytes
from tests.log.helpers import (
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
    lost_request,
    new_environment,
    new_log,
    scripted,
    unavailable,
)
from tests.threads import join_all, start_all, until

SECONDS_MAX = 60


def other(log: Log) -> Log:
    return open_log(another(log.environment), ORGANISATION, NAME)


def test_versions_are_1_2_3() -> None:
    log = new_log()
    assert [log.append(event()).version for _ in range(3)] == [1, 2, 3]


def test_events_appended_together_are_one_entry() -> None:
    log = new_log()
    log.append([event("a"), event("b")], author="ann")
    (entry,) = log.read()
    assert ([each.data for each in entry.events], entry.author) == (["a", "b"], "ann")


def test_the_right_expected_version_is_accepted() -> None:
    log = new_log()
    fill(log, 2)
    assert log.append(event(), expected=2).version == 3


@pytest.mark.parametrize("expected", [0, 1, 3, 9])
def test_a_wrong_expected_version_raises_a_conflict_with_the_actual_version(expected: int) -> None:
    log = new_log()
    fill(log, 2)
    with pytest.raises(VersionConflict) as caught:
        log.append(event(), expected=expected)
    assert (caught.value.details["expected"], caught.value.details["actual"]) == (expected, 2)


def test_a_refused_append_writes_nothing() -> None:
    log = new_log()
    fill(log, 2)
    with pytest.raises(VersionConflict):
        log.append(event(), expected=1)
    assert log.head().version == 2


def test_a_stale_handle_accepts_an_expected_version_that_is_current() -> None:
    log = new_log()
    fill(log, 1)
    fill(other(log), 2)
    assert log.append(event(), expected=3).version == 4


def test_a_retry_with_the_same_write_id_returns_the_committed_entry() -> None:
    log = new_log()
    first = log.append(event("once"), expected=0, write_id="mine")
    fill(log, 2)
    assert other(log).append(event("once"), expected=0, write_id="mine") == first
    assert log.head().version == 3


def test_a_steady_writer_makes_one_commit_and_no_read() -> None:
    log = new_log()
    fill(log, 1)
    assert calls_of(log, lambda: log.append(event())) == {"commit": 1}


def test_opening_reads_the_name_record_and_the_first_append_reads_only_the_head() -> None:
    log = new_log()
    fill(log, 3)
    cold = other(log)
    assert scripted(cold.environment).calls == {"get": 1}
    assert calls_of(cold, lambda: cold.append(event())) == {"query": 1, "commit": 1}


def test_a_handle_opened_too_long_ago_reads_the_name_again() -> None:
    log = new_log()
    cold = other(log)
    clock_of(log.environment).sleep(301)
    assert calls_of(cold, cold.head) == {"get": 1, "query": 1}


def test_every_read_of_the_head_of_an_empty_log_costs_a_single_query() -> None:
    cold = other(new_log())
    assert [calls_of(cold, cold.head) for _ in range(2)] == [{"query": 1}] * 2


def test_appends_queued_during_a_commit_share_the_next_commit() -> None:
    log = new_log()
    fill(log, 1)
    assert commits_of_a_crowd(log) == 2
    assert log.head().version == 10


def test_a_leader_waits_for_the_callers_of_the_last_commit_and_commits_with_them() -> None:
    log = new_log()
    index, clock, group = scripted(log.environment), clock_of(log.environment), log._appender._group_commit
    awaited: list[int] = []

    def arrive(count: int, seconds: float) -> None:
        """Let the other callers of the last commit come during the delay. They are slower than its leader."""
        awaited.append(count)
        threads.extend(start_all([partial(log.append, event())] * count))
        until(lambda: len(group.waiting) == count)

    threads: list[threading.Thread] = []
    commits_of_a_crowd(log)
    group.await_others = arrive  # type: ignore[method-assign]
    log._appender._delay.measure([prepare_entry(log.environment, "", [event()])] * 8, lambda batch: clock.sleep(0.01))
    index.calls.clear()
    log.append(event())
    join_all(threads)
    assert (awaited, index.calls["commit"]) == ([7], 1)


def test_appends_do_not_share_commits_on_an_index_where_joint_commits_cost_more() -> None:
    log = open_log(another(new_log().environment, joint_commits=False), ORGANISATION, NAME)
    fill(log, 1)
    assert commits_of_a_crowd(log) == 9


def commits_of_a_crowd(log: Log) -> int:
    """Run nine appends. Eight of them arrive during the commit of the first append. Return the number of commits."""
    sent, go = threading.Event(), threading.Event()

    def hold() -> None:
        sent.set()
        assert go.wait(SECONDS_MAX)

    scripted(log.environment).calls.clear()
    scripted(log.environment).script = [after(hold)]
    (first,) = start_all([partial(log.append, event())])
    assert sent.wait(SECONDS_MAX)
    others = start_all([partial(log.append, event())] * 8)
    until(lambda: len(log._appender._group_commit.waiting) == 8)
    go.set()
    join_all([first, *others])
    return scripted(log.environment).calls["commit"]


def test_a_refused_append_does_not_block_the_rest_of_its_group_commit() -> None:
    log = new_log()
    appender: Appender = log._appender
    refused = prepare_entry(log.environment, log.record.owner, [event()], expected=7)
    written = prepare_entry(log.environment, log.record.owner, [event()])
    appender._run([refused, written])
    assert isinstance(refused.error, VersionConflict)
    assert written.answer().version == 1


def test_a_leader_draws_the_random_bytes_of_its_own_batch_by_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    log = new_log()
    counts: list[int] = []
    draw = log.environment.clock.random_bytes

    def counted(count: int) -> bytes:
        counts.append(count)
        return draw(count)

    monkeypatch.setattr(log.environment.clock, "random_bytes", counted)
    pending = [prepare_entry(log.environment, log.record.owner, [event()]) for _ in range(5)]
    assert counts == []
    log._appender._run(pending[:3])
    log._appender._run(pending[3:])
    assert counts == [3 * DRAWN_BYTES, 2 * DRAWN_BYTES], "no bytes are kept for later entries"
    written = list(log.read())
    assert [(entry.write_id, entry.salt) for entry in written] == [(entry.write_id, entry.salt) for entry in pending]
    assert len({entry.write_id for entry in written} | {entry.salt for entry in written}) == 10


def test_an_entry_keeps_its_write_id_and_its_salt_under_the_next_leader() -> None:
    log = new_log()
    pending = prepare_entry(log.environment, log.record.owner, [event()])
    LogAppend(log._appender, [pending])  # the leader is interrupted before its commit
    drawn = pending.write_id, pending.salt
    log._appender._run([pending])
    assert (pending.answer().write_id, pending.answer().salt) == drawn


def test_processes_draw_different_ids_for_an_entry_that_was_prepared_before_their_fork() -> None:
    environment, clock = new_environment(), SystemClock()
    earlier, pending = (prepare_entry(environment, "acme", [event()]) for _ in range(2))
    draw_ids(clock, [earlier])
    forks = [ids_drawn_in_a_fork(clock, pending) for _ in range(2)]
    draw_ids(clock, [pending])
    assert len({*forks, (pending.write_id, pending.salt)}) == 3


def ids_drawn_in_a_fork(clock: Clock, pending: PendingEntry) -> tuple[str, bytes]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            draw_ids(clock, [pending])
            os.write(writer, pending.write_id.encode() + pending.salt)
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answer:
        drawn = answer.read()
    os.waitpid(child, 0)
    assert len(drawn) == DRAWN_BYTES
    return drawn[:WRITE_ID_CHARACTERS].decode(), drawn[WRITE_ID_CHARACTERS:]


def test_an_append_that_loses_a_race_follows_the_entry_of_the_winner() -> None:
    log = new_log()
    fill(log, 1)
    rival = other(log)
    scripted(log.environment).script = [after(lambda: rival.append(event("rival")))]
    assert log.append(event("late")).version == 3
    assert data(log) == ["plan:1", "rival", "late"]


def test_an_expected_version_conflicts_if_a_rival_appends_first() -> None:
    log = new_log()
    fill(log, 1)
    rival = other(log)
    scripted(log.environment).script = [after(lambda: rival.append(event()))]
    with pytest.raises(VersionConflict):
        log.append(event(), expected=1)


@pytest.mark.parametrize("mishap", [lost_answer, lost_request, unavailable])
def test_an_append_whose_answer_is_lost_is_written_once(mishap: object) -> None:
    log = new_log()
    fill(log, 1)
    scripted(log.environment).script = [mishap]  # type: ignore[list-item]
    assert log.append(event("once")).version == 2
    assert data(log) == ["plan:1", "once"]


def test_an_append_recognises_its_own_commit_that_takes_effect_late() -> None:
    log = new_log()
    fill(log, 1)
    delayed: list[Sequence[Write]] = []

    def late(index: ScriptedIndex, writes: Sequence[Write]) -> None:
        delayed.append(writes)
        lost_request(index, writes)

    scripted(log.environment).script = [late, after(lambda: scripted(log.environment).backend.commit(delayed[0]))]
    assert log.append(event("once")).version == 2
    assert data(log) == ["plan:1", "once"]


def test_an_append_that_loses_until_its_deadline_raises_contention_error() -> None:
    log = new_log()
    rival = other(log)

    def lose() -> None:
        rival.append(event())
        log.environment.clock.sleep(3)

    scripted(log.environment).script = [after(lose)] * 20
    with pytest.raises(ContentionError):
        log.append(event())


def test_an_append_to_an_unavailable_index_raises_unavailable_at_its_deadline() -> None:
    log = new_log(append_seconds_max=0)
    scripted(log.environment).script = [unavailable] * 500
    log.head()
    with pytest.raises(Unavailable):
        log.append(event())


def test_an_append_in_doubt_raises_outcome_unknown_at_its_deadline() -> None:
    log = new_log(append_seconds_max=1)
    scripted(log.environment).script = [lost_request] * 500
    begun = Observation(log.environment.clock)
    with pytest.raises(OutcomeUnknown):
        log.append(event())
    assert 1 <= begun.age_seconds() < 3


def test_an_append_raises_outcome_unknown_if_a_lost_request_may_still_take_effect() -> None:
    log = new_log(append_seconds_max=1)
    scripted(log.environment).script = [lost_request, *[unavailable] * 500]
    with pytest.raises(OutcomeUnknown):
        log.append(event())


def test_an_append_that_is_answered_an_hour_late_is_read_back_and_written_once() -> None:
    log = new_log()
    fill(log, 1)
    assert calls_of(log, lambda: log.append(event("in time"))) == {"commit": 1}
    scripted(log.environment).script = [answered_late(clock_of(log.environment), 3600)]
    calls = calls_of(log, lambda: log.append(event("once")))
    assert calls["commit"] == 1
    assert calls["get"] > 0
    assert data(log) == ["plan:1", "in time", "once"]


def test_created_ms_never_goes_back_though_the_clock_does() -> None:
    log = new_log()
    first = log.append(event())
    clock_of(log.environment).set_wall(first.created_ms - 60_000)
    assert log.append(event()).created_ms == first.created_ms


def test_an_entry_adds_at_most_120_bytes_to_its_body() -> None:
    log = new_log()
    entry = log.append(event("A1"))
    item = log.environment.index.get(entries_partition(log.record.prefix, 1), number(entry.version))
    assert item is not None
    assert item_bytes(item) - len(item.attributes["b"]) <= 120  # type: ignore[arg-type]


def test_setting_a_cell_costs_at_most_200_bytes() -> None:
    log = new_log()
    written: list[Write] = []
    scripted(log.environment).script = [lambda index, writes: (written.extend(writes), index.backend.commit(writes))[1]]
    log.append(event({"cell": "C2", "value": 100}))
    (put,) = written
    assert isinstance(put, Put)
    assert item_bytes(put.item) <= 200
