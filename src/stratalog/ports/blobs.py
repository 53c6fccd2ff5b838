"""Blobs: immutable bytes under readable keys that end in the SHA-256 of their uncompressed content."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from stratalog.codec import sha256
from stratalog.errors import Corrupt, Invalid, LimitExceeded
from stratalog.limits import BLOB_BYTES_MAX, BLOB_KEY_BYTES_MAX

__all__ = ["BlobStat", "Blobs", "check_put", "key_hash", "verified"]


class BlobStat(msgspec.Struct, frozen=True):
    """What a blob looks like from outside: ``stamp`` names this generation of it, ``modified_ms`` starts its age."""

    key: str
    stored_bytes: int
    modified_ms: int
    stamp: str


class Blobs(Protocol):
    """The contract. Safe to call from many threads and processes. A key is `/`-separated text ending in 64 hex digits.

    *Atomicity*: a blob is there whole or not at all, also after a crash. *Bounds*: `BLOB_BYTES_MAX` of content; a
    larger body is several blobs and a manifest. *Stored form*: one zstd frame on every backend, which names this codec.
    Where people can look, the name or a header says the codec and what the blob holds (`blob_kinds.py`).
    """

    def put(self, key: str, body: bytes) -> None:
        """Store ``body``, durably. Where it stands already, whole, its age starts anew. A damaged one is replaced.

        Raises Invalid (the key does not end in the body's hash), LimitExceeded, Unavailable: nothing written.
        OutcomeUnknown: put it again, which is always safe.
        """
        ...

    def get(self, key: str) -> bytes:
        """The content, verified against the key's hash. Raises NotFound, Corrupt, Unavailable."""
        ...

    def stat(self, key: str) -> BlobStat | None:
        """How the blob looks, or None where there is none. Its content is not verified. Raises Unavailable."""
        ...

    def list(self, prefix: str, *, after: str = "") -> Iterator[BlobStat]:
        """Blobs whose key starts with ``prefix`` and is greater than ``after``, in order of key, lazily by pages."""
        ...

    def delete(self, key: str, stamp: str) -> bool:
        """Remove the generation that ``stamp`` names. False, and nothing removed, where another generation stands.

        True where it was removed or none stands. Raises Unavailable where the backend cannot tell generations apart.
        """
        ...

    def close(self) -> None:
        """Let go of connections. Calls after it raise Closed; closing twice is fine."""
        ...


def key_hash(key: str) -> bytes:
    """The hash a key ends in. Raises Invalid where it ends in none."""
    tail = key.rpartition("/")[2]
    try:
        digest = bytes.fromhex(tail)
    except ValueError:
        digest = b""
    if len(tail) != 64 or len(digest) != 32 or "//" in key or key.startswith("/"):
        raise Invalid("a blob key must be path components and then 64 hex digits", value=key)
    return digest


def check_put(key: str, body: bytes) -> None:
    """Raise Invalid or LimitExceeded for a put that breaks the contract; every backend calls it first."""
    size = len(key) if key.isascii() else len(key.encode())
    if size > BLOB_KEY_BYTES_MAX:
        raise LimitExceeded("a blob key is too long", value=size, limit=BLOB_KEY_BYTES_MAX)
    if len(body) > BLOB_BYTES_MAX:
        raise LimitExceeded("a blob is too large", value=len(body), limit=BLOB_BYTES_MAX)
    if sha256(body) != key_hash(key):
        raise Invalid("a blob's key does not end in the hash of its bytes", value=key)


def verified(key: str, body: bytes) -> bytes:
    """``body`` if its hash is the key's. Raises Corrupt; every backend's get ends in it."""
    if sha256(body) != key_hash(key):
        raise Corrupt("a blob's bytes do not have the hash in its key", key=key)
    return body
