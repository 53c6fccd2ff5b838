"""Log throttle: at most one line of each kind per second. So a caller cannot quickly fill the disk with the log."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from stratalog.clock import Clock
from stratalog.limits import LOG_LINE_SECONDS_MIN
from stratalog.process_fork import close_in_child

__all__ = ["LogThrottle"]

_LOGGERS = ("asyncio", "stratalog.server", "uvicorn.error")
_Kind = tuple[str, str, int, str]


class _Omitted:
    """The omitted lines of one kind: their number, and the text of the first, once its thread has formatted it."""

    __slots__ = ("count", "first")

    def __init__(self) -> None:
        self.count = 0
        self.first: str | None = None


class LogThrottle(logging.Filter):
    """Passes one line of a kind, then omits lines of the same kind for `LOG_LINE_SECONDS_MIN`.

    Later the throttle reports the number of omitted lines. A kind consists of the line of source code that logs, and
    the type of the exception, if there is one. So the source code bounds the number of kinds.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._passed_ms: dict[_Kind, int] = {}
        self._left_out: defaultdict[_Kind, _Omitted] = defaultdict(_Omitted)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line may be written."""
        # This line is the throttle's own report. The throttle must not omit it.
        if hasattr(record, "left_out"):
            return True
        kind, now_ms = _kind(record), self._clock.boot_ms()
        with self._lock:
            if is_silenced := self._is_silenced(kind, now_ms):
                omitted = self._left_out[kind]
                omitted.count += 1
            else:
                omitted = self._left_out.pop(kind, _Omitted())
                self._passed_ms[kind] = now_ms
            count = omitted.count
        # Format outside the lock, since the text of an argument may itself log. Format no further line of a flood.
        if is_silenced and count == 1:
            omitted.first = _text(record)
        if count and not is_silenced:
            record.msg, record.args = f"{_text(record)} ({count} more omitted)", None
        return not is_silenced

    def report(self) -> None:
        """Report the number of omitted lines of each kind that may be logged again. Call this method periodically."""
        now_ms = self._clock.boot_ms()
        with self._lock:
            due = [kind for kind, omitted in self._left_out.items() if omitted.first is not None]
            due = [kind for kind in due if not self._is_silenced(kind, now_ms)]
            reported = {kind: self._left_out.pop(kind) for kind in due}
            self._passed_ms |= dict.fromkeys(due, now_ms)
        # Write outside the lock, because every logging thread takes the lock.
        for kind, omitted in reported.items():
            count, extra = omitted.count, {"left_out": omitted.count}
            logging.getLogger(kind[0]).warning("%d more omitted, the first: %s", count, omitted.first, extra=extra)

    def _is_silenced(self, kind: _Kind, now_ms: int) -> bool:
        passed_ms = self._passed_ms.get(kind)
        return passed_ms is not None and now_ms - passed_ms < LOG_LINE_SECONDS_MIN * 1000

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply the throttle to the server's loggers until the end of the block."""
        loggers = [logging.getLogger(name) for name in _LOGGERS]
        for logger in loggers:
            logger.addFilter(self)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(self)


def _kind(record: logging.LogRecord) -> _Kind:
    error = record.exc_info[0] if record.exc_info else None
    return record.name, record.pathname, record.lineno, error.__qualname__ if error else ""


def _text(record: logging.LogRecord) -> str:
    """Return the text of the line. If its arguments are wrong, return its template, or the type of its message."""
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - an error of a filter would reach the code that logs
        return record.msg if isinstance(record.msg, str) else type(record.msg).__qualname__
