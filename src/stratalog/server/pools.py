"""Pools: the threads on which synchronous code runs for the event loop, a bounded pool for each kind of work.

A call that blocks occupies a thread of its own pool only, so one kind of work never stops other kinds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec

from stratalog.limits import BODY_THREADS_MAX, IDENTITY_THREADS_MAX
from stratalog.server.application import ServerLimits
from stratalog.server.paces import Paces
from stratalog.server.shares import Holder
from stratalog.server.thread_pool import Pool, PoolSettings

__all__ = ["LoopThreads", "PoolName", "Pools", "PresentWork", "present_work"]

PoolName = Literal["reads", "writes", "applications", "bodies", "identity", "health", "pages", "polling"]
"""The values of ``pool`` in a handler's ``opt``. A handler without ``pool`` runs in the pool of applications."""

T = TypeVar("T")


class PresentWork(msgspec.Struct, frozen=True):
    """The pool, key and caller of the present request's synchronous code."""

    pool: Pool
    loop: Any
    key: Any = None
    caller: Holder | None = None


_present: ContextVar[PresentWork | None] = ContextVar("stratalog_work", default=None)


def present_work() -> PresentWork | None:
    """Return the work of the present request, or None outside of requests.

    The function also works on a thread that runs code of a request.
    """
    return _present.get()


class Pools:
    """The pools of one server."""

    def __init__(self, limits: ServerLimits) -> None:
        def settings(count: int, **other: Any) -> PoolSettings:
            given = {"calls_max": limits.pool_calls_max, "wait_seconds_max": limits.call_wait_seconds_max, **other}
            return PoolSettings(threads=count, **given)

        threads, pushes_waiting_max = limits.threads, limits.pushes_waiting_max
        pool = partial(Pool, paces=Paces())
        # One thread per document is enough: a document's changes are serial, so a second thread would only wait.
        pushes = {"threads_of_key_max": 1, "calls_of_key_max": pushes_waiting_max}
        self.reads = pool("reads", settings(threads))
        # One caller may queue half as many calls as one document allows: every document keeps room for other callers.
        self.writes = pool("writes", settings(threads, calls_of_caller_max=max(1, pushes_waiting_max // 2), **pushes))
        self.bodies = pool("bodies", settings(min(threads, BODY_THREADS_MAX)))
        self.applications = pool("applications", settings(threads))
        self.identity = pool("identity", settings(IDENTITY_THREADS_MAX))
        self.health = pool("health", settings(1))
        self.pages = pool("pages", settings(2))
        self.polling = pool("polling", settings(1))
        self._by_name: dict[str, Pool] = {pool.name: pool for pool in self}

    def __iter__(self) -> Iterator[Pool]:
        yield from (self.reads, self.writes, self.bodies, self.applications)
        yield from (self.identity, self.health, self.pages, self.polling)

    def begin(self, name: PoolName | None, key: Hashable, caller: Holder | None) -> None:
        """Set the pool for the rest of the present request. An unknown name selects the pool of applications."""
        pool = self._by_name.get(name or "", self.applications)
        _present.set(PresentWork(pool, asyncio.get_running_loop(), key, caller))

    async def run(self, function: Callable[[], T]) -> T:
        """Run a function of the present request in its pool, or outside of requests in the pool of reads."""
        work = _present.get()
        if work is None:
            return await self.reads.run(function)
        return await work.pool.run(function, key=work.key, caller=work.caller)

    async def in_turn(self, organisation: str, name: str, function: Callable[[], T]) -> T:
        """Run a change of a document or log after earlier changes of the same document or log.

        Raises Refused as `Pool.run` does.
        """
        work = _present.get()
        return await self.writes.run(function, key=(organisation, name, False), caller=work.caller if work else None)

    def close(self) -> None:
        """Wait for the running calls, and end all threads.

        Do not call this method on the event loop, which the calls may need.
        """
        for pool in self:
            pool.close()


class LoopThreads(ThreadPoolExecutor):
    """The default executor of the server's event loop: it submits each call to the pool of the calling request.

    Litestar runs all synchronous handlers, dependencies and iterators on this executor, including those of an
    application. asyncio calls `submit` on the loop. asyncio accepts the asyncio future that `submit` returns here,
    although the base class returns a concurrent future.
    """

    def __init__(self, pools: Pools) -> None:
        super().__init__(1)
        self._pools = pools

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Any:
        """Submit the call to the present request's pool, or else to the pool of applications. Raises Refused."""
        work = _present.get()
        function = (lambda: fn(*args, **kwargs)) if args or kwargs else fn
        if work is None:
            return self._pools.applications.submit(function).future
        return work.pool.submit(function, work.key, work.caller).future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the pools' threads."""
        self._pools.close()
        super().shutdown(wait, cancel_futures=cancel_futures)
