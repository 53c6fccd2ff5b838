"""Thread pool: threads on which synchronous functions run for the event loop. Callers share the threads fairly.

A waiting call occupies no thread. Callers take turns for threads, so a caller with many calls delays a caller with few
calls by one call per turn. In a pool of two or more threads, no caller and no document gets all threads. While other
principals are active, no principal gets all the computing time.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from contextvars import Context, copy_context
from queue import SimpleQueue
from threading import Thread, get_native_id
from typing import Any, TypeVar

import anyio
import msgspec

from stratalog.limits import CALL_WAIT_SECONDS_MAX, CALLER_COMPUTED_SHARE_MIN, POOL_CALLS_MAX
from stratalog.server.errors import Refused
from stratalog.server.paces import Paces, RecentCallers
from stratalog.server.rotation import Rotation
from stratalog.server.shares import Allocation, Budget, Holder

__all__ = ["Call", "Pool", "PoolSettings", "ThreadCounts"]

T = TypeVar("T")
THREAD_NICENESS = 6


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one pool. Running and waiting calls both count. A key usually names a document, log or record."""

    threads: int
    calls_max: int = POOL_CALLS_MAX
    wait_seconds_max: float = CALL_WAIT_SECONDS_MAX
    threads_of_key_max: int = 0
    """0 means half of ``threads``."""

    calls_of_key_max: int = 0
    """0 means half of ``calls_max``."""

    calls_of_caller_max: int = 0
    """0 means half of ``calls_max``."""


class ThreadCounts(msgspec.Struct, frozen=True):
    """Counts of a pool: threads that run a call, calls that wait for a thread, and calls refused so far."""

    busy: int
    waiting: int
    refused: int


class Pool:
    """Runs synchronous functions for one event loop, on at most ``settings.threads`` threads.

    Used from the event loop only. Pools of one process should share ``paces``, since they share one interpreter.
    ``thread_seconds`` returns the computing time of the calling thread so far.

    A call passes these states: *waiting for its key* (in a `_Line`), *ready* (the key, if any, has granted the call a
    thread), *running*, *ended*. A ready call still waits for a free thread and for its caller's turn and pace.
    """

    def __init__(
        self,
        name: str,
        settings: PoolSettings,
        paces: Paces | None = None,
        thread_seconds: Callable[[], float] = time.thread_time,
    ) -> None:
        self.name = name
        self.settings = settings
        self._paces = paces or Paces()
        self._thread_seconds = thread_seconds
        self._pause_end: asyncio.TimerHandle | None = None
        calls_max, half = settings.calls_max, max(1, settings.calls_max // 2)
        of_caller = settings.calls_of_caller_max or half
        shares = {"document": settings.calls_of_key_max or half, "principal": of_caller, "address": of_caller}
        self._calls = Budget(f"calls in the pool {name}", calls_max, shares)  # type: ignore[arg-type]
        self._threads_of_key_max = settings.threads_of_key_max or max(1, settings.threads // 2)
        # A single caller leaves a quarter of the threads free for the next caller. Of two or more callers, each has at
        # most a quarter: computing threads compete for one interpreter, and the event loop waits for each of them.
        quarter = max(1, settings.threads // 4)
        self._threads_of_caller_max = max(1, settings.threads - quarter)
        self._threads_when_shared_max = quarter
        self._callers = RecentCallers()
        self._ready: Rotation[Call] = Rotation()
        self._lines: dict[Hashable, _Line] = {}
        self._busy = 0
        self._busy_of: Counter[Holder] = Counter()
        self._refused = 0
        self._threads: list[Thread] = []
        self._given: SimpleQueue[Call | None] = SimpleQueue()
        # Calls that ended on a thread. Waking the loop is a system call, so one wake-up serves all calls in this queue.
        self._ended: deque[tuple[Call, Any, BaseException | None]] = deque()
        self._woken: asyncio.AbstractEventLoop | None = None

    def counts(self) -> ThreadCounts:
        """Return the current counts."""
        return ThreadCounts(self._busy, self._calls.used - self._busy, self._refused)

    async def run(self, function: Callable[[], T], *, key: Hashable = None, caller: Holder | None = None) -> T:
        """Call ``function`` on a thread of the pool and return its result.

        Calls of one ``key`` have at most ``threads_of_key_max`` threads. Calls of one key and one caller begin in their
        order of arrival. Raises Refused for too many calls in all, of the caller or of the key, for a wait longer than
        ``wait_seconds_max``, and if no thread can be started. After Refused, the function was not called.

        Cancellation withdraws a call that waits. Cancellation does not stop a running function: the cancelled task
        first waits for the function's end.
        """
        call = self.submit(function, key, caller)
        try:
            answer: T = await call.future
        except asyncio.CancelledError:
            if call.is_running:
                await call.end()
            else:
                self._withdraw(call)
            raise
        return answer

    def submit(self, function: Callable[[], Any], key: Hashable = None, caller: Holder | None = None) -> Call:
        """Queue the function. The future of the returned call gets the result. Raises Refused for too many calls."""
        holders: list[Holder] = [] if key is None else [("document", repr(key))]
        try:
            allocation = self._calls.take(*holders, *([] if caller is None else [caller]))
        except Refused:
            self._refused += 1
            raise
        call = Call(function, key, caller, allocation)
        if caller is not None:
            self._callers.note(caller, call.loop.time())
            self._paces.note(caller, call.loop.time())
        self._line_up(call)
        self._give_threads()
        if not call.is_running:
            call.timer = call.loop.call_later(self.settings.wait_seconds_max, self._expire, call)
        return call

    def close(self) -> None:
        """Wait for the running calls, and end the threads.

        Do not call this method on the event loop, which the calls may need.
        """
        for _ in self._threads:
            self._given.put(None)
        while self._threads:
            self._threads.pop().join()

    def _line_up(self, call: Call) -> None:
        if call.key is None:
            self._ready.add(call.group, call)
            return
        line = self._lines.setdefault(call.key, _Line())
        if line.granted < self._threads_of_key_max:
            line.granted += 1
            self._ready.add(call.group, call)
        else:
            line.waiting.add(call.group, call)

    def _give_threads(self) -> None:
        while self._busy < self.settings.threads and (call := self._ready.take(self._may_run)) is not None:
            # asyncio cancels the future of a call of `LoopThreads` without `_withdraw`.
            if call.future.done():
                self._leave(call)
            else:
                self._start(call)

    def _may_run(self, call: Call) -> bool:
        if call.caller is None:
            return True
        now = call.loop.time()
        if self._busy_of[call.caller] >= self._threads_of_caller(now):
            return False
        begins_at = self._paces.may_begin_at(call.caller, now)
        if begins_at > now:
            self._look_again(call.loop, begins_at)
        return begins_at <= now

    def _threads_of_caller(self, now: float) -> int:
        """Return the number of threads that one caller may have now.

        In a loaded process a second thread saves no time.
        """
        if self._callers.count(now) < 2:
            return self._threads_of_caller_max
        return 1 if self._paces.is_loaded(now) else self._threads_when_shared_max

    def _look_again(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        """Assign threads again when the earliest pause of a caller ends. One timer serves all paused callers."""
        if self._pause_end is None or at < self._pause_end.when():
            self._stop_pause()
            self._pause_end = loop.call_at(at, self._end_pause)

    def _end_pause(self) -> None:
        self._stop_pause()
        self._give_threads()

    def _stop_pause(self) -> None:
        if self._pause_end is not None:
            self._pause_end.cancel()
            self._pause_end = None

    def _start(self, call: Call) -> None:
        call.is_running = True
        call.stop_timer()
        self._busy += 1
        if call.caller is not None:
            self._busy_of[call.caller] += 1
            call.charged_seconds = self._paces.begin(call.caller, call.loop.time())
        if self._busy > len(self._threads):
            self._add_thread()
        if self._threads:
            self._given.put(call)
            return
        error = Refused(503, "unavailable", f"no thread for {self.name} could be started", scope="process")
        self._ended.append((call, None, error))
        call.loop.call_soon(self._finish_all)

    def _add_thread(self) -> None:
        # Do not use `ThreadPoolExecutor`: its future and its three locks for each call take a tenth of a push's time.
        thread = Thread(target=self._run, name=f"stratalog-{self.name}-{len(self._threads)}", daemon=True)
        with suppress(RuntimeError, MemoryError):  # without another thread, the pool's other threads run the calls
            thread.start()
            self._threads.append(thread)

    def _run(self) -> None:
        """Run calls until the pool closes. Runs on a thread of the pool."""
        _give_way()
        while (call := self._given.get()) is not None:
            self._work(call)
            # Drop the reference: a thread that waits for its next call must not keep the last call's objects in memory.
            del call

    def _work(self, call: Call) -> None:
        """Run one call and queue its result for the loop. Runs on a thread of the pool."""
        began = self._thread_seconds()
        answer, error = call.answer()
        call.computed_seconds = self._thread_seconds() - began
        self._ended.append((call, answer, error))
        if self._woken is not call.loop:
            self._woken = call.loop
            # A loop that closed meanwhile has no waiting callers.
            with suppress(RuntimeError):
                call.loop.call_soon_threadsafe(self._finish_all)

    def _finish_all(self) -> None:
        # Reset before reading the queue: a thread that appends after the last read then wakes the loop again.
        self._woken = None
        while self._ended:
            self._finish(*self._ended.popleft())

    def _finish(self, call: Call, answer: Any, error: BaseException | None) -> None:
        self._busy -= 1
        if call.caller is not None:
            self._busy_of[call.caller] -= 1
            if not self._busy_of[call.caller]:
                del self._busy_of[call.caller]
            self._paces.end(call.caller, call.charged_seconds, call.computed_seconds, call.loop.time())
        self._leave(call)
        self._give_threads()
        if not call.loop.is_closed():
            call.settle(answer, error)

    def _leave(self, call: Call) -> None:
        """Release the call's allocation, and pass its key's grant to the key's next call. Does not free a thread."""
        call.stop_timer()
        call.allocation.release()
        line = self._lines.get(call.key)
        if line is None:
            return
        heir = line.waiting.take()
        if heir is not None:
            # `granted` does not change: the heir takes over the grant.
            self._ready.add(heir.group, heir)
            return
        line.granted -= 1
        if not line.granted:
            del self._lines[call.key]

    def _withdraw(self, call: Call) -> None:
        """Remove a waiting call. If its key had granted it a thread, the next call of the key gets the grant."""
        call.stop_timer()
        if self._ready.remove(call.group, call):
            self._leave(call)
            self._give_threads()
        elif call.key in self._lines and self._lines[call.key].waiting.remove(call.group, call):
            # The call waited for its key, so it has no grant to pass on.
            call.allocation.release()

    def _expire(self, call: Call) -> None:
        self._withdraw(call)
        if not call.future.done():
            self._refused += 1
            call.future.set_exception(self._too_late(call))

    def _too_late(self, call: Call) -> Refused:
        now, caller = call.loop.time(), call.caller
        if caller is not None and self._paces.may_begin_at(caller, now) > now:
            text = f"calls of the {caller[0]} exceed its share of computing time"
            return Refused(429, "too-many-requests", text, limit=CALLER_COMPUTED_SHARE_MIN, scope=caller[0])
        text = f"no thread for {self.name} was free in time"
        return Refused(503, "unavailable", text, limit=self.settings.wait_seconds_max, scope="process")


def _give_way() -> None:
    """Give the calling thread a lower priority than the event loop's thread, if the system has priorities of threads.

    A thread that unpacks or hashes does not need the interpreter, so it competes with the loop for the processor.
    Several such threads on one core would leave the loop little of the core. On Linux, `setpriority` changes the
    priority of one thread.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            of_loop = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, get_native_id(), of_loop + THREAD_NICENESS)


class Call:
    """A function that waits for a thread, or runs on a thread."""

    def __init__(
        self, function: Callable[[], Any], key: Hashable, caller: Holder | None, allocation: Allocation
    ) -> None:
        self.function = function
        self.key = key
        self.caller = caller
        self.allocation = allocation
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.timer: asyncio.TimerHandle | None = None
        self.is_running = False
        self.charged_seconds = 0.0
        self.computed_seconds = 0.0
        self._context: Context = copy_context()
        self._ended: asyncio.Future[None] | None = None
        self._has_ended = False

    @property
    def group(self) -> Hashable:
        """The group that takes turns: the caller, or the key of a call without a caller."""
        return self.key if self.caller is None else self.caller

    def answer(self) -> tuple[Any, BaseException | None]:
        """Call the function and return its result or its exception. Runs on a thread of the pool."""
        try:
            return self._context.run(self.function), None
        except StopIteration as exc:
            # A future rejects StopIteration, and the caller would wait for ever.
            error = RuntimeError("the function raised StopIteration")
            error.__cause__ = exc
            return None, error
        except BaseException as exc:  # noqa: BLE001 - the caller gets the exception
            return None, exc

    def settle(self, answer: Any, error: BaseException | None) -> None:
        """Give the caller the function's result or exception. Runs on the loop."""
        self._has_ended = True
        if self._ended is not None:
            self._ended.set_result(None)
        # If the caller cancelled the call meanwhile, nobody needs the result.
        if self.future.done():
            return
        if error is None:
            self.future.set_result(answer)
        else:
            self.future.set_exception(error)

    async def end(self) -> None:
        """Wait for the function's end despite cancellation: the function may use objects that the caller keeps open."""
        if self._has_ended:
            return
        self._ended = self.loop.create_future()
        # The shield blocks anyio's cancellation. asyncio's own cancellation may come repeatedly, so wait in a loop.
        with anyio.CancelScope(shield=True):
            while not self._ended.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([self._ended])

    def stop_timer(self) -> None:
        """Cancel the timer that limits the wait."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class _Line:
    """The calls of one key: the number of calls with a grant of a thread, and the calls that wait for a grant."""

    def __init__(self) -> None:
        self.granted = 0
        self.waiting: Rotation[Call] = Rotation()
