"""Rebase: pending mutations run on top of the canonical state, so that a client shows what the server has not got yet.

What is shown is always *canonical state, then the pending mutations in order*. When the canonical state changes, the
draft is thrown away and they are run again.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stratalog.codec import decode
from stratalog.errors import Invalid
from stratalog.protocol.draft import Draft
from stratalog.protocol.mutators import Mutators, Rejected

__all__ = ["Effect", "Intent", "rebase", "run_intent"]


class Intent(msgspec.Struct, frozen=True):
    """A mutation before it matters whose it is. ``args`` are canonical bytes, so that no mutator can change them."""

    name: str
    args: bytes


class Effect(msgspec.Struct, frozen=True):
    """What a mutation did on the state it was last run on: the encoded values of the keys it touched, None for none.

    ``reason`` says why it did nothing; the server may come to another view.
    """

    before: dict[str, bytes | None] = {}
    after: dict[str, bytes | None] = {}
    reason: str | None = None


def run_intent(draft: Draft, mutators: Mutators, intent: Intent) -> Effect:
    """Run one mutation on ``draft``. Raises what the mutator raises, and Invalid for an unknown name: no change."""
    mutator = mutators.get(intent.name)
    if mutator is None:
        raise Invalid("no such mutator", name=intent.name)
    child = draft.child()
    mutator(child, decode(intent.args))
    before = {key: draft.encoded(key) for key in child.changes}
    draft.merge(child)
    return Effect(before, child.changes)


def rebase(draft: Draft, mutators: Mutators, intents: Iterable[Intent]) -> list[Effect]:
    """Run mutations in order. One that fails has no effect and stays: whether it is rejected is the server's to say."""
    return [_attempt(draft, mutators, intent) for intent in intents]


def _attempt(draft: Draft, mutators: Mutators, intent: Intent) -> Effect:
    try:
        return run_intent(draft, mutators, intent)
    except Rejected as exc:
        return Effect(reason=exc.reason)
    except MemoryError:
        raise  # it says nothing about the mutation
    except Exception as exc:  # noqa: BLE001 - the server rejects a mutation for whatever its mutator raises (DESIGN §7)
        return Effect(reason=f"{type(exc).__name__}: {exc}")
