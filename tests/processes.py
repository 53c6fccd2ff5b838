"""Child processes of tests. A failure names the command, the exit status or signal, and the end of stderr.

Use `start` for a process with which a test exchanges lines, and `run` for a command whose output the test needs. If a
test fails for any reason, its report also names each process that ended by itself (`unexpected_ends`).
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from stratalog.testing.emulators import Emulator, describe_status, end_of

__all__ = [
    "COMMAND_LINE",
    "ROOT",
    "ChildProcess",
    "ProcessFailure",
    "environment",
    "kill_pause",
    "killed_after",
    "run",
    "start",
    "unexpected_ends",
    "watched",
]

ROOT = Path(__file__).parents[1]
SECONDS_MAX = 300
COMMAND_CHARACTERS_MAX = 500
COMMAND_LINE = (sys.executable, "-c", "from stratalog.cli import main; main()")
"""The command ``stratalog`` of this checkout."""

_watched: dict[int, Callable[[], str | None]] = {}


class ProcessFailure(AssertionError):
    """A child process did not behave as its test expected."""


class ChildProcess:
    """A running command with pipes for stdin and stdout, and a file for stderr.

    The end of the ``with`` block kills the process. Stderr is a file, since a pipe without a reader fills up and blocks
    the process.
    """

    def __init__(self, command: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self.command = list(command)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process is
        self._process = subprocess.Popen(
            self.command,
            cwd=cwd,
            env=environment() if env is None else env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        self._written = ""
        self._must_live = True
        _watched[id(self)] = self._unexpected_end

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status, or None while the process runs. After a signal, the status is minus the signal's number."""
        return self._process.poll()

    @property
    def was_ended(self) -> bool:
        """True once the test has sent a signal, called `end`, or killed the process."""
        return not self._must_live

    @property
    def stderr(self) -> str:
        """The output to stderr so far."""
        if self._stderr.closed:
            return self._written
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), size, 0).decode(errors="replace")

    def write_line(self, line: str) -> None:
        """Send a line to the stdin of the process."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def read_line(self) -> str:
        """Return the next line of stdout. Raises ProcessFailure if stdout has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(SECONDS_MAX)
            raise ProcessFailure(f"no more output: {self.describe()}")
        return line

    def lines(self) -> Iterator[str]:
        """Yield the lines of stdout until the end."""
        assert self._process.stdout is not None
        yield from self._process.stdout

    def signal(self, number: signal.Signals) -> None:
        """Send a signal that asks the process to end. Does nothing if the process has ended."""
        self._must_live = False
        self._process.send_signal(number)

    def end(self, expected: int | None = 0, seconds: float = SECONDS_MAX) -> str:
        """Wait for the end of the process, and return the rest of its stdout.

        Raises ProcessFailure if the process runs longer than ``seconds`` or ends with another status than ``expected``.
        An ``expected`` of None accepts any status.
        """
        self._must_live = False
        try:
            output, _ = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as exc:
            raise ProcessFailure(f"still running after {seconds:g} s: {self.describe()}") from exc
        if expected is not None and self._process.returncode != expected:
            raise ProcessFailure(f"expected {describe_status(expected)}: {self.describe()}\nstdout:\n{end_of(output)}")
        return output

    def kill(self) -> None:
        """Kill the process without a warning. Raises ProcessFailure if the process had ended by itself."""
        early = self._unexpected_end()
        self.close()
        if early:
            raise ProcessFailure(early)

    def close(self) -> None:
        """Kill the process if it runs, and free the pipes. Later calls do nothing. `stderr` stays readable."""
        self._must_live = False
        _watched.pop(id(self), None)
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        self._written = self.stderr
        self._stderr.close()

    def describe(self) -> str:
        """Return a text with the command, the exit status, and the end of stderr."""
        return _description(self.command, self.pid, self.status, self.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is not None and not isinstance(exc, ProcessFailure):
            exc.add_note(self.describe())
        self.close()

    def _unexpected_end(self) -> str | None:
        return self.describe() if self._must_live and self.status is not None else None


def start(command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> ChildProcess:
    """Start a command with which the test exchanges lines. Without ``env`` the command gets `environment`."""
    return ChildProcess(command, cwd, env)


def run(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    expected: int | None = 0,
    seconds: float = SECONDS_MAX,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. Raises ProcessFailure for a status other than ``expected``, or after ``seconds``."""
    with start(command, cwd=cwd, env=env) as process:
        output = process.end(expected, seconds)
        return subprocess.CompletedProcess(process.command, process.status or 0, output, process.stderr)


def environment(*folders: Path) -> dict[str, str]:
    """Return the environment of a process that can import modules from ``folders`` and this checkout's tests.

    The process imports the installed library.
    """
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, folders), str(ROOT), *filter(None, inherited)])}


@contextmanager
def killed_after(process: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    """Kill the process ``seconds`` after the start of the block, unless the block has ended. Its pipes then close."""
    timer = threading.Timer(seconds, process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def kill_pause(seconds: float, kills: int, kills_min: int) -> float:
    """Return the mean pause before a soak's next kill: ``seconds``, or longer after many more than ``kills_min`` kills.

    On a slow machine a process may need longer than ``seconds`` to start, and would make no progress.
    """
    return seconds * 1.1 ** max(0, kills - 5 * kills_min)


@contextmanager
def watched(emulator: Emulator) -> Iterator[Emulator]:
    """Name the emulator in the report of each test that fails after the emulator died."""
    _watched[emulator.pid] = emulator.describe_end
    try:
        yield emulator
    finally:
        del _watched[emulator.pid]


def unexpected_ends() -> list[str]:
    """Return a description of each process that ended although its test neither ended nor killed the process."""
    return [text for text in [describe() for describe in list(_watched.values())] if text]


def _description(command: Sequence[str], pid: int, status: int | None, stderr: str) -> str:
    named = shlex.join(command)
    if len(named) > COMMAND_CHARACTERS_MAX:
        named = f"{named[:COMMAND_CHARACTERS_MAX]}…"
    ended = "still runs" if status is None else f"ended with {describe_status(status)}"
    return f"process {pid} {ended}: {named}\nthe end of its stderr:\n{end_of(stderr) or '(nothing)'}"
