"""Travellers: devices that may meet another server, which has a shorter or a different history."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec

from stratalog.protocol.sync import Pull, Pulled, Push
from stratalog.testing.checkers import Violation
from tests.simulation.clusters import Cluster
from tests.simulation.devices import Device

__all__ = ["Traveller"]


class Shown(msgspec.Struct, frozen=True):
    """A state of a device after an answer, and the cluster that answered."""

    cluster: Cluster
    version: int
    hash: str
    content: Mapping[str, bytes]


class Traveller(Device):
    """A device that keeps its clients and groups at every server. Each of its changes has a unique value."""

    def __init__(self, name: str, document: str, random: Random, site: Any) -> None:
        super().__init__(name, document, random)
        self.site = site
        self.cluster: Cluster = site.cluster
        """The cluster whose answer the device is processing."""

        self.arrived: list[tuple[Cluster, Push | Pull, Any]] = []
        self.made: set[str] = set()
        self.lost: dict[str, tuple[Cluster, int]] = {}
        """Maps each lost change to the cluster and the version of the answer that named the change as lost."""

        self.shown: list[Shown] = []
        self._numbers: dict[tuple[str, int], str] = {}

    def make(self) -> None:
        """Make another change."""
        token = f"{self.name}/{len(self.made)}"
        self.made.add(token)
        self.mutate("put", {"key": self._random.choice(("name", "items/1", "items/2")), "value": token})
        newest = self.pending[-1]
        self._numbers[newest.client, newest.id] = token

    def take(self, request: Pull, pulled: Pulled) -> bool:
        """Apply the answer to a pull, and record the mutations that the answer names as lost."""
        pending = {(mutation.client, mutation.id) for mutation in self.pending}
        taken = super().take(request, pulled)
        if taken:
            for client, ranges in pulled.lost.items():
                gone = {(client, number) for above, upto in ranges for number in range(above + 1, upto + 1)}
                if gone & pending:
                    raise Violation("lost", "a pending change was reported as lost", changes=sorted(gone & pending))
                if gone - self._numbers.keys():
                    raise Violation(
                        "lost", "a change that the device never made was reported as lost", changes=sorted(gone)
                    )
                self.lost.update(
                    (self._numbers[mutation], (self.cluster, pulled.cookie.version)) for mutation in sorted(gone)
                )
        return taken

    def check_seen(self, histories: Mapping[int, Any]) -> None:
        """Check that each state fits the history of the cluster that answered, and lacks the lost changes."""
        for shown in self.shown:
            history = histories[id(shown.cluster)]
            entry = history.entries.get(shown.version)
            if shown.version and (entry is None or entry.hash.hex() != shown.hash):
                raise Violation(
                    "branch", "a server's answer does not belong to the history of its cluster", shown=shown
                )
            if shown.content != history.states[shown.version]:
                raise Violation(
                    "state", "a device's content differs from the history at its version", version=shown.version
                )
        for change, (cluster, version) in self.lost.items():
            version = histories[id(cluster)].changes.get(change)
            if version is not None and version <= version:
                raise Violation(
                    "lost", "a change that the history contains was reported as lost", change=change, version=version
                )

    def _see(self) -> None:
        assert self.cookie is not None
        self.shown.append(Shown(self.cluster, self.cookie.version, self.cookie.hash, dict(self.content)))
