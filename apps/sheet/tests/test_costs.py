"""The cost of an edit in capacity units, by DynamoDB's published rules, on the emulator and in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apps.sheet.tests.helpers import put, revision
from stratalog import Store
from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.backends.metered_ports import MeteredIndex
from stratalog.clock import SystemClock
from stratalog.log import Environment
from stratalog.ports.meter import Meter
from stratalog_sheet import EnginePool, Sheets
from tests.cloud.helpers import dynamo_index


@pytest.fixture(params=["dynamodb", "memory"])
def counted(request: pytest.FixtureRequest) -> Iterator[tuple[Store, Meter]]:
    clock = SystemClock()
    if request.param == "memory":
        meter = Meter()
        yield (
            Store(Environment(MeteredIndex(MemoryIndex(), meter), MemoryBlobs(clock), clock), MemoryQueue(clock)),
            meter,
        )
        return
    index = dynamo_index(request.getfixturevalue("aws"))
    yield Store(Environment(index, MemoryBlobs(clock), clock), MemoryQueue(clock)), index.meter
    index.close()


def test_a_cell_that_a_browser_sets_costs_one_write_unit_and_no_read(
    counted: tuple[Store, Meter], engines: EnginePool
) -> None:
    store, meter = counted
    sheet = Sheets(store, engines).create("acme", "plan")
    sheet.append(revision(sheet, put(0, 0, "1")), author="ann")
    message = revision(sheet, put(1, 1, "100"))
    reads, writes = meter.total("read units"), meter.total("write units")
    sheet.append(message, author="ann")
    assert (meter.total("read units") - reads, meter.total("write units") - writes) == (0, 1)


def test_a_cell_that_a_program_sets_costs_a_read_unit_and_a_write_unit(
    counted: tuple[Store, Meter], engines: EnginePool
) -> None:
    store, meter = counted
    sheet = Sheets(store, engines).create("acme", "plan")
    sheet.set("A1", "1")
    reads, writes = meter.total("read units"), meter.total("write units")
    sheet.set("C3", "=B2*2", author="bob")
    assert (meter.total("read units") - reads, meter.total("write units") - writes) == (1, 1)
