"""Coalescing: combine queued pushes of one document into one batch, which the log stores as one entry.

Each push must have the same outcome in the batch as alone. So a batch fulfils these conditions:

- All pushes have the same document, origin, client group and principal.
- The numbers of each client continue without a gap, or repeat earlier numbers of the batch. If there is a gap between a
  client's last number in the document and its first number in the batch, the batch does not fill this gap. Each of the
  client's mutations then has the outcome gap, as it would have alone.
- No message was delivered before, since a message that failed is handled alone.
- No message has a claim check. The batch has at most `COALESCED_BYTES_MAX` bytes and at most `MUTATIONS_PER_BATCH_MAX`
  mutations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stratalog.errors import StratalogError
from stratalog.limits import MUTATIONS_PER_BATCH_MAX
from stratalog.ports.blobs import Blobs
from stratalog.ports.queue import Message
from stratalog.worker.messages import Carried, Envelope, QueuedPush, open_push, read_message

__all__ = ["COALESCED_BYTES_MAX", "Opened", "coalesce"]

COALESCED_BYTES_MAX = 128 * 1024
"""The largest total size of the messages of a batch. Coalescing large messages would save little."""


class Opened(msgspec.Struct, frozen=True):
    """A message with its decoded envelope and push."""

    message: Message
    envelope: Envelope
    push: QueuedPush


def coalesce(blobs: Blobs, messages: Sequence[Message]) -> list[Opened]:
    """Return the first messages of a group that may form one batch; none if the first message must be handled alone."""
    coalesced: list[Opened] = []
    room, mutations_left = COALESCED_BYTES_MAX, MUTATIONS_PER_BATCH_MAX
    reached: dict[str, tuple[int, int]] = {}
    for opened in _readable(blobs, messages):
        room, mutations_left = room - len(opened.message.body), mutations_left - len(opened.push.mutations)
        if min(room, mutations_left) < 0 or not _run_on(reached, opened.push.mutations):
            break
        if coalesced and _batch_key(coalesced[0]) != _batch_key(opened):
            break
        coalesced.append(opened)
    return coalesced


def _readable(blobs: Blobs, messages: Sequence[Message]) -> Iterator[Opened]:
    """Yield opened messages. Stop before a message that was delivered before, has a claim check, or cannot be read."""
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


def _batch_key(opened: Opened) -> tuple[str, ...]:
    envelope, push = opened.envelope, opened.push
    names = (envelope.organisation, envelope.document, envelope.incarnation)
    return (*names, push.origin, push.group, push.owner, push.author)


def _run_on(reached: dict[str, tuple[int, int]], mutations: Sequence[Carried]) -> bool:
    """Return whether each client's numbers continue or repeat its numbers in ``reached``. Update ``reached``."""
    for mutation in mutations:
        first, last = reached.get(mutation.client, (mutation.id, mutation.id - 1))
        if not first <= mutation.id <= last + 1:
            return False
        reached[mutation.client] = (first, max(last, mutation.id))
    return True
