"""The hash chain: the hash of an entry names the whole history up to it. `formats/chain.md` defines it exactly.

Entry n has H(n) = SHA-256(H(n − 1) ‖ D(n)). D(n) is the digest of the entry's own facts. H(0) comes from the *origin*,
a random id that copies, imports and forks keep. The hash does not depend on how a body is stored (inline, compressed,
as a blob).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

from stratalog.codec import encode
from stratalog.errors import Corrupt
from stratalog.log.entries import Entry

__all__ = ["SALT_BYTES", "body_digest", "checked_entries", "genesis", "link"]

SALT_BYTES = 16
"""A redaction erases the salt with the body. Nobody can guess a salt of this length, and thereby the body."""

DOMAIN = b"stratalog history 1\0"
FACTS_FORMAT = 1


def genesis(origin: str) -> bytes:
    """Return H(0) of the histories that began with ``origin``."""
    return sha256(DOMAIN + origin.encode()).digest()


def body_digest(salt: bytes, body_hash: bytes) -> bytes:
    """Return the digest that represents a body in the chain.

    ``body_hash`` is the SHA-256 of the canonical bytes before compression.
    """
    return sha256(salt + body_hash).digest()


def link(
    before: bytes,
    version: int,
    created_ms: int,
    principal: str,
    author: str,
    write_id: str,
    digest: bytes,
    extras: Any = None,
) -> bytes:
    """Return H(``version``), given the hash ``before`` it.

    ``extras`` are the further facts of a record's version; None for an entry of a log. The facts are one MessagePack
    array, since concatenated texts could be split in more than one way.
    """
    facts = encode((FACTS_FORMAT, version, created_ms, principal, author, write_id, digest, extras))
    return sha256(before + sha256(facts).digest()).digest()


def checked_entries(before: bytes, entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield ``entries`` in order, each proven to continue the history that ``before`` names.

    Read ``entries`` without upcasters.
    Raises Corrupt for the first entry whose stored hash does not follow from its facts and the hash before it.
    """
    for entry in entries:
        digest = entry.redacted or body_digest(entry.salt, sha256(encode(entry.events)).digest())
        hash = link(before, entry.version, entry.created_ms, entry.principal, entry.author, entry.write_id, digest)
        if hash != entry.hash:
            raise Corrupt(
                "an entry does not follow from the history before it",
                version=entry.version,
                stored=entry.hash.hex(),
                computed=hash.hex(),
            )
        before = hash
        yield entry
