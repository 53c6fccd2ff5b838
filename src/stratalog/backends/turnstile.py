"""Turns between the processes that share a file: a fair hand-over, and never a fence.

Two lock files stand beside the shared file. A process holds the *room* while it works. To get it, a process first takes
the *door*, waits there for the room, and then frees the door. With one lock the process that just let go takes it again
before a waiting one wakes; with two it finds the door taken, and waits behind the other.

Every wait polls and is bounded. A blocking lock would let one stopped process stop all of them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock

from stratalog.clock import Clock
from stratalog.errors import Unavailable
from stratalog.limits import TURN_WAIT_MS_MAX
from stratalog.process_fork import close_in_child

__all__ = ["Turnstile", "open_lock_file"]

POLL_SECONDS = 0.000_1
_TRY = LOCK_EX | LOCK_NB


class Turnstile:
    """The turns of one process at the file ``path``. Safe for threads.

    The room is held for one transaction (`enter`, `leave`), or for a `turn` of several reads and commits. While a
    thread has a turn, the transactions of its process run inside it.

    A file lock belongs to the descriptor that took it. Transactions and turns have descriptors of their own, so a turn
    waits for a transaction of its own process as well.
    """

    def __init__(self, path: str, clock: Clock) -> None:
        self._clock = clock
        self._transaction = _Locks(path)
        self._turn = _Locks(path)
        self._owner = threading.Lock()
        close_in_child(self, "_owner")
        self._in_turn = False
        self._overdue = False
        self._closed = False

    def enter(self) -> bool:
        """Wait for the room; whether the caller must `leave`. False: inside a turn, or waited in vain."""
        return not self._in_turn and self._wait(self._transaction, self._has_turn)

    def leave(self) -> None:
        """Let the next process into the room."""
        flock(self._transaction.room, LOCK_UN)

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Keep other processes out of the room until the end of the block; False where they could not be kept out.

        A second thread shares the turn of the first.
        """
        if self._in_turn or not self._owner.acquire(blocking=False):
            yield self._in_turn
            return
        try:
            self._in_turn = not self._closed and self._wait(self._turn, self._is_closed)
            yield self._in_turn
        finally:
            if self._in_turn:
                self._in_turn = False
                flock(self._turn.room, LOCK_UN)
            self._owner.release()
            if self._closed and not self._turn.closed:
                self._close_turn()

    def close(self) -> None:
        """Close the lock files, which frees what this process holds. No transaction may be under way.

        The files of a turn that a thread has, or waits for, are closed by that thread when it ends: by then their
        numbers could stand for other files. Who waits is told that it has no turn.
        """
        self._closed = True
        self._transaction.close()
        self._close_turn()

    def leave_to_parent(self) -> None:
        """For a forked child: close the lock files without unlocking them."""
        self._closed, self._in_turn = True, False
        self._transaction.close()
        self._turn.close()

    def _close_turn(self) -> None:
        """Unless a thread has the turn: that one comes here after it."""
        if self._owner.acquire(blocking=False):
            try:
                self._turn.close()
            finally:
                self._owner.release()

    def _wait(self, locks: _Locks, ended: Callable[[], bool]) -> bool:
        """Pass the door and take the room. False where ``ended`` says so, or after `TURN_WAIT_MS_MAX`.

        A process that waited in vain has a stopped one before it. It does not wait again until it finds the locks free:
        each of its commits would take that long.
        """
        deadline = None
        try:
            flock(locks.door, _TRY)
        except BlockingIOError:
            deadline = self._clock.boot_ms() + TURN_WAIT_MS_MAX
            if not self._poll(locks.door, deadline, ended):
                return False
        try:
            flock(locks.room, _TRY)
            self._overdue = False
            return True
        except BlockingIOError:
            return self._poll(locks.room, deadline or self._clock.boot_ms() + TURN_WAIT_MS_MAX, ended)
        finally:
            flock(locks.door, LOCK_UN)

    def _has_turn(self) -> bool:
        return self._in_turn

    def _is_closed(self) -> bool:
        return self._closed

    def _poll(self, file: int, deadline: int, ended: Callable[[], bool]) -> bool:
        while not self._overdue and not ended():
            self._clock.sleep(POLL_SECONDS * (0.5 + self._clock.random()))
            if _try_lock(file):
                return True
            self._overdue = self._clock.boot_ms() >= deadline
        return False


class _Locks:
    """Descriptors of the two lock files."""

    __slots__ = ("closed", "door", "room")

    def __init__(self, path: str) -> None:
        self.closed = False
        self.door = open_lock_file(path + ".door")
        self.room = open_lock_file(path + ".room")

    def close(self) -> None:
        """Closing twice is fine."""
        if not self.closed:
            self.closed = True
            os.close(self.door)
            os.close(self.room)


def open_lock_file(path: str) -> int:
    """A descriptor of the lock file ``path``, made where it is missing. Raises Unavailable."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as exc:
        raise Unavailable("the database's folder cannot be written", path=path, reason=str(exc)) from exc


def _try_lock(file: int) -> bool:
    try:
        flock(file, _TRY)
    except BlockingIOError:
        return False
    return True
