"""The world of processes that share a file: lock files are real, and processes stop, crash and receive Ctrl-C.

Turns are only a hint, so a fault of the turnstile endangers no data. But turns must be useful. Only one process has the
turn, waiting processes get the turn in order, and no process waits longer than the bound. The docstring of
`stratalog.backends.turnstile` explains the door and the room.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, ClassVar

from stratalog.backends import turnstile
from stratalog.backends.turnstile import Turnstile
from stratalog.limits import TURN_WAIT_MS_MAX
from stratalog.testing.checkers import Violation
from stratalog.testing.scheduler import Actor, Crash, Scheduler, SimulatedClock
from tests.simulation.actors import Turns
from tests.simulation.mutants import Mutant, replaced
from tests.simulation.scratch import scratch_folder

__all__ = ["MUTANTS", "TurnsWorld"]

PASSES = 120
THREADS_MAX = 2
STOP_MS_MAX = 3_000
RATES = (0.0, 0.01, 0.04)


class Interrupted(BaseException):
    """The exception that Ctrl-C raises in the thread that receives it."""


class TurnsWorld:
    """Processes of one or two threads use the turnstile for transactions and turns."""

    columns: ClassVar[tuple[str, ...]] = (
        "turnstile.poll",
        "transactions",
        "turns",
        "passes before the limit",
        "passes after the limit",
        "stops",
        "crashes",
        "interrupts",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.stop_rate, self.crash_rate, self.interrupt_rate = (scheduler.random.choice(RATES) for _ in range(3))
        self.inside: tuple[_Process, str] | None = None
        self.next: _Process | None = None
        self.opened: list[_Process] = []
        self._folder, self._remove = scratch_folder(self, "turns")
        processes = scheduler.random.randrange(2, 5)
        self.left = Turns({f"process-{number}": PASSES // processes for number in range(processes)})
        for name in self.left:
            self._start(name)

    def check(self) -> None:
        """Check that a new process finds the turnstile free after all other processes have left."""
        self._start("newcomer")
        newcomer = self.opened[-1]
        try:
            if not newcomer.turnstile.enter():
                raise Violation("left locked", "the room is locked although all processes have left")
        finally:
            for process in self.opened:
                process.turnstile.close()
            self._remove()

    def restart(self, name: str) -> None:
        """After a random time, replace a crashed process. The new process does the rest of the work."""
        self.scheduler.counts.bump("crashes")
        self.scheduler.later(int(self.scheduler.random.random() * 100), lambda: self._start(name))

    def meets(self, rate: float) -> bool:
        """Return whether a fault of this rate happens now."""
        return self.scheduler.stormy and self.scheduler.random.random() < rate

    def _start(self, name: str) -> None:
        process = _Process(self, name, os.path.join(self._folder, "file"))
        self.opened.append(process)
        if name in self.left:
            for thread in range(1 + int(self.scheduler.random.random() * THREADS_MAX)):
                process.spawn(f"{name}/{thread}")


class _Process:
    """One process: its own turnstile, and threads that use the turnstile."""

    def __init__(self, world: TurnsWorld, name: str, path: str) -> None:
        self.world = world
        self.name = name
        self.clock = _Clock(world)
        self.turnstile = _Watched(self, path)
        self._writer = threading.Lock()
        self._actors: list[Actor] = []

    def spawn(self, name: str) -> None:
        self._actors.append(self.world.scheduler.spawn(name, self._main))

    def crash(self) -> None:
        """Crash the process: release its locks, as the operating system does. Its actors end at their next step."""
        world = self.world
        for actor in self._actors:
            actor.crashed = True
        self.turnstile.free()
        if world.inside is not None and world.inside[0] is self:
            world.inside = None
        if world.next is self:
            world.next = None
        world.restart(self.name)
        raise Crash

    def _main(self) -> None:
        world = self.world
        while world.left.take(self.name):
            with suppress(Interrupted):
                self._turn() if self.clock.random() < 0.3 else self._transact()
            world.scheduler.switch()

    def _transact(self) -> None:
        """Run a transaction as a group commit does. A process runs only one transaction at a time."""
        with self._writer:
            self.world.scheduler.counts.bump("transactions")
            in_turn = self.turnstile.in_turn
            entered = self.turnstile.enter()
            try:
                if entered and in_turn:
                    raise Violation(
                        "transaction in a turn",
                        "a transaction took locks although its process has a turn",
                        process=self.name,
                    )
                with self._granted("transaction") if entered else nullcontext():
                    self._work()
            finally:
                if entered:
                    self.turnstile.leave()

    def _turn(self) -> None:
        self.world.scheduler.counts.bump("turns")
        owns = not self.turnstile.in_turn
        with self.turnstile.turn() as has_turn, self._granted("turn") if has_turn and owns else nullcontext():
            self._work()
            self._transact()

    @contextmanager
    def _granted(self, what: str) -> Iterator[None]:
        """Check that no other process is in the room, and that no other process should have entered first."""
        world = self.world
        if world.inside is not None:
            raise Violation(
                "exclusion", "two processes are in the room", inside=world.inside[0].name, entering=self.name, what=what
            )
        if world.next not in (None, self):
            raise Violation(
                "order", "a process entered before the next process in order", next=world.next.name, entering=self.name
            )
        world.inside = (self, what)
        try:
            yield
        finally:
            if world.inside == (self, what):
                world.inside = None

    def _work(self) -> None:
        """Take a few steps. At each step the process may stop for a while, or crash."""
        world = self.world
        for _ in range(1 + int(self.clock.random() * 3)):
            world.scheduler.switch()
            if world.meets(world.crash_rate):
                self.crash()
            if world.meets(world.stop_rate):
                world.scheduler.counts.bump("stops")
                world.scheduler.sleep(int(STOP_MS_MAX * self.clock.random()))


class _Clock(SimulatedClock):
    """A clock whose `sleep` may raise Interrupted."""

    def __init__(self, world: TurnsWorld) -> None:
        super().__init__(world.scheduler)
        self._world = world

    def sleep(self, seconds: float) -> None:
        self._world.scheduler.calls += 1
        super().sleep(seconds)
        if self._world.meets(self._world.interrupt_rate):
            self._world.scheduler.counts.bump("interrupts")
            raise Interrupted


class _Watched(Turnstile):
    """A turnstile that checks the number of polls in each wait, and records which process should enter next."""

    def __init__(self, process: _Process, path: str) -> None:
        super().__init__(path, process.clock)
        self._process = process

    @property
    def in_turn(self) -> bool:
        """Return whether a thread of the process has a turn."""
        return self._in_turn

    def free(self) -> None:
        """Release all locks, as the operating system does for a process that has ended."""
        for locks in (self._transaction, self._turn):
            fcntl.flock(locks.door, fcntl.LOCK_UN)
            fcntl.flock(locks.room, fcntl.LOCK_UN)

    def _poll(self, file: int, deadline: int, ended: Callable[[], bool]) -> bool:
        world = self._process.world
        for_room = file in (self._transaction.room, self._turn.room)
        if for_room:
            world.next = self._process
        begun = world.scheduler.now_ms
        polls = 0

        def counted() -> bool:
            nonlocal polls
            polls += 1
            world.scheduler.counts.bump("turnstile.poll")
            if polls > TURN_WAIT_MS_MAX + 1:  # a simulated sleep takes at least 1 ms
                raise Violation("bounded wait", "a process polls for too long", process=self._process.name, polls=polls)
            return ended()

        try:
            got = super()._poll(file, deadline, counted)
        finally:
            if for_room and world.next is self._process:
                world.next = None
        waited = world.scheduler.now_ms - begun
        if not got and polls:
            world.scheduler.counts.bump("passes after the limit")
        if got and waited < TURN_WAIT_MS_MAX:
            world.scheduler.counts.bump("passes before the limit")
        return got


def _single_lock(self: Any, locks: Any, ended: Callable[[], bool]) -> bool:
    """The mutant of `Turnstile._wait` without a door."""
    deadline = self._clock.boot_ms() + TURN_WAIT_MS_MAX
    return bool(turnstile._try_lock(locks.room) or self._poll(locks.room, deadline, ended))


def _poll_on(self: Any, file: int, deadline: int, ended: Callable[[], bool]) -> bool:
    """The mutant of `Turnstile._poll` without a bound."""
    while not ended():
        self._clock.sleep(turnstile.POLL_SECONDS)
        if turnstile._try_lock(file):
            return True
    return False


def _hold_door(self: Any, locks: Any, ended: Callable[[], bool]) -> bool:
    """The mutant of `Turnstile._wait` that keeps the door locked after an interrupt."""
    deadline = self._clock.boot_ms() + TURN_WAIT_MS_MAX
    if not (turnstile._try_lock(locks.door) or self._poll(locks.door, deadline, ended)):
        return False
    got = turnstile._try_lock(locks.room) or self._poll(locks.room, deadline, ended)
    fcntl.flock(locks.door, fcntl.LOCK_UN)
    return bool(got)


def _shared_locks(self: Any) -> bool:
    """The mutant of `Turnstile.enter` that ignores a turn of its own process."""
    return bool(self._wait(self._turn, self._is_closed))


_planted: Callable[..., Mutant] = partial(Mutant, world=TurnsWorld)
MUTANTS = (
    _planted("turns: no door", apply=replaced(Turnstile, "_wait", _single_lock), caught_by=("order",)),
    _planted("turns: no bound", apply=replaced(Turnstile, "_poll", _poll_on), caught_by=("bounded wait",)),
    _planted(
        "turns: door kept by an interrupt",
        apply=replaced(Turnstile, "_wait", _hold_door),
        caught_by=("left locked",),
    ),
    _planted(
        "turns: transaction outside its turn",
        apply=replaced(Turnstile, "enter", _shared_locks),
        caught_by=("transaction in a turn", "exclusion"),
    ),
    _planted(
        "turns: no lock at all",
        apply=replaced(turnstile, "_try_lock", lambda file: True),
        caught_by=("exclusion",),
    ),
)
