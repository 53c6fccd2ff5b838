"""Worlds: the protocol of a world, and the run of one seed."""

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
    """Actors over shared backends, and the checks after all actors have ended.

    The constructor gets the scheduler of a seed, and starts the actors. A world draws all its random numbers from that
    scheduler. ``columns`` names the counts that must not stay zero over many seeds.
    """

    columns: ClassVar[tuple[str, ...]]

    def __init__(self, scheduler: Scheduler) -> None:
        """Start the actors."""
        ...

    def check(self) -> None:
        """Raise Violation if a rule is broken.

        `run_seed` calls this method after the run, so no faults occur. Outside any actor, a port call takes no
        simulated time and lets no other actor run.
        """
        ...


class Outcome(msgspec.Struct, frozen=True):
    """The result of a seed. ``checker`` names the checker that failed, or is "crash" after another exception."""

    seed: int
    fingerprint: str
    calls: int
    counts: Mapping[str, int]
    checker: str = ""
    details: str = ""


CRASH = "crash"


def _surroundings(build: Callable[[Scheduler], World], scheduler: Scheduler) -> AbstractContextManager[None]:
    """Return the context of a world's run: the ``surroundings`` of its class, if the class has any."""
    surroundings = getattr(build, "surroundings", None)
    return nullcontext() if surroundings is None else cast(AbstractContextManager[None], surroundings(scheduler))


def run_seed(build: Callable[[Scheduler], World], seed: int, tell: Callable[[str], None] | None = None) -> Outcome:
    """Run one seed of a world to its end, and run the world's checks."""
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
    except Exception:  # noqa: BLE001 - any exception of an actor is the seed's result
        checker, details = CRASH, traceback.format_exc()
    return Outcome(seed, scheduler.fingerprint(), scheduler.calls, scheduler.counts.values, checker, details)
