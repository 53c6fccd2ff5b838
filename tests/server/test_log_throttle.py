"""The server's log during a flood of messages."""

from __future__ import annotations

import logging
import threading

import pytest

from stratalog.server.log_throttle import LogThrottle
from stratalog.testing.clock import ManualClock

DEADLOCK_SECONDS = 60
LOG = logging.getLogger("stratalog.server")


def refuse(number: int) -> None:
    LOG.warning("refused %d", number)


def test_each_kind_of_line_is_written_once_a_second_and_the_rest_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    with LogThrottle(clock).applied():
        for number in range(2001):
            refuse(number)
            clock.sleep(0.001)
    assert caplog.messages == ["refused 0", "refused 1000 (999 more omitted)", "refused 2000 (999 more omitted)"]


def test_lines_omitted_at_the_end_of_a_flood_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    throttle = LogThrottle(clock)
    with throttle.applied():
        for number in range(5):
            refuse(number)
        throttle.report()
        assert len(caplog.messages) == 1
        clock.sleep(1)
        throttle.report()
        throttle.report()
    assert caplog.messages == ["refused 0", "4 more omitted, the first: refused 1"]


def test_lines_of_different_kinds_do_not_throttle_each_other(caplog: pytest.LogCaptureFixture) -> None:
    with LogThrottle(ManualClock()).applied():
        for error in (ValueError("a"), KeyError("b"), ValueError("c")):
            LOG.error("it failed", exc_info=error)
        refuse(1)
    assert caplog.messages == ["it failed", "it failed", "refused 1"]


def test_a_line_whose_arguments_do_not_fit_raises_no_error_and_is_reported_as_its_template(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    throttle = LogThrottle(clock)
    with throttle.applied():
        for argument in (1, "two"):
            LOG.warning("refused %d", argument)
        clock.sleep(1)
        throttle.report()
    assert caplog.messages == ["refused 1", "1 more omitted, the first: refused %d"]


def test_the_text_of_an_argument_may_itself_log(caplog: pytest.LogCaptureFixture) -> None:
    class Caller:
        def __str__(self) -> str:
            refuse(1)
            return "a caller"

    def log_twice() -> None:
        for _ in range(2):
            LOG.warning("%s is away", Caller())

    with LogThrottle(ManualClock()).applied():
        logging_thread = threading.Thread(target=log_twice, daemon=True)
        logging_thread.start()
        logging_thread.join(DEADLOCK_SECONDS)
    assert not logging_thread.is_alive()
    assert {record.msg for record in caplog.records} == {"%s is away", "refused %d"}


def test_a_flood_costs_the_text_of_only_its_first_omitted_line() -> None:
    class Caller:
        texts = 0

        def __str__(self) -> str:
            Caller.texts += 1
            return "a caller"

    with LogThrottle(ManualClock()).applied():
        counts = [Caller.texts for _ in range(100) if LOG.warning("%s is away", Caller()) is None]
    assert counts[-1] == counts[1] == counts[0] + 1


def test_a_line_is_reported_only_after_its_text_is_known(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    throttle = LogThrottle(clock)

    class Caller:
        def __str__(self) -> str:
            clock.sleep(1)
            throttle.report()
            return "a caller"

    with throttle.applied():
        for caller in ("nobody", Caller()):
            LOG.warning("%s is away", caller)
        throttle.report()
    assert caplog.messages == ["nobody is away", "1 more omitted, the first: a caller is away"]


def test_after_the_end_of_the_throttle_every_line_is_written(caplog: pytest.LogCaptureFixture) -> None:
    with LogThrottle(ManualClock()).applied():
        refuse(1)
    refuse(2)
    refuse(3)
    assert caplog.messages == ["refused 1", "refused 2", "refused 3"]
