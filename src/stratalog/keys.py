"""The keys of everything stored: index partitions and sorts, and blob keys. `formats/keys.md` lists them for readers.

Ids are escaped so that distinct ids never share a key and a key leads back to its id: letters, digits, ``.``, ``_``
and ``-`` stand for themselves, every other byte of the id's UTF-8 is ``%XX``; a leading ``.`` is escaped as well, so
that no id is a relative path.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from stratalog.errors import Invalid, LimitExceeded
from stratalog.limits import ID_ESCAPED_BYTES_MAX, VERSION_DIGITS, VERSION_MAX

__all__ = ["escape", "number", "parse_number", "unescape"]


def escape(name: str, what: str = "id") -> str:
    """``name`` as one component of a key. Raises Invalid for an empty or unsayable one, LimitExceeded for a long one."""
    if not isinstance(name, str) or not name:
        raise Invalid(f"{what} must be a text of at least one character", value=name)
    try:
        escaped = quote(name, safe="").replace("~", "%7E")
    except UnicodeEncodeError as exc:
        raise Invalid(f"{what} holds a lone surrogate", value=name.encode(errors="backslashreplace")) from exc
    if escaped.startswith("."):
        escaped = "%2E" + escaped[1:]
    if len(escaped) > ID_ESCAPED_BYTES_MAX:
        raise LimitExceeded(f"{what} is too long once escaped", value=len(escaped), limit=ID_ESCAPED_BYTES_MAX)
    return escaped


def unescape(escaped: str) -> str:
    """The id behind :func:`escape`'s answer."""
    return unquote(escaped)


def number(value: int) -> str:
    """``value`` in fixed width, so that the order of texts is the order of numbers."""
    if not 0 <= value <= VERSION_MAX:
        raise Invalid("a version lies outside its range", value=value, limit=VERSION_MAX)
    return f"{value:0{VERSION_DIGITS}d}"


def parse_number(text: str) -> int:
    """The number behind :func:`number`'s answer."""
    return int(text)
