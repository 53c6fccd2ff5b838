"""Writers of a log succeed although `RoughEndpoint` throttles, loses and damages requests to DynamoDB."""

from __future__ import annotations

from functools import partial

import pytest

from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.dynamodb_client import DynamoClient, DynamoRetryPolicy
from stratalog.backends.dynamodb_setup import create_table
from stratalog.backends.memory import MemoryBlobs, MemoryQueue
from stratalog.clock import SystemClock
from stratalog.log import Environment, Event, LogSettings
from stratalog.log.tasks import InlineTasks
from stratalog.store import Store
from stratalog.testing.emulators import Emulator
from tests.cloud.helpers import GivenCredentials, dynamo_client
from tests.cloud.rough import FAULTS, RoughEndpoint
from tests.threads import run_together

WRITERS = 4
APPENDS = 30


@pytest.mark.parametrize("seed", range(3))
def test_each_append_is_stored_once_at_the_version_that_its_writer_got(aws: Emulator, seed: int) -> None:
    """Each writer has its own store. Segments roll over during the test, so the faults also hit transactions."""
    line = RoughEndpoint(aws.url, seed)
    policy = DynamoRetryPolicy(wait_seconds_first=0.001, wait_seconds_max=0.01)
    client = DynamoClient(line, "us-east-1", GivenCredentials, SystemClock(), retry_policy=policy)
    index = DynamoIndex(client, f"rough-{seed}")
    create_table(client, index.table)
    _store(index).create_log("acme", "plan")
    acknowledged: list[tuple[int, str]] = []

    def write(writer: int) -> None:
        mine = _store(index).log("acme", "plan")
        for n in range(APPENDS):
            acknowledged.append((mine.append(Event("step", n), write_id=f"{writer}-{n}").version, f"{writer}-{n}"))

    run_together(partial(write, writer) for writer in range(WRITERS))
    line.wait()
    client.close()
    calm = DynamoIndex(dynamo_client(aws), index.table)
    stored = [(entry.version, entry.write_id) for entry in _store(calm).log("acme", "plan").read()]
    calm.close()
    assert sorted(acknowledged) == stored
    assert [version for version, _ in stored] == list(range(1, WRITERS * APPENDS + 1))
    assert set(line.met) == {*FAULTS, "none"}


def _store(index: DynamoIndex) -> Store:
    clock = SystemClock()
    settings = LogSettings(segment_entries_target=15, append_seconds_max=30)
    return Store(Environment(index, MemoryBlobs(clock), clock, settings, background=InlineTasks()), MemoryQueue(clock))
