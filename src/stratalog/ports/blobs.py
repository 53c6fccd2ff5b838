"""Blobs: immutable bytes under readable keys that end in the SHA-256 of their uncompressed content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import msgspec

from stratalog.codec import Codec, sha256, unpack
from stratalog.errors import Corrupt, Invalid, LimitExceeded
from stratalog.limits import BLOB_BYTES_MAX, BLOB_KEY_BYTES_MAX

__all__ = [
    "BlobStat",
    "Blobs",
    "Damaged",
    "check_put",
    "ignore",
    "key_hash",
    "sound_keys",
    "unpacked",
    "verified",
]

Damaged = Callable[[str], object]
"""Called with a damaged key, as a readable text."""


def ignore(key: str) -> None:
    """Do nothing about a damaged key."""


class BlobStat(msgspec.Struct, frozen=True):
    """The metadata of a blob.

    Each put makes a new generation of the blob. ``stamp`` names the generation, whose age starts at ``modified_ms``.
    """

    key: str
    stored_bytes: int
    modified_ms: int
    stamp: str


class Blobs(Protocol):
    """The contract. Safe to call from many threads and processes. A key is `/`-separated text ending in 64 hex digits.

    *Atomicity*: a blob exists completely or not at all, also after a crash. *Limits*: `BLOB_BYTES_MAX` of content, and
    `BLOB_KEY_BYTES_MAX` of a key. A larger body is stored as several blobs and a manifest. *Malformed keys*: a put
    raises Invalid. Another call with such a key either raises Invalid or finds no blob. *Stored form*: one zstd frame,
    except in memory. The backend records the codec. If people can browse the blobs, the name or a header states the
    codec and the kind of content (`blob_kinds.py`).
    """

    def put(self, key: str, body: bytes) -> None:
        """Store ``body``, durably. A put of a stored blob restarts its age, and replaces damaged content.

        Raises Invalid (the key does not end in the body's hash), LimitExceeded, Unavailable: nothing was written.
        Raises OutcomeUnknown: the blob may be stored. A second put of the blob is always safe.
        """
        ...

    def get(self, key: str) -> bytes:
        """Return the content, verified against the key's hash.

        Raises NotFound, Corrupt, Unavailable. Raises Unsupported if a newer Stratalog stored the blob.
        """
        ...

    def stat(self, key: str) -> BlobStat | None:
        """Return the blob's metadata, or None if no blob is stored. The content is not verified. Raises Unavailable."""
        ...

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        """Yield blobs whose key starts with ``prefix`` and is above ``after``, in order of key, lazily by pages.

        A blob whose stored key is damaged, so that it is no key, is not yielded, and no other call finds it. A list
        calls ``damaged`` with each such key that starts with ``prefix``, at least once. Files and objects of other
        programs, in a folder or bucket, are left out.

        A list shows no single moment. It yields each blob that is stored during the whole list, and may leave out a
        blob that is put or deleted meanwhile. So if one blob is put and then the blob that it replaces is deleted, a
        list may yield neither.

        Raises Unavailable, also while iterating.
        """
        ...

    def delete(self, key: str, stamp: str) -> bool:
        """Delete the generation that ``stamp`` names. If another generation is stored, delete nothing and return False.

        Return True if the generation was deleted or no blob is stored. So all concurrent deletes of one generation
        return True, and each of their callers counts the blob. Raises Unavailable, also if the backend cannot
        distinguish generations. Raises OutcomeUnknown: a second call is safe.
        """
        ...

    def close(self) -> None:
        """Release connections. Later calls raise Closed. Closing twice is harmless."""
        ...


def key_hash(key: str) -> bytes:
    """Return the hash at the end of a key. Raises Invalid for a malformed key."""
    tail = key.rpartition("/")[2]
    try:
        digest = bytes.fromhex(tail)
    except ValueError:
        digest = b""
    if len(tail) != 64 or len(digest) != 32 or "//" in key or key.startswith("/"):
        raise Invalid("a blob key must be path components followed by 64 hex digits", value=key)
    return digest


def sound_keys(stats: Iterable[BlobStat], damaged: Damaged) -> Iterator[BlobStat]:
    """Yield the stats whose key is a blob's key. Call ``damaged`` with each other key."""
    for stat in stats:
        try:
            key_hash(stat.key)
        except Invalid:
            damaged(stat.key)
        else:
            yield stat


def check_put(key: str, body: bytes) -> None:
    """Raise Invalid or LimitExceeded for a put that breaks the contract. Every backend calls this before it writes."""
    size = len(key) if key.isascii() else len(key.encode())
    if size > BLOB_KEY_BYTES_MAX:
        raise LimitExceeded("a blob key is too long", value=size, limit=BLOB_KEY_BYTES_MAX)
    if len(body) > BLOB_BYTES_MAX:
        raise LimitExceeded("a blob is too large", value=len(body), limit=BLOB_BYTES_MAX)
    if sha256(body) != key_hash(key):
        raise Invalid("a blob's key does not end in the hash of its bytes", value=key)


def verified(key: str, body: bytes) -> bytes:
    """Return ``body`` if ``key`` ends in its hash, else raise Corrupt. Every backend's `get` ends with this check."""
    if sha256(body) != key_hash(key):
        raise Corrupt("a blob's bytes do not have the hash in its key", key=key)
    return body


def unpacked(key: str, codec: Codec, data: bytes) -> bytes:
    """Return the verified content of a blob that is stored as ``data``. Raises Corrupt, which names the key."""
    try:
        body = unpack(codec, data, BLOB_BYTES_MAX)
    except Corrupt as exc:
        raise Corrupt(exc.message, **{**exc.details, "key": key}) from exc
    return verified(key, body)
