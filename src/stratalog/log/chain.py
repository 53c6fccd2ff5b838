"""The hash chain: the hash of an entry identifies the whole history up to the entry. `formats/chain.md` has the bytes.

Entry n has H(n) = SHA-256(H(n − 1) ‖ D(n)). D(n) is the digest of the entry's own facts: its version, time, principal,
author, write id and body digest. H(0) is the hash of the *origin*, a random id that copies, imports and forks keep. The
hash does not depend on how a body is stored (inline, compressed, as a blob).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

from stratalog.codec import encode
from stratalog.errors import Corrupt
from stratalog.log.entries import Entry

__all__ = ["SALT_BYTES", "body_digest", "checked_entries", "digest_of", "genesis", "link"]

SALT_BYTES = 16
"""A redaction erases the salt and the body. Without the salt nobody can check a guess of the body by its digest."""

DOMAIN = b"stratalog history 1\0"
FACTS_FORMAT = 1


def genesis(origin: str) -> bytes:
    """Return H(0) of the histories with this ``origin``."""
    return sha256(DOMAIN + origin.encode()).digest()


def body_digest(salt: bytes, body_hash: bytes) -> bytes:
    """Return the digest that represents a body in the chain.

    ``body_hash`` is the SHA-256 of the canonical bytes before compression.
    """
    return sha256(salt + body_hash).digest()


def digest_of(entry: Entry) -> bytes:
    """Return the digest of an entry's body: computed from its events, or the stored digest if they were erased.

    The caller must read ``entry`` without upcasters.
    """
    return entry.redacted or body_digest(entry.salt, sha256(encode(entry.events)).digest())


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
    """Return H(``version``). ``before`` is the hash of the previous version.

    ``extras`` are the further facts of a record's version; None for an entry of a log. The facts are encoded as one
    MessagePack array, since two different lists of texts could have the same concatenation.
    """
    facts = encode((FACTS_FORMAT, version, created_ms, principal, author, write_id, digest, extras))
    return sha256(before + sha256(facts).digest()).digest()


def checked_entries(before: bytes, entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield each of ``entries`` after a check that it continues the history whose hash is ``before``.

    The caller must read ``entries`` without upcasters. Raises Corrupt for the first entry whose stored hash does not
    follow from its facts and the hash of the previous entry.
    """
    for entry in entries:
        who = entry.principal, entry.author, entry.write_id
        hash = link(before, entry.version, entry.created_ms, *who, digest_of(entry))
        if hash != entry.hash:
            raise Corrupt(
                "an entry does not follow from the history before it",
                version=entry.version,
                stored=entry.hash.hex(),
                computed=hash.hex(),
            )
        before = hash
        yield entry
