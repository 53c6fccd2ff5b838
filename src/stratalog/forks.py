"""Forks: a handle belongs to the process that opened it. In a forked child its calls raise Closed.

A child has only the thread that forked. A lock that another thread held at that moment stays held in the child for
ever, and the state behind it may be half changed. So the child replaces the locks of every handle before anybody can
wait for one.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from stratalog.errors import Closed

__all__ = ["InheritedLock", "close_in_child"]


class InheritedLock:
    """Stands for a lock, condition or connection of the parent process. Using it raises Closed."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> NoReturn:
        raise Closed("the handle was opened before a fork; open it again in the child")

    def release(self) -> None:
        """For the thread that forked while it held the lock."""

    def __enter__(self) -> NoReturn:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __getattr__(self, name: str) -> NoReturn:
        self.acquire()


_owners: WeakKeyDictionary[Any, tuple[str, ...]] = WeakKeyDictionary()


def close_in_child(owner: object, *attributes: str) -> None:
    """Have these attributes of ``owner``, its locks above all, replaced by an `InheritedLock` in a forked child."""
    _owners[owner] = attributes


def _close_all() -> None:
    for owner, attributes in list(_owners.items()):
        for attribute in attributes:
            setattr(owner, attribute, InheritedLock())


os.register_at_fork(after_in_child=_close_all)
