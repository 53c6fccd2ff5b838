"""Runs services on this machine for one program. The services end when the program ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

__all__ = ["exit_on_signals", "run_with_services"]

USAGE = 2


def run_with_services(
    module: str,
    names: str,
    services: AbstractContextManager[Mapping[str, str]],
    store: str,
    arguments: Sequence[str] | None = None,
    *,
    without: Collection[str] = (),
) -> int:
    """Run ``services`` and, with their variables, the command in ``arguments``. Return its exit code.

    ``names`` is the text for the services in messages. The command gets ``store`` as ``STRATALOG_STORE``, and does not
    get the variables in ``without``. By default, ``arguments`` are the arguments of this process, which runs
    ``module``.
    """
    command = sys.argv[1:] if arguments is None else arguments
    if not command:
        print(f"usage: python -m stratalog.testing.{module} COMMAND …", file=sys.stderr)
        return USAGE
    with exit_on_signals():
        try:
            print(f"starting {names} on this machine …", file=sys.stderr)
            with services as variables:
                own = {name: value for name, value in os.environ.items() if name not in without}
                return _run(command, {**own, "STRATALOG_STORE": store, **variables})
        finally:
            print(f"{names} have ended, and their data is deleted", file=sys.stderr)


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Raise SystemExit in the block on SIGTERM and SIGHUP, so that the block ends its services and deletes its files.

    Call this in the main thread.
    """
    before = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command to its end and return its exit code.

    On Ctrl+C the terminal also signals the command, so this function only waits for its end. On SIGTERM and SIGHUP the
    function terminates the command.
    """
    with subprocess.Popen(command, env=environment) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue
            except SystemExit:
                process.terminate()
                process.wait()
                raise


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
