"""Running a batch of mutations on a state: who may, in which order, and what comes of it. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stratalog.codec import encode
from stratalog.documents.state import Client, State
from stratalog.documents.values import Values, same_value
from stratalog.errors import Closed, Corrupt, LimitExceeded, OutcomeUnknown, Unavailable
from stratalog.limits import (
    DOCUMENT_FIELDS_BYTES_MAX,
    METADATA_BYTES_MAX,
    PATCH_BYTES_MAX,
    PATCH_ROW_BYTES,
    VALUE_INLINE_BYTES_MAX,
)
from stratalog.protocol.draft import Draft
from stratalog.protocol.keys import collection_of
from stratalog.protocol.messages import Mutation, Outcome, Status, payload_hash
from stratalog.protocol.mutators import Mutators, Rejected
from stratalog.tree.nodes import Slot

__all__ = ["Ran", "Run", "net_changes", "run_batch"]

REASON_CHARACTERS_MAX = 500
VALUE_STORED_BYTES_MAX = VALUE_INLINE_BYTES_MAX + METADATA_BYTES_MAX
PORT_ERRORS = (Unavailable, OutcomeUnknown, Corrupt, Closed)


class Ran(msgspec.Struct, frozen=True):
    """One mutation that is to be committed, with what it changed; a rejected one changed nothing."""

    mutation: Mutation
    args: bytes
    payload: bytes
    reason: str | None
    changes: dict[str, bytes | None]


class Run(msgspec.Struct, frozen=True):
    """A batch run on a state. ``outcomes`` are in the batch's order, those of committed ones still without version."""

    outcomes: list[Outcome]
    ran: list[Ran]
    bindings: list[tuple[str, str, str]]
    changes: dict[str, bytes | None]
    fields_bytes: int


def run_batch(
    state: State, values: Values, mutators: Mutators, batch: Sequence[Mutation], group: str, owner: str
) -> Run:
    """Run ``batch`` in order on ``state`` on behalf of ``owner``. Raises only what the ports raise."""
    running = _Running(state, values, mutators, group, owner)
    outcomes = [running.take(mutation) for mutation in batch]
    return Run(outcomes, running.ran, running.bindings, running.draft.changes, running.fields_bytes)


class _Running:
    def __init__(self, state: State, values: Values, mutators: Mutators, group: str, owner: str) -> None:
        self._state = state
        self._values = values
        self._mutators = mutators
        self._group = group
        self._owner = owner
        self._clients: dict[str, Client | None] = {}
        self._refused: dict[str, Outcome] = {}
        self._failure: Exception | None = None
        """What a port raised, whatever the mutator did about it."""
        self.draft = Draft(self._load, self._keys, self._holds)
        self.fields_bytes = state.fields_bytes
        self.ran: list[Ran] = []
        self.bindings: list[tuple[str, str, str]] = []

    def take(self, mutation: Mutation) -> Outcome:
        """Run one mutation if it is its turn, else say why not."""
        client = mutation.client
        last = self._last(client)
        number = mutation.id or (last.id if last else 0) + 1
        args = encode(mutation.args)
        payload = payload_hash(mutation.name, args)
        refusal = self._refusal(mutation, last, number, payload)
        if refusal is not None:
            return refusal
        self._clients[client] = Client(number, payload)
        if last is None:
            self.bindings.append((client, self._group, self._owner))
        return self._run(msgspec.structs.replace(mutation, id=number), args, payload)

    def _refusal(self, mutation: Mutation, last: Client | None, number: int, payload: bytes) -> Outcome | None:
        """Why the mutation is not to be run; after a gap nothing of its client is."""
        client = mutation.client
        if client in self._refused:
            return msgspec.structs.replace(self._refused[client], id=number)
        status = self._status(client, last, number, payload)
        if status is None:
            return None
        expected = (last.id if last else 0) + 1
        outcome = Outcome(client=client, id=number, status=status, expected=expected if status == "gap" else None)
        if status not in ("seen", "mismatch"):
            self._refused[client] = outcome
        return outcome

    def _status(self, client: str, last: Client | None, number: int, payload: bytes) -> Status | None:
        if self._group and self._state.group_collected(self._group):
            return "collected"
        if last is None:
            return self._newcomer(number)
        bound = self._state.binding(client)
        if bound is not None and bound != (self._group, self._owner):
            return "wrong-group"
        if number <= last.id:
            return "mismatch" if number == last.id and payload != last.payload else "seen"
        return None if number == last.id + 1 else "gap"

    def _newcomer(self, number: int) -> Status | None:
        """A client that nobody has seen begins with 1, and in a group of its owner's."""
        if self._group and self._state.group_owner(self._group) not in (None, self._owner):
            return "wrong-group"
        return None if number == 1 else "unknown-client"

    def _run(self, mutation: Mutation, args: bytes, payload: bytes) -> Outcome:
        child = self.draft.child()
        reason, fields_bytes = self._attempt(mutation, child)
        changes = {} if reason is not None else child.changes
        if reason is None:
            self.draft.merge(child)
            self.fields_bytes = fields_bytes
        self.ran.append(Ran(mutation, args, payload, reason, changes))
        status: Status = "applied" if reason is None else "rejected"
        return Outcome(client=mutation.client, id=mutation.id, status=status, reason=reason)

    def _attempt(self, mutation: Mutation, draft: Draft) -> tuple[str | None, int]:
        """Run the mutator. The reason it was rejected, or None and the size of the fields after it."""
        mutator = self._mutators.get(mutation.name)
        if mutator is None:
            return f"no such mutator: {mutation.name}", 0
        reason: str | None = None
        try:
            mutator(draft, mutation.args)
            self._check_patch(draft)
            fields_bytes = self._fields_after(draft)
        except PORT_ERRORS:
            raise
        except Exception as exc:  # noqa: BLE001 - whatever a mutator raises is a rejection with its reason (DESIGN §7)
            reason, fields_bytes = _reason(exc), 0
        if self._failure is not None:
            # The mutator caught what a port raised: what it made of that is no outcome.
            raise self._failure
        return reason, fields_bytes

    def _check_patch(self, child: Draft) -> None:
        """A mutation whose patch no entry could hold is rejected here, or it would block its client for ever."""
        changes = child.changes
        size = sum(len(key) + min(len(value or b""), VALUE_STORED_BYTES_MAX) for key, value in changes.items())
        size += PATCH_ROW_BYTES * len(changes)
        if size > PATCH_BYTES_MAX:
            raise LimitExceeded("a mutation changes too much at once", value=size, limit=PATCH_BYTES_MAX)

    def _fields_after(self, child: Draft) -> int:
        size = self.fields_bytes
        for key, value in child.changes.items():
            if collection_of(key) == "":
                size += _field_bytes(key, value) - _field_bytes(key, self.draft.encoded(key))
        if size > max(DOCUMENT_FIELDS_BYTES_MAX, self.fields_bytes):
            raise LimitExceeded("the document's fields are too large", value=size, limit=DOCUMENT_FIELDS_BYTES_MAX)
        return size

    def _last(self, client: str) -> Client | None:
        if client not in self._clients:
            self._clients[client] = self._state.client(client)
        return self._clients[client]

    def _load(self, key: str) -> bytes | None:
        try:
            slot = self._state.slot(key)
            return None if slot is None else self._values.load(slot.value)
        except PORT_ERRORS as exc:
            self._failure = exc
            raise

    def _holds(self, key: str) -> bool:
        try:
            return self._state.slot(key) is not None
        except PORT_ERRORS as exc:
            self._failure = exc
            raise

    def _keys(self, prefix: str) -> Iterator[str]:
        try:
            yield from (key for key, _ in self._state.scan(prefix))
        except PORT_ERRORS as exc:
            self._failure = exc
            raise


def net_changes(
    state: State, changes: dict[str, bytes | None]
) -> tuple[dict[str, bytes | None], dict[str, Slot | None]]:
    """Those of ``changes`` that leave a key other than ``state`` has it, and what it has there."""
    net: dict[str, bytes | None] = {}
    slots: dict[str, Slot | None] = {}
    for key, encoded in changes.items():
        slot = state.slot(key)
        unchanged = slot is None if encoded is None else slot is not None and same_value(slot.value, encoded)
        if not unchanged:
            net[key], slots[key] = encoded, slot
    return net, slots


def _reason(exc: Exception) -> str:
    reason = exc.reason if isinstance(exc, Rejected) else f"{type(exc).__name__}: {exc}"
    return reason[:REASON_CHARACTERS_MAX]


def _field_bytes(key: str, encoded: bytes | None) -> int:
    return 0 if encoded is None else len(key.encode()) + len(encoded)
