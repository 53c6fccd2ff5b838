"""Pools: calls of one kind cannot block calls of another kind. One caller or document cannot block others."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.limits import CALLER_COMPUTED_BURST_SECONDS, CALLER_COMPUTED_SHARE_MIN, CALLER_PAUSE_SECONDS_MAX
from stratalog.server import paces
from stratalog.server.application import ServerLimits
from stratalog.server.errors import Refused
from stratalog.server.paces import Paces
from stratalog.server.pools import LoopThreads, Pools
from stratalog.server.shares import Holder
from stratalog.server.thread_pool import THREAD_NICENESS, Pool, PoolSettings, ThreadCounts
from tests.server.api import run_in_time

SECONDS_MAX = 120
LONG_SECONDS = 3600.0
BUSY, IDLE = ("acme", "busy"), ("acme", "idle")
ADA: Holder = ("principal", "ada")
BOB: Holder = ("principal", "bob")
CAT: Holder = ("principal", "cat")
Story = Callable[[Pool], Coroutine[Any, Any, None]]


def tell(story: Story, **settings: Any) -> None:
    given: dict[str, Any] = {"threads": 2, "calls_max": 100, "wait_seconds_max": LONG_SECONDS} | settings
    pool = Pool("work", PoolSettings(**given))
    run_in_time(story(pool))
    pool.close()


async def settle() -> None:
    """Let every task that is ready run."""
    for _ in range(20):
        await asyncio.sleep(0)


class Gate:
    """A gate that blocks calls until a test opens the gate, and records the order in which the calls got a thread."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    def call(self, name: str = "") -> Callable[[], str]:
        def wait() -> str:
            self.order.append(name)
            assert self._open.wait(SECONDS_MAX)
            return name

        return wait

    async def has_let_in(self, count: int) -> None:
        while len(self.order) < count:
            await asyncio.sleep(0)


def start(pool: Pool, gate: Gate, name: str, **given: Any) -> asyncio.Task[str]:
    return asyncio.create_task(pool.run(gate.call(name), **given))


# Order


def test_calls_of_a_key_that_may_have_one_thread_run_in_order() -> None:
    async def story(pool: Pool) -> None:
        gate, names = Gate(), [str(number) for number in range(10)]
        tasks = [start(pool, gate, name, key=BUSY) for name in names]
        await gate.has_let_in(1)
        await settle()
        assert pool.counts().busy == 1, "a second call got the idle thread"
        gate.open()
        assert await asyncio.gather(*tasks) == names
        assert gate.order == names

    tell(story, threads_of_key_max=1)


def test_callers_of_a_document_take_turns_regardless_of_their_numbers_of_calls() -> None:
    async def story(pool: Pool) -> None:
        gate = Gate()
        tasks = [start(pool, gate, "ada", key=BUSY, caller=ADA) for _ in range(20)]
        await settle()
        tasks.append(start(pool, gate, "bob", key=BUSY, caller=BOB))
        await gate.has_let_in(1)
        gate.open()
        await asyncio.gather(*tasks)
        assert gate.order.index("bob") <= 2

    tell(story, threads_of_key_max=1)


def test_callers_take_turns_at_the_threads_over_all_documents() -> None:
    async def story(pool: Pool) -> None:
        gate = Gate()
        tasks = [start(pool, gate, "ada", key=("acme", str(number)), caller=ADA) for number in range(20)]
        await settle()
        tasks.append(start(pool, gate, "bob", key=IDLE, caller=BOB))
        gate.open()
        await asyncio.gather(*tasks)
        assert gate.order.index("bob") <= 3

    tell(story)


def test_calls_without_a_caller_take_turns_by_document() -> None:
    async def story(pool: Pool) -> None:
        gate = Gate()
        tasks = [start(pool, gate, "busy", key=BUSY) for _ in range(20)]
        tasks.append(start(pool, gate, "idle", key=IDLE))
        await gate.has_let_in(1)
        gate.open()
        await asyncio.gather(*tasks)
        assert gate.order.index("idle") <= 2

    tell(story, threads=1)


# Threads


def test_many_calls_to_a_document_leave_threads_to_another_document() -> None:
    async def story(pool: Pool) -> None:
        gate = Gate()
        waiting = [start(pool, gate, "busy", key=BUSY) for _ in range(8)]
        await settle()
        assert await pool.run(lambda: "done", key=IDLE) == "done"
        gate.open()
        assert await asyncio.gather(*waiting) == ["busy"] * 8

    tell(story)


def test_the_calls_of_a_single_caller_leave_a_thread_to_another_caller() -> None:
    async def story(pool: Pool) -> None:
        gate = Gate()
        waiting = [start(pool, gate, "ada", key=("acme", str(number)), caller=ADA) for number in range(8)]
        await settle()
        assert await pool.run(lambda: "done", key=IDLE, caller=BOB) == "done"
        gate.open()
        await asyncio.gather(*waiting)

    tell(story, threads=4)


@pytest.mark.parametrize(("recent_seconds", "threads"), [(LONG_SECONDS, 2), (-1, 6)])
def test_with_another_recent_caller_a_caller_has_a_quarter_of_the_threads(
    recent_seconds: float, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paces, "RECENT_SECONDS", recent_seconds)

    async def story(pool: Pool) -> None:
        assert await pool.run(lambda: "done", key=IDLE, caller=BOB) == "done"
        gate = Gate()
        waiting = [start(pool, gate, "ada", key=("acme", str(number)), caller=ADA) for number in range(20)]
        await gate.has_let_in(threads)
        await settle()
        assert pool.counts().busy == threads
        gate.open()
        await asyncio.gather(*waiting)

    tell(story, threads=8)


def busy() -> Paces:
    """Paces of a process that computes all the time."""
    return Paces(process_seconds=itertools.count(0, 1e6).__next__)


def test_with_another_caller_in_a_busy_process_a_caller_has_a_single_thread() -> None:
    async def story() -> None:
        pool, gate = Pool("work", PoolSettings(threads=8, calls_max=100), paces=busy()), Gate()
        assert await pool.run(lambda: "done", caller=BOB) == "done"
        waiting = [start(pool, gate, "ada", caller=ADA) for _ in range(4)]
        await gate.has_let_in(1)
        await settle()
        assert pool.counts().busy == 1
        gate.open()
        await asyncio.gather(*waiting)
        await asyncio.to_thread(pool.close)

    run_in_time(story())


def ten_seconds_more() -> Callable[[], float]:
    """Return a clock for a thread. On this clock each call takes ten seconds."""
    return itertools.count(0, 10).__next__


@pytest.mark.parametrize(("others", "waiting"), [([], 0), ([BOB], 1)])
def test_a_caller_that_computed_too_long_pauses_only_if_others_are_active(
    others: list[Holder], waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paces, "DEBT_SECONDS_MAX", LONG_SECONDS)  # the pause outlasts the test

    async def story() -> None:
        settings = PoolSettings(threads=4, calls_max=100)
        pool = Pool("work", settings, paces=busy(), thread_seconds=ten_seconds_more())
        gate = Gate()
        gate.open()
        await start(pool, gate, "ada", caller=ADA)
        for other in others:
            await start(pool, gate, "other", caller=other)
        second = start(pool, gate, "ada", caller=ADA)
        while not gate.order[1 + len(others) :] and not pool.counts().waiting:
            await asyncio.sleep(0)
        assert pool.counts().waiting == waiting
        # The pause of one caller delays no caller that computed little.
        assert await start(pool, gate, "cat", caller=CAT) == "cat"
        assert (pool.counts().waiting, gate.order.count("ada")) == (waiting, 2 - waiting)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        await asyncio.to_thread(pool.close)

    run_in_time(story())


def test_a_paused_call_runs_after_the_pause_of_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paces, "DEBT_SECONDS_MAX", 0.001)

    async def story() -> None:
        settings = PoolSettings(threads=4, calls_max=100)
        pool = Pool("work", settings, paces=busy(), thread_seconds=ten_seconds_more())
        for caller in (ADA, BOB, ADA, ADA, BOB):
            assert await pool.run(lambda: "done", caller=caller) == "done"
        await asyncio.to_thread(pool.close)

    run_in_time(story())


def test_a_call_whose_callers_pause_lasts_too_long_is_refused() -> None:
    async def story() -> None:
        settings = PoolSettings(threads=4, calls_max=100, wait_seconds_max=0.01)
        pool = Pool("work", settings, paces=busy(), thread_seconds=ten_seconds_more())
        for caller in (ADA, BOB):
            await pool.run(lambda: "done", caller=caller)
        with pytest.raises(Refused, match="exceed its share of computing time") as refused:
            await pool.run(lambda: "done", caller=ADA)
        assert (refused.value.status, refused.value.details["scope"]) == (429, "principal")
        await asyncio.to_thread(pool.close)

    run_in_time(story())


def note_all(pace: Paces, now: float) -> None:
    for holder in (ADA, BOB, *(("principal", f"u{number}") for number in range(8))):
        pace.note(holder, now)


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, CALLER_PAUSE_SECONDS_MAX * CALLER_COMPUTED_SHARE_MIN))))
def test_a_principal_s_computing_time_stays_within_its_share(calls: list[tuple[float, float]]) -> None:
    pace, now, computed, last = busy(), 1.0, 0.0, 0.0
    for idle, last in calls:
        now += idle
        note_all(pace, now)
        begins_at = pace.may_begin_at(ADA, now)
        assert now <= begins_at <= now + CALLER_PAUSE_SECONDS_MAX + 1e-9
        assert pace.may_begin_at(BOB, now) == now
        note_all(pace, begins_at)
        expected = pace.begin(ADA, begins_at)
        now = begins_at + last
        note_all(pace, now)
        pace.end(ADA, expected, last, now)
        computed += last
    assert computed <= CALLER_COMPUTED_BURST_SECONDS + CALLER_COMPUTED_SHARE_MIN * now + last + 1e-6


def test_an_address_is_never_paused() -> None:
    pace, address = busy(), ("address", "10.0.0.1")
    for caller in (address, BOB):
        pace.note(caller, 0)
        pace.end(caller, pace.begin(caller, 0), 100, 1)
    assert pace.may_begin_at(address, 1) == 1


@pytest.mark.parametrize(
    ("others", "load", "pause"), [(0, 0.9, 0), (1, 0.9, 1), (3, 0.9, 2), (9, 0.9, 4), (9, 0.25, 2), (9, 0, 1)]
)
def test_a_pause_grows_with_the_number_of_callers_and_the_load(others: int, load: float, pause: float) -> None:
    seconds = iter([0.0, 100 * load])
    pace = Paces(process_seconds=lambda: next(seconds))
    for caller in (ADA, *((("principal", f"u{number}")) for number in range(others))):
        pace.note(caller, 100)
    pace.end(ADA, pace.begin(ADA, 100), CALLER_COMPUTED_BURST_SECONDS + 0.5, 100)
    assert pace.may_begin_at(ADA, 100) == 100 + pause


def test_a_principal_s_own_computing_time_does_not_reduce_its_share() -> None:
    seconds = iter([0.0, 0.0, 0.75])
    pace = Paces(process_seconds=lambda: next(seconds))
    pace.is_loaded(10)
    note_all(pace, 11)
    pace.end(ADA, pace.begin(ADA, 10.1), 0.75, 10.1)
    # Until second 11, the process computed for 0.75 s, and only for this principal. So the process is otherwise idle.
    debt = 0.75 - CALLER_COMPUTED_BURST_SECONDS
    assert pace.may_begin_at(ADA, 11) == 11, "ADA still pauses, although its bucket is no longer below zero"
    assert pace.may_begin_at(ADA, 10.1) == pytest.approx(10.1 + debt / 0.5)


def test_calls_that_begin_together_are_charged_before_they_end() -> None:
    pace = busy()
    note_all(pace, 1)
    for _ in range(40):
        pace.end(ADA, pace.begin(ADA, 1), 0.1, 1)
    now = begins_at = pace.may_begin_at(ADA, 1)
    assert begins_at > 1
    note_all(pace, now)
    assert pace.may_begin_at(ADA, now) == now
    expected = pace.begin(ADA, now)
    assert expected == pytest.approx(0.1, rel=0.01)
    # A second call of any pool waits, even before the first call has ended.
    assert pace.may_begin_at(ADA, now) == pytest.approx(now + expected / CALLER_COMPUTED_SHARE_MIN)
    # `begin` takes seconds from the bucket, but none from a bucket at its lowest level. `end` gives back at most the
    # seconds that `begin` took.
    for taken in [pace.begin(ADA, now) for _ in range(20)]:
        pace.end(ADA, taken, taken, now)
    assert pace.may_begin_at(ADA, now) == pytest.approx(now + CALLER_PAUSE_SECONDS_MAX)
    pace.end(ADA, pace.begin(ADA, now), 0, now)
    assert pace.may_begin_at(ADA, now) == pytest.approx(now + CALLER_PAUSE_SECONDS_MAX)
    now = pace.may_begin_at(ADA, now)
    note_all(pace, now)
    expected = pace.begin(ADA, now)
    # A call that computed less than expected gives the rest back.
    pace.end(ADA, expected, 0, now)
    assert pace.may_begin_at(ADA, now) == now


def test_a_pool_runs_no_more_threads_than_its_limit() -> None:
    async def story(pool: Pool) -> None:
        gate = Gate()
        waiting = [start(pool, gate, str(number)) for number in range(8)]
        await gate.has_let_in(3)
        await settle()
        assert (len(gate.order), pool.counts().busy, pool.counts().waiting) == (3, 3, 5)
        gate.open()
        await asyncio.gather(*waiting)
        assert (pool.counts().busy, pool.counts().waiting) == (0, 0)

    tell(story, threads=3)


def test_a_thread_that_cannot_start_does_not_count_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a thread cannot start, a running thread takes the call. If no thread runs, the pool refuses the call.

    Later calls start threads again.
    """

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def story(pool: Pool) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            for _ in range(3):
                with pytest.raises(Refused) as refused:
                    await pool.run(lambda: "x", key=BUSY, caller=ADA)
                assert (refused.value.status, refused.value.details["scope"]) == (503, "process")
            assert (pool.counts().busy, pool.counts().waiting) == (0, 0)
        gate = Gate()
        first = start(pool, gate, "first")
        await gate.has_let_in(1)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            second = start(pool, gate, "second")
            await settle()
            assert gate.order == ["first"]
            gate.open()
            assert list(await asyncio.gather(first, second)) == ["first", "second"]
        gate = Gate()
        both = [start(pool, gate, name) for name in ("third", "fourth")]
        await gate.has_let_in(2)
        gate.open()
        await asyncio.gather(*both)

    tell(story)


# Refusals


@pytest.mark.parametrize(
    ("given", "status", "scope"),
    [({"key": BUSY}, 429, "document"), ({"caller": ADA}, 429, "principal"), ({}, 503, "process")],
)
def test_too_many_calls_are_refused(given: dict[str, Any], status: int, scope: str) -> None:
    async def story(pool: Pool) -> None:
        gate = Gate()
        waiting = [start(pool, gate, "", **given) for _ in range(4 if given else 8)]
        await settle()
        with pytest.raises(Refused) as refused:
            await pool.run(gate.call(), **given)
        assert (refused.value.status, refused.value.details["scope"]) == (status, scope)
        assert pool.counts().refused == 1
        if given:
            waiting.append(start(pool, gate, "", key=IDLE, caller=BOB))
        gate.open()
        await asyncio.gather(*waiting)
        assert await pool.run(lambda: "free again", **given) == "free again"

    tell(story, calls_max=8)


def test_a_single_principal_cannot_fill_the_queue_of_a_document() -> None:
    async def story() -> None:
        pools, gate = Pools(ServerLimits(threads=2, pushes_waiting_max=4)), Gate()

        def push(name: str, caller: Holder) -> asyncio.Task[str]:
            pools.begin("reads", None, caller)
            return asyncio.create_task(pools.in_turn(*BUSY, gate.call(name)))

        tasks = [push("ada", ADA) for _ in range(2)]
        await settle()
        with pytest.raises(Refused) as refused:
            await push("ada", ADA)
        assert (refused.value.status, refused.value.details["scope"]) == (429, "principal")
        tasks.append(push("bob", BOB))
        gate.open()
        assert await asyncio.gather(*tasks) == ["ada", "ada", "bob"]
        await asyncio.to_thread(pools.close)

    run_in_time(story())


def test_a_call_that_waits_too_long_is_refused_and_never_runs() -> None:
    async def story(pool: Pool) -> None:
        gate = Gate()
        running = start(pool, gate, "first", key=BUSY)
        await gate.has_let_in(1)
        for key in (BUSY, IDLE):
            with pytest.raises(Refused, match="in time") as refused:
                await pool.run(gate.call("second"), key=key)
            assert (refused.value.status, refused.value.details["scope"]) == (503, "process")
        gate.open()
        await running
        assert await pool.run(lambda: "free again", key=BUSY) == "free again"
        assert (gate.order, pool.counts().waiting, pool.counts().refused) == (["first"], 0, 2)

    tell(story, threads=1, wait_seconds_max=0.001)


# Ends


def test_cancelling_a_caller_does_not_stop_its_running_call_and_frees_the_turn() -> None:
    async def story(pool: Pool) -> None:
        held, done = threading.Event(), []

        def work() -> None:
            held.wait(SECONDS_MAX)
            done.append("committed")

        async with anyio.create_task_group() as group:
            group.start_soon(lambda: pool.run(work, key=BUSY))
            await settle()
            group.cancel_scope.cancel()
            held.set()
        assert done == ["committed"], "the caller left before its call had ended"
        assert await pool.run(lambda: "free", key=BUSY) == "free"

    tell(story, threads_of_key_max=1)


def test_a_call_cancelled_while_it_waits_never_runs() -> None:
    async def story(pool: Pool) -> None:
        gate = Gate()
        first = start(pool, gate, "first", key=BUSY)
        await gate.has_let_in(1)
        waiting = [start(pool, gate, "second", key=BUSY), start(pool, gate, "third", key=IDLE)]
        await settle()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert pool.counts().waiting == 0
        gate.open()
        await first
        assert await pool.run(lambda: "free", key=BUSY) == "free"
        assert gate.order == ["first"]

    tell(story, threads=1)


def test_calls_that_end_while_the_loop_is_busy_wake_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(pool: Pool) -> None:
        loop, woken = asyncio.get_running_loop(), list[object]()
        wake = loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *given: (woken.append(given), wake(*given)))
        calls = [pool.submit(partial(str, number)) for number in range(4)]
        # `close` blocks the loop until all threads have ended.
        pool.close()
        assert [await call.future for call in calls] == ["0", "1", "2", "3"]
        assert len(woken) == 1
        assert await pool.run(lambda: "later") == "later"

    tell(story, threads=4)


def test_a_call_that_ended_after_its_loop_leaves_its_thread_to_the_next_loop() -> None:
    pool, gate = Pool("work", PoolSettings(threads=2)), Gate()

    async def leave() -> None:
        pool.submit(gate.call()).future.add_done_callback(
            lambda _: pytest.fail("a callback ran after its loop had ended")
        )
        await gate.has_let_in(1)

    async def go_on() -> None:
        # The thread of the first call may need a moment to end the call.
        while pool.counts().busy:
            assert await pool.run(lambda: "next") == "next"

    run_in_time(leave())
    gate.open()
    run_in_time(go_on())
    assert pool.counts() == ThreadCounts(busy=0, waiting=0, refused=0)
    pool.close()


@pytest.mark.parametrize(("error", "raised"), [(ValueError("no"), ValueError), (StopIteration(), RuntimeError)])
def test_an_exception_of_a_call_reaches_its_caller_and_frees_the_turn(
    error: Exception, raised: type[Exception]
) -> None:
    async def story(pool: Pool) -> None:
        def fail() -> None:
            raise error

        with pytest.raises(raised):
            await pool.run(fail, key=BUSY)
        assert await pool.run(lambda: 1, key=BUSY) == 1

    tell(story, threads_of_key_max=1)


def test_the_default_executor_of_the_loop_uses_the_pool_of_the_request() -> None:
    async def story() -> None:
        pools = Pools(ServerLimits(threads=2))
        loop = asyncio.get_running_loop()
        loop.set_default_executor(LoopThreads(pools))

        async def name_of_thread() -> str:
            return await loop.run_in_executor(None, lambda: threading.current_thread().name)

        assert "applications" in await name_of_thread()
        pools.begin("pages", None, None)
        assert "pages" in await name_of_thread()
        pools.begin(None, None, None)
        assert "applications" in await name_of_thread()

    run_in_time(story())


# Priority


def test_a_pool_thread_has_a_lower_priority_than_the_event_loop() -> None:
    """On Linux each thread has its own priority. On other systems the priority of the process stays the same."""

    async def story(pool: Pool) -> None:
        of_loop = os.getpriority(os.PRIO_PROCESS, 0)
        of_thread = await pool.run(lambda: os.getpriority(os.PRIO_PROCESS, 0))
        assert of_thread == (min(19, of_loop + THREAD_NICENESS) if sys.platform == "linux" else of_loop)
        assert os.getpriority(os.PRIO_PROCESS, 0) == of_loop

    tell(story)
