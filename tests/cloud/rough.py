"""Faults with real services: an endpoint of DynamoDB that fails at random, and ports with the simulation's faults."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from stratalog.backends.dynamodb_http import Endpoint, Reply
from stratalog.errors import OutcomeUnknown, Unavailable
from stratalog.testing.faults import FaultyLine, Weather
from stratalog.testing.scheduler import Counts
from tests.cloud.canned import damaged, refused

__all__ = ["FAULTS", "RealTime", "RoughEndpoint", "real_line"]

UNHEARD = ["throttled", "conflict", "unsent", "request lost", "failed before"]
HEARD = ["answer lost", "failed after", "damaged"]
FAULTS = [*UNHEARD, *HEARD, "late"]
LATE_SECONDS_MAX = 0.03
FAULT_SHARE = 0.25


class RoughEndpoint:
    """An endpoint that gives a random ``share`` of the requests a fault, drawn from ``seed``."""

    def __init__(self, url: str, seed: int, share: float = FAULT_SHARE) -> None:
        self._endpoint = Endpoint(url)
        self._share = share
        self._random = random.Random(seed)
        self._delays = random.Random(seed)
        self._lock = threading.Lock()
        self.host = self._endpoint.host
        self.met: Counter[str] = Counter()
        self._late: list[threading.Timer] = []

    def exchange(self, request: bytes) -> Reply:
        fault = self._fault()
        if fault in UNHEARD:
            return _instead_of_sending(fault)
        if fault == "late":
            return self._send_late(request)
        reply = self._endpoint.exchange(request)
        if fault == "answer lost":
            raise OutcomeUnknown("the response of the service was lost")
        if fault == "failed after":
            return refused("InternalServerError", status=500)
        return damaged(reply) if fault == "damaged" else reply

    def wait(self) -> None:
        """Wait until every late request has arrived."""
        with self._lock:
            late = list(self._late)
        for timer in late:
            timer.join()

    def close(self) -> None:
        self._endpoint.close()

    def _send_late(self, request: bytes) -> Reply:
        """Send the request later, and immediately report that its response was lost."""
        with self._lock:
            timer = threading.Timer(self._delays.random() * LATE_SECONDS_MAX, self._endpoint.exchange, [request])
            self._late.append(timer)
            timer.start()  # `wait` cannot join a timer that has not started
        raise OutcomeUnknown("the response of the service was lost")

    def _fault(self) -> str:
        with self._lock:
            fault = self._random.choice(FAULTS) if self._random.random() < self._share else "none"
            self.met[fault] += 1
            return fault


class RealTime:
    """Replaces the simulation's scheduler, but waits by the machine's clock, and does not order the threads."""

    report = None
    current = None
    now_ms = 0
    steps = 0

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.counts = Counts()
        self.calls = 0
        self.stormy = True
        self._lock = threading.Lock()
        self._late: list[threading.Timer] = []

    def switch(self) -> None:
        """Do nothing, since the operating system schedules the threads."""

    def sleep(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)

    def later(self, delay_ms: int, function: Callable[[], None]) -> None:
        timer = threading.Timer(delay_ms / 1000, function)
        with self._lock:
            self._late.append(timer)
            timer.start()

    def wait(self) -> None:
        """Wait until every delayed call has run."""
        with self._lock:
            late = list(self._late)
        for timer in late:
            timer.join()

    def calm(self) -> None:
        self.stormy = False


def real_line(seed: int, weather: Weather) -> FaultyLine:
    """Return a line with the simulation's faults in real time. An injected crash kills this process with SIGKILL."""
    scheduler: Any = RealTime(seed)
    return FaultyLine(scheduler, weather, lambda: os.kill(os.getpid(), signal.SIGKILL))


def _instead_of_sending(fault: str) -> Reply:
    if fault == "unsent":
        raise Unavailable("the endpoint cannot be reached")
    if fault == "request lost":
        raise OutcomeUnknown("the response of the service was lost")
    if fault == "failed before":
        return refused("ServiceUnavailable", status=503)
    return refused("ThrottlingException" if fault == "throttled" else "TransactionConflictException")
