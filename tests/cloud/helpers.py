"""Helpers of the tests of the cloud backends: indexes on the emulators or on AWS, and a check of billed requests."""

from __future__ import annotations

import itertools

import msgspec

from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.dynamodb_client import DynamoClient
from stratalog.backends.dynamodb_http import Endpoint
from stratalog.backends.dynamodb_setup import create_table, open_client
from stratalog.backends.metered_ports import MeteredQueue
from stratalog.backends.sqs import SqsQueue
from stratalog.clock import SystemClock, new_id
from stratalog.testing.emulators import Emulator

numbers = itertools.count()


class GivenCredentials(msgspec.Struct, frozen=True):
    """Credentials that an emulator accepts."""

    access_key: str = "test"
    secret_key: str = "testsecret"
    token: str | None = None


def dynamo_client(emulator: Emulator) -> DynamoClient:
    """Return a DynamoDB client of the emulator."""
    return DynamoClient(Endpoint(emulator.url), "us-east-1", GivenCredentials, SystemClock())


def account_index(prefix: str) -> DynamoIndex:
    """Return an index in a new table, in the account that AWS's own environment variables name."""
    client = open_client(SystemClock())
    table = f"{prefix}-{new_id(SystemClock())}"
    create_table(client, table)
    return DynamoIndex(client, table)


def dynamo_index(emulator: Emulator) -> DynamoIndex:
    """Return an index in a new table of the emulator."""
    client = dynamo_client(emulator)
    table = f"index-{next(numbers)}"
    create_table(client, table)
    return DynamoIndex(client, table)


def check_billed_requests(queue: SqsQueue | MeteredQueue) -> None:
    """Check that a queue counts one billed request for each started 64 KB of a request, and one for a small batch.

    SQS counts bodies in base64: the large body of 150,000 bytes counts as 200,000 bytes, which start four times 64 KB.
    """
    queue.send("g", [b"small"] * 10)
    given = queue.receive()
    queue.send("h", [bytes(150_000)])
    (large,) = queue.receive()
    assert queue.acknowledge(large)
    assert queue.release(given[0])
    billed = {name: amount for (name, unit), amount in queue.meter.read().items() if unit == "billed requests"}
    assert billed == {
        "SendMessageBatch": 1 + 4,
        "ReceiveMessage": 1 + 4,
        "DeleteMessage": 1,
        "ChangeMessageVisibility": 1,
    }
