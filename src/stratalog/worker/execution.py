"""Applying a queued push: all of it at once, or, where it has failed too often, one mutation at a time.

A mutation that ends the worker's process leaves nothing but a message that is given out again. So before a suspect
runs, an attempt record in the index names it. A successor finds the record, and after enough failures it rejects the
mutation without running it. Its client goes on, long before the queue would move the message aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

import msgspec

from stratalog.documents import Document
from stratalog.documents.rejections import LAST_ATTEMPT, RejectedMutation, write_rejection
from stratalog.documents.run import run_batch
from stratalog.errors import ContentionError, OutcomeUnknown, Unavailable, Unsupported
from stratalog.limits import QUEUE_RECEIVES_MAX
from stratalog.ports.queue import Message
from stratalog.protocol.messages import UNSTORABLE, Mutation, Outcome
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
]

TRANSIENT = (Unavailable, OutcomeUnknown, ContentionError)
"""Errors that say nothing about a mutation: the same again may well succeed. They are never counted against one."""

SUSPECT_RECEIVES = 5
"""From this giving-out on a message's mutations run one by one."""

TRIES_MAX = 2
"""How often a mutation may fail where it runs alone, before it is rejected."""

WORKER_REJECTION = "rejected after the last attempt"
"""How the reason of a worker's own rejection begins."""


class NotRun(Exception):  # no StratalogError: it never leaves the worker
    """A message was given out as often as it may be, and what it still holds was not run: no crash may follow."""


def apply(document: Document, queued: QueuedPush, mutations: Sequence[Carried] | None = None) -> list[Outcome]:
    """Run a queued push, or these of its mutations, as the direct path does. Raises what `push` does."""
    chosen = queued.mutations if mutations is None else mutations
    refused = refusal(document, queued.push(chosen))
    if refused is not None:
        return refused.outcomes
    outcomes: list[Outcome] = []
    for unstorable, run in groupby(chosen, key=lambda carried: bool(carried.refused)):
        if unstorable:
            outcomes += [_reject(document, queued, carried, UNSTORABLE, carried.refused) for carried in run]
        else:
            # What was acknowledged is taken, whatever quotas say by now.
            outcomes += push(document, queued.push(list(run)), queued.owner, queued.author, admitted=True).outcomes
    return outcomes


def apply_one_by_one(
    document: Document, message: Message, queued: QueuedPush, receives_max: int = QUEUE_RECEIVES_MAX
) -> list[Outcome]:
    """Run each mutation alone, under a record that names it; reject one that has failed so too often.

    Raises NotRun where the queue would not give the message out again: what is left must not run, since it may end the
    process. Raises what `push` does.
    """
    trial = _Trial(document, message, queued, receives_max)
    return [
        outcome for position, carried in enumerate(queued.mutations, 1) for outcome in trial.take(position, carried)
    ]


class _Trial:
    """The mutations of one message, one after the other."""

    def __init__(self, document: Document, message: Message, queued: QueuedPush, receives_max: int) -> None:
        self._document = document
        self._message = message
        self._queued = queued
        self._is_last = message.receives >= receives_max
        self._index = document.log.environment.index
        self._attempts = read_attempts(self._index, message.id)

    def take(self, position: int, carried: Carried) -> list[Outcome]:
        """What becomes of the next mutation."""
        if carried.refused or not self._would_run(carried):
            return apply(self._document, self._queued, [carried])
        tries = self._tries(carried)
        if tries >= TRIES_MAX or (tries and self._is_last):
            return self._reject_after_last_attempt(position, carried, tries)
        if self._is_last:
            raise NotRun(
                f"given out {self._message.receives} times, and not run: client={carried.client} id={carried.id}"
            )
        return self._try(carried, tries)

    def _would_run(self, carried: Carried) -> bool:
        """Whether it is its turn. Another harms nobody, and must not take the place of the suspect in the record."""
        mutations, queued = self._queued.push([carried]).mutations, self._queued
        state, values = self._document.state(), self._document.values
        (outcome,) = run_batch(state, values, {}, mutations, queued.group, queued.owner).outcomes
        return outcome.status == "rejected"

    def _tries(self, carried: Carried) -> int:
        """How often it failed alone. A trial of this same giving-out met an error of a port, which does not count."""
        if (self._attempts.client, self._attempts.id) != (carried.client, carried.id):
            return 0
        return self._attempts.tries - (self._attempts.receives == self._message.receives)

    def _try(self, carried: Carried, tries: int) -> list[Outcome]:
        self._mark(carried, tries + 1, self._message.receives)
        try:
            return apply(self._document, self._queued, [carried])
        except (*TRANSIENT, Unsupported):
            with suppress(*TRANSIENT):
                self._mark(carried, tries, 0)
            raise

    def _reject_after_last_attempt(self, position: int, carried: Carried, tries: int) -> list[Outcome]:
        """Reject it, after a letter that keeps it for an operator: a letter without its rejection is only not used."""
        why = self._attempts.reason or "the process ended while it ran"
        reason = f"{WORKER_REJECTION}, {tries} failures: {why}"
        record, now_ms = self._document.log.record, self._document.log.environment.clock.wall_ms()
        names = (record.organisation, record.name, record.incarnation, carried.client, carried.id)
        letter = f"{self._message.id}/{position}"
        write_rejection(self._index, letter, RejectedMutation(*names, reason, self._message.receives, now_ms))
        outcome = _reject(self._document, self._queued, carried, carried.name, reason)
        if outcome.status == "rejected":
            environment = self._document.log.environment
            environment.report(LAST_ATTEMPT, document=record.name, client=carried.client, id=carried.id, letter=letter)
        return [outcome]

    def _mark(self, carried: Carried, tries: int, receives: int) -> None:
        self._attempts = msgspec.structs.replace(
            self._attempts, client=carried.client, id=carried.id, tries=tries, receives=receives
        )
        write_attempts(self._index, self._message.id, self._attempts)


def _reject(document: Document, queued: QueuedPush, carried: Carried, name: str, reason: str) -> Outcome:
    args: Any = None if carried.refused else carried.args
    mutation = Mutation(client=carried.client, id=carried.id, name=name, args=args)
    speaker = {"group": queued.group, "owner": queued.owner, "author": queued.author}
    return reject(document, mutation, reason, **speaker, admitted=True)
