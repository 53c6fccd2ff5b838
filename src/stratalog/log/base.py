"""The base: the snapshot that takes the place of forgotten history. It is read back from storage before a floor rises.

A log whose states are an application's begins with one of the application's snapshots. Documents make their own base;
see `stratalog.documents`. Where no state is kept of a log, nothing takes the place of what is forgotten.
"""

from __future__ import annotations

from stratalog.errors import Corrupt
from stratalog.log.app_snapshots import manifest_of, read_app_snapshot_back
from stratalog.log.log import Log
from stratalog.log.snapshots import Snapshot, newest_snapshot
from stratalog.ports.read_back import BlobDamage, require_intact

__all__ = ["AppBases", "base_at", "needs_base", "require_app_base"]


def needs_base(log: Log) -> bool:
    """Whether a state is kept of the log, so that its history is forgotten only above a snapshot."""
    return log.record.kind != "log" or log.snapshot_at(log.head().version) is not None


def base_at(log: Log, floor: int) -> Snapshot:
    """The snapshot that history begins with. Raises Corrupt where none stands at the floor."""
    base = newest_snapshot(log.environment.index, log.record.prefix, floor)
    if base is None or base.version != floor:
        raise Corrupt("the snapshot that history begins with is missing", log=log.record.name, floor=floor)
    return base


def require_app_base(log: Log) -> None:
    """Read the base at the floor of a log back, with all of its parts. Raises Corrupt.

    Nothing takes the place of what a log without states forgot. One that is given states later may have a snapshot of
    a version below its floor, by somebody slow.
    """
    environment, floor = log.environment, log.floor()
    if log.record.kind == "log":
        newest = newest_snapshot(environment.index, log.record.prefix, floor)
        if newest is None or newest.version < floor:
            return
    try:
        readings = read_app_snapshot_back(environment.blobs, log.record.owner, base_at(log, floor))
        require_intact(reading.damage for reading in readings)
    except Corrupt:
        if log.floor() == floor:
            raise
        require_app_base(log)  # another process raised the floor meanwhile, and that base went


class AppBases:
    """The application's own snapshots of a log, as bases. ``damages`` holds what was met in those that are none."""

    def __init__(self, log: Log) -> None:
        self.damages: list[tuple[int, BlobDamage]] = []
        self._log = log

    def find(self, version: int) -> Snapshot | None:
        """The newest snapshot at or below ``version`` that reads back with all of its parts; above the floor."""
        self.damages = []
        while (snapshot := self._newest(version)) is not None:
            damage = self._damage(snapshot)
            if damage is None:
                return snapshot
            # What was read may be gone because another process raised the floor and collected it. Then look again.
            if self._newest(version) == snapshot:
                self.damages.append((snapshot.version, damage))
                version = snapshot.version - 1
        return None

    def _newest(self, version: int) -> Snapshot | None:
        """The newest snapshot at or below ``version``, if it is above the floor as it stands once that was read."""
        snapshot = newest_snapshot(self._log.environment.index, self._log.record.prefix, version)
        floor = max(self._log.floor(), self._log.first - 1)
        return snapshot if snapshot is not None and snapshot.version > floor else None

    def raise_damage(self) -> None:
        """Raise Corrupt where a snapshot newer than the base is damaged."""
        for version, damage in self.damages:
            raise Corrupt(
                "an application's snapshot is damaged, so no floor rises onto it",
                version=version,
                key=damage.key,
                reason=damage.reason,
            )

    def _damage(self, snapshot: Snapshot) -> BlobDamage | None:
        if manifest_of(snapshot) is None:
            return BlobDamage("", False, "it is of another model, so nobody here can read it back")
        environment, owner = self._log.environment, self._log.record.owner
        readings = read_app_snapshot_back(environment.blobs, owner, snapshot)
        return next((reading.damage for reading in readings if reading.damage is not None), None)
