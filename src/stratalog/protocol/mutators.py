"""Mutators: deterministic functions that turn a mutation into changes of a draft. The built-in ones need no code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from stratalog.codec import Value
from stratalog.protocol.draft import Draft

__all__ = ["BUILT_IN_MUTATORS", "Mutator", "Mutators", "Rejected"]

Mutator = Callable[[Draft, Any], None]
"""Called with the draft and the mutation's arguments. Depends on nothing else: no clock, no randomness, no I/O."""

Mutators = Mapping[str, Mutator]


class Rejected(Exception):  # no StratalogError: it becomes an outcome and never reaches a caller
    """Raised by a mutator: the mutation has no effect, and is committed as a rejection with the reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def put(draft: Draft, args: Any) -> None:
    """``{key, value}``: set the key."""
    key, value = _arguments(args, "key", "value")
    draft.put(key, value)


def delete(draft: Draft, args: Any) -> None:
    """``{key}``: remove the key, if it exists."""
    (key,) = _arguments(args, "key")
    draft.delete(key)


def patch(draft: Draft, args: Any) -> None:
    """``{key, merge}``: JSON merge patch (RFC 7396) of the key's value."""
    key, merge = _arguments(args, "key", "merge")
    draft.put(key, _merged(draft.get(key), merge))


def inc(draft: Draft, args: Any) -> None:
    """``{key, by=1}``: add a number to the key's number; a missing key counts as 0."""
    key, by = _arguments(args, "key", by=1)
    present = draft.get(key, 0)
    if not (_is_number(present) and _is_number(by)):
        raise Rejected(f"inc needs numbers: key={key}")
    draft.put(key, present + by)


def append(draft: Draft, args: Any) -> None:
    """``{key, item}``: add to the end of the key's list; a missing key counts as an empty one."""
    key, item = _arguments(args, "key", "item")
    present = draft.get(key, [])
    if not isinstance(present, list):
        raise Rejected(f"append needs a list: key={key}")
    draft.put(key, [*present, item])


BUILT_IN_MUTATORS: Mutators = MappingProxyType(
    {"put": put, "del": delete, "patch": patch, "inc": inc, "append": append}
)


def _arguments(args: Any, *required: str, **optional: Value) -> tuple[Any, ...]:
    if not isinstance(args, dict):
        raise Rejected("arguments must be an object")
    if args.keys() != {*required}:
        _check_names(args, required, optional)
    values = [args[name] for name in required]
    if optional:
        values += [args.get(name, value) for name, value in optional.items()]
    return tuple(values)


def _check_names(args: dict[str, Value], required: tuple[str, ...], optional: dict[str, Value]) -> None:
    if missing := [name for name in required if name not in args]:
        raise Rejected(f"an argument is missing: {', '.join(missing)}")
    if unknown := sorted(args.keys() - {*required} - optional.keys()):
        raise Rejected(f"an argument is unknown: {', '.join(unknown)}")


def _merged(target: Value, merge: Value) -> Value:
    """RFC 7396, section 2."""
    if not isinstance(merge, dict):
        return merge
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in merge.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value)
    return result


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
