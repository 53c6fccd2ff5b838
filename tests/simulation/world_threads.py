"""The world of threads: threads of a process share one handle of a log or a document, and race on its attributes.

The scheduler also switches at accesses of shared attributes (`interleaving`), when an answer returns, and when an actor
waits for a lock. The world may interrupt any actor during a call. An interrupt must not affect other actors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, ClassVar

from stratalog import documents, log
from stratalog.documents import Document, verify
from stratalog.errors import (
    ContentionError,
    Corrupt,
    NotFound,
    OutcomeUnknown,
    StratalogError,
    Unavailable,
    VersionConflict,
    VersionForgotten,
)
from stratalog.log import Environment, LogSettings, create_log, open_log
from stratalog.log.retention import archive_segments, raise_floor
from stratalog.protocol import Mutation
from stratalog.testing.checkers import Answered, Violation, check_real_time
from stratalog.testing.faults import Weather, draw_weather
from stratalog.testing.history import History
from stratalog.testing.scheduler import Actor, Crash, Scheduler
from tests.simulation.actors import Turns, log_environment
from tests.simulation.clusters import ActorTasks, Cluster, Process
from tests.simulation.documents_truth import Reported, check_answer, check_reports
from tests.simulation.documents_truth import Truth as DocumentTruth
from tests.simulation.faulty import RULES
from tests.simulation.interleaving import Interleaving
from tests.simulation.log_truth import Answer, Truth, check_answers
from tests.simulation.threads_handle import AnsweredBlobs, AnsweredIndex, Ended, Handle, Interrupter
from tests.simulation.world_documents import damage
from tests.simulation.world_log import check_content, content

__all__ = ["ThreadWorld"]

ORGANISATION = "acme"
NAME = "plan"
CALM_RATE = 0.4
MODULES = ("stratalog.group_commit", "stratalog.newest", "tests.simulation.mutants_threads")
"""The modules with yield points, in addition to the modules of the packages `log` and `documents`."""

APPENDER_TURNS = 8
READER_TURNS = 9
CARETAKER_TURNS = 3
PAUSE_SECONDS_MAX = 0.2

Turn = Callable[[Handle, Actor], None]


@cache
def interleaving() -> Interleaving:
    """Return the yield points of all modules that threads of one handle execute."""
    names = [
        info.name for package in (documents, log) for info in iter_modules(package.__path__, f"{package.__name__}.")
    ]
    return Interleaving(map(import_module, sorted([*names, *MODULES])))


class ThreadWorld:
    """A log or a document, and two processes. The threads of each process share one handle."""

    columns: ClassVar[tuple[str, ...]] = (
        "index.commit",
        "conflicts",
        "acknowledged",
        "refused",
        "given up unknown",
        "version-conflict",
        "interrupts",
        "lock waits",
        "roll-over",
        "floor",
        "forgotten",
        "snapshot",
        "applied",
        "seen",
        "restarts",
    )

    @staticmethod
    @contextmanager
    def surroundings(scheduler: Scheduler) -> Iterator[None]:
        """Activate the yield points during the run."""
        with interleaving().active(scheduler.yield_here):
            yield

    def __init__(self, scheduler: Scheduler) -> None:
        draw = scheduler.random
        self.scheduler = scheduler
        self.calm = draw.random() < CALM_RATE
        self.cluster = Cluster(scheduler, Weather(page_items_max=5) if self.calm else draw_weather(draw))
        self.settings = LogSettings(
            segment_entries_target=draw.choice((2, 4, 50)),
            snapshot_entries_interval=draw.choice((2, 5)),
            body_inline_bytes_max=64,
            append_seconds_max=1000 if self.calm else draw.choice((1, 20)),
        )
        self.history = History(scheduler)
        self.answers: list[Answer] = []
        self.outcomes: list[Reported] = []
        self.forgotten: list[int] = []
        self.states: dict[int, dict[str, Any]] = {}
        self.done: Counter[str] = Counter()
        self.left = Turns()
        self.handles: dict[str, Handle] = {}
        self.counters: list[Counter[str]] = []
        self.interrupter = Interrupter(scheduler, draw.choice((0, 2, 8)))
        self.is_document = draw.random() < 0.5
        made = create_log(self._honest(), ORGANISATION, NAME, "document" if self.is_document else "log")
        self.prefix = made.record.prefix
        for process in ("one", "two"):
            for name, _, turns in self._threads(process):
                self.left[name] = turns
            self.cluster.start(process, self._main)
        scheduler.yield_rate = draw.choice((0.02, 0.1, 0.4))

    def check(self) -> None:
        """Compare the answers with the commits."""
        for counters in self.counters:
            for name, count in counters.items():
                self.scheduler.counts.bump(name, count)
        for name, handle in self.handles.items():
            if not handle.crashed and (held := handle.held_locks()):
                raise Violation("held", "locks are still held after the last call", process=name, locks=held)
        if self.is_document:
            self._check_document()
        else:
            truth = Truth(writes for _, writes in self.cluster.index._journal)
            log = truth.logs[self.prefix]
            self.history.check(log.entries, log.first - 1)
            check_answers(self.answers, truth)
            self._check_forgotten(log.floor)

    # Actions of threads on a log

    def append(self, handle: Handle, actor: Actor) -> None:
        """Append one entry. In a third of the calls, expect the newest version that the handle has returned."""
        self.done[actor.name] += 1
        write_id = f"{actor.name}.{self.done[actor.name]}"
        expected = handle.version if self.scheduler.random.random() < 0.35 else None
        sent, before = self._moment(), handle.version
        record = partial(self.history.append, actor.name, write_id, self.scheduler.steps)
        action = partial(handle.log.append, content(write_id), expected=expected, write_id=write_id)
        try:
            entry = handle.call(actor, action)
        except VersionConflict as exc:
            record(Answered.REFUSED)
            self.scheduler.counts.bump(exc.code)
            actual = exc.details["actual"]
            if actual == expected:
                raise Violation("false-conflict", "a version conflict names the expected version", error=exc) from exc
            self.answers.append(Answer(self.prefix, sent, self._moment(), handle.learn(actual, before)))
        except (ContentionError, Unavailable):
            record(Answered.REFUSED)
        except (OutcomeUnknown, Ended):
            record(Answered.UNKNOWN)
        else:
            record(Answered.ACKNOWLEDGED, handle.learn(entry.version, before + 1))

    def read(self, handle: Handle, actor: Actor) -> None:
        """Read the head, an entry, the newest entries, or the floor."""
        chance, before, floor = self.scheduler.random.random(), handle.version, handle.floor
        if chance < 0.5:
            self._head(handle, actor, before)
        elif chance < 0.7 and before:
            self._entry(handle, actor, 1 + int(self.scheduler.random.random() * before), floor)
        elif chance < 0.85:
            self._entries(handle, actor, before)
        else:
            newest = handle.call(actor, handle.log.floor)
            if newest < floor:
                raise Violation("monotonic", "a handle returned a lower floor than before", floor=newest, before=floor)
            handle.floor = max(handle.floor, newest)

    def maintain_log(self, handle: Handle, actor: Actor) -> None:
        """Archive sealed segments, and forget some history."""
        handle.call(actor, partial(archive_segments, handle.log))
        self._forget(handle, actor, partial(raise_floor, handle.log))

    def _forget(self, handle: Handle, actor: Actor, forget: Callable[[int], int]) -> None:
        """Forget the versions below a version that the handle has returned."""
        if handle.version > 2:
            version = int(self.scheduler.random.random() * handle.version)
            handle.floor = max(handle.floor, handle.call(actor, partial(forget, version)))

    def _head(self, handle: Handle, actor: Actor, before: int) -> None:
        sent, steps = self._moment(), self.scheduler.steps
        version = handle.learn(handle.call(actor, handle.log.head).version, before)
        self.answers.append(Answer(self.prefix, sent, self._moment(), version))
        self.history.head(steps, version)

    def _entry(self, handle: Handle, actor: Actor, version: int, floor: int) -> None:
        try:
            entry = handle.call(actor, partial(handle.log.entry, version))
        except VersionForgotten:
            self.forgotten.append(version)
            return
        if version < floor:
            raise Violation("forgotten", "a version below a floor that the handle had seen was read", version=version)
        check_content(entry)

    def _entries(self, handle: Handle, actor: Actor, before: int) -> None:
        after = max(before - 4, 0)
        try:
            entries = handle.call(actor, lambda: [*handle.log.read(after)])
        except VersionForgotten:
            self.forgotten.append(after + 1)
            return
        versions = [entry.version for entry in entries]
        if versions != [*range(after + 1, after + 1 + len(entries))]:
            raise Violation("gapless", "a read returned entries with a gap", versions=versions, after=after)
        handle.learn(after + len(entries), before)

    # Actions of threads on a document

    def apply(self, handle: Handle, actor: Actor) -> None:
        """Apply the client's next mutations. After a call without an answer, apply the same mutations again."""
        assert handle.document is not None
        done, before = self.done[actor.name], handle.version
        batch = [self._mutation(actor.name, done + position) for position in range(1, 2 + (done % 3 == 0))]
        steps = self.scheduler.steps
        try:
            outcomes = handle.call(actor, partial(handle.document.apply, batch))
        except (ContentionError, Unavailable, OutcomeUnknown, Ended):
            self.left[actor.name] += 1
            return
        for outcome in outcomes:
            self.scheduler.counts.bump(outcome.status)
            check_answer(outcome, done, collecting=False)
            self.done[actor.name] = max(self.done[actor.name], outcome.id)
            self.outcomes.append(Reported(actor.name, outcome.id, outcome.status, outcome.version, outcome.reason))
            if outcome.status != "seen":
                handle.learn(outcome.version or 0, before + 1)
        if versions := [each.version for each in outcomes if each.version is not None and each.status != "seen"]:
            self.history.append(actor.name, "", steps, Answered.ACKNOWLEDGED, max(versions))

    def look(self, handle: Handle, actor: Actor) -> None:
        """Read the content of the newest version, or of an earlier version."""
        document = handle.document
        assert document is not None
        before, floor, steps = handle.version, handle.floor, self.scheduler.steps
        newest = self.scheduler.random.random() < 0.6
        at = None if newest else before - int(self.scheduler.random.random() * min(before, 3))
        try:
            version, values = handle.call(actor, lambda: self._values(document, at))
        except VersionForgotten:
            if at is None:
                raise Violation("forgotten", "the newest version was reported as forgotten") from None
            self.forgotten.append(at)
            return
        if newest:
            self.history.head(steps, handle.learn(version, before))
        elif version < floor:
            raise Violation("forgotten", "a version below a floor that the handle had seen was read", version=version)
        if self.states.setdefault(version, values) != values:
            raise Violation("state", "two readers of one version got different content", version=version)

    def maintain_document(self, handle: Handle, actor: Actor) -> None:
        """Take a snapshot, archive, and forget some history while other threads commit."""
        assert handle.document is not None
        handle.call(actor, handle.document.snapshot)
        handle.call(actor, handle.document.archive)
        handle.has_dropped = True
        self._forget(handle, actor, handle.document.forget_below)

    def _values(self, document: Document, at: int | None) -> tuple[int, dict[str, Any]]:
        view = document.at(at)
        return view.version, view.to_dict()

    def _mutation(self, client: str, number: int) -> Mutation:
        key = ("count", f"own/{client}", "large/1")[number % 3]
        args = {"key": key, "value": client * 200} if key == "large/1" else {"key": key, "by": number}
        return Mutation(client=client, id=number, name="put" if key == "large/1" else "inc", args=args)

    def _check_document(self) -> None:
        document = Document(open_log(self._honest(), ORGANISATION, NAME), RULES)
        self._check_forgotten(document.log.floor())
        truth = DocumentTruth(self.cluster, self.prefix, RULES.mutators)
        truth.check_order(lambda client: "")
        check_reports(self.outcomes, truth)
        for version, values in self.states.items():
            truth.check_state(version, values)
        try:
            truth.check_state(document.version, document.at().to_dict())
            verify(document)
        except NotFound as exc:
            raise Violation("kept", str(exc)) from exc
        except Corrupt as exc:
            raise damage(exc) from exc
        check_real_time(self.history.appends, self.history.heads)

    # Processes and their threads

    def _threads(self, process: str) -> list[tuple[str, Turn, int]]:
        write, read = (self.apply, self.look) if self.is_document else (self.append, self.read)
        maintain = self.maintain_document if self.is_document else self.maintain_log
        threads = [(f"{process}-writer-{number}", write, APPENDER_TURNS) for number in range(3)]
        threads += [(f"{process}-reader-{number}", read, READER_TURNS) for number in range(2)]
        return [*threads, (f"{process}-caretaker", maintain, CARETAKER_TURNS)]

    def _main(self, process: Process) -> None:
        """Open the handle, and start the threads that share it."""
        step = self.interrupter.step
        index, blobs = AnsweredIndex(process.index, step), AnsweredBlobs(process.blobs, step)
        environment = Environment(index, blobs, process.clock, self.settings, background=ActorTasks(process))
        self.counters.append(environment.counters)
        while True:
            try:
                log = open_log(environment, ORGANISATION, NAME)
                break
            except Unavailable:
                process.clock.sleep(1)
        document = Document(log, RULES) if self.is_document else None
        handle = self.handles[process.name] = Handle(log, document, self.interrupter, calm=self.calm)
        (name, turn, _), *others = self._threads(process.name)
        for other, its_turn, _ in others:
            process.spawn(other, partial(self._run, process, handle, other, its_turn))
        self._run(process, handle, name, turn)

    def _run(self, process: Process, handle: Handle, name: str, turn: Turn) -> None:
        """Run a thread's turns."""
        actor = self.scheduler.parking()
        actor.name = name
        while self.left.take(name):
            if process.clock.random() < 0.3:
                process.clock.sleep(PAUSE_SECONDS_MAX * process.clock.random())
            try:
                turn(handle, actor)
            except (Ended, ContentionError, Unavailable, OutcomeUnknown):
                self.scheduler.counts.bump("turns ended")
            except Crash:
                handle.crashed = True
                raise
            except VersionForgotten:
                self.scheduler.counts.bump("turns forgotten")
            except (NotFound, Corrupt) as exc:
                raise Violation("kept", "a call reported existing data as missing or damaged", error=repr(exc)) from exc
            except StratalogError as exc:
                raise Violation("errors", "a call ended with an unexpected error", error=repr(exc)) from exc

    def _honest(self) -> Environment:
        return log_environment(self.cluster, self.settings)

    def _check_forgotten(self, floor: int) -> None:
        self.scheduler.counts.bump("forgotten", len(self.forgotten))
        for version in self.forgotten:
            if version > floor:
                raise Violation(
                    "forgotten", "a version above the floor was reported as forgotten", version=version, floor=floor
                )

    def _moment(self) -> int:
        """Return the number of commits that have taken effect."""
        return len(self.cluster.index._journal)
