"""The engine: o-spreadsheet in V8 in a child process. Arguments and results of its functions are JSON.

V8 alone has no browser functions. `javascript/stubs.js` replaces the functions that the engine needs. linkedom provides
the XML documents for .xlsx, and `javascript/bridge.js` keeps the models. V8 never runs in the caller's process, because
two V8s in two threads crash a process, and the content of a sheet can crash V8.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from stratalog.clock import Clock, Observation, SystemClock
from stratalog.errors import Invalid, LimitExceeded, StratalogError, Unavailable
from stratalog_sheet.engine_files import OWN_FILES, engine_folder, install_engine
from stratalog_sheet.limits import SHEET_ANSWER_BYTES_MAX
from stratalog_sheet.settings import EngineSettings

__all__ = ["Engine", "engine_folder", "install_engine"]

PROGRAM = Path(__file__).with_name("engine_process.py")
# The page and the server's engines must rebase and refuse commands, and draw charts, in the same way. So both load
# these files.
SHARED = [Path(__file__).parent / "web" / name for name in ("rebase.js", "refusal.js", "trial.js", "charts.js")]
LENGTHS = struct.Struct(">II")
WORKBOOK_CALLS = ("importXlsx", "exportXlsx", "brokenFormulas")
ANSWER_SECONDS = 2
"""The parent waits this many seconds longer than a call's limit, so that V8 stops the call and its process replies."""

READ_BYTES = 1 << 20
# The child inherits only these variables. It needs the variables to find its libraries. They contain no secrets of the
# server.
VARIABLES = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR")
# V8 ends its process with one of these signals when V8 cannot allocate memory.
OUT_OF_MEMORY = (signal.SIGABRT, signal.SIGILL, signal.SIGTRAP)


class Engine:
    """One child process with the engine, for one call at a time. Safe to share between threads.

    The process keeps each model under a key that the caller chooses. An `Engine` never restarts its process. Once the
    process has died, timed out or run out of memory, its models are gone and every later call raises Unavailable. The
    caller then makes another `Engine`.
    """

    def __init__(
        self, folder: Path | None = None, settings: EngineSettings | None = None, clock: Clock | None = None
    ) -> None:
        self.settings = settings or EngineSettings()
        self._folder = folder
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._end: Callable[[], object] = _nothing
        self._owner = os.getpid()
        self._is_ready = False
        self.has_ended = False

    @property
    def pid(self) -> int | None:
        """The id of the child process; None before the process starts."""
        return None if self._process is None else self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the engine can be called: `has_ended` is false, and the process did not exit."""
        return not self.has_ended and (self._process is None or self._process.poll() is None)

    def call(self, name: str, **arguments: Any) -> Any:
        """Call a function of the bridge and return its decoded result. Raises the errors of `raw`."""
        return msgspec.json.decode(self.raw(name, **arguments))

    def raw(self, name: str, **arguments: Any) -> bytes:
        """Call a function of the bridge and return its result as JSON. An argument of type bytes must be JSON.

        Raises Invalid if the engine refuses the call; the engine stays usable. Raises LimitExceeded if the call takes
        too much CPU time or memory or returns too much. Raises Unavailable if the process dies, cannot start or has
        ended, and if the call takes too long while other programs use the CPU. After a LimitExceeded, the death of the
        process or a call that takes too long, the engine has ended.
        """
        plain = {key: msgspec.Raw(value) if isinstance(value, bytes) else value for key, value in arguments.items()}
        try:
            request = [msgspec.json.encode(plain)]
        except UnicodeEncodeError as exc:
            raise Invalid("a text has a lone surrogate", call=name, value=ascii(exc.object[exc.start])) from exc
        with self._lock:
            self._start()
            self._await_ready()
            return self._run(name, request)

    def start(self) -> None:
        """Start the process. The first call waits until the process is ready.

        Raises Unavailable if the engine's files are missing, the process cannot start, or the engine has ended.
        """
        with self._lock:
            self._start()

    def close(self) -> None:
        """Kill the process with every model in it. A call in flight raises Unavailable."""
        self.has_ended = True
        if self._process is not None and self._owner == os.getpid():
            # Kill before taking the lock, because a call in flight holds the lock until the process answers or dies.
            self._process.kill()
        with self._lock:
            self._end()

    def _start(self) -> None:
        if self.has_ended:
            raise Unavailable("the spreadsheet's engine has ended; try again")
        if self._process is not None:
            return
        try:
            # `_options` may read a file, and so may raise OSError.
            command = [sys.executable, "-P", "-S", str(PROGRAM), self._options()]
            # Python's sockets are not inheritable, so another child that starts meanwhile does not keep this one open.
            ours, theirs = socket.socketpair()
        except OSError as exc:
            raise Unavailable("the spreadsheet's engine cannot be started", reason=str(exc)) from exc
        try:
            self._process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,
            )
        except OSError as exc:
            ours.close()
            raise Unavailable("the spreadsheet's engine cannot be started", reason=str(exc)) from exc
        finally:
            theirs.close()
        self._line = ours
        self._end = weakref.finalize(self, _end_process, self._process, ours, self._owner)

    def _options(self) -> str:
        folder = self._folder or engine_folder()
        engine = folder / "o-spreadsheet" / "dist" / "o_spreadsheet.iife.js"
        sources = [OWN_FILES / "stubs.js", engine, *SHARED, OWN_FILES / "formulas.js", OWN_FILES / "bridge.js"]
        documents = [folder / "linkedom" / "worker.js", OWN_FILES / "documents.js"]
        return json.dumps(
            {
                "sources": [str(path.absolute()) for path in sources],
                "documents": [str(path.absolute()) for path in documents],
                "heap_bytes": self.settings.heap_bytes_max,
                "process_bytes": self.settings.process_bytes_max,
            }
        )

    def _await_ready(self) -> None:
        if self._is_ready:
            return
        limit, text = self.settings.start_seconds_max, "the spreadsheet's engine cannot be started"
        try:
            status, body = self._exchange("start", [], limit)
        except StratalogError as exc:
            # The engine has no workbook yet. Raise Unavailable, because callers blame the workbook for a LimitExceeded.
            raise Unavailable(text, reason=exc.message, limit_seconds=limit) from exc
        if status != "ready":
            self._discard()
            raise Unavailable(text, reason=body.decode(errors="replace"))
        self._is_ready = True

    def _run(self, name: str, request: list[bytes]) -> bytes:
        """Run one call. Empties ``request`` while sending, so that the encoded arguments do not stay in memory."""
        of_workbook = name in WORKBOOK_CALLS
        seconds = self.settings.workbook_seconds_max if of_workbook else self.settings.call_seconds_max
        cpu_seconds = self.settings.workbook_cpu_seconds_max if of_workbook else self.settings.call_cpu_seconds_max
        head = json.dumps({"name": name, "seconds": seconds, "cpu_seconds": cpu_seconds}).encode()
        request.insert(0, LENGTHS.pack(len(head), len(request[0])) + head)
        status, body = self._exchange(name, request, seconds + ANSWER_SECONDS)
        if status == "ok":
            return bytes(body)
        reason = body.decode(errors="replace")
        if status == "refused":
            raise Invalid("the spreadsheet's engine refused the call", call=name, reason=reason)
        self._discard()
        raise self._too_long(name) if status == "time" else self._too_large(name)

    def _exchange(self, name: str, frame: list[bytes], seconds: float) -> tuple[str, bytearray]:
        """Send the pieces of a frame, remove each sent piece, and return the reply: (status, body).

        After any error the engine has ended.
        """
        assert self._line is not None
        # One deadline for the whole exchange, because each piece of a slow reply would otherwise renew the limit.
        deadline = _Deadline(self._clock, seconds)
        try:
            while frame:
                self._line.settimeout(deadline.seconds_left())
                self._line.sendall(frame[0])
                del frame[0]
            sizes = LENGTHS.unpack(self._exactly(LENGTHS.size, deadline))
            if sum(sizes) > SHEET_ANSWER_BYTES_MAX:
                text = "the response of the spreadsheet's engine is too large"
                raise LimitExceeded(text, call=name, value=sum(sizes), limit=SHEET_ANSWER_BYTES_MAX)
            head = json.loads(self._exactly(sizes[0], deadline))
            return head["status"], self._exactly(sizes[1], deadline)
        except TimeoutError as exc:
            self._discard()
            raise self._too_long(name) from exc
        except OSError as exc:
            raise self._death(name) from exc
        except BaseException:
            # An unread reply stays on the socket, and the next call would read that reply. So end the engine.
            self._discard()
            raise

    def _exactly(self, count: int, deadline: _Deadline) -> bytearray:
        assert self._line is not None
        held = bytearray()
        while len(held) < count:
            self._line.settimeout(deadline.seconds_left())
            piece = self._line.recv(min(count - len(held), READ_BYTES))
            if not piece:
                raise ConnectionResetError
            held += piece
        return held

    def _discard(self) -> None:
        self.has_ended = True
        self._end()

    def _death(self, name: str) -> StratalogError:
        """End the engine and return the error for a process that exited or was killed."""
        process = self._process
        assert process is not None
        with suppress(subprocess.TimeoutExpired):
            process.wait(ANSWER_SECONDS)
        self._discard()
        code = -(process.returncode or 0)
        if code == signal.SIGXCPU:
            of_workbook = name in WORKBOOK_CALLS
            limit = self.settings.workbook_cpu_seconds_max if of_workbook else self.settings.call_cpu_seconds_max
            return LimitExceeded("the spreadsheet's engine took too long", call=name, limit_cpu_seconds=limit)
        if code in OUT_OF_MEMORY:
            return self._too_large(name)
        ended_by = signal.Signals(code).name if code > 0 else f"exit {-code}"
        return Unavailable("the spreadsheet's engine died; try again", call=name, ended_by=ended_by)

    def _too_long(self, name: str) -> Unavailable:
        """Return the error of a call that was killed at its limit of elapsed time, below its limit of CPU time.

        `Unopenable` blames the call only after repeated kills, because the load of the machine is a likelier cause.
        """
        of_workbook = name in WORKBOOK_CALLS
        limit = self.settings.workbook_seconds_max if of_workbook else self.settings.call_seconds_max
        text = "the spreadsheet's engine took too long; try again"
        return Unavailable(text, call=name, limit_seconds=limit, ended_by=signal.SIGKILL.name)

    def _too_large(self, name: str) -> LimitExceeded:
        limit = self.settings.heap_bytes_max
        return LimitExceeded("the spreadsheet's engine ran out of memory", call=name, limit_bytes=limit)


class _Deadline:
    """A deadline that is ``seconds`` after the construction of this object."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._asked = Observation(clock)
        self._seconds = seconds

    def seconds_left(self) -> float:
        """Return the seconds that are left. Raises TimeoutError once no time is left."""
        left = self._seconds - self._asked.age_seconds()
        if left <= 0:
            raise TimeoutError
        return left


def _environment() -> dict[str, str]:
    passed_on = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    return {**passed_on, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)), "PYTHONDONTWRITEBYTECODE": "1"}


def _end_process(process: subprocess.Popen[bytes], line: socket.socket, owner: int) -> None:
    """Kill and reap the process. A fork of the owner only closes its copy of the socket."""
    line.close()
    if os.getpid() == owner:
        process.kill()
        process.wait()
    else:
        process.returncode = 0


def _nothing() -> None:
    pass
