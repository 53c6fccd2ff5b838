"""Presence: the states that connections show in one document. The server sends changes of these states to listeners.

The board gathers changes during a pause between two messages. The pause grows with the number of listeners and with the
bytes of the last message. This pause bounds the traffic. Each message is encoded once for all its receivers. At most
one presence message waits for a listener. While a message waits, the listener misses further messages. After the
listener has taken the waiting message, it gets the full presence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property
from typing import Protocol

import msgspec

from stratalog.codec import Value
from stratalog.limits import (
    PRESENCE_CONNECTIONS_MAX,
    PRESENCE_PAUSE_SECONDS_MAX,
    PRESENCE_PAUSE_SECONDS_MIN,
    PRESENCE_PER_PRINCIPAL_MAX,
    PRESENCE_ROOM_BYTES_PER_SECOND,
)
from stratalog.protocol.live import FromServer, Here, HereChanged, PresentPrincipal, check_presence
from stratalog.server.errors import Refused
from stratalog.server.security import Principal
from stratalog.server.shares import Allocation, Budget, Holder, HolderKind

__all__ = ["Frame", "PresenceBoard", "PresenceListener"]


class Frame:
    """A message to listeners, encoded once, when the first listener needs it."""

    def __init__(self, message: FromServer) -> None:
        self.message = message

    @cached_property
    def json(self) -> bytes:
        """The message as JSON."""
        return msgspec.json.encode(self.message)


class PresenceListener(Protocol):
    """A receiver of presence."""

    takes_changes: bool
    """Whether the listener understands `HereChanged`. If not, it gets the full presence each time."""

    needs_all: bool
    """Whether the listener has missed a message, or is new, and so needs the full presence instead of changes."""

    def offer(self, frame: Frame) -> bool:
        """Queue the presence message. Return False, and queue nothing, while the last message still waits."""
        ...


class PresenceBoard:
    """The states that the connections of one document show, by connection id."""

    def __init__(self) -> None:
        self.due_ms = 0.0
        """No presence is sent before this time, in milliseconds of the clock."""

        self._shown: dict[str, tuple[Value, Principal]] = {}
        self._changed: set[str] = set()
        self._allocations: dict[str, Allocation] = {}
        shares: dict[HolderKind, int] = {"principal": PRESENCE_PER_PRINCIPAL_MAX}
        self._budget = Budget("connections that send presence", PRESENCE_CONNECTIONS_MAX, shares)

    def __bool__(self) -> bool:
        return bool(self._shown)

    def show(self, id: str, principal: Principal, state: Value) -> bool:
        """Show the state of a connection, or hide the connection if ``state`` is None.

        If the board shows too many connections in all or of the principal, it ignores a new connection silently. The
        ignored connection stays open. Return False if the board ignored the connection, or if the connection had no
        state to hide.
        Raises the errors of `check_presence`. Then the earlier state stays.
        """
        if state is None:
            return self._hide(id)
        check_presence(state)
        try:
            if id not in self._allocations:
                holders: tuple[Holder, ...] = (("principal", principal.id),) if principal.id else ()
                self._allocations[id] = self._budget.take(*holders)
        except Refused:
            return False
        self._shown[id] = (state, principal)
        self._changed.add(id)
        return True

    def state_of(self, id: str) -> Value:
        """Return the state that a connection shows, or None if it shows no state."""
        return self._shown[id][0] if id in self._shown else None

    def broadcast(self, listeners: Collection[PresenceListener], now_ms: float) -> int:
        """Send changes to listeners that have all earlier presence and know `HereChanged`, full presence to others.

        Return the bytes sent.
        """
        all_of_it, changes, size = Frame(self._everybody()), Frame(self._changes()), 0
        for listener in listeners:
            needs_all = listener.needs_all or not listener.takes_changes
            frame = all_of_it if needs_all else changes
            # A listener that does not take this frame lacks the changes that are cleared below.
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
        """Return the principals as the server authenticated them, not as their clients describe themselves."""
        known = {id: self._shown[id][1] for id in ids}
        return {id: PresentPrincipal(who.id, who.name) for id, who in known.items() if who.id}


def _pause_seconds(listeners: int) -> float:
    """Return a pause that grows with the number of listeners: with more listeners each avoided message saves more."""
    share = min(1.0, listeners / PRESENCE_CONNECTIONS_MAX)
    return PRESENCE_PAUSE_SECONDS_MIN + share * (PRESENCE_PAUSE_SECONDS_MAX - PRESENCE_PAUSE_SECONDS_MIN)
