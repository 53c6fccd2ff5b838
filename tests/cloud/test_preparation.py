"""The preparation waits for a new bucket and for new queues. `test_dynamodb_setup.py` tests the wait for a table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from botocore.exceptions import ClientError

from stratalog.backends.s3_versions import prepare_bucket
from stratalog.backends.service_request import READY_SECONDS_MAX
from stratalog.backends.sqs_setup import FIRST_USE_SECONDS, prepare_queues
from stratalog.errors import Unavailable
from stratalog.testing.clock import ManualClock

QUEUES = ["plans.fifo", "plans-dead.fifo"]


def refuse(status: int, code: str) -> NoReturn:
    raise ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "a request")


class SlowQueues:
    """A client of SQS that finds a queue some seconds after its creation.

    For ``blocked_seconds`` it refuses to create a queue, as SQS does after the deletion of a queue of the same name.
    """

    def __init__(self, clock: ManualClock, blocked_seconds: float = 0, hidden_seconds: float = 0) -> None:
        self._clock = clock
        self._free_ms = clock.boot_ms() + blocked_seconds * 1000
        self._hidden_ms = hidden_seconds * 1000
        self.made_ms: dict[str, int] = {}

    def create_queue(self, **given: Any) -> dict[str, str]:
        if self._clock.boot_ms() < self._free_ms:
            refuse(400, "AWS.SimpleQueueService.QueueDeletedRecently")
        self.made_ms.setdefault(given["QueueName"], self._clock.boot_ms())
        return {"QueueUrl": given["QueueName"]}

    def get_queue_url(self, **given: Any) -> dict[str, str]:
        made_ms = self.made_ms.get(given["QueueName"])
        if made_ms is None or self._clock.boot_ms() < made_ms + self._hidden_ms:
            refuse(400, "AWS.SimpleQueueService.NonExistentQueue")
        return {"QueueUrl": given["QueueName"]}


class SlowBuckets:
    """A client of S3 that finds a bucket some seconds after its creation."""

    def __init__(self, clock: ManualClock, hidden_seconds: float) -> None:
        self.meta = SimpleNamespace(region_name="eu-west-1")
        self._clock = clock
        self._hidden_ms = hidden_seconds * 1000
        self.made_ms: int | None = None
        self.status = ""

    def create_bucket(self, **given: Any) -> None:
        if self.made_ms is not None:
            refuse(409, "BucketAlreadyOwnedByYou")
        self.made_ms = self._clock.boot_ms()

    def get_bucket_versioning(self, **given: Any) -> dict[str, str]:
        self._find()
        return {"Status": self.status} if self.status else {}

    def put_bucket_lifecycle_configuration(self, **given: Any) -> None:
        self._find()

    def put_bucket_versioning(self, **given: Any) -> None:
        self._find()
        self.status = "Enabled"

    def _find(self) -> None:
        if self.made_ms is None or self._clock.boot_ms() < self.made_ms + self._hidden_ms:
            refuse(404, "NoSuchBucket")


@pytest.mark.parametrize("hidden_seconds", [0, 3])
def test_the_preparation_of_a_queue_takes_at_least_a_second_and_waits_until_sqs_finds_the_queue(
    hidden_seconds: float,
) -> None:
    clock = ManualClock()
    client = SlowQueues(clock, hidden_seconds=hidden_seconds)
    assert prepare_queues(client, "plans", clock) == QUEUES
    seconds = (clock.boot_ms() - max(client.made_ms.values())) / 1000
    assert seconds >= max(hidden_seconds, FIRST_USE_SECONDS)


def test_existing_queues_are_not_waited_for() -> None:
    clock = ManualClock()
    client = SlowQueues(clock)
    prepare_queues(client, "plans", clock)
    before_ms = clock.boot_ms()
    assert prepare_queues(client, "plans", clock) == []
    assert clock.boot_ms() == before_ms


def test_a_queue_whose_name_was_deleted_recently_is_created_when_the_name_is_free() -> None:
    clock = ManualClock()
    assert prepare_queues(SlowQueues(clock, blocked_seconds=60), "plans", clock) == QUEUES


def test_queues_whose_names_stay_blocked_are_unavailable() -> None:
    clock = ManualClock()
    with pytest.raises(Unavailable, match="the queue is not ready yet"):
        prepare_queues(SlowQueues(clock, blocked_seconds=2 * READY_SECONDS_MAX), "plans", clock)


@pytest.mark.parametrize("hidden_seconds", [0, 3])
def test_a_new_bucket_is_configured_after_s3_finds_it(hidden_seconds: float) -> None:
    clock = ManualClock()
    client = SlowBuckets(clock, hidden_seconds)
    assert prepare_bucket(client, "plans", clock)
    assert client.status == "Enabled"
    assert not prepare_bucket(client, "plans", clock)


def test_a_bucket_that_is_never_found_is_unavailable() -> None:
    clock = ManualClock()
    with pytest.raises(Unavailable, match="the bucket is not ready yet"):
        prepare_bucket(SlowBuckets(clock, 2 * READY_SECONDS_MAX), "plans", clock)


def test_a_bucket_that_s3_denies_may_belong_to_another_account() -> None:
    class TheirBuckets(SlowBuckets):
        def get_bucket_versioning(self, **given: Any) -> NoReturn:
            refuse(403, "AccessDenied")

    with pytest.raises(Unavailable, match=r"another AWS account may own the bucket.* \?bucket="):
        prepare_bucket(TheirBuckets(ManualClock(), 0), "plans", ManualClock())
