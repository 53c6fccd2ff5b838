"""The handler of the FIFO queue: the worker's own code settles a batch of messages, in the order of each group.

SQS deletes the messages that the handler does not report. The handler stops a group at its first message that cannot be
settled, or when the time of the call ends. The handler then reports and releases this message and all later messages of
the group. After a failure these messages return with a delay. So no message overtakes another message of its group. The
event source must have ``ReportBatchItemFailures``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from typing import Any

from stratalog.aws.container import Container, container
from stratalog.aws.listeners import ANNOUNCE_SECONDS_MAX
from stratalog.backends.sqs import SqsQueue, messages_of_event
from stratalog.errors import Invalid, StratalogError
from stratalog.limits import QUEUE_RECEIVES_MAX
from stratalog.ports.queue import Message
from stratalog.retry import Retry, RetryPolicy
from stratalog.worker.execution import TRANSIENT
from stratalog.worker.settlement import Settlement, Settler, again_seconds

__all__ = ["Processor", "handler"]

END_SECONDS = 3.0
"""With less time left, the handler begins no other message: it must release and report the remaining messages."""

Remaining = Callable[[], float]
"""Returns the seconds that are left of this call."""

_log = logging.getLogger("stratalog.aws")


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Settle one SQS event and report the failed messages: the entry point for Lambda."""
    remaining = lambda: context.get_remaining_time_in_millis() / 1000  # noqa: E731
    failed = _processor().process(event["Records"], remaining)
    return {"batchItemFailures": [{"itemIdentifier": id} for id in failed]}


@cache
def _processor() -> Processor:
    return Processor(container())


class Processor:
    """Settles batches of SQS messages. Lambda passes one batch at a time."""

    def __init__(self, opened: Container) -> None:
        self._container = opened
        self._clock = opened.store.environment.clock
        self._settings = settings = opened.worker_settings
        self._retry_policy = RetryPolicy(
            wait_seconds_first=settings.retry_seconds_first, wait_seconds_max=settings.retry_seconds_max
        )
        self._settler = Settler(opened.store, settings.receives_max)

    @cached_property
    def _queue(self) -> SqsQueue:
        """The queue, opened at the first use. Opening takes two requests, and more time than settling a message."""
        queue = self._container.store.queue
        if not isinstance(queue, SqsQueue):
            raise Invalid("the handler of SQS events needs a store on AWS")
        return queue

    def process(self, records: Sequence[Mapping[str, Any]], remaining: Remaining) -> list[str]:
        """Settle the records of a Lambda event, and return the ids of the messages to redeliver. Raises Unavailable.

        ``remaining`` returns the seconds that are left of the call.
        """
        ids = {record["receiptHandle"]: record["messageId"] for record in records}
        groups: dict[str, list[Message]] = {}
        messages = messages_of_event(records)
        if any(message.receives > QUEUE_RECEIVES_MAX for message in messages):
            messages = self._queue.move_dead(messages)
        for message in messages:
            groups.setdefault(message.group, []).append(message)
        # A message that was received often may crash the process: settle its group last.
        again: list[Message] = []
        for group in sorted(groups.values(), key=lambda messages: max(message.receives for message in messages)):
            again += self._take(group, remaining)
            if remaining() > END_SECONDS + ANNOUNCE_SECONDS_MAX:
                self._container.announce()
        return [ids[message.receipt] for message in again]

    def _take(self, messages: Sequence[Message], remaining: Remaining) -> Sequence[Message]:
        """Settle the messages of one group in order, and return the messages to redeliver."""
        left = messages
        while left:
            if remaining() < END_SECONDS:
                return self._give_back(left, 0)
            try:
                left = left[self._settle(left, remaining) :]
            except Exception as exc:  # noqa: BLE001 - one group that cannot be settled must not stop the others
                seconds = self._fail(left[0], exc)
                return self._give_back(left, seconds)
        return ()

    def _settle(self, messages: Sequence[Message], remaining: Remaining) -> int:
        """Settle the first message, possibly with messages after it, and return the number of settled messages.

        After a temporary error, try again while there is time. A redelivery would count towards the limit of receives.
        """
        retry = Retry(self._clock, self._retry_policy)
        while True:
            try:
                settled = self._settler.settle_some(messages[:1] if retry.attempts else messages)
                for settlement in settled:
                    self._finish(settlement)
                break
            except TRANSIENT:
                pause = retry.next_seconds()
                if remaining() < END_SECONDS + pause:
                    raise
                self._clock.sleep(pause)
        envelope, version = settled[0].envelope, max(settlement.version for settlement in settled)
        self._container.note(envelope.organisation, envelope.document, version)
        return len(settled)

    def _finish(self, settled: Settlement) -> None:
        """Finish a settled message. A redelivered message is acknowledged at once."""
        # SQS deletes the messages of a batch only when the call ends. If a message of the batch crashes the process
        # again and again, SQS delivers the other messages again each time, unless the process acknowledges them.
        finish = self._settler.finish if settled.message.receives > 1 else self._settler.drop_claim_check
        finish(settled)

    def _fail(self, message: Message, error: Exception) -> float:
        """Log and note the failure of a message, and return the seconds until it may be received again."""
        reason = f"{type(error).__name__}: {error}"
        if not isinstance(error, TRANSIENT):
            reason = self._settler.note_failure(message, error)
        _log.warning("%s: message %s, received %d times: %s", message.group, message.id, message.receives, reason)
        return again_seconds(message, self._settings.failure_seconds_max)

    def _give_back(self, messages: Sequence[Message], after_seconds: float) -> Sequence[Message]:
        """Release the messages in reverse order, so that no message overtakes an earlier message. Return them."""
        for message in reversed(messages):
            with suppress(StratalogError):
                self._queue.release(message, after_seconds=after_seconds)
        return messages
