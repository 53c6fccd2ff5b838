"""A writer without rivals appends without a read.

A writer whose put would lose a race with a probability above 0.2 reads the head first. Each lost race doubles the limit
of the writer's next wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.contention import contend, main
from stratalog.errors import (
    ConditionFailed,
    ContentionError,
    OutcomeUnknown,
    StratalogError,
    Unavailable,
    VersionConflict,
)
from stratalog.log import Log, LogSettings, open_log
from stratalog.log.contention import Contention
from stratalog.ports.index import Write
from stratalog.testing.clock import ManualClock
from tests.log.helpers import (
    NAME,
    ORGANISATION,
    after,
    another,
    calls_of,
    clock_of,
    event,
    fill,
    new_environment,
    new_log,
    scripted,
)

SETTINGS = LogSettings()
seconds = st.floats(0, 1000)
sightings = st.lists(st.tuples(st.integers(0, 1000), seconds), max_size=30)


def seen(*pairs: tuple[int, float]) -> Contention:
    contention = Contention()
    for others, passed in pairs:
        contention.saw(others, passed)
    return contention


def test_a_writer_without_rivals_never_counts_as_behind() -> None:
    contention = seen((0, 1), (0, 1000))
    assert not contention.contended
    assert not contention.is_behind(10**9)


@pytest.mark.parametrize(("age", "behind"), [(0.21, False), (0.23, True)])
def test_a_writer_reads_the_head_first_if_its_put_would_lose_with_probability_0_2(age: float, behind: bool) -> None:
    """Others write once per second. The chance that one of them writes within 0.223 s is 0.2."""
    assert seen((10, 10)).is_behind(age) is behind


def test_the_age_limit_of_a_head_scales_with_the_write_rate_of_rivals() -> None:
    hourly, quick = seen(*[(1, 3600)] * 5), seen(*[(1, 0.01)] * 5)
    assert (hourly.is_behind(600), hourly.is_behind(900)) == (False, True)
    assert (quick.is_behind(0.001), quick.is_behind(0.003)) == (False, True)


def test_contention_ends_after_21_observations_without_rivals() -> None:
    contention = seen((1, 1), *[(0, 1)] * 20)
    assert contention.contended
    contention.saw(0, 1)
    assert not contention.contended


@given(sightings, seconds, seconds)
def test_a_head_that_counts_as_behind_also_counts_as_behind_at_a_greater_age(
    pairs: list[tuple[int, float]], age: float, more: float
) -> None:
    contention = seen(*pairs)
    assert contention.is_behind(age) <= contention.is_behind(age + more)


@given(st.lists(st.booleans()))
def test_the_back_off_stays_within_its_bounds(puts: list[bool]) -> None:
    contention = Contention()
    for won in puts:
        contention.won() if won else contention.lost(SETTINGS)
        assert 0 <= contention.backoff_seconds <= SETTINGS.append_backoff_seconds_max


def test_the_back_off_doubles_after_a_lost_put_and_shrinks_by_a_fifth_after_a_won_put() -> None:
    contention = Contention()
    for _ in range(3):
        contention.lost(SETTINGS)
    assert contention.backoff_seconds == 4 * SETTINGS.append_backoff_seconds_first
    contention.won()
    assert contention.backoff_seconds == pytest.approx(3.2 * SETTINGS.append_backoff_seconds_first)


def waits_of(cause: StratalogError) -> list[tuple[int, int]]:
    """Return each wait of a retry within ten seconds, with the time left before the wait, both in milliseconds."""
    environment = new_environment(append_seconds_max=10)
    retry, clock = environment.retry(), clock_of(environment)
    begun, waits = clock.boot_ms(), []
    while True:
        left = 10_000 - (clock.boot_ms() - begun)
        before = clock.boot_ms()
        if not retry.wait(cause):
            return waits
        waits.append((clock.boot_ms() - before, left))


def test_a_wait_after_a_lost_race_is_at_most_the_first_wait_or_a_tenth_of_the_remaining_time() -> None:
    waits = waits_of(ConditionFailed({}))
    assert all(wait <= max(2, left / 10) + 1 for wait, left in waits)
    assert len(waits) > 50


@pytest.mark.parametrize("cause", [Unavailable("busy"), OutcomeUnknown("lost")])
def test_a_failing_store_is_retried_less_often_than_a_lost_race(cause: StratalogError) -> None:
    assert len(waits_of(cause)) < len(waits_of(ConditionFailed({}))) / 2


def test_waits_do_not_grow_with_the_number_of_tries_if_no_rival_was_observed() -> None:
    environment, contention = new_environment(), Contention()
    retry, clock = environment.retry(pace=contention), clock_of(environment)
    for _ in range(10):
        retry.wait(ConditionFailed({}))
    assert clock.boot_ms() - ManualClock().boot_ms() <= 10 * 2


def rival_of(log: Log) -> Log:
    return open_log(another(log.environment), ORGANISATION, NAME)


def test_a_writer_that_lost_a_race_reads_the_head_after_its_wait() -> None:
    log = new_log()
    fill(log, 1)
    rival = rival_of(log)
    order: list[str] = []
    scripted(log.environment).script = [after(lambda: rival.append(event()))]
    scripted(log.environment).before_page = [lambda: order.append(f"read {clock_of(log.environment).boot_ms()}")]
    begun = clock_of(log.environment).boot_ms()
    clock_of(log.environment).random = lambda: 0.999  # type: ignore[method-assign]
    log.append(event())
    assert order == [f"read {begun + 2}"]


def test_after_a_lost_race_a_writer_reads_the_head_first_and_loses_no_further_put() -> None:
    log = new_log()
    fill(log, 1)
    rival = rival_of(log)
    costs = []
    for _ in range(4):
        rival.head()
        rival.append(event())
        clock_of(log.environment).sleep(1)
        costs.append(calls_of(log, lambda: log.append(event())))
    assert costs == [{"commit": 2, "query": 1}] + [{"commit": 1, "query": 1}] * 3


def test_an_append_at_a_head_that_its_caller_just_read_does_not_read_the_head_again() -> None:
    """The caller chose the expected version from its own read. A second read can only find that the race is lost."""
    log = new_log()
    fill(log, 1)
    rival = rival_of(log)
    for _ in range(4):
        rival.head()
        rival.append(event())
        clock_of(log.environment).sleep(1)
        log.append(event())
    head = log.head()
    clock_of(log.environment).sleep(1)
    assert log.is_behind()
    assert calls_of(log, lambda: log.append(event(), expected=head.version)) == {"commit": 1}


def test_an_append_that_lost_its_race_reads_the_head_before_it_is_refused() -> None:
    log = new_log()
    fill(log, 1)
    rival = rival_of(log)
    rival.head()
    rival.append(event())

    def lose() -> None:
        with pytest.raises(VersionConflict, match="not at the expected version"):
            log.append(event(), expected=1)

    assert calls_of(log, lose) == {"commit": 1, "query": 1}


def test_a_writer_stops_reading_the_head_soon_after_its_rivals_stop() -> None:
    log = new_log()
    fill(log, 1)
    rival_of(log).append(event())
    for _ in range(30):
        clock_of(log.environment).sleep(1)
        log.append(event())
    assert calls_of(log, lambda: log.append(event())) == {"commit": 1}
    assert log.environment.counters["conflict"] == 1
    assert log.environment.counters["read first"] < 10


def test_after_a_contention_error_the_next_append_reads_the_head_first() -> None:
    log = new_log(append_seconds_max=0.0)
    fill(log, 1)
    rival, clock = rival_of(log), clock_of(log.environment)
    scripted(log.environment).script = [after(lambda: rival.append(event()), lambda: clock.sleep(1))]
    with pytest.raises(ContentionError):
        log.append(event())
    assert log.is_behind()
    assert calls_of(log, lambda: log.append(event())) == {"query": 1, "commit": 1}


def test_64_writers_that_pause_a_second_all_succeed_and_waste_under_half_a_put_per_commit() -> None:
    outcome = contend(64, 10, pause=1)
    assert outcome.failed == 0
    assert outcome.wasted < 0.5


def test_64_writers_that_do_not_pause_all_succeed_within_8_seconds() -> None:
    outcome = contend(64, 20)
    assert outcome.failed == 0
    assert outcome.slowest_ms < 8000


def test_64_writers_that_do_not_pause_waste_under_two_puts_per_commit() -> None:
    """With a back-off that does not grow they waste 19."""
    assert contend(64, 20).wasted < 2


def test_a_run_in_which_no_append_succeeds_has_no_figures_per_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*arguments: Any, **options: Any) -> None:
        raise ContentionError("simulated")

    monkeypatch.setattr(Log, "append", give_up)
    outcome = contend(2, 3)
    assert (outcome.commits_per_second, outcome.failed) == (0, 6)
    assert isnan(outcome.wasted)
    assert isnan(outcome.slowest_ms)


def test_the_same_seed_gives_the_same_run() -> None:
    assert contend(8, 10, seed=5) == contend(8, 10, seed=5)


def test_the_program_for_the_documented_contention_figures_prints_seven_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--quick"])
    assert len(capsys.readouterr().out.splitlines()) == 7


def test_a_read_of_a_writers_own_unacknowledged_entry_does_not_count_as_contention() -> None:
    """A reader can see the writer's own entry before the commit is answered."""
    log = new_log()
    fill(log, 1)
    environment = log.environment
    index = scripted(environment)
    commit = index.commit

    def read_before_the_answer(writes: Sequence[Write], *blobs: Any) -> None:
        commit(writes, *blobs)
        clock_of(environment).sleep(0.004)
        assert log.head().version > 1

    index.commit = read_before_the_answer  # type: ignore[method-assign]
    for _ in range(20):
        log.append(event())
    assert not log._appender.contention.contended
    assert calls_of(log, lambda: log.append(event())) == {"commit": 1, "query": 1}  # the reader made the query
    assert environment.counters["read first"] == 0


def test_a_read_of_an_entry_by_a_rival_counts_as_contention() -> None:
    log = new_log()
    fill(log, 1)
    rival = rival_of(log)
    rival.append(event())
    clock_of(log.environment).sleep(1)
    log.head()
    assert log._appender.contention.contended
