"""Projections: models derived from a log's entries, each with a checkpoint that only moves forward."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from stratalog.arguments import check_class
from stratalog.errors import ConditionFailed, HistoryChanged, LimitExceeded, VersionForgotten
from stratalog.keys import checkpoints_partition, escape
from stratalog.limits import COMMIT_WRITES_MAX
from stratalog.log import Entry, Log
from stratalog.log.commit import commit_once
from stratalog.log.head import Head
from stratalog.ports.index import Absent, Condition, Equals, Item, Put, Write
from stratalog.ports.stored_attributes import Hash, StoredVersion, read_attributes

__all__ = ["Projection", "StoredCheckpoint"]


class StoredCheckpoint(msgspec.Struct, frozen=True, gc=False):
    """The attributes of a projection's checkpoint."""

    v: StoredVersion
    h: Hash


class Projection:
    """Follows one log. ``project(entry)`` returns the writes for one entry. One commit makes these writes and moves the
    checkpoint.

    For a target outside the index, ``project`` writes to the target itself and returns no writes. In this case
    ``project`` is called at least once per entry, and the entry's hash serves as the idempotency key. If the target has
    another hash for a version than the log, the target was filled from a lost branch.
    """

    def __init__(self, log: Log, name: str, project: Callable[[Entry], Sequence[Write]]) -> None:
        check_class(Log, log=log)
        self._log = log
        self._project = project
        self._partition = checkpoints_partition(log.record.prefix)
        self._sort = escape(name, "projection")

    def __repr__(self) -> str:
        return f"<Projection {self._sort} of {self._log!r}>"

    def checkpoint(self) -> int:
        """Return the version up to which entries were projected."""
        return self._position()[0]

    def catch_up(self, version_min: int | None = None) -> int:
        """Project new entries up to the head, or only up to ``version_min``; return the checkpoint.

        A query that needs only the entries up to ``version_min`` passes this version, so that it waits no longer than
        necessary. Several processes may follow one log: for each entry only the first commit takes effect. Entries that
        are appended during this call are left to the next call. Raises HistoryChanged if the checkpoint belongs to
        another history than the log's history. Raises VersionForgotten if retention forgot the next entry. After either
        error, rebuild the projection. Raises LimitExceeded if ``project`` returns too many writes, and
        ConditionFailed if a condition of these writes does not hold.
        """
        head = self._log.head()
        upto = head.version if version_min is None else min(version_min, head.version)
        while True:
            checkpoint, hash = self._position()
            if checkpoint > head.version:  # another follower has read a newer head
                head = self._log.head()
            self._check_continues(checkpoint, hash, head.version)
            if upto <= checkpoint or self._project_up_to(checkpoint, upto, head):
                return max(checkpoint, upto)

    def _project_up_to(self, checkpoint: int, upto: int, head: Head) -> bool:
        """Project the entries after ``checkpoint``. Return False if another follower committed an entry first."""
        for entry in self._log.read(checkpoint, upto, head=head):
            if not self._advance(checkpoint, entry):
                return False
            checkpoint = entry.version
        return True

    def tail(self, version_min: int) -> Iterator[Entry]:
        """Return the entries after the checkpoint up to ``version_min``, for a query that applies them itself."""
        checkpoint = self.checkpoint()
        return self._log.read(checkpoint, max(version_min, checkpoint))

    def _position(self) -> tuple[int, bytes]:
        """Return the checkpoint's version and the hash of the entry at that version."""
        item = self._log.environment.index.get(self._partition, self._sort)
        if item is None:
            return 0, b""
        stored = read_attributes(item, StoredCheckpoint, "a checkpoint of a projection")
        return stored.v, stored.h

    def _check_continues(self, checkpoint: int, hash: bytes, head_version: int) -> None:
        """Raise HistoryChanged if the log does not have ``hash`` at the checkpoint.

        A checkpoint below the floor cannot be compared: the next read raises VersionForgotten.
        """
        if checkpoint > head_version:
            here = b""
        else:
            try:
                here = self._log.hash_at(checkpoint) if checkpoint else hash
            except VersionForgotten:
                return
        if here != hash:
            raise HistoryChanged(
                "the projection was built from another history", log=self._log.record.name, at=checkpoint
            )

    def _advance(self, checkpoint: int, entry: Entry) -> bool:
        """Commit an entry's effects with the checkpoint. Return False if another follower committed first."""
        result = self._project(entry)
        check_class(Iterable, **{"the result of project": result})
        effects = list(result)
        for write in effects:
            check_class(Write, **{"a write of project": write})
        if len(effects) >= COMMIT_WRITES_MAX:
            raise LimitExceeded(
                "the projection of an entry has too many writes", value=len(effects), limit=COMMIT_WRITES_MAX - 1
            )
        condition: Condition = Equals("v", checkpoint) if checkpoint else Absent()
        writes = [Put(Item(self._partition, self._sort, {"v": entry.version, "h": entry.hash}), condition), *effects]
        try:
            commit_once(self._log.environment, writes, lambda: self.checkpoint() >= entry.version)
        except ConditionFailed as exc:
            if 0 in exc.items:
                return False
            raise
        return True
