"""Worlds: what one is, and how one seed of it is run."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, Protocol, cast

import msgspec

from stratalog.testing.checkers import Violation
from stratalog.testing.locks import simulated_locks
from stratalog.testing.scheduler import Scheduler

__all__ = ["Outcome", "World", "run_seed"]


class World(Protocol):
    """Actors over one place, and what must hold once they have come to rest.

    A world is made with the scheduler of its seed and starts its actors then; everything random in it is drawn from
    that scheduler. ``columns`` names the counts that must not stay zero over many seeds.
    """

    columns: ClassVar[tuple[str, ...]]

    def __init__(self, scheduler: Scheduler) -> None:
        """Start the actors."""
        ...

    def check(self) -> None:
        """Raise Violation for what does not hold. Faults are off, and calls at the place's own ports take no step."""
        ...


class Outcome(msgspec.Struct, frozen=True):
    """How a seed ended. ``checker`` names the violated one, "crash" says an actor raised what nobody expected."""

    seed: int
    fingerprint: str
    calls: int
    counts: Mapping[str, int]
    checker: str = ""
    details: str = ""


CRASH = "crash"


def _surroundings(build: Callable[[Scheduler], World], scheduler: Scheduler) -> AbstractContextManager[None]:
    """What a world wants around its whole run, by its class's ``surroundings``; mostly nothing."""
    surroundings = getattr(build, "surroundings", None)
    return nullcontext() if surroundings is None else cast(AbstractContextManager[None], surroundings(scheduler))


def run_seed(build: Callable[[Scheduler], World], seed: int, tell: Callable[[str], None] | None = None) -> Outcome:
    """Run one seed of a world to its end and check it."""
    scheduler = Scheduler(seed, tell)
    checker = details = ""
    try:
        with simulated_locks(scheduler), _surroundings(build, scheduler):
            world = build(scheduler)
            scheduler.run()
            scheduler.calm()
            world.check()
    except Violation as exc:
        checker, details = exc.checker, str(exc)
    except Exception:  # noqa: BLE001 - whatever an actor raises is the seed's finding, and the run goes on
        checker, details = CRASH, traceback.format_exc()
    return Outcome(seed, scheduler.fingerprint(), scheduler.calls, scheduler.counts.values, checker, details)
