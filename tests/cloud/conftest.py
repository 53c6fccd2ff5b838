"""The emulators that tests share: one of each in a process of the test run, started when the first test asks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from stratalog.backends.s3_versions import create_bucket
from stratalog.testing.aws_local import aws_environment
from stratalog.testing.emulators import Emulator, ministack, seaweed
from tests.cloud.seaweed import PLAIN, VERSIONED, client
from tests.cloud.sqs_service import Service, running

numbers = itertools.count()


@pytest.fixture
def aws_store(aws: Emulator, bucket: Emulator, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a store that nobody has made yet; the environment leads to the emulators, as it would to AWS."""
    for name, value in aws_environment(aws, bucket).items():
        monkeypatch.setenv(name, value)
    return f"aws://store-{next(numbers)}"


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
