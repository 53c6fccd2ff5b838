"""The emulators that all tests of one process share. Each emulator starts for the first test that uses it.

A test creates tables, buckets and queues under its own names. Each fixture imports its libraries when the fixture
starts, so that tests without emulators do not wait for the imports.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from stratalog.testing.emulators import Emulator, ministack, seaweed
from tests.processes import watched

if TYPE_CHECKING:
    from stratalog.testing.postgres_server import PostgresServer
    from tests.cloud.sqs_service import Service

__all__ = ["aws", "bucket", "dynamo", "postgres", "postgres_process", "sqs"]

_numbers = itertools.count()


@pytest.fixture(scope="session")
def aws(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """The emulator ministack, for DynamoDB and SQS."""
    _require_full_run(request)
    with ministack(tmp_path_factory.mktemp("ministack")) as emulator, watched(emulator):
        yield emulator


@pytest.fixture(scope="session")
def dynamo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """DynamoDB: the emulator ministack, or the user's copy of DynamoDB Local (`tests/cloud/choice.py`)."""
    from tests.cloud.choice import chosen_dynamo

    folder = tmp_path_factory.mktemp("dynamo")
    with chosen_dynamo(os.environ, request.getfixturevalue("aws"), folder) as emulator:
        yield emulator


@pytest.fixture(scope="session")
def bucket(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """An object store with two buckets. One bucket has versioning, and the other bucket has none."""
    from stratalog.backends.s3_versions import create_bucket
    from tests.cloud.seaweed import PLAIN, VERSIONED, client

    _require_full_run(request)
    with seaweed(tmp_path_factory.mktemp("seaweed")) as emulator, watched(emulator):
        create_bucket(client(emulator), VERSIONED)
        client(emulator).create_bucket(Bucket=PLAIN)
        yield emulator


@pytest.fixture(scope="session")
def postgres_process(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A PostgreSQL server. The server does not sync its files, since its data need not survive a power cut."""
    from stratalog.testing.postgres_server import postgres_server

    _require_full_run(request)
    with postgres_server(["-c fsync=off"]) as server:
        yield server


@pytest.fixture
def postgres(postgres_process: PostgresServer) -> str:
    """The URL of a store in PostgreSQL that does not exist yet."""
    return f"{postgres_process.url}&schema=store_{next(_numbers)}"


@pytest.fixture(scope="session")
def sqs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """An SQS service that uses the test's clock."""
    from tests.cloud.sqs_service import running

    _require_full_run(request)
    with running(tmp_path_factory.mktemp("sqs")) as service:
        yield service


def _require_full_run(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("quick"):
        pytest.fail("a quick run starts no emulators: tests/selection.py must leave this test out")
