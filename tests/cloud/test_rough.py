"""`RoughEndpoint` and `RealTime` guard their lists with a lock, since the threads of a test share them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stratalog.errors import OutcomeUnknown
from tests.cloud.rough import RealTime, RoughEndpoint

REQUESTS = 4


class Watched(list[Any]):
    """A list that records at each append and each iteration whether the lock is held."""

    def __init__(self, lock: Any) -> None:
        super().__init__()
        self._lock = lock
        self.held: list[bool] = []

    def append(self, item: Any) -> None:
        self.held.append(self._lock.locked())
        super().append(item)

    def __iter__(self) -> Any:
        self.held.append(self._lock.locked())
        return super().__iter__()


def test_late_requests_are_registered_under_the_lock_and_all_are_sent() -> None:
    endpoint: Any = RoughEndpoint("http://127.0.0.1:1", 1)
    late, sent = Watched(endpoint._lock), list[bytes]()
    endpoint._endpoint = SimpleNamespace(exchange=sent.append)
    endpoint._late = late
    endpoint._delays = SimpleNamespace(random=lambda: late.held.append(endpoint._lock.locked()) or 0.0)
    for _ in range(REQUESTS):
        with pytest.raises(OutcomeUnknown):
            endpoint._send_late(b"request")
    endpoint.wait()
    assert sent == [b"request"] * REQUESTS
    assert late.held == [True] * (2 * REQUESTS + 1)


def test_delayed_calls_are_registered_under_the_lock_and_all_run() -> None:
    real: Any = RealTime(1)
    late, ran = Watched(real._lock), list[bool]()
    real._late = late
    for _ in range(REQUESTS):
        real.later(0, lambda: ran.append(True))
    real.wait()
    assert ran == [True] * REQUESTS
    assert late.held == [True] * (REQUESTS + 1)
