"""The simulated pool: each call runs in an actor of its process. An actor that waits for an answer is parked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.testing.faults import Weather
from stratalog.testing.scheduler import Scheduler
from tests.simulation.clusters import Cluster, Process
from tests.simulation.pool import SimulatedPool


def run(main: Callable[[Process, SimulatedPool], None], seed: int = 0) -> Cluster:
    """Run ``main`` in a process. After a crash, another process runs ``main`` again."""
    cluster = Cluster(Scheduler(seed), Weather())
    cluster.start("one", lambda process: main(process, SimulatedPool(process)))
    cluster.scheduler.run()
    return cluster


def test_calls_interleave_and_each_caller_gets_its_own_answer() -> None:
    orders = set()
    for seed in range(10):
        steps: list[int] = []

        def call(n: int, process: Process, steps: list[int] = steps) -> int:
            for _ in range(3):
                process.scheduler.switch()
                steps.append(n)
            return n

        def main(process: Process, pool: SimulatedPool, call: Callable[[int, Process], int] = call) -> None:
            asked = [pool.submit(call, n, process) for n in range(3)]
            assert [call.result() for call in asked] == [0, 1, 2]

        run(main, seed)
        orders.add(tuple(steps))
    assert len(orders) > 1


def test_an_exception_of_a_call_is_raised_in_the_caller() -> None:
    def main(process: Process, pool: SimulatedPool) -> None:
        with pytest.raises(ZeroDivisionError):
            pool.submit(lambda: 1 // 0).result()

    run(main)


def test_a_crash_in_a_call_also_ends_the_caller() -> None:
    begun: list[Process] = []
    answered: list[object] = []

    def main(process: Process, pool: SimulatedPool) -> None:
        begun.append(process)
        if len(begun) == 1:
            answered.append(pool.submit(process.crash).result())
        answered.append(pool.submit(lambda: "well").result())

    cluster = run(main)
    assert answered == ["well"]
    assert cluster.scheduler.counts.get("restarts") == 1
