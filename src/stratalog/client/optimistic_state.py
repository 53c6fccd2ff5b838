"""OptimisticState: the state that a client shows, which is the canonical state with the pending mutations run on it."""

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
    """The canonical state with the pending mutations run on it in order, and the effect of each mutation's last run.

    This state is only in memory, and is computed from the local state. The caller holds the client's lock.
    """

    def __init__(self, local: Local, mutators: Mutators) -> None:
        self._local = local
        self._mutators = mutators
        self.rebase()

    @property
    def draft(self) -> Draft:
        """The draft with the state. Callers only read the draft."""
        return self._draft

    def effect(self, waiting: Waiting) -> Effect:
        """Return the effect of a pending mutation in its last run."""
        return self._effects[waiting.sequence]

    def add(self, intent: Intent) -> Waiting:
        """Run a mutation and store it as pending. After an exception, nothing is changed or stored."""
        # Run the mutation on a child draft. Merge the child only after the mutation is stored.
        child = self._draft.child()
        effect = run_intent(child, self._mutators, intent)
        waiting = self._local.add(intent)
        self._draft.merge(child)
        self._effects[waiting.sequence] = effect
        return waiting

    def rebase(self) -> Sequence[Waiting]:
        """Replace the draft by a new run of all pending mutations on the canonical state. Return these mutations."""
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
        # A key that only the new draft changes was not in the patch, so the canonical state still has its old value.
        was = {key: self._local.load(key) for key in self._draft.changes.keys() - before.keys()} | before
        return [key for key, value in was.items() if self._draft.encoded(key) != value]
