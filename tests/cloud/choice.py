"""Chooses the services for the tests: emulators, or the user's AWS account if an environment variable asks for it.

With `STRATALOG_DYNAMODB_LOCAL=FOLDER` the tests use the copy of DynamoDB Local in that folder and not ministack's
DynamoDB. With `STRATALOG_TEST_AWS=PREFIX` the tests run in the AWS account whose credentials boto3 finds, for example
in AWS's environment variables. The command `make test-aws PREFIX=…` sets `STRATALOG_TEST_AWS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError

from stratalog.testing.emulators import Emulator, dynamodb_local

__all__ = ["ACCOUNT", "LOCAL", "account_prefix", "chosen_dynamo", "remove_bucket", "remove_queues", "remove_table"]

LOCAL = "STRATALOG_DYNAMODB_LOCAL"
ACCOUNT = "STRATALOG_TEST_AWS"
# Each resource name contains the prefix, so this length keeps the names within the limits of all services.
PREFIX = re.compile(r"[a-z0-9][a-z0-9-]{2,30}")


def account_prefix(environment: Mapping[str, str]) -> str:
    """Return the name prefix of all resources that tests create in an account. The prefix is empty for emulators."""
    prefix = environment.get(ACCOUNT, "")
    if prefix and not PREFIX.fullmatch(prefix):
        rule = "must be 3 to 31 lower-case letters, digits and hyphens, and begin with no hyphen"
        raise ValueError(f"{ACCOUNT} {rule}, not {prefix!r}")
    if prefix and boto3.Session().get_credentials() is None:
        raise ValueError(f"{ACCOUNT} is set, but no AWS credentials are found")
    return prefix


@contextmanager
def chosen_dynamo(environment: Mapping[str, str], other: Emulator, folder: Path) -> Iterator[Emulator]:
    """Run DynamoDB Local if the environment names a copy of it. Otherwise yield ``other``."""
    home = environment.get(LOCAL)
    if not home:
        yield other
        return
    with dynamodb_local(Path(home), folder) as emulator:
        yield emulator


def remove_table(name: str) -> None:
    with suppress_missing("ResourceNotFoundException"):
        boto3.client("dynamodb").delete_table(TableName=name)


def remove_bucket(name: str) -> None:
    """Delete the bucket and every object version in it."""
    with suppress_missing("NoSuchBucket"):
        bucket = boto3.resource("s3").Bucket(name)
        bucket.object_versions.delete()
        bucket.delete()


def remove_queues(name: str) -> None:
    client: Any = boto3.client("sqs")
    for full_name in (f"{name}.fifo", f"{name}-dead.fifo"):
        with suppress_missing("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"):
            client.delete_queue(QueueUrl=client.get_queue_url(QueueName=full_name)["QueueUrl"])


@contextmanager
def suppress_missing(*codes: str) -> Iterator[None]:
    try:
        yield
    except ClientError as exc:
        if exc.response["Error"]["Code"] not in codes:
            raise
