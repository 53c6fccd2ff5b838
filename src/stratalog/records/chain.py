"""The hash chain of a record's versions, defined in `formats/chain.md`.

Logs have the same chain, but other extra fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stratalog.log.chain import body_digest, genesis, link

__all__ = ["CHAIN_ATTRIBUTES", "chained", "extras_of"]

CHAIN_ATTRIBUTES = ("c", "ch", "d", "og", "p", "s")
"""Attributes that belong to one version only. An undeletion does not copy them from the version that it restores."""


def chained(before: bytes | None, version: int, attributes: Mapping[str, Any]) -> bytes:
    """Return the hash of ``version``, whose item has ``attributes``.

    ``before`` is the hash of the previous version, if any.
    """
    digest = attributes["d"] if "d" in attributes else body_digest(attributes["s"], attributes["h"])
    start = genesis(attributes["og"]) if before is None else before
    who = attributes.get("p", ""), "", attributes["w"]
    return link(start, version, attributes["c"], *who, digest, extras_of(attributes))


def extras_of(attributes: Mapping[str, Any]) -> tuple[Any, Any, str]:
    """Return the facts of a version that log entries lack: the source time, the metadata and the kind."""
    return attributes.get("t"), attributes.get("u"), attributes.get("k") or attributes.get("o", "")
