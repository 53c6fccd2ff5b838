"""Values as a document stores them: a small value as its canonical bytes, a large value as a reference to a blob.

A reference is a MessagePack extension. No canonical value is an extension, so the first byte identifies a reference. If
an argument is also a value in the patch, the entry stores the argument as an extension of another type. This extension
names the value's row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from stratalog.codec import Value, decode, encode, sha256
from stratalog.documents.commits import PatchRow
from stratalog.errors import Corrupt
from stratalog.keys import escape
from stratalog.limits import METADATA_BYTES_MAX, VALUE_INLINE_BYTES_MAX
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.bodies import BodyRef, read_body, read_body_back
from stratalog.ports.blobs import Blobs
from stratalog.ports.read_back import BlobReading
from stratalog.protocol.keys import collection_of

__all__ = ["ValueReference", "Values", "as_reference", "patch_argument", "same_value", "value_of", "value_size"]

ARGUMENTS = "arguments"
COLLECTIONS_REMEMBERED = 1024
EXTENSION = 1
PATCH_EXTENSION = 2
MAP_HEAD, MAP_MASK = 0x80, 0xF0
LARGE_MAP_HEADS = frozenset(b"\xde\xdf")
EXTENSION_HEADS = frozenset(b"\xc7\xc8\xc9\xd4\xd5\xd6\xd7\xd8")


class ValueReference(msgspec.Struct, frozen=True, array_like=True):
    """A large value: the reference to its canonical bytes, its folder under the owner, and its metadata inline."""

    body: BodyRef
    folder: str
    metadata: dict[str, Any]

    @property
    def content_hash(self) -> bytes:
        """The hash of the canonical bytes."""
        return self.body.digest or self.body.address


class Values:
    """Stores and loads the values of one owner. ``metadata_fields`` are kept inline, so a listing reads no body."""

    def __init__(self, blobs: Blobs, owner: str, metadata_fields: tuple[str, ...] = ("id", "name")) -> None:
        self._blobs = blobs
        self._owner = owner
        self._fields = metadata_fields

    def load(self, stored: bytes) -> bytes:
        """Return the canonical bytes of a stored value. Raises Corrupt, Unavailable."""
        reference = as_reference(stored)
        if reference is None:
            return stored
        return read_body(self._blobs, self.folder(reference), reference.body)

    def read_back(self, stored: bytes) -> Iterator[BlobReading]:
        """Read the blobs of a large value or argument from storage; a small value has no blobs. Raises Unavailable."""
        reference = as_reference(stored)
        if reference is not None:
            yield from read_body_back(self._blobs, self.folder(reference), reference.body)

    def folder(self, reference: ValueReference) -> str:
        """Return the prefix of the keys of the reference's blobs, without the last slash."""
        return f"{self._owner}/{reference.folder}"

    def metadata(self, stored: bytes) -> dict[str, Value]:
        """Return the metadata fields of a value, without reading a body."""
        reference = as_reference(stored)
        return reference.metadata if reference else self._metadata(stored)

    def store(self, key: str, encoded: bytes, blob_batch: BlobBatch) -> bytes:
        """Return the bytes to store in the slot of ``key``. Adds a large value to ``blob_batch``."""
        if len(encoded) <= VALUE_INLINE_BYTES_MAX:
            return encoded
        return self._store(_folder(collection_of(key)), encoded, blob_batch)

    def store_argument(self, encoded: bytes, blob_batch: BlobBatch) -> bytes:
        """Return the bytes to store for a large argument that is no value of the patch. Adds it to ``blob_batch``."""
        return self._store(ARGUMENTS, encoded, blob_batch)

    def _store(self, folder: str, encoded: bytes, blob_batch: BlobBatch) -> bytes:
        body = blob_batch.write(f"{self._owner}/{folder}", encoded)
        reference = ValueReference(body, folder, self._metadata(encoded))
        return encode(msgspec.msgpack.Ext(EXTENSION, encode(reference)))

    def _metadata(self, encoded: bytes) -> dict[str, Value]:
        """Return the declared fields, in order. Skip a field that would make them larger than `METADATA_BYTES_MAX`."""
        fields: dict[str, Any] = {}
        if encoded[0] & MAP_MASK != MAP_HEAD and encoded[0] not in LARGE_MAP_HEADS:
            return fields
        parts = _parts(encoded)
        for field in self._fields:
            if field in parts and len(encode({**fields, field: parts[field]})) <= METADATA_BYTES_MAX:
                fields[field] = parts[field]
        return {field: decode(part) for field, part in fields.items()}


def as_reference(stored: bytes) -> ValueReference | None:
    """Return the reference in ``stored``; None if ``stored`` is the value itself. Raises Corrupt."""
    if stored[0] not in EXTENSION_HEADS:
        return None
    extension = decode(stored)
    if not isinstance(extension, msgspec.msgpack.Ext) or extension.code != EXTENSION:
        return None
    try:
        return _decode_reference(extension.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Corrupt("a reference to a value cannot be decoded", reason=str(exc)) from exc


def patch_argument(position: int) -> msgspec.msgpack.Ext:
    """Return an argument that refers to the value at ``position`` in the entry's patch and does not repeat it."""
    return msgspec.msgpack.Ext(PATCH_EXTENSION, encode(position))


def value_of(argument: Any, patch: Sequence[PatchRow]) -> bytes:
    """Return the stored bytes of a committed argument: its own bytes, a reference, or the value of a row of ``patch``.

    Raises Corrupt if the argument names a row that holds no value.
    """
    if isinstance(argument, msgspec.msgpack.Ext) and argument.code == PATCH_EXTENSION:
        return _patch_value(argument.data, patch)
    return encode(argument)


def _patch_value(data: Any, patch: Sequence[PatchRow]) -> bytes:
    position = decode(data)
    value = patch[position].value if isinstance(position, int) and 0 <= position < len(patch) else None
    if value is None:
        raise Corrupt("an argument refers to no value of its entry's patch", position=position)
    return value


def same_value(stored: bytes, encoded: bytes) -> bool:
    """Return whether ``stored`` is the value with the canonical bytes ``encoded``. Reads no body."""
    reference = as_reference(stored)
    if reference is None:
        return stored == encoded
    return reference.body.size == len(encoded) and reference.content_hash == sha256(encoded)


def value_size(stored: bytes) -> int:
    """Return the size of the canonical bytes of a stored value. Reads no body."""
    reference = as_reference(stored)
    return reference.body.size if reference else len(stored)


def _parts(encoded: bytes) -> dict[str, Any]:
    """Return the encoded value of each field of an encoded object, without decoding the values. Raises Corrupt."""
    try:
        return _decode_parts(encoded)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Corrupt("bytes do not decode", reason=str(exc)) from exc


@lru_cache(COLLECTIONS_REMEMBERED)
def _folder(collection: str) -> str:
    return f"items/{escape(collection)}" if collection else "fields"


_decode_reference = msgspec.msgpack.Decoder(ValueReference).decode
_decode_parts: Callable[[bytes], dict[str, Any]] = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
