"""Attributes of stored items, read as a shape. A value of another type, or out of range, is damage: it raises Corrupt.

A *shape* is a struct of the attributes of one kind of item. Its fields have the names of the stored attributes. A
reader of stored items gets their attributes from `read_attributes` and `decode_attribute`, and relies on no type that
these functions have not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import msgspec

from stratalog.errors import Corrupt
from stratalog.limits import INTEGER_MAX, VERSION_MAX
from stratalog.ports.index import Attribute, Item
from stratalog.struct_types import resolved

__all__ = [
    "HASH",
    "PACKED",
    "Count",
    "Hash",
    "Integer",
    "Packed",
    "PositiveVersion",
    "StoredVersion",
    "Time",
    "decode_attribute",
    "read_attributes",
]

T = TypeVar("T")

StoredVersion = Annotated[int, msgspec.Meta(ge=0, lt=VERSION_MAX)]
"""A version. The successor of a stored version is a version too, as with `parse_number`."""

PositiveVersion = Annotated[int, msgspec.Meta(ge=1, lt=VERSION_MAX)]
"""A version of an entry or of a record, which is at least 1."""

Integer = Annotated[int, msgspec.Meta(ge=-INTEGER_MAX, le=INTEGER_MAX)]
Time = Integer
"""A time in milliseconds since 1970."""

Count = Annotated[int, msgspec.Meta(ge=0, le=INTEGER_MAX)]

HASH = "hash"
Hash = Annotated[bytes, msgspec.Meta(extra={HASH: True})]
"""A SHA-256, or ``b""``. A verification checks the length; a reader compares the hash with another one."""

PACKED = "packed"
Packed = Annotated[bytes, msgspec.Meta(extra={PACKED: True})]
"""MessagePack. A reader gets it from `decode_attribute`."""


def read_attributes(item: Item, shape: type[T], noun: str) -> T:
    """Return the attributes of ``item`` as ``shape``. Ignores attributes that the shape does not have.

    Raises Corrupt if an attribute is missing, has another type or is out of range. The error names the key of the item,
    the attribute and the fault; ``noun`` names the kind of the item, with its article.
    """
    attributes = item.attributes
    try:
        return msgspec.convert(
            attributes if type(attributes) is dict else dict(attributes), resolved(shape), builtin_types=BYTES
        )
    except msgspec.ValidationError as exc:
        raise _corrupt(item, noun, exc) from exc


def decode_attribute(item: Item, name: str, decode: Callable[[bytes], T], noun: str) -> T:
    """Return the decoded value of an attribute that holds MessagePack. Raises Corrupt, as `read_attributes` does."""
    value: Attribute | None = item.attributes.get(name)
    try:
        if not isinstance(value, bytes):
            raise msgspec.ValidationError(f"Expected `bytes` - at `$.{name}`")
        return decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:  # RecursionError: nested too deeply
        raise _corrupt(item, noun, exc) from exc


BYTES = (bytes,)
"""The type that msgspec must not convert: otherwise msgspec reads text in place of bytes as base64."""


def _corrupt(item: Item, noun: str, exc: Exception) -> Corrupt:
    return Corrupt(f"an item is not {noun}", partition=item.partition, sort=item.sort, reason=str(exc))
