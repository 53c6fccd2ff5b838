"""OptimisticState: the canonical state of a client with the pending mutations run on it, which is what it shows."""

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
    """The canonical state, then the pending mutations in order; and what each of these did when it was last run.

    It is in memory only, and made again from the local state. Used under its client's lock.
    """

    def __init__(self, local: Local, mutators: Mutators) -> None:
        self._local = local
        self._mutators = mutators
        self.rebase()

    @property
    def draft(self) -> Draft:
        """The state, to be read."""
        return self._draft

    def effect(self, waiting: Waiting) -> Effect:
        """What a pending mutation did when it was last run."""
        return self._effects[waiting.sequence]

    def add(self, intent: Intent) -> Waiting:
        """Run a mutation and store it as pending. Where either raises, nothing has changed and nothing is stored."""
        child = self._draft.child()
        effect = run_intent(child, self._mutators, intent)
        waiting = self._local.add(intent)
        self._draft.merge(child)
        self._effects[waiting.sequence] = effect
        return waiting

    def rebase(self) -> Sequence[Waiting]:
        """Throw the draft away and run what is pending on the canonical state again. Return what is pending."""
        draft = Draft(self._local.load, self._local.keys)
        pending = self._local.pending()
        effects = rebase(draft, self._mutators, [waiting.intent for waiting in pending])
        self._draft = draft
        self._effects = {waiting.sequence: effect for waiting, effect in zip(pending, effects, strict=True)}
        return pending

    def values_before(self, patch: Sequence[Operation]) -> dict[str, bytes | None]:
        """The values of the keys that ``patch`` or a rebase may change: those of the patch, and of pending mutations.

        Taken before the local state changes, for `changed_since`.
        """
        keys = dict.fromkeys(self._draft.changes)
        for operation in patch:
            keys |= dict.fromkeys(self._local.keys("") if isinstance(operation, Clear) else [operation.key])
        return {key: self._draft.encoded(key) for key in keys}

    def changed_since(self, before: dict[str, bytes | None]) -> Sequence[str]:
        """The keys whose values differ from ``before``."""
        # A key that only the new draft has was not in the patch, so the canonical state still has its value of before.
        was = {key: self._local.load(key) for key in self._draft.changes.keys() - before.keys()} | before
        return [key for key, value in was.items() if self._draft.encoded(key) != value]
