"""Projections: a second model fed from the same log, with a checkpoint that moves only forward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from stratalog.errors import ConditionFailed, LimitExceeded
from stratalog.keys import checkpoints_partition, escape
from stratalog.limits import COMMIT_WRITES_MAX
from stratalog.log import Entry, Log
from stratalog.log.commit import commit_once
from stratalog.ports.index import Absent, Condition, Equals, Item, Put, Write

__all__ = ["Projection"]


class Projection:
    """Follows one log. ``project(entry)`` gives the writes an entry means; they commit with the checkpoint, once.

    For an outside target give no writes and act in ``project`` itself: it is then called at least once per entry, and
    (incarnation, version) is the key to do it once by.
    """

    def __init__(self, log: Log, name: str, project: Callable[[Entry], Sequence[Write]]) -> None:
        self._log = log
        self._project = project
        self._partition = checkpoints_partition(log.record.prefix)
        self._sort = escape(name, "projection")

    def checkpoint(self) -> int:
        """The version up to which the projection has gone."""
        item = self._log.environment.index.get(self._partition, self._sort)
        return int(item.attributes["v"]) if item else 0

    def catch_up(self, version_min: int | None = None) -> int:
        """Project what is new; answer the checkpoint. ``version_min`` stops there, so that a query waits no longer."""
        checkpoint = self.checkpoint()
        head = self._log.head()
        upto = head.version if version_min is None else min(version_min, head.version)
        if upto <= checkpoint:
            return checkpoint
        for entry in self._log.read(checkpoint, upto, head=head):
            if not self._advance(checkpoint, entry):
                return self.catch_up(version_min)
            checkpoint = entry.version
        return checkpoint

    def tail(self, version_min: int) -> Iterator[Entry]:
        """The entries between the checkpoint and ``version_min``, for a query that folds them itself."""
        checkpoint = self.checkpoint()
        return self._log.read(checkpoint, max(version_min, checkpoint))

    def _advance(self, checkpoint: int, entry: Entry) -> bool:
        """Commit an entry's effects with the checkpoint. False: another follower was first."""
        effects = list(self._project(entry))
        if len(effects) >= COMMIT_WRITES_MAX:
            raise LimitExceeded("an entry projects to too many writes", value=len(effects), limit=COMMIT_WRITES_MAX - 1)
        condition: Condition = Equals("v", checkpoint) if checkpoint else Absent()
        writes = [Put(Item(self._partition, self._sort, {"v": entry.version}), condition), *effects]
        try:
            commit_once(self._log.environment, writes, lambda: self.checkpoint() >= entry.version)
        except ConditionFailed as exc:
            if 0 in exc.items:
                return False
            raise
        return True
