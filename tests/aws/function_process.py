"""A container imports a handler, reads one event per line, and writes one line with the result of each event.

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
    """The context of a call, with the one method that our handlers use."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._begun = Observation(clock)

    def get_remaining_time_in_millis(self) -> int:
        """Return the number of milliseconds that the call may still run."""
        return round(max(0.0, self._seconds - self._begun.age_seconds()) * 1000)


def main(handler: str) -> None:
    """Answer events until the input ends. The handler's own output goes to standard error, like its log."""
    clock = SystemClock()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    module, _, name = handler.rpartition(".")
    function = getattr(import_module(module), name)
    for line in sys.stdin.buffer:
        call = json.loads(line)
        try:
            answer = {"answer": function(call["event"], Context(call["remaining_seconds"], clock))}
        except Exception as exc:  # noqa: BLE001 - as Lambda does, report any error to the caller
            traceback.print_exc()
            answer = {"error": f"{type(exc).__name__}: {exc}"}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
