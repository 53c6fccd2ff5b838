"""Travellers: devices that may meet another server, which has a shorter or a different history."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec

from stratalog.protocol.sync import Pull, Pulled, Push
from stratalog.testing.checkers import Violation
from tests.simulation.devices import Device
from tests.simulation.places import Place

__all__ = ["Traveller"]


class Shown(msgspec.Struct, frozen=True):
    """A state of a device after an answer, and the place that answered."""

    place: Place
    version: int
    hash: str
    content: Mapping[str, bytes]


class Traveller(Device):
    """A device that keeps its clients and groups at every server. Each of its changes has a unique value."""

    def __init__(self, name: str, document: str, random: Random, site: Any) -> None:
        super().__init__(name, document, random)
        self.site = site
        self.place: Place = site.place
        """The place whose answer the device is processing."""

        self.arrived: list[tuple[Place, Push | Pull, Any]] = []
        self.made: set[str] = set()
        self.lost: dict[str, tuple[Place, int]] = {}
        """Maps each lost change to the place and the version of the answer that named the change as lost."""

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
        pending = {(one.client, one.id) for one in self.pending}
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
                self.lost.update((self._numbers[one], (self.place, pulled.cookie.version)) for one in sorted(gone))
        return taken

    def check_seen(self, histories: Mapping[int, Any]) -> None:
        """Check that each state fits the history of the place that answered, and lacks the lost changes."""
        for shown in self.shown:
            history = histories[id(shown.place)]
            entry = history.entries.get(shown.version)
            if shown.version and (entry is None or entry.hash.hex() != shown.hash):
                raise Violation("branch", "a server's answer does not belong to the history of its place", shown=shown)
            if shown.content != history.states[shown.version]:
                raise Violation(
                    "state", "a device's content differs from the history at its version", version=shown.version
                )
        for change, (place, version) in self.lost.items():
            found = histories[id(place)].changes.get(change)
            if found is not None and found <= version:
                raise Violation(
                    "lost", "a change that the history contains was reported as lost", change=change, version=found
                )

    def _see(self) -> None:
        assert self.cookie is not None
        self.shown.append(Shown(self.place, self.cookie.version, self.cookie.hash, dict(self.content)))
