"""Undo: the built-in mutations that take back what one mutation did, and nothing that was done since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stratalog.codec import Value, decode, encode
from stratalog.protocol.mutators import Rejected
from stratalog.protocol.rebase import Effect, Intent

__all__ = ["inverse"]

ABSENT = object()


def inverse(
    intent: Intent, effect: Effect, shown: Callable[[str], bytes | None], *, counts: bool
) -> list[tuple[str, Any]]:
    """(name, arguments) of the mutations that undo ``intent``, which had ``effect``, one for each key.

    Where ``inc`` is the built-in mutator that ``counts``, it is counted back, whatever was counted since. Where an
    object stood before and after, only its members that changed go back. Raises Rejected where what the mutation left
    is no longer shown, so that undoing it would undo somebody's later change.
    """
    if not effect.after:
        raise Rejected("the mutation had no effect")
    if intent.name == "inc" and counts:
        args = decode(intent.args)
        return [("inc", {"key": args["key"], "by": -args.get("by", 1)})]
    return [
        _restore(key, effect.before[key], after, shown(key))
        for key, after in sorted(effect.after.items())
        if after != effect.before[key]
    ]


def _restore(key: str, before: bytes | None, after: bytes | None, shown: bytes | None) -> tuple[str, Any]:
    if before is not None and after is not None and shown is not None and shown != after:
        merge = _merge_back(decode(before), decode(after), decode(shown))
        if merge is not None:
            return "patch", {"key": key, "merge": merge}
    if shown != after:
        raise Rejected(f"the key has changed since: key={key}")
    return ("del", {"key": key}) if before is None else ("put", {"key": key, "value": decode(before)})


def _merge_back(before: Value, after: Value, shown: Value) -> dict[str, Value] | None:
    """A merge patch (RFC 7396) that restores the members that differ; None where there is none or it would clobber."""
    if not (isinstance(before, dict) and isinstance(after, dict) and isinstance(shown, dict)):
        return None
    merge: dict[str, Value] = {}
    for name in before.keys() | after.keys():
        old, new = before.get(name, ABSENT), after.get(name, ABSENT)
        if _same(old, new):
            continue
        if not _same(shown.get(name, ABSENT), new) or old is None or isinstance(old, dict):
            return None
        merge[name] = None if old is ABSENT else old
    return merge


def _same(one: Value, other: Value) -> bool:
    """Equal as stored: True is not 1."""
    if one is ABSENT or other is ABSENT:
        return one is other
    return encode(one) == encode(other)
