"""Checks the types of handles and settings. A wrong type is a fault of the calling code, and raises TypeError.

A wrong id, version, time or body may come from outside of the program. For these values the library raises Invalid.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from functools import cache
from math import isnan
from numbers import Integral, Real
from operator import index
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from stratalog.struct_types import resolved

__all__ = ["CheckedStruct", "check_class"]


def check_class(wanted: Any, **arguments: object) -> None:
    """Raise TypeError unless each argument is an instance of ``wanted``. Call it before anything is done.

    ``wanted`` is a class or a union of classes. It may be a private protocol, named after the public class that it
    stands for.
    """
    for name, value in arguments.items():
        if not isinstance(value, wanted):
            text = " | ".join(kind.__name__.lstrip("_") for kind in _members(wanted))
            raise TypeError(f"{name} must be of type {text}, not {type(value).__name__}")


_IN_PYTHON = {"array": "list", "object": "dict", "null": "None"}
"""The names of types in the errors of msgspec, and in Python. A list is accepted in place of a tuple."""


class CheckedStruct(msgspec.Struct, frozen=True):
    """The base of settings that callers make. The constructor raises TypeError for a field of another type.

    A list or deque in place of a tuple becomes a tuple. A number of another class than int and float, such as
    numpy.int64 or Fraction, becomes an int or a float. msgspec itself checks the fields only of a struct that it
    decodes.
    """

    def __post_init__(self) -> None:
        kind = type(self)
        for name, wanted in _types_of(kind).items():
            value = getattr(self, name)
            if (checked := _checked(f"{kind.__name__}.{name}", value, wanted)) is not value:
                msgspec.structs.force_setattr(self, name, checked)


@cache
def _types_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def _checked(name: str, value: Any, wanted: Any) -> Any:
    """Return ``value`` in the form of a field of type ``wanted``. Raise TypeError for another type, and for NaN."""
    if get_origin(wanted) is Mapping:
        check_class(Mapping, **{name: value})  # msgspec would ask for an `object`, which every value is in Python
        of_keys, of_values = get_args(wanted)
        for key, inner in value.items():
            _checked(f"a key of {name}", key, of_keys)
            _checked(f"{name}[{key!r:.100}]", inner, of_values)
        return value
    # msgspec would convert a dict to a struct. It also refuses a union of several classes. `Any` is a class since
    # Python 3.11, and has no instances.
    if all(isinstance(kind, type) and kind not in (int, float, Any) for kind in _members(wanted)):
        check_class(wanted, **{name: value})
        return value
    try:
        plain = _plain(value)
        converted = msgspec.convert(plain, resolved(wanted))
    except (msgspec.ValidationError, OverflowError) as exc:
        words = re.sub(r"\b(array|object|null)\b", lambda match: _IN_PYTHON[match[0]], str(exc))
        raise TypeError(f"{name} is not valid: {words}") from exc
    if isinstance(plain, float) and isnan(plain):
        raise TypeError(f"{name} is not valid: Expected a number, got nan")
    return converted if isinstance(converted, tuple) else plain


def _plain(value: Any) -> Any:
    """Return a number as an int or a float, and a deque as a tuple: msgspec refuses other classes that work alike."""
    match value:
        case bool():
            return value
        case Integral():
            return index(value)
        case Real():
            return float(value)
        case deque():
            return tuple(value)
    return value


def _members(wanted: Any) -> tuple[Any, ...]:
    """Return the types of a union, or else ``wanted`` itself."""
    return get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)
