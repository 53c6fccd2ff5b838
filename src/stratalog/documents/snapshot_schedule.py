"""SnapshotSchedule decides whether a document's snapshot is due, takes it in one thread, and handles failures."""

from __future__ import annotations

import threading

from stratalog.clock import Observation
from stratalog.documents.snapshots import roots_of, take_snapshot
from stratalog.documents.state import State
from stratalog.documents.state_cache import StateCache
from stratalog.errors import Closed, OutcomeUnknown, StratalogError, Unavailable
from stratalog.log import Log
from stratalog.log.snapshots import Snapshot, newest_snapshot
from stratalog.process_fork import close_in_child
from stratalog.retry import Retry, RetryPolicy

__all__ = ["SnapshotSchedule", "is_snapshot_due"]

# A replay of 10,000 changes takes about 0.2 s. Below that a snapshot saves too little time.
CHANGES_MIN = 10_000
CHANGES_PER_ENTRY = 20
BACKOFF = RetryPolicy(wait_seconds_first=2, wait_seconds_max=60)


def is_snapshot_due(log: Log, version: int, snapshot_version: int, changes: int = 0) -> bool:
    """Return whether a document at ``version`` with its newest snapshot at ``snapshot_version`` is due for a snapshot.

    Commits, maintenance and imports use this rule: a snapshot is due `LogSettings.snapshot_entries_interval` versions
    after the newest snapshot, or after the version that the document was forked from. Entries of many changes take
    longer to replay, so a snapshot is also due after many ``changes`` (`State.changes`). A caller without a state, such
    as maintenance, does not know this number, and counts entries only.
    """
    interval = log.environment.settings.snapshot_entries_interval
    if version - max(snapshot_version, log.first) >= interval:
        return True
    return changes >= max(CHANGES_MIN, interval * CHANGES_PER_ENTRY)


class SnapshotSchedule:
    """Takes the snapshots of one handle: snapshots that are due, and snapshots that a caller requests.

    A commit that finds a snapshot due starts it in a background task of the store and returns at once. So no commit
    waits for a snapshot. The class computes whether a snapshot is due, and stores nothing. So a snapshot that failed,
    or that a crash interrupted, is due again.

    After a failure no commit of the handle starts a snapshot until the back-off of `BACKOFF` ends. Meanwhile states are
    loaded from the last snapshot and the entries after it. Maintenance makes the snapshot of a document that receives
    no more commits.

    ``_lock`` lets one thread of the handle take a snapshot at a time, so that at most one is in memory. A caller of
    `take` waits for the lock. A commit does not wait: it leaves the snapshot to a later commit. Commits do not need the
    lock, since `StateCache` joins their state with the snapshot.

    This class never deletes a snapshot. `log.retention` deletes the snapshots below a floor. A redaction deletes the
    snapshots that hold redacted values.
    """

    def __init__(self, log: Log, states: StateCache) -> None:
        self.log = log
        self._states = states
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._is_begun = False
        """Whether a task was started and has not ended. This is only a hint: the lock decides."""

        self._backoff = Retry(log.environment.clock, BACKOFF)
        self._pause: tuple[Observation, float] | None = None

    def take(self, version: int | None = None) -> int:
        """Make the snapshot of a version (the newest, if None) unless it exists; return the version.

        If the state's former snapshot is deleted twice meanwhile, no snapshot is made. Raises the errors of
        `StateCache.at` and `take_snapshot`: the new snapshot may or may not exist then.
        """
        with self._lock:
            state = self._states.at(version)
            taken = take_snapshot(self.log, state)
            if not _is_made(taken):
                # The state's former snapshot was deleted meanwhile, or the floor rose above the state. Load the state
                # again, on a snapshot that exists.
                self._follow(taken)
                state = self._states.at(version)
                taken = take_snapshot(self.log, state)
            self._follow(taken)
        return state.version

    def take_base(self, floor: int) -> Snapshot:
        """Return the snapshot that replaces the history below ``floor``; make it if needed.

        Raises Unavailable if it cannot be made.
        """
        self.take(floor)
        base = newest_snapshot(self.log.environment.index, self.log.record.prefix, floor)
        if base is None or base.version < floor:
            raise Unavailable("the base snapshot could not be made", version=floor)
        return base

    def begin_if_due(self) -> None:
        """Start the snapshot of the held state in the background, if a snapshot is due. Call this method after a
        commit.

        This method reads nothing and does not wait. If a snapshot is under way, or the store runs too many background
        tasks, a later commit starts the snapshot.
        """
        state = self._states.cached
        if state is None or not self._is_due(state):
            return
        if self._is_begun or self._lock.locked() or self._is_pausing():
            return
        self._is_begun = True
        try:
            if self.log.environment.background.offer(self._run) is None:
                self._is_begun = False
        except BaseException:
            self._is_begun = False
            raise

    def _run(self) -> None:
        """Run the background task. If another task or a caller takes a snapshot now, do nothing."""
        try:
            if self._lock.acquire(blocking=False):
                try:
                    self._take_if_due()
                finally:
                    self._lock.release()
        finally:
            self._is_begun = False

    def _take_if_due(self) -> None:
        """Take a snapshot if it is still due.

        Count errors of the storage but do not raise them: no caller could handle them.
        """
        state = self._states.cached
        if state is None:
            return
        try:
            newest = newest_snapshot(self.log.environment.index, self.log.record.prefix, state.version)
            if newest and newest.version > state.snapshot_version:
                # Another process has taken a newer snapshot: the interval counts from that snapshot.
                state = self._states.offer(state.onto(newest.version, roots_of(newest)))
            if self._is_due(state):
                self._follow(take_snapshot(self.log, state, self.log.environment.background.pause))
        except Closed:
            return
        except (Unavailable, OutcomeUnknown):
            self._fail()
        except StratalogError:
            # A missing or damaged chunk belongs to the state's own snapshot. Load the next state from another snapshot.
            self._states.drop_base(state.snapshot_version)
            self._fail()
        except Exception:
            # A defect. The thread's hook reports it, and the pause keeps later commits from repeating it at once.
            self._fail()
            raise
        else:
            self._backoff.reset()
            self._pause = None

    def _is_due(self, state: State) -> bool:
        return is_snapshot_due(self.log, state.version, state.snapshot_version, state.changes)

    def _fail(self) -> None:
        self.log.environment.count("snapshot failed")
        self._pause = (Observation(self.log.environment.clock), self._backoff.next_seconds())

    def _is_pausing(self) -> bool:
        pause = self._pause
        return pause is not None and pause[0].age_seconds() < pause[1]

    def _follow(self, taken: State) -> None:
        """Move the held state onto the new snapshot. If none was made, drop a held state on the former snapshot."""
        if not _is_made(taken):
            self._states.drop_base(taken.snapshot_version)
            return
        self._states.move_onto(taken)


def _is_made(taken: State) -> bool:
    """Return whether the snapshot exists. If `take_snapshot` made none, it returned its argument unchanged."""
    return taken.snapshot_version == taken.version
