"""A restarted process takes the turns that are left. A history counts the answers and checks them against the log."""

from __future__ import annotations

import pytest

from stratalog.testing.checkers import Answered, LoggedEntry, Violation
from stratalog.testing.faults import Weather
from stratalog.testing.history import History
from stratalog.testing.scheduler import Scheduler
from tests.simulation.actors import Turns
from tests.simulation.clusters import Cluster, Process


def test_an_actor_takes_as_many_turns_as_it_has() -> None:
    left = Turns(writer=2, reader=1)
    assert [left.take("writer") for _ in range(4)] == [True, True, False, False]
    assert left == {"writer": 0, "reader": 1}


def test_a_restarted_process_continues_with_the_turn_after_the_crash() -> None:
    scheduler = Scheduler(7)
    left = Turns(writer=5)
    taken: list[int] = []

    def write(process: Process) -> None:
        while left.take(process.name):
            taken.append(left[process.name])
            if left[process.name] % 2:
                process.crash()

    Cluster(scheduler, Weather()).start("writer", write)
    scheduler.run()
    assert taken == [4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("reported", "counted"),
    [(Answered.ACKNOWLEDGED, "acknowledged"), (Answered.REFUSED, "refused"), (Answered.UNKNOWN, "given up unknown")],
)
def test_history_counts_each_append_by_its_answer(reported: Answered, counted: str) -> None:
    scheduler = Scheduler(7)
    History(scheduler).append("a", "w1", 0, reported, 1)
    assert scheduler.counts.values == {counted: 1}


def test_history_is_checked_against_the_log() -> None:
    history = History(Scheduler(7))
    history.append("a", "w1", 0, Answered.ACKNOWLEDGED, 1)
    history.head(0, 1)
    history.check([LoggedEntry(1, "a", "w1", 1)])
    with pytest.raises(Violation, match="acknowledged"):
        history.check([])
