"""Dead letters of mutations: rejections caused by a fault and not by a rule of the application.

A letter is written when a mutator raises an unexpected exception, and when a worker rejects a mutation after its last
attempt. The letter is an index item, written before the entry that commits the rejection. So no crash loses a letter. A
letter whose mutation ended with another outcome stays unused.

The id of a worker's letter is the message's id, a slash, and the mutation's position in the message. The id of a letter
for a mutator's exception is a hash of document and client, a slash, and the mutation's number. The id of a letter with
edited arguments has a second slash and the payload hash of the edited mutation.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from stratalog.codec import encode
from stratalog.errors import Corrupt, StratalogError
from stratalog.keys import REJECTED_PARTITION
from stratalog.limits import COMMIT_WRITES_MAX
from stratalog.log.commit import commit_once
from stratalog.log.environment import Environment
from stratalog.log.names import NameRecord
from stratalog.ports.index import Attribute, Index, Item, Put, Write
from stratalog.ports.stored_attributes import read_attributes
from stratalog.protocol.mutators import Rejected

__all__ = [
    "LAST_ATTEMPT",
    "UNEXPECTED",
    "RejectedMutation",
    "is_shortage",
    "is_unexpected",
    "read_rejection",
    "require_intact_letter",
    "write_letters",
    "write_rejection",
]

UNEXPECTED = "unexpected exception in a mutator"
LAST_ATTEMPT = "mutation rejected after the last attempt"
"""The names under which `Environment.report` reports the two faults. Alarms match these names."""

SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
LETTER_BYTES = 16
DIGEST_BYTES = 16


class RejectedMutation(msgspec.Struct, frozen=True):
    """A mutation rejected for a fault. ``redriven_ms`` is 0 until the mutation is redriven.

    ``receives`` is the number of times that the queue delivered the message; 0 if the fault is a mutator's exception.
    ``args`` are the canonical bytes of edited arguments; empty if the mutation will run with its original arguments.
    """

    organisation: str
    document: str
    incarnation: str
    client: str
    id: int
    reason: str
    receives: int
    rejected_ms: int
    redriven_ms: int = 0
    args: bytes = b""
    digest: bytes = b""
    """The digest of the letter's key and of all other fields except ``redriven_ms``. `write_rejection` computes it."""


def is_shortage(exc: Exception) -> bool:
    """Return whether ``exc`` means that the process lacks memory or file descriptors. The mutation is not the cause."""
    return isinstance(exc, MemoryError) or (isinstance(exc, OSError) and exc.errno in SHORTAGES)


def is_unexpected(exc: Exception) -> bool:
    """Return whether a mutator's exception is a fault: neither `Rejected` nor a StratalogError.

    A draft raises a StratalogError, for example for an invalid key.

    A RecursionError counts as a fault of the mutation. Usually the arguments cause this error, so a retry would not
    help.
    """
    return not isinstance(exc, Rejected | StratalogError)


def write_letters(environment: Environment, record: NameRecord, failed: Sequence[tuple[str, int, str]]) -> None:
    """Write the letters of mutations, each (client, id, reason), before their rejections are committed.

    Repeated calls use the same letter for a mutation. Raises Unavailable, OutcomeUnknown: call the function again.
    """
    now_ms = environment.clock.wall_ms()
    writes: list[Write] = []
    for client, id, reason in failed:
        names = (record.organisation, record.name, record.incarnation, client, id)
        letter = f"{sha256(encode([record.prefix, client])).digest()[:LETTER_BYTES].hex()}/{id}"
        writes.append(_put(letter, RejectedMutation(*names, reason, 0, now_ms)))
    for start in range(0, len(writes), COMMIT_WRITES_MAX):
        # The writes have no condition: a second write replaces each letter under its key, so a lost answer needs no
        # check.
        commit_once(environment, writes[start : start + COMMIT_WRITES_MAX], lambda: False)


def require_intact_letter(letter: str, rejection: RejectedMutation) -> None:
    """Raise Corrupt if a letter was altered after it was written: nobody ever sent the altered mutation."""
    if rejection.digest != _digest(letter, rejection):
        raise Corrupt("a dead letter was altered after it was written", letter=letter)


def write_rejection(index: Index, letter: str, rejection: RejectedMutation) -> None:
    """Store a letter. An earlier letter of the same id is replaced. Raises the errors of ``Index.commit``."""
    index.commit([_put(letter, rejection)])


def _put(letter: str, rejection: RejectedMutation) -> Put:
    digested = msgspec.structs.replace(rejection, digest=_digest(letter, rejection))
    attributes: dict[str, Attribute] = msgspec.to_builtins(digested, builtin_types=(bytes,))
    return Put(Item(REJECTED_PARTITION, letter, attributes))


def _digest(letter: str, rejection: RejectedMutation) -> bytes:
    written = msgspec.structs.replace(rejection, redriven_ms=0, digest=b"")
    return sha256(encode([letter, *msgspec.structs.astuple(written)])).digest()[:DIGEST_BYTES]


def read_rejection(item: Item) -> RejectedMutation:
    """Return the rejected mutation of an item, intact or not. Raises Corrupt if the item is no rejected mutation."""
    return read_attributes(item, RejectedMutation, "a rejected mutation")
