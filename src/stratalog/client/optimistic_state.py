"""The optimistic state, which a client shows: the result of the pending mutations on the canonical state."""

from __future__ import annotations

from collections.abc import Sequence

from stratalog.client.local import Local
from stratalog.client.push_decision import Waiting
from stratalog.protocol.draft import Draft
from stratalog.protocol.mutators import Mutators
from stratalog.protocol.rebase import Effect, Intent, rebase, run_intent
from stratalog.protocol.sync import Clear, Operation

__all__ = ["OptimisticState"]


class OptimisticState:
    """The result of running the pending mutations in order on the canonical state, and the effect of each mutation.

    The object computes the result and the effects from the local state, and stores them only in memory. The caller
    holds the client's lock.
    """

    def __init__(self, local: Local, mutators: Mutators) -> None:
        self._local = local
        self._mutators = mutators
        self.rebase()

    @property
    def draft(self) -> Draft:
        """The draft that contains the optimistic state. Callers must not change the draft."""
        return self._draft

    def effect(self, waiting: Waiting) -> Effect:
        """Return the effect of a pending mutation in its last run."""
        if waiting.sequence not in self._effects:
            self.rebase()  # an error or an interrupt ended `add` after the file had stored the mutation
        return self._effects[waiting.sequence]

    def add(self, intent: Intent) -> Waiting:
        """Run a mutation and store it as pending. After an exception other than OutcomeUnknown, nothing is stored."""
        # Run the mutation on a child draft. Merge the child only after the mutation is stored.
        child = self._draft.child()
        effect = run_intent(child, self._mutators, intent)
        waiting = self._local.add(intent)
        self._draft.merge(child)
        self._effects[waiting.sequence] = effect
        return waiting

    def rebase(self) -> Sequence[Waiting]:
        """Run all pending mutations again, on a new draft of the canonical state. Return the pending mutations."""
        draft = Draft(self._local.load, self._local.keys)
        pending = self._local.pending()
        effects = rebase(draft, self._mutators, [waiting.intent for waiting in pending])
        self._draft = draft
        self._effects = {waiting.sequence: effect for waiting, effect in zip(pending, effects, strict=True)}
        return pending

    def values_before(self, patch: Sequence[Operation]) -> dict[str, bytes | None]:
        """Return the encoded values of the keys in ``patch`` and of the keys that pending mutations changed.

        Call this method before the local state changes. `changed_since` takes the result.
        """
        keys = dict.fromkeys(self._draft.changes)
        for operation in patch:
            keys |= dict.fromkeys(self._local.keys("") if isinstance(operation, Clear) else [operation.key])
        return {key: self._draft.encoded(key) for key in keys}

    def changed_since(self, before: dict[str, bytes | None]) -> Sequence[str]:
        """Return the keys whose values differ from ``before``, a result of `values_before`."""
        # ``before`` lacks the keys that only the new draft changes. The patch did not change these keys, so the
        # canonical state still has their old values.
        was = {key: self._local.load(key) for key in self._draft.changes.keys() - before.keys()} | before
        return [key for key, value in was.items() if self._draft.encoded(key) != value]
