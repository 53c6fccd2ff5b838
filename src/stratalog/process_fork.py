"""Process forks: a handle belongs to the process that opened it. In a forked child its calls raise Closed.

A child has only the thread that forked. A lock that another thread held at that moment stays held in the child for
ever, and the state behind it may be half changed. So a child replaces the locks and ports of every handle before
anybody can wait for one.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from stratalog.errors import Closed

__all__ = ["Inherited", "close_in_child", "is_inherited"]


class Inherited:
    """Stands in a forked child for a lock, a condition or a port of its parent. Using it raises Closed."""

    def release(self) -> None:
        """For the thread that forked while it held the lock."""

    def close(self) -> None:
        """Nothing here is the child's to close."""

    def __enter__(self) -> NoReturn:
        _refuse()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __getattr__(self, name: str) -> NoReturn:
        _refuse()


_owners: WeakKeyDictionary[Any, tuple[str, ...]] = WeakKeyDictionary()


def close_in_child(owner: object, *attributes: str) -> None:
    """Have these attributes of ``owner``, its locks above all, replaced by `Inherited` in a forked child.

    One call for each owner: the last one counts.
    """
    _owners[owner] = attributes


def is_inherited(value: object) -> bool:
    """Whether ``value`` was replaced, since this is a forked child of the process that made its owner."""
    return isinstance(value, Inherited)


def _close_all() -> None:
    for owner, attributes in list(_owners.items()):
        for attribute in attributes:
            setattr(owner, attribute, Inherited())


def _refuse() -> NoReturn:
    raise Closed("the handle was opened before a fork; open it again in the child")


os.register_at_fork(after_in_child=_close_all)
