"""Replica: the local document of a client, without a network: values, mutations and subscribers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, NoReturn
from weakref import WeakValueDictionary

from stratalog.arguments import check_class
from stratalog.client.file import ClientFile
from stratalog.client.local import Local, MutationFailure, SettledMutation
from stratalog.client.optimistic_state import OptimisticState
from stratalog.client.pending_mutation import PendingMutation
from stratalog.client.push_decision import Waiting
from stratalog.client.undo import inverse
from stratalog.clock import Clock
from stratalog.codec import Value, encode
from stratalog.errors import StratalogError
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
    """A document as its client shows it: the newest pulled state with the pending mutations run on it.

    ``client["cells/C2"]``, ``"cells/C2" in client``, ``len(client)`` and ``for key in client`` read it like a mapping.

    Safe for threads: ``_changed`` protects the file, the optimistic state, the handles and the list of subscribers.
    Callbacks run without this lock. No method waits for the network. After `close_file` reads and mutations raise
    Closed.
    """

    def __init__(self, path: str | PathLike[str], mutators: Mutators, clock: Clock, document: str) -> None:
        check_class(Mapping, mutators=mutators)
        for name, mutator in mutators.items():
            check_class(Callable, **{f"mutators[{name!r}]": mutator})
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
        try:
            client = self._local.client
        except StratalogError:  # the client is closed, or its file cannot be read
            client = "closed"
        return f"<{type(self).__name__} {client}>"

    def get(self, key: str, default: Value = None) -> Value:
        """Return a copy of the value of ``key``, or ``default`` if the key is absent."""
        with self._changed:
            return self._draft.get(key, default)

    def scan(self, prefix: str = "") -> Iterator[tuple[str, Value]]:
        """Return the keys that start with ``prefix``, and their values, in order and from one state."""
        with self._changed:
            return iter([*self._draft.scan(prefix)])

    def list(self, prefix: str = "") -> Iterator[str]:
        """Return the keys that start with ``prefix``, in order and from one state. No value is read."""
        with self._changed:
            return iter([*self._draft.keys(prefix)])

    def __contains__(self, key: object) -> bool:
        with self._changed:
            return isinstance(key, str) and key in self._draft

    def __getitem__(self, key: str) -> Value:
        with self._changed:
            if key not in self:
                raise KeyError(key)
            return self._draft.get(key)

    def __iter__(self) -> Iterator[str]:
        return self.list()

    def __len__(self) -> int:
        return sum(1 for _ in self.list())

    def __bool__(self) -> bool:
        return True  # a client, also of an empty document

    def keys(self) -> NoReturn:
        """Raise TypeError: ``dict(client)`` could read keys of different states. Use ``dict(client.scan())``."""
        raise TypeError("a client changes while it is read: read one state, as in dict(client.scan())")

    def mutate(self, name: str, args: Any = None) -> PendingMutation:
        """Run a mutation on the optimistic state and store it for the server. The mutation is durable on return.

        Raises the mutator's exception (above all `Rejected`), LimitExceeded, Invalid for an unknown mutator or invalid
        arguments, and the errors of the file. They include Unavailable if the file was moved, deleted or replaced.
        After OutcomeUnknown, the file may have the mutation. After any other exception, nothing is changed or stored.
        """
        with self._changed:
            handle = self._add(name, args)
            changed = _changed_keys(handle)
        self._notify(changed)
        return handle

    def undo(self, mutation: PendingMutation) -> Sequence[PendingMutation]:
        """Undo the effect of a mutation of this client by new built-in mutations, one for each changed key.

        Raises Rejected if the mutation had no effect, is rejected, lost or undone, or if the undo would also undo a
        later change. Raises the errors of `mutate`. The keys that were undone before such an error stay undone. A
        client that is opened again does not know the undos of the earlier process.
        """
        check_class(PendingMutation, mutation=mutation)
        made: list[PendingMutation] = []
        changed: list[str] = []
        try:
            with self._changed:
                for name, args in self._inverse(mutation):
                    made.append(self._add(name, args))
                    mutation.undone_by.append(made[-1])
                    changed += _changed_keys(made[-1])
        finally:
            self._notify(changed)
        return made

    def subscribe(self, callback: Callback, prefix: str = "") -> Callable[[], None]:
        """Call ``callback`` after each change, with the changed keys that start with ``prefix``, sorted.

        The callback runs on the thread that made the change, and only if a changed key has the prefix. An exception of
        the callback is logged. Returns a function that ends the subscription.
        """
        subscriber = (prefix, callback)
        with self._changed:
            self._subscribers = (*self._subscribers, subscriber)

        def stop() -> None:
            with self._changed:
                self._subscribers = tuple(other for other in self._subscribers if other is not subscriber)

        return stop

    def pending(self) -> Sequence[PendingMutation]:
        """Return the mutations that the server has not confirmed, in order, including those of earlier processes."""
        with self._changed:
            return [self._handle(waiting) for waiting in self._local.pending()]

    def failures(self) -> Sequence[MutationFailure]:
        """Return the newest thousand mutations that were rejected, lost or of unknown outcome, oldest first."""
        with self._changed:
            return self._local.failures()

    # For sync cycles

    @contextmanager
    def held(self) -> Iterator[Local]:
        """Hold the lock and yield the local state, which no other thread changes in the block."""
        with self._changed:
            yield self._local

    def note_queued(self, batch: Sequence[Waiting]) -> None:
        """Note in the file and in the handles that the server has queued these mutations."""
        with self._changed:
            self._local.note_queued(batch)
            for waiting in batch:
                if (handle := self._handles.get(waiting.sequence)) is not None:
                    handle.status = "queued"

    def settle(self, change: Callable[[Local], Sequence[SettledMutation]], pulled: Pulled | None = None) -> None:
        """Run ``change`` on the local state.

        After ``change``, update the optimistic state and the handles, and call the subscribers.

        ``pulled`` is the pull that ``change`` applies; without a pull, ``change`` does not touch the canonical state.
        """
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
        """Close the file and end all waits of handles. The file keeps pending mutations. Closing twice is fine."""
        with self._changed:
            self._file.close()
            for handle in list(self._handles.values()):
                handle.abandon()
            self._changed.notify_all()

    @property
    def _draft(self) -> Draft:
        """The draft of the optimistic state. Raises Closed once the file is closed."""
        self._file.check_usable()
        return self._optimistic.draft

    def _rebase(self) -> None:
        """Run the pending mutations again, and update the existing handles with their effects and status."""
        for waiting in self._optimistic.rebase():
            if waiting.sequence in self._handles:
                self._handle(waiting)

    def _add(self, name: str, args: Any) -> PendingMutation:
        mutation = check_mutation(Mutation(client=self._local.client, name=name, args=args))
        intent = Intent(name, encode(mutation.args))
        payload_hash(name, intent.args)  # raises LimitExceeded for arguments that no server can commit
        self._file.check_file()
        return self._handle(self._optimistic.add(intent))

    def _inverse(self, mutation: PendingMutation) -> Sequence[tuple[str, Any]]:
        if mutation.status in ("lost", "rejected"):
            raise Rejected(f"the mutation is {mutation.status}")
        # The number of an `inc` does not show whether the `inc` was undone.
        if mutation.is_undone:
            raise Rejected("the mutation is already undone")
        # If the outcome of an `inc` is unknown, the number may not include it. The opposite `inc` would then be wrong.
        counts = self._mutators.get("inc") is BUILT_IN_MUTATORS["inc"] and mutation.status != "unknown"
        return inverse(mutation.intent, mutation.effect, self._optimistic.draft.encoded, counts=counts)

    def _handle(self, waiting: Waiting) -> PendingMutation:
        """Return the only handle of a mutation, with the effect of the mutation's last run."""
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
                except Exception:  # noqa: BLE001 - the change remains, even if a subscriber raises
                    _log.exception("a subscriber failed")


def _changed_keys(handle: PendingMutation) -> list[str]:
    effect = handle.effect
    return [key for key, value in effect.after.items() if value != effect.before[key]]
