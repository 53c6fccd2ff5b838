"""A function takes no container for an event that Lambda refuses, and replaces a container that ends."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.aws.functions import PAYLOAD_BYTES_MAX, Failed, Fate, Function
from tests.processes import environment
from tests.threads import run_together


def handler(event: Mapping[str, Any], context: object) -> int:
    """Return the process's id, or end the process for the event ``{"exit": STATUS}``."""
    if "exit" in event:
        os._exit(event["exit"])
    return os.getpid()


@pytest.fixture
def function() -> Iterator[Function]:
    function = Function(f"{__name__}.handler", environment(), containers=1)
    yield function
    function.close()


def test_an_event_that_is_too_large_reaches_no_container(function: Function) -> None:
    process = function.call({})
    with pytest.raises(Failed, match="the event is too large"):
        function.call({"body": "x" * PAYLOAD_BYTES_MAX})
    assert function.call({}) == process
    assert (function.calls, function.starts) == (2, 1)


def test_a_container_that_ends_is_named_with_its_status_and_replaced(function: Function) -> None:
    process = function.call({})
    with pytest.raises(Failed, match=r"ended by itself: the process ended; .*3"):
        function.call({"exit": 3})
    assert function.call({}) != process


def test_concurrent_calls_choose_their_fates_in_sequence() -> None:
    inside, inside_max = 0, 0

    def fate() -> Fate:
        nonlocal inside, inside_max
        inside += 1
        inside_max = max(inside_max, inside)
        time.sleep(0.05)
        inside -= 1
        return Fate()

    function = Function(f"{__name__}.handler", environment(), warm=False, fate=fate)
    run_together([lambda: function.call({})] * 3)
    assert (inside_max, function.calls, function.starts) == (1, 3, 3)
