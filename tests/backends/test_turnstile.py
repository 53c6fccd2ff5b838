"""With a turnstile, processes that share a file exclude each other, enter in order, and never wait long.

A file lock belongs to the descriptor that took it, so two turnstiles of one process behave like two processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import _GeneratorContextManager
from functools import partial
from itertools import count
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from stratalog.backends.sqlite import SqliteDatabase
from stratalog.backends.sqlite_file import _GroupWriter
from stratalog.backends.turnstile import Turnstile
from stratalog.errors import Closed, Unavailable
from stratalog.limits import TURN_WAIT_MS_MAX
from stratalog.ports.index import Item, Put
from stratalog.testing.clock import ManualClock
from tests.interrupts import Interrupter

HOLD_TURN = """
import sys
from stratalog.backends.turnstile import Turnstile
from stratalog.clock import SystemClock
with Turnstile(sys.argv[1], SystemClock()).turn():
    print("inside", flush=True)
    sys.stdin.read()
"""


class Watched(ManualClock):
    """A clock that runs the next of its ``acts`` after each sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.acts: list[Callable[[], object]] = []

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.acts:
            self.acts.pop(0)()


@pytest.fixture
def clock() -> Watched:
    return Watched()


@pytest.fixture
def other(tmp_path: Path) -> Turnstile:
    return Turnstile(str(tmp_path / "file"), ManualClock())


@pytest.fixture
def turnstile(tmp_path: Path, clock: Watched) -> Turnstile:
    return Turnstile(str(tmp_path / "file"), clock)


def test_a_free_turnstile_is_passed_without_waiting(turnstile: Turnstile, clock: Watched) -> None:
    began = clock.boot_ms()
    assert turnstile.enter()
    turnstile.leave()
    with turnstile.turn() as has_turn:
        assert has_turn
    assert clock.boot_ms() == began


def test_a_transaction_waits_until_the_transaction_of_another_process_ends(
    turnstile: Turnstile, other: Turnstile, clock: Watched
) -> None:
    assert other.enter()
    clock.acts = [lambda: None, other.leave]
    assert turnstile.enter()
    assert not clock.acts


def test_a_transaction_waits_for_the_end_of_another_process_s_turn(
    turnstile: Turnstile, other: Turnstile, clock: Watched
) -> None:
    turn = other.turn()
    assert turn.__enter__()
    clock.acts = [lambda: None, lambda: turn.__exit__(None, None, None)]
    assert turnstile.enter()
    assert not clock.acts


def test_a_transaction_stops_waiting_at_the_limit(turnstile: Turnstile, other: Turnstile, clock: Watched) -> None:
    began = clock.boot_ms()
    assert other.enter()
    assert not turnstile.enter()
    assert TURN_WAIT_MS_MAX <= clock.boot_ms() - began <= TURN_WAIT_MS_MAX + 1


def test_a_process_does_not_wait_again_after_a_timeout_until_the_turnstile_was_free(
    turnstile: Turnstile, other: Turnstile, clock: Watched
) -> None:
    assert other.enter()
    assert not turnstile.enter()
    late = clock.boot_ms()
    assert not turnstile.enter()
    assert clock.boot_ms() == late
    other.leave()
    assert turnstile.enter()
    turnstile.leave()
    assert other.enter()
    assert not turnstile.enter()
    assert clock.boot_ms() > late


def test_a_process_that_leaves_and_returns_does_not_overtake_a_waiting_process(
    turnstile: Turnstile, other: Turnstile, clock: Watched
) -> None:
    tried: list[bool] = []

    def leave_and_come_again() -> None:
        other.leave()
        tried.append(other.enter())

    assert other.enter()
    clock.acts = [leave_and_come_again]
    assert turnstile.enter()
    assert tried == [False]


def test_closing_the_file_ends_a_wait_for_a_turn_without_the_turn(
    turnstile: Turnstile, other: Turnstile, clock: Watched
) -> None:
    assert other.enter()
    clock.acts = [lambda: None, turnstile.close]
    with turnstile.turn() as has_turn:
        assert not has_turn
    assert turnstile._turn.closed


def test_a_turn_that_is_running_holds_its_descriptor_open_until_the_turn_ends(
    turnstile: Turnstile, other: Turnstile
) -> None:
    with turnstile.turn() as has_turn:
        assert has_turn
        turnstile.close()
        assert not turnstile._turn.closed  # the operating system must not reuse the descriptor before the turn ends
    assert turnstile._turn.closed
    assert other.enter()


def test_transactions_of_a_process_do_not_wait_inside_its_own_turn(turnstile: Turnstile, clock: Watched) -> None:
    began = clock.boot_ms()
    with turnstile.turn() as has_turn:
        assert has_turn
        assert not turnstile.enter()
    assert clock.boot_ms() == began


def test_a_waiting_transaction_proceeds_when_its_own_process_gets_a_turn(
    turnstile: Turnstile, other: Turnstile, clock: Watched
) -> None:
    began = clock.boot_ms()
    assert other.enter()
    clock.acts = [lambda: setattr(turnstile, "_in_turn", True)]
    assert not turnstile.enter()
    assert clock.boot_ms() - began < TURN_WAIT_MS_MAX


def test_a_turn_can_be_nested_in_a_turn_of_the_same_process(turnstile: Turnstile, other: Turnstile) -> None:
    with turnstile.turn(), turnstile.turn() as has_turn:
        assert has_turn
    assert other.enter()


def test_a_turn_reports_that_its_wait_timed_out(turnstile: Turnstile, other: Turnstile) -> None:
    assert other.enter()
    with turnstile.turn() as has_turn:
        assert not has_turn
    other.leave()
    with other.turn() as has_turn:
        assert has_turn


def test_an_interrupt_leaves_no_lock_behind(turnstile: Turnstile, other: Turnstile, clock: Watched) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    assert other.enter()
    clock.acts = [interrupt]
    with pytest.raises(KeyboardInterrupt):
        turnstile.enter()
    other.leave()
    with pytest.raises(KeyboardInterrupt), turnstile.turn():
        raise KeyboardInterrupt
    with other.turn() as has_turn:
        assert has_turn


TURNS = (
    *(each for each in vars(Turnstile).values() if isinstance(each, FunctionType)),
    *(Turnstile.turn.__wrapped__, _GeneratorContextManager.__enter__, _GeneratorContextManager.__exit__),  # type: ignore[attr-defined]
)
"""Every function of a turnstile, and of the context manager that `contextmanager` makes of `turn`."""


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("waits", [False, True])
def test_an_interrupt_anywhere_in_a_turn_ends_the_turn(waits: bool, tmp_path: Path) -> None:
    def change() -> None:
        with own.turn():
            pass

    for step in count():
        clock = Watched()
        own, other = (Turnstile(str(tmp_path / "file"), each) for each in (clock, ManualClock()))
        if waits:
            assert other.enter()
            clock.acts = [other.leave]
        is_done = interrupted_at(step, TURNS, change)
        other.leave()
        assert not own._in_turn, step
        assert is_free(other), step
        with own.turn() as has_turn:
            assert has_turn, step
        own.close()
        other.close()
        if is_done:
            break
    assert step > 100


@pytest.mark.usefixtures("untraced")
def test_an_interrupt_anywhere_in_a_commit_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    database, other = SqliteDatabase(path, ManualClock()), Turnstile(str(path), ManualClock())
    assert is_free(other)
    for step in count():
        commit = partial(database.index.commit, [Put(Item("p", f"{step}", {}))])
        is_done = interrupted_at(step, (_GroupWriter._run_group, *TURNS), commit)
        assert is_free(other), step
        if is_done:
            break
    assert step > 100
    database.close()


def interrupted_at(step: int, functions: tuple[Any, ...], call: Callable[[], object]) -> bool:
    """Interrupt a call in a thread before the bytecode ``step``. Return True if the call ended before this bytecode."""
    interrupter = Interrupter(step, functions)
    with interrupter.active(), ThreadPoolExecutor(1) as pool:
        future = pool.submit(call)
    assert (interrupter.victim is None) == (future.exception() is None)
    return interrupter.victim is None


def is_free(turnstile: Turnstile) -> bool:
    """Return whether no other process has locked the door or the room."""
    began = turnstile._clock.boot_ms()
    has_entered = turnstile.enter()
    turnstile.leave()
    return has_entered and turnstile._clock.boot_ms() == began


def test_a_killed_process_frees_its_turn(tmp_path: Path, turnstile: Turnstile) -> None:
    command = [sys.executable, "-c", HOLD_TURN, str(tmp_path / "file")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"inside\n"
        assert not turnstile.enter()
        holder.kill()
        holder.wait()
        assert turnstile.enter()


def test_a_folder_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be written"):
        Turnstile(str(tmp_path / "missing" / "file"), ManualClock())


def test_a_closed_database_gives_no_turns(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "store.db", ManualClock())
    database.close()
    with pytest.raises(Closed):
        database.index.turn("p")


def test_a_forked_child_frees_no_lock_of_its_parent(tmp_path: Path, turnstile: Turnstile, other: Turnstile) -> None:
    with turnstile.turn():
        child = os.fork()
        if not child:
            turnstile.leave_to_parent()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert not other.enter()
