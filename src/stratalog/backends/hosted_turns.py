"""Turns at a hosted index. A writer that waits writes a mark, and busy writers read the mark from time to time.

The mark is a hint, so that a writer that keeps losing wins sooner. The mark never excludes a writer.

Without turns a busy process commits between the read of the head and the put of another process. So the other process
loses nearly every race. With turns each writer follows three rules:

- A writer that *keeps losing* writes the mark: one item for each log or record, with a random id. A mark contains no
  time and no order. Each id stops a process at most once, so no writer waits long for a waiter that crashed.
  Maintenance deletes the marks of records; a writer that still waits writes a new mark.
- A process that *commits without pause* reads the mark in parallel with its commits. When the process finds a new id,
  it stops once, for at most `STOP_MS_MAX`. The stop ends as soon as another writer has written the item that the
  process was about to write.
- A writer that *lost a race* waits a random time of up to two round trips, then reads and puts.

A lone writer pays only for reads of the mark. Each read is eventually consistent and costs a tenth of a write. It
reads the mark at most once in `LOOK_COMMITS` commits. The measurements behind the constants are in
docs/decisions/0032-turns-at-hosted-indexes.md.

The times in milliseconds are for round trips of `ROUND_TRIP_MS_FIRST` or more. On a quicker index the rules use shorter
times, if its reads cost no money: see `HostedTurns`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar

from stratalog.clock import Clock, new_id
from stratalog.errors import ConditionFailed, StratalogError, Unavailable
from stratalog.keys import MARK_SORT, turn_partition, waiting_partition
from stratalog.ports.index import NO_BLOBS, Absent, Condition, Equals, Index, Item, Put, Write
from stratalog.process_fork import close_in_child

__all__ = ["HostedTurns"]

# During a run of commits, a process reads the mark after LOOK_COMMITS commits, but not within LOOK_MS of its last read.
# A pause of PAUSE_MS ends the run, since other writers can commit during the pause.
LOOK_MS = 50
LOOK_COMMITS = 3
PAUSE_MS = 100
IDS_KNOWN_MAX = 4

# A new mark stops a process for at most STOP_MS_MAX, if the process won a race within the last RECENT_MS. Meanwhile the
# process polls the key of its append, at intervals of POLL_ROUND_TRIPS but at least POLL_MS_MIN.
STOP_MS_MAX = 100
RECENT_MS = 50
POLL_ROUND_TRIPS = 0.4
POLL_MS_MIN = 2

# A losing writer writes the mark after LOSSES_MIN losses, and MARK_AFTER_MS after its first loss. It writes another
# mark MARK_AGAIN_MS after its last mark. If its process won WINS_SATED times within SATED_MS, the writer writes its
# first mark MARK_SATED_AFTER_MS after the first loss.
LOSSES_MIN = 2
MARK_AFTER_MS = 40
MARK_AGAIN_MS = 150
MARK_SATED_AFTER_MS = 250
WINS_SATED = 5
SATED_MS = 1000

# The range of a writer's random wait before its next try, in round trips: after a lost put, and after a stop.
AFTER_LOSS = (0.0, 2.0)
AFTER_STOP = (1.0, 2.0)
WAIT_FORGOTTEN_MS = 5000

ROUND_TRIP_MS_FIRST = 10.0
ROUND_TRIP_MS_MAX = 250.0
ROUND_TRIP_SHARE = 1 / 8  # the weight of the newest measurement in the estimate
TRAFFIC_MAX = 1024
LONG_AGO_MS = -(10**9)


class _Traffic:
    """The recent commits of this process to one log or record, and the marks that this process has read or written."""

    __slots__ = ("author", "ended_ms", "known", "looked_ms", "looking", "mark_partition", "run", "stop", "wins_ms")

    def __init__(self, partition: str) -> None:
        self.mark_partition = waiting_partition(partition)
        self.run = 0
        self.looking = False
        self.looked_ms = self.ended_ms = LONG_AGO_MS
        self.wins_ms = (LONG_AGO_MS,) * WINS_SATED
        self.known: tuple[str, ...] = ()
        self.stop = False
        """Whether a new mark asks this process to stop at its next commit."""

        self.author: _Wait | None = None
        """The writer that wrote the newest mark. None if another process wrote it, or after the writer's commit."""

    def learn(self, id: str, author: _Wait | None = None) -> bool:
        """Record a mark that was read or written. Return whether its id is new. A new id sets ``stop``.

        The last `IDS_KNOWN_MAX` ids are remembered, since an eventually consistent read may return an older mark.
        """
        if id in self.known:
            return False
        self.known = (id, *self.known[: IDS_KNOWN_MAX - 1])
        self.stop, self.author = True, author
        return True


class _Wait:
    """A writer that has lost a race or was stopped, with its losses, their times, and whether it has written a mark."""

    __slots__ = ("due", "has_turn", "losses", "lost_ms", "marked", "traffic", "waits_since_ms")

    def __init__(self, traffic: _Traffic, now_ms: int) -> None:
        self.traffic = traffic
        self.losses = 0
        self.lost_ms = self.waits_since_ms = now_ms
        self.marked = False
        self.due: tuple[float, float] | None = None
        """The range of the wait before the next try, in round trips; None once that wait has begun."""

        self.has_turn = False

    def mark_after_ms(self, scale: float) -> float:
        """Return the time in milliseconds that this writer must wait before it writes its first or next mark."""
        if self.marked:
            return MARK_AGAIN_MS * scale
        sated = self.lost_ms - self.traffic.wins_ms[0] < SATED_MS * scale
        return (MARK_SATED_AFTER_MS if sated else MARK_AFTER_MS) * scale


# A context identifies a writer. Each thread and each actor of a simulation has its own context.
_waiting: ContextVar[_Wait | None] = ContextVar("stratalog waiting", default=None)


class HostedTurns:
    """A wrapper around a hosted index that adds turns for writers of logs and records. `close` also closes the index.

    ``run_look`` runs one read of a mark in parallel with its caller. By default a thread runs the read, and `close`
    waits for the thread. If the index's round trips are shorter than `ROUND_TRIP_MS_FIRST`, the rules' times shrink in
    proportion, down to the share ``scale_min``. With 1 they never shrink, so a lone writer pays for few reads.
    """

    def __init__(
        self,
        index: Index,
        clock: Clock,
        run_look: Callable[[Callable[[], None]], None] | None = None,
        *,
        scale_min: float = 1.0,
    ) -> None:
        self.joint_commits = index.joint_commits
        self.blob_bytes_max = index.blob_bytes_max
        self.get = index.get
        self.query = index.query
        self._index = index
        self._clock = clock
        self._looks = _Looks()
        self._run_look = run_look or self._looks.start
        self._traffic: dict[str, _Traffic] = {}
        self._round_trip_ms = ROUND_TRIP_MS_FIRST
        self._scale_min = scale_min

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        """Commit on the wrapped index.

        A mark may stop the commit for a while. If another writer meanwhile puts an item at the key of the append, the
        commit is not sent. It raises ConditionFailed with the other writer's item.
        """
        first = _appended(writes)
        partition = turn_partition(first.partition) if first is not None else None
        if first is None or partition is None:
            self._index.commit(writes, blobs)
            return
        traffic = self._traffic_of(partition)
        if traffic.stop:
            self._stop(traffic, first)
        begun_ms = self._clock.boot_ms()
        self._look_if_due(traffic, begun_ms)
        try:
            self._index.commit(writes, blobs)
        except ConditionFailed as exc:
            self._measure(traffic, begun_ms)
            if 0 in exc.items:  # only the condition of the append, which is the first write, shows a lost race
                self._note_loss(traffic)
            raise
        self._measure(traffic, begun_ms)
        self._note_win(traffic)

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        """Wait or write the mark if the caller has lost a race or was stopped since its last turn.

        The value of the block is then True.

        For any other caller the value is False, and the caller does not wait.
        """
        self._index.turn(partition)  # raises Closed
        return _Turn(self, self._traffic_of(partition))

    def close(self) -> None:
        """Close the index, then wait for the reads of marks in flight."""
        self._index.close()
        self._looks.close()

    def pause(self, wait: _Wait) -> None:
        """Write the mark if it is due, else wait before the next try. `_Turn` calls this method."""
        assert wait.due is not None, "a writer waits once for each lost race"
        low, high = wait.due
        wait.due = None
        waited_ms = self._clock.boot_ms() - wait.waits_since_ms
        if wait.losses >= LOSSES_MIN and waited_ms >= wait.mark_after_ms(self._scale()):
            self._mark(wait)  # the read and the put of the mark take about as long as the wait
            return
        self._clock.sleep((low + (high - low) * self._clock.random()) * self._round_trip_ms / 1000)

    def _mark(self, wait: _Wait) -> None:
        """Write a mark with a new id, unless another writer has written a mark that this process has not read yet."""
        traffic = wait.traffic
        with suppress(StratalogError):  # the mark is only a hint: if it cannot be written, the writer continues
            item = self._index.get(traffic.mark_partition, MARK_SORT)
            wait.marked = item is None or not traffic.learn(_id_of(item))
            if wait.marked:
                id = new_id(self._clock)
                # Record the mark before the put, whatever the outcome of the put. Then other threads of this process
                # stop for the mark, and this writer does not stop when a later read returns its own mark.
                traffic.learn(id, wait)
                condition: Condition = Absent() if item is None else Equals("i", _id_of(item))
                self._index.commit([Put(Item(traffic.mark_partition, MARK_SORT, {"i": id}), condition)])
        wait.waits_since_ms = self._clock.boot_ms()  # from the end of the put, since the put may take long

    def _stop(self, traffic: _Traffic, item: Item) -> None:
        """Let a waiter commit first. Poll the key of ``item`` until another writer has put an item, or time is up.

        Raises ConditionFailed with the other writer's item. Returns at once if the caller itself wrote the mark, or if
        this process has not won a race within `RECENT_MS`. Returns also if a poll raises Unavailable.
        """
        traffic.stop = False
        begun_ms = self._clock.boot_ms()
        own, scale = traffic.author is not None and traffic.author is _waiting.get(), self._scale()
        if own or begun_ms - traffic.wins_ms[-1] > RECENT_MS * scale:
            return
        while self._clock.boot_ms() - begun_ms < STOP_MS_MAX * scale:
            self._clock.sleep(max(POLL_MS_MIN, POLL_ROUND_TRIPS * self._round_trip_ms) / 1000)
            try:
                standing = self._index.get(item.partition, item.sort)
            except Unavailable:
                return
            if standing is not None:
                wait = _Wait(traffic, self._clock.boot_ms())
                wait.due = AFTER_STOP
                _waiting.set(wait)
                raise ConditionFailed({0: standing})

    def _look_if_due(self, traffic: _Traffic, now_ms: int) -> None:
        scale = self._scale()
        traffic.run = 1 if now_ms - traffic.ended_ms > PAUSE_MS * scale else traffic.run + 1
        if traffic.run < LOOK_COMMITS or now_ms - traffic.looked_ms < LOOK_MS * scale or traffic.looking:
            return
        traffic.run, traffic.looked_ms, traffic.looking = 0, now_ms, True
        try:
            self._run_look(lambda: self._look(traffic))
        except (RuntimeError, MemoryError):  # the process can start no more threads, but the commit must continue
            traffic.looking = False

    def _look(self, traffic: _Traffic) -> None:
        try:
            with suppress(StratalogError):
                item = self._index.get(traffic.mark_partition, MARK_SORT, consistent=False)
                if item is not None:
                    traffic.learn(_id_of(item))
        finally:
            traffic.looking = False

    def _measure(self, traffic: _Traffic, begun_ms: int) -> None:
        """Record the end of a commit, and include the commit's duration in the estimate of a round trip."""
        traffic.ended_ms = self._clock.boot_ms()
        measured_ms = min(ROUND_TRIP_MS_MAX, traffic.ended_ms - begun_ms)
        self._round_trip_ms += (measured_ms - self._round_trip_ms) * ROUND_TRIP_SHARE

    def _scale(self) -> float:
        """Return the factor of the rules' times: the round trip's share of `ROUND_TRIP_MS_FIRST`, between limits."""
        return max(self._scale_min, min(1.0, self._round_trip_ms / ROUND_TRIP_MS_FIRST))

    def _note_loss(self, traffic: _Traffic) -> None:
        now_ms, wait = traffic.ended_ms, _waiting.get()
        if wait is None or wait.traffic is not traffic or now_ms - wait.lost_ms > WAIT_FORGOTTEN_MS:
            wait = _Wait(traffic, now_ms)
            _waiting.set(wait)
        wait.losses += 1
        wait.lost_ms = now_ms
        wait.due = AFTER_LOSS

    def _note_win(self, traffic: _Traffic) -> None:
        traffic.wins_ms = (*traffic.wins_ms[1:], traffic.ended_ms)
        wait = _waiting.get()
        if wait is None or wait.traffic is not traffic:
            return
        _waiting.set(None)
        if traffic.author is wait:
            traffic.stop, traffic.author = False, None

    def _traffic_of(self, partition: str) -> _Traffic:
        traffic = self._traffic.get(partition)
        if traffic is None:
            if len(self._traffic) >= TRAFFIC_MAX:
                self._traffic.clear()
            traffic = self._traffic.setdefault(partition, _Traffic(partition))
        return traffic


class _Turn(AbstractContextManager[bool]):
    """One writer's turn. A nested turn returns the same value and does nothing."""

    __slots__ = ("_traffic", "_turns", "_wait")

    def __init__(self, turns: HostedTurns, traffic: _Traffic) -> None:
        self._turns = turns
        self._traffic = traffic
        self._wait: _Wait | None = None

    def __enter__(self) -> bool:
        wait = _waiting.get()
        if wait is None or wait.traffic is not self._traffic:
            return False
        if wait.due is not None:
            self._wait = wait
            self._turns.pause(wait)
            wait.has_turn = True
        return wait.has_turn

    def __exit__(self, *_: object) -> None:
        if self._wait is not None:
            self._wait.has_turn = False


class _Looks:
    """The threads that read marks, one thread for each read. `close` waits for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._threads: list[threading.Thread] = []
        self._closed = False

    def start(self, look: Callable[[], None]) -> None:
        """Start a thread for ``look``. After `close`, do nothing. Raises RuntimeError if no thread can be started."""
        thread = threading.Thread(target=look, name="stratalog-look")
        with self._lock:
            if not self._closed:
                self._threads = [other for other in self._threads if other.is_alive()]
                thread.start()
                self._threads.append(thread)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            threads, self._threads = self._threads, []
        for thread in threads:
            thread.join()


def _appended(writes: Sequence[Write]) -> Item | None:
    """Return the item of a commit's first write, if this write is a put with the condition `Absent`; else None.

    Appends to logs and records have this form.
    """
    first = writes[0] if writes else None
    return first.item if type(first) is Put and type(first.condition) is Absent else None


def _id_of(mark: Item) -> str:
    return str(mark.attributes.get("i", ""))
