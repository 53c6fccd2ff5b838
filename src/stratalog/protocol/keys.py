"""Keys of a document: ``collection/item``, or a field. A key that starts with a NUL character is reserved."""

from __future__ import annotations

from stratalog.errors import Invalid, LimitExceeded
from stratalog.keys import escape
from stratalog.limits import ID_ESCAPED_BYTES_MAX, KEY_BYTES_MAX

__all__ = ["check_key", "collection_of"]

# A collection is a component of blob keys, and the escaped size of a component is limited. Escaping turns a byte into
# at most three bytes, so a collection of at most these sizes always fits.
COLLECTION_UNCHECKED_BYTES = ID_ESCAPED_BYTES_MAX // 3
COLLECTION_UNCHECKED_CHARACTERS = COLLECTION_UNCHECKED_BYTES // 4


def check_key(key: str) -> str:
    """Return ``key``. Raises LimitExceeded if the key or its collection is too long.

    Raises Invalid if the key is not text, is empty, is reserved, starts with a slash, or contains a lone surrogate.
    """
    if type(key) is not str or not key or key[0] in "\0/":
        raise Invalid("a key must be text that starts with neither a slash nor a zero character", value=key)
    try:
        size = len(key) if key.isascii() else len(key.encode())
    except UnicodeEncodeError as exc:
        raise Invalid("a key holds a lone surrogate", value=key.encode(errors="backslashreplace")) from exc
    if size > KEY_BYTES_MAX:
        raise LimitExceeded("a key is too long", value=size, limit=KEY_BYTES_MAX)
    if size > COLLECTION_UNCHECKED_BYTES and "/" not in key[: COLLECTION_UNCHECKED_CHARACTERS + 1] and "/" in key:
        escape(collection_of(key), "collection")
    return key


def collection_of(key: str) -> str:
    """Return the text before the first slash, or an empty text for a field."""
    return key[: max(key.find("/"), 0)]
