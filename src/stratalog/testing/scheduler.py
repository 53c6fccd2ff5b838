"""A deterministic scheduler of many actors in one thread. A seed decides which actor runs after each port call.

An actor is plain synchronous code on a greenlet. An actor's code between two calls of `switch`, `sleep`, `park` or
`yield_here` of the :class:`Scheduler` is one atomic step. So code under simulation must do its I/O only through the
simulated ports, and must not start threads.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from contextlib import suppress

from stratalog.extras import needs_extra
from stratalog.testing.checkers import Violation

with needs_extra("testing", "the simulated scheduler"):
    from greenlet import GreenletExit, getcurrent, greenlet

__all__ = ["Actor", "Counts", "Crash", "Interrupt", "Scheduler", "SimulatedClock"]

STEPS_MAX = 50_000
STEP_MS_MAX = 20
START_MS = 1_750_000_000_000
FAIR_RATE = 0.03
JUMP_RATE = 0.01


class Crash(BaseException):
    """Raised in an actor whose process has crashed. No code under simulation may catch it."""


class Interrupt(BaseException):
    """Raised in the actor ``victim``, like KeyboardInterrupt in a thread. Must never reach another actor."""

    def __init__(self, victim: Actor) -> None:
        super().__init__(f"{victim.name} is interrupted")
        self.victim = victim


class Counts:
    """Counters of events, by name."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def bump(self, name: str, count: int = 1) -> None:
        self.values[name] = self.values.get(name, 0) + count

    def get(self, name: str) -> int:
        return self.values.get(name, 0)


class Actor:
    """One simulated thread. Its next step raises Crash if ``crashed`` is set, or the ``interrupt`` if there is one."""

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
    """Runs actors until all foreground actors have ended and all functions given to `later` have been called.

    The simulated ports call ``report`` with a line for every call, for debugging a failing seed. Time is simulated: a
    step takes up to `STEP_MS_MAX` milliseconds. When every actor sleeps, time jumps to the first wake-up. ``calls``
    counts port calls. While ``stormy`` is True, faults may happen. ``yield_rate`` is the probability of a switch in a
    call of `yield_here`.
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
        """Start an actor. The run does not wait for a background actor. The end of the run ends the actor."""
        self._made += 1
        actor = Actor(name, self._made, self._draw(), background)
        actor.greenlet = greenlet(lambda: self._main(actor, function), self._hub)
        self._live.add(actor)
        self._ready.append(actor)
        self._awaited += not background
        return actor

    def later(self, delay_ms: int, function: Callable[[], None]) -> None:
        """Call ``function`` after ``delay_ms``, outside any actor. The run waits for the call.

        ``function`` must not call `switch`.
        """
        self._awaited += 1
        self._wait(delay_ms, function)

    def run(self) -> None:
        """Run until the foreground actors and the calls of `later` are done.

        Raises an actor's exception, or the violation given to `fail`. Raises Violation("progress") if all actors wait
        for each other, or after `STEPS_MAX` steps.
        """
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
        """Take a step: let the scheduler choose the next actor. Outside any actor (set-up, checks) it does nothing.

        Raises Crash if the actor has crashed, and its Interrupt if it has one.
        """
        actor = self.current
        if actor is not None:
            self._check(actor)
            self.now_ms += 1 + int(self._draw() * STEP_MS_MAX)
            self._go(actor)
            self._deliver(actor)

    def yield_here(self) -> None:
        """With probability ``yield_rate``, let another actor run. No time passes, and no interrupt is raised here."""
        actor = self.current
        if actor is not None and not self._closing and self._draw() < self.yield_rate:
            self._go(actor)

    def interrupt(self, actor: Actor) -> None:
        """Raise an Interrupt in an actor at its next step. The call wakes a parked actor, but no sleeping actor."""
        actor.interrupt = Interrupt(actor)
        if actor.parked:
            self.wake(actor)

    def sleep(self, duration_ms: int) -> None:
        """Suspend the current actor for ``duration_ms``. Outside any actor only the time passes."""
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
        """Return the current actor, which is about to park. Raises RuntimeError outside any actor."""
        if self.current is None:
            raise RuntimeError("set-up and checks cannot wait for an actor")
        return self.current

    def park(self) -> None:
        """Suspend the current actor until :meth:`wake`."""
        actor = self.parking()
        self._check(actor)
        self._ready.remove(actor)
        actor.parked = True
        self._go(actor)
        self._deliver(actor)

    def wake(self, actor: Actor) -> None:
        """Resume a parked actor. Does nothing for an actor that has ended or is not parked."""
        if actor in self._live and actor.parked:
            actor.parked = False
            self._ready.append(actor)

    def calm(self) -> None:
        """End all faults, so that the actors can finish."""
        self.stormy = False

    def fail(self, violation: Violation) -> None:
        """End the run with a violation, from code whose exceptions do not reach `run`. Only the first call counts."""
        self._failure = self._failure or violation

    def fingerprint(self) -> str:
        """Return a text that is equal for two runs with the same steps, times and random numbers."""
        return f"{self._digest:016x}-{self.now_ms}-{hash(self.random.getstate()[1]) & 0xFFFFFFFF:08x}"

    def _go(self, actor: Actor) -> None:
        """Switch from ``actor`` to the next actor, and return when ``actor`` is chosen again."""
        chosen = self._next()
        if chosen is not actor:
            if chosen is None:
                self._hub.switch()
            else:
                self.current = chosen
                chosen.greenlet.switch()
            self._check(actor)

    def deliver(self) -> None:
        """Raise the pending interrupt of the current actor, if it has one."""
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
        """Choose the next actor to run; None when the run is over."""
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
        """End the remaining actors without further steps. Each actor gets GreenletExit now and at each later call."""
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
        """Run one actor for many steps, then another actor.

        This strategy finds faults that need many steps of other actors between two steps of one actor.
        """
        actor = self.current
        if actor is not None and self._draw() < self._stay_rate and actor in self._ready:
            return actor
        return self._uniform()

    def _lockstep(self) -> Actor:
        """Run all actors in turn.

        The strategy finds faults that need all actors to take the same step at the same time.
        """
        self._ready.append(self._ready.pop(0))
        return self._ready[-1]

    def _priorities(self) -> Actor:
        """Run the actor of the highest priority, and at times lower its priority below all others.

        A few uniform choices keep a spinning actor from blocking the others. The method is by Burckhardt et al., “A
        Randomized Scheduler with Probabilistic Guarantees of Finding Bugs”, ASPLOS 2010.
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
    """The clock of one process. Its wall clock is off by ``skew_ms`` and may jump; its boot clock is steady.

    A jump sets the wall clock's error to a random value of at most ``jump_ms_max``. No jump happens after faults have
    ended.
    """

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
