"""The fixture `world` of the records' tests, on each kind of backend.

The backends are in memory, in SQLite with a folder, in PostgreSQL, or on emulators of DynamoDB and S3. On the
emulators, the tests of a module share a table and a prefix of the bucket. Each test uses its own organisation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.files import FileBlobs
from stratalog.backends.sqlite import SqliteDatabase
from stratalog.clock import Clock, SystemClock, new_id
from stratalog.homes import open_ports
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index
from tests.cloud.helpers import dynamo_client, dynamo_index
from tests.cloud.seaweed import VERSIONED, blobs_in
from tests.records.helpers import DatedBlobs, Ends, World, in_memory

numbers = itertools.count()


@pytest.fixture
def world(ends: Ends) -> Iterator[World]:
    """A `World` with its own organisation. The test runs once on each kind of backend."""
    made = World(ends=ends, organisation=f"acme{next(numbers)}")
    yield made
    made.close()


@pytest.fixture(params=["memory", "sqlite", "postgres", "aws"])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Ends:
    """The function that opens the backends of a test."""
    if request.param == "memory":
        return in_memory()
    if request.param == "sqlite":
        return lambda clock: _local(tmp_path, clock)
    if request.param == "postgres":
        url = request.getfixturevalue("postgres")
        return lambda clock: _postgres(url, clock)
    opened: Ends = request.getfixturevalue("aws_ends")
    return opened


@pytest.fixture(scope="module")
def aws_ends(request: pytest.FixtureRequest) -> Ends:
    """The function that opens the module's table and its prefix of the bucket."""
    tables, objects = map(request.getfixturevalue, ("dynamo", "bucket"))
    made = dynamo_index(tables)
    made.close()
    prefix, put_ms = new_id(SystemClock()), dict[str, int]()

    def open_ends(clock: Clock) -> tuple[Index, Blobs]:
        blobs = blobs_in(VERSIONED, objects, prefix)
        return DynamoIndex(dynamo_client(tables), made.table), DatedBlobs(blobs, clock, put_ms)

    return open_ends


def _postgres(url: str, clock: Clock) -> tuple[Index, Blobs]:
    ports = open_ports(url, True, clock, None)
    return ports.index, ports.blobs


def _local(folder: Path, clock: Clock) -> tuple[Index, Blobs]:
    database = SqliteDatabase(folder / "index.sqlite", clock)
    return database.index, database.blobs(FileBlobs(folder / "blobs", clock))
