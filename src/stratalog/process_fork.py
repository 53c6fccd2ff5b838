"""Process forks: a handle belongs to the process that opened it. In a forked child the calls of a handle raise Closed.

A child has only the thread that forked. A lock that another thread held at the moment of the fork stays locked in the
child for ever. The state that the lock protects may be half changed. So a child replaces the locks and ports of every
handle before any of its threads can wait for a lock.

A library in C, such as SQLite or msgspec, has state that no child can replace. So a fork waits until no other thread is
inside a block of `delay_forks`. The child then closes the objects of the library that it inherited (`leave_in_child`).
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager, suppress
from typing import Any, NoReturn, Protocol
from weakref import WeakKeyDictionary, WeakSet

from stratalog.clock import SystemClock
from stratalog.errors import Closed, Unavailable
from stratalog.limits import FORK_WAIT_MS_MAX

__all__ = ["Inherited", "check_fork", "close_in_child", "delay_forks", "is_inherited", "leave_in_child"]


class Inherited:
    """Replaces a lock, a condition or a port of the parent in a forked child.

    `release`, `close` and the end of a ``with`` block do nothing. Any other attribute raises Closed.
    """

    def release(self) -> None:
        """Do nothing. If a thread forked while it held the lock, the child may call `release`."""

    def close(self) -> None:
        """Do nothing: the resource is the parent's."""

    def __enter__(self) -> NoReturn:
        _refuse()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __getattr__(self, name: str) -> NoReturn:
        _refuse()


_owners: WeakKeyDictionary[Any, tuple[str, ...]] = WeakKeyDictionary()


def close_in_child(owner: object, *attributes: str) -> None:
    """In a forked child, replace these attributes of ``owner``, which are mostly locks, by `Inherited`.

    Call the function once for each owner: a later call replaces the names that the earlier call gave.
    """
    _owners[owner] = attributes


def is_inherited(value: object) -> bool:
    """Return whether ``value`` is the replacement that a forked child has for a lock or port of its parent."""
    return isinstance(value, Inherited)


class _LeavesToParent(Protocol):
    def leave_to_parent(self, clean: bool) -> None: ...


def leave_in_child(owner: _LeavesToParent) -> None:
    """In a forked child, call ``owner.leave_to_parent(clean)``. Without ``clean``, the call must enter no library in C.

    The fork is clean if no thread was inside a block of `delay_forks`. After a fork that was not clean, the child keeps
    ``owner``, since freeing an object that a vanished thread used could wait for ever.
    """
    _forks.owners.add(owner)


def delay_forks() -> AbstractContextManager[object]:
    """Return the calling thread's context manager: a fork by another thread waits for the end of the block.

    The fork waits for at most `FORK_WAIT_MS_MAX`. A block may be inside another block. An interrupt leaves no block
    open, since a lock in C is the context manager.
    """
    try:
        lock: AbstractContextManager[object] = _forks.own.lock
        return lock
    except AttributeError:
        return _forks.new_lock()


def check_fork() -> None:
    """Raise Unavailable if this process, or one above it, came from a fork that was not clean: see `leave_in_child`."""
    if not _forks.clean:
        raise Unavailable(
            "this process was forked while a thread of its parent used SQLite or msgspec: start the process again",
            limit_ms=FORK_WAIT_MS_MAX,
        )


class _Forks:
    """The locks that a fork waits for, one for each thread of `delay_forks`, and the owners of `leave_in_child`."""

    def __init__(self) -> None:
        self.owners: WeakSet[Any] = WeakSet()
        self.clean = True
        """Whether this process, and each process above it, was forked while no thread was inside a block."""

        self._unusable: list[Any] = []
        self._start()

    def _start(self) -> None:
        self.own = threading.local()
        self._locks: WeakSet[Any] = WeakSet()
        self._adding = threading.RLock()

    def new_lock(self) -> AbstractContextManager[object]:
        lock = threading.RLock()
        with self._adding:  # a fork holds this lock, so no thread enters its first block during the fork
            self._locks.add(lock)
        self.own.lock = lock
        return lock

    def take(self) -> None:
        """Before a fork: take the locks of all threads. The fork is not clean if one of the locks stays taken.

        Two threads may fork at the same time, so the locks that a fork took are known to its thread only.
        """
        own: Any = delay_forks()
        self.own.taken, self.own.clean = [], False
        if not own._is_owned():  # it is owned if a signal interrupted a block, and the signal's handler forks
            clock = SystemClock()
            deadline_ms = clock.boot_ms() + FORK_WAIT_MS_MAX
            self.own.clean = self._take(self._adding, clock, deadline_ms) and all(
                self._take(lock, clock, deadline_ms) for lock in list(self._locks)
            )

    def _take(self, lock: Any, clock: SystemClock, deadline_ms: int) -> bool:
        # Append first, since an interrupt may follow: `give_back` tolerates a lock that is not taken.
        self.own.taken.append(lock)
        return bool(lock.acquire(timeout=max(0, deadline_ms - clock.boot_ms()) / 1000))

    def give_back(self) -> None:
        """After a fork, in the parent: release all locks that `take` has taken. A repeated call has no effect."""
        self.own.clean = False  # the next fork proves anew that it is clean
        taken = getattr(self.own, "taken", [])
        while taken:
            with suppress(RuntimeError):  # this thread does not have the lock
                taken[-1].release()
            taken.pop()

    def leave(self) -> None:
        """After a fork, in the child: its only thread begins with new locks."""
        self.clean = self.clean and getattr(self.own, "clean", False)
        owners = list(self.owners)
        self._start()
        for owner in owners:
            owner.leave_to_parent(self.clean)
        if not self.clean:
            self._unusable += owners


_forks = _Forks()


def _close_all() -> None:
    for owner, attributes in list(_owners.items()):
        for attribute in attributes:
            setattr(owner, attribute, Inherited())
    _forks.leave()


def _refuse() -> NoReturn:
    raise Closed("the handle was opened before a fork; open it again in the child")


os.register_at_fork(before=_forks.take, after_in_parent=_forks.give_back, after_in_child=_close_all)
os.register_at_fork(after_in_parent=_forks.give_back)  # again, since an interrupt may have ended the first call early
