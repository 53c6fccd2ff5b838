"""The hashes of a log's versions: a handle remembers some of them, and reads the others."""

from __future__ import annotations

from collections.abc import Callable

from stratalog.errors import VersionForgotten
from stratalog.log.chain import genesis
from stratalog.log.entries import Entry
from stratalog.log.floors import LogFloor
from stratalog.log.names import NameRecord
from stratalog.newest import Newest

__all__ = ["VersionHashes"]

HASHES_KNOWN_MAX = 256


class VersionHashes:
    """The hashes of the versions of one incarnation. Safe to share between threads."""

    def __init__(
        self,
        record: NameRecord,
        floor: Newest[LogFloor],
        read_floor: Callable[[], LogFloor],
        read_entry: Callable[[int], Entry],
    ) -> None:
        """``floor`` is the floor that the handle knows. ``read_floor`` reads the floor, ``read_entry`` an entry."""
        self._record = record
        self._floor = floor
        self._read_floor = read_floor
        self._read_entry = read_entry
        self._known: dict[int, bytes] = {}

    def at(self, version: int) -> bytes:
        """Return the hash of ``version``. Raises NotFound, VersionForgotten. See `Log.hash_at`."""
        if version == 0:
            return genesis(self._record.origin)
        hash = self._known.get(version) if version >= self._floor.require().version else None
        if hash is None:
            hash = self._read(version)
            self.note(version, hash)
        return hash

    def note(self, version: int, hash: bytes) -> None:
        """Remember the hash of a version."""
        if len(self._known) >= HASHES_KNOWN_MAX:
            self._known = {}
        self._known[version] = hash

    def _read(self, version: int) -> bytes:
        if hash := next((parent.hash for parent in self._record.lineage if parent.version == version), b""):
            return hash
        if version <= self._floor.require().version and (hash := self._at_floor(version)):
            return hash
        try:
            return self._read_entry(version).hash
        except VersionForgotten:
            # The entry at a floor may be forgotten with its segment, and the floor may have risen since this handle
            # read it.
            if hash := self._at_floor(version):
                return hash
            raise

    def _at_floor(self, version: int) -> bytes:
        """Read the floor. Return its hash, or ``b""`` if ``version`` is not the floor or the floor stores no hash."""
        floor = self._read_floor()
        return floor.hash if version == floor.version else b""
