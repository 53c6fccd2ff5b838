"""Healthy stores must verify: ``python -m tests.simulation.healthy --stores 1000 --seed 7``.

Each seed of a world makes a store; a seed of `BranchesWorld` makes several. While the world's actors run, another
process inspects the whole store repeatedly, through ports that inject faults. After the run, this module inspects each
store once more. No inspection may find damage. `WORLDS` lists the worlds that this module runs, a part of the worlds of
`simulate`. The world `disk` is not among them, because it inspects its own store after the last power failure.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from stratalog.errors import StratalogError
from stratalog.log import Environment
from stratalog.store import Store
from stratalog.testing.scheduler import Scheduler
from tests.simulation.clusters import Cluster, Process
from tests.simulation.inspected import check_healthy
from tests.simulation.world_branches import BranchesWorld
from tests.simulation.world_collect import CollectWorld
from tests.simulation.world_documents import DocumentWorld
from tests.simulation.world_log import LogWorld
from tests.simulation.world_queue import QueueWorld
from tests.simulation.world_records import RecordsWorld
from tests.simulation.world_sync import SyncWorld
from tests.simulation.world_threads import ThreadWorld
from tests.simulation.worlds import Outcome, run_seed

__all__ = ["HEALTHY_WORLDS", "Healthy", "healthy", "main"]

LOOKS = 12
PAUSE_SECONDS_MAX = 20.0


class Healthy(msgspec.Struct):
    """The counts of a run of many seeds.

    ``stores`` counts the seeds. ``histories`` counts the inspections of a history at rest, and ``live`` those during
    writes. ``forks``, ``floors`` and ``archives`` count the seeds with at least one fork, raised floor or archive.
    ``alarms`` describes the failed seeds.
    """

    stores: int = 0
    histories: int = 0
    live: int = 0
    forks: int = 0
    floors: int = 0
    archives: int = 0
    alarms: list[str] = []


def _store_of(ends: Cluster | Process) -> Store:
    queue = ends.queue
    return Store(Environment(ends.index, ends.blobs, ends.clock), queue)


def _clusters_of(world: Any) -> list[Cluster]:
    """Return the cluster of a world's store. A world with branches has a cluster for each of its sites."""
    return [site.cluster for site in world.sites] if isinstance(world, BranchesWorld) else [world.cluster]


def _inspected(world: type[Any]) -> type[Any]:
    """Return a subclass of ``world`` with one more process in each cluster, which inspects the store."""

    class Inspected(world):  # type: ignore[misc]
        columns: ClassVar[tuple[str, ...]] = (*world.columns, "inspected live")

        def __init__(self, scheduler: Scheduler) -> None:
            super().__init__(scheduler)
            self._looks = LOOKS
            for cluster in _clusters_of(self):
                # A run does not wait for background processes. If threads switch at nearly every line, an inspection of
                # a long log takes thousands of steps, so waiting for it could exceed the step limit of a seed.
                cluster.start("inspector", self.inspect, background=True)

        def inspect(self, process: Process) -> None:
            """Inspect the store repeatedly while other processes write."""
            while self._looks > 0:
                self._looks -= 1
                process.clock.sleep(PAUSE_SECONDS_MAX * process.clock.random())
                try:
                    check_healthy(_store_of(process), "inspected live", self.scheduler.counts)
                except StratalogError:
                    self.scheduler.counts.bump("inspections broken off")

        def check(self) -> None:
            """Check as the world does, then inspect the store at rest."""
            super().check()
            clusters = _clusters_of(self)
            bump = self.scheduler.counts.bump
            for cluster in clusters:
                check_healthy(_store_of(cluster), "inspected", self.scheduler.counts)
            parts = [part for cluster in clusters for part in cluster.index._present._partitions.values()]
            items = [item for part in parts for item in part.items.values()]
            bump("pins", sum(item.partition.endswith("/forks") for item in items))
            bump("floored", sum(item.attributes.get("f", 0) not in (0, "") for item in items if item.sort == "name"))
            bump("archived", sum("a" in item.attributes for item in items if item.partition.endswith("/segments")))

    return Inspected


WORLDS = (
    BranchesWorld,
    CollectWorld,
    DocumentWorld,
    LogWorld,
    QueueWorld,
    RecordsWorld,
    SyncWorld,
    ThreadWorld,
)
HEALTHY_WORLDS = {world.__name__: _inspected(world) for world in WORLDS}


def outcomes(stores: int, seed: int, only: str | None = None) -> Iterator[tuple[str, Outcome]]:
    """Yield the outcome of each seed, with the name of its world."""
    names = [only] if only else sorted(HEALTHY_WORLDS)
    for position in range(stores):
        name = names[position % len(names)]
        yield name, run_seed(HEALTHY_WORLDS[name], seed + position)


def healthy(stores: int, seed: int, only: str | None = None) -> Healthy:
    """Run and inspect ``stores`` seeds from ``seed`` on, and return the counts."""
    result = Healthy()
    for name, outcome in outcomes(stores, seed, only):
        counts = outcome.counts
        result.stores += 1
        result.histories += counts.get("inspected", 0)
        result.live += counts.get("inspected live", 0)
        result.forks += bool(counts.get("pins"))
        result.floors += bool(counts.get("floored"))
        result.archives += bool(counts.get("archived"))
        if outcome.checker:
            result.alarms.append(f"{name} seed {outcome.seed}: {outcome.checker}: {outcome.details}")
    return result


def main(arguments: list[str] | None = None) -> int:
    """Print the counts. Return 1 if a seed failed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.healthy")
    parser.add_argument("--stores", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--world", choices=sorted(HEALTHY_WORLDS))
    chosen = parser.parse_args(arguments)
    logging.getLogger("stratalog").addHandler(logging.NullHandler())
    result = healthy(chosen.stores, chosen.seed, chosen.world)
    for alarm in result.alarms[:10]:
        print(alarm)
    print(
        f"{result.stores} stores ({result.forks} with forks, {result.floors} with floors, {result.archives} with"
        f" archives): {result.histories} histories inspected at rest, {result.live} inspections while others wrote;"
        f" {len(result.alarms)} alarms"
    )
    return 1 if result.alarms else 0


if __name__ == "__main__":
    sys.exit(main())
