"""Types of handles and settings. A wrong one is a fault of the calling code, so the error is Python's TypeError.

A wrong id, version, time or body may come from outside of the program. For these values the library raises Invalid.
"""

from __future__ import annotations

from collections import ChainMap
from functools import cache
from typing import Any

import msgspec

__all__ = ["CheckedStruct", "check_class"]


def check_class(wanted: type, **arguments: object) -> None:
    """Raise TypeError unless each argument is an instance of ``wanted``. Call it before anything is done.

    ``wanted`` may be a private protocol, named after the public class that it stands for.
    """
    for name, value in arguments.items():
        if not isinstance(value, wanted):
            raise TypeError(f"{name} must be of type {wanted.__name__.lstrip('_')}, not {type(value).__name__}")


class CheckedStruct(msgspec.Struct, frozen=True):
    """The base of settings that callers make: each field must have its annotated type, or the call is a TypeError.

    msgspec itself checks the fields only of a struct that it decodes.
    """

    def __post_init__(self) -> None:
        kind = type(self)
        for name, (wanted, text) in _types_of(kind).items():
            if reason := _reason(getattr(self, name), wanted):
                raise TypeError(f"{kind.__name__}.{name} must be of type {text}: {reason}")


@cache
def _types_of(kind: type[msgspec.Struct]) -> dict[str, tuple[Any, str]]:
    """Return the type of each field, and the text of its annotation. A subclass has the fields of its bases too."""
    texts = ChainMap(*(getattr(base, "__annotations__", {}) for base in kind.__mro__))
    return {field.name: (field.type, texts[field.name]) for field in msgspec.structs.fields(kind)}


def _reason(value: object, wanted: Any) -> str:
    """Return the reason why ``value`` is not of the type ``wanted``; empty if it is."""
    try:
        # msgspec also converts, for example a dict to a struct. So the converted value must equal the given one.
        return "" if msgspec.convert(value, wanted) == value else f"got `{type(value).__name__}`"
    except msgspec.ValidationError as exc:
        return str(exc)
