"""The template: no linter objects to it, it is wired as the code relies on, and a stack of it serves clients."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator

import pytest

from stratalog.client import Client, HttpTransport
from stratalog.errors import Forbidden
from stratalog.sync.pull import LOST_BRANCH
from stratalog.testing.emulators import program
from tests.aws.template import TEMPLATE, TOKENS, Stack, deployed_stack, resources

POKE_SECONDS_MAX = 20


def test_no_linter_objects_to_the_template() -> None:
    lint = subprocess.run([program("cfn-lint"), str(TEMPLATE)], capture_output=True, text=True, check=False)
    assert (lint.returncode, lint.stdout) == (0, "")


def test_a_message_stays_hidden_for_six_times_what_the_processor_may_take() -> None:
    seconds = resources("AWS::SQS::Queue")["Queue"]["VisibilityTimeout"]
    assert seconds >= 6 * resources("AWS::Lambda::Function")["Processor"]["Timeout"]


def test_the_queue_hands_over_batches_that_may_fail_in_part() -> None:
    (source,) = resources("AWS::Lambda::EventSourceMapping").values()
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert 1 <= source["BatchSize"] <= 10


def test_an_answer_comes_before_the_gateway_gives_up() -> None:
    integration = resources("AWS::ApiGatewayV2::Integration")["HttpIntegration"]
    assert resources("AWS::Lambda::Function")["Api"]["Timeout"] * 1000 < integration["TimeoutInMillis"] <= 30_000


def test_both_queues_are_fifo_and_move_nothing_aside_by_themselves() -> None:
    for queue in resources("AWS::SQS::Queue").values():
        assert queue["FifoQueue"] is True
        assert "RedrivePolicy" not in queue


def test_the_bucket_keeps_versions_encrypts_and_is_closed_to_the_public() -> None:
    (bucket,) = resources("AWS::S3::Bucket").values()
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert "BucketEncryption" in bucket
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}


def test_the_table_is_paid_by_request_and_can_be_put_back_to_any_moment() -> None:
    (table,) = resources("AWS::DynamoDB::Table").values()
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_the_alarm_of_lost_branches_counts_what_is_logged() -> None:
    (counted,) = resources("AWS::Logs::MetricFilter").values()
    assert LOST_BRANCH in counted["FilterPattern"]


def test_whatever_fails_has_an_alarm() -> None:
    alarms = resources("AWS::CloudWatch::Alarm").values()
    watched = {(one["MetricName"], one["Dimensions"][0]["Value"].get("Ref")) for one in alarms if "Dimensions" in one}
    assert "LostBranchCookies" in {one["MetricName"] for one in alarms}
    assert {("Errors", name) for name in resources("AWS::Lambda::Function")} <= watched
    metrics = {metric for metric, _ in watched}
    assert {"ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesVisible", "Throttles"} <= metrics


@pytest.fixture(scope="module", params=["", "all"])
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that applies pushes at once, and one that queues them; only the endpoints are this machine's."""
    with deployed_stack(tmp_path_factory.mktemp("stack"), Queued=request.param) as stack:
        for name in ("Api", "Processor", "Sockets"):
            stack.configure(name, STRATALOG_SOCKETS=stack.stage_url("SocketsApi", "live"))
        yield stack


def transport(stack: Stack, name: str) -> HttpTransport:
    url = stack.stage_url("HttpApi", "$default") + "/v1/organisations/acme/documents/plan"
    return HttpTransport(url, token=lambda: TOKENS[name], create=True)


def test_two_clients_of_a_deployed_stack_agree_and_are_told_of_each_other(stack: Stack) -> None:
    source, told = stack.source(), threading.Event()
    with Client(transport(stack, "ann")) as ann, Client(listening := transport(stack, "bob")) as bob:
        ann.sync()
        bob.sync()
        stop = listening.listen(told.set)
        assert told.wait(POKE_SECONDS_MAX), "the connection is not ready"
        told.clear()
        ann.mutate("put", {"key": "notes/1", "value": "by ann"})
        ann.sync()
        source.poll()
        assert told.wait(POKE_SECONDS_MAX), "no poke came"
        stop()
        bob.mutate("append", {"key": "list", "item": "by bob"})
        bob.sync()
        source.poll()
        for client in (ann, bob):
            client.sync()
        assert dict(ann.scan()) == dict(bob.scan()) == {"notes/1": "by ann", "list": ["by bob"]}
        assert ann.pending() == bob.pending() == []


def test_nobody_without_a_token_gets_past_a_deployed_stack(stack: Stack) -> None:
    url = stack.stage_url("HttpApi", "$default") + "/v1/organisations/acme/documents/plan"
    with Client(HttpTransport(url)) as stranger, pytest.raises(Forbidden):
        stranger.sync()


def test_maintenance_of_a_deployed_stack_comes_to_its_end(stack: Stack) -> None:
    assert stack.invoke("Maintenance", {"source": "aws.events"})["is_finished"] is True
