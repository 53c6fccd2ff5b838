"""A function runs a handler in containers, as Lambda does. A container is a process that handles one event at a time.

A function reuses its idle containers in rotation. So a warm container finds versions that other containers wrote. A
test can choose a fault for a call: a kill after some time, a lost answer, or little remaining time.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stratalog.clock import Clock, Observation, SystemClock
from stratalog.testing.emulators import describe_status
from tests.aws import function_process

__all__ = ["PAYLOAD_BYTES_MAX", "Failed", "Fate", "Function"]

PAYLOAD_BYTES_MAX = 6 * 1024 * 1024
SECONDS_MAX = 290
"""More than the 29 seconds of a function behind API Gateway, since the start of a container may take longer here."""


class Failed(Exception):
    """A call that gave no result. Lambda reports such a call to its caller as failed."""


class Fate(msgspec.Struct, frozen=True):
    """The faults of a call. A kill ends the container's process."""

    kill_seconds: float | None = None
    drops_answer: bool = False
    remaining_seconds: float | None = None


class Function:
    """A handler, ``package.module.name``, with at most ``containers`` idle containers.

    ``fate`` returns the faults of each call. Without ``warm`` each call has a new container. Each of several
    concurrent calls has its own container. Several threads may call one function; only one of them at a time calls
    ``fate``.
    """

    def __init__(
        self,
        handler: str,
        environment: Mapping[str, str],
        *,
        seconds_max: float = SECONDS_MAX,
        containers: int = 2,
        warm: bool = True,
        fate: Callable[[], Fate] = Fate,
        clock: Clock | None = None,
    ) -> None:
        self.calls = self.starts = self.kills = 0
        self.seconds_max = seconds_max
        self._handler = handler
        self._environment = {**os.environ, **environment, "AWS_LAMBDA_FUNCTION_NAME": handler}
        self._containers = containers if warm else 0
        self._fate = fate
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._idle: deque[_Container] = deque()

    def call(self, event: Mapping[str, Any]) -> Any:
        """Return the handler's result. Raises Failed if the handler raises or takes too long, or if its process ends.

        If the event is too large, this method raises Failed and calls no container, as Lambda does.
        """
        if len(json.dumps(event)) > PAYLOAD_BYTES_MAX:
            raise Failed(f"the event is too large for {self._handler}")
        container, fate = self._take()
        try:
            remaining = self.seconds_max if fate.remaining_seconds is None else fate.remaining_seconds
            kill_seconds = self.seconds_max if fate.kill_seconds is None else fate.kill_seconds
            answer = container.call(event, remaining, min(self.seconds_max, kill_seconds))
        except TimeoutError as exc:
            with self._lock:
                self.kills += 1
            container.kill()
            raise Failed(f"{self._handler} was killed during the call") from exc
        except (OSError, ValueError) as exc:
            status = container.kill()
            raise Failed(f"{self._handler} ended by itself: {exc}; {describe_status(status)}") from exc
        self._give_back(container)
        if fate.drops_answer:
            raise Failed(f"the answer of {self._handler} was lost")
        if "error" in answer:
            raise Failed(answer["error"])
        return answer["answer"]

    def close(self) -> None:
        """End the idle containers. A busy container ends after its answer."""
        with self._lock:
            idle, self._idle = list(self._idle), deque()
            self._containers = 0
        for container in idle:
            container.kill()

    def _take(self) -> tuple[_Container, Fate]:
        with self._lock:
            fate = self._fate()
            self.calls += 1
            if len(self._idle) >= max(1, self._containers):
                return self._idle.popleft(), fate
            self.starts += 1
        return _Container(self._handler, self._environment, self._clock), fate

    def _give_back(self, container: _Container) -> None:
        with self._lock:
            if len(self._idle) < self._containers:
                self._idle.append(container)
                return
        container.kill()


class _Container:
    """A container, which is one process."""

    def __init__(self, handler: str, environment: Mapping[str, str], clock: Clock) -> None:
        self._clock = clock
        self._process = subprocess.Popen(
            [sys.executable, "-m", function_process.__name__, handler],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def call(self, event: Mapping[str, Any], remaining_seconds: float, seconds_max: float) -> Any:
        """Return the answer to an event.

        Raises TimeoutError after ``seconds_max`` seconds, and OSError or ValueError if the process ended.
        """
        assert self._process.stdin is not None
        line = json.dumps({"event": event, "remaining_seconds": remaining_seconds}).encode() + b"\n"
        begun = Observation(self._clock)
        self._process.stdin.write(line)
        self._process.stdin.flush()
        answer = bytearray()
        while not answer.endswith(b"\n"):
            answer += self._read(seconds_max - begun.age_seconds())
        if len(answer) > PAYLOAD_BYTES_MAX:
            return {"error": "the answer is too large for Lambda"}
        return json.loads(answer)

    def kill(self) -> int:
        """Kill the process without a warning, as Lambda does. Return the exit status, even of an ended process."""
        self._process.kill()
        self._process.communicate()
        return self._process.returncode

    def _read(self, seconds: float) -> bytes:
        assert self._process.stdout is not None
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        if not poll.poll(max(0.0, seconds) * 1000):
            raise TimeoutError
        chunk = os.read(self._process.stdout.fileno(), 65536)
        if not chunk:
            raise ValueError("the process ended")
        return chunk
