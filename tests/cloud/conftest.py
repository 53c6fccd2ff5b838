"""The emulators that tests share: one of each in a process of the test run, started when the first test asks."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from stratalog.backends.s3_versions import create_bucket
from stratalog.clock import SystemClock, new_id
from stratalog.testing.aws_local import aws_environment
from stratalog.testing.emulators import Emulator, ministack, seaweed
from tests.cloud.choice import account_prefix, chosen_dynamo, remove_bucket, remove_queues, remove_table
from tests.cloud.seaweed import PLAIN, VERSIONED, client
from tests.cloud.sqs_service import Service, running

numbers = itertools.count()


@pytest.fixture
def aws_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a store that nobody has made yet; the environment leads to the emulators, as it would to AWS."""
    prefix = account_prefix(os.environ)
    if prefix:
        name = f"{prefix}-{new_id(SystemClock())}"
        yield f"aws://{name}"
        for remove in (remove_table, remove_bucket, remove_queues):
            remove(name)
        return
    services, objects, dynamo = map(request.getfixturevalue, ("aws", "bucket", "dynamo"))
    for name, value in aws_environment(services, objects, dynamo).items():
        monkeypatch.setenv(name, value)
    yield f"aws://store-{next(numbers)}"


@pytest.fixture(scope="session")
def dynamo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """DynamoDB: ministack's, or the user's own copy of Amazon's."""
    folder = tmp_path_factory.mktemp("dynamo")
    with chosen_dynamo(os.environ, request.getfixturevalue("aws"), folder) as emulator:
        yield emulator


@pytest.fixture(scope="session")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """DynamoDB and SQS."""
    with ministack(tmp_path_factory.mktemp("ministack")) as emulator:
        yield emulator


@pytest.fixture(scope="session")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """An object store with one bucket that keeps versions and one that does not."""
    with seaweed(tmp_path_factory.mktemp("seaweed")) as emulator:
        create_bucket(client(emulator), VERSIONED)
        client(emulator).create_bucket(Bucket=PLAIN)
        yield emulator


@pytest.fixture(scope="session")
def sqs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """SQS that goes by a test's clock."""
    with running(tmp_path_factory.mktemp("sqs")) as service:
        yield service
