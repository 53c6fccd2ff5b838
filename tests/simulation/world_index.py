"""The smallest world: several writers append to one gapless sequence, with only the index and a condition on each put.

The world tests the simulation itself. Its `append` shows in a few lines how the real log appends.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import ClassVar

import msgspec

from stratalog.clock import Clock, new_id
from stratalog.errors import ConditionFailed, OutcomeUnknown, StratalogError, Unavailable
from stratalog.keys import number, parse_number
from stratalog.ports.index import Absent, Attribute, Condition, Index, Item, Put
from stratalog.retry import Retry, RetryPolicy
from stratalog.testing.checkers import Answered, LoggedEntry, Violation
from stratalog.testing.history import APPEND_COLUMNS, History
from stratalog.testing.scheduler import Scheduler
from tests.simulation.actors import Turns
from tests.simulation.clusters import Cluster, Process
from tests.simulation.mutants import Mutant, replaced

__all__ = ["MUTANTS", "CounterWorld"]

PARTITION = "counter"
WRITES = 90
ATTEMPTS = (1, 3, 12)


class CounterWorld:
    """Writers append numbered entries, and sometimes read the head or the whole sequence."""

    columns: ClassVar[tuple[str, ...]] = (
        *APPEND_COLUMNS,
        "index.get",
        "index.query",
        "commits amid a query",
        "stale reads",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.cluster = Cluster(scheduler)
        self.history = History(scheduler)
        self.attempts_max = scheduler.random.choice(ATTEMPTS)
        writers = scheduler.random.randrange(2, 7)
        self.left = Turns({f"writer-{position}": WRITES // writers for position in range(writers)})
        for name in self.left:
            self.cluster.start(name, self.write)

    def write(self, process: Process) -> None:
        """Run one writer. The world counts its turns. After a crash, another process takes the remaining turns."""
        while self.left.take(process.name):
            self._append(process, 1_000 - self.left[process.name])
            if process.clock.random() < 0.2:
                self._read_head(process)
            if process.clock.random() < 0.05:
                self._read_all(process)

    def check(self) -> None:
        """Run all checkers of `History` on the sequence as the backend stores it."""
        self.history.check([_logged_entry(item) for item in self.cluster.index.query(PARTITION)])

    def _append(self, process: Process, count: int) -> None:
        write_id = new_id(process.clock)
        tell = partial(self.history.append, process.name, write_id, self.scheduler.steps)
        try:
            version = append(process.index, process.clock, Entry(process.name, write_id, count), self.attempts_max)
        except Unavailable:
            tell(Answered.REFUSED)
        except OutcomeUnknown:
            tell(Answered.UNKNOWN)
        else:
            tell(Answered.ACKNOWLEDGED, version)

    def _read_head(self, process: Process) -> None:
        sent = self.scheduler.steps
        try:
            version = head(process.index)
        except Unavailable:
            return
        self.history.head(sent, version)

    def _read_all(self, process: Process) -> None:
        """Read from a replica. The read must return each version at most once, and in order."""
        try:
            versions = [parse_number(item.sort) for item in process.index.query(PARTITION, consistent=False)]
        except Unavailable:
            return
        if len(set(versions)) < len(versions) or sorted(versions) != versions:
            raise Violation("order", "a query returned versions out of order", versions=versions)


class Entry(msgspec.Struct, frozen=True):
    """An entry that a writer appends, still without a version."""

    writer: str
    write_id: str
    number: int


def append(index: Index, clock: Clock, entry: Entry, attempts_max: int) -> int:
    """Append ``entry`` and return its version. Raises Unavailable (not written) or OutcomeUnknown (perhaps written)."""
    doubtful: set[int] = set()
    retry = Retry(clock, RetryPolicy(wait_seconds_first=0.01, wait_seconds_max=0.1))
    for _ in range(attempts_max):
        try:
            return settle_or_put(index, entry, doubtful)
        except (ConditionFailed, Unavailable, OutcomeUnknown):
            clock.sleep(retry.next_seconds())
    raise give_up(doubtful)


def settle_or_put(index: Index, entry: Entry, doubtful: set[int]) -> int:
    """Make one attempt.

    Read the head first. If an earlier put lands after that read, `put` fails or recognises the earlier put.
    """
    newest = head(index)
    return settled(index, entry, doubtful) or put(index, entry, newest + 1, doubtful)


def settled(index: Index, entry: Entry, doubtful: set[int]) -> int:
    """Return the version at which an earlier attempt succeeded, or 0 if no attempt did."""
    return next((version for version in sorted(doubtful) if is_own(_at(index, version), entry)), 0)


def put(index: Index, entry: Entry, version: int, doubtful: set[int]) -> int:
    """Put the entry at ``version`` if that version is free. ``doubtful`` is the set of versions in doubt."""
    attributes: dict[str, Attribute] = {"a": entry.writer, "w": entry.write_id, "n": entry.number}
    try:
        index.commit([Put(Item(PARTITION, number(version), attributes), condition())])
    except OutcomeUnknown:
        doubtful.add(version)
        raise
    except ConditionFailed as exc:
        doubtful.discard(version)
        if not is_own(exc.items[0], entry):
            raise
    return version


def head(index: Index) -> int:
    """Return the newest version, read consistently, or 0 if there is no version."""
    return next((parse_number(item.sort) for item in index.query(PARTITION, reverse=True, limit=1)), 0)


def condition() -> Condition | None:
    """Return the condition that fences an append."""
    return Absent()


def is_own(item: Item | None, entry: Entry) -> bool:
    """Return whether the item has the write id of ``entry``."""
    return item is not None and item.attributes["w"] == entry.write_id


def give_up(doubtful: set[int]) -> StratalogError:
    """Return the error of a writer that has used up its attempts: OutcomeUnknown if a write may have landed."""
    if doubtful:
        return OutcomeUnknown("the append may have been written", versions=sorted(doubtful))
    return Unavailable("the append was not written")


def _at(index: Index, version: int) -> Item | None:
    return index.get(PARTITION, number(version))


def _logged_entry(item: Item) -> LoggedEntry:
    attributes = item.attributes
    return LoggedEntry(parse_number(item.sort), str(attributes["a"]), str(attributes["w"]), int(attributes["n"]))


_THIS = sys.modules[__name__]

MUTANTS = (
    Mutant("index: condition dropped", CounterWorld, replaced(_THIS, "condition", lambda: None), ("acknowledged",)),
    Mutant("index: write id ignored", CounterWorld, replaced(_THIS, "is_own", lambda item, entry: False), ("once",)),
    Mutant(
        "index: doubt settled before the head is read",
        CounterWorld,
        replaced(
            _THIS,
            "settle_or_put",
            lambda index, entry, doubtful: (
                settled(index, entry, doubtful) or put(index, entry, head(index) + 1, doubtful)
            ),
        ),
        ("once",),
    ),
    Mutant(
        "index: doubt forgotten",
        CounterWorld,
        replaced(_THIS, "give_up", lambda doubtful: Unavailable("the append was not written")),
        ("refused",),
    ),
    Mutant(
        "index: head read from a replica",
        CounterWorld,
        replaced(
            _THIS,
            "head",
            lambda index: max(
                (parse_number(item.sort) for item in index.query(PARTITION, consistent=False)), default=0
            ),
        ),
        ("real-time",),
    ),
)
