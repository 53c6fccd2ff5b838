"""Mutators: deterministic functions that apply a mutation to a draft.

An application that names no mutators has the built-in mutators.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from stratalog.codec import Value
from stratalog.protocol.draft import Draft

__all__ = ["BUILT_IN_MUTATORS", "Mutator", "Mutators", "Rejected", "check_has_run", "reason_of", "wrong_arguments"]

Mutator = Callable[[Draft, Any], None]
"""A function of the draft and the mutation's arguments. A mutator uses no clock, no randomness and no I/O."""

Mutators = Mapping[str, Mutator]


class Rejected(Exception):  # not a StratalogError, because the error becomes an outcome and reaches no caller
    """Raised by a mutator: the mutation has no effect, and is committed as a rejection with the reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def reason_of(exc: Exception) -> str:
    """Return the reason of the rejection that ``exc`` makes: text that can be stored, whatever the mutator has raised.

    The argument of `Rejected` may be no text, and a text may contain a lone surrogate. An exception of the application
    may lack its reason, or fail when it is printed.
    """
    try:
        reason = str(getattr(exc, "reason", exc)) if isinstance(exc, Rejected) else f"{type(exc).__name__}: {exc}"
    except Exception:  # noqa: BLE001 - the code of the application may raise anything
        reason = type(exc).__name__
    return reason if reason.isascii() else reason.encode(errors="replace").decode()


def check_has_run(result: object) -> None:
    """Raise TypeError if a mutator's call returned ``result`` without running the mutator.

    A call of an ``async def``, or of a function that contains ``yield``, runs nothing. Without this check, the mutation
    would be applied without any effect.
    """
    if result is None:
        return  # the usual case, without the slower comparisons of types
    if isinstance(result, Coroutine):
        result.close()  # Python would warn that nobody awaited it
        raise TypeError("a mutator must be written with def, not with async def")
    if isinstance(result, Generator | AsyncGenerator):
        raise TypeError("a mutator must not contain yield")


class Arguments(msgspec.Struct, frozen=True):
    """The argument names of a built-in mutator. ``optional`` arguments have defaults."""

    required: tuple[str, ...]
    optional: Mapping[str, Value] = {}

    def read(self, args: Any) -> tuple[Any, ...]:
        """Return the values in order. Raises Rejected for wrong names."""
        reason = self.fault(args)
        if reason is not None:
            raise Rejected(reason)
        values = map(args.__getitem__, self.required)
        if not self.optional:
            return tuple(values)
        return (*values, *(args.get(name, value) for name, value in self.optional.items()))

    def fault(self, args: Any) -> str | None:
        """Return the reason why ``args`` are wrong for the mutator, or None if they are right."""
        if not isinstance(args, dict):
            return "arguments must be an object"
        if args.keys() == {*self.required}:
            return None
        if missing := [name for name in self.required if name not in args]:
            return f"an argument is missing: {', '.join(missing)}"
        if unknown := sorted(args.keys() - {*self.required} - self.optional.keys()):
            return f"an argument is unknown: {', '.join(unknown)}"
        return None


PUT = Arguments(("key", "value"))
DELETE = Arguments(("key",))
PATCH = Arguments(("key", "merge"))
INC = Arguments(("key",), {"by": 1})
APPEND = Arguments(("key", "item"))


def put(draft: Draft, args: Any) -> None:
    """``{key, value}``: set the key."""
    key, value = PUT.read(args)
    draft.put(key, value)


def delete(draft: Draft, args: Any) -> None:
    """``{key}``: remove the key, if it exists."""
    (key,) = DELETE.read(args)
    draft.delete(key)


def patch(draft: Draft, args: Any) -> None:
    """``{key, merge}``: JSON merge patch (RFC 7396) of the key's value."""
    key, merge = PATCH.read(args)
    draft.put(key, _merged(draft.get(key), merge))


def inc(draft: Draft, args: Any) -> None:
    """``{key, by=1}``: add a number to the key's number. A missing key counts as 0."""
    key, by = INC.read(args)
    present = draft.get(key, 0)
    if not (_is_number(present) and _is_number(by)):
        raise Rejected(f"inc needs numbers: key={key}")
    draft.put(key, present + by)


def append(draft: Draft, args: Any) -> None:
    """``{key, item}``: add the item to the end of the key's list. A missing key counts as an empty list."""
    key, item = APPEND.read(args)
    present = draft.get(key, [])
    if not isinstance(present, list):
        raise Rejected(f"append needs a list: key={key}")
    draft.put(key, [*present, item])


BUILT_IN_MUTATORS: Mutators = MappingProxyType(
    {"put": put, "del": delete, "patch": patch, "inc": inc, "append": append}
)
"""The built-in mutators by their names, with their arguments.

``put`` {key, value}, ``del`` {key}, ``patch`` {key, merge}, ``inc`` {key, by}, ``append`` {key, item}. `Document` has a
method for each of them, which describes the arguments.
"""

_ARGUMENTS: Mapping[Mutator, Arguments] = MappingProxyType(
    {put: PUT, delete: DELETE, patch: PATCH, inc: INC, append: APPEND}
)


def wrong_arguments(mutator: Mutator, args: Any) -> str | None:
    """Return the reason why ``args`` are wrong for a built-in mutator, or None. Return None for any other mutator."""
    arguments = _ARGUMENTS.get(mutator)
    reason = None if arguments is None else arguments.fault(args)
    if reason is None and mutator is inc and not _is_number(args.get("by", 1)):
        # The rejection by `inc` names only the key. Committed reasons do not change.
        return "an argument must be a number: by"
    return reason


def _merged(target: Value, merge: Value) -> Value:
    """Apply the algorithm of RFC 7396, section 2."""
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
