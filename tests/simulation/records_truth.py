"""The hash of each version of a record, computed only from the items. This model shares no code with records."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import zstandard

__all__ = ["first_hash", "next_record_hash"]


def first_hash(attributes: Any) -> bytes:
    """Return the hash before version 1, by `formats/chain.md`."""
    return hashlib.sha256(b"stratalog history 1\0" + attributes["og"].encode()).digest()


def next_record_hash(before: bytes, version: int, attributes: Any) -> bytes:
    """Return the hash of a version. ``before`` is the hash of the previous version."""
    kind = attributes.get("k", attributes.get("o", ""))
    extras = [attributes.get("t"), attributes.get("u"), kind]
    digest = hashlib.sha256(attributes["s"] + _body_hash(attributes)).digest()
    who = attributes.get("p", ""), ""
    facts = msgspec.msgpack.encode([1, version, attributes["c"], *who, attributes["w"], digest, extras])
    return hashlib.sha256(before + hashlib.sha256(facts).digest()).digest()


def _body_hash(attributes: Any) -> bytes:
    if attributes.get("k") == "t":
        return b""
    if "x" in attributes:
        address, _, digest = msgspec.msgpack.decode(attributes["x"])
        return bytes(digest or address)
    body = attributes["b"] if "b" in attributes else zstandard.decompress(attributes["z"])
    return hashlib.sha256(body).digest()
