"""Turns between the processes that share a file. Turns are fair. After a time limit a process works without a turn.

Each shared file has two lock files, named *door* and *room*. A process locks the room while it works. To lock the room,
a process first locks the door, then waits for the room, and then unlocks the door. With a single lock, the process that
frees the lock would take it again before a waiting process wakes. With two locks, this process finds that the waiting
process has locked the door, and waits behind that process.

Every wait polls the lock and has a time limit. With a blocking lock, one stopped process would stop all others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock

from stratalog.clock import Clock
from stratalog.folders import file_error
from stratalog.limits import TURN_WAIT_MS_MAX

__all__ = ["Turnstile", "open_lock_file"]

OWNER = "owner"
POLL_SECONDS = 0.000_1
_TRY = LOCK_EX | LOCK_NB


class Turnstile:
    """The turns of one process at the file ``path``. Safe for threads.

    A process locks the room for one transaction (`enter`, `leave`), or for a `turn` of several reads and commits. While
    a thread has a turn, the transactions of its process run inside that turn.

    A file lock belongs to the descriptor that took it. Transactions and turns use different descriptors, so a turn also
    waits for a transaction of its own process.

    An interrupt may come between any two bytecodes. So no variable of a thread decides whether the thread must unlock:
    an unlock without a lock has no effect, and is repeated after an interrupt.
    """

    def __init__(self, path: str, clock: Clock) -> None:
        self._clock = clock
        self._transaction = _Locks(path)
        try:
            self._turn = _Locks(path)
        except BaseException:
            self._transaction.close()
            raise
        self._owner: dict[str, object] = {}
        """The token of the thread that has a turn or waits for one. One call into C sets it: see `GroupCommit`."""

        self._in_turn = False
        self._overdue = False
        self._closed = False

    def enter(self) -> bool:
        """Wait for the room and lock it. Return whether the room is locked. Call `leave` afterwards in any case.

        Return False inside a turn of this process. Return False also after `TURN_WAIT_MS_MAX`. After such a wait,
        return False at once until the locks are found free (`_wait`). The caller then works without the lock.
        """
        return not self._in_turn and self._wait(self._transaction, self._has_turn)

    def leave(self) -> None:
        """Unlock the room for the next process. A repeated call has no effect."""
        if not self._transaction.closed:
            flock(self._transaction.room, LOCK_UN)

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Lock the room against other processes until the end of the block. The value is False if the wait failed.

        A second thread shares the turn of the first thread, so it may lose the turn in the middle of its block. While
        the first thread still waits for the turn, the second thread's value is False.
        """
        token = object()
        try:
            if not self._in_turn and self._owner.setdefault(OWNER, token) is token:
                self._in_turn = not self._closed and self._wait(self._turn, self._is_closed)
            yield self._in_turn
            self._end_turn(token)
        except BaseException:
            self._end_turn(token)  # an interrupt may have ended the first call early
            raise

    def close(self) -> None:
        """Close the lock files, which frees their locks. No transaction may be in flight.

        If a thread has a turn or waits for a turn, this thread closes the turn's files itself at the end. Otherwise the
        thread could use descriptors that already belong to other files. A thread that waits gets no turn.
        """
        self._closed = True
        self._transaction.close()
        self._close_turn()

    def leave_to_parent(self) -> None:
        """For a forked child: close the lock files without unlocking them."""
        self._closed, self._in_turn = True, False
        self._transaction.close()
        self._turn.close()

    def _end_turn(self, token: object) -> None:
        """End the turn, or the wait for it, of the thread that has ``token``. A repeated call has no effect."""
        if self._owner.get(OWNER) is token:
            self._in_turn = False
            self._turn.unlock()
            del self._owner[OWNER]
        if self._closed:
            self._close_turn()

    def _close_turn(self) -> None:
        """Close the turn's files. If a thread has the turn, this thread closes the files at the end of its turn."""
        token = object()
        if self._owner.setdefault(OWNER, token) is token:
            self._turn.close()
            del self._owner[OWNER]

    def _wait(self, locks: _Locks, ended: Callable[[], bool]) -> bool:
        """Lock the door, lock the room, and unlock the door.

        Return False, without the lock of the room, if ``ended()`` is true during a wait, or after `TURN_WAIT_MS_MAX`.

        After a wait without success, a stopped process probably has a lock. The caller's process then does not wait
        again until it finds the locks free. Otherwise each of its commits would wait for `TURN_WAIT_MS_MAX`.
        """
        try:
            return self._pass_door(locks, ended)
        except BaseException:
            locks.unlock()
            raise

    def _pass_door(self, locks: _Locks, ended: Callable[[], bool]) -> bool:
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
        try:
            self.room = open_lock_file(path + ".room")
        except BaseException:
            os.close(self.door)
            raise

    def unlock(self) -> None:
        """Unlock both files, if they are open and locked."""
        if not self.closed:
            flock(self.room, LOCK_UN)
            flock(self.door, LOCK_UN)

    def close(self) -> None:
        """Close both files. Closing twice is fine."""
        if not self.closed:
            self.closed = True
            os.close(self.door)
            os.close(self.room)


def open_lock_file(path: str) -> int:
    """Return a descriptor of the lock file ``path``, which is created if missing. Raises Unavailable, StorageFull."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as exc:
        raise file_error(exc, "the database's folder cannot be written", path) from exc


def _try_lock(file: int) -> bool:
    try:
        flock(file, _TRY)
    except BlockingIOError:
        return False
    return True
