"""One container: imports a handler, and answers a line with an event by a line with what it returned.

python -m tests.aws.function_process stratalog.aws.api.handler
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from importlib import import_module

from stratalog.clock import Clock, Observation, SystemClock

__all__ = ["Context", "main"]


class Context:
    """What a handler is told of its call, as far as ours ask."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._begun = Observation(clock)

    def get_remaining_time_in_millis(self) -> int:
        """How long until the container is ended."""
        return round(max(0.0, self._seconds - self._begun.age_seconds()) * 1000)


def main(handler: str) -> None:
    """Answer events until there are no more. What the handler prints goes to standard error, where logs go."""
    clock = SystemClock()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    module, _, name = handler.rpartition(".")
    function = getattr(import_module(module), name)
    for line in sys.stdin.buffer:
        call = json.loads(line)
        try:
            answer = {"answer": function(call["event"], Context(call["remaining_seconds"], clock))}
        except Exception as exc:  # noqa: BLE001 - it is told to the caller, as Lambda does
            traceback.print_exc()
            answer = {"error": f"{type(exc).__name__}: {exc}"}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
