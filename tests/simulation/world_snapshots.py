"""The world of snapshots during commits: small commits must succeed while the blob store is unreachable for minutes.

The index has no faults, so a small commit takes a few steps. Puts and gets of the blob store are slow. While the blob
store is unreachable, each put or get fails after a delay. Other calls of the blob store still succeed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from stratalog.documents import Document, verify
from stratalog.documents.snapshot_schedule import BACKOFF, SnapshotSchedule
from stratalog.errors import OutcomeUnknown, Unavailable
from stratalog.log import Environment, LogSettings, create_log, open_log
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.snapshots import newest_snapshot
from stratalog.ports.blobs import Blobs
from stratalog.ports.blobs_wrapper import BlobsWrapper
from stratalog.protocol import Mutation
from stratalog.testing.checkers import Violation
from stratalog.testing.faults import Weather
from stratalog.testing.scheduler import Scheduler
from tests.simulation.actors import log_environment
from tests.simulation.clusters import ActorTasks, Cluster, Process
from tests.simulation.mutants import Mutant, replaced

__all__ = ["MUTANTS", "SnapshotWorld"]

ORGANISATION = "acme"
NAME = "plan"
INTERVAL = 6
WRITERS = 2
FURNITURE = [
    Mutation(client="setup", name="put", args={"key": f"items/{n:03}", "value": "small" * 15}) for n in range(80)
]
LARGE = "large" * 1000
LARGE_TURNS = 10
ANSWER_SECONDS_MAX = 0.3
COMMIT_MS_MAX = 1500
"""A small commit takes about twelve steps of at most 20 ms each, and may wait for other small commits."""

FAILURES_MIN = 12
FAILURES_PER_SECOND = 1 / 8


class AwayBlobs(BlobsWrapper):
    """Blobs behind a slow connection that fails for a while."""

    def __init__(self, blobs: Blobs, world: SnapshotWorld, process: Process) -> None:
        super().__init__(blobs)
        self._world = world
        self._clock = process.clock

    def put(self, key: str, body: bytes) -> None:
        self._reach()
        self._blobs.put(key, body)

    def get(self, key: str) -> bytes:
        self._reach()
        return self._blobs.get(key)

    def close(self) -> None:
        """Do nothing, because the backend outlives its processes."""

    def _reach(self) -> None:
        if self._world.is_away():
            self._world.scheduler.counts.bump("blobs away")
            self._clock.sleep(self._world.failing_seconds)
            raise Unavailable("the blob store is away")
        self._clock.sleep(ANSWER_SECONDS_MAX * self._clock.random())


class SnapshotWorld:
    """Writers that share the handle of one document, and a blob store that is unreachable for a while."""

    columns: ClassVar[tuple[str, ...]] = (
        "blobs away",
        "snapshot",
        "snapshot failed",
        "small commits while away",
        "large commits failed",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        draw = scheduler.random
        self.scheduler = scheduler
        self.cluster = Cluster(scheduler, Weather(page_items_max=5))
        self.settings = LogSettings(segment_entries_target=draw.choice((8, 1000)), snapshot_entries_interval=INTERVAL)
        self.failing_seconds = draw.choice((0.1, 3.0, 10.0))
        self.away_from_ms = draw.randrange(60_000)
        self.away_until_ms = self.away_from_ms + draw.randrange(60_000, 600_000)
        self.turns = (self.away_until_ms // 4000) // WRITERS
        Document(create_log(log_environment(self.cluster, self.settings), ORGANISATION, NAME, "document")).apply(
            FURNITURE
        )
        self.cluster.start("process", self.run)

    def is_away(self) -> bool:
        """Return whether the blob store is unreachable now."""
        return self.away_from_ms <= self.scheduler.now_ms < self.away_until_ms

    def run(self, process: Process) -> None:
        """Open the handle, and start the threads that share it."""
        blobs = AwayBlobs(process.blobs, self, process)
        environment = Environment(process.index, blobs, process.clock, self.settings, background=ActorTasks(process))
        self.counters = environment.counters
        document = Document(open_log(environment, ORGANISATION, NAME))
        while not self._begin(document):
            process.clock.sleep(1)
        for number in range(WRITERS):
            process.spawn(f"writer-{number}", partial(self.write, process, document, f"writer-{number}"))
        process.spawn("large", partial(self.put_large, process, document))

    def write(self, process: Process, document: Document, client: str) -> None:
        """Make small commits with pauses, and one more small commit after the blob store is reachable again."""
        for _ in range(self.turns):
            process.clock.sleep(8 * process.clock.random())
            self._commit_small(document, client)
        while self.scheduler.now_ms < self.away_until_ms:
            process.clock.sleep(10)
        process.clock.sleep(BACKOFF.wait_seconds_max + self.failing_seconds)
        self._commit_small(document, client)

    def put_large(self, process: Process, document: Document) -> None:
        """Put large values in another thread of the same handle. Only this thread may wait for the blob store."""
        for number in range(LARGE_TURNS):
            process.clock.sleep(80 * process.clock.random())
            try:
                document.mutate("put", {"key": "large/1", "value": f"{number} {LARGE}"}, client="large")
            except (Unavailable, OutcomeUnknown):
                self.scheduler.counts.bump("large commits failed")

    def check(self) -> None:
        """Check that the newest snapshot is recent, that few snapshots failed, and that the document verifies."""
        counts = self.scheduler.counts
        for name in ("snapshot", "snapshot failed"):
            counts.bump(name, self.counters[name])
        away_seconds = (self.away_until_ms - self.away_from_ms) / 1000
        if self.counters["snapshot failed"] > FAILURES_MIN + FAILURES_PER_SECOND * away_seconds:
            raise Violation(
                "hammered", "too many snapshots failed", failed=self.counters["snapshot failed"], seconds=away_seconds
            )
        document = Document(open_log(log_environment(self.cluster, self.settings), ORGANISATION, NAME))
        newest = newest_snapshot(self.cluster.index, document.log.record.prefix, document.version)
        lag = document.version - (newest.version if newest else 0)
        if lag > INTERVAL + WRITERS:
            raise Violation("snapshots", "no recent snapshot was taken", lag=lag, version=document.version)
        verify(document)

    def _begin(self, document: Document) -> bool:
        try:
            document.mutate("inc", {"key": "count"}, client="first")
        except Unavailable:
            return False
        return True

    def _commit_small(self, document: Document, client: str) -> None:
        began_ms, was_away = self.scheduler.now_ms, self.is_away()
        try:
            document.mutate("inc", {"key": "count"}, client=client)
        except (Unavailable, OutcomeUnknown) as exc:
            raise Violation("waits", "a small commit failed because of the blob store", error=repr(exc)) from exc
        took_ms = self.scheduler.now_ms - began_ms
        if took_ms > COMMIT_MS_MAX:
            raise Violation("waits", "a small commit waited too long", took_ms=took_ms, was_away=was_away)
        self.scheduler.counts.bump("small commits while away", was_away)


def _by_the_commit(tasks: ActorTasks, work: Callable[[], None]) -> bool:
    """Take the snapshot in the committing thread, before the commit returns."""
    work()
    return True


def _not_deferred(batch: BlobBatch) -> None:
    """Put large blobs while the handle's lock is held."""


def _begun_for_ever(schedule: SnapshotSchedule) -> None:
    """End the task, but leave it marked as running."""
    _run(schedule)
    schedule._is_begun = True


def _mutant(name: str, owner: Any, attribute: str, replacement: Any, caught_by: str) -> Mutant:
    return Mutant(f"snapshots: {name}", SnapshotWorld, replaced(owner, attribute, replacement), (caught_by,))


_run = SnapshotSchedule._run

MUTANTS = (
    _mutant("taken by the commit", ActorTasks, "offer", _by_the_commit, "waits"),
    _mutant("large blobs put under the lock", BlobBatch, "defer", _not_deferred, "waits"),
    _mutant("failures do not back off", SnapshotSchedule, "_is_pausing", lambda handle: False, "hammered"),
    _mutant("a failure backs off for ever", SnapshotSchedule, "_is_pausing", lambda handle: handle._pause, "snapshots"),
    _mutant("task marked as running for ever", SnapshotSchedule, "_run", _begun_for_ever, "snapshots"),
)
