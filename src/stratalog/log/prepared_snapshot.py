"""Prepared snapshots: an app snapshot that is committed together with its entry.

`Log.save_snapshot` saves the state of an entry by a second commit. A process may crash between the two commits. Some
states depend on versions that the log may forget in between. So `Log.append` can commit such an entry and its snapshot
together: either both exist, or neither.

The parts are put before the commit, except at most 256 KB of small parts, which the commit itself stores if the index
can. So the commit is small. The collector deletes no blob until it is older than a grace, and the append puts parts
again before they are that old (`BlobBatch`). Parts that are shared with an older snapshot are not put; the commit
succeeds only while that snapshot exists. If the snapshot is gone, the commit fails. The append then puts these parts
too, and commits again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from stratalog.clock import new_id
from stratalog.codec import encode, sha256
from stratalog.errors import Corrupt, Invalid
from stratalog.limits import BLOB_SLICE_BYTES
from stratalog.log.app_snapshots import check_parts, shared_parts, write_parts
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.environment import Environment
from stratalog.log.names import NameRecord
from stratalog.log.snapshots import Snapshot, snapshot_check, snapshot_item
from stratalog.ports.index import Put, Write

__all__ = ["PreparedSnapshot"]


class PreparedSnapshot:
    """The parts of an app snapshot, ready for the append of its entry. `Log.prepare_snapshot` returns it.

    Pass it to `Log.append`, and pass it again after a failed append. Two threads must not append with it at once.
    """

    def __init__(
        self, environment: Environment, record: NameRecord, base: Snapshot | None, parts: Sequence[bytes]
    ) -> None:
        """``base`` is the newest snapshot of the log. Its parts are not written again."""
        check_parts(parts)
        self.blob_batch: BlobBatch = BlobBatch(environment, BLOB_SLICE_BYTES)
        self._prefix = record.prefix
        self._owner = record.owner
        self._parts = parts
        self._id = new_id(environment.clock)
        self._is_base_gone = False
        shared: set[bytes] = set()
        with suppress(Corrupt):  # the list of the base's parts is damaged or was collected, so share nothing
            shared = shared_parts(environment.blobs, record.owner, base) & set(map(sha256, parts))
        self._base = base if shared else None
        self._body = self._write(shared)

    def check(self, prefix: str, expected: int | None, blob_batch: BlobBatch | None) -> None:
        """Raise Invalid if an append to the log at ``prefix`` with these arguments cannot commit the snapshot."""
        if prefix != self._prefix:
            raise Invalid("the snapshot was prepared for another log")
        if expected is None:
            raise Invalid("an append with a snapshot needs an expected version: the snapshot is the state after it")
        if blob_batch is not None:
            raise Invalid("an append with a snapshot takes no other batch of blobs")
        if self._base is not None and self._base.version > expected:
            # The log is past ``expected``. So the append raises VersionConflict, or finds that an earlier call wrote
            # the entry. If it sends a commit first, that commit must not both check and put the same key.
            self._is_base_gone = True

    def writes(self, version: int, created_ms: int, hash: bytes) -> list[Write]:
        """Return the writes that store the snapshot as the state of ``version``. The last write is the put.

        The put has no condition. The conditions of the entry's put and of the name record protect the snapshot too.
        """
        item = snapshot_item(self._prefix, version, created_ms, self._id, self._body, hash)
        return [*([snapshot_check(self._base)] if self._base is not None else []), Put(item)]

    def learn(self, failed: Sequence[Write]) -> None:
        """Learn from a commit's failed writes whether the snapshot is deleted whose parts this snapshot shares."""
        if self._base is not None and snapshot_check(self._base) in failed:
            self._is_base_gone = True

    def write_unprotected(self) -> bool:
        """Write the parts that a deleted snapshot no longer protects. Return whether there were such parts.

        Raises Unavailable: some parts are not written, and the next call writes them.
        """
        if not self._is_base_gone:
            return False
        self._write(set())
        self._base, self._is_base_gone = None, False
        return True

    def _write(self, shared: set[bytes]) -> bytes:
        """Write the parts that are not ``shared``, and return the body of the snapshot's record."""
        return encode(write_parts(self._owner, self.blob_batch, self._parts, shared))
