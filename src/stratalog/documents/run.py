"""Running a batch of mutations on a state: checks, order and outcomes. This module writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec

from stratalog.codec import encode
from stratalog.documents.prefetch import prefetch_batch, prefetch_patch
from stratalog.documents.rejections import is_shortage, is_unexpected
from stratalog.documents.state import ClientState, State
from stratalog.documents.values import Values, same_value
from stratalog.errors import Closed, Corrupt, LimitExceeded, OutcomeUnknown, Unavailable, Unsupported
from stratalog.limits import (
    DOCUMENT_FIELDS_BYTES_MAX,
    METADATA_BYTES_MAX,
    PATCH_BYTES_MAX,
    PATCH_ROW_BYTES,
    VALUE_INLINE_BYTES_MAX,
)
from stratalog.protocol.draft import Draft
from stratalog.protocol.messages import Mutation, Outcome, Status, check_payload, payload_hash, same_payload
from stratalog.protocol.mutators import Mutators, check_has_run, reason_of
from stratalog.tree.nodes import Slot
from stratalog.tree.prefetch import KEYS_TOGETHER

__all__ = ["Ran", "Run", "net_changes", "refuse_mutators", "run_batch"]

REASON_CHARACTERS_MAX = 500
VALUE_STORED_BYTES_MAX = VALUE_INLINE_BYTES_MAX + METADATA_BYTES_MAX
PORT_ERRORS = (Unavailable, OutcomeUnknown, Corrupt, Unsupported, Closed, MemoryError)


class Ran(msgspec.Struct, frozen=True, gc=False):
    """One mutation to be committed, with its changes. A rejected mutation has no changes."""

    mutation: Mutation
    args: bytes
    reason: str | None
    changes: dict[str, bytes | None]
    fault: str = ""
    """The line at which the mutator raised an unexpected exception, as ``accounts.py:7``; else empty."""

    @property
    def id(self) -> int:
        """The mutation's number."""
        return self.mutation.id

    @property
    def payload(self) -> bytes:
        """The payload hash, which distinguishes two payloads that a client sent under one number."""
        return payload_hash(self.mutation.name, self.args)


class Run(msgspec.Struct, frozen=True, gc=False):
    """The result of running a batch on a state. ``outcomes`` are in the batch's order.

    ``ran`` are the mutations to commit. Only their outcomes have a version.
    """

    outcomes: list[Outcome]
    ran: list[Ran]
    bindings: list[tuple[str, str, str]]
    changes: dict[str, bytes | None]
    fields_bytes: int
    slots: dict[str, Slot | None] = {}
    """For each key that the run read, the key's slot in the state; None if the state lacks the key."""

    failed: Sequence[Ran] = ()
    """The mutations of ``ran`` whose mutator raised an unexpected exception. Each becomes a dead letter."""


_is_running: ContextVar[bool] = ContextVar("is_running", default=False)


def refuse_mutators() -> None:
    """Raise RuntimeError if a mutator that runs in this thread is the caller.

    A write to the mutator's own document would wait for the end of the mutator, and so for ever. A write to another
    document would be repeated with the mutator.
    """
    if _is_running.get():
        raise RuntimeError("a mutator must not write to a document: it changes its draft")


def run_batch(
    state: State, values: Values, mutators: Mutators, batch: Sequence[Mutation], group: str, owner: str
) -> Run:
    """Run ``batch`` in order on ``state`` on behalf of ``owner``.

    Raises LimitExceeded for a mutation whose arguments are too large. Other errors are errors of the ports, or report a
    shortage of memory or files.
    """
    running = _Running(state, values, mutators, group, owner)
    token = _is_running.set(True)
    try:
        outcomes = []
        for start in range(0, len(batch), KEYS_TOGETHER):
            part = batch[start : start + KEYS_TOGETHER]
            prefetch_batch(state, mutators, part, group)
            outcomes += [running.take(mutation) for mutation in part]
        changes, fields_bytes = running.draft.changes, running.fields_bytes
    finally:
        _is_running.reset(token)
        # The draft and `running` refer to each other. The deletion breaks this cycle, so Python frees both objects and
        # the arguments now, not in a later garbage collection. The next batch then uses the same memory, which saves
        # 10 µs for 16 KB of arguments.
        del running.draft
    return Run(outcomes, running.ran, running.bindings, changes, fields_bytes, running.slots, running.failed)


class _Running:
    def __init__(self, state: State, values: Values, mutators: Mutators, group: str, owner: str) -> None:
        self._state = state
        self._values = values
        self._mutators = mutators
        self._group = group
        self._owner = owner
        self._clients: dict[str, ClientState | Ran | None] = {}
        self._bound: dict[str, tuple[str, str] | None] = {}
        self._refused: dict[str, Outcome] = {}
        self._failure: Exception | None = None
        """The error that a port raised in this batch, or a MemoryError, even if the mutator caught it."""

        self._fault = ""
        self.draft = Draft(self._load, self._keys, self._holds)
        self.slots: dict[str, Slot | None] = {}
        self.fields_bytes = state.fields_bytes
        self.ran: list[Ran] = []
        self.failed: list[Ran] = []
        self.bindings: list[tuple[str, str, str]] = []

    def take(self, mutation: Mutation) -> Outcome:
        """Run one mutation if its number is the client's next; otherwise return the outcome that refuses it."""
        client = mutation.client
        last = self._last(client)
        number = mutation.id or (last.id if last else 0) + 1
        args = check_payload(encode(mutation.args))
        refusal = self._refusal(mutation, last, number, args)
        if refusal is not None:
            return refusal
        if last is None:
            self.bindings.append((client, self._group, self._owner))
        return self._run(mutation if mutation.id else msgspec.structs.replace(mutation, id=number), args)

    def _refusal(self, mutation: Mutation, last: ClientState | Ran | None, number: int, args: bytes) -> Outcome | None:
        """Return the outcome that refuses a mutation, or None.

        After a refusal with another status than `seen` and `mismatch`, the client's later mutations in the batch get
        the same status.
        """
        client = mutation.client
        if client in self._refused:
            return msgspec.structs.replace(self._refused[client], id=number)
        status = self._status(mutation, last, number, args)
        if status is None:
            return None
        expected = (last.id if last else 0) + 1
        outcome = Outcome(client=client, id=number, status=status, expected=expected if status == "gap" else None)
        if status not in ("seen", "mismatch"):
            self._refused[client] = outcome
        return outcome

    def _status(self, mutation: Mutation, last: ClientState | Ran | None, number: int, args: bytes) -> Status | None:
        if self._group and self._state.group_collected(self._group):
            return "collected"
        if last is None:
            return self._newcomer(number)
        bound = self._binding(mutation.client)
        if bound is not None and bound != (self._group, self._owner):
            return "wrong-group"
        ahead = number - last.id
        if ahead == 1:
            return None
        if ahead > 0:
            return "gap"
        known = last.payload if ahead == 0 else self._payload_in_batch(mutation.client, number)
        if known is None:
            return "seen"  # the state has only the newest payload, so an older payload cannot be compared
        return "seen" if same_payload(known, payload_hash(mutation.name, args)) else "mismatch"

    def _payload_in_batch(self, client: str, number: int) -> bytes | None:
        """Return the payload hash of a mutation that this batch commits; None for any other mutation."""
        return next((ran.payload for ran in self.ran if (ran.mutation.client, ran.id) == (client, number)), None)

    def _newcomer(self, number: int) -> Status | None:
        """Return the status that refuses a new client, or None.

        A new client begins with the number 1. Its group must be new or have the same owner.
        """
        if self._group and self._state.group_owner(self._group) not in (None, self._owner):
            return "wrong-group"
        return None if number == 1 else "unknown-client"

    def _run(self, mutation: Mutation, args: bytes) -> Outcome:
        child = self.draft.child()
        reason, fields_bytes = self._attempt(mutation, child)
        changes = {} if reason is not None else child.changes
        if reason is None:
            self.draft.merge(child)
            self.fields_bytes = fields_bytes
        ran = self._clients[mutation.client] = Ran(mutation, args, reason, changes, self._fault)
        self.ran.append(ran)
        if self._fault:
            self.failed.append(ran)
        status: Status = "applied" if reason is None else "rejected"
        version = self._state.version + 1
        return Outcome(client=mutation.client, id=mutation.id, status=status, version=version, reason=reason)

    def _attempt(self, mutation: Mutation, draft: Draft) -> tuple[str | None, int]:
        """Run the mutator. Return (reason of a rejection, 0), or (None, size of the resulting fields in bytes)."""
        self._fault = ""
        mutator: Callable[[Draft, Any], object] | None = self._mutators.get(mutation.name)
        if mutator is None:
            return f"no such mutator: {mutation.name}", 0
        reason: str | None = None
        try:
            check_has_run(mutator(draft, mutation.args))
            fields_bytes = self._sizes_after(draft.changes)
        except PORT_ERRORS:
            raise
        except Exception as exc:
            # Any other exception is a rejection, unless it reports a shortage of memory or files:
            # docs/design.md#a-rejected-mutation-is-a-committed-outcome
            if is_shortage(exc):
                raise
            reason, fields_bytes = reason_of(exc)[:REASON_CHARACTERS_MAX], 0
            self._fault = _line_of(exc) if is_unexpected(exc) else ""
        if self._failure is not None:
            # The mutator caught an error of a port, so the mutator's result must not be committed.
            raise self._failure
        return reason, fields_bytes

    def _sizes_after(self, changes: dict[str, bytes | None]) -> int:
        """Return the size of the fields after ``changes``, in bytes.

        Raises LimitExceeded for a mutation whose patch no entry could hold, or after which the fields would be too
        large. The caller turns the error into a rejection. Without a rejection, the mutation would block its client for
        ever.
        """
        size, fields_bytes = PATCH_ROW_BYTES * len(changes), self.fields_bytes
        for key, value in changes.items():
            value_bytes = len(value) if value else 0
            size += len(key.encode()) + (
                value_bytes if value_bytes < VALUE_STORED_BYTES_MAX else VALUE_STORED_BYTES_MAX
            )
            if "/" not in key:
                fields_bytes += _field_bytes(key, value) - _field_bytes(key, self.draft.encoded(key))
        if size > PATCH_BYTES_MAX:
            raise LimitExceeded("a mutation changes too much at once", value=size, limit=PATCH_BYTES_MAX)
        # Fields that are already over the limit may still shrink.
        if fields_bytes > max(DOCUMENT_FIELDS_BYTES_MAX, self.fields_bytes):
            raise LimitExceeded(
                "the document's fields are too large", value=fields_bytes, limit=DOCUMENT_FIELDS_BYTES_MAX
            )
        return fields_bytes

    def _last(self, client: str) -> ClientState | Ran | None:
        if client not in self._clients:
            self._clients[client] = self._state.client(client)
        return self._clients[client]

    def _binding(self, client: str) -> tuple[str, str] | None:
        if client not in self._bound:
            self._bound[client] = self._state.binding(client)
        return self._bound[client]

    def _load(self, key: str) -> bytes | None:
        slot = self._slot(key)
        try:
            return None if slot is None else self._state.value(slot, self._values)
        except PORT_ERRORS as exc:
            self._failure = exc
            raise

    def _holds(self, key: str) -> bool:
        return self._slot(key) is not None

    def _slot(self, key: str) -> Slot | None:
        try:
            return self.slots[key]
        except KeyError:
            pass
        try:
            slot = self.slots[key] = self._state.slot(key)
        except PORT_ERRORS as exc:
            self._failure = exc
            raise
        return slot

    def _keys(self, prefix: str) -> Iterator[str]:
        try:
            yield from (key for key, _ in self._state.scan(prefix))
        except PORT_ERRORS as exc:
            self._failure = exc
            raise


def net_changes(state: State, run: Run) -> Iterator[tuple[str, bytes | None, Slot | None]]:
    """Yield the changes that alter a key of ``state``: key, encoded value (None if deleted), the state's slot.

    The changes are in order of keys.
    """
    known = run.slots
    changes = sorted(run.changes.items())
    for start in range(0, len(changes), KEYS_TOGETHER):
        part = changes[start : start + KEYS_TOGETHER]
        prefetch_patch(state, known, part)
        for key, encoded in part:
            slot = known[key] if key in known else state.slot(key)
            unchanged = slot is None if encoded is None else slot is not None and same_value(slot.value, encoded)
            if not unchanged:
                yield key, encoded, slot


def _line_of(exc: Exception) -> str:
    """Return the line in the mutator at which it failed; or the line of its call, if the mutator did not begin."""
    call = exc.__traceback__
    assert call is not None, "the exception was raised"
    line = call.tb_next or call
    return f"{Path(line.tb_frame.f_code.co_filename).name}:{line.tb_lineno}"


def _field_bytes(key: str, encoded: bytes | None) -> int:
    return 0 if encoded is None else len(key.encode()) + len(encoded)
