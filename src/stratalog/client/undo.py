"""Undo: the built-in mutations that reverse the effect of one mutation, and of no later mutation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stratalog.codec import Value, decode, encode
from stratalog.protocol.mutators import Rejected
from stratalog.protocol.rebase import Effect, Intent

__all__ = ["inverse"]

ABSENT = object()


def inverse(
    intent: Intent, effect: Effect, current: Callable[[str], bytes | None], *, counts: bool
) -> list[tuple[str, Any]]:
    """Return (name, arguments) of the mutations that undo ``intent``, one for each key that its ``effect`` changed.

    With ``counts`` the opposite ``inc`` undoes an ``inc``, even if later mutations have changed the number. It requires
    that ``inc`` is the built-in mutator, and that the outcome of the mutation is not "unknown". If a key's value was an
    object before and after the mutation, and is a different object now, the undo restores only the members that the
    mutation changed. ``current`` returns the encoded value that a key has now.

    Raises Rejected if the mutation had no effect. Raises Rejected also if the undo would overwrite a later change, or
    if the object has changed since and a member to restore was null or an object.
    """
    changed = [(key, after) for key, after in sorted(effect.after.items()) if after != effect.before[key]]
    if not changed:
        raise Rejected("the mutation had no effect")
    if intent.name == "inc" and counts:
        args = decode(intent.args)
        if current(args["key"]) is None:
            raise Rejected(f"the key has changed since: key={args['key']}")
        return [("inc", {"key": args["key"], "by": -args.get("by", 1)})]
    return [_restore(key, effect.before[key], after, current(key)) for key, after in changed]


def _restore(key: str, before: bytes | None, after: bytes | None, current: bytes | None) -> tuple[str, Any]:
    if before is not None and after is not None and current is not None and current != after:
        merge = _merge_back(decode(before), decode(after), decode(current))
        if merge is not None:
            return "patch", {"key": key, "merge": merge}
    if current != after:
        raise Rejected(f"the key has changed since: key={key}")
    return ("del", {"key": key}) if before is None else ("put", {"key": key, "value": decode(before)})


def _merge_back(before: Value, after: Value, current: Value) -> dict[str, Value] | None:
    """Return a merge patch (RFC 7396) that restores the members that the mutation changed.

    Returns None if the patch would overwrite a later change. Returns None also if a restored value is null or an
    object: a merge patch cannot set a member to null, and merges an object into the present value.
    """
    if not (isinstance(before, dict) and isinstance(after, dict) and isinstance(current, dict)):
        return None
    merge: dict[str, Value] = {}
    for name in before.keys() | after.keys():
        old, new = before.get(name, ABSENT), after.get(name, ABSENT)
        if _same(old, new):
            continue
        if not _same(current.get(name, ABSENT), new) or old is None or isinstance(old, dict):
            return None
        merge[name] = None if old is ABSENT else old
    return merge


def _same(value: Value, other: Value) -> bool:
    """Return whether two values have the same encoding. Python's ``==`` does not test this: True equals 1."""
    if value is ABSENT or other is ABSENT:
        return value is other
    return encode(value) == encode(other)
