"""Values as JSON that people can read, and back without loss.

JSON has no type for bytes, so bytes become ``{"$bytes": "<base64>"}``. If an object has only one name, and this name
starts with ``$``, the name gets one more ``$``. So reading restores the original object.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import msgspec

from stratalog.codec import Value, canonical, json_reason
from stratalog.errors import Invalid, LimitExceeded
from stratalog.limits import JSON_DEPTH_MAX

__all__ = ["from_json", "from_plain", "restore", "to_plain"]

BYTES = "$bytes"


def to_plain(value: Value) -> Any:
    """Return ``value`` in JSON's types."""
    if isinstance(value, bytes):
        return {BYTES: b64encode(value).decode()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        plain = {name: to_plain(item) for name, item in value.items()}
        return {f"${name}": item for name, item in plain.items()} if _is_marked(plain) else plain
    return value


def from_plain(plain: Any) -> Value:
    """Return the value that `to_plain` converted. Raises Invalid."""
    if isinstance(plain, list):
        return [from_plain(item) for item in plain]
    if isinstance(plain, dict):
        if _is_marked(plain):
            return _unmarked(plain)
        return {name: from_plain(item) for name, item in plain.items()}
    return plain


def restore(plain: Any) -> Any:
    """Convert like `from_plain`, but change lists, objects and structs in place. Raises Invalid."""
    if isinstance(plain, list):
        for position, item in enumerate(plain):
            plain[position] = restore(item)
    elif isinstance(plain, dict):
        if _is_marked(plain):
            return _unmarked(plain)
        for name, item in plain.items():
            plain[name] = restore(item)
    elif isinstance(plain, msgspec.Struct):
        for name in plain.__struct_fields__:
            msgspec.structs.force_setattr(plain, name, restore(getattr(plain, name)))
    return plain


def from_json(text: str | bytes) -> Value:
    """Return the canonical value of a JSON text. Raises Invalid, LimitExceeded."""
    try:
        plain = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as exc:
        raise Invalid("the text is not valid JSON", reason=json_reason(text, exc)) from exc
    except RecursionError as exc:
        raise LimitExceeded("the text is nested too deeply", limit=JSON_DEPTH_MAX) from exc
    return from_plain(canonical(plain))


def _is_marked(plain: dict[str, Any]) -> bool:
    return len(plain) == 1 and next(iter(plain)).startswith("$")


def _unmarked(plain: dict[str, Any]) -> Value:
    name, item = next(iter(plain.items()))
    if name.startswith("$$"):
        return {name[1:]: from_plain(item)}
    if name != BYTES or not isinstance(item, str):
        raise Invalid('an object whose only name starts with "$" must be {"$bytes": base64} or start with "$$"')
    try:
        return b64decode(item, validate=True)
    except ValueError as exc:
        raise Invalid("bytes are not in base64", reason=str(exc)) from exc
