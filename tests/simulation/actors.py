"""Roles and steps that actors of several worlds share: take a turn, sleep, choose at random, open an environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TypeVar

import msgspec

from stratalog.clock import Clock
from stratalog.log import Environment, Log, LogSettings
from stratalog.log.tasks import InlineTasks
from stratalog.ports.blob_source import BlobSource
from tests.simulation.clusters import ActorTasks, Cluster, Process

__all__ = ["Role", "Turns", "choose", "dawdle", "log_environment", "machine_source"]

T = TypeVar("T")


class Role(msgspec.Struct, frozen=True):
    """A role: its action, its number of turns, the chance of a pause before a turn, and `Cluster.start`'s flags."""

    name: str
    turn: Callable[[Process, Log], None]
    turns: int
    pause: float
    frees: bool = True
    marks: bool = True


class Turns(dict[str, int]):
    """The number of turns that each actor has left. A restarted process continues where its predecessor ended."""

    def take(self, name: str) -> bool:
        """Take one of the actor's turns. Return False if none is left."""
        if not self[name]:
            return False
        self[name] -= 1
        return True


def dawdle(clock: Clock, chance: float, seconds_max: float) -> None:
    """With probability ``chance``, sleep for a random part of ``seconds_max``."""
    if clock.random() < chance:
        clock.sleep(seconds_max * clock.random())


def choose(clock: Clock, options: Sequence[T]) -> T:
    """Return a random option, drawn from the clock of the calling process."""
    return options[int(clock.random() * len(options))]


def log_environment(ends: Cluster | Process, settings: LogSettings) -> Environment:
    """Return an environment over the ports of a process, or over the faultless ports of a cluster for checks."""
    background = ActorTasks(ends) if isinstance(ends, Process) else InlineTasks()
    return Environment(ends.index, ends.blobs, ends.clock, settings, background=background)


def machine_source(process: Process, machine: dict[str, bytes]) -> BlobSource:
    """Return the process's blobs behind the cache of its machine, which all processes share.

    The cache drops nothing. So it hides at least as much damage of the storage as a real cache on a disk.
    """
    blobs = copy(process.blobs)

    def get(key: str) -> bytes:
        if key not in machine:
            machine[key] = process.blobs.get(key)
        return machine[key]

    blobs.get = get  # type: ignore[method-assign]
    return BlobSource(blobs)
