"""Logs in memory with a manual clock. The index counts its calls, and a test scripts the faults of commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.errors import OutcomeUnknown, Unavailable
from stratalog.log import Environment, Event, Log, LogSettings, create_log
from stratalog.ports.index import NO_BLOBS, Item, Write
from stratalog.testing.clock import ManualClock

ORGANISATION = "acme"
NAME = "plan"
DUE_SECONDS = 601

Mishap = Callable[["ScriptedIndex", Sequence[Write]], None]


class ScriptedIndex:
    """A memory index that counts its calls. A query counts once for each page of ``page_items`` items.

    If ``script`` has a mishap, a commit calls the mishap, which decides what is stored, and removes it from the script.
    """

    def __init__(self, backend: MemoryIndex | None = None, *, joint_commits: bool = True) -> None:
        self.backend = backend or MemoryIndex()
        self.joint_commits = joint_commits
        self.blob_bytes_max = self.backend.blob_bytes_max
        self.calls: Counter[str] = Counter()
        self.script: list[Mishap] = []
        self.before_page: list[Callable[[], None]] = []
        self.page_items = 100
        self.turns: list[str] = []
        self.grants_turns = False

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        self.calls["get"] += 1
        return self.backend.get(partition, sort)

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
        left = limit
        while left is None or left > 0:
            self.calls["query"] += 1
            size = self.page_items if left is None else min(left, self.page_items)
            if self.before_page:
                self.before_page.pop(0)()
            page = list(self.backend.query(partition, after=after, before=before, reverse=reverse, limit=size))
            yield from page
            if len(page) < size:
                return
            after, before = (after, page[-1].sort) if reverse else (page[-1].sort, before)
            left = None if left is None else left - size

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        self.calls["commit"] += 1
        if self.script:
            self.script.pop(0)(self, writes)
        else:
            self.backend.commit(writes, blobs)

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        self.turns.append(partition)
        return nullcontext(self.grants_turns)

    def close(self) -> None:
        self.backend.close()


def lost_request(index: ScriptedIndex, writes: Sequence[Write]) -> None:
    raise OutcomeUnknown("scripted")


def lost_answer(index: ScriptedIndex, writes: Sequence[Write]) -> None:
    index.backend.commit(writes)
    raise OutcomeUnknown("scripted")


def unavailable(index: ScriptedIndex, writes: Sequence[Write]) -> None:
    raise Unavailable("scripted")


def after(*steps: Callable[[], object]) -> Mishap:
    """Return a mishap that runs ``steps`` after the commit was sent and before it takes effect."""

    def mishap(index: ScriptedIndex, writes: Sequence[Write]) -> None:
        for step in steps:
            step()
        index.backend.commit(writes)

    return mishap


def answered_late(clock: ManualClock, seconds: float) -> Mishap:
    """Return a mishap whose commit takes effect immediately, and whose answer comes ``seconds`` later."""

    def mishap(index: ScriptedIndex, writes: Sequence[Write]) -> None:
        index.backend.commit(writes)
        clock.sleep(seconds)

    return mishap


def new_environment(**settings: Any) -> Environment:
    clock = ManualClock()
    return Environment(ScriptedIndex(), MemoryBlobs(clock), clock, LogSettings(**settings))


def behind(environment: Environment) -> Environment:
    """Return the environment of a process whose clock is 20 days behind."""
    clock = ManualClock()
    clock.set_wall(environment.clock.wall_ms() - 20 * 86_400_000)
    return Environment(environment.index, environment.blobs, clock, environment.settings)


def another(environment: Environment, *, joint_commits: bool = True, **settings: Any) -> Environment:
    """Return another process's environment over the same backends, with its own counts, script and caches."""
    index = ScriptedIndex(scripted(environment).backend, joint_commits=joint_commits)
    return Environment(
        index, environment.blobs, environment.clock, LogSettings(**settings) if settings else environment.settings
    )


def scripted(environment: Environment) -> ScriptedIndex:
    assert isinstance(environment.index, ScriptedIndex)
    return environment.index


def clock_of(environment: Environment) -> ManualClock:
    assert isinstance(environment.clock, ManualClock)
    return environment.clock


def new_log(kind: str = "log", **settings: Any) -> Log:
    return create_log(new_environment(**settings), ORGANISATION, NAME, kind)


def event(data: Any = None) -> Event:
    return Event("set", data)


def fill(log: Log, count: int) -> None:
    for _ in range(count):
        log.append(event(f"{log.record.name}:{log.head().version + 1}"))


def data(log: Log, after: int = 0, upto: int | None = None) -> list[Any]:
    return [entry.events[0].data for entry in log.read(after, upto)]


def calls_of(log: Log, act: Callable[[], object]) -> Counter[str]:
    """Run ``act`` and return the number of its index calls by name. Each page of a query is one call."""
    index = scripted(log.environment)
    index.calls.clear()
    act()
    return Counter(index.calls)
