"""What actors do alike in every world: take turns that outlive a crash, dawdle, choose, and open the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from stratalog.clock import Clock
from stratalog.log import Environment as LogPlace
from stratalog.log import LogSettings
from stratalog.log.tasks import InlineTasks
from tests.simulation.places import ActorTasks, Place, Process

__all__ = ["Turns", "choose", "dawdle", "log_place"]

T = TypeVar("T")


class Turns(dict[str, int]):
    """How many turns each actor has left. A process that is started anew goes on where its predecessor was."""

    def take(self, name: str) -> bool:
        """Take one turn of that actor's; False where none is left."""
        if not self[name]:
            return False
        self[name] -= 1
        return True


def dawdle(clock: Clock, chance: float, seconds_max: float) -> None:
    """With that chance, sleep for some part of ``seconds_max``."""
    if clock.random() < chance:
        clock.sleep(seconds_max * clock.random())


def choose(clock: Clock, options: Sequence[T]) -> T:
    """One of the options, by the chance of the process that asks."""
    return options[int(clock.random() * len(options))]


def log_place(ends: Place | Process, settings: LogSettings) -> LogPlace:
    """A store over the ports of a process, or over the honest ones of a place, for set-up and checks."""
    background = ActorTasks(ends) if isinstance(ends, Process) else InlineTasks()
    return LogPlace(ends.index, ends.blobs, ends.clock, settings, background=background)
