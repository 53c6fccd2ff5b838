"""The execution of a queued push: all mutations at once, or, after repeated failures, one mutation at a time.

If a mutation ends the worker's process, the queue only delivers the message again. So before a worker runs a suspect
mutation, it names the mutation in an attempt record in the index. The next worker finds the record. After enough
failures the next worker rejects the mutation without running it. The client then continues, before the queue would move
the message aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from itertools import groupby
from typing import Any

import msgspec

from stratalog.codec import encode
from stratalog.documents import Document
from stratalog.documents.rejections import LAST_ATTEMPT, RejectedMutation, write_rejection
from stratalog.documents.resumption import LOST_RANGES_MAX
from stratalog.documents.run import run_batch
from stratalog.documents.state import State
from stratalog.errors import ContentionError, OutcomeUnknown, Unavailable, Unsupported
from stratalog.limits import MUTATION_TRIES_MAX, QUEUE_RECEIVES_MAX
from stratalog.ports.queue import Message
from stratalog.protocol.messages import UNSTORABLE, Mutation, Outcome
from stratalog.protocol.weekly_groups import read_weekly_group
from stratalog.sync.push import push, refusal, reject
from stratalog.worker.attempt_record import read_attempts, write_attempts
from stratalog.worker.messages import Carried, QueuedPush

__all__ = [
    "SUSPECT_RECEIVES",
    "TRANSIENT",
    "WORKER_REJECTION",
    "NotRun",
    "apply",
    "apply_one_by_one",
    "require_application",
]

TRANSIENT = (Unavailable, OutcomeUnknown, ContentionError)
"""Errors that are not a mutation's fault: a retry may succeed. These errors never count as failures of a mutation."""

BLOCKED = ("gap", "unknown-client")
LATE = "redrive"
"""The prefix of the clients of late mutations. It is reserved, so no push can use such a client."""

LATE_BYTES = 16

SUSPECT_RECEIVES = 5
"""From this delivery on, a message's mutations run one by one."""

WORKER_REJECTION = "rejected after the last attempt"
"""The beginning of the reason of a worker's own rejection."""


class NotRun(Exception):  # not a StratalogError, since it never leaves the worker
    """A mutation was not run on the last delivery of its message, since no delivery would follow a crash."""


def require_application(document: Document, pushes: Sequence[QueuedPush]) -> None:
    """Raise Unsupported if the queueing process had a mutator that this process lacks.

    Otherwise this process would commit a rejection for good, and a process with the application could not apply the
    mutation.
    """
    for queued in pushes:
        for name in queued.known:
            if name not in document.rules.mutators:
                text = "this process lacks a mutator of the push: start it with the application that is served"
                raise Unsupported(text, document=document.name, mutator=name)


def apply(document: Document, queued: QueuedPush, mutations: Sequence[Carried] | None = None) -> list[Outcome]:
    """Run a queued push, or only ``mutations`` of it, as if it had not been queued. Raises the errors of `push`.

    The sender of a push in a weekly group counts the push as done, and does not send it again. So its mutations also
    run if an earlier message of the sender is missing, for example a dead letter. That message still runs if it comes
    later.
    """
    chosen = queued.mutations if mutations is None else mutations
    refused = refusal(document, queued.push(chosen))
    if refused is not None:
        return refused.outcomes
    outcomes = _run(document, queued, chosen)
    return outcomes if read_weekly_group(queued.group) is None else _past_missing(document, queued, chosen, outcomes)


def _run(document: Document, queued: QueuedPush, chosen: Sequence[Carried]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for unstorable, run in groupby(chosen, key=lambda carried: bool(carried.refused)):
        if unstorable:
            outcomes += [_reject(document, queued, carried, UNSTORABLE, carried.refused) for carried in run]
        else:
            # The server acknowledged the push when it queued the push. So no quota may refuse the push now.
            outcomes += push(document, queued.push(list(run)), queued.owner, queued.author, admitted=True).outcomes
    return outcomes


def _past_missing(
    document: Document, queued: QueuedPush, chosen: Sequence[Carried], outcomes: list[Outcome]
) -> list[Outcome]:
    """Run the mutations that an earlier, missing message kept from running, and those of a message that was missing.

    The client's number is first raised over the numbers of the missing message. The state keeps these numbers as lost.
    So a lost number was never used for a mutation, and the mutation of a later message can run once under its own id.
    """
    blocked: dict[str, int] = {}
    for outcome in outcomes:
        if outcome.status in BLOCKED:
            blocked.setdefault(outcome.client, outcome.id - 1)
    if blocked:
        document.resume(queued.group, queued.owner, blocked)
        again = _run(document, queued, chosen)
        pairs = zip(outcomes, again, strict=True)
        outcomes = [second if first.status in BLOCKED else first for first, second in pairs]
    if any(outcome.status == "seen" for outcome in outcomes):
        state = document.state()
        outcomes = [
            _run_late(document, queued, carried)
            if outcome.status == "seen" and _is_lost(document, state, queued, carried)
            else outcome
            for carried, outcome in zip(chosen, outcomes, strict=True)
        ]
    return outcomes


def _is_lost(document: Document, state: State, queued: QueuedPush, carried: Carried) -> bool:
    """Return whether a mutation's number was passed over, and the mutation can run.

    The state keeps only the newest lost ranges. The log decides on a number before them. Raises VersionForgotten or
    Redacted if the log no longer shows whether the number was used.
    """
    ranges = state.lost(carried.client)
    if carried.refused or not ranges:
        return False
    if len(ranges) == LOST_RANGES_MAX and carried.id <= ranges[0][0]:
        has_run_late = state.client(_late_client(queued, carried)) is not None
        return has_run_late or document.applied_in(carried.client, carried.id) is None
    return any(before < carried.id <= last for before, last in ranges)


def _run_late(document: Document, queued: QueuedPush, carried: Carried) -> Outcome:
    """Run a mutation whose number was passed over, as the only mutation of a client of its own."""
    client, origin = _late_client(queued, carried), (carried.client, carried.id)
    again = Mutation(client=client, id=1, name=carried.name, args=carried.args, origin=origin)
    (outcome,) = document.apply([again], author=queued.author, admitted=True)
    return msgspec.structs.replace(outcome, client=carried.client, id=carried.id)


def _late_client(queued: QueuedPush, carried: Carried) -> str:
    digest = sha256(encode([queued.group, carried.client])).digest()[:LATE_BYTES].hex()
    return f"{LATE}/{digest}/{carried.id}"


def apply_one_by_one(
    document: Document, message: Message, queued: QueuedPush, receives_max: int = QUEUE_RECEIVES_MAX
) -> list[Outcome]:
    """Run each mutation alone, after naming it in the attempt record. Reject a mutation that failed alone too often.

    Raises NotRun on the message's last delivery, instead of running a mutation that may end the process. Raises the
    errors of `push`.
    """
    trial = _Trial(document, message, queued, receives_max)
    return [
        outcome for position, carried in enumerate(queued.mutations, 1) for outcome in trial.take(position, carried)
    ]


class _Trial:
    """The mutations of one message, run one after the other."""

    def __init__(self, document: Document, message: Message, queued: QueuedPush, receives_max: int) -> None:
        self._document = document
        self._message = message
        self._queued = queued
        self._is_last = message.receives >= receives_max
        self._index = document.log.environment.index
        self._attempts = read_attempts(self._index, message.id)

    def take(self, position: int, carried: Carried) -> list[Outcome]:
        """Run, reject or refuse the next mutation; return its outcome. Raises NotRun."""
        if carried.refused or not self._would_run(carried):
            return apply(self._document, self._queued, [carried])
        tries = self._tries(carried)
        # On the last delivery one earlier failure is enough, since no other trial follows.
        if tries >= MUTATION_TRIES_MAX or (tries and self._is_last):
            return self._reject_after_last_attempt(position, carried, tries)
        if self._is_last:
            raise NotRun(
                f"delivered {self._message.receives} times, and not run: client={carried.client} id={carried.id}"
            )
        return self._try(carried, tries)

    def _would_run(self, carried: Carried) -> bool:
        """Return whether the mutation's number is next, so that it would run.

        A mutation with another number does not run, and must not replace the suspect in the attempt record.
        """
        mutations, queued = self._queued.push([carried]).mutations, self._queued
        state, values = self._document.state(), self._document.stored_values
        (outcome,) = run_batch(state, values, {}, mutations, queued.group, queued.owner).outcomes
        return outcome.status == "rejected"

    def _tries(self, carried: Carried) -> int:
        """Return how often the mutation failed alone.

        A trial during this delivery does not count: it ended with an error of a port.
        """
        if (self._attempts.client, self._attempts.id) != (carried.client, carried.id):
            return 0
        return self._attempts.tries - (self._attempts.receives == self._message.receives)

    def _try(self, carried: Carried, tries: int) -> list[Outcome]:
        self._mark(carried, tries + 1, self._message.receives)
        try:
            return apply(self._document, self._queued, [carried])
        except (*TRANSIENT, Unsupported):
            # The error is not the mutation's fault: remove the trial from the record, if the index can be reached.
            with suppress(*TRANSIENT):
                self._mark(carried, tries, 0)
            raise

    def _reject_after_last_attempt(self, position: int, carried: Carried, tries: int) -> list[Outcome]:
        """Write a dead letter of the mutation for an operator, then reject the mutation.

        A letter whose rejection is not committed stays unused.
        """
        why = self._attempts.reason or "the process ended while it ran"
        reason = f"{WORKER_REJECTION}, {tries} failures: {why}"
        record, now_ms = self._document.log.record, self._document.log.environment.clock.wall_ms()
        names = (record.organisation, record.name, record.incarnation, carried.client, carried.id)
        letter = f"{self._message.id}/{position}"
        write_rejection(self._index, letter, RejectedMutation(*names, reason, self._message.receives, now_ms))
        report = partial(self._document.log.environment.report, LAST_ATTEMPT, document=record.name)
        try:
            outcome = _reject(self._document, self._queued, carried, carried.name, reason)
        except OutcomeUnknown:
            # Report now: if the rejection is committed, the next delivery does not report it.
            report(client=carried.client, id=carried.id, letter=letter)
            raise
        if outcome.status == "rejected":
            report(client=carried.client, id=carried.id, letter=letter)
        return [outcome]

    def _mark(self, carried: Carried, tries: int, receives: int) -> None:
        self._attempts = msgspec.structs.replace(
            self._attempts, client=carried.client, id=carried.id, tries=tries, receives=receives
        )
        write_attempts(self._index, self._message.id, self._attempts)


def _reject(document: Document, queued: QueuedPush, carried: Carried, name: str, reason: str) -> Outcome:
    args: Any = None if carried.refused else carried.args
    mutation = Mutation(client=carried.client, id=carried.id, name=name, args=args)
    return reject(
        document, mutation, reason, group=queued.group, owner=queued.owner, author=queued.author, admitted=True
    )
