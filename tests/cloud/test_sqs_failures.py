"""The queue handles failures of SQS. No emulator produces these failures, so the replies are canned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest

from stratalog.backends.boto import aws_client
from stratalog.backends.service_request import RequestPolicy
from stratalog.backends.sqs import SqsQueue
from stratalog.errors import OutcomeUnknown, StratalogError, Unavailable
from stratalog.limits import VISIBILITY_SECONDS_MAX
from stratalog.ports.queue import Message
from stratalog.testing.clock import ManualClock
from tests.cloud.failing import Failing, Reply, failing
from tests.cloud.seaweed import session

MESSAGE = Message("id", "g", b"body", 1, "receipt")
Make = Callable[..., tuple[SqsQueue, Failing, ManualClock]]


def answer(value: Any) -> Reply:
    return Reply(headers={"Content-Type": "application/x-amz-json-1.0"}, body=msgspec.json.encode(value))


def refused(code: str, status: int = 400) -> Reply:
    return Reply(
        status=status,
        headers={"Content-Type": "application/x-amz-json-1.0", "x-amzn-query-error": f"{code};Sender"},
        body=msgspec.json.encode({"__type": f"com.amazonaws.sqs#{code}", "message": "no"}),
    )


LOST = Reply(lost=True)
BUSY = refused("RequestThrottled")
BROKEN = refused("InternalFailure", 500)
FORBIDDEN = refused("AccessDeniedException", 403)
STALE = refused("ReceiptHandleIsInvalid")


@pytest.fixture
def make() -> Iterator[Make]:
    with ExitStack() as stack:

        def made(*replies: Reply | Callable[[bytes], Reply]) -> tuple[SqsQueue, Failing, ManualClock]:
            service = stack.enter_context(failing(replies))
            client = aws_client("sqs", session(), service.url, RequestPolicy())
            clock = ManualClock()
            urls = (f"{service.url}/1/queue.fifo", f"{service.url}/1/dead.fifo")
            return SqsQueue(client, *urls, clock, 2), service, clock

        yield made


def taking(*results: str) -> Callable[[bytes], Reply]:
    """Return a function that replies to a batch. ``results`` has an error code for each message, or "" for no error."""

    def reply(body: bytes) -> Reply:
        ids = [entry["Id"] for entry in msgspec.json.decode(body)["Entries"]]
        assert len(ids) == len(results)
        taken = [
            {"Id": id, "MessageId": "m", "MD5OfMessageBody": "m"}
            for id, code in zip(ids, results, strict=True)
            if not code
        ]
        failed = [
            {"Id": id, "Code": code, "SenderFault": code == "InvalidParameterValue"}
            for id, code in zip(ids, results, strict=True)
            if code
        ]
        return answer({"Successful": taken, "Failed": failed})

    return reply


def sent(service: Failing) -> list[list[tuple[str, str]]]:
    """Return the deduplication ids and bodies of each batch that was sent."""
    batches = [msgspec.json.decode(request.body)["Entries"] for request in service.requests]
    return [[(entry["MessageDeduplicationId"], entry["MessageBody"]) for entry in batch] for batch in batches]


def raised(call: Callable[[], object]) -> StratalogError | None:
    try:
        call()
    except StratalogError as exc:
        return exc
    return None


PAGE = Reply(headers={"Content-Type": "text/html"}, body=b"<html><body>welcome</body></html>")
"""A page that a proxy, or the login page of a network, sends with the status 200 in place of the service."""


@pytest.mark.parametrize(
    "first",
    [BUSY, BROKEN, LOST, PAGE, Reply(), answer({}), taking("ServiceUnavailable", "ServiceUnavailable")],
)
def test_a_send_that_failed_once_is_sent_again_under_the_same_ids(make: Make, first: Reply) -> None:
    queue, service, _ = make(first, taking("", ""))
    queue.send("g", [b"1", b"2"])
    before, after = sent(service)
    assert before == after
    assert len({id for id, _ in after}) == 2


def test_after_a_partial_failure_the_rest_is_sent_in_order(make: Make) -> None:
    queue, service, _ = make(taking("", "Throttled", "Throttled"), taking("", "InternalError"), taking(""))
    queue.send("g", [b"1", b"2", b"3"])
    first, second, third = sent(service)
    assert second == first[1:]
    assert third == first[2:]


def test_a_batch_accepted_out_of_order_is_outcome_unknown_and_not_resent(make: Make) -> None:
    queue, service, _ = make(taking("", "Throttled", ""))
    assert type(raised(lambda: queue.send("g", [b"1", b"2", b"3"]))) is OutcomeUnknown
    assert len(service.requests) == 1


OUTCOMES: list[tuple[Sequence[Any], type[StratalogError]]] = [
    ([BUSY], Unavailable),
    ([FORBIDDEN], Unavailable),
    ([taking("Throttled", "Throttled")], Unavailable),
    ([taking("InvalidParameterValue", "InvalidParameterValue")], Unavailable),
    ([LOST], OutcomeUnknown),
    ([BROKEN], OutcomeUnknown),
    ([PAGE], OutcomeUnknown),
    ([Reply()], OutcomeUnknown),
    ([LOST, BUSY], OutcomeUnknown),
    ([taking("", "InvalidParameterValue")], OutcomeUnknown),
    ([taking("", "Throttled"), BUSY], OutcomeUnknown),
    ([taking("InternalError", "InternalError"), FORBIDDEN], OutcomeUnknown),
]


@pytest.mark.parametrize(("replies", "kind"), OUTCOMES)
def test_a_failed_send_is_outcome_unknown_if_any_message_may_have_been_sent(
    make: Make, replies: Sequence[Any], kind: type[StratalogError]
) -> None:
    queue, _, _ = make(*replies)
    error = raised(lambda: queue.send("g", [b"1", b"2"]))
    assert isinstance(error, kind)


def test_a_send_that_is_always_throttled_ends_as_unavailable_within_12_seconds(make: Make) -> None:
    queue, service, clock = make(BUSY)
    begun = clock.boot_ms()
    assert isinstance(raised(lambda: queue.send("g", [b"1"])), Unavailable)
    assert 10_000 <= clock.boot_ms() - begun <= 12_000
    assert len(service.requests) <= 40


def test_a_receive_whose_answer_was_lost_asks_for_the_same_messages(make: Make) -> None:
    queue, service, _ = make(LOST, answer({}))
    assert queue.receive() == []
    first, second = (msgspec.json.decode(request.body)["ReceiveRequestAttemptId"] for request in service.requests)
    assert first == second
    queue.receive()
    assert msgspec.json.decode(service.requests[2].body)["ReceiveRequestAttemptId"] != first


@pytest.mark.parametrize("reply", [BUSY, BROKEN, LOST, FORBIDDEN])
def test_a_receive_that_fails_is_unavailable(make: Make, reply: Reply) -> None:
    queue, _, _ = make(reply)
    assert isinstance(raised(queue.receive), Unavailable)


@pytest.mark.parametrize("code", ["ReceiptHandleIsInvalid", "InvalidParameterValue", "MessageNotInflight"])
def test_settling_with_a_receipt_that_sqs_calls_stale_returns_false(make: Make, code: str) -> None:
    queue, _, _ = make(refused(code))
    assert not queue.acknowledge(MESSAGE)
    assert not queue.release(MESSAGE)


def test_settling_is_unavailable_if_sqs_refuses_for_another_reason_than_a_stale_receipt(make: Make) -> None:
    queue, _, _ = make(FORBIDDEN)
    refusal = raised(lambda: queue.acknowledge(MESSAGE))
    assert isinstance(refusal, Unavailable)
    assert refusal.message == "SQS refused DeleteMessage"
    assert isinstance(raised(lambda: queue.release(MESSAGE)), Unavailable)


def test_an_acknowledgement_whose_answer_was_lost_is_repeated(make: Make) -> None:
    queue, service, _ = make(LOST, answer({}))
    assert queue.acknowledge(MESSAGE)
    assert len(service.requests) == 2
    assert not queue.acknowledge(MESSAGE)
    assert len(service.requests) == 2


def test_a_stale_receipt_after_a_lost_response_is_outcome_unknown(make: Make) -> None:
    queue, _, _ = make(LOST, STALE)
    assert type(raised(lambda: queue.acknowledge(MESSAGE))) is OutcomeUnknown


def test_settling_after_the_visibility_timeout_returns_false_without_a_request(make: Make) -> None:
    queue, service, clock = make(received(1), answer({}))
    (message,) = queue.receive(visibility_seconds=30)
    clock.sleep(30)
    assert not queue.acknowledge(message)
    assert not queue.release(message, after_seconds=60)
    assert len(service.requests) == 1


def test_a_failed_move_to_the_dead_letters_is_repeated_later_under_the_same_id(make: Make) -> None:
    queue, service, _ = make(received(3), FORBIDDEN, received(4), taking(""), answer({}), answer({}))
    assert isinstance(raised(queue.receive), Unavailable)
    assert queue.receive() == []
    targets = [request.headers["X-Amz-Target"].partition(".")[2] for request in service.requests]
    assert targets == ["ReceiveMessage", "SendMessageBatch"] * 2 + ["DeleteMessage", "ReceiveMessage"]
    dead = [msgspec.json.decode(service.requests[position].body) for position in (1, 3)]
    assert [batch["Entries"][0]["MessageDeduplicationId"] for batch in dead] == ["id", "id"]
    assert all(batch["QueueUrl"].endswith("dead.fifo") for batch in dead)


def test_a_release_for_longer_than_sqs_allows_hides_the_message_for_as_long_as_possible(make: Make) -> None:
    queue, service, clock = make(received(1), answer({}), answer({}))
    (message,) = queue.receive(visibility_seconds=3600)
    clock.sleep(600)
    assert queue.release(message, after_seconds=2 * VISIBILITY_SECONDS_MAX)
    clock.sleep(600)
    assert queue.release(message, after_seconds=2 * VISIBILITY_SECONDS_MAX)
    hidden = [msgspec.json.decode(request.body)["VisibilityTimeout"] for request in service.requests[1:]]
    assert hidden == [VISIBILITY_SECONDS_MAX - 600, VISIBILITY_SECONDS_MAX - 1200]


def test_a_receive_whose_count_is_no_number_is_unavailable(make: Make) -> None:
    reply = received(1)
    queue, _, _ = make(Reply(headers=reply.headers, body=reply.body.replace(b'"1"', b'"one"')))
    assert isinstance(raised(queue.receive), Unavailable)


def received(receives: int) -> Reply:
    """Return the reply to a receive: one message with this receive count."""
    attributes = {"ApproximateReceiveCount": str(receives), "MessageDeduplicationId": "id", "MessageGroupId": "g"}
    message = {"MessageId": "m", "ReceiptHandle": f"r{receives}", "Body": "Ym9keQ==", "Attributes": attributes}
    return answer({"Messages": [message]})
