"""A model of the scrub: the time of the last intact read of each blob. The model does not use the scrub's record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stratalog.clock import Clock
from stratalog.errors import Corrupt
from stratalog.limits import SCRUB_CLOCKS_SECONDS_MAX, SCRUB_PROOF_SECONDS_MAX
from stratalog.maintenance.scrub import ScrubReport, scrub
from stratalog.ports.blobs import Blobs
from tests.damage import LOSE

__all__ = ["ScrubTruth"]


class ScrubTruth:
    """Runs passes of the scrub, and computes the damage that proofs must find although they trust these passes."""

    def __init__(self, clock: Clock) -> None:
        """``clock`` is exact.

        The clocks of processes may differ from ``clock`` by `SCRUB_CLOCKS_SECONDS_MAX`. So `noticeable` lets a proof
        trust a read for `SCRUB_CLOCKS_SECONDS_MAX` longer.
        """
        self._clock = clock
        self._read_ms: dict[str, int] = {}

    def run_pass(self, environment: Any, days: float, blobs_max: int) -> ScrubReport:
        """Run one pass that reads at most ``blobs_max`` blobs."""
        environment.blobs = _NotedReads(environment.blobs, self)
        left = iter(range(blobs_max))
        return scrub(environment, days, stop=lambda: next(left, None) is None)

    def note_read(self, key: str) -> None:
        """Record that the scrub has read the blob and found it intact."""
        self._read_ms[key] = self._clock.wall_ms()

    def forget_read(self, key: str) -> None:
        """Drop the time of the last intact read, after another put of the blob or a read that found damage."""
        self._read_ms.pop(key, None)

    def noticeable(self, damaged: Mapping[str, str]) -> set[str]:
        """Return the damaged blobs that a proof must find.

        A proof may miss damage to a document's value if its blob still exists and a recent pass read the blob intact.
        """
        since_ms = self._clock.wall_ms() - (SCRUB_PROOF_SECONDS_MAX + SCRUB_CLOCKS_SECONDS_MAX) * 1000
        return {
            key
            for key, how in damaged.items()
            if how == LOSE or "/items/" not in key or self._read_ms.get(key, 0) <= since_ms
        }


class _NotedReads:
    """The blobs of a pass. Each read is recorded in the `ScrubTruth`."""

    def __init__(self, blobs: Blobs, truth: ScrubTruth) -> None:
        self.list = blobs.list
        self._blobs = blobs
        self._truth = truth

    def get(self, key: str) -> bytes:
        try:
            body = self._blobs.get(key)
        except Corrupt:
            self._truth.forget_read(key)
            raise
        self._truth.note_read(key)
        return body
