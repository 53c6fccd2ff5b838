"""Replica: a document at hand, without a network. Values, changes, and subscribers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from stratalog.client.file import ClientFile
from stratalog.client.local import Local, MutationFailure, SettledMutation
from stratalog.client.optimistic_state import OptimisticState
from stratalog.client.pending_mutation import PendingMutation
from stratalog.client.push_decision import Waiting
from stratalog.client.undo import inverse
from stratalog.clock import Clock
from stratalog.codec import Value, encode
from stratalog.process_fork import close_in_child
from stratalog.protocol.draft import Draft
from stratalog.protocol.messages import Mutation, check_mutation, payload_hash
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Mutators, Rejected
from stratalog.protocol.rebase import Intent
from stratalog.protocol.sync import Pulled

__all__ = ["Callback", "Replica"]

Callback = Callable[[list[str]], None]
_log = logging.getLogger("stratalog.client")


class Replica:
    """A document as its client sees it: the newest state pulled, with the pending mutations run on it.

    Safe to share between threads: ``_changed`` protects the file, the optimistic state, the handles and the list of
    subscribers. Callbacks run without it. Nothing here waits for the network.
    """

    def __init__(self, path: str, mutators: Mutators, clock: Clock, document: str) -> None:
        self._mutators = mutators
        self._changed = threading.Condition()
        close_in_child(self, "_changed")
        self._handles: WeakValueDictionary[int, PendingMutation] = WeakValueDictionary()
        self._subscribers: tuple[tuple[str, Callback], ...] = ()
        self._file = ClientFile(path)
        try:
            self._local = Local(self._file, clock, document)
            self._optimistic = OptimisticState(self._local, mutators)
        except BaseException:
            self._file.close()
            raise

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._local.client}>"

    def get(self, key: str, default: Value = None) -> Value:
        """The value of ``key``, or ``default``. A copy: changing it changes nothing."""
        with self._changed:
            return self._draft.get(key, default)

    def scan(self, prefix: str = "") -> Iterator[tuple[str, Value]]:
        """Keys that start with ``prefix`` and their values, in order, all of one moment."""
        with self._changed:
            return iter([*self._draft.scan(prefix)])

    def list(self, prefix: str = "") -> Iterator[str]:
        """Keys that start with ``prefix``, in order, all of one moment; no value is opened."""
        with self._changed:
            return iter([*self._draft.keys(prefix)])

    def __contains__(self, key: str) -> bool:
        with self._changed:
            return key in self._draft

    def mutate(self, name: str, args: Any = None) -> PendingMutation:
        """Run a mutation on what is shown, and keep it for the server; durable on return.

        Raises what the mutator raises (`Rejected` above all), Invalid for an unknown mutator or what is no value, and
        LimitExceeded: then nothing has changed and nothing is kept.
        """
        with self._changed:
            mutation = check_mutation(Mutation(client=self._local.client, name=name, args=args))
            intent = Intent(name, encode(mutation.args))
            payload_hash(name, intent.args)
            self._file.check_usable()
            handle = self._handle(self._optimistic.add(intent))
            effect = handle.effect
            changed = [key for key, value in effect.after.items() if value != effect.before[key]]
        self._notify(changed)
        return handle

    def undo(self, mutation: PendingMutation) -> Sequence[PendingMutation]:
        """Take back what a mutation of this client did, as new built-in mutations: one for each key it changed.

        Raises Rejected where it had no effect or is lost, or where somebody has changed what it left.
        """
        if mutation.status == "lost":
            raise Rejected("the mutation is lost")
        with self._changed:
            counts = self._mutators.get("inc") is BUILT_IN_MUTATORS["inc"]
            steps = inverse(mutation.intent, mutation.effect, self._optimistic.draft.encoded, counts=counts)
        return [self.mutate(name, args) for name, args in steps]

    def subscribe(self, callback: Callback, prefix: str = "") -> Callable[[], None]:
        """Have ``callback`` called with the keys that changed, whenever any that starts with ``prefix`` did.

        It is called after the change, on the thread that made it. The answer ends the subscription.
        """
        subscriber = (prefix, callback)
        with self._changed:
            self._subscribers = (*self._subscribers, subscriber)

        def stop() -> None:
            with self._changed:
                self._subscribers = tuple(other for other in self._subscribers if other is not subscriber)

        return stop

    def pending(self) -> Sequence[PendingMutation]:
        """The mutations that the server has not confirmed, in order; those made before a restart as well."""
        with self._changed:
            return [self._handle(waiting) for waiting in self._local.pending()]

    def failures(self) -> Sequence[MutationFailure]:
        """The newest thousand mutations that were rejected, or of which nobody can say what became, oldest first."""
        with self._changed:
            return self._local.failures()

    # For the exchange with the server

    @contextmanager
    def held(self) -> Iterator[Local]:
        """The local state, which nobody else changes meanwhile."""
        with self._changed:
            yield self._local

    def note_queued(self, batch: Sequence[Waiting]) -> None:
        """A worker will apply these."""
        with self._changed:
            self._local.note_queued(batch)
            for waiting in batch:
                if (handle := self._handles.get(waiting.sequence)) is not None:
                    handle.status = "queued"

    def settle(self, change: Callable[[Local], Sequence[SettledMutation]], pulled: Pulled | None = None) -> None:
        """Change the local state — by ``pulled``, or not the canonical part of it — and all that follows from it."""
        with self._changed:
            patch = [] if pulled is None else pulled.patch
            before = self._optimistic.values_before(patch) if self._subscribers else None
            settled = change(self._local)
            if settled or pulled is None or patch:
                self._rebase()
            changed = [] if before is None else self._optimistic.changed_since(before)
            for mutation in settled:
                if (handle := self._handles.get(mutation.sequence)) is not None:
                    handle.settle(mutation)
            self._changed.notify_all()
        self._notify(changed)

    def close_file(self) -> None:
        """Let go of the file. What is pending stays in it, and nobody waits for it here. Closing twice is fine."""
        with self._changed:
            self._file.close()
            for handle in list(self._handles.values()):
                handle.abandon()
            self._changed.notify_all()

    @property
    def _draft(self) -> Draft:
        """The optimistic state. Raises Closed once the file is."""
        self._file.check_usable()
        return self._optimistic.draft

    def _rebase(self) -> None:
        """Run what is pending again, and show its effects and its status in the handles."""
        for waiting in self._optimistic.rebase():
            if waiting.sequence in self._handles:
                self._handle(waiting)

    def _handle(self, waiting: Waiting) -> PendingMutation:
        """The one handle of a mutation, with what it did when it was last run."""
        handle = self._handles.get(waiting.sequence)
        if handle is None:
            handle = self._handles[waiting.sequence] = PendingMutation(waiting.sequence, waiting.intent, self._changed)
        handle.effect = self._optimistic.effect(waiting)
        handle.status = "queued" if waiting.answer == "queued" else "pending"
        return handle

    def _notify(self, changed: Sequence[str]) -> None:
        for prefix, callback in self._subscribers if changed else ():
            keys = sorted(key for key in changed if key.startswith(prefix))
            if keys:
                try:
                    callback(keys)
                except Exception:  # noqa: BLE001 - the change stands, whatever a subscriber makes of it
                    _log.exception("a subscriber failed")
