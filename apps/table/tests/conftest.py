"""Stores for the tests of tables. Each test of a transaction runs on every backend."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import stratalog
from apps.table.tests.helpers import LONG, memory_store, table_of
from stratalog import Store
from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.memory import MemoryBlobs, MemoryQueue
from stratalog.clock import SystemClock
from stratalog.log import Environment
from stratalog.testing.emulators import Emulator
from stratalog_table import Table
from tests.cloud.helpers import dynamo_index

names = itertools.count()


@pytest.fixture(scope="session")
def dynamo(aws: Emulator) -> Iterator[DynamoIndex]:
    """Yield one index for all tests. The tests use tables with different names."""
    index = dynamo_index(aws)
    yield index
    index.close()


@pytest.fixture(params=["memory", "sqlite", "postgres", "dynamodb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Yield a store. A test with this fixture runs once on each backend of the index."""
    if request.param == "memory":
        yield memory_store()
    elif request.param == "sqlite":
        with stratalog.open(tmp_path / "store") as opened:
            yield opened
    elif request.param == "postgres":
        with stratalog.open(request.getfixturevalue("postgres")) as opened:
            yield opened
    else:
        clock = SystemClock()
        index: DynamoIndex = request.getfixturevalue("dynamo")
        yield Store(Environment(index, MemoryBlobs(clock), clock), MemoryQueue(clock))


@pytest.fixture
def table(store: Store) -> Table:
    """Return a table with one partition. A test with this fixture runs once on each backend."""
    return table_of(store, f"events-{next(names)}", LONG)
