"""The template passes the linter, has the settings that the code needs, and deploys as a stack that serves clients."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from bench.cost_tables import FUNCTION_SETTINGS
from stratalog.backends.s3_versions import EXPIRY, FREED, FREED_EXPIRY, RECOVERY_DAYS
from stratalog.client import Client, HttpTransport
from stratalog.documents.rejections import LAST_ATTEMPT, UNEXPECTED
from stratalog.errors import Forbidden
from stratalog.limits import QUEUE_RECEIVES_MAX
from stratalog.log import LogSettings
from stratalog.records.failures import DEAD_RECORD
from stratalog.settings import parse_settings
from stratalog.sync.pull import LOST_BRANCH
from stratalog.testing.emulators import program
from tests.aws.template import TEMPLATE, TOKENS, Stack, deployed_stack, parameters, resources

POKE_SECONDS_MAX = 120


def test_no_linter_objects_to_the_template() -> None:
    lint = subprocess.run([program("cfn-lint"), str(TEMPLATE)], capture_output=True, text=True, check=False)
    assert (lint.returncode, lint.stdout) == (0, "")


def test_the_visibility_timeout_is_six_times_the_processor_s_timeout_or_longer() -> None:
    seconds = resources("AWS::SQS::Queue")["Queue"]["VisibilityTimeout"]
    assert seconds >= 6 * resources("AWS::Lambda::Function")["Processor"]["Timeout"]


def test_the_queue_s_event_source_allows_partial_batch_failures() -> None:
    (source,) = resources("AWS::Lambda::EventSourceMapping").values()
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert 1 <= source["BatchSize"] <= 10


def test_the_function_s_timeout_is_shorter_than_the_gateway_s_timeout() -> None:
    integration = resources("AWS::ApiGatewayV2::Integration")["HttpIntegration"]
    assert resources("AWS::Lambda::Function")["Api"]["Timeout"] * 1000 < integration["TimeoutInMillis"] <= 30_000


def test_the_queues_of_pushes_are_fifo() -> None:
    queues = resources("AWS::SQS::Queue")
    assert {name for name, queue in queues.items() if queue.get("FifoQueue")} == {"Queue", "DeadLetters", "Undelivered"}


def test_the_queue_moves_unprocessed_messages_to_a_separate_queue_before_they_expire() -> None:
    """The processor moves a message to `DeadLetters` after too many receives.

    The queue itself moves a message to `Undelivered` only after five times as many receives, or more.
    """
    queues = resources("AWS::SQS::Queue")
    redrive = queues["Queue"]["RedrivePolicy"]
    assert redrive["deadLetterTargetArn"] == {"Fn::GetAtt": ["Undelivered", "Arn"]}
    assert redrive["maxReceiveCount"] >= 5 * QUEUE_RECEIVES_MAX
    assert redrive["maxReceiveCount"] * queues["Queue"]["VisibilityTimeout"] < queues["Queue"]["MessageRetentionPeriod"]
    assert [name for name, queue in queues.items() if "RedrivePolicy" in queue] == ["Queue"]


def test_a_failed_call_of_maintenance_is_sent_to_a_queue() -> None:
    failed = {"Fn::GetAtt": ["FailedCalls", "Arn"]}
    (invoked,) = resources("AWS::Lambda::EventInvokeConfig").values()
    assert invoked["DestinationConfig"]["OnFailure"]["Destination"] == failed
    (rule,) = resources("AWS::Events::Rule").values()
    assert [target["DeadLetterConfig"]["Arn"] for target in rule["Targets"]] == [failed]
    statements = resources("AWS::SQS::QueuePolicy")["FailedCallsPolicy"]["PolicyDocument"]["Statement"]
    assert {"Service": "events.amazonaws.com"} in [statement["Principal"] for statement in statements]


def test_every_push_is_queued_by_default() -> None:
    assert parameters()["Queued"]["Default"] == "all"


def test_every_function_is_given_the_settings() -> None:
    functions = resources("AWS::Lambda::Function").values()
    given = [function["Environment"]["Variables"].get("STRATALOG_SETTINGS") for function in functions]
    assert given == [{"Ref": "Settings"}] * 4
    assert parse_settings(str(parameters()["Settings"]["Default"])).over("log", LogSettings()) == FUNCTION_SETTINGS


def test_the_bucket_keeps_versions_encrypts_and_is_closed_to_the_public() -> None:
    (bucket,) = resources("AWS::S3::Bucket").values()
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert "BucketEncryption" in bucket
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}


def test_the_table_is_paid_per_request_and_has_point_in_time_recovery() -> None:
    (table,) = resources("AWS::DynamoDB::Table").values()
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["PointInTimeRecoverySpecification"] == {
        "PointInTimeRecoveryEnabled": True,
        "RecoveryPeriodInDays": 35,
    }


def test_deleted_blobs_are_retained_longer_than_the_table_s_recovery_period() -> None:
    """The bucket keeps replaced versions. The template configures maintenance to keep a copy of each deleted blob."""
    [table], [bucket] = resources("AWS::DynamoDB::Table").values(), resources("AWS::S3::Bucket").values()
    reach = table["PointInTimeRecoverySpecification"]["RecoveryPeriodInDays"]
    rests, freed = bucket["LifecycleConfiguration"]["Rules"]
    assert rests["NoncurrentVersionExpiration"]["NoncurrentDays"] > reach
    assert (freed["Prefix"], freed["Status"]) == (FREED, "Enabled")
    assert freed["ExpirationInDays"] == RECOVERY_DAYS > reach
    maintenance = resources("AWS::Lambda::Function")["Maintenance"]
    assert maintenance["Environment"]["Variables"]["STRATALOG_STORE"]["Fn::Sub"].endswith("&freed=retain")


def test_init_and_the_template_make_buckets_with_the_same_expiry() -> None:
    [bucket] = resources("AWS::S3::Bucket").values()
    rests, freed = bucket["LifecycleConfiguration"]["Rules"]
    for name in ("NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload"):
        assert EXPIRY[name] == rests[name]
    assert FREED_EXPIRY["Expiration"] == {"Days": freed["ExpirationInDays"]}


@pytest.mark.parametrize(
    ("reported", "metric", "logs"),
    [
        (LOST_BRANCH, "LostBranchCookies", {"ApiLog"}),
        (UNEXPECTED, "UnexpectedExceptions", {"ApiLog", "ProcessorLog", "MaintenanceLog"}),
        (LAST_ATTEMPT, "LastAttempts", {"ProcessorLog"}),
        (DEAD_RECORD, "DeadRecords", {"ApiLog", "MaintenanceLog"}),
    ],
)
def test_each_report_in_a_log_has_a_metric_and_an_alarm(reported: str, metric: str, logs: set[str]) -> None:
    filters = [
        resource
        for resource in resources("AWS::Logs::MetricFilter").values()
        if [metric] == [counted["MetricName"] for counted in resource["MetricTransformations"]]
    ]
    assert {resource["FilterPattern"] for resource in filters} == {f'"{reported}"'}
    assert {resource["LogGroupName"]["Ref"] for resource in filters} == logs
    namespaces = {
        counted["MetricNamespace"]["Fn::Sub"] for resource in filters for counted in resource["MetricTransformations"]
    }
    alarms = [resource for resource in resources("AWS::CloudWatch::Alarm").values() if resource["MetricName"] == metric]
    assert [
        (resource["Namespace"]["Fn::Sub"], resource["Threshold"], resource["Statistic"]) for resource in alarms
    ] == [(*namespaces, 0, "Sum")]
    assert "AlarmActions" in alarms[0]


def test_every_function_and_every_queue_of_failures_has_an_alarm() -> None:
    alarms = resources("AWS::CloudWatch::Alarm").values()
    watched = {(alarm["MetricName"], watched_by(alarm)) for alarm in alarms if "Dimensions" in alarm}
    assert {("Errors", name) for name in resources("AWS::Lambda::Function")} <= watched
    for queue in ("DeadLetters", "Undelivered", "FailedCalls"):
        assert ("ApproximateNumberOfMessagesVisible", queue) in watched
    assert {"ApproximateAgeOfOldestMessage", "Throttles"} <= {metric for metric, _ in watched}


def watched_by(alarm: dict[str, Any]) -> str:
    """Return the name of the resource that an alarm watches."""
    value = alarm["Dimensions"][0]["Value"]
    return str(value["Ref"] if "Ref" in value else value["Fn::GetAtt"][0])


@pytest.fixture(scope="module", params=["", "all"])
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that applies pushes immediately, and in a second run of the tests a stack that queues pushes.

    The fixture changes the WebSocket endpoint.
    """
    with deployed_stack(tmp_path_factory.mktemp("stack"), Queued=request.param) as stack:
        for name in ("Api", "Processor", "Sockets"):
            stack.configure(name, STRATALOG_SOCKETS=stack.stage_url("SocketsApi", "live"))
        yield stack


def transport(stack: Stack, name: str) -> HttpTransport:
    url = stack.stage_url("HttpApi", "$default") + "/v1/organisations/acme/documents/plan"
    return HttpTransport(url, token=lambda: TOKENS[name], create=True)


def test_two_clients_of_a_deployed_stack_converge_and_a_listening_client_gets_a_poke(stack: Stack) -> None:
    source, poked = stack.source(), threading.Event()
    with Client(transport(stack, "ann")) as ann, Client(listening := transport(stack, "bob")) as bob:
        ann.sync()
        bob.sync()
        stop = listening.listen(poked.set)
        assert poked.wait(POKE_SECONDS_MAX), "the connection is not ready"
        poked.clear()
        ann.mutate("put", {"key": "notes/1", "value": "by ann"})
        ann.sync()
        source.poll()
        assert poked.wait(POKE_SECONDS_MAX), "no poke came"
        stop()
        bob.mutate("append", {"key": "list", "item": "by bob"})
        bob.sync()
        source.poll()
        for client in (ann, bob):
            client.sync()
        assert dict(ann.scan()) == dict(bob.scan()) == {"notes/1": "by ann", "list": ["by bob"]}
        assert ann.pending() == bob.pending() == []


def test_a_deployed_stack_refuses_a_client_without_a_token(stack: Stack) -> None:
    url = stack.stage_url("HttpApi", "$default") + "/v1/organisations/acme/documents/plan"
    with Client(HttpTransport(url)) as stranger, pytest.raises(Forbidden):
        stranger.sync()


def test_a_call_of_maintenance_of_a_deployed_stack_finishes(stack: Stack) -> None:
    assert stack.invoke("Maintenance", {"source": "aws.events"})["is_finished"] is True
