"""The index on DynamoDB passes the contract tests of every index, with and without `HostedTurns`."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.hosted_turns import HostedTurns
from stratalog.backends.memory import MemoryBlobs
from stratalog.clock import Observation, SystemClock
from stratalog.keys import MARK_SORT, waiting_partition
from stratalog.log import Environment, Event, create_log
from stratalog.ports.index import Item, Put
from stratalog.testing.emulators import Emulator
from stratalog.testing.index_contract import IndexContract
from tests.cloud.choice import account_prefix, remove_table
from tests.cloud.helpers import account_index, dynamo_index


@pytest.mark.slow
class TestDynamoIndex(IndexContract):
    @pytest.fixture(autouse=True)
    def _emulator(self, request: pytest.FixtureRequest) -> Iterator[None]:
        self.prefix = account_prefix(os.environ)
        self.dynamo = None if self.prefix else request.getfixturevalue("dynamo")
        self.made: list[DynamoIndex] = []
        yield
        for index in self.made:
            index.close()
            if self.prefix:
                remove_table(index.table)

    def make(self) -> DynamoIndex:
        self.made.append(dynamo_index(self.dynamo) if self.dynamo else account_index(self.prefix))
        return self.made[-1]


@pytest.mark.slow
class TestHostedTurns(TestDynamoIndex):
    """The index with turns, as a store on AWS uses it."""

    def make(self) -> HostedTurns:  # type: ignore[override]
        return HostedTurns(super().make(), SystemClock())


@pytest.mark.slow
def test_a_busy_writer_stops_once_for_a_waiter_that_wrote_the_mark(dynamo: Emulator) -> None:
    """On DynamoDB a busy writer reads the mark, and then, while it is stopped, polls the key of its append."""
    index, clock = dynamo_index(dynamo), SystemClock()
    turns = HostedTurns(index, clock)
    log = create_log(Environment(turns, MemoryBlobs(clock), clock), "acme", "plan")
    mark = Item(waiting_partition(log.record.prefix), MARK_SORT, {"i": "of a waiter"})
    index.commit([Put(mark)])
    begun = Observation(clock)
    traffic = turns._traffic_of(log.record.prefix)
    while begun.age_seconds() < 20 and not traffic.stop:
        log.append(Event("step", 1))
    assert traffic.known == ("of a waiter",)
    log.append(Event("step", 1))
    assert not traffic.stop
    assert index.get(mark.partition, mark.sort) == mark
    turns.close()
