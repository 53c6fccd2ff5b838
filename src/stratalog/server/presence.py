"""Presence: who is here in one document, told to its listeners as what changed, and no faster than its bytes allow.

Changes are gathered for a pause that grows with the listeners and with what was sent last. Each message is encoded
once for all who get it. A listener that has not taken the last one gets the whole again when it has: what waits for it
is one message, which it shares with the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property
from typing import Protocol

import msgspec

from stratalog.codec import Value, encode
from stratalog.errors import LimitExceeded
from stratalog.limits import (
    PRESENCE_BYTES_MAX,
    PRESENCE_CONNECTIONS_MAX,
    PRESENCE_PAUSE_SECONDS_MAX,
    PRESENCE_PAUSE_SECONDS_MIN,
    PRESENCE_PER_PRINCIPAL_MAX,
    PRESENCE_ROOM_BYTES_PER_SECOND,
)
from stratalog.protocol.live import FromServer, Here, HereChanged, PresentPrincipal
from stratalog.server.errors import Refused
from stratalog.server.security import Principal
from stratalog.server.shares import Allocation, Budget, Holder, HolderKind

__all__ = ["Frame", "PresenceBoard", "PresenceListener"]


class Frame:
    """A message on its way to listeners, encoded when the first of them needs it."""

    def __init__(self, message: FromServer) -> None:
        self.message = message

    @cached_property
    def json(self) -> bytes:
        """The message's one text."""
        return msgspec.json.encode(self.message)


class PresenceListener(Protocol):
    """A receiver of presence."""

    takes_changes: bool
    """Whether it knows `HereChanged`; others get the whole each time."""

    needs_all: bool
    """Whether changes alone would not tell it everything."""

    def offer(self, frame: Frame) -> bool:
        """Have the message of presence sent. False where the last one still waits."""
        ...


class PresenceBoard:
    """What the connections of one document show, by their ids."""

    def __init__(self) -> None:
        self.due_ms = 0.0
        """Before this nothing more is told."""

        self._shown: dict[str, tuple[Value, Principal]] = {}
        self._changed: set[str] = set()
        self._allocations: dict[str, Allocation] = {}
        shares: dict[HolderKind, int] = {"principal": PRESENCE_PER_PRINCIPAL_MAX}
        self._budget = Budget("connections that show themselves", PRESENCE_CONNECTIONS_MAX, shares)

    def __bool__(self) -> bool:
        return bool(self._shown)

    def show(self, id: str, principal: Principal, state: Value) -> bool:
        """Show this of a connection; None takes it back. Whether anything changed. Raises LimitExceeded.

        One that comes when too many are shown is not shown itself: nobody is hung up on for that.
        """
        if state is None:
            return self._hide(id)
        size = len(encode(state))
        if size > PRESENCE_BYTES_MAX:
            raise LimitExceeded("what is shown of a client is too large", value=size, limit=PRESENCE_BYTES_MAX)
        try:
            if id not in self._allocations:
                holders: tuple[Holder, ...] = (("principal", principal.id),) if principal.id else ()
                self._allocations[id] = self._budget.take(*holders)
        except Refused:
            return False
        self._shown[id] = (state, principal)
        self._changed.add(id)
        return True

    def tell(self, listeners: Collection[PresenceListener], now_ms: float) -> int:
        """Send changes to the listeners that know the rest, and the whole to the others. The bytes sent in all."""
        all_of_it, changes, size = Frame(self._everybody()), Frame(self._changes()), 0
        for listener in listeners:
            needs_all = listener.needs_all or not listener.takes_changes
            frame = all_of_it if needs_all else changes
            is_taken = listener.offer(frame)
            listener.needs_all = not is_taken
            size += len(frame.json) if is_taken else 0
        self._changed.clear()
        self.due_ms = now_ms + 1000 * max(_pause_seconds(len(listeners)), size / PRESENCE_ROOM_BYTES_PER_SECOND)
        return size

    def _hide(self, id: str) -> bool:
        if self._shown.pop(id, None) is None:
            return False
        self._allocations.pop(id).release()
        self._changed.add(id)
        return True

    def _everybody(self) -> Here:
        return Here({id: state for id, (state, _) in self._shown.items()}, self._principals(self._shown))

    def _changes(self) -> HereChanged:
        states = {id: self._shown[id][0] if id in self._shown else None for id in sorted(self._changed)}
        return HereChanged(states, self._principals(id for id in states if id in self._shown))

    def _principals(self, ids: Iterable[str]) -> dict[str, PresentPrincipal]:
        """As the server knows them, whatever a client shows of itself."""
        known = {id: self._shown[id][1] for id in ids}
        return {id: PresentPrincipal(who.id, who.name) for id, who in known.items() if who.id}


def _pause_seconds(listeners: int) -> float:
    """The more listen, the more each pause saves."""
    share = min(1.0, listeners / PRESENCE_CONNECTIONS_MAX)
    return PRESENCE_PAUSE_SECONDS_MIN + share * (PRESENCE_PAUSE_SECONDS_MAX - PRESENCE_PAUSE_SECONDS_MIN)
