"""While yield points are active, each access of a shared attribute first calls the hook. Interrupts end waits."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from stratalog.testing.locks import SimulatedLock
from stratalog.testing.scheduler import Interrupt, Scheduler
from tests.simulation import racing
from tests.simulation.interleaving import Interleaving, shared_attributes
from tests.simulation.racing import Racing


@pytest.fixture
def interleaving() -> Interleaving:
    return Interleaving([racing])


def yields(interleaving: Interleaving, call: Callable[[], object]) -> int:
    """Return the number of yield points that ``call`` passes."""
    met: list[None] = []
    with interleaving.active(lambda: met.append(None)):
        call()
    return len(met)


def test_an_attribute_that_is_changed_outside_the_constructor_is_shared(interleaving: Interleaving) -> None:
    assert interleaving.shared == {"count", "names"}


@pytest.mark.parametrize(
    "statement", ["x.a = 1", "x.a += 1", "del x.a", "x.a[1] = 2", "del x.a[1]", "x.a.append(1)", "self.a.popleft()"]
)
def test_every_kind_of_change_makes_an_attribute_shared(statement: str) -> None:
    assert shared_attributes(ast.parse(f"def f(x): {statement}")) == {"a"}


@pytest.mark.parametrize("statement", ["x.a", "x.a()", "y = x.a[1]", "x.a.count(1)"])
def test_reading_does_not_make_an_attribute_shared(statement: str) -> None:
    assert shared_attributes(ast.parse(f"def f(x): {statement}")) == set()


def test_each_load_and_store_yields(interleaving: Interleaving) -> None:
    shared = Racing()
    assert yields(interleaving, shared.read_and_write) == 2
    assert yields(interleaving, shared.add) == 2
    assert yields(interleaving, lambda: shared.note("x")) == 1
    assert yields(interleaving, lambda: shared.doubled) == 1
    assert yields(interleaving, shared.look) == 0
    assert (shared.count, shared.names) == (2, ["x"])


def test_the_yield_points_are_removed_when_the_block_ends(interleaving: Interleaving) -> None:
    plain = Racing.add.__code__
    with interleaving.active(lambda: None):
        assert Racing.add.__code__ is not plain
    assert Racing.add.__code__ is plain
    assert not hasattr(racing, "_yield_here")


@pytest.mark.parametrize("method", ["read_and_write", "add"])
def test_two_threads_may_lose_an_update(interleaving: Interleaving, method: str) -> None:
    def counted(seed: int) -> int:
        scheduler, shared = Scheduler(seed), Racing()
        scheduler.yield_rate = 1
        for name in ("one", "two"):
            scheduler.spawn(name, getattr(shared, method))
        with interleaving.active(scheduler.yield_here):
            scheduler.run()
        return shared.count

    assert {counted(seed) for seed in range(20)} == {1, 2}


def test_an_actor_interrupted_while_it_waits_for_a_lock_leaves_the_lock_to_other_actors() -> None:
    scheduler = Scheduler(1)
    lock = SimulatedLock(scheduler)
    ends: list[str] = []

    def hold() -> None:
        with lock:
            scheduler.sleep(10)
            scheduler.interrupt(waiting)
            scheduler.sleep(10)

    def wait(name: str) -> None:
        try:
            with lock:
                ends.append(name)
        except Interrupt as exc:
            ends.append(f"{name}: {exc}")

    scheduler.spawn("holder", hold)

    def begin() -> None:
        scheduler.sleep(5)
        wait("first")

    waiting = scheduler.spawn("first", begin)
    scheduler.spawn("second", lambda: (scheduler.sleep(6), wait("second")))  # type: ignore[func-returns-value]
    scheduler.run()
    assert ends == ["first: first is interrupted", "second"]
    assert not lock.locked()


def test_an_interrupt_comes_at_the_next_step() -> None:
    scheduler = Scheduler(1)

    def run() -> None:
        scheduler.interrupt(actor)
        scheduler.yield_here()
        with pytest.raises(Interrupt):
            scheduler.switch()
        scheduler.switch()

    actor = scheduler.spawn("one", run)
    scheduler.run()
    assert scheduler.counts.get("interrupts") == 1
