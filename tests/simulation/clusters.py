"""A simulated environment: correct backends in memory, and processes that call them through faulty ports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import partial

from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.ports.index import NO_BLOBS, Item, Write, no_turn
from stratalog.testing.faults import FaultyBlobs, FaultyIndex, FaultyLine, FaultyQueue, Weather, draw_weather
from stratalog.testing.scheduler import Actor, Crash, Scheduler, SimulatedClock

__all__ = ["Cluster", "LaggingIndex", "Process"]

RESTART_MS_MAX = 10_000
BOOT_MS_MAX = 10**9
REPLICAS = 2

# The largest blob in a commit. The worlds have smaller and larger blobs, so that commits and separate puts both occur.
BLOB_BYTES_MAX = 1500


class LaggingIndex:
    """An index with replicas. An inconsistent read goes to a replica, which lags by at most ``stale_ms_max``.

    A replica never returns to an older state, but two reads may reach different replicas.
    """

    def __init__(self, scheduler: Scheduler, stale_ms_max: int, blobs: MemoryBlobs, *, joint_commits: bool) -> None:
        """With ``joint_commits`` a commit also stores small blobs, as in a database."""
        self.joint_commits = joint_commits
        self._scheduler = scheduler
        self._stale_ms_max = stale_ms_max
        self._draw = scheduler.random.random
        self._blobs = blobs
        self._present = MemoryIndex(blobs if joint_commits else None, BLOB_BYTES_MAX)
        self.blob_bytes_max = self._present.blob_bytes_max
        self._journal: list[tuple[int, Sequence[Write]]] = []
        self._replicas = [_Replica() for _ in range(REPLICAS)]

    def restored(self, commits: int) -> LaggingIndex:
        """Return another index, in the state after the first ``commits`` commits: a restored backup or a copy."""
        restored = LaggingIndex(self._scheduler, self._stale_ms_max, self._blobs, joint_commits=self.joint_commits)
        for at_ms, writes in self._journal[:commits]:
            _commit_again(restored._present, writes)
            restored._journal.append((at_ms, writes))
        return restored

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        return self._source(consistent).get(partition, sort)

    def query(
        self,
        partition: str,
        *,
        after: str | None = None,
        before: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
        consistent: bool = True,
    ) -> Iterator[Item]:
        return self._source(consistent).query(partition, after=after, before=before, reverse=reverse, limit=limit)

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        self._present.commit(writes, blobs)
        self._journal.append((self._scheduler.now_ms, writes))

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        return no_turn()

    def close(self) -> None:
        self._present.close()

    def _source(self, consistent: bool) -> MemoryIndex:
        if consistent:
            return self._present
        replica = self._replicas[int(self._draw() * REPLICAS)]
        replica.follow(self._journal, self._scheduler.now_ms - self._stale_ms_max, self._draw())
        if replica.applied < len(self._journal):
            self._scheduler.counts.bump("stale reads")
        return replica.index


class _Replica:
    """A copy of the index that has applied the first ``applied`` commits of the journal."""

    def __init__(self) -> None:
        self.index = MemoryIndex()
        self.applied = 0

    def follow(self, journal: list[tuple[int, Sequence[Write]]], oldest_ms: int, share: float) -> None:
        """Apply all commits older than ``oldest_ms``, and a ``share`` of the later commits."""
        while self.applied < len(journal) and journal[self.applied][0] < oldest_ms:
            self._apply(journal)
        for _ in range(int(share * (len(journal) - self.applied + 1))):
            self._apply(journal)

    def _apply(self, journal: list[tuple[int, Sequence[Write]]]) -> None:
        _commit_again(self.index, journal[self.applied][1])
        self.applied += 1


def _commit_again(index: MemoryIndex, writes: Sequence[Write]) -> None:
    """Commit the writes of a journal entry.

    Skip an entry without writes, which a commit of blobs alone leaves.
    """
    if writes:
        index.commit(writes)


class Cluster:
    """The backends that all processes share.

    Set-up and checks use ``index``, ``blobs`` and ``queue`` directly, without faults. All backends use ``clock``, which
    is exact.
    """

    def __init__(self, scheduler: Scheduler, weather: Weather | None = None) -> None:
        self.scheduler = scheduler
        self.weather = weather or draw_weather(scheduler.random)
        self.clock = SimulatedClock(scheduler)
        joint_commits = scheduler.random.random() < 0.5
        self.blobs = MemoryBlobs(self.clock)
        self.index = LaggingIndex(scheduler, self.weather.stale_ms_max, self.blobs, joint_commits=joint_commits)
        self.queue = MemoryQueue(self.clock)
        self._processes: list[Process] = []
        self._stopped = False

    def branch(self, commits: int, *, shares_queue: bool) -> Cluster:
        """Return another cluster whose index begins in the state after the first ``commits`` commits.

        Both clusters share the blobs, which are not rolled back. With ``shares_queue`` they also share the
        queue, so a worker of either cluster may receive a message.
        """
        branch = copy(self)
        branch.index = self.index.restored(commits)
        branch.queue = self.queue if shares_queue else MemoryQueue(self.clock)
        branch._processes = []
        branch._stopped = False
        return branch

    def stop(self) -> None:
        """End all processes at their next step, and restart none of them."""
        self._stopped = True
        for process in self._processes:
            process.end()

    def start(
        self,
        name: str,
        main: Callable[[Process], None],
        *,
        restart: bool = True,
        background: bool = False,
        frees: bool = True,
        marks: bool = True,
    ) -> None:
        """Run ``main`` in a new process. After a crash, run ``main`` again in another process with empty memory.

        With ``restart=False`` no process follows a crash. ``frees=False`` is for a process that neither marks nor frees
        anything. The clock of this process may be hours off. ``marks=False`` is for a process that only frees. Its
        clock may be hours behind.
        """
        process = Process(self, name, far_clock=not frees, is_behind=not marks)
        self._processes.append(process)

        def run() -> None:
            try:
                main(process)
            except Crash:
                if restart and not self._stopped:
                    self._restart(partial(self.start, name, main, background=background, frees=frees, marks=marks))
                raise

        process.spawn(name, run, background=background)

    def _restart(self, start: Callable[[], None]) -> None:
        self.scheduler.counts.bump("restarts")
        delay_ms = int(self.scheduler.random.random() * RESTART_MS_MAX)

        def start_again() -> None:
            if not self._stopped:
                start()

        self.scheduler.later(delay_ms, start_again)


class ActorTask:
    """A background task that an actor runs."""

    def __init__(self, scheduler: Scheduler, work: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._work = work
        self._has_ended = False

    def run(self) -> None:
        try:
            self._work()
        finally:
            self._has_ended = True

    def join(self) -> None:
        while not self._has_ended:
            self._scheduler.switch()


class ActorTasks:
    """The background tasks of a process. Each task runs in an actor, not in a thread, and crashes with the process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def offer(self, work: Callable[[], None]) -> ActorTask:
        """Start ``work`` in a new actor."""
        self._process.scheduler.counts.bump("tasks beside")
        task = ActorTask(self._process.scheduler, work)
        self._process.spawn(f"{self._process.name}-task", task.run)
        return task

    def pause(self) -> None:
        """Do nothing, because the scheduler may switch to another actor at each port call."""

    def wait(self) -> None:
        """Do nothing, because the run waits for every actor."""

    def close(self) -> None:
        """Do nothing, because the run waits for every actor."""


class Process:
    """One process: its clock, its ports and its actors. A crash ends all actors of a process."""

    def __init__(self, cluster: Cluster, name: str, *, far_clock: bool = False, is_behind: bool = False) -> None:
        draw = cluster.scheduler.random.random
        weather = cluster.weather
        far_ms_max = weather.far_skew_ms_max if far_clock else 0
        behind_ms_max = weather.far_skew_ms_max if is_behind else 0
        if far_ms_max:
            cluster.scheduler.counts.bump("clocks hours off")
        self.name = name
        self.cluster = cluster
        self.scheduler = cluster.scheduler
        boot_ms, error = int(draw() * BOOT_MS_MAX), 2 * draw() - 1
        skew_ms = -abs(error) * behind_ms_max if behind_ms_max else error * (far_ms_max or weather.skew_ms_max)
        jump_ms_max = far_ms_max or weather.jump_ms_max
        self.clock = SimulatedClock(cluster.scheduler, boot_ms=boot_ms, skew_ms=int(skew_ms), jump_ms_max=jump_ms_max)
        line = FaultyLine(cluster.scheduler, weather, self.crash)
        self.index = FaultyIndex(line, cluster.index)
        self.blobs = FaultyBlobs(line, cluster.blobs)
        self.queue = FaultyQueue(line, cluster.queue)
        self._actors: list[Actor] = []

    def spawn(self, name: str, function: Callable[[], None], *, background: bool = False) -> None:
        """Start another actor of this process. A real program would start a thread."""
        self._actors.append(self.scheduler.spawn(name, function, background=background))

    def crash(self) -> None:
        """End all actors of this process: the caller now, the other actors at their next step. Raises Crash."""
        self.end()
        raise Crash

    def end(self) -> None:
        """End all actors of this process, each at its next step."""
        for actor in self._actors:
            actor.crashed = True
            # The actor may wait for a lock whose holder has just crashed and cannot release it.
            self.scheduler.wake(actor)
