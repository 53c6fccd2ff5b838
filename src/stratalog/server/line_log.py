"""Line logs: append-only files of JSON lines. Each log has its own thread, which writes the lines.

The event loop never waits for the disk: lines wait for the thread in a bounded queue. The log limits the rate of lines
of each holder, and of all holders together. The log omits and counts the lines above these rates, the lines for which
the queue has no room, and the lines that cannot be written. So one caller alone cannot fill the disk quickly, or
displace most lines of other callers.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import queue
import sys
import threading

import msgspec

from stratalog.clock import Clock
from stratalog.limits import LOG_LINES_WAITING_MAX
from stratalog.server.errors import Refused
from stratalog.server.rates import Rates
from stratalog.server.shares import Holder

__all__ = ["LineLog"]

WAKE_SECONDS = 1.0
ALL: Holder = ("organisation", "")
"""The holder of the bucket that all lines share."""

_fault = logging.getLogger("stratalog.server")


class Omitted(msgspec.Struct, frozen=True, tag="omitted", tag_field="event", omit_defaults=True):
    """A line in place of omitted lines. ``count`` is the number of lines omitted since the last `Omitted` line."""

    time_ms: int
    count: int


class LineLog:
    """One log. ``target`` is a path, or ``-`` for standard output. Only one thread may call `write`.

    After the file was moved or removed, the log opens a new file of that name, so log rotation needs no signal. An
    existing file keeps its mode and contents. The log writes at most ``per_second`` lines for all holders, and a tenth
    of this rate for one holder. A burst may have the lines of ten seconds.
    """

    def __init__(self, target: str, clock: Clock, per_second: int) -> None:
        # Only the caller's thread writes `_refused`, and only the log's thread writes `_unwritten`.
        self._refused = 0
        self._unwritten = 0
        self._clock = clock
        self._all = Rates(clock, per_second, per_second * 10)
        self._each = Rates(clock, per_second / 10, per_second)
        self._reported = 0
        self._lines: queue.Queue[bytes | None] = queue.Queue(LOG_LINES_WAITING_MAX)
        self._file = _File(target)
        self._thread = threading.Thread(target=self._run, name="stratalog-log", daemon=True)
        self._thread.start()

    @property
    def omitted(self) -> int:
        """The number of omitted lines since the start."""
        return self._refused + self._unwritten

    def write(self, holder: Holder, line: msgspec.Struct) -> None:
        """Queue the line for the holder, or omit and count it. Raises nothing."""
        try:
            self._each.take(holder)
            self._all.take(ALL)
            self._lines.put_nowait(msgspec.json.encode(line))
        except (Refused, queue.Full):
            self._refused += 1

    def close(self) -> None:
        """Write the waiting lines, and close the file. Blocks until the file is closed."""
        self._lines.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (lines := self._next()) is not None:
            self._write(lines)
        self._write([])
        self._file.close()

    def _next(self) -> list[bytes] | None:
        """Return the next line in a list, an empty list if none comes within `WAKE_SECONDS`, or None after `close`."""
        try:
            line = self._lines.get(timeout=WAKE_SECONDS)
        except queue.Empty:
            return []
        return None if line is None else [line]

    def _write(self, lines: list[bytes]) -> None:
        omitted = self.omitted - self._reported
        if omitted:
            self._reported += omitted
            lines = [msgspec.json.encode(Omitted(self._clock.wall_ms(), omitted)), *lines]
        for line in lines:
            try:
                self._file.write(line)
            except OSError as exc:
                # The next `Omitted` line that can be written counts this line.
                self._unwritten += 1
                self._file.note_failure(exc)


class _File:
    """The unbuffered target of lines. A buffer could still write a line after the log counted it as omitted."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._has_failed = False
        self._is_cut = False
        self._file: io.FileIO | None = None
        self._open()

    def write(self, line: bytes) -> None:
        """Write one line. Raises OSError."""
        if self._target != "-" and (self._file is None or not self._is_current(self._file)):
            self.close()
            self._open()
        assert self._file is not None
        # If the last line is incomplete, begin a new line. So only the incomplete line cannot be decoded.
        left = memoryview(b"\n" * self._is_cut + line + b"\n")
        while left:
            # A call may write only some of the bytes, for example to an almost full disk.
            count = self._file.write(left)
            if not count:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            left = left[count:]
            self._is_cut = bool(left)
        self._has_failed = False

    def note_failure(self, error: OSError) -> None:
        """Report the first failure after a success."""
        if not self._has_failed:
            _fault.error("lines of %s cannot be written: %s", self._target, error.strerror)
        self._has_failed = True

    def close(self) -> None:
        """Close the file. Standard output stays open."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _open(self) -> None:
        if self._target == "-":
            self._file = io.FileIO(sys.stdout.fileno(), "ab", closefd=False)
        else:
            # Only the server's own user may read the file, because the lines show which callers were refused.
            self._file = io.FileIO(self._target, "ab", opener=lambda path, flags: os.open(path, flags, 0o600))
            self._is_cut = False

    def _is_current(self, file: io.FileIO) -> bool:
        """Return whether the name still refers to the file. Log rotation may have moved or removed the file."""
        try:
            return os.path.samestat(os.stat(self._target), os.fstat(file.fileno()))
        except FileNotFoundError:
            return False
