"""The handler of the FIFO queue: a batch of messages, settled by the worker's own code, in the order of each group.

SQS deletes what is not reported. A group stops at its first message that cannot be settled; that one and all after it
are reported and let go of for a while, so that none overtakes another. The event source must have
``ReportBatchItemFailures``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from stratalog.aws.container import Container, container
from stratalog.aws.listeners import ANNOUNCE_SECONDS_MAX
from stratalog.backends.sqs import SqsQueue
from stratalog.errors import Invalid, StratalogError
from stratalog.ports.queue import Message
from stratalog.retry import Retry, RetryPolicy
from stratalog.worker.execution import TRANSIENT
from stratalog.worker.settlement import Settlement, Settler, again_seconds

__all__ = ["Processor", "handler"]

END_SECONDS = 3.0
"""No message is begun with less time left than this: the rest is reported, which takes a while too."""

Remaining = Callable[[], float]
"""How many seconds are left of this call."""

_log = logging.getLogger("stratalog.aws")


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point."""
    remaining = lambda: context.get_remaining_time_in_millis() / 1000  # noqa: E731
    failed = _processor().process(event["Records"], remaining)
    return {"batchItemFailures": [{"itemIdentifier": id} for id in failed]}


@cache
def _processor() -> Processor:
    return Processor(container())


class Processor:
    """Settles what SQS hands over. One batch at a time, as Lambda has it."""

    def __init__(self, opened: Container) -> None:
        queue = opened.store.queue
        if not isinstance(queue, SqsQueue):
            raise Invalid("events of SQS are for a store on AWS")
        self._queue = queue
        self._container = opened
        self._clock = opened.store.environment.clock
        self._settings = settings = opened.worker_settings
        self._retry_policy = RetryPolicy(
            wait_seconds_first=settings.retry_seconds_first, wait_seconds_max=settings.retry_seconds_max
        )
        self._settler = Settler(opened.store, settings.receives_max)

    def process(self, records: Sequence[Mapping[str, Any]], remaining: Remaining) -> list[str]:
        """The ids of the messages that must come again, of a batch as Lambda's event has it. Raises Unavailable."""
        ids = {record["receiptHandle"]: record["messageId"] for record in records}
        groups: dict[str, list[Message]] = {}
        for message in self._queue.receive_event(records):
            groups.setdefault(message.group, []).append(message)
        # One that may end the process comes last: the others are settled by then.
        again: list[Message] = []
        for group in sorted(groups.values(), key=lambda messages: max(message.receives for message in messages)):
            again += self._take(group, remaining)
            if remaining() > END_SECONDS + ANNOUNCE_SECONDS_MAX:
                self._container.announce()
        return [ids[message.receipt] for message in again]

    def _take(self, messages: Sequence[Message], remaining: Remaining) -> Sequence[Message]:
        """Settle the messages of one group, in order; those that must come again."""
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
        """Settle the first, trying again what a port raises as long as there is time: each return to the queue counts.

        Answers how many were settled with it.
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
        """SQS deletes a batch at its end only. One that came before may have been with what ends the process."""
        finish = self._settler.finish if settled.message.receives > 1 else self._settler.drop_claim_check
        finish(settled)

    def _fail(self, message: Message, error: Exception) -> float:
        """Say why, and for how long to let go of the message."""
        reason = f"{type(error).__name__}: {error}"
        if not isinstance(error, TRANSIENT):
            reason = self._settler.note_failure(message, error)
        _log.warning("%s: message %s, given out %d times: %s", message.group, message.id, message.receives, reason)
        return again_seconds(message, self._settings.failure_seconds_max)

    def _give_back(self, messages: Sequence[Message], after_seconds: float) -> Sequence[Message]:
        """Let them be given out again, the last first, so that none overtakes the first."""
        for message in reversed(messages):
            with suppress(StratalogError):
                self._queue.release(message, after_seconds=after_seconds)
        return messages
