"""Mutations and their outcomes."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Literal

import msgspec

from stratalog.codec import canonical, encode
from stratalog.errors import Invalid, LimitExceeded, ReservedName
from stratalog.limits import CLIENT_ID_BYTES_MAX, INTEGER_MAX, MUTATOR_NAME_BYTES_MAX, VALUE_BYTES_MAX

__all__ = [
    "RESERVED_CLIENTS",
    "UNSTORABLE",
    "Mutation",
    "Outcome",
    "Status",
    "Undecodable",
    "check_client",
    "check_identity",
    "check_mutation",
    "check_payload",
    "check_unreserved",
    "payload_hash",
    "same_payload",
]

RESERVED_CLIENTS = ("replay/", "redrive/")
"""The prefixes of the clients that the store itself uses, for merges and for redriven dead letters."""

UNSTORABLE = "(not storable)"
"""The name under which the server commits a mutation that cannot be stored in an entry. The server commits the mutation
as a rejection, without its arguments."""

Status = Literal["applied", "rejected", "seen", "gap", "mismatch", "unknown-client", "wrong-group", "collected"]


class Mutation(msgspec.Struct, frozen=True, kw_only=True):
    """A change as data: the mutator ``name`` runs with ``args``.

    ``client`` is the client's id. ``id`` is the mutation's number among the mutations of this client.
    """

    client: str
    name: str
    args: Any = None
    id: int = 0
    """The number 1, 2, 3 … within a client. A mutation with the number 0 gets the next number when it is applied."""

    origin: tuple[str, int] | None = None
    """The client and id of the original mutation, if this mutation replays it."""


class Undecodable(msgspec.Struct, frozen=True):
    """The arguments of a mutation that a server received and cannot decode. `check_mutation` refuses them."""

    reason: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of one mutation.

    applied, rejected: the mutation is committed as part of ``version``. A rejection has its ``reason``.
    seen: the number is not above the client's last number. Its mutation was committed before, or lost with a branch.
    mismatch: a mutation with this number but another payload was committed before, or precedes it in the batch.
    gap: the client's next number is ``expected``. This mutation and the client's later mutations were not committed.
    unknown-client: the number is above 1 and the client is unknown, or the push is for another history (its origin).
    wrong-group: the client is bound to another group or owner, or the group has another owner.
    collected: the group's clients were collected, so nothing was committed.
    """

    client: str
    id: int
    status: Status
    version: int | None = None
    reason: str | None = None
    expected: int | None = None


def check_mutation(mutation: Mutation) -> Mutation:
    """Return ``mutation`` with canonical arguments. Raises Invalid or LimitExceeded if it may not be committed."""
    if not isinstance(mutation, Mutation):
        raise Invalid("a batch has mutations only", type=type(mutation).__name__)
    _check_text(mutation.client, "client", CLIENT_ID_BYTES_MAX)
    _check_text(mutation.name, "mutator name", MUTATOR_NAME_BYTES_MAX)
    if type(mutation.id) is not int or not 0 <= mutation.id <= INTEGER_MAX:
        raise Invalid("a mutation id lies outside its range", value=mutation.id, limit=INTEGER_MAX)
    if mutation.origin is not None:
        _check_origin(mutation.origin)
    if isinstance(mutation.args, Undecodable):
        raise Invalid("the arguments of a mutation cannot be decoded", reason=mutation.args.reason)
    return msgspec.structs.replace(mutation, args=canonical(mutation.args, "argument"))


def check_identity(text: str, what: str, *, empty: bool = False) -> str:
    """Return ``text`` if it is a valid client, group or owner. Empty text is valid only with ``empty``.

    Raises Invalid or LimitExceeded.
    """
    if text != "" or not empty:
        _check_text(text, what, CLIENT_ID_BYTES_MAX)
    return text


def check_unreserved(mutation: Mutation) -> Mutation:
    """Return ``mutation`` if its client and name are not reserved for the store itself. Raises ReservedName.

    Without this check, any writer could commit mutations with the client and the numbers of a merge. The merge would
    then have no effect.
    """
    _check_free(mutation.client)
    if mutation.name == UNSTORABLE:
        raise ReservedName("a mutation may not have a name that is reserved", name=mutation.name)
    return mutation


def check_client(client: str) -> str:
    """Return ``client`` if it is not reserved. Raises Invalid, LimitExceeded or ReservedName."""
    _check_free(check_identity(client, "client"))
    return client


def payload_hash(name: str, args: bytes) -> bytes:
    """Return 16 bytes of a hash of the name and the canonical arguments.

    If two mutations with one number have different hashes, their payloads differ.
    """
    return sha256(encode(name) + check_payload(args)).digest()[:16]


def same_payload(stored: bytes, asked: bytes) -> bool:
    """Return whether two payload hashes match.

    The hash of an unstorable mutation matches every hash, because the server does not store the original payload.
    """
    return stored == asked or _UNSTORABLE_HASH in (stored, asked)


def check_payload(args: bytes) -> bytes:
    """Return ``args``, the canonical bytes of arguments. Raises LimitExceeded if they are too large to commit."""
    if len(args) > VALUE_BYTES_MAX:
        raise LimitExceeded("a mutation's arguments are too large", value=len(args), limit=VALUE_BYTES_MAX)
    return args


def _check_free(client: str) -> None:
    if type(client) is str and client.startswith(RESERVED_CLIENTS):
        raise ReservedName("a client may not have a name that is reserved", client=client)


def _check_origin(origin: tuple[str, int]) -> None:
    if type(origin) is not tuple or len(origin) != 2:
        raise Invalid("a mutation's origin must be a client and an id", value=repr(origin))
    client, id = origin
    _check_text(client, "client", CLIENT_ID_BYTES_MAX)
    if type(id) is not int or not 0 <= id <= INTEGER_MAX:
        raise Invalid("a mutation id lies outside its range", value=id, limit=INTEGER_MAX)


def _check_text(text: str, what: str, limit: int) -> None:
    if type(text) is not str or not text or text[0] == "\0":
        raise Invalid(f"a {what} must be a text that is not empty and does not start with a zero character", value=text)
    size = len(text) if text.isascii() else len(canonical(text, what).encode())
    if size > limit:
        raise LimitExceeded(f"a {what} is too long", value=size, limit=limit)


_UNSTORABLE_HASH = payload_hash(UNSTORABLE, encode(None))
