"""The base: the snapshot that replaces forgotten history.

This module reads a base back from storage before a floor rises to it, and before forgotten entries are deleted.

The base of a log with an application's state is one of the application's snapshots. Documents make their own base; see
`stratalog.documents`. A log without state has no base: nothing replaces its forgotten history.
"""

from __future__ import annotations

from stratalog.errors import Corrupt
from stratalog.log.app_snapshots import manifest_of, read_app_snapshot_back
from stratalog.log.log import Log
from stratalog.log.snapshots import Snapshot, newest_snapshot
from stratalog.ports.read_back import BlobDamage, require_intact

__all__ = ["AppBases", "base_at", "needs_base", "require_app_base"]


def needs_base(log: Log) -> bool:
    """Return whether the log has a state. The floor of a log with a state rises only to a snapshot's version."""
    return log.record.kind != "log" or log.snapshot_at(log.head().version) is not None


def base_at(log: Log, floor: int) -> Snapshot:
    """Return the snapshot at the floor, where history begins. Raises Corrupt if this snapshot is missing."""
    base = newest_snapshot(log.environment.index, log.record.prefix, floor)
    if base is None or base.version != floor:
        raise Corrupt("the snapshot at the start of the history is missing", log=log.record.name, floor=floor)
    return base


def require_app_base(log: Log) -> None:
    """Read back the base at a log's floor, with all of its parts. Raises Corrupt if the base is missing or damaged.

    A log of the kind "log" without a snapshot at its floor needs no base. The log has no state, or the application
    saved its first snapshot while another process raised the floor above that snapshot.
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
        require_app_base(log)  # another process raised the floor meanwhile and deleted that base


class AppBases:
    """Finds a base among the application's snapshots of a log. ``damages`` lists the snapshots that `find` rejected."""

    def __init__(self, log: Log) -> None:
        self.damages: list[tuple[int, BlobDamage]] = []
        self._log = log

    def find(self, version: int) -> Snapshot | None:
        """Return the newest snapshot above the floor and at or below ``version`` that reads back with all parts.

        Return None if no snapshot does. In a fork, a snapshot at or below the version of the fork is no base.
        """
        self.damages = []
        while (snapshot := self._newest(version)) is not None:
            damage = self._damage(snapshot)
            if damage is None:
                return snapshot
            # If another process raised the floor and deleted the snapshot during the read, search again.
            if self._newest(version) == snapshot:
                self.damages.append((snapshot.version, damage))
                version = snapshot.version - 1
        return None

    def _newest(self, version: int) -> Snapshot | None:
        """Return the newest snapshot at or below ``version``; None if it is too old to be a base, see `find`.

        The floor is read after the snapshot, so that a floor that rises meanwhile counts.
        """
        snapshot = newest_snapshot(self._log.environment.index, self._log.record.prefix, version)
        floor = max(self._log.floor(), self._log.first - 1)
        return snapshot if snapshot is not None and snapshot.version > floor else None

    def raise_damage(self) -> None:
        """Raise Corrupt if `find` rejected a damaged snapshot, which is newer than the result of `find`."""
        for version, damage in self.damages:
            raise Corrupt(
                "the application's snapshot is damaged, so the floor cannot rise to it",
                version=version,
                key=damage.key,
                reason=damage.reason,
            )

    def _damage(self, snapshot: Snapshot) -> BlobDamage | None:
        if manifest_of(snapshot) is None:
            return BlobDamage("", False, "the snapshot belongs to another model, so its parts cannot be read back")
        environment, owner = self._log.environment, self._log.record.owner
        readings = read_app_snapshot_back(environment.blobs, owner, snapshot)
        return next((reading.damage for reading in readings if reading.damage is not None), None)
