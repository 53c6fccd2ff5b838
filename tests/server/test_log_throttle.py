"""The server's log during a flood of messages."""

from __future__ import annotations

import logging

import pytest

from stratalog.server.log_throttle import LogThrottle
from stratalog.testing.clock import ManualClock

LOG = logging.getLogger("stratalog.server")


def refuse(number: int) -> None:
    LOG.warning("refused %d", number)


def test_of_one_kind_a_line_a_second_is_written_and_the_others_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    with LogThrottle(clock).applied():
        for number in range(2001):
            refuse(number)
            clock.sleep(0.001)
    assert caplog.messages == ["refused 0", "refused 1000 (999 more omitted)", "refused 2000 (999 more omitted)"]


def test_what_was_left_out_is_told_after_the_flood_too(caplog: pytest.LogCaptureFixture) -> None:
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
    assert caplog.messages == ["refused 0", "4 more omitted: refused %d"]


def test_another_kind_of_line_is_written_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with LogThrottle(ManualClock()).applied():
        for error in (ValueError("a"), KeyError("b"), ValueError("c")):
            LOG.error("it failed", exc_info=error)
        refuse(1)
    assert caplog.messages == ["it failed", "it failed", "refused 1"]


def test_after_the_server_s_end_every_line_is_written(caplog: pytest.LogCaptureFixture) -> None:
    with LogThrottle(ManualClock()).applied():
        refuse(1)
    refuse(2)
    refuse(3)
    assert caplog.messages == ["refused 1", "refused 2", "refused 3"]
