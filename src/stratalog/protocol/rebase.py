"""Rebase: run pending mutations on top of the canonical state, for a client's optimistic state.

The optimistic state is always the result of running the pending mutations, in order, on the canonical state. When the
canonical state changes, the client drops the draft and runs the mutations again on a new draft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from stratalog.codec import decode
from stratalog.errors import Invalid
from stratalog.protocol.draft import Draft
from stratalog.protocol.mutators import Mutators, check_has_run, reason_of

__all__ = ["Effect", "Intent", "rebase", "run_intent"]


class Intent(msgspec.Struct, frozen=True):
    """A mutation without its client and number. ``args`` are canonical bytes, so that no mutator can change them."""

    name: str
    args: bytes


class Effect(msgspec.Struct, frozen=True):
    """The effect of a mutation's last run: the encoded values of the changed keys. None means that the key is absent.

    ``reason`` is the reason why the mutation had no effect here. On the server the mutation may have an effect.
    """

    before: dict[str, bytes | None] = {}
    after: dict[str, bytes | None] = {}
    reason: str | None = None


def run_intent(draft: Draft, mutators: Mutators, intent: Intent) -> Effect:
    """Run one mutation on ``draft``.

    Raises the mutator's error, and Invalid for an unknown name. After an error the draft is unchanged.
    """
    mutator: Callable[[Draft, Any], object] | None = mutators.get(intent.name)
    if mutator is None:
        raise Invalid("no such mutator", mutator=intent.name, known=", ".join(sorted(mutators)))
    child = draft.child()
    check_has_run(mutator(child, decode(intent.args)))
    before = {key: draft.encoded(key) for key in child.changes}
    draft.merge(child)
    return Effect(before, child.changes)


def rebase(draft: Draft, mutators: Mutators, intents: Iterable[Intent]) -> list[Effect]:
    """Run mutations in order. A mutation that fails has no effect but stays pending: only the server may reject it."""
    return [_attempt(draft, mutators, intent) for intent in intents]


def _attempt(draft: Draft, mutators: Mutators, intent: Intent) -> Effect:
    try:
        return run_intent(draft, mutators, intent)
    except MemoryError:
        raise  # the machine failed, not the mutation
    except Exception as exc:  # noqa: BLE001 - the server rejects the mutation after any exception of its mutator
        # See docs/design.md#a-rejected-mutation-is-a-committed-outcome
        return Effect(reason=reason_of(exc))
