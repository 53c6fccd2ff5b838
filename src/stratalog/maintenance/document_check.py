"""The check of a document: read its values, rebuild its state, and compare and read back every snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from stratalog.cache import ByteCache
from stratalog.documents.read_back import read_state_back
from stratalog.documents.rebuild import BaseContradicted, Rebuild
from stratalog.documents.snapshots import roots_of, tree_roots
from stratalog.documents.values import Values, as_reference
from stratalog.errors import Corrupt, NotFound, Redacted, VersionForgotten
from stratalog.limits import COLLECT_CHUNKS_SEEN_MAX
from stratalog.log import Entry, Environment, Log
from stratalog.log.snapshots import Snapshot, list_snapshots
from stratalog.maintenance.damage import DamageList, blob_kind, entry_key, snapshot_key
from stratalog.maintenance.marks import stored_values
from stratalog.maintenance.recording_ports import RecordingBlobs
from stratalog.ports.read_back import BlobReading
from stratalog.tree.chunks import Chunks

__all__ = ["DocumentCheck"]

VALUES_REMEMBERED_MAX = 100_000


class _UnreadValues:
    """Reads large values and arguments back, except those found intact before: entries and snapshots share values.

    A damaged value is read again, so that its damage names all versions that need the value.
    """

    def __init__(self, values: Values) -> None:
        self._values = values
        self._intact: set[tuple[str, bytes]] = set()

    def read_back(self, stored: bytes) -> Iterator[BlobReading]:
        reference = as_reference(stored)
        if reference is None or (value := (reference.folder, reference.body.address)) in self._intact:
            return
        is_intact = True
        for reading in self._values.read_back(stored):
            is_intact = is_intact and reading.damage is None
            yield reading
        if is_intact:
            if len(self._intact) >= VALUES_REMEMBERED_MAX:
                self._intact.clear()
            self._intact.add(value)


class DocumentCheck:
    """Checks one document. Call `visit` with each entry, then `run` once."""

    def __init__(
        self, environment: Environment, log: Log, blobs: RecordingBlobs, building: RecordingBlobs, damages: DamageList
    ) -> None:
        self._environment = environment
        self._log = log
        self._damages = damages
        self._values = _UnreadValues(Values(blobs, log.record.owner))
        self._stored = Chunks(blobs, log.record.owner, ByteCache(0))
        self._built = Chunks(building, log.record.owner)
        self._seen: set[bytes] = set()
        self._start = 0
        self.snapshots = 0
        """The number of intact snapshots. If the state of a snapshot's version was rebuilt, the snapshot equals the
        state."""

        self.root = self.digest = ""
        """The root and the digest of the last version's content, in hex; empty until it is rebuilt."""

    def visit(self, entry: Entry) -> None:
        """Read back the large values and arguments that an entry refers to, except values found intact recently."""
        for stored in stored_values(entry.events, entry.version):
            for reading in self._values.read_back(stored):
                if reading.damage is not None and reading.key:
                    self._damages.add_blob(blob_kind(reading.key), reading.key, reading.damage)

    def run(self, upto: int | None, start: int, last: int) -> None:
        """Rebuild the state up to ``last``. Compare and read back each snapshot up to ``upto`` (by default all).

        ``start`` is the version of the base, which the first entry follows.
        """
        self._start = start
        rebuild = self._begin(start)
        for snapshot in list_snapshots(self._environment.index, self._log.record.prefix, first=start):
            if upto is not None and snapshot.version > upto:
                break
            if rebuild is not None and snapshot.version > start:
                rebuild = self._compare(rebuild, snapshot, last)
            self._read_back(snapshot)
        if rebuild is not None and self._advance(rebuild, last) and rebuild.state is not None:
            root = tree_roots(rebuild.state).content
            self.root, self.digest = root.address.hex(), root.digest.hex()

    def _begin(self, start: int) -> Rebuild | None:
        try:
            return Rebuild(self._log, self._built)
        except Redacted:
            return None
        except (Corrupt, NotFound, VersionForgotten) as exc:
            key = snapshot_key(self._log.record.prefix, start)
            self._damages.add("snapshot", key, "missing", f"the base has no readable state: {exc}", at=(start, start))
            return None

    def _advance(self, rebuild: Rebuild, version: int) -> bool:
        """Apply the entries up to ``version``. Return False if an entry cannot be read or applied."""
        try:
            rebuild.advance(version)
        except BaseContradicted as exc:
            # The hash chain covers the entry but not the base, so the damage is in the base.
            key = snapshot_key(self._log.record.prefix, self._start)
            self._damages.add("snapshot", key, "contradicts", str(exc), at=(self._start, self._start))
            return False
        except (Corrupt, NotFound) as exc:
            if not len(self._damages):
                key = entry_key(self._environment.index, self._log.record, rebuild.version + 1)
                self._damages.add("entry", key, "contradicts", str(exc))
            return False
        return True

    def _compare(self, rebuild: Rebuild, snapshot: Snapshot, last: int) -> Rebuild | None:
        if snapshot.version > last:
            return rebuild
        if not self._advance(rebuild, snapshot.version):
            return None
        has_state = rebuild.state is not None
        try:
            rebuild.compare(snapshot)
            self.snapshots += 1
        except (Corrupt, NotFound) as exc:
            key = snapshot_key(snapshot.prefix, snapshot.version)
            at = snapshot.version, snapshot.version
            self._damages.add("snapshot", key, "contradicts", str(exc), derivable=has_state, at=at)
            if has_state and rebuild.compared == 0 and self._start > self._log.first:
                base = snapshot_key(snapshot.prefix, self._start)
                reason = "the state rebuilt from it differs from the snapshots after it"
                self._damages.add("snapshot", base, "contradicts", reason, at=(self._start, self._start))
        # Continue even without a state (as after a redacted version): the next snapshot gives one.
        return rebuild

    def _read_back(self, snapshot: Snapshot) -> None:
        """Read each chunk and value of a snapshot, except those shared with an older snapshot. Record the damage."""
        self._damages.first = self._damages.last = snapshot.version
        if len(self._seen) > COLLECT_CHUNKS_SEEN_MAX:
            self._seen.clear()
        key = snapshot_key(snapshot.prefix, snapshot.version)
        try:
            for reading in read_state_back(self._stored, self._values, roots_of(snapshot), seen=self._seen):
                if (damage := reading.damage) is not None:
                    # `RecordingBlobs` has recorded unreadable blobs. A readable chunk can still contradict its parent.
                    kind = blob_kind(damage.key) if damage.key else "snapshot"
                    self._damages.add_blob(kind, damage.key or key, damage)
        except Corrupt as exc:
            self._damages.add("snapshot", key, "damaged", str(exc))
        self._damages.first = self._damages.last = 0
