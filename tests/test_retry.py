"""`Retry` ends the tries of a call at a deadline, and waits between the tries."""

from __future__ import annotations

import pytest

from stratalog.errors import ConditionFailed, Unavailable
from stratalog.retry import Retry, RetryPolicy
from stratalog.testing.clock import ManualClock

POLICY = RetryPolicy(seconds_max=10, wait_seconds_first=0.1, wait_seconds_max=2)
BUSY = Unavailable("busy")


class SlowestClock(ManualClock):
    """A clock whose random number is the maximum, so that the jitter gives the longest wait."""

    def random(self) -> float:
        return 1.0


class Pace:
    backoff_seconds = 0.5


def waits(retry: Retry, clock: ManualClock, tries: int, cause: Unavailable | ConditionFailed = BUSY) -> list[float]:
    seconds = []
    for _ in range(tries):
        before = clock.boot_ms()
        retry.wait(cause)
        seconds.append((clock.boot_ms() - before) / 1000)
    return seconds


def test_waits_double_up_to_the_maximum() -> None:
    clock = SlowestClock()
    assert waits(Retry(clock, POLICY), clock, 7) == [0.1, 0.2, 0.4, 0.8, 1.6, 2, 2]


def test_no_try_begins_after_the_deadline_and_failures_are_counted() -> None:
    clock = ManualClock()
    retry = Retry(clock, POLICY)
    clock.sleep(9.9)
    assert retry.wait(BUSY)
    clock.sleep(10)
    assert not retry.wait(BUSY)
    assert retry.attempts == 2


def test_the_deadline_counts_from_the_creation_of_the_retry() -> None:
    clock = ManualClock()
    from_the_start = Retry(clock, POLICY)
    clock.sleep(10.5)
    assert not from_the_start.wait(BUSY)
    assert Retry(clock, POLICY).wait(BUSY)


def test_a_wait_for_other_writers_is_bounded_by_a_tenth_of_the_time_left() -> None:
    clock = SlowestClock()
    retry = Retry(clock, POLICY)
    clock.sleep(6)
    assert waits(retry, clock, 4, ConditionFailed({}))[-1] == pytest.approx(0.33, abs=0.01)


def test_waits_for_other_writers_follow_the_measured_pace() -> None:
    clock = SlowestClock()
    retry = Retry(clock, POLICY, pace=Pace())
    assert waits(retry, clock, 3, ConditionFailed({})) == [0.5, 0.5, 0.5]
    assert waits(retry, clock, 1) == [0.8]


def test_a_writer_that_has_its_turn_retries_immediately_until_the_deadline() -> None:
    clock = SlowestClock()
    retry = Retry(clock, POLICY)
    before = clock.boot_ms()
    assert retry.wait(ConditionFailed({}), has_turn=True)
    assert clock.boot_ms() == before
    clock.sleep(11)
    assert not retry.wait(ConditionFailed({}), has_turn=True)


def test_each_cause_of_failure_has_a_separate_count_and_limit() -> None:
    clock = SlowestClock()
    retry = Retry(clock, POLICY)
    while retry.wait_for("throttled", 3):
        pass
    assert retry.wait_for("lost", 1)
    assert not retry.wait_for("throttled", 3)
    assert not retry.wait_for("refused", 0)


def test_a_reset_after_a_success_starts_the_waits_again() -> None:
    clock = SlowestClock()
    retry = Retry(clock, RetryPolicy(wait_seconds_first=1, wait_seconds_max=30))
    assert [retry.next_seconds() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    retry.reset()
    assert retry.next_seconds() == 1


def test_waits_are_drawn_between_zero_and_the_current_maximum() -> None:
    clock = ManualClock()
    drawn = [Retry(clock, POLICY).next_seconds() for _ in range(200)]
    assert 0 <= min(drawn) < 0.02
    assert 0.08 < max(drawn) <= 0.1
