"""The hashes that a tamperer recomputes. The code follows `formats/chain.md` and uses none of the store's code."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
import zstandard

__all__ = ["entry_hash", "genesis", "version_hash"]

Attributes = Mapping[str, Any]


def genesis(origin: str) -> bytes:
    """Return H(0), the hash before the first version."""
    return hashlib.sha256(b"stratalog history 1\0" + origin.encode()).digest()


def entry_hash(before: bytes, version: int, entry: Attributes) -> bytes:
    """Return the hash of an entry of a log."""
    return _hash(before, version, entry, entry.get("a", ""), _entry_body_hash(entry), None)


def version_hash(before: bytes, version: int, item: Attributes) -> bytes:
    """Return the hash of a version of a record."""
    extras = [item.get("t"), item.get("u"), item.get("k", item.get("o", ""))]
    return _hash(before, version, item, "", item["h"], extras)


def _hash(before: bytes, version: int, item: Attributes, author: str, body_hash: bytes, extras: Any) -> bytes:
    digest = item["d"] if "d" in item else hashlib.sha256(item["s"] + body_hash).digest()
    facts = [1, version, item["c"], item.get("p", ""), author, item["w"], digest, extras]
    return hashlib.sha256(before + hashlib.sha256(msgspec.msgpack.encode(facts)).digest()).digest()


def _entry_body_hash(entry: Attributes) -> bytes:
    if "d" in entry:
        return b""
    if "x" in entry:
        address, _, digest = msgspec.msgpack.decode(entry["x"])
        return bytes(digest or address)
    body = entry["b"] if "b" in entry else zstandard.decompress(entry["z"])
    return hashlib.sha256(body).digest()
