"""Queued pushes: the content of a queue message, in bytes that later versions still read.

A push that is too large for a message is first put into blobs. The message then contains a reference to these blobs (a
*claim check*). No other message refers to these blobs, so the worker deletes them once the message is settled.
`formats/queue.md` describes the bytes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import msgspec

from stratalog.clock import new_id
from stratalog.codec import ZSTD, codec_named, compress, encode, unpack
from stratalog.errors import Corrupt, Invalid, LimitExceeded, Unsupported
from stratalog.keys import name_partition, queued_owner
from stratalog.limits import MESSAGE_BYTES_MAX, QUEUED_BYTES_MAX
from stratalog.log import Environment
from stratalog.log.bodies import BodyRef, read_body, write_body
from stratalog.log.names import NameRecord
from stratalog.ports.blobs import Blobs
from stratalog.protocol.messages import Mutation, check_mutation, check_unreserved
from stratalog.protocol.sync import Push

__all__ = [
    "Carried",
    "Envelope",
    "QueuedPush",
    "claim_check_exists",
    "group_of",
    "open_push",
    "read_message",
    "remove_claim_check",
    "write_message",
]

FORMAT = 1
TOKEN_CHARACTERS = 16


class Carried(msgspec.Struct, frozen=True, array_like=True):
    """One mutation. If no entry can contain the mutation, ``refused`` is the reason, and there are no arguments."""

    client: str
    id: int
    name: str
    args: Any = None
    refused: str = ""


class QueuedPush(msgspec.Struct, frozen=True, array_like=True):
    """A push and its principal. ``origin`` is the document's origin that the client named, or empty.

    ``known`` contains the names of those mutators of the push that the queueing process had. A worker that lacks one of
    these mutators does not run the push.
    """

    group: str
    origin: str
    owner: str
    author: str
    mutations: list[Carried]
    known: tuple[str, ...] = ()

    def push(self, mutations: Sequence[Carried] | None = None) -> Push:
        """Return the push with ``mutations``, by default with all of its mutations."""
        chosen = self.mutations if mutations is None else mutations
        return Push(self.group, [_mutation(carried) for carried in chosen], self.origin)


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """A decoded message: the document and incarnation, and the encoded push or a reference to its blobs."""

    organisation: str
    document: str
    incarnation: str
    token: str
    sent_ms: int
    codec: str
    """The tag of the codec of ``inline``."""

    inline: bytes
    claim_check: BodyRef | None = None
    """The reference to the blobs of the push; None if ``inline`` contains the push."""

    @property
    def claim_check_owner(self) -> str:
        """The owner of the claim check's blobs."""
        return queued_owner(self.organisation, self.document, self.incarnation, self.token)


def group_of(record: NameRecord) -> str:
    """Return the queue's group for a document's pushes."""
    return name_partition(record.organisation, record.name)


def write_message(
    environment: Environment,
    record: NameRecord,
    push: Push,
    owner: str,
    author: str,
    bytes_max: int = MESSAGE_BYTES_MAX,
    known: Container[str] = (),
) -> bytes:
    """Return the message for a checked push. If it would exceed ``bytes_max``, the push is put into blobs, durably.

    ``known`` contains the names of the document's mutators in this process. Raises LimitExceeded, Unavailable,
    OutcomeUnknown.
    """
    mutations = [_carried(mutation) for mutation in push.mutations]
    known_names = tuple(sorted({mutation.name for mutation in push.mutations if mutation.name in known}))
    body = _body(QueuedPush(push.group, push.origin, owner, author, mutations, known_names))
    if len(body) > QUEUED_BYTES_MAX:
        raise LimitExceeded("a push is too large to be queued", value=len(body), limit=QUEUED_BYTES_MAX)
    token = new_id(environment.clock, TOKEN_CHARACTERS)
    names = (record.organisation, record.name, record.incarnation, token, environment.clock.wall_ms())
    message = _message(Envelope(*names, ZSTD.tag, compress(body)))
    if len(message) <= bytes_max:
        return message
    claimed = Envelope(*names, ZSTD.tag, inline=b"")
    return _message(
        msgspec.structs.replace(claimed, claim_check=write_body(environment.blobs, claimed.claim_check_owner, body))
    )


def read_message(message: bytes) -> Envelope:
    """Return the envelope of a message. Raises Corrupt, and Unsupported for a newer format."""
    if message[:1] > bytes([FORMAT]):
        raise Unsupported("a message is of a newer format", value=message[0], limit=FORMAT)
    try:
        return _decode_envelope(message[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Corrupt("a message is not a queued push", reason=str(exc)) from exc


def open_push(blobs: Blobs, envelope: Envelope) -> QueuedPush:
    """Return the push that a message contains or refers to.

    Raises Corrupt and Unavailable. Raises ReservedName for a reserved name of a client or mutation: no server queues
    such a push. Raises Unsupported for a codec of a newer program.
    """
    if envelope.claim_check is None:
        body = unpack(codec_named(envelope.codec, envelope.claim_check_owner), envelope.inline, QUEUED_BYTES_MAX)
    else:
        body = read_body(blobs, envelope.claim_check_owner, envelope.claim_check)
    try:
        push = _decode_push(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Corrupt("a queued push cannot be decoded", reason=str(exc)) from exc
    for carried in push.mutations:
        check_unreserved(_mutation(carried))
    return push


def claim_check_exists(blobs: Blobs, envelope: Envelope) -> bool:
    """Return whether the push can still be read. The blobs of a settled push are deleted before its message."""
    return envelope.claim_check is None or blobs.stat(_claim_check_key(envelope, envelope.claim_check)) is not None


def remove_claim_check(blobs: Blobs, envelope: Envelope) -> None:
    """Delete the blobs of a settled push, first the blob that `claim_check_exists` reads. Calling twice is harmless."""
    if envelope.claim_check is None:
        return
    first = _claim_check_key(envelope, envelope.claim_check)
    for stat in sorted(blobs.list(f"{envelope.claim_check_owner}/"), key=lambda stat: stat.key != first):
        blobs.delete(stat.key, stat.stamp)


def _body(queued: QueuedPush) -> bytes:
    """Return the encoded fields of a push. As in older versions, an empty ``known`` is left out."""
    fields = [queued.group, queued.origin, queued.owner, queued.author, queued.mutations]
    return encode(queued if queued.known else fields)


def _claim_check_key(envelope: Envelope, claim_check: BodyRef) -> str:
    return f"{envelope.claim_check_owner}/{claim_check.address.hex()}"


def _carried(mutation: Mutation) -> Carried:
    try:
        checked = check_mutation(mutation)
        return Carried(checked.client, checked.id, checked.name, checked.args)
    except (Invalid, LimitExceeded) as exc:
        return Carried(mutation.client, mutation.id, "", refused=str(exc))


def _mutation(carried: Carried) -> Mutation:
    return Mutation(client=carried.client, id=carried.id, name=carried.name, args=carried.args)


def _message(envelope: Envelope) -> bytes:
    return bytes([FORMAT]) + encode(envelope)


_decode_envelope = msgspec.msgpack.Decoder(Envelope).decode
_decode_push = msgspec.msgpack.Decoder(QueuedPush).decode
