"""The event source from an SQS queue to a function does the work of Lambda's own poller, one poll at a time.

In each poll, the event source receives a batch and calls the function. Then it deletes the messages that the function
does not report as failed. After the visibility timeout, SQS again delivers the reported messages. If the call
fails, SQS again delivers all messages of the batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.aws.functions import Failed
from tests.aws.gateway_events import queue_event

__all__ = ["EventSource"]

ATTRIBUTES = ["All"]


class EventSource:
    """Polls the queue at ``url`` with a boto3 client, and calls a function with each batch.

    ``delivers_again`` decides for each batch whether the function gets it twice before any message is deleted.
    ``keeps`` decides for each processed message whether the event source leaves the message in the queue.
    """

    def __init__(
        self,
        client: Any,
        url: str,
        function: Callable[[Mapping[str, Any]], Any],
        *,
        batch_size: int = 10,
        delivers_again: Callable[[], bool] = lambda: False,
        duplicates: Callable[[], bool] = lambda: False,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._client = client
        self._url = url
        self._function = function
        self._batch_size = batch_size
        self._delivers_again = delivers_again
        self._duplicates = duplicates

    def poll(self) -> int:
        """Process one batch, and return its number of messages."""
        received = self._client.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=self._batch_size,
            MessageSystemAttributeNames=ATTRIBUTES,
            MessageAttributeNames=ATTRIBUTES,
        ).get("Messages", [])
        if not received:
            return 0
        self.counts["batches"] += 1
        try:
            event = queue_event(received, self._url.rpartition("/")[2])
            failed = _reported(self._function(event))
            if self._delivers_again():
                self.counts["delivered again"] += 1
                failed |= _reported(self._function(event))
        except Failed:
            self.counts["failed"] += 1
            return len(received)
        self.counts["reported"] += len(failed)
        self._delete(
            [message for message in received if message["MessageId"] not in failed and not self._is_duplicated()]
        )
        return len(received)

    def _is_duplicated(self) -> bool:
        is_duplicated = self._duplicates()
        self.counts["not deleted"] += is_duplicated
        return is_duplicated

    def _delete(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Delete messages. If the function has already deleted a message, SQS refuses only this message."""
        entries = [
            {"Id": str(position), "ReceiptHandle": message["ReceiptHandle"]}
            for position, message in enumerate(messages)
        ]
        if entries:
            self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)
            self.counts["deleted"] += len(entries)


def _reported(answer: Any) -> set[str]:
    """Return the ids that a function reports as failed. Raises Failed if its answer has another shape."""
    try:
        return {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
    except (KeyError, TypeError) as exc:
        raise Failed("the answer is no partial batch response") from exc
