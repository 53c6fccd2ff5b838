"""The world of the collector: documents whose large values come, go and come back, beside one that deletes blobs.

Half the values are drawn from a few texts, so that a hash is orphaned at one moment and put again at the next. Clocks
advance by minutes between calls, so that blobs grow old enough to be collected while writers are still on their way.

A writer that was frozen for longer than the rule allows *and* crashes before it has put its blobs again is beyond what
the rule promises (DESIGN §5); a seed has freezes or crashes, not both.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from stratalog.documents import Document, verify
from stratalog.errors import Conflict, Corrupt, NotFound, OutcomeUnknown, StratalogError, Unavailable
from stratalog.log import Place as LogPlace
from stratalog.log import Settings, create_log, open_log, upload
from stratalog.log.retention import free_segments
from stratalog.operations import collect
from stratalog.ports.blobs import BlobStat
from stratalog.protocol import Mutation
from stratalog.testing.actors import Turns, choose, log_place
from stratalog.testing.checkers import Violation
from stratalog.testing.faults import FAULT_RATES, draw_weather
from stratalog.testing.mutants import Mutant, replaced
from stratalog.testing.places import Place, Process
from stratalog.testing.scheduler import Scheduler

__all__ = ["MUTANTS", "CollectWorld"]

ORGANISATION = "acme"
NAME = "budget"
SETTINGS = Settings(segment_entries_target=6, snapshot_entries_interval=4, body_inline_bytes_max=400)
TEXTS = tuple(f"{place}" * 1100 for place in range(4))
KEYS = ("notes/a", "notes/b", "plans/c")
FURNITURE = tuple(f"{key}{place}" for key in KEYS for place in range(40))
FREEZE_RATE = 0.01
TURNS = {"writer-a": 16, "writer-b": 16, "keeper": 14, "forker": 2, "collector": 14}
PAUSE_SECONDS_MAX = 900.0
BURST_SECONDS_MAX = 0.1


class CollectWorld:
    """Writers, a keeper of history, a forker and a collector over the blobs of one family."""

    columns: ClassVar[tuple[str, ...]] = ("collected blobs", "collections", "forks", "floors", "snapshots", "archives")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        weather = draw_weather(scheduler.random)
        freezes = scheduler.random.random() < 0.7
        rates = dict.fromkeys((rate for rate in FAULT_RATES if rate.startswith("crash" if freezes else "freeze")), 0.0)
        if freezes:
            rates |= {"freeze_before": FREEZE_RATE, "freeze_after": FREEZE_RATE}
        self.place = Place(scheduler, msgspec.structs.replace(weather, **rates))
        self.left = Turns(TURNS)
        self.forks: list[str] = []
        self._furnish(Document(create_log(log_place(self.place, SETTINGS), ORGANISATION, NAME, "document")))
        for name in ("writer-a", "writer-b"):
            self.place.start(name, self.write)
        self.place.start("keeper", self.keep)
        self.place.start("forker", self.fork)
        self.place.start("collector", self.collect)

    def write(self, process: Process) -> None:
        """Put one of a few large texts under one of a few keys, or delete it."""
        changing = _document(process, NAME)
        while self._next(process):
            key, text = choose(process.clock, KEYS), _text(process)
            name, args = ("del", {"key": key}) if process.clock.random() < 0.3 else ("put", {"key": key, "value": text})
            self._try(lambda name=name, args=args: changing.mutate(name, args, client=process.name))

    def keep(self, process: Process) -> None:
        """Archive, free, and forget all but the newest versions."""
        kept = _document(process, NAME)
        while self._next(process):
            self._try(kept.archive)
            self._try(lambda: free_segments(kept.log))
            if process.clock.random() < 0.6:
                self._try(lambda: self._forget(kept))
        self.scheduler.counts.bump("archives", kept.log.place.counters["archive"])

    def fork(self, process: Process) -> None:
        """Fork the newest version and change the copy, whose blobs are the family's."""
        while self._next(process):
            name = f"copy-{self.left[process.name]}"
            self._try(lambda name=name: self._fork(process, name))

    def collect(self, process: Process) -> None:
        """Collect, again and again."""
        place = log_place(process, SETTINGS)
        owner = open_log(log_place(self.place, SETTINGS), ORGANISATION, NAME).record.owner
        while self._next(process):
            self._try(lambda: self._collect(place, owner))

    def check(self) -> None:
        """Whatever history still holds can be read, value by value, and rebuilt to the same roots."""
        for name in (NAME, *self.forks):
            try:
                self._check(name)
            except Corrupt as exc:
                raise Violation("nothing dangling", str(exc), document=name) from exc
            except NotFound as exc:
                raise Violation("history kept", str(exc), document=name) from exc

    def _check(self, name: str) -> None:
        found = Document(open_log(log_place(self.place, SETTINGS), ORGANISATION, name))
        self.scheduler.counts.bump("snapshots", verify(found).snapshots)
        oldest = max(found.log.floor(), found.log.first)
        for version in range(max(oldest, 1), found.version + 1):
            found.at(version).whole()
        for _ in found.versions(oldest):
            pass

    def _furnish(self, empty: Document) -> None:
        """Enough small values that the content is more than one chunk, and a snapshot has chunks to write."""
        empty.apply(
            [Mutation(client="setup", name="put", args={"key": key, "value": "small" * 20}) for key in FURNITURE]
        )

    def _forget(self, kept: Document) -> None:
        version = kept.version - 3
        if version > 0:
            kept.forget_below(version, lambda floor: None)
            self.scheduler.counts.bump("floors")

    def _fork(self, process: Process, name: str) -> None:
        copy = _document(process, NAME).fork(name)
        self.forks.append(name)
        self.scheduler.counts.bump("forks")
        for _ in range(3):
            self._pause(process)
            copy.mutate("put", {"key": choose(process.clock, KEYS), "value": _text(process)}, client="forker")

    def _collect(self, place: LogPlace, owner: str) -> None:
        found = collect.collect_family(place, owner)
        self.scheduler.counts.bump("collections")
        self.scheduler.counts.bump("collected blobs", len(found.garbage))

    def _next(self, process: Process) -> bool:
        self._pause(process)
        return self.left.take(process.name)

    def _pause(self, process: Process) -> None:
        """Bursts, so that actors meet, and long pauses between them, so that blobs grow old."""
        long = process.clock.random() < 0.3
        process.clock.sleep((PAUSE_SECONDS_MAX if long else BURST_SECONDS_MAX) * process.clock.random())

    def _try(self, action: object) -> None:
        """Faults end one try, not the actor; damage is what the world is about."""
        try:
            action()  # type: ignore[operator]
        except (Unavailable, OutcomeUnknown, Conflict, NotFound):
            self.scheduler.counts.bump("tries failed")
        except Corrupt as exc:
            raise Violation("nothing dangling", str(exc)) from exc


def _document(process: Process, name: str) -> Document:
    """The document, once the line allows to open it."""
    while True:
        try:
            return Document(open_log(log_place(process, SETTINGS), ORGANISATION, name))
        except StratalogError:
            process.clock.sleep(1)


def _text(process: Process) -> str:
    """One of a few texts, which come back, or one that nobody else will ever put."""
    if process.clock.random() < 0.5:
        return choose(process.clock, TEXTS)
    return f"{process.clock.random()} " * 100


def _delete_unseen(place: LogPlace, stat: BlobStat) -> bool:
    """The mutant of `collect._delete` that takes whatever generation stands there."""
    again = place.blobs.stat(stat.key)
    return again is not None and place.blobs.delete(stat.key, again.stamp)


DANGLING = ("nothing dangling", "history kept")
MUTANTS = (
    Mutant(
        "observation rule ignored (blobs)", CollectWorld, replaced(collect, "OBSERVATION_SECONDS_MAX", -301), DANGLING
    ),
    Mutant("blob deleted without its stamp", CollectWorld, replaced(collect, "_delete", _delete_unseen), DANGLING),
    Mutant("late commit leaves its blobs unput", CollectWorld, replaced(upload, "GRACE_SECONDS", 10**9), DANGLING),
)
