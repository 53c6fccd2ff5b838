"""Process forks: a handle belongs to the process that opened it. In a forked child the calls of a handle raise Closed.

A child has only the thread that forked. A lock that another thread held at the moment of the fork stays locked in the
child for ever. The state that the lock protects may be half changed. So a child replaces the locks and ports of every
handle before any of its threads can wait for a lock.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from stratalog.errors import Closed

__all__ = ["Inherited", "close_in_child", "is_inherited"]


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


def _close_all() -> None:
    for owner, attributes in list(_owners.items()):
        for attribute in attributes:
            setattr(owner, attribute, Inherited())


def _refuse() -> NoReturn:
    raise Closed("the handle was opened before a fork; open it again in the child")


os.register_at_fork(after_in_child=_close_all)
