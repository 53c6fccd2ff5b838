"""The scheduler: repeatable runs, simulated time, crashes, locks, and the detection of endless runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from stratalog.testing.checkers import Violation
from stratalog.testing.locks import simulated_locks
from stratalog.testing.scheduler import Crash, Scheduler, SimulatedClock
from tests.simulation.world_index import CounterWorld
from tests.simulation.worlds import run_seed

SEEDS = range(20)
PRINT_FINGERPRINTS = """
from tests.simulation.simulate import simulate
print([outcome.fingerprint for _, outcome in simulate(range(20))])
"""


def test_a_seed_runs_the_same_way_twice() -> None:
    first = [run_seed(CounterWorld, seed).fingerprint for seed in SEEDS]
    assert [run_seed(CounterWorld, seed).fingerprint for seed in SEEDS] == first


def test_two_seeds_run_differently() -> None:
    assert len({run_seed(CounterWorld, seed).fingerprint for seed in SEEDS}) == len(SEEDS)


def test_a_seed_runs_the_same_way_in_another_process_with_other_hashes() -> None:
    assert fingerprints_of_a_process("1") == fingerprints_of_a_process("2")


def test_a_seed_runs_the_same_way_while_it_is_traced() -> None:
    lines: list[str] = []
    assert run_seed(CounterWorld, 1, lines.append).fingerprint == run_seed(CounterWorld, 1).fingerprint
    assert len(lines) == run_seed(CounterWorld, 1).calls


def test_actors_interleave_in_an_order_that_depends_on_the_seed() -> None:
    assert len({interleaving(seed) for seed in SEEDS}) > 3


def test_time_jumps_to_the_first_sleeper_that_wakes() -> None:
    scheduler = Scheduler(1)
    clock = SimulatedClock(scheduler)
    woken: list[str] = []
    scheduler.spawn("slow", lambda: (clock.sleep(3600), woken.append("slow"))[0])
    scheduler.spawn("fast", lambda: (clock.sleep(60), woken.append("fast"))[0])
    scheduler.run()
    assert woken == ["fast", "slow"]
    assert clock.boot_ms() == 3_600_000


def test_a_wall_clock_may_jump_and_a_boot_clock_may_not() -> None:
    scheduler = Scheduler(1)
    exact, jumping = SimulatedClock(scheduler), SimulatedClock(scheduler, skew_ms=5_000, jump_ms_max=60_000)
    assert len({jumping.wall_ms() - exact.wall_ms() for _ in range(2_000)}) > 2
    assert jumping.boot_ms() == exact.boot_ms()


def test_a_crashed_actor_takes_no_further_step_not_even_while_it_unwinds() -> None:
    scheduler = Scheduler(1)
    seen: list[str] = []

    def dying() -> None:
        actor.crashed = True
        try:
            scheduler.switch()
        finally:
            seen.append("unwinding")
            scheduler.switch()
            seen.append("never")

    actor = scheduler.spawn("dying", dying)
    scheduler.run()
    assert seen == ["unwinding"]


def test_an_exception_of_an_actor_is_raised_with_the_name_of_the_actor() -> None:
    scheduler = Scheduler(1)
    scheduler.spawn("clumsy", lambda: [].pop())
    with pytest.raises(IndexError) as caught:
        scheduler.run()
    assert "clumsy" in caught.value.__notes__[0]


def test_a_background_actor_ends_when_the_foreground_actors_have_ended() -> None:
    scheduler = Scheduler(1)
    ended: list[str] = []
    scheduler.spawn("background", lambda: for_ever(scheduler, ended), background=True)
    scheduler.spawn("foreground", lambda: SimulatedClock(scheduler).sleep(1))
    scheduler.run()
    assert ended == ["ended"]


def test_a_run_waits_for_scheduled_calls() -> None:
    scheduler = Scheduler(1)
    landed: list[int] = []
    scheduler.spawn("sender", lambda: scheduler.later(60_000, lambda: landed.append(scheduler.now_ms)))
    scheduler.run()
    assert landed == [60_000]


def test_a_run_without_end_is_a_violation() -> None:
    scheduler = Scheduler(1)
    scheduler.spawn("spinning", lambda: for_ever(scheduler, []))
    with pytest.raises(Violation, match="progress: the run does not come to rest"):
        scheduler.run()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lock_keeps_actors_apart_across_steps(seed: int) -> None:
    scheduler = Scheduler(seed)
    inside: list[int] = []
    with simulated_locks(scheduler):
        lock = threading.Lock()
    for number in range(3):
        scheduler.spawn(f"actor-{number}", lambda number=number: hold(scheduler, lock, inside, number))
    scheduler.run()
    assert inside in ([a, a, b, b, c, c] for a in range(3) for b in range(3) for c in range(3))


def test_a_deadlock_is_a_violation() -> None:
    scheduler = Scheduler(1)
    with simulated_locks(scheduler):
        lock = threading.Lock()
    scheduler.spawn("twice", lambda: twice(lock))
    with pytest.raises(Violation, match="progress: every actor waits for another"):
        scheduler.run()


def test_a_crash_frees_the_locks_of_its_process() -> None:
    scheduler = Scheduler(1)
    with simulated_locks(scheduler):
        lock = threading.Lock()
    scheduler.spawn("dying", lambda: die_inside(lock))
    scheduler.run()
    assert not lock.locked()


def interleaving(seed: int) -> str:
    scheduler = Scheduler(seed)
    order: list[str] = []
    for name in "abc":
        scheduler.spawn(name, lambda name=name: steps(scheduler, lambda: order.append(name)))
    scheduler.run()
    return "".join(order)


def steps(scheduler: Scheduler, step: Callable[[], None]) -> None:
    for _ in range(5):
        scheduler.switch()
        step()


def for_ever(scheduler: Scheduler, ended: list[str]) -> None:
    try:
        while True:
            scheduler.switch()
    finally:
        ended.append("ended")


def hold(scheduler: Scheduler, lock: threading.Lock, inside: list[int], number: int) -> None:
    with lock:
        inside.append(number)
        scheduler.switch()
        inside.append(number)


def twice(lock: threading.Lock) -> None:
    with lock, lock:
        pass


def die_inside(lock: threading.Lock) -> None:
    with lock:
        raise Crash


def fingerprints_of_a_process(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PRINT_FINGERPRINTS]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
