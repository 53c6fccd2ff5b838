"""Queue: messages in first-in, first-out order per group, each delivered to one receiver at a time, at least once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from stratalog.errors import Invalid, LimitExceeded
from stratalog.limits import MESSAGE_BYTES_MAX, RECEIVE_MESSAGES_MAX, VISIBILITY_SECONDS_MAX

__all__ = ["DeadMessage", "Message", "Queue", "check_receive", "check_send"]


class Message(msgspec.Struct, frozen=True):
    """One delivery of a message. ``receipt`` is valid for this one only; ``receives`` counts deliveries, from 1."""

    id: str
    group: str
    body: bytes
    receives: int
    receipt: str


class DeadMessage(msgspec.Struct, frozen=True):
    """A message that was delivered `receives_max` times and never acknowledged."""

    id: str
    group: str
    body: bytes
    receives: int
    dead_ms: int


class Queue(Protocol):
    """The contract. Safe to call from many threads and processes.

    *Order*: within a group messages are delivered in the order they were sent. While one message of a group is in
    flight (delivered, not acknowledged, its visibility timeout not over) no later message of that group is delivered to
    another receive. *At least once*: a message whose visibility timeout ends is delivered again. A message that would
    exceed the queue's `receives_max` is moved to the dead letters instead, and the group continues.
    """

    def send(self, group: str, bodies: Sequence[bytes]) -> None:
        """Append ``bodies`` to the group, in order. On return all are sent, durably.

        Raises LimitExceeded, Invalid, Unavailable: nothing sent. OutcomeUnknown: some or all may have been sent.
        """
        ...

    def receive(self, limit: int = 10, *, visibility_seconds: float = 30) -> list[Message]:
        """Return up to ``limit`` messages, in order within each group; [] when there are none.

        They are hidden from other receivers for ``visibility_seconds``. A receive may return several messages of one
        group. Later messages of the group are delivered only when all of these are acknowledged or visible again.
        """
        ...

    def acknowledge(self, message: Message) -> bool:
        """Remove the message for good. False, and nothing changed, where the receipt is no longer valid."""
        ...

    def release(self, message: Message, *, after_seconds: float = 0) -> bool:
        """Make the message visible again ``after_seconds`` from now, which may be later than its timeout.

        False, and nothing changed, where the receipt is no longer valid.
        """
        ...

    def dead_letters(self, *, after: str = "") -> Iterator[DeadMessage]:
        """Yield dead letters, oldest first, from those after the id ``after``."""
        ...

    def close(self) -> None:
        """Release files and connections. Later calls raise Closed; closing twice is harmless."""
        ...


def check_send(group: str, bodies: Sequence[bytes]) -> None:
    """Raise Invalid or LimitExceeded for a send over the port's limits. Every backend calls this first."""
    if not group or not bodies:
        raise Invalid("a send needs a group and at least one body", group=group)
    total = sum(map(len, bodies))
    if total > MESSAGE_BYTES_MAX:
        raise LimitExceeded("a send is too large", value=total, limit=MESSAGE_BYTES_MAX)
    if len(bodies) > RECEIVE_MESSAGES_MAX:
        raise LimitExceeded("a send has too many messages", value=len(bodies), limit=RECEIVE_MESSAGES_MAX)


def check_receive(limit: int, visibility_seconds: float) -> None:
    """Raise LimitExceeded for a receive over the port's limits. Every backend calls this first."""
    if not 1 <= limit <= RECEIVE_MESSAGES_MAX:
        raise LimitExceeded("a receive requests too few or too many messages", value=limit, limit=RECEIVE_MESSAGES_MAX)
    if not 0 < visibility_seconds <= VISIBILITY_SECONDS_MAX:
        raise LimitExceeded(
            "a visibility timeout is out of range", value=visibility_seconds, limit=VISIBILITY_SECONDS_MAX
        )
