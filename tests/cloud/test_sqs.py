"""The queue on SQS: the contract tests of the port on ministack's SQS, and tests of SQS's own rules."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from stratalog.backends.sqs import SqsQueue, messages_of_event
from stratalog.clock import Clock
from stratalog.errors import LimitExceeded
from stratalog.limits import MESSAGE_BYTES_MAX
from stratalog.ports.queue import Message, Queue
from stratalog.testing.clock import ManualClock
from stratalog.testing.queue_contract import QueueContract
from tests.cloud.helpers import check_billed_requests
from tests.cloud.sqs_service import ForwardingClock, Service, queue_on


class TestSqsQueue(QueueContract):
    @pytest.fixture(autouse=True)
    def _service(self, sqs: Service) -> None:
        self.service = sqs

    def make(self, clock: Clock, receives_max: int) -> Queue:
        return queue_on(self.service, clock, receives_max)

    def _queue(self, receives_max: int = 10) -> tuple[Queue, ManualClock]:
        clock = ForwardingClock(self.service.time)
        return self.make(clock, receives_max), clock


def test_batches_up_to_the_size_limit_of_the_port_fit_into_sqs(sqs: Service) -> None:
    queue = queue_on(sqs, ForwardingClock(sqs.time))
    group = f"{'%C3%A9' * 33}/{'x' * 200}"
    for bodies in ([b""], [bytes(MESSAGE_BYTES_MAX)], [bytes(MESSAGE_BYTES_MAX // 10)] * 10):
        queue.send(group, bodies)
        given = queue.receive()
        assert [(message.group, message.body) for message in given] == [(group, body) for body in bodies]
        assert all(queue.acknowledge(message) for message in given)


def test_a_message_above_the_limit_of_its_queue_is_refused_as_too_large(sqs: Service) -> None:
    queue = queue_on(sqs, ForwardingClock(sqs.time))
    sqs.client.set_queue_attributes(QueueUrl=queue._url, Attributes={"MaximumMessageSize": str(256 * 1024)})
    with pytest.raises(LimitExceeded, match="too large for this queue"):
        queue.send("g", [bytes(200_000)])
    assert queue.receive() == []
    queue.send("g", [bytes(190_000)])


def test_groups_with_names_that_sqs_forbids_stay_distinct(sqs: Service) -> None:
    queue = queue_on(sqs, ForwardingClock(sqs.time))
    groups = ["x" * 128, "x" * 129, "x" * 128 + "y", "é", "è", "two words"]
    for group in groups:
        queue.send(group, [group.encode()])
    assert {message.group: message.body.decode() for message in queue.receive()} == {group: group for group in groups}


def test_ids_are_in_order_of_sending(sqs: Service) -> None:
    clock = ForwardingClock(sqs.time)
    queue = queue_on(sqs, clock)
    queue.send("b", [b"1", b"2"])
    queue.send("a", [b"3"])
    clock.sleep(0.001)
    queue.send("a", [b"4"])
    messages = {message.body: message.id for message in queue.receive()}
    assert sorted(messages.values()) == [messages[b"%d" % number] for number in (1, 2, 3, 4)]


def test_another_process_can_settle_a_message_and_a_stale_receipt_has_no_effect(sqs: Service) -> None:
    clock = ForwardingClock(sqs.time)
    here = queue_on(sqs, clock)
    there = SqsQueue(sqs.client, here._url, here._dead_url, clock)
    here.send("g", [b"1"])
    (first,) = here.receive(visibility_seconds=30)
    clock.sleep(30)
    (second,) = there.receive(visibility_seconds=30)
    assert not here.acknowledge(first)
    assert not here.release(first, after_seconds=60)
    stranger = SqsQueue(sqs.client, here._url, here._dead_url, clock)
    assert not stranger.acknowledge(first)
    assert stranger.release(second, after_seconds=60)
    assert stranger.acknowledge(second)
    clock.sleep(60)
    assert here.receive() == []


def test_a_listing_of_dead_letters_leaves_them_visible(sqs: Service) -> None:
    clock = ForwardingClock(sqs.time)
    queue = queue_on(sqs, clock, receives_max=1)
    queue.send("g", [b"%d" % number for number in range(10)])
    queue.receive(visibility_seconds=1)
    clock.sleep(1)
    assert queue.receive() == []
    letters = list(queue.dead_letters())
    assert [letter.body for letter in letters] == [b"%d" % number for number in range(10)]
    next(queue.dead_letters())
    assert list(queue.dead_letters()) == letters


def test_a_message_of_another_program_is_received_unchanged(sqs: Service) -> None:
    queue = queue_on(sqs, ForwardingClock(sqs.time))
    request = {"QueueUrl": queue._url, "MessageGroupId": "theirs", "MessageDeduplicationId": "1"}
    sqs.client.send_message(MessageBody="{no base64}", **request)
    (message,) = queue.receive()
    assert (message.id, message.group, message.body) == ("1", "theirs", b"{no base64}")


def test_a_binary_attribute_of_another_program_is_ignored_in_a_lambda_event() -> None:
    record = {
        "receiptHandle": "receipt",
        "body": "{no base64}",
        "attributes": {
            "ApproximateReceiveCount": "1",
            "MessageGroupId": "theirs",
            "MessageDeduplicationId": "1",
        },
        "messageAttributes": {
            name: {"binaryValue": "AQ==", "stringListValues": [], "binaryListValues": [], "dataType": "Binary"}
            for name in ("group", "trace")
        },
    }
    (message,) = messages_of_event([record])
    assert (message.id, message.group, message.body) == ("1", "theirs", b"{no base64}")


def test_a_message_of_another_program_becomes_a_dead_letter_whatever_its_id(sqs: Service) -> None:
    clock = ForwardingClock(sqs.time)
    queue = queue_on(sqs, clock, receives_max=1)
    for id in ("order:17/#", "x" * 128):
        request = {"QueueUrl": queue._url, "MessageGroupId": "theirs", "MessageDeduplicationId": id}
        sqs.client.send_message(MessageBody="{no base64}", **request)
    for _ in range(3):
        queue.receive(visibility_seconds=1)
        clock.sleep(2)
    assert [letter.id for letter in queue.dead_letters()] == ["order:17/#", "x" * 128]


def test_a_dead_letter_of_another_program_is_listed_whatever_its_attributes(sqs: Service) -> None:
    queue = queue_on(sqs, ForwardingClock(sqs.time), receives_max=2)
    request = {"QueueUrl": queue._dead_url, "MessageGroupId": "theirs", "MessageBody": "{no base64}"}
    text = {"receives": {"DataType": "String", "StringValue": "many"}}
    binary = {"receives": {"DataType": "Binary", "BinaryValue": b"1"}}
    sqs.client.send_message(**request, MessageDeduplicationId="1", MessageAttributes=text)
    sqs.client.send_message(**request, MessageDeduplicationId="2", MessageAttributes=binary)
    sqs.client.send_message(**request, MessageDeduplicationId="3")
    assert [(letter.id, letter.receives) for letter in queue.dead_letters()] == [("1", 2), ("2", 2), ("3", 2)]


def test_messages_of_a_lambda_event_are_read_like_received_messages(sqs: Service) -> None:
    """In a Lambda event, AWS gives the fields of a message other names than in the response to a receive."""
    queue = queue_on(sqs, ForwardingClock(sqs.time), receives_max=2)

    def record(id: str, receives: int) -> dict[str, Any]:
        return {
            "messageId": "059f36b4-87a3-44ab-83d2-661975830a7d",
            "receiptHandle": f"receipt of {id}",
            "body": b64encode(id.encode()).decode(),
            "attributes": {
                "ApproximateReceiveCount": str(receives),
                "SentTimestamp": "1573251510774",
                "SequenceNumber": "18849496460467696128",
                "MessageGroupId": "hash",
                "SenderId": "AIDAIO23YVJENQZJOL4VO",
                "MessageDeduplicationId": id,
                "ApproximateFirstReceiveTimestamp": "1573251510774",
            },
            "messageAttributes": {
                "group": {
                    "stringValue": "two words",
                    "stringListValues": [],
                    "binaryListValues": [],
                    "dataType": "String",
                }
            },
            "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-2:123456789012:queue.fifo",
            "awsRegion": "us-east-2",
        }

    messages = messages_of_event([record("b", 3), record("a", 1), record("c", 2)], receives_max=2)
    assert queue.move_dead(messages) == [
        Message("a", "two words", b"a", 1, "receipt of a"),
        Message("c", "two words", b"c", 1, "receipt of c"),
    ]
    (letter,) = queue.dead_letters()
    assert (letter.id, letter.group, letter.body, letter.receives) == ("b", "two words", b"b", 2)


def test_requests_are_counted_as_they_are_billed(sqs: Service) -> None:
    """SQS bills each started 64 KB of bodies as one request."""
    queue = queue_on(sqs, ForwardingClock(sqs.time))
    check_billed_requests(queue)
