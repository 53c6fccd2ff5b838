"""A deterministic scheduler: many actors in one thread, switched at every port call in an order that a seed decides.

An actor is plain synchronous code on a greenlet. Whatever it does between two calls of :meth:`Scheduler.switch` is one
atomic step, so code under simulation must do its I/O through the simulated ports only and must not start threads.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from contextlib import suppress

from greenlet import GreenletExit, getcurrent, greenlet

from stratalog.testing.checkers import Violation

__all__ = ["Actor", "Counts", "Crash", "Interrupt", "Scheduler", "SimulatedClock"]

STEPS_MAX = 50_000
STEP_MS_MAX = 20
START_MS = 1_750_000_000_000
FAIR_RATE = 0.03
JUMP_RATE = 0.01


class Crash(BaseException):
    """The process of the actor that gets it is gone. No code under simulation may catch it."""


class Interrupt(BaseException):
    """The thread of the actor ``victim`` is interrupted, as by KeyboardInterrupt. Nobody else may ever get it."""

    def __init__(self, victim: Actor) -> None:
        super().__init__(f"{victim.name} is interrupted")
        self.victim = victim


class Counts:
    """How often what happened, by name."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def bump(self, name: str, count: int = 1) -> None:
        self.values[name] = self.values.get(name, 0) + count

    def get(self, name: str) -> int:
        return self.values.get(name, 0)


class Actor:
    """One line of execution. ``crashed`` makes its next step a Crash, ``interrupt`` an Interrupt."""

    __slots__ = ("background", "crashed", "greenlet", "interrupt", "name", "number", "parked", "priority")

    def __init__(self, name: str, number: int, priority: float, background: bool) -> None:
        self.name = name
        self.number = number
        self.priority = priority
        self.background = background
        self.crashed = False
        self.interrupt: Interrupt | None = None
        self.parked = False
        self.greenlet: greenlet


class Scheduler:
    """Runs actors until all but those in the background have ended and nothing is on its way any more.

    ``tell`` gets a line for every step, for reading a failing seed. Time is simulated: a step takes a few
    milliseconds, and when every actor sleeps it jumps to the first that wakes. ``calls`` counts port calls; ``stormy``
    says whether faults may still happen; ``yield_rate`` is the share of yield points that are taken.
    """

    def __init__(self, seed: int, report: Callable[[str], None] | None = None) -> None:
        self.random = random.Random(seed)
        self.counts = Counts()
        self.current: Actor | None = None
        self.now_ms = 0
        self.steps = 0
        self.calls = 0
        self.stormy = True
        self.report = report
        self.yield_rate = 0.0
        self._draw = self.random.random
        self._hub = getcurrent()
        self._ready: list[Actor] = []
        self._waiting: list[tuple[int, int, Actor | Callable[[], None]]] = []
        self._live: set[Actor] = set()
        self._made = 0
        self._awaited = 0
        self._digest = seed
        self._closing = False
        self._failure: Violation | None = None
        self._lowest = 0.0
        self._stay_rate = 1 - 0.3 * self._draw() ** 2
        self._pick = (self._uniform, self._stay, self._lockstep, self._priorities)[int(self._draw() * 4)]

    def spawn(self, name: str, function: Callable[[], None], *, background: bool = False) -> Actor:
        """Start an actor. The run does not wait for one in the background; it is ended with the others."""
        self._made += 1
        actor = Actor(name, self._made, self._draw(), background)
        actor.greenlet = greenlet(lambda: self._main(actor, function), self._hub)
        self._live.add(actor)
        self._ready.append(actor)
        self._awaited += not background
        return actor

    def later(self, delay_ms: int, function: Callable[[], None]) -> None:
        """Call ``function``, which must not switch, when that much time has passed. The run waits for it."""
        self._awaited += 1
        self._wait(delay_ms, function)

    def run(self) -> None:
        """Run until nothing is awaited. Raises what an actor raised; Violation("progress") for a run without end."""
        try:
            while (actor := self._next()) is not None:
                self.current = actor
                actor.greenlet.switch()
                self.current = None
            if self._failure is not None:
                raise self._failure
        finally:
            self._end_all()

    def switch(self) -> None:
        """Let the scheduler choose who goes on. Outside any actor (set-up, checks) it does nothing."""
        actor = self.current
        if actor is not None:
            self._check(actor)
            self.now_ms += 1 + int(self._draw() * STEP_MS_MAX)
            self._go(actor)
            self._deliver(actor)

    def yield_here(self) -> None:
        """A point between two port calls: by chance another goes on. No time passes, and no interrupt comes here."""
        actor = self.current
        if actor is not None and not self._closing and self._draw() < self.yield_rate:
            self._go(actor)

    def interrupt(self, actor: Actor) -> None:
        """Interrupt an actor at its next step, or now where it waits for a lock. A sleeper wakes in its time."""
        actor.interrupt = Interrupt(actor)
        if actor.parked:
            self.wake(actor)

    def sleep(self, duration_ms: int) -> None:
        """Park the actor for that long. Outside any actor the time just passes."""
        actor = self.current
        if actor is None:
            self.now_ms += duration_ms
            return
        self._check(actor)
        self._ready.remove(actor)
        self._wait(duration_ms, actor)
        self._go(actor)
        self._deliver(actor)

    def parking(self) -> Actor:
        """The actor that is about to park. Outside any actor nobody could wake it."""
        if self.current is None:
            raise RuntimeError("set-up and checks cannot wait for an actor")
        return self.current

    def park(self) -> None:
        """Take the actor out until :meth:`wake`."""
        actor = self.parking()
        self._check(actor)
        self._ready.remove(actor)
        actor.parked = True
        self._go(actor)
        self._deliver(actor)

    def wake(self, actor: Actor) -> None:
        """Let a parked actor go on, unless it has ended or was woken before."""
        if actor in self._live and actor.parked:
            actor.parked = False
            self._ready.append(actor)

    def calm(self) -> None:
        """No more faults from here on, so that the run comes to rest."""
        self.stormy = False

    def fail(self, violation: Violation) -> None:
        """End the run with what was seen amid it, where nobody could raise it."""
        self._failure = self._failure or violation

    def fingerprint(self) -> str:
        """Equal for two runs that took the same steps at the same times and drew the same numbers."""
        return f"{self._digest:016x}-{self.now_ms}-{hash(self.random.getstate()[1]) & 0xFFFFFFFF:08x}"

    def _go(self, actor: Actor) -> None:
        """Leave ``actor`` for whoever is next, and come back when it is chosen again."""
        chosen = self._next()
        if chosen is not actor:
            if chosen is None:
                self._hub.switch()
            else:
                self.current = chosen
                chosen.greenlet.switch()
            self._check(actor)

    def deliver(self) -> None:
        """Raise the interrupt that waits for the current actor, if there is one."""
        if self.current is not None:
            self._deliver(self.current)

    def _deliver(self, actor: Actor) -> None:
        interrupt, actor.interrupt = actor.interrupt, None
        if interrupt is not None:
            self.counts.bump("interrupts")
            raise interrupt

    def _check(self, actor: Actor) -> None:
        if self._closing:
            raise GreenletExit
        if actor.crashed:
            raise Crash

    def _next(self) -> Actor | None:
        """The actor that runs now; None when the run is over."""
        waiting = self._waiting
        while self._awaited and self._failure is None:
            if not self._ready and waiting:
                self.now_ms = max(self.now_ms, waiting[0][0])
            while waiting and waiting[0][0] <= self.now_ms:
                self._wake(heapq.heappop(waiting)[2])
            if self._ready:
                return self._chosen()
            if self._awaited and not waiting:
                self._failure = Violation("progress", "every actor waits for another", step=self.steps)
        return None

    def _chosen(self) -> Actor:
        self.steps += 1
        if self.steps == STEPS_MAX:
            self._failure = Violation("progress", "the run does not come to rest", steps=self.steps)
        actor = self._ready[0] if len(self._ready) == 1 else self._pick()
        self._digest = (self._digest * 1_000_003 ^ actor.number ^ self.now_ms) & 0xFFFFFFFFFFFFFFFF
        return actor

    def _wait(self, delay_ms: int, what: Actor | Callable[[], None]) -> None:
        self._made += 1
        heapq.heappush(self._waiting, (self.now_ms + delay_ms, self._made, what))

    def _wake(self, what: Actor | Callable[[], None]) -> None:
        if isinstance(what, Actor):
            self._ready.append(what)
            return
        self._awaited -= 1
        actor, self.current = self.current, None
        what()
        self.current = actor

    def _main(self, actor: Actor, function: Callable[[], None]) -> None:
        try:
            function()
        except Crash:
            pass
        except Exception as exc:
            exc.add_note(f"in actor {actor.name} at step {self.steps}")
            raise
        finally:
            self._live.discard(actor)
            if actor in self._ready:
                self._ready.remove(actor)
            self._awaited -= not actor.background

    def _end_all(self) -> None:
        """End what still stands, with no step of its own: GreenletExit now and at every further call."""
        self._closing = True
        for actor in sorted(self._live, key=lambda actor: actor.number):
            self.current = actor
            with suppress(Exception, Crash):
                actor.greenlet.throw(GreenletExit)
        self.current = None
        self._live.clear()
        self._ready.clear()
        self._waiting.clear()
        self._awaited = 0
        self._closing = False

    def _uniform(self) -> Actor:
        return self._ready[int(self._draw() * len(self._ready))]

    def _stay(self) -> Actor:
        """One actor for long, then another: finds what goes wrong when much happens between two steps of another."""
        actor = self.current
        if actor is not None and self._draw() < self._stay_rate and actor in self._ready:
            return actor
        return self._uniform()

    def _lockstep(self) -> Actor:
        """All in turn: finds what goes wrong when all do the same at the same time."""
        self._ready.append(self._ready.pop(0))
        return self._ready[-1]

    def _priorities(self) -> Actor:
        """The highest priority runs, with a change now and then; a few fair picks keep a spinning actor from blocking.

        After Burckhardt et al., “A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs”, ASPLOS 2010.
        """
        chance = self._draw()
        if chance < FAIR_RATE:
            return self._uniform()
        actor = max(self._ready, key=_priority)
        if chance < 2 * FAIR_RATE:
            self._lowest -= 1
            actor.priority = self._lowest
        return actor


class SimulatedClock:
    """A clock of one process: its wall clock is off by ``skew_ms`` and may jump; its boot clock only goes on."""

    def __init__(self, scheduler: Scheduler, *, boot_ms: int = 0, skew_ms: int = 0, jump_ms_max: int = 0) -> None:
        self._scheduler = scheduler
        self._boot_ms = boot_ms
        self._skew_ms = skew_ms
        self._jump_ms_max = jump_ms_max
        self._random = scheduler.random

    def wall_ms(self) -> int:
        if self._jump_ms_max and self._scheduler.stormy and self._random.random() < JUMP_RATE:
            self._skew_ms = int((2 * self._random.random() - 1) * self._jump_ms_max)
            self._scheduler.counts.bump("clock jumps")
        return START_MS + self._scheduler.now_ms + self._skew_ms

    def boot_ms(self) -> int:
        return self._boot_ms + self._scheduler.now_ms

    def sleep(self, seconds: float) -> None:
        self._scheduler.sleep(max(1, round(seconds * 1000)))

    def random(self) -> float:
        return self._random.random()

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


def _priority(actor: Actor) -> float:
    return actor.priority
