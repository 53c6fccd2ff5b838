"""The position of an unfinished copy, saved in the target."""

from __future__ import annotations

from collections.abc import Sized
from contextlib import suppress

import msgspec

from stratalog.errors import Corrupt
from stratalog.keys import COPY_PARTITION
from stratalog.log.commit import commit_once
from stratalog.log.environment import Environment
from stratalog.log.listed_items import get_listed
from stratalog.ports.index import Delete, Item, Put, required

__all__ = ["Position", "SavedPosition", "forget_position"]

STATE_SORT = "state"


class Position(msgspec.Struct, frozen=True):
    """The last object copied. All objects before it are copied too. The order is by organisation, shelf and id."""

    organisation: str = ""
    shelf: str = ""
    id: str = ""


class SavedPosition:
    """The position of a copy, saved in the copy's target.

    ``damages`` are the damaged blobs that the run has found until now. The saved position is never after an object with
    a damaged blob. So the run that resumes the copy finds the damage again.
    """

    def __init__(self, target: Environment, damages: Sized) -> None:
        listed = get_listed(target.index, COPY_PARTITION, STATE_SORT)
        self._target = target
        self._damages = damages
        self.is_resumed = listed.item is not None or bool(listed.fault)
        """Whether an earlier run was interrupted or found damaged blobs."""

        self.start = Position()
        with suppress(Corrupt):  # a damaged position: compare all objects
            self.start = Position(*(required(listed.item, name) for name in "osi")) if listed.item else Position()

    @property
    def is_damaged(self) -> bool:
        """Whether the run has found damage until now."""
        return bool(len(self._damages))

    def begin(self) -> None:
        """Save a position before all objects, unless an earlier run has saved one."""
        if not self.is_resumed:
            self.save(self.start)

    def save(self, at: Position) -> None:
        """Save the position, unless the run has found a damaged blob."""
        if not self._damages:
            self._put(at)

    def finish(self) -> None:
        """Delete the position. If the run has found a damaged blob, save a position before all objects instead."""
        if self._damages:
            self._put(Position())
        else:
            forget_position(self._target)

    def _put(self, at: Position) -> None:
        state = Item(COPY_PARTITION, STATE_SORT, {"o": at.organisation, "s": at.shelf, "i": at.id})
        commit_once(self._target, [Put(state)], lambda: False)


def forget_position(target: Environment) -> None:
    """Delete the saved position of a copy into ``target``."""
    commit_once(target, [Delete(COPY_PARTITION, STATE_SORT)], lambda: False)
