"""The kind of a blob's content, for file names and headers. People and their tools use the kind. Decoders ignore it.

The kind depends only on the key and the content, so the same content under the same key always has the same name.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

__all__ = ["JSON", "MSGPACK", "OCTETS", "BlobKind", "kind_of", "kinds_of"]


class BlobKind(NamedTuple):
    """A blob's media type, and its suffix in the name of a file, where the suffix of the codec follows."""

    suffix: str
    media_type: str


MSGPACK = BlobKind(".msgpack", "application/msgpack")
JSON = BlobKind(".json", "application/json")
OCTETS = BlobKind(".bin", "application/octet-stream")

MSGPACK_FOLDERS = frozenset({"archive", "arguments", "bodies", "chunks", "collecting", "fields", "items"})
"""The folders of a family's owner that contain only Stratalog's own formats. `formats/keys.md` lists these folders."""


def kinds_of(key: str) -> tuple[BlobKind, ...]:
    """Return the possible kinds of a blob under ``key``."""
    components = key.split("/", 3)
    if len(components) == 4:
        _, owner, folder, _ = components
        if owner == "queue" or ("@" in owner and folder in MSGPACK_FOLDERS):
            return (MSGPACK,)
    return (JSON, OCTETS)


def kind_of(key: str, body: bytes) -> BlobKind:
    """Return the kind of a blob. A body of an application is JSON if it is one object or array in UTF-8."""
    first, *others = kinds_of(key)
    return first if not others or _is_json(body) else OCTETS


def _is_json(body: bytes) -> bool:
    if body[:64].lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
        body.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
