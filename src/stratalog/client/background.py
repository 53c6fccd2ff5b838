"""Background: the thread that runs a client's sync cycles.

A poke wakes the thread, and the thread backs off after failures.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from stratalog.client.transport import Stop, Transport
from stratalog.clock import Clock
from stratalog.errors import Closed, StratalogError
from stratalog.process_fork import close_in_child
from stratalog.retry import Retry, RetryPolicy

__all__ = ["Background"]

PULL_SECONDS = 60.0
RETRY_POLICY = RetryPolicy(wait_seconds_first=0.1, wait_seconds_max=30)
CLOSE_SECONDS_MAX = 2.0
_log = logging.getLogger("stratalog.client")


class Background:
    """A thread that runs ``cycle``: after `wake`, at each poke, and every `PULL_SECONDS`, since pokes may be lost."""

    def __init__(self, cycle: Callable[[], None], transport: Transport, clock: Clock) -> None:
        self._cycle = cycle
        self._transport = transport
        self._closed = threading.Event()
        # `stop` takes no lock, since a signal handler may call it while `start` has the lock.
        self._starting = threading.RLock()
        # Each thread has its own two events: a thread that ends late takes no wake from the next thread.
        self._wakened = threading.Event()
        self._stopping = threading.Event()
        close_in_child(self, "_closed", "_starting", "_wakened", "_stopping")
        self._thread: threading.Thread | None = None
        self._stop_listening: Stop | None = None
        self._retry = Retry(clock, RETRY_POLICY)
        self.last_error: StratalogError | None = None

    def start(self) -> None:
        """Start the thread. If it runs already, do nothing. Raises Closed after `close`."""
        with self._starting:
            if self._thread is not None:
                return
            wakened, stopping = self._wakened, self._stopping = threading.Event(), threading.Event()
            if self._closed.is_set():  # after the new events, since `close` sets `_closed` first and then an event
                raise Closed("the client is closed")
            thread = threading.Thread(target=self._run, args=(wakened, stopping), name="stratalog-client", daemon=True)
            thread.start()
            self._thread = thread
            self._stop_listening = self._transport.listen(self.wake)
            # Another thread, or a signal handler, may have called `stop` before there was a listener to stop.
            if stopping.is_set():
                self._thread = None
                self._stop_listening()

    def wake(self) -> None:
        """Request a sync cycle soon. After a failed cycle, the thread first waits until the back-off is over."""
        self._wakened.set()

    def stop(self) -> None:
        """End the thread after its current cycle. Wait at most `CLOSE_SECONDS_MAX` for this end."""
        thread, self._thread = self._thread, None
        self._stopping.set()
        self._wakened.set()
        if self._stop_listening is not None:
            self._stop_listening()
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS_MAX)

    def close(self) -> None:
        """Stop as `stop` does. The thread cannot be started again."""
        self._closed.set()
        self.stop()

    def _run(self, wakened: threading.Event, stopping: threading.Event) -> None:
        while True:
            wakened.clear()  # before the cycle, so that a wake during the cycle leads to another cycle
            if stopping.is_set():  # after `clear`, which would undo the wake of `stop`
                return
            pause = self._attempt()
            if pause:
                stopping.wait(pause)
            else:
                wakened.wait(PULL_SECONDS)

    def _attempt(self) -> float:
        """Run one sync cycle. Return the seconds of back-off before the next cycle, or 0 after a success."""
        try:
            self._cycle()
        except StratalogError as exc:
            self.last_error = exc
        except Exception as exc:  # noqa: BLE001 - an unexpected error must not end the thread unnoticed
            _log.exception("a sync cycle failed because of a bug")
            self.last_error = StratalogError("a sync cycle failed", reason=repr(exc))
        else:
            self.last_error = None
            self._retry.reset()
            return 0.0
        return max(self._retry.next_seconds(), float(self.last_error.details.get("retry_after_seconds", 0.0)), 0.001)
