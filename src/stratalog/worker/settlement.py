"""Settlement: the handling of a queued push that a worker received, or that SQS passed to a function.

    =========================================  ==========================
    applied, rejected, seen                    settled
    mismatch, wrong-group, collected           settled without effect
    behind a gap, of an unknown client         settled and dropped: the client pushes the mutation again
    the same, in a weekly group                applied: the sender does not push it again (`execution.py`)
    of another incarnation, of no document     settled and dropped: the push is not for a new document of that name
    an error of a port                         raised: a retry may succeed
    of an application that the worker lacks    raised, never rejected: another worker may have the application
    any other error, a damaged document        raised
    =========================================  ==========================

After an error that is not in `TRANSIENT`, the caller stores the reason with `Settler.note_failure`.
If a message was delivered at least `SUSPECT_RECEIVES` times, its mutations run one at a time (`execution.py`). New
messages that wait for the same document become one entry if each message has the same outcome as alone
(`coalescing.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

import msgspec

from stratalog.documents import Document
from stratalog.errors import Corrupt, Invalid, NotFound
from stratalog.limits import FAILURE_REASON_CHARACTERS_MAX, QUEUE_RECEIVES_MAX
from stratalog.ports.queue import Message
from stratalog.protocol.messages import Outcome
from stratalog.store import Store
from stratalog.worker.attempt_record import drop_attempts, read_attempts, write_attempts
from stratalog.worker.coalescing import Opened, coalesce
from stratalog.worker.execution import SUSPECT_RECEIVES, TRANSIENT, apply, apply_one_by_one, require_application
from stratalog.worker.messages import Envelope, claim_check_exists, open_push, read_message, remove_claim_check

__all__ = ["DEAD_MESSAGE", "Settlement", "Settler", "again_seconds"]

DEAD_MESSAGE = "dead letter of the queue"
"""The name under which `Environment.report` reports a message that failed on its last delivery."""


class Settlement(msgspec.Struct, frozen=True):
    """A settled message, and the outcomes of its mutations."""

    message: Message
    envelope: Envelope
    outcomes: Sequence[Outcome] = ()

    @property
    def version(self) -> int:
        """The newest version that the message committed; 0 if it committed none."""
        return max((outcome.version for outcome in self.outcomes if outcome.version is not None), default=0)


class Settler:
    """Applies messages to the documents of a store, which stay loaded. The caller receives the messages."""

    def __init__(self, store: Store, receives_max: int = QUEUE_RECEIVES_MAX) -> None:
        self.counts: Counter[str] = Counter()
        """Counts of mutations by outcome, and of messages."""

        self._store = store
        self._receives_max = receives_max

    def settle(self, message: Message) -> Settlement:
        """Apply a message, which the caller may then acknowledge. After any error, `settle` can be called again."""
        envelope = read_message(message.body)
        outcomes: Sequence[Outcome] = ()
        document = self._document(envelope)
        if document is None:
            self.counts["of another incarnation"] += 1
        elif claim_check_exists(self._store.environment.blobs, envelope):
            outcomes = self._apply(document, message, envelope)
            self.counts.update(outcome.status for outcome in outcomes)
        return Settlement(message, envelope, outcomes)

    def settle_some(self, messages: Sequence[Message]) -> list[Settlement]:
        """Settle the first messages of a group: one, or several that become one entry.

        Raises the errors of `settle` for the first message. After an error of a port, call `settle` with the first
        message alone: the error may concern another message.
        """
        coalesced = coalesce(self._store.environment.blobs, messages) if len(messages) > 1 else []
        if len(coalesced) > 1:
            try:
                return self._settle_coalesced(coalesced)
            except TRANSIENT:
                raise
            except Exception:  # noqa: BLE001 - settling each message alone shows the faulty message
                self.counts["parted"] += 1
        return [self.settle(messages[0])]

    def drop_claim_check(self, settled: Settlement) -> None:
        """Delete the blobs of a push that was too large for its message. Calling twice is harmless."""
        remove_claim_check(self._store.environment.blobs, settled.envelope)

    def finish(self, settled: Settlement) -> None:
        """Acknowledge a settled message. If this fails, the queue delivers the message again, without effect."""
        self.drop_claim_check(settled)
        self._store.queue.acknowledge(settled.message)
        if settled.message.receives > 1:
            drop_attempts(self._store.environment.index, settled.message.id)

    def note_failure(self, message: Message, error: Exception) -> str:
        """Store the reason why a message could not be settled, if the store can be reached. Return the reason."""
        reason = f"{type(error).__name__}: {error}"[:FAILURE_REASON_CHARACTERS_MAX]
        self.counts["failures"] += 1
        index = self._store.environment.index
        if message.receives >= self._receives_max:
            self._store.environment.report(DEAD_MESSAGE, message=message.id, kind=type(error).__name__)
        with suppress(*TRANSIENT, Corrupt):
            attempts = read_attempts(index, message.id)
            failed_ms = self._store.environment.clock.wall_ms()
            write_attempts(index, message.id, msgspec.structs.replace(attempts, reason=reason, failed_ms=failed_ms))
        return reason

    def _settle_coalesced(self, coalesced: Sequence[Opened]) -> list[Settlement]:
        """Apply messages as one batch. Raises NotFound if their document does not exist, and Unsupported."""
        first = coalesced[0]
        document = self._document(first.envelope)
        if document is None:
            raise NotFound("document not found", document=first.envelope.document)
        require_application(document, [opened.push for opened in coalesced])
        outcomes = apply(document, first.push, [mutation for each in coalesced for mutation in each.push.mutations])
        self.counts.update(outcome.status for outcome in outcomes)
        self.counts["coalesced"] += len(coalesced)
        # With fewer outcomes, the slices below would end early without an error, and a message would lose its outcomes.
        assert len(outcomes) == sum(len(each.push.mutations) for each in coalesced), "each mutation has one outcome"
        left = iter(outcomes)
        return [
            Settlement(opened.message, opened.envelope, [*islice(left, len(opened.push.mutations))])
            for opened in coalesced
        ]

    def _document(self, envelope: Envelope) -> Document | None:
        """Return the document that a message is for; None if no document of this name and incarnation exists."""
        try:
            document = self._store.document(envelope.organisation, envelope.document)
        except (NotFound, Invalid):
            return None
        return document if document.log.record.incarnation == envelope.incarnation else None

    def _apply(self, document: Document, message: Message, envelope: Envelope) -> Sequence[Outcome]:
        try:
            queued = open_push(self._store.environment.blobs, envelope)
        except Corrupt:
            if claim_check_exists(self._store.environment.blobs, envelope):
                raise
            return []
        require_application(document, [queued])
        try:
            if message.receives < SUSPECT_RECEIVES:
                return apply(document, queued)
            return apply_one_by_one(document, message, queued, self._receives_max)
        except NotFound:
            if self._document(envelope) is not None:
                raise
            self.counts["of another incarnation"] += 1
            return []


def again_seconds(message: Message, seconds_max: float) -> float:
    """Return the seconds until a failed message becomes visible again: twice as many after each delivery."""
    return float(min(seconds_max, 2.0 ** (message.receives - 1)))
