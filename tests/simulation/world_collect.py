"""The world of the collector: writers put and delete large values of documents, while two collectors delete blobs.

A collector may stop or crash at any step. Each collector resumes from the progress that was saved last, by either. A
collector may sleep for up to an hour between two reads. Half the values come from a few texts. So a blob may be garbage
at one moment, and a writer may put the blob again at the next moment. Actors sleep for minutes between calls, so blobs
become old enough for collection while their writers have not finished.

The observation rule does not cover a writer that freezes for too long *and* crashes before it puts its blobs again
(docs/design.md#the-observation-rule). So a seed has freezes or crashes, not both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec

from stratalog.documents import Document, verify
from stratalog.errors import Conflict, Corrupt, NotFound, OutcomeUnknown, StratalogError, Unavailable
from stratalog.keys import collecting_partition
from stratalog.log import Environment, LogSettings, create_log, open_log
from stratalog.maintenance.collection import CollectionReport, collect, collect_family
from stratalog.protocol import Mutation
from stratalog.testing.checkers import Violation
from stratalog.testing.faults import FAULT_RATES, draw_weather
from stratalog.testing.scheduler import Scheduler
from tests.simulation.actors import Turns, choose, log_environment
from tests.simulation.clusters import Cluster, Process

__all__ = ["CollectWorld"]

ORGANISATION = "acme"
NAME = "budget"
SETTINGS = LogSettings(segment_entries_target=4, snapshot_entries_interval=4, body_inline_bytes_max=400)
TEXTS = tuple(f"{position}" * 1100 for position in range(4))
KEYS = ("notes/a", "notes/b", "plans/c")
FURNITURE = tuple(f"{key}{position}" for key in KEYS for position in range(40))
TURNS = {"writer-a": 16, "writer-b": 16, "keeper": 14, "forker": 5, "collector-a": 10, "collector-b": 10}
STOP_RATE = 0.01
LONG_RATE = 0.02
LONG_SECONDS_MAX = 3600.0
PAUSE_SECONDS_MAX = 900.0
BURST_SECONDS_MAX = 0.1


class CollectWorld:
    """Two writers, a process that archives and forgets, a forker, and two collectors over the blobs of one family."""

    columns: ClassVar[tuple[str, ...]] = (
        "collected blobs",
        "collections",
        "collections stopped",
        "collections resumed",
        "blobs changed when looked at again",
        "dry runs",
        "forks",
        "floors",
        "snapshots",
        "archives",
    )

    freeze_rate: ClassVar[float] = 0.01

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        weather = draw_weather(scheduler.random)
        freezes = scheduler.random.random() < 0.7
        rates = dict.fromkeys((rate for rate in FAULT_RATES if rate.startswith("crash" if freezes else "freeze")), 0.0)
        if freezes:
            rates |= {"freeze_before": self.freeze_rate, "freeze_after": self.freeze_rate}
        self.cluster = Cluster(scheduler, msgspec.structs.replace(weather, **rates))
        self.left = Turns(TURNS)
        self.forks: list[str] = []
        self._furnish(Document(create_log(log_environment(self.cluster, SETTINGS), ORGANISATION, NAME, "document")))
        for name in ("writer-a", "writer-b"):
            self.cluster.start(name, self.write, frees=False)
        self.cluster.start("keeper", self.maintain)
        self.cluster.start("forker", self.fork, frees=False)
        for name in ("collector-a", "collector-b"):
            self.cluster.start(name, self.collect)

    def write(self, process: Process) -> None:
        """Put a large text under one of a few keys, or delete the key, sometimes in a fork."""
        changing = _document(process, NAME)
        while self._next(process):
            if process.clock.random() < 0.2:
                changing = _document(process, choose(process.clock, (NAME, *self.forks)))
            key, text = choose(process.clock, KEYS), _text(process)
            name, args = ("del", {"key": key}) if process.clock.random() < 0.3 else ("put", {"key": key, "value": text})
            self._try(lambda name=name, args=args: changing.mutate(name, args, client=process.name))  # noqa: B023

    def maintain(self, process: Process) -> None:
        """Archive, free, and forget all but the newest versions of the document and of its forks."""
        while self._next(process):
            document = _document(process, choose(process.clock, (NAME, NAME, *self.forks)))
            self._try(document.archive)
            self._try(lambda document=document: document.free_segments())
            if process.clock.random() < 0.6:
                self._try(lambda document=document: self._forget(document))
            self.scheduler.counts.bump("archives", document.log.environment.counters["archive"])

    def fork(self, process: Process) -> None:
        """Fork the newest version of the document or a fork, and change both logs, which share the family's blobs."""
        while self._next(process):
            name = f"copy-{self.left[process.name]}"
            self._try(lambda name=name: self._fork(process, name))

    def collect(self, process: Process) -> None:
        """Collect the family, or the whole organisation, repeatedly."""
        environment = log_environment(process, SETTINGS)
        while self._next(process):
            is_full = process.clock.random() < 0.5
            self._try(lambda is_full=is_full: self._collect(environment, is_full, lambda: self._interrupted(process)))

    def check(self) -> None:
        """Check that each value of the retained history is readable, and that each snapshot rebuilds to the same roots.

        Then make a dry run and a real run, which must have the same result. Repeat the first checks.
        """
        self._check_all()
        self.scheduler.now_ms += int(LONG_SECONDS_MAX * 1000)
        environment = log_environment(self.cluster, SETTINGS)
        for scope in (self._owner(), ORGANISATION):
            planned, collected = collect(environment, scope, dry_run=True), collect(environment, scope)
            self._heed(collected)
            self.scheduler.counts.bump("dry runs")
            if collected != planned:
                raise Violation(
                    "dry run", "a collection differs from its dry run", planned=planned, collected=collected
                )
        self._check_all()

    def _check_all(self) -> None:
        for name in (NAME, *self.forks):
            try:
                self._check(name)
            except Corrupt as exc:
                raise Violation("nothing dangling", str(exc), document=name) from exc
            except NotFound as exc:
                raise Violation("history kept", str(exc), document=name) from exc

    def _check(self, name: str) -> None:
        document = Document(open_log(log_environment(self.cluster, SETTINGS), ORGANISATION, name))
        self.scheduler.counts.bump("snapshots", verify(document).snapshots)
        oldest = max(document.log.floor(), document.log.first)
        for version in range(max(oldest, 1), document.version + 1):
            document.at(version).to_dict()
        for _ in document.versions(oldest):
            pass

    def _furnish(self, empty: Document) -> None:
        """Put many small values, so that the content has several chunks and each snapshot writes chunks."""
        empty.apply(
            [Mutation(client="setup", name="put", args={"key": key, "value": "small" * 20}) for key in FURNITURE]
        )

    def _forget(self, document: Document) -> None:
        version = document.version - 3
        if version > 0:
            document.forget_below(version)
            self.scheduler.counts.bump("floors")

    def _fork(self, process: Process, name: str) -> None:
        """Fork, then change and forget history in both logs. The fork then relies on its own base snapshot."""
        source = _document(process, choose(process.clock, (NAME, *self.forks)))
        copy = source.fork(name)
        self.forks.append(name)
        self.scheduler.counts.bump("forks")
        for changed in (copy, source):
            for _ in range(4):
                self._pause(process)
                changed.mutate("put", {"key": choose(process.clock, KEYS), "value": _text(process)}, client="forker")
            self._forget(changed)

    def _collect(self, environment: Environment, is_full: bool, stop: Callable[[], bool]) -> None:
        scope = ORGANISATION if is_full else self._owner()
        saved = self.cluster.index.get(collecting_partition(ORGANISATION), scope)
        report = collect(environment, scope, stop=stop) if is_full else collect_family(environment, scope, stop=stop)
        counts = self.scheduler.counts
        counts.bump("collections")
        counts.bump("collections resumed", 0 if saved is None else 1)
        counts.bump("collections stopped", 0 if report.is_finished else 1)
        counts.bump("collected blobs", len(report.garbage))
        counts.bump("blobs changed when looked at again", report.changed)
        self._heed(report)

    def _interrupted(self, process: Process) -> bool:
        """Return whether a collector stops here. The collector may first sleep for a long time."""
        if process.clock.random() < LONG_RATE:
            process.clock.sleep(LONG_SECONDS_MAX * process.clock.random())
        return process.clock.random() < STOP_RATE

    def _heed(self, report: CollectionReport) -> None:
        for failure in report.failures:
            if failure.code in (Corrupt.code, NotFound.code):
                raise Violation("nothing dangling", failure.reason)

    def _owner(self) -> str:
        return open_log(log_environment(self.cluster, SETTINGS), ORGANISATION, NAME).record.owner

    def _next(self, process: Process) -> bool:
        self._pause(process)
        return self.left.take(process.name)

    def _pause(self, process: Process) -> None:
        """Sleep mostly for a short time, so that actors interleave. Sometimes sleep so long that blobs grow old."""
        long = process.clock.random() < 0.3
        process.clock.sleep((PAUSE_SECONDS_MAX if long else BURST_SECONDS_MAX) * process.clock.random())

    def _try(self, action: object) -> None:
        """Run ``action``. A fault ends this try, but not the actor. Damage is a violation."""
        try:
            action()  # type: ignore[operator]
        except (Unavailable, OutcomeUnknown, Conflict, NotFound):
            self.scheduler.counts.bump("tries failed")
        except Corrupt as exc:
            raise Violation("nothing dangling", str(exc)) from exc


def _document(process: Process, name: str) -> Document:
    """Open the document. Retry after every error."""
    while True:
        try:
            return Document(open_log(log_environment(process, SETTINGS), ORGANISATION, name))
        except StratalogError:
            process.clock.sleep(1)


def _text(process: Process) -> str:
    """Return one of a few recurring texts, or a text that is never put again."""
    if process.clock.random() < 0.5:
        return choose(process.clock, TEXTS)
    return f"{process.clock.random()} " * 100
