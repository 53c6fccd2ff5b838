"""Joining: which queued pushes may be one batch, so that what waits for one document is written as one entry.

Each must come out as it would have alone. So all speak for the same principal; the numbers of each client run on, or
were brought before by one of them; and none has been given out before, since one that failed is looked at by itself.
With numbers that run on, a client that is stopped by a gap at its first is stopped at each: none fills it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stratalog.errors import StratalogError
from stratalog.limits import MUTATIONS_PER_BATCH_MAX
from stratalog.ports.blobs import Blobs
from stratalog.ports.queue import Message
from stratalog.worker.messages import Carried, Envelope, QueuedPush, open_push, read_message

__all__ = ["JOINED_BYTES_MAX", "Opened", "join"]

JOINED_BYTES_MAX = 128 * 1024
"""How large messages may be together: of large ones each is an entry's worth, and joining saves little."""


class Opened(msgspec.Struct, frozen=True):
    """A message with what it says."""

    message: Message
    envelope: Envelope
    push: QueuedPush


def join(blobs: Blobs, messages: Sequence[Message]) -> list[Opened]:
    """The first messages of a group, as far as they may be one batch; none where the first goes alone."""
    joined: list[Opened] = []
    room, mutations_left = JOINED_BYTES_MAX, MUTATIONS_PER_BATCH_MAX
    reached: dict[str, tuple[int, int]] = {}
    for opened in _readable(blobs, messages):
        room, mutations_left = room - len(opened.message.body), mutations_left - len(opened.push.mutations)
        if min(room, mutations_left) < 0 or not _run_on(reached, opened.push.mutations):
            break
        if joined and _speaks_for(joined[0]) != _speaks_for(opened):
            break
        joined.append(opened)
    return joined


def _readable(blobs: Blobs, messages: Sequence[Message]) -> Iterator[Opened]:
    """Messages, opened, up to the first that is not new, not whole, or not to be read."""
    for message in messages:
        if message.receives > 1:
            return
        try:
            envelope = read_message(message.body)
            if envelope.claim_check is not None:
                return
            yield Opened(message, envelope, open_push(blobs, envelope))
        except StratalogError:
            return


def _speaks_for(opened: Opened) -> tuple[str, ...]:
    envelope, push = opened.envelope, opened.push
    names = (envelope.organisation, envelope.document, envelope.incarnation)
    return (*names, push.origin, push.group, push.owner, push.author)


def _run_on(reached: dict[str, tuple[int, int]], mutations: Sequence[Carried]) -> bool:
    """Whether each client's numbers go on behind those in ``reached``, or are among them. They are added there."""
    for mutation in mutations:
        first, last = reached.get(mutation.client, (mutation.id, mutation.id - 1))
        if not first <= mutation.id <= last + 1:
            return False
        reached[mutation.client] = (first, max(last, mutation.id))
    return True
