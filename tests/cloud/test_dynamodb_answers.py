"""The DynamoDB index handles errors, lost replies and damaged replies. Each test defines the replies."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.dynamodb_client import DynamoRetryPolicy
from stratalog.backends.dynamodb_http import ANSWER_SECONDS_MAX, Reply
from stratalog.errors import (
    ConditionFailed,
    Corrupt,
    Invalid,
    LimitExceeded,
    OutcomeUnknown,
    StratalogError,
    Unavailable,
)
from stratalog.limits import ITEM_BYTES_MAX
from stratalog.ports.index import Absent, Check, Delete, Equals, Item, Put
from stratalog.testing.clock import ManualClock
from tests.cloud.canned import cancelled, canned_index, damaged, done, refused, truncated

ITEM = Item("p", "s", {"n": 1})
STORED = {"P": {"S": "p"}, "S": {"S": "s"}, "n": {"N": "1"}}
PUT = [Put(ITEM, Absent())]
BOTH = [Put(ITEM, Absent()), Put(Item("p", "t", {}))]
STORED_ANSWER = done({"Item": STORED})
THROTTLE = refused("ProvisionedThroughputExceededException")
CONFLICT = refused("TransactionConflictException")
LOST = OutcomeUnknown("the response of the service was lost")
POLICY = DynamoRetryPolicy()
UNSENT = Unavailable("the endpoint cannot be reached")
FAILED = refused("InternalServerError", status=500)
MET = {"Code": "ConditionalCheckFailed", "Item": STORED}

READ_AGAIN = {
    "throttled": THROTTLE,
    "throttled otherwise": refused("ThrottlingException"),
    "lost": LOST,
    "unsent": UNSENT,
    "failed": FAILED,
    "unavailable": refused("ServiceUnavailable", status=503),
    "truncated": truncated(STORED_ANSWER),
    "damaged": damaged(STORED_ANSWER),
    "no JSON": Reply(200, {}, b"<html>"),
}
WRITE_UNKNOWN = {name: READ_AGAIN[name] for name in ("lost", "failed", "unavailable", "truncated", "damaged")}
WRITE_AGAIN = {"throttled": THROTTLE, "conflict": CONFLICT, "unsent": UNSENT}
TRANSACTION_AGAIN = {
    **READ_AGAIN,
    "conflict": cancelled("None", "TransactionConflict"),
    "throttled by reason": cancelled("ThrottlingError", "None"),
    "throughput": cancelled("None", "ProvisionedThroughputExceeded"),
    "in progress": refused("TransactionInProgressException"),
    "conflict beside a condition": cancelled(MET, "TransactionConflict"),
    "throttled beside a condition": cancelled(MET, "ThrottlingError"),
}


def each(cases: dict[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("reply", cases.values(), ids=cases)


@each(READ_AGAIN)
def test_a_read_is_retried_after_each_transient_error(reply: Reply | Exception) -> None:
    index, endpoint = canned_index(reply, reply, STORED_ANSWER)
    assert index.get("p", "s") == ITEM
    assert len(endpoint.sent) == 3


@each(READ_AGAIN)
def test_a_read_that_always_fails_ends_as_unavailable(reply: Reply | Exception) -> None:
    index, endpoint = canned_index(reply)
    with pytest.raises(Unavailable):
        index.get("p", "s")
    assert 5 < len(endpoint.sent) < 100


def test_a_read_whose_reply_did_not_come_in_time_is_retried() -> None:
    clock = ManualClock()
    index, endpoint = canned_index(LOST, STORED_ANSWER, clock=clock)
    exchange = endpoint.exchange

    def slow_exchange(request: bytes) -> Reply:
        clock.sleep(0 if endpoint.sent else ANSWER_SECONDS_MAX)
        return exchange(request)

    endpoint.exchange = slow_exchange  # type: ignore[method-assign]
    assert index.get("p", "s") == ITEM


@each(WRITE_AGAIN)
def test_a_write_that_certainly_had_no_effect_is_retried(reply: Reply | Exception) -> None:
    index, endpoint = canned_index(reply, reply, done())
    index.commit(PUT)
    assert len(endpoint.sent) == 3


@each(WRITE_AGAIN)
def test_a_write_that_is_always_refused_ends_as_unavailable(reply: Reply | Exception) -> None:
    index, endpoint = canned_index(reply)
    with pytest.raises(Unavailable):
        index.commit(PUT)
    assert 5 < len(endpoint.sent) < 100


@each(WRITE_UNKNOWN)
@pytest.mark.parametrize("write", [Put(ITEM, Absent()), Put(ITEM), Delete("p", "s")], ids=["put if", "put", "delete"])
def test_a_write_without_a_valid_reply_is_outcome_unknown_and_not_retried(
    write: Put | Delete, reply: Reply | Exception
) -> None:
    index, endpoint = canned_index(reply, done())
    with pytest.raises(OutcomeUnknown):
        index.commit([write])
    assert len(endpoint.sent) == 1


@each(TRANSACTION_AGAIN)
def test_a_transaction_is_retried_with_the_same_token(reply: Reply | Exception) -> None:
    index, endpoint = canned_index(reply, reply, done())
    index.commit(BOTH)
    tokens = [request["ClientRequestToken"] for _, request in endpoint.sent]
    assert len(tokens) == 3
    assert len(set(tokens)) == 1


def test_two_transactions_have_two_tokens() -> None:
    index, endpoint = canned_index(done())
    index.commit(BOTH)
    index.commit(BOTH)
    assert len({request["ClientRequestToken"] for _, request in endpoint.sent}) == 2


@each({"lost": LOST, "failed": FAILED, "damaged": damaged(done())})
def test_a_transaction_that_never_gets_a_valid_reply_is_outcome_unknown(reply: Reply | Exception) -> None:
    index, _ = canned_index(reply)
    with pytest.raises(OutcomeUnknown):
        index.commit(BOTH)


@each({"conflict": cancelled("None", "TransactionConflict"), "throttled": THROTTLE, "unsent": UNSENT})
def test_a_transaction_that_is_always_refused_ends_as_unavailable(reply: Reply | Exception) -> None:
    index, _ = canned_index(reply)
    with pytest.raises(Unavailable):
        index.commit(BOTH)


@each({"condition": cancelled(MET, "None"), "conflict": cancelled("TransactionConflict", "None"), "throttle": THROTTLE})
def test_a_refusal_after_a_lost_attempt_is_outcome_unknown(reply: Reply) -> None:
    index, _ = canned_index(LOST, reply)
    with pytest.raises(OutcomeUnknown):
        index.commit(BOTH)


def test_a_failed_condition_reports_the_existing_item_and_is_not_retried() -> None:
    index, endpoint = canned_index(refused("ConditionalCheckFailedException", Item=STORED))
    with pytest.raises(ConditionFailed) as raised:
        index.commit(PUT)
    assert raised.value.items == {0: ITEM}
    assert len(endpoint.sent) == 1


def test_a_failed_condition_on_a_missing_item_reports_none() -> None:
    index, _ = canned_index(refused("ConditionalCheckFailedException"))
    with pytest.raises(ConditionFailed) as raised:
        index.commit([Delete("p", "s", Equals("n", 1))])
    assert raised.value.items == {0: None}


def test_each_failed_condition_of_a_transaction_reports_the_existing_item() -> None:
    index, _ = canned_index(cancelled("None", MET, {"Code": "ConditionalCheckFailed"}))
    with pytest.raises(ConditionFailed) as raised:
        index.commit([*BOTH, Check("p", "u", Equals("n", 1))])
    assert raised.value.items == {1: ITEM, 2: None}


def test_retries_of_a_throttled_write_end_by_the_clock_and_are_counted() -> None:
    clock = ManualClock()
    index, endpoint = canned_index(THROTTLE, clock=clock)
    seconds = seconds_until_unavailable(index, clock)
    assert POLICY.throttled_seconds_max <= seconds <= POLICY.throttled_seconds_max + POLICY.wait_seconds_max
    assert index.meter.read()["PutItem", "throttled"] == len(endpoint.sent)


def test_conflicts_do_not_use_up_the_time_for_throttling() -> None:
    clock = ManualClock()
    index, _ = canned_index(*[THROTTLE, CONFLICT] * 100, clock=clock)
    seconds = seconds_until_unavailable(index, clock)
    assert seconds > POLICY.conflicts_seconds_max + POLICY.wait_seconds_max


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (refused("ResourceNotFoundException", message="Requested resource not found"), Unavailable),
        (refused("AccessDeniedException"), Unavailable),
        (refused("UnrecognizedClientException"), Unavailable),
        (refused("ValidationException", message="Item size has exceeded the maximum allowed size"), LimitExceeded),
        (refused("ValidationException", message="Invalid attribute value type"), Invalid),
        (cancelled({"Code": "ValidationError", "Message": "Type mismatch"}, "None"), Invalid),
        (
            cancelled("None", {"Code": "ValidationError", "Message": "Item size has exceeded …"}),
            LimitExceeded,
        ),
    ],
)
def test_a_permanent_refusal_raises_its_error_without_a_retry(reply: Reply, kind: type[StratalogError]) -> None:
    index, endpoint = canned_index(reply)
    with pytest.raises(kind):
        index.commit(BOTH)
    assert len(endpoint.sent) == 1


def test_a_commit_over_a_bound_is_never_sent() -> None:
    index, endpoint = canned_index(done())
    with pytest.raises(LimitExceeded):
        index.commit([Put(Item("p", "s", {"b": bytes(ITEM_BYTES_MAX)}))])
    assert endpoint.sent == []


@pytest.mark.parametrize("attributes", [{"P": "x"}, {"S": "x"}, {"n": 2**70}, {"n": True}], ids=repr)
def test_an_attribute_that_the_port_forbids_is_never_sent(attributes: Any) -> None:
    index, endpoint = canned_index(done())
    with pytest.raises(Invalid):
        index.commit([Put(Item("p", "s", attributes))])
    assert endpoint.sent == []


@pytest.mark.parametrize("value", [{"L": []}, {"N": "1.5"}, {"S": 1}, {"B": "!"}, {}], ids=repr)
def test_an_item_with_an_unreadable_attribute_is_corrupt(value: Any) -> None:
    index, _ = canned_index(done({"Item": {**STORED, "x": value}}))
    with pytest.raises(Corrupt):
        index.get("p", "s")


def test_an_item_without_a_sort_key_is_corrupt() -> None:
    index, _ = canned_index(done({"Items": [{"P": {"S": "p"}, "n": {"N": "1"}}]}))
    with pytest.raises(Corrupt):
        list(index.query("p"))


def test_a_query_continues_after_empty_pages_and_requests_each_page_lazily() -> None:
    empty = done({"Items": [], "LastEvaluatedKey": {"P": {"S": "p"}, "S": {"S": "r"}}})
    first = done({"Items": [STORED], "LastEvaluatedKey": {"P": {"S": "p"}, "S": {"S": "s"}}})
    last = done({"Items": [{"P": {"S": "p"}, "S": {"S": "t"}}]})
    index, endpoint = canned_index(empty, first, empty, last)
    items = index.query("p")
    assert endpoint.sent == []
    assert next(items) == ITEM
    assert len(endpoint.sent) == 2
    assert [item.sort for item in items] == ["t"]
    starts = [request.get("ExclusiveStartKey", {}).get("S") for _, request in endpoint.sent]
    assert starts == [None, {"S": "r"}, {"S": "s"}, {"S": "r"}]


def test_a_query_requests_only_the_rest_of_its_limit_with_each_page() -> None:
    page = done({"Items": [STORED], "LastEvaluatedKey": {"P": {"S": "p"}, "S": {"S": "s"}}})
    index, endpoint = canned_index(page)
    assert len(list(index.query("p", limit=3))) == 3
    assert [request["Limit"] for _, request in endpoint.sent] == [3, 2, 1]


@pytest.mark.parametrize("consistent", [True, False])
def test_a_read_passes_its_consistency_to_dynamodb(consistent: bool) -> None:
    index, endpoint = canned_index(done({"Items": []}))
    index.get("p", "s", consistent=consistent)
    list(index.query("p", consistent=consistent))
    assert [request["ConsistentRead"] for _, request in endpoint.sent] == [consistent, consistent]


def test_a_commit_with_only_a_check_is_sent_as_a_get() -> None:
    index, endpoint = canned_index(STORED_ANSWER)
    index.commit([Check("p", "s", Equals("n", 1))])
    with pytest.raises(ConditionFailed):
        index.commit([Check("p", "s", Absent())])
    assert [operation for operation, _ in endpoint.sent] == ["GetItem", "GetItem"]


def test_a_commit_with_only_a_put_is_sent_as_a_put_that_requests_the_existing_item() -> None:
    index, endpoint = canned_index(done())
    index.commit(PUT)
    assert endpoint.sent == [
        (
            "PutItem",
            {
                "TableName": "table",
                "Item": STORED,
                "ConditionExpression": "attribute_not_exists(P)",
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                "ReturnConsumedCapacity": "TOTAL",
            },
        )
    ]


def test_the_meter_counts_the_units_that_the_service_reports_for_a_write() -> None:
    index, _ = canned_index(done({"ConsumedCapacity": {"TableName": "table", "CapacityUnits": 7.0}}))
    index.commit(PUT)
    assert index.meter.total("write units") == 7
    assert index.meter.total("wasted write units") == 0


def test_a_failed_condition_is_counted_by_the_larger_item_and_as_wasted() -> None:
    large = {**STORED, "b": {"B": msgspec.to_builtins(bytes(3000))}}
    index, _ = canned_index(refused("ConditionalCheckFailedException", Item=large))
    with pytest.raises(ConditionFailed):
        index.commit(PUT)
    assert index.meter.total("write units") == index.meter.total("wasted write units") == 3


def test_reads_are_counted_by_the_size_of_the_returned_items() -> None:
    large = {**STORED, "b": {"B": msgspec.to_builtins(bytes(5000))}}
    index, _ = canned_index(done({"Item": large}), done({"Items": [large, large]}), done({"Items": []}))
    index.get("p", "s")
    list(index.query("p"))
    list(index.query("p", consistent=False))
    assert index.meter.read()["GetItem", "read units"] == 2
    assert index.meter.read()["Query", "read units"] == 3 + 0.5


def seconds_until_unavailable(index: DynamoIndex, clock: ManualClock) -> float:
    begun = clock.boot_ms()
    with pytest.raises(Unavailable):
        index.commit(PUT)
    return (clock.boot_ms() - begun) / 1000


@pytest.mark.parametrize("value", [-(2**63), 2**64 - 1])
def test_the_largest_integers_of_64_bits_read_back(value: int) -> None:
    index, _ = canned_index(done({"Item": {**STORED, "n": {"N": str(value)}}}))
    assert index.get("p", "s") == Item("p", "s", {"n": value})
