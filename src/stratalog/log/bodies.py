"""Bodies: bytes of any size as blobs. A small body is one blob. A larger body is several parts and their manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Protocol

import msgspec

from stratalog.codec import decode, encode, sha256
from stratalog.errors import Corrupt, NotFound
from stratalog.limits import BODY_PART_BYTES
from stratalog.ports.blobs import Blobs
from stratalog.ports.read_back import BlobDamage, BlobReading, read_blob_back

__all__ = [
    "BodyRef",
    "blob_addresses",
    "decode_body_ref",
    "read_body",
    "read_body_back",
    "stream_body",
    "write_body",
]


class BodyRef(msgspec.Struct, frozen=True, array_like=True):
    """A reference to a body: the hash of its only blob or of its manifest, its size, and the hash of its content."""

    address: bytes
    size: int
    digest: bytes | None = None
    """The hash of the content; None if the body is one blob, since ``address`` is then the hash of the content."""


decode_body_ref = msgspec.msgpack.Decoder(BodyRef).decode


class BlobWriter(Protocol):
    """The part of `Blobs` that `write_body` needs."""

    def put(self, key: str, body: bytes) -> None:
        """See `Blobs.put`."""
        ...


def write_body(blobs: BlobWriter, prefix: str, content: bytes | Iterable[bytes]) -> BodyRef:
    """Store ``content`` under ``prefix``. Needs memory for a few parts. Raises the errors of ``put``."""
    if isinstance(content, bytes) and len(content) <= BODY_PART_BYTES:
        return BodyRef(_put(blobs, prefix, content), len(content))
    parts = _slices(content) if isinstance(content, bytes) else _parts(content)
    first = next(parts, b"")
    second = next(parts, None)
    if second is None:
        return BodyRef(_put(blobs, prefix, first), len(first))
    return _write_parts(blobs, prefix, chain((first, second), parts))


def read_body(blobs: Blobs, prefix: str, ref: BodyRef) -> bytes:
    """Return the whole verified content. Raises Corrupt under the conditions of `stream_body`."""
    return b"".join(stream_body(blobs, prefix, ref))


def stream_body(blobs: Blobs, prefix: str, ref: BodyRef) -> Iterator[bytes]:
    """Yield the verified parts of the content. Before the last part, verify the hash of the whole content.

    Keeps no reference to a yielded part, so only one part is in memory while a slow reader works. Raises Corrupt for a
    blob that is damaged or missing: an item in the index names the blob, so the blob must exist.
    """
    if ref.digest is None:
        body = _get(blobs, prefix, ref.address)
        if len(body) != ref.size:
            raise Corrupt("a body does not have its recorded size", address=ref.address.hex())
        given = [body]
        del body
        yield given.pop()
        return
    digest, size = hashlib.sha256(), 0
    addresses = _manifest(blobs, prefix, ref)
    for position, address in enumerate(addresses):
        part = _get(blobs, prefix, address)
        digest.update(part)
        size += len(part)
        if position == len(addresses) - 1 and (digest.digest(), size) != (ref.digest, ref.size):
            raise Corrupt("a body's parts do not have its recorded hash and size", address=ref.address.hex())
        given = [part]
        del part
        yield given.pop()


def read_body_back(blobs: Blobs, prefix: str, ref: BodyRef) -> Iterator[BlobReading]:
    """Read every blob of the body from storage. Yield damage instead of raising an error, and continue.

    If the manifest is damaged, no part is read. Needs memory for one part. Raises Unavailable.
    """
    key = f"{prefix}/{ref.address.hex()}"
    body = read_blob_back(blobs, key)
    if isinstance(body, BlobDamage):
        yield BlobReading(key, 0, body)
        return
    if ref.digest is None:
        is_other = len(body) != ref.size
        yield BlobReading(
            key, len(body), BlobDamage(key, False, "a body does not have its recorded size") if is_other else None
        )
        return
    try:
        addresses = _addresses_in(body, ref)
    except Corrupt as exc:
        yield BlobReading(key, len(body), BlobDamage(key, False, exc.message))
        return
    digest, size, is_intact = hashlib.sha256(), 0, True
    for address in addresses:
        part = read_blob_back(blobs, f"{prefix}/{address.hex()}")
        if isinstance(part, BlobDamage):
            is_intact = False
            yield BlobReading(part.key, 0, part)
        else:
            digest.update(part)
            size += len(part)
            yield BlobReading(f"{prefix}/{address.hex()}", len(part))
    is_other = is_intact and (digest.digest(), size) != (ref.digest, ref.size)
    reason = "a body's parts do not have its recorded hash and size"
    yield BlobReading(key, len(body), BlobDamage(key, False, reason) if is_other else None)


def blob_addresses(blobs: Blobs, prefix: str, ref: BodyRef) -> Iterator[bytes]:
    """Yield the hashes of all blobs of the body: first ``ref.address``, then the hashes of a large body's parts."""
    yield ref.address
    if ref.digest is not None:
        yield from _manifest(blobs, prefix, ref)


def _slices(content: bytes) -> Iterator[bytes]:
    """Cut ``content`` into parts of `BODY_PART_BYTES` without copying the whole."""
    return (content[start : start + BODY_PART_BYTES] for start in range(0, len(content), BODY_PART_BYTES))


def _parts(content: Iterable[bytes]) -> Iterator[bytes]:
    """Cut pieces of any size into parts of `BODY_PART_BYTES`; the last part may be shorter."""
    buffer = bytearray()
    for piece in content:
        buffer += piece
        while len(buffer) > BODY_PART_BYTES:
            yield bytes(buffer[:BODY_PART_BYTES])
            del buffer[:BODY_PART_BYTES]
    if buffer:
        yield bytes(buffer)


def _write_parts(blobs: BlobWriter, prefix: str, parts: Iterable[bytes]) -> BodyRef:
    digest = hashlib.sha256()
    addresses: list[bytes] = []
    size = 0
    for part in parts:
        digest.update(part)
        size += len(part)
        addresses.append(_put(blobs, prefix, part))
    return BodyRef(_put(blobs, prefix, encode(addresses)), size, digest.digest())


def _put(blobs: BlobWriter, prefix: str, body: bytes) -> bytes:
    address = sha256(body)
    blobs.put(f"{prefix}/{address.hex()}", body)
    return address


def _get(blobs: Blobs, prefix: str, address: bytes) -> bytes:
    try:
        return blobs.get(f"{prefix}/{address.hex()}")
    except NotFound as exc:
        raise Corrupt("a body's blob is missing", key=f"{prefix}/{address.hex()}") from exc


def _manifest(blobs: Blobs, prefix: str, ref: BodyRef) -> list[bytes]:
    return _addresses_in(_get(blobs, prefix, ref.address), ref)


def _addresses_in(manifest: bytes, ref: BodyRef) -> list[bytes]:
    addresses = decode(manifest)
    if not isinstance(addresses, list) or not all(isinstance(address, bytes) for address in addresses):
        raise Corrupt("a body's manifest is not a list of hashes", address=ref.address.hex())
    return addresses
