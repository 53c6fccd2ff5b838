"""Queue: messages in first-in, first-out order per group, each given to one receiver at a time, at least once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from stratalog.errors import Invalid, LimitExceeded
from stratalog.limits import MESSAGE_BYTES_MAX, RECEIVE_MESSAGES_MAX, VISIBILITY_SECONDS_MAX

__all__ = ["DeadMessage", "Message", "Queue", "check_receive", "check_send"]


class Message(msgspec.Struct, frozen=True):
    """One message as given out: ``receipt`` is good for this giving-out only; ``receives`` counts them, from 1."""

    id: str
    group: str
    body: bytes
    receives: int
    receipt: str


class DeadMessage(msgspec.Struct, frozen=True):
    """A message that was given out `receives_max` times and never acknowledged."""

    id: str
    group: str
    body: bytes
    receives: int
    dead_ms: int


class Queue(Protocol):
    """The contract. Safe to call from many threads and processes.

    *Order*: within a group messages are given out in the order they were sent. While one of a group is in flight (given
    out, not acknowledged, its visibility not run out) no later message of that group is given to another receive.
    *At least once*: a message in flight whose time runs out is given out again. A message whose giving-out would exceed
    the queue's `receives_max` is moved to the dead letters instead, and the group goes on.
    """

    def send(self, group: str, bodies: Sequence[bytes]) -> None:
        """Append ``bodies`` to the group, in order, all or none. Durable on return.

        Raises LimitExceeded, Invalid, Unavailable: nothing sent. OutcomeUnknown: some may have been sent.
        """
        ...

    def receive(self, limit: int = 10, *, visibility_seconds: float = 30) -> list[Message]:
        """Up to ``limit`` messages, in order within each group, hidden from others for the given time; [] when none.

        Several of one group may come together, and then none after them until all are settled.
        """
        ...

    def acknowledge(self, message: Message) -> bool:
        """Remove the message for good. False, and nothing changed, where the receipt is no longer good."""
        ...

    def release(self, message: Message, *, after_seconds: float = 0) -> bool:
        """Let the message be given out again that long from now; a long time extends the hold. False: receipt stale."""
        ...

    def dead_letters(self, *, after: str = "") -> Iterator[DeadMessage]:
        """Messages moved aside, oldest first, those after the id ``after``."""
        ...

    def close(self) -> None:
        """Let go of files and connections. Calls after it raise Closed; closing twice is fine."""
        ...


def check_send(group: str, bodies: Sequence[bytes]) -> None:
    """Raise Invalid or LimitExceeded for a send over the port's bounds; every backend calls it first."""
    if not group or not bodies:
        raise Invalid("a send needs a group and at least one body", group=group)
    total = sum(map(len, bodies))
    if total > MESSAGE_BYTES_MAX:
        raise LimitExceeded("a send is too large", value=total, limit=MESSAGE_BYTES_MAX)
    if len(bodies) > RECEIVE_MESSAGES_MAX:
        raise LimitExceeded("a send has too many messages", value=len(bodies), limit=RECEIVE_MESSAGES_MAX)


def check_receive(limit: int, visibility_seconds: float) -> None:
    """Raise LimitExceeded for a receive over the port's bounds; every backend calls it first."""
    if not 1 <= limit <= RECEIVE_MESSAGES_MAX:
        raise LimitExceeded("a receive asks for too few or too many", value=limit, limit=RECEIVE_MESSAGES_MAX)
    if not 0 < visibility_seconds <= VISIBILITY_SECONDS_MAX:
        raise LimitExceeded(
            "a visibility lies outside its range", value=visibility_seconds, limit=VISIBILITY_SECONDS_MAX
        )
