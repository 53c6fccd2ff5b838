"""The waits of tests end at their deadline, and hanging threads do not delay the end of the process."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests import threads


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    monkeypatch.setattr(threads, "SECONDS_MAX", 0.01)
    event = threading.Event()
    yield event
    event.set()


def test_a_condition_that_never_comes_true_fails(ended: threading.Event) -> None:
    with pytest.raises(AssertionError, match="did not come true"):
        threads.until(ended.is_set)


def test_a_thread_that_hangs_fails_and_is_a_daemon(ended: threading.Event) -> None:
    (thread,) = threads.start_all([ended.wait])
    with pytest.raises(AssertionError, match="still runs"):
        threads.join_all([thread])
    assert thread.daemon


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_exception_of_a_call_is_raised_after_all_threads_ended() -> None:
    seen: list[int] = []

    def fail() -> None:
        raise ValueError("the call failed")

    with pytest.raises(ValueError, match="the call failed"):
        threads.run_together([fail, lambda: seen.append(1)])
    assert seen == [1]


def test_calls_run_in_parallel() -> None:
    barrier, seen = threading.Barrier(3), []

    def meet() -> None:
        barrier.wait(threads.SECONDS_MAX)
        seen.append(1)

    threads.run_together([meet] * 3)
    assert len(seen) == 3
