"""The queue on Amazon SQS: a FIFO queue whose message groups are the port's groups, and a FIFO queue for dead letters.

SQS accepts only text, so `SqsQueue` sends a body as base64. The id of a message in the port is SQS's deduplication id.
`SqsQueue` makes these ids, in order of time. A retried send has the same id, so SQS accepts the message once.

A receive moves a message that was received too often to the dead-letter queue. `SqsQueue` does not use SQS's own
redrive policy. Each dead letter is a message group of its own. Otherwise `SqsQueue` could not list all dead letters:
SQS returns at most ten messages of one group until these messages are deleted.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from stratalog.backends.billed_units import billed_requests, message_bytes
from stratalog.backends.boto import RequestRefused, once
from stratalog.backends.service_request import RequestPolicy, Retryable, send_request
from stratalog.backends.sqs_setup import RETENTION_SECONDS
from stratalog.clock import Clock, Observation, new_id
from stratalog.codec import is_decimal
from stratalog.errors import Closed, LimitExceeded, OutcomeUnknown, Unavailable
from stratalog.limits import QUEUE_RECEIVES_MAX, VISIBILITY_SECONDS_MAX
from stratalog.ports.meter import Meter
from stratalog.ports.queue import DeadMessage, Message, check_receive, check_send, hidden_seconds
from stratalog.process_fork import close_in_child

__all__ = ["SqsQueue", "messages_of_event"]

T = TypeVar("T")

REQUEST_BYTES_MAX = 1024 * 1024
BATCH = 10
LISTING_SECONDS_MIN = 60
TIMEOUTS_MAX = 10_000
WAIT_SECONDS_MAX = 20
# SQS accepts these names of message groups. For a group with another name, the message group is a hash of the name. The
# name is always an attribute of the message too.
GROUP = re.compile(r"[!-~]{1,128}")
RECEIVES = re.compile(r"[0-9]{1,9}")
EMPTY = "-"
TOO_LONG = "BatchRequestTooLong"
# SQS has no error code for a message that is longer than the queue's attribute MaximumMessageSize.
TOO_LONG_TEXT = "Message must be shorter than"
STALE = frozenset({"InvalidParameterValue", "MessageNotInflight", "ReceiptHandleIsInvalid"})
ATTRIBUTES = ("ApproximateReceiveCount", "MessageDeduplicationId", "MessageGroupId", "SentTimestamp")


class SqsQueue:
    """The queue at ``url`` with its dead letters at ``dead_url``. ``client`` must try each request once.

    SQS measures visibility by its own clock, in whole seconds, rounded up. A receipt is stale once its time has passed
    by ``clock``. `SqsQueue` sends no request for a receipt that it knows to be stale. SQS retains messages and dead
    letters for 14 days. A receive waits up to ``wait_seconds`` for a message, 20 at most.
    """

    def __init__(
        self,
        client: Any,
        url: str,
        dead_url: str,
        clock: Clock,
        receives_max: int = QUEUE_RECEIVES_MAX,
        *,
        wait_seconds: int = 0,
        policy: RequestPolicy | None = None,
        meter: Meter | None = None,
    ) -> None:
        self.meter = meter or Meter()
        self._client = client
        self._url = url
        self._dead_url = dead_url
        self._clock = clock
        self._receives_max = receives_max
        self._wait_seconds = min(wait_seconds, WAIT_SECONDS_MAX)
        self._policy = policy or RequestPolicy()
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._timeouts: dict[str, _VisibilityTimeout] = {}
        self._closed = False

    def send(self, group: str, bodies: Sequence[bytes]) -> None:
        self._check_open()
        check_send(group, bodies)
        entries = [_entry(group, body, self._new_id()) for body in bodies]
        size = sum(message_bytes(group, len(body)) for body in bodies)
        if size > REQUEST_BYTES_MAX:
            raise LimitExceeded("a send is too large for SQS", value=size, limit=REQUEST_BYTES_MAX)
        try:
            self._request(
                "SendMessageBatch", partial(self._send_rest, self._url, entries), writes=True, sent_bytes=size
            )
        except RequestRefused as exc:
            if exc.reason != TOO_LONG and TOO_LONG_TEXT not in exc.explanation:
                raise
            # The queue was made when SQS accepted 256 KB, or an operator has lowered its limit.
            raise LimitExceeded("a send is too large for this queue of SQS", value=size) from exc

    def receive(self, limit: int = 10, *, visibility_seconds: float = 30) -> list[Message]:
        self._check_open()
        check_receive(limit, visibility_seconds)
        while True:
            seen = Observation(self._clock)
            records = self._receive(self._url, limit, visibility_seconds, self._wait_seconds)
            given = self.move_dead([_message(record) for record in records])
            for message in given:
                self._remember(message.receipt, _VisibilityTimeout(seen, visibility_seconds, seen))
            # If all received messages became dead letters, receive again, since [] means that no message is ready.
            if given or not records:
                return given

    def move_dead(self, messages: Sequence[Message]) -> list[Message]:
        """Move the messages that were received too often to the dead letters, and return the other messages.

        A move has two steps. If a crash interrupts the move, the next receive repeats it. The second letter then has
        the same id, and a listing returns one letter.
        """
        self._check_open()
        for message in messages:
            if message.receives > self._receives_max:
                self._move_aside(message)
        return [message for message in messages if message.receives <= self._receives_max]

    def acknowledge(self, message: Message) -> bool:
        self._check_open()
        return self._settle("DeleteMessage", message, self._client.delete_message, 0)

    def release(self, message: Message, *, after_seconds: float = 0) -> bool:
        self._check_open()
        seconds = min(hidden_seconds(after_seconds), self._seconds_left(message))
        call = partial(self._client.change_message_visibility, VisibilityTimeout=math.ceil(seconds))
        return self._settle("ChangeMessageVisibility", message, call, seconds)

    def dead_letters(self, *, after: str = "") -> Iterator[DeadMessage]:
        """List the dead letters, sorted by id. The whole list is in memory.

        The letters are hidden from other readers until all are received, so two listings at the same time each get a
        part of the letters. The listing ends when SQS returns no letter. In a long listing a letter may become visible
        and be received again. So the longer a listing runs, the longer it hides the next letters. Each letter is then
        received only a few times.
        """
        self._check_open()
        letters: dict[str, DeadMessage] = {}
        receipts: dict[str, str] = {}
        begun = Observation(self._clock)
        try:
            while records := self._receive(self._dead_url, BATCH, _listing_seconds(begun.age_seconds()), 0):
                for record in records:
                    letter = self._letter(record)
                    letters[letter.id], receipts[letter.id] = letter, record["ReceiptHandle"]
        finally:
            self._let_go(list(receipts.values()))
        yield from (letters[id] for id in sorted(letters) if id > after)

    def oldest_ms(self) -> int:
        self._check_open()
        # A dead letter is a new message of the second queue, so its retention begins anew.
        return self._clock.wall_ms() - 2 * RETENTION_SECONDS * 1000

    def close(self) -> None:
        self._closed = True
        self._client.close()

    def _move_aside(self, message: Message) -> None:
        entry = _entry(message.group, message.body, message.id, receives=str(message.receives - 1))
        send = partial(self._send_rest, self._dead_url, [entry | {"MessageGroupId": message.id}])
        self._request("SendMessageBatch", send, writes=True, sent_bytes=message_bytes(message.group, len(message.body)))
        self._settle("DeleteMessage", message, self._client.delete_message, 0)

    def _send_rest(self, url: str, entries: list[dict[str, Any]]) -> None:
        """Send ``entries``, and remove the sent entries from the list, so that a retry sends the rest in order.

        Raises Retryable for the rest. If the failure is the sender's fault, raises Unavailable, or OutcomeUnknown after
        a part was sent. Raises OutcomeUnknown also if a later message was sent although an earlier message failed. This
        error allows no retry, since a retry would send the messages in the wrong order.
        """
        answer = self._client.send_message_batch(QueueUrl=url, Entries=entries)
        failed = {failure["Id"]: failure for failure in answer.get("Failed", [])}
        answered = {success["Id"] for success in answer.get("Successful", [])} | failed.keys()
        if any(entry["Id"] not in answered for entry in entries):
            # boto3 reads a body of another form, such as a proxy's page, as a response without messages.
            raise Retryable(OutcomeUnknown("the response of SQS does not name each message"))
        sent = list(itertools.takewhile(lambda entry: entry["Id"] not in failed, entries))
        if len(sent) + len(failed) < len(entries):
            raise OutcomeUnknown("a message was sent although an earlier message failed", failed=len(failed))
        del entries[: len(sent)]
        if not failed:
            return
        failure = failed[entries[0]["Id"]]
        code, text, is_ours = failure["Code"], "SQS refused a message", failure["SenderFault"]
        error: OutcomeUnknown | Unavailable
        if sent or code.startswith("Internal"):
            error = OutcomeUnknown(text, reason=code, sent=len(sent))
        elif is_ours:
            error = RequestRefused(text, code, failure.get("Message", ""))
        else:
            error = Unavailable(text, reason=code)
        raise error if is_ours else Retryable(error)

    def _receive(self, url: str, limit: int, visibility_seconds: float, wait_seconds: int) -> list[Any]:
        """Receive messages in SQS's own form. All tries have the same attempt id, so that SQS repeats a lost answer."""
        answer = self._request(
            "ReceiveMessage",
            partial(
                self._client.receive_message,
                QueueUrl=url,
                MaxNumberOfMessages=limit,
                VisibilityTimeout=math.ceil(visibility_seconds),
                WaitTimeSeconds=wait_seconds,
                MessageSystemAttributeNames=ATTRIBUTES,
                MessageAttributeNames=["All"],
                ReceiveRequestAttemptId=new_id(self._clock, 26),
            ),
        )
        records: list[Any] = answer.get("Messages", [])
        size = sum(message_bytes(message.group, len(message.body)) for message in map(_message, records))
        self.meter.add("ReceiveMessage", "billed requests", billed_requests(size) - 1)
        return records

    def _settle(self, operation: str, message: Message, call: Callable[..., Any], seconds: float) -> bool:
        """Send a request for one receipt. Return False if SQS refuses the receipt as stale.

        If the receipt is stale by this machine's clock, send no request and return False. After a success the receipt
        is valid for ``seconds`` from now on.
        """
        seen = Observation(self._clock)
        timeout = self._timeouts.get(message.receipt)
        if timeout is not None and timeout.seen.seconds_until(seen) >= timeout.seconds:
            return False
        try:
            self._request(operation, partial(call, QueueUrl=self._url, ReceiptHandle=message.receipt), writes=True)
        except RequestRefused as exc:
            if exc.reason not in STALE:
                raise
            return False
        received = seen if timeout is None else timeout.received
        self._remember(message.receipt, _VisibilityTimeout(seen, seconds, received))
        return True

    def _seconds_left(self, message: Message) -> int:
        """Return how long SQS can hide a message from now on: it refuses a time over 12 hours after the receive."""
        timeout = self._timeouts.get(message.receipt)
        age = timeout.received.age_seconds() if timeout is not None else 0
        return max(VISIBILITY_SECONDS_MAX - math.ceil(age), 0)

    def _remember(self, receipt: str, timeout: _VisibilityTimeout) -> None:
        """Remember how long a receipt is valid. Above `TIMEOUTS_MAX`, forget the oldest, which only SQS then checks."""
        with self._lock:
            self._timeouts[receipt] = timeout
            if len(self._timeouts) > TIMEOUTS_MAX:
                self._timeouts.pop(next(iter(self._timeouts)))

    def _letter(self, record: Any) -> DeadMessage:
        message = _message(record)
        receives = record.get("MessageAttributes", {}).get("receives", {}).get("StringValue", "")
        receives = int(receives) if RECEIVES.fullmatch(receives) else self._receives_max
        sent_ms = _count(record["Attributes"], "SentTimestamp")
        return DeadMessage(message.id, message.group, message.body, receives, sent_ms)

    def _let_go(self, receipts: Sequence[str]) -> None:
        for start in range(0, len(receipts), BATCH):
            entries = [
                {"Id": str(position), "ReceiptHandle": receipt, "VisibilityTimeout": 0}
                for position, receipt in enumerate(receipts[start : start + BATCH])
            ]
            call = partial(self._client.change_message_visibility_batch, QueueUrl=self._dead_url, Entries=entries)
            self._request("ChangeMessageVisibilityBatch", call)

    def _new_id(self) -> str:
        """Return a new id. Ids are in order of time: by the millisecond, and then by a counter of this object."""
        return f"{self._clock.wall_ms():013d}-{next(self._numbers) % 10**6:06d}-{new_id(self._clock)}"

    def _request(self, operation: str, call: Callable[[], T], *, writes: bool = False, sent_bytes: int = 0) -> T:
        """Send a request with retries, and count each try. ``sent_bytes`` is the size of its messages, for billing."""

        def attempt() -> T:
            self.meter.add(operation, "requests")
            self.meter.add(operation, "billed requests", billed_requests(sent_bytes))
            return once("SQS", call, writes=writes)

        return send_request(self._clock, self._policy, attempt)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the queue is closed")


def _listing_seconds(age_seconds: float) -> float:
    """Return how long a listing of this age hides the letters that it receives."""
    return min(LISTING_SECONDS_MIN + 2 * age_seconds, VISIBILITY_SECONDS_MAX)


class _VisibilityTimeout(msgspec.Struct, frozen=True):
    """The validity of a receipt: ``seconds`` from ``seen``, which was taken before the request was sent."""

    seen: Observation
    seconds: float
    received: Observation
    """Taken before the message was received, as far as this process knows."""


def _entry(group: str, body: bytes, id: str, **attributes: str) -> dict[str, Any]:
    message_group = group if GROUP.fullmatch(group) else hashlib.sha256(group.encode()).hexdigest()
    return {
        # Another program's deduplication id may have characters that SQS does not accept here.
        "Id": hashlib.sha256(id.encode()).hexdigest(),
        "MessageBody": b64encode(body).decode() or EMPTY,
        "MessageGroupId": message_group,
        "MessageDeduplicationId": id,
        "MessageAttributes": {name: _text(value) for name, value in {"group": group, **attributes}.items()},
    }


def _message(record: Any) -> Message:
    """Return the message of an SQS record. If another program sent the message, its group is SQS's message group."""
    attributes = record["Attributes"]
    group = record.get("MessageAttributes", {}).get("group", {}).get("StringValue", attributes["MessageGroupId"])
    return Message(
        id=attributes["MessageDeduplicationId"],
        group=group,
        body=_body(record["Body"]),
        receives=_count(attributes, "ApproximateReceiveCount"),
        receipt=record["ReceiptHandle"],
    )


def messages_of_event(records: Sequence[Mapping[str, Any]], receives_max: int = QUEUE_RECEIVES_MAX) -> list[Message]:
    """Return the messages in an event with which SQS called a Lambda function. `SqsQueue.move_dead` must follow.

    SQS delivers a failing message together with the messages behind it, and increases their counts too. So only the
    first message of a group was tried as often as its count states. The function lowers ``receives`` of the other
    messages below ``receives_max``, so that each message has at least one more try.
    """
    messages = [_message_of_event(record) for record in records]
    first = {message.group: message for message in reversed(messages)}
    return [
        message
        if message is first[message.group]
        else msgspec.structs.replace(message, receives=min(message.receives, receives_max - 1))
        for message in messages
    ]


def _message_of_event(record: Mapping[str, Any]) -> Message:
    """Return the message of a record in a Lambda event. Such a record has other names for the same fields."""
    attributes = {
        name: {"StringValue": value["stringValue"]}
        for name, value in record["messageAttributes"].items()
        if "stringValue" in value  # another program may have sent a binary attribute
    }
    names = {"Body": record["body"], "ReceiptHandle": record["receiptHandle"]}
    return _message({**names, "Attributes": record["attributes"], "MessageAttributes": attributes})


def _body(text: str) -> bytes:
    """Return the decoded body. If the text is not base64, another program sent it. Then return the text unchanged.

    The reader of the message refuses such a body.
    """
    try:
        return b"" if text == EMPTY else b64decode(text, validate=True)
    except ValueError:
        return text.encode()


def _count(attributes: Mapping[str, str], name: str) -> int:
    """Return a number among the attributes of a record. Raises Unavailable for a reply that does not have it."""
    text = attributes.get(name, "")
    if not is_decimal(text):
        raise Unavailable("the response is not one of SQS", field=name, value=text)
    return int(text)


def _text(value: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": value}
