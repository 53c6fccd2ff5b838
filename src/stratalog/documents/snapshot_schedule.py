"""SnapshotSchedule: when a document's snapshot is due, which thread takes it, and what follows when that fails."""

from __future__ import annotations

import threading

from stratalog.documents.snapshots import roots_of, take_snapshot
from stratalog.documents.state import State
from stratalog.documents.state_cache import StateCache
from stratalog.errors import OutcomeUnknown, StratalogError, Unavailable
from stratalog.log import Log
from stratalog.log.snapshots import Snapshot, newest_snapshot
from stratalog.process_fork import close_in_child

__all__ = ["SnapshotSchedule"]


class SnapshotSchedule:
    """Takes the snapshots of one handle: those that are due, and those that a caller asks for.

    A snapshot is due ``snapshot_entries_interval`` versions after the newest one, or after the version that the
    document was forked from. The thread whose commit crosses the interval takes it, after that commit and before its
    answer, so the next commit of the same handle waits for it. The lag is computed from versions and never stored, so a
    snapshot that failed is due again at the next commit.

    ``_lock`` lets one thread of the handle take a snapshot at a time, so that one is in memory at most. A caller of
    `take` waits for it. A writer does not: it leaves the snapshot to a later commit. Commits do not need the lock, so
    they go on during a snapshot that a caller asked for, and `StateCache` joins their state with that snapshot.

    Snapshots are removed with the history below a floor, by ``log.retention``; never here.
    """

    def __init__(self, log: Log, states: StateCache) -> None:
        self.log = log
        self._states = states
        self._lock = threading.Lock()
        close_in_child(self, "_lock")

    def take(self, version: int | None = None) -> int:
        """Make the snapshot of a version (the newest, if None) if there is none; return the version.

        Raises what `StateCache.at` and `take_snapshot` raise; then there may be a snapshot, or none.
        """
        with self._lock:
            state = self._states.at(version)
            taken = take_snapshot(self.log, state)
            if not _is_made(taken):
                self._follow(taken)
                taken = take_snapshot(self.log, self._states.load(state.version))
            self._follow(taken)
        return state.version

    def take_base(self, floor: int) -> Snapshot:
        """Make or find the snapshot that replaces the history below ``floor``. Raises Unavailable without one."""
        self.take(floor)
        base = newest_snapshot(self.log.environment.index, self.log.record.prefix, floor)
        if base is None or base.version < floor:
            raise Unavailable("the base snapshot could not be made", version=floor)
        return base

    def take_if_due(self) -> None:
        """Make the snapshot of the held state if one is due and no other thread takes one. Call it after a commit.

        Errors of the log's storage are counted and not raised, since the commit before is durable.
        """
        state = self._states.cached
        interval = self.log.environment.settings.snapshot_entries_interval
        if state is None or state.version - max(state.snapshot_version, self.log.first) < interval:
            return
        if not self._lock.acquire(blocking=False):
            return
        try:
            newest = newest_snapshot(self.log.environment.index, self.log.record.prefix, state.version)
            if newest and newest.version > state.snapshot_version:
                # Another process has taken one since: the interval counts from that.
                state = self._states.offer(state.onto(newest.version, roots_of(newest)))
            if state.version - state.snapshot_version >= interval:
                self._follow(take_snapshot(self.log, state))
        except (Unavailable, OutcomeUnknown):
            self.log.environment.counters["snapshot failed"] += 1
        except StratalogError:
            # A chunk that is gone or damaged belongs to the state's own snapshot. The next state loads a present one.
            self._states.drop_base(state.snapshot_version)
            self.log.environment.counters["snapshot failed"] += 1
        finally:
            self._lock.release()

    def _follow(self, taken: State) -> None:
        """Move the held state onto the snapshot. Where none was made, its base is gone: drop a state on that base."""
        if not _is_made(taken):
            self._states.drop_base(taken.snapshot_version)
            return
        self._states.move_onto(taken)


def _is_made(taken: State) -> bool:
    """Whether the snapshot is there. Where its base was gone, `take_snapshot` returns the state on that base."""
    return taken.snapshot_version == taken.version
