"""The world of damage at rest: a disk damages blobs while other processes forget, free and collect history.

The store has a document, forks of the document, forks of forks, and a log with an application's snapshots. A base is
the snapshot at a floor. No floor may rise onto a damaged base. No process may free forgotten segments while the base is
damaged, or collect a needed blob. The world keeps a copy of every blob. At the end the world restores the damaged
blobs. Then all retained history must be readable.

A busy seed has no faults and no damage. Writers commit without pause, and each floor must rise after one proof of its
base.
In a slow seed a pause may last weeks, and a scrub reads blobs. The disk may damage a value after the scrub has read it.
A floor may rise onto a base with such a value while the blob of the value exists. The world keeps its own record of the
scrub's reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import msgspec

from stratalog.backends.memory import MemoryBlobs
from stratalog.documents import Document, verify
from stratalog.documents.read_back import read_state_back
from stratalog.documents.snapshots import roots_of
from stratalog.documents.values import Values
from stratalog.errors import Conflict, ContentionError, Corrupt, NotFound, OutcomeUnknown, StratalogError, Unavailable
from stratalog.log import Environment, Event, Log, LogSettings, create_log, open_log
from stratalog.log.app_snapshots import read_app_snapshot_back
from stratalog.log.archive import open_archive
from stratalog.log.directory import LOGS, list_directory
from stratalog.log.names import read_name
from stratalog.log.retention import archive_segments, free_segments, raise_floor
from stratalog.log.segments import Segment, list_segments
from stratalog.log.snapshots import newest_snapshot
from stratalog.maintenance.collection import collect_family
from stratalog.maintenance.marks import Marking, Reached
from stratalog.protocol import Mutation
from stratalog.testing.checkers import Violation
from stratalog.testing.faults import FAULT_RATES, Weather, draw_weather
from stratalog.testing.scheduler import Scheduler
from stratalog.tree.chunks import Chunks
from tests.damage import DAMAGES, LOSE, damage_blob
from tests.simulation.actors import Turns, choose, log_environment, machine_source
from tests.simulation.clusters import Cluster, Process
from tests.simulation.scrub_truth import ScrubTruth

__all__ = ["DecayWorld"]

ORGANISATION = "acme"
NAME = "budget"
SHEET = "sheet"
SETTINGS = LogSettings(segment_entries_target=4, snapshot_entries_interval=4, body_inline_bytes_max=400)
BUSY_SETTINGS = LogSettings(segment_entries_target=8, snapshot_entries_interval=4)
BUSY_RATE = 0.15
KEYS = ("notes/a", "notes/b", "plans/c")
FURNITURE = tuple(f"{key}{position}" for key in KEYS for position in range(40))
TURNS = {
    "writer-a": 14,
    "writer-b": 14,
    "forgetter-a": 10,
    "forgetter-b": 10,
    "forker-a": 8,
    "forker-b": 8,
    "keeper": 24,
}
SLOW_RATE = 0.3
SCRUBS = (3, 10)
SCRUB_DAYS = 3
SCRUB_BLOBS_MAX = 40
PAUSE_DAYS_MAX = 40
LONG_PAUSE_RATE = 0.12
DAY_SECONDS = 86_400
BUSY_TURNS = {"writer-a": 60, "writer-b": 60, "forgetter-a": 6}
COLLECTIONS = 8
FREEZE_RATE = 0.005
PAUSE_SECONDS_MAX = 900.0
BURST_SECONDS_MAX = 0.1


class DecayWorld:
    """Writers, forgetters, forkers, a process that archives and frees, a collector, a scrubber, and a disk."""

    columns: ClassVar[tuple[str, ...]] = (
        "blobs damaged",
        "floors raised",
        "floors refused",
        "floors raised while busy",
        "segments freed",
        "collected blobs",
        "collections refused",
        "pins moved",
        "scrub rounds",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        draw = scheduler.random
        self.scheduler = scheduler
        self.is_busy = draw.random() < BUSY_RATE
        self.cluster = Cluster(scheduler, Weather() if self.is_busy else _weather(scheduler))
        self.is_slow = not self.is_busy and draw.random() < SLOW_RATE
        self.settings = BUSY_SETTINGS if self.is_busy else SETTINGS
        self.shadow = MemoryBlobs(self.cluster.clock)
        self.machine: dict[str, bytes] = {}
        self.damaged: dict[str, str] = {}
        self.damages: dict[str, int] = {}
        """The number of times that the disk has damaged each blob.

        After another put the disk may damage the blob again.
        """

        self.scrubs = ScrubTruth(self.cluster.clock)
        self.decays = 0 if self.is_busy else draw.choice((0, 1, 2, 6))
        self._remember_puts()
        others = {"collector": COLLECTIONS, "disk": self.decays, "scrubber": draw.choice(SCRUBS) if self.is_slow else 0}
        self.left = Turns(BUSY_TURNS if self.is_busy else TURNS | others)
        self.documents = [NAME]
        self.handles: dict[tuple[str, str], Document] = {}
        honest = log_environment(self.cluster, self.settings)
        self._furnish(Document(create_log(honest, ORGANISATION, NAME, "document")))
        create_log(honest, ORGANISATION, SHEET, "sheet")
        acts: dict[str, Callable[[Process], None]] = {
            "writer-a": self.write,
            "writer-b": self.write,
            "forgetter-a": self.forget,
            "forgetter-b": self.forget,
            "forker-a": self.fork,
            "forker-b": self.fork,
            "keeper": self.maintain,
            "collector": self.collect,
            "disk": self.decay,
            "scrubber": self.scrub,
        }
        for name in self.left:
            self.cluster.start(name, lambda process, act=acts[name]: self._repeat(process, act))  # type: ignore[misc]

    # Actors

    def write(self, process: Process) -> None:
        """Change a document, or append to the application's log and save a snapshot of every third version."""
        if not self.is_busy and process.clock.random() < 0.3:
            sheet = self._sheet(process)
            entry = sheet.append(Event("set", process.clock.random()))
            if entry.version % 3 == 0:
                sheet.save_snapshot(entry.version, [b"state", f"of {entry.version} ".encode() * 20])
            return
        text = f"{process.clock.random()} " * (60 if process.clock.random() < 0.6 else 1)
        args = {"key": choose(process.clock, KEYS), "value": text}
        self._document(process).mutate("put", args, client=process.name)

    def forget(self, process: Process) -> None:
        """Raise a floor. Handles stay open, so their caches may contain chunks that storage has lost."""
        if not self.is_busy and process.clock.random() < 0.3:
            sheet = self._sheet(process)
            self._raise(sheet, lambda: raise_floor(sheet, max(0, sheet.head().version - 2)))
            return
        document = self._document(process)
        version, read = document.version - int(1 + 3 * process.clock.random()), list[int]()
        before = document.log.floor()
        if version <= 0:
            return
        try:
            self._raise(document.log, lambda: document.forget_below(version, progress=read.append))
        except (ContentionError, OutcomeUnknown) as exc:
            if self.is_busy:
                raise Violation("progress", "a floor could not be raised while writers were busy") from exc
            raise
        if self.is_busy:
            self.scheduler.counts.bump("floors raised while busy")
            if sum(read) > version - before:
                raise Violation(
                    "progress", "a roll-over restarted the proof", read=sum(read), versions=version - before
                )

    def fork(self, process: Process) -> None:
        """Fork a document or a fork. If the source is a fork, it may then forget common history, which moves pins."""
        source, name = self._document(process), f"fork-{process.clock.random()}-{self.left[process.name]}"
        oldest, newest = max(source.log.floor(), source.log.first), source.version
        at = newest - int(process.clock.random() * (newest - oldest + 1))
        self.documents.append(name)
        source.fork(name, at=at)
        if source.log.record.lineage and process.clock.random() < 0.7:
            self._raise(source.log, lambda: source.forget_below(at))
            self.scheduler.counts.bump("pins moved")

    def maintain(self, process: Process) -> None:
        """Archive segments, and free segments that were archived or forgotten long ago."""
        if process.clock.random() < 0.3:
            sheet = self._sheet(process)
            self._free(sheet, lambda: free_segments(sheet))
            return
        document = self._document(process)
        if process.clock.random() < 0.5:
            archive_segments(document.log, document.version // 2)
        self._free(document.log, document.free_segments)

    def collect(self, process: Process) -> None:
        """Collect one family."""
        environment = log_environment(process, self.settings)
        owner = open_log(environment, ORGANISATION, choose(process.clock, (NAME, NAME, SHEET))).record.owner
        try:
            report = collect_family(environment, owner)
        except (Corrupt, NotFound):
            self.scheduler.counts.bump("collections refused")
            raise
        self.scheduler.counts.bump("collected blobs", len(report.garbage))

    def scrub(self, process: Process) -> None:
        """Run one pass of the scrub, which reads at most `SCRUB_BLOBS_MAX` blobs. A round may take several passes."""
        report = self.scrubs.run_pass(log_environment(process, self.settings), SCRUB_DAYS, SCRUB_BLOBS_MAX)
        self.scheduler.counts.bump("scrub rounds", report.is_round_finished and report.blobs > 0)

    def decay(self, process: Process) -> None:
        """Damage one blob of any kind."""
        keys = sorted(set(self.cluster.blobs._bodies) - set(self.damaged))
        if keys:
            key, how = choose(process.clock, keys), choose(process.clock, DAMAGES)
            damage_blob(self.cluster.blobs, key, how)
            self.damaged[key] = how
            self.damages[key] = self.damages.get(key, 0) + 1
            self.scheduler.counts.bump("blobs damaged")

    # Checks

    def check(self) -> None:
        """Check that needed blobs exist. Restore damaged blobs. Then check that all retained history is readable."""
        honest = log_environment(self.cluster, self.settings)
        owners = {open_log(honest, ORGANISATION, name).record.owner for name in (NAME, SHEET)}
        for owner in owners:
            for key in self._marked(owner):
                standing, decayed = self.cluster.blobs.stat(key) is not None, self.damaged.get(key) == LOSE
                if not standing and not decayed:
                    raise Violation("needed freed", "a blob that is still referred to was collected", key=key)
        for key in list(self.damaged):
            self.cluster.blobs.put(key, self.shadow.get(key))
        living = {listing.id for listing in list_directory(self.cluster.index, ORGANISATION, LOGS)}
        for name in living & set(self.documents):
            self._check(name, self._check_document)
        self._check(SHEET, self._check_sheet)

    def _check(self, name: str, reads: Callable[[Log], None]) -> None:
        try:
            reads(open_log(log_environment(self.cluster, self.settings), ORGANISATION, name))
        except Corrupt as exc:
            raise Violation("nothing dangling", str(exc), log=name) from exc
        except NotFound as exc:
            raise Violation("history kept", str(exc), log=name) from exc

    def _check_document(self, log: Log) -> None:
        document = Document(log)
        verify(document)
        for version in range(max(log.floor(), log.first, 1), document.version + 1):
            document.at(version).to_dict()

    def _check_sheet(self, log: Log) -> None:
        floor = log.floor()
        for _ in log.read(floor):
            pass
        base = log.app_snapshot(floor)
        if floor and (base is None or base.version != floor):
            raise Violation("history kept", "there is no app snapshot at the floor", floor=floor)
        for _ in log.read_snapshot(base) if base else ():
            pass

    def _raise(self, log: Log, act: Callable[[], int]) -> None:
        """Raise a floor by ``act``. The base at the new floor must need no blob that stays damaged during the call."""
        counters, before = log.environment.counters, self._noticeable()
        raised = counters["floor"]
        try:
            act()
        except Corrupt:
            self.scheduler.counts.bump("floors refused")
            raise
        finally:
            if counters["floor"] > raised:
                self.scheduler.counts.bump("floors raised")
                self._require_read("a floor rose", log, before)

    def _free(self, log: Log, act: Callable[[], int]) -> None:
        before, due = self._noticeable(), self._segments(log)
        try:
            act()
        except Corrupt:
            self.scheduler.counts.bump("frees refused")
            raise
        finally:
            after = self._segments(log)
            freed = [first for first, segment in due.items() if segment.archive is None and first not in after]
            if freed:
                self.scheduler.counts.bump("segments freed", len(freed))
                self._require_read("segments were freed", log, before)
            for first, segment in due.items():
                if segment.archive and not segment.freed and first in after and after[first].freed:
                    self._require_archive(log, after[first])

    def _noticeable(self) -> dict[str, int]:
        """Map each damaged blob that a proof must find to the number of times that it has been damaged."""
        noticeable = self.scrubs.noticeable(self.damaged)
        self.scheduler.counts.bump("values damaged behind the scrub", len(self.damaged) - len(noticeable))
        return {key: self.damages[key] for key in noticeable}

    def _require_read(self, what: str, log: Log, before: Mapping[str, int]) -> None:
        """Check that the base at the floor needs no blob of ``before`` that is still damaged."""
        stored = read_name(self.cluster.index, ORGANISATION, log.record.name)
        base = newest_snapshot(self.cluster.index, log.record.prefix, stored.floor) if stored else None
        if base is None:
            raise Violation("history kept", "there is no snapshot at or below the floor", log=log.record.name)
        if log.record.kind == "document":
            chunks, values = Chunks(self.shadow, log.record.owner), Values(self.shadow, log.record.owner)
            readings = read_state_back(chunks, values, roots_of(base))
        else:
            readings = read_app_snapshot_back(self.shadow, log.record.owner, base)
        lasting = {key for key, damage in before.items() if key in self.damaged and self.damages[key] == damage}
        unread = lasting & {reading.key for reading in readings}
        if unread:
            raise Violation("unread", f"{what} although the base cannot be read back", key=min(unread))

    def _require_archive(self, log: Log, segment: Segment) -> None:
        """Check the archive of a freed segment. The archive is now the only copy, so it must not be empty."""
        environment = Environment(self.cluster.index, self.shadow, self.cluster.clock, self.settings)
        if not open_archive(environment, log.record.prefix, log.record.owner, segment):
            raise Violation("unread", "a segment was freed, but its archive is empty")

    def _segments(self, log: Log) -> dict[int, Segment]:
        return {segment.first: segment for segment in list_segments(self.cluster.index, log.record.prefix)}

    def _marked(self, owner: str) -> Iterator[str]:
        """Return the keys of needed blobs, from undamaged copies. Skip archives, which a process may rewrite."""
        environment = Environment(self.cluster.index, self.shadow, self.cluster.clock, self.settings)
        marked = set[str]()
        Marking(environment, owner, marked.add, Reached(), set(), lambda: None).run()
        return (f"{owner}/{name}" for name in sorted(marked) if not name.startswith("archive/"))

    # Helpers of the actors

    def _repeat(self, process: Process, act: Callable[[Process], None]) -> None:
        """Run an actor's turns. A fault or missing history ends a turn, and so does damage if the disk may damage."""
        while self.left[process.name]:
            self._pause(process)
            if not self.left.take(process.name):
                return
            try:
                act(process)
            except (Unavailable, OutcomeUnknown, Conflict):
                self.scheduler.counts.bump("tries failed")
            except (Corrupt, NotFound) as exc:
                if not self.decays and isinstance(exc, Corrupt):
                    raise Violation("nothing dangling", str(exc)) from exc
                self.scheduler.counts.bump("tries damaged")

    def _pause(self, process: Process) -> None:
        if self.is_slow and process.clock.random() < LONG_PAUSE_RATE:
            process.clock.sleep(PAUSE_DAYS_MAX * DAY_SECONDS * process.clock.random())
        elif not self.is_busy:
            long = process.clock.random() < 0.3
            process.clock.sleep((PAUSE_SECONDS_MAX if long else BURST_SECONDS_MAX) * process.clock.random())

    def _document(self, process: Process) -> Document:
        """Return the process's handle of one of the documents."""
        name = NAME if process.clock.random() < 0.4 else choose(process.clock, self.documents)
        if (process.name, name) not in self.handles or self.handles[process.name, name].log.environment.index is not (
            process.index
        ):
            environment = log_environment(process, self.settings)
            environment.chunk_source = machine_source(process, self.machine)
            self.handles[process.name, name] = Document(open_log(environment, ORGANISATION, name))
        return self.handles[process.name, name]

    def _sheet(self, process: Process) -> Log:
        while True:
            try:
                return open_log(log_environment(process, self.settings), ORGANISATION, SHEET)
            except StratalogError:
                process.clock.sleep(1)

    def _furnish(self, empty: Document) -> None:
        """Put many small values, so that the content has several chunks and each snapshot writes chunks."""
        put: Callable[[str], Any] = lambda key: {"key": key, "value": "small" * 20}  # noqa: E731
        empty.apply([Mutation(client="setup", name="put", args=put(key)) for key in FURNITURE])

    def _remember_puts(self) -> None:
        blobs, put = self.cluster.blobs, self.cluster.blobs.put

        def remembered(key: str, body: bytes) -> None:
            put(key, body)
            self.shadow.put(key, body)
            self.damaged.pop(key, None)
            self.scrubs.forget_read(key)

        blobs.put = remembered  # type: ignore[method-assign]


def _weather(scheduler: Scheduler) -> Weather:
    """Return weather with freezes or crashes, not both. The reason is in `world_collect`."""
    weather, freezes = draw_weather(scheduler.random), scheduler.random.random() < 0.7
    rates = dict.fromkeys((rate for rate in FAULT_RATES if rate.startswith("crash" if freezes else "freeze")), 0.0)
    if freezes:
        rates |= {"freeze_before": FREEZE_RATE, "freeze_after": FREEZE_RATE}
    return msgspec.structs.replace(weather, **rates)
