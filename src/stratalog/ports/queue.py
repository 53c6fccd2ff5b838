"""Queue: messages in groups. A group is first in, first out. Each message is delivered at least once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from stratalog.errors import Invalid, LimitExceeded
from stratalog.limits import MESSAGE_BYTES_MAX, RECEIVE_MESSAGES_MAX, VISIBILITY_SECONDS_MAX

__all__ = ["DeadMessage", "Message", "Queue", "check_receive", "check_send", "hidden_seconds"]


class Message(msgspec.Struct, frozen=True):
    """One delivery of a message. ``receipt`` is valid only for this delivery. ``receives`` counts all deliveries."""

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

    *Order*: within a group, the queue delivers messages in the order in which they were sent. A message is in flight
    from its delivery until it is acknowledged or its visibility timeout ends. While a message is in flight, another
    receive gets no later message of its group. *At least once*: a message whose visibility timeout ends is delivered
    again. After as many deliveries as the backend's parameter `receives_max`, it becomes a dead letter instead, and the
    group continues.
    """

    def send(self, group: str, bodies: Sequence[bytes]) -> None:
        """Append ``bodies`` to the group, in order. On return all bodies are durable.

        Raises LimitExceeded, Invalid, Unavailable: nothing was sent. Raises OutcomeUnknown: some or all bodies may have
        been sent.
        """
        ...

    def receive(self, limit: int = 10, *, visibility_seconds: float = 30) -> list[Message]:
        """Return up to ``limit`` messages, in order within each group; [] if no message is available.

        The messages are hidden from other receivers for ``visibility_seconds``. A receive may return several messages
        of one group. Later messages of the group are delivered only when all these messages are acknowledged or
        visible again.

        Raises LimitExceeded: nothing is received. Raises Unavailable or OutcomeUnknown: messages may be hidden until
        their timeout ends.
        """
        ...

    def acknowledge(self, message: Message) -> bool:
        """Remove the message for good. Return False, and change nothing, if the receipt is no longer valid.

        Raises Unavailable: the message stays. Raises OutcomeUnknown: the message may be removed; call again.
        """
        ...

    def release(self, message: Message, *, after_seconds: float = 0) -> bool:
        """Make the message visible again ``after_seconds`` from now.

        This time may be later than the end of the present visibility timeout. A time above `VISIBILITY_SECONDS_MAX`
        counts as this limit. SQS measures the limit from the receive, so there the message may become visible earlier.
        Return False, and change nothing, if the receipt is no longer valid. Raises Unavailable: nothing changed. Raises
        OutcomeUnknown: call again.
        """
        ...

    def dead_letters(self, *, after: str = "") -> Iterator[DeadMessage]:
        """Yield the dead letters that come after the id ``after``, in order of ids. ``after`` may be any text.

        Raises Unavailable, also while iterating.
        """
        ...

    def oldest_ms(self) -> int:
        """Return a lower bound of the times at which the queue's messages and dead letters were sent.

        The bound is in milliseconds since 1970; 0 if the queue cannot tell.
        """
        ...

    def close(self) -> None:
        """Release files and connections. Later calls raise Closed. Closing twice is harmless."""
        ...


def check_send(group: str, bodies: Sequence[bytes]) -> None:
    """Raise Invalid for a send without a group or a body, and LimitExceeded for a send that is too large.

    Every backend calls this before it sends.
    """
    if not group or not bodies:
        raise Invalid("a send needs a group and at least one body", group=group)
    total = sum(map(len, bodies))
    if total > MESSAGE_BYTES_MAX:
        raise LimitExceeded("a send is too large", value=total, limit=MESSAGE_BYTES_MAX)
    if len(bodies) > RECEIVE_MESSAGES_MAX:
        raise LimitExceeded("a send has too many messages", value=len(bodies), limit=RECEIVE_MESSAGES_MAX)


def hidden_seconds(after_seconds: float) -> float:
    """Return the time for which `Queue.release` hides a message, within the port's limits. Every backend uses it."""
    return min(max(after_seconds, 0), VISIBILITY_SECONDS_MAX)


def check_receive(limit: int, visibility_seconds: float) -> None:
    """Raise LimitExceeded for a receive outside the port's limits. Every backend calls this before it receives."""
    if not 1 <= limit <= RECEIVE_MESSAGES_MAX:
        raise LimitExceeded("a receive requests too few or too many messages", value=limit, limit=RECEIVE_MESSAGES_MAX)
    if not 0 < visibility_seconds <= VISIBILITY_SECONDS_MAX:
        raise LimitExceeded(
            "a visibility timeout is out of range", value=visibility_seconds, limit=VISIBILITY_SECONDS_MAX
        )
