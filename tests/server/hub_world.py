"""A simulation of hubs: several server processes use one store. Their hints may be lost, repeated or late.

Each process has a `Hub` with listeners, and makes commits. With half of the seeds (``with_hints``), no hint is lost,
every commit sends a hint, and the hubs never poll. So the hints alone must bring every listener to the newest version.
With the other seeds, hints are lost at random, and a program without a server commits too. So polling must bring every
listener to the newest version.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.errors import NotFound
from stratalog.log import Environment, delete_log
from stratalog.ports.announcements import Heard
from stratalog.protocol.live import Gone, Poke, Ready
from stratalog.server.application import ServerLimits
from stratalog.server.hub import Hub, Listener
from stratalog.server.metrics import Metrics
from stratalog.server.pools import Pools
from stratalog.store import Store
from stratalog.testing.checkers import Violation
from stratalog.testing.clock import ManualClock
from tests.server.jumping_loop import run_jumping

__all__ = ["run_hubs"]

ORGANISATION = "acme"
NAMES = ("plan", "budget")
STEPS = 40
LATE_SECONDS_MAX = 2.0
POLL_SECONDS = 5.0
NEVER_SECONDS = 10**6
CALM_SECONDS = 60.0

T = TypeVar("T")


def run_hubs(seed: int) -> Counter[str]:
    """Run the simulation of a seed, and return the counts of its events. Raises Violation."""
    world = _World(seed)
    try:
        run_jumping(world.run())
    except Violation as violation:
        violation.add_note(f"seed {seed}")
        raise
    return world.counts


class _SlowPools:
    """Runs each call after a pause, and returns the result after another pause, as threads do."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.polling = self

    async def run(self, call: Callable[[], T]) -> T:
        await asyncio.sleep(self._chance.random() / 10)
        try:
            return call()
        finally:
            await asyncio.sleep(self._chance.random() / 10)


class _Hints:
    """The announcements of one process."""

    def __init__(self, world: _World) -> None:
        self._world = world
        self.heard: Heard = lambda organisation, name: None

    def announce(self, organisation: str, name: str) -> None:
        for other in self._world.hints:
            if other is not self:
                self._world.send(other, organisation, name)

    def listen(self, heard: Heard) -> None:
        self.heard = heard

    def close(self) -> None:
        self.heard = lambda organisation, name: None


class _World:
    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._clock = ManualClock(seed=seed)
        self.with_hints = seed % 2 == 0
        self.counts: Counter[str] = Counter()
        self.hints: list[_Hints] = []
        self._ports = MemoryIndex(), MemoryBlobs(self._clock)
        self._stores = [self._store() for _ in range(3)]
        limits = ServerLimits(live_poll_seconds=NEVER_SECONDS if self.with_hints else POLL_SECONDS)
        pools = cast(Pools, _SlowPools(self._chance))
        self._hubs = [Hub(store, limits, Metrics(store.environment), pools) for store in self._stores]
        self._listening: list[_Listening] = []
        self._joins: list[asyncio.Task[None]] = []

    def _store(self) -> Store:
        self.hints.append(_Hints(self))
        environment = Environment(*self._ports, self._clock)
        return Store(environment, MemoryQueue(self._clock), announcements=self.hints[-1])

    def send(self, target: _Hints, organisation: str, name: str) -> None:
        """Deliver a hint, often late and sometimes twice. Without ``with_hints``, sometimes do not deliver the hint."""
        copies = self._chance.choices([1, 2, 0], [80, 15, 0 if self.with_hints else 30])[0]
        self.counts["lost" if not copies else "hints"] += 1
        for _ in range(copies):
            late = self._chance.random() * LATE_SECONDS_MAX * self._chance.choice([0, 1])
            asyncio.get_running_loop().call_later(late, lambda: target.heard(organisation, name))

    async def run(self) -> None:
        for name in NAMES:
            self._stores[0].create(ORGANISATION, name)
        watches = [asyncio.create_task(hub.watch()) for hub in self._hubs]
        turns = [(self._commit, 50), (self._join, 20), (self._leave, 8)]
        if not self.with_hints:
            turns += [(self._commit_elsewhere, 10), (self._make_again, 4)]
        await asyncio.sleep(1)
        for _ in range(STEPS):
            (turn,) = self._chance.choices(*zip(*turns, strict=True))
            turn()
            self.counts[turn.__name__] += 1
            await asyncio.sleep(self._chance.random() * self._chance.choice([0, 0.1, 3]))
        await asyncio.gather(*self._joins)
        await asyncio.sleep(CALM_SECONDS)
        for listening in self._listening:
            listening.check()
        for task in [*watches, *(listening.task for listening in self._listening)]:
            task.cancel()

    def head(self, name: str) -> tuple[str, int]:
        """Return the incarnation and the newest version of a document."""
        log = self._stores[0].log(ORGANISATION, name)
        return log.record.incarnation, log.head().version

    def _commit(self) -> None:
        number, name = self._chance.randrange(len(self._hubs)), self._chance.choice(NAMES)
        self._hubs[number].poke(ORGANISATION, name, _mutate(self._stores[number], name))

    def _commit_elsewhere(self) -> None:
        _mutate(self._stores[0], self._chance.choice(NAMES))

    def _make_again(self) -> None:
        name = self._chance.choice(NAMES)
        delete_log(self._stores[0].log(ORGANISATION, name))
        self._stores[0].create(ORGANISATION, name)

    def _join(self) -> None:
        hub, name = self._chance.choice(self._hubs), self._chance.choice(NAMES)
        self._joins.append(asyncio.create_task(self._join_hub(hub, name)))

    async def _join_hub(self, hub: Hub, name: str) -> None:
        with suppress(NotFound):
            self._listening.append(_Listening(self, hub, name, await hub.join(ORGANISATION, name)))

    def _leave(self) -> None:
        if self._listening:
            self._listening.pop(self._chance.randrange(len(self._listening))).leave()


class _Listening:
    """A listener, and the version that its messages have reported."""

    def __init__(self, world: _World, hub: Hub, name: str, listener: Listener) -> None:
        self._world = world
        self._hub = hub
        self._name = name
        self._listener = listener
        self._incarnation = listener._room.log.record.incarnation
        self._version = -1
        self._is_gone = False
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while not self._is_gone:
            for frame in await self._listener.next():
                self._take(frame.message)

    def _take(self, message: Any) -> None:
        if isinstance(message, Gone):
            self._is_gone = True
        elif isinstance(message, Ready | Poke):
            if isinstance(message, Poke) and self._world.with_hints and message.version <= self._version:
                self._fail("a version was reported twice", reported=message.version)
            self._version = max(self._version, message.version)

    def leave(self) -> None:
        self.task.cancel()
        self._hub.leave(self._listener)

    def check(self) -> None:
        """Check that the listener got the newest version, or the message that its document is gone."""
        if self.task.done() and not self._is_gone:
            self.task.result()
        incarnation, version = self._world.head(self._name)
        if self._is_gone != (incarnation != self._incarnation):
            self._fail("the listener and the store disagree about the deletion of the document")
        if not self._is_gone and self._version < version:
            self._fail("the listener did not get the newest version", newest=version)

    def _fail(self, what: str, **facts: Any) -> None:
        raise Violation("listener", what, name=self._name, known=self._version, hints=self._world.with_hints, **facts)


def _mutate(store: Store, name: str) -> int:
    version = store.document(ORGANISATION, name).mutate("inc", {"key": "n"}).version
    assert version is not None
    return version
