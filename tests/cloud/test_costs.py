"""The costs of a cold open, an append and a roll-over in DynamoDB's units, by DynamoDB's published rules.

Each test runs on the emulator, and on an index in memory with a meter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from stratalog.backends.billed_units import read_units
from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.backends.metered_ports import MeteredIndex
from stratalog.clock import SystemClock
from stratalog.keys import entries_partition
from stratalog.log import Environment, Event, LogSettings
from stratalog.log.tasks import InlineTasks
from stratalog.ports.index import item_bytes
from stratalog.ports.meter import Meter
from stratalog.store import Store
from stratalog.testing.clock import ManualClock
from tests.cloud.helpers import dynamo_index

NAME = HEAD = SNAPSHOT = 1


Counted = DynamoIndex | MeteredIndex


@pytest.fixture(params=["dynamodb", "memory"])
def index(request: pytest.FixtureRequest) -> Iterator[Counted]:
    if request.param == "memory":
        yield MeteredIndex(MemoryIndex(), Meter())
        return
    made = dynamo_index(request.getfixturevalue("aws"))
    yield made
    made.close()


@pytest.fixture
def store(index: Counted) -> Store:
    clock = SystemClock()
    settings = LogSettings(segment_entries_target=20, snapshot_entries_interval=1000)
    return Store(Environment(index, MemoryBlobs(clock), clock, settings, background=InlineTasks()), MemoryQueue(clock))


def opened_cold(store: Store) -> Store:
    """Open the store again as a new process would, with an empty cache of chunks."""
    shared = store.environment
    return Store(Environment(shared.index, shared.blobs, shared.clock, shared.settings), store.queue)


def units(index: Counted, act: Callable[[], object]) -> tuple[float, float]:
    """Return the read units and write units that ``act`` uses."""
    before = index.meter.total("read units"), index.meter.total("write units")
    act()
    return index.meter.total("read units") - before[0], index.meter.total("write units") - before[1]


@pytest.mark.parametrize(("tail", "tail_units_min"), [(1, 1), (14, 3)])
def test_a_cold_open_costs_units_for_name_head_snapshot_and_each_4_kb_of_the_tail(
    index: Counted, store: Store, tail: int, tail_units_min: int
) -> None:
    """The open costs 1 unit each for the name, the head and the snapshot's record, and ⌈tail / 4 KB⌉ for the tail."""
    document = store.create("acme", "budget")
    document.mutate("put", {"key": "first", "value": 0})
    document.snapshot()
    for n in range(tail):
        document.mutate("put", {"key": f"items/{n}", "value": Random(n).randbytes(700)})
    prefix = document.log.record.prefix
    items = list(index.query(entries_partition(prefix, 1), after=f"{1:016d}"))
    tail_units = read_units(sum(map(item_bytes, items)), consistent=True)
    assert tail_units >= tail_units_min
    cold = opened_cold(store)
    assert units(index, lambda: cold.document("acme", "budget").state()) == (NAME + HEAD + SNAPSHOT + tail_units, 0)
    assert len(items) == tail


def test_opening_a_document_whose_snapshot_is_its_head_reads_no_tail(index: Counted, store: Store) -> None:
    document = store.create("acme", "budget")
    document.mutate("put", {"key": "first", "value": 0})
    document.snapshot()
    cold = opened_cold(store)
    assert units(index, lambda: cold.document("acme", "budget").state()) == (NAME + HEAD + SNAPSHOT, 0)


def test_the_first_append_of_a_process_costs_two_read_units_and_one_write_unit(index: Counted, store: Store) -> None:
    store.create_log("acme", "plan").append(Event("step", 1))
    assert units(index, lambda: store.log("acme", "plan").append(Event("step", 2))) == (NAME + HEAD, 1)


def test_a_roll_over_costs_7_write_units_and_1_read_unit_more_than_an_append(index: Counted, store: Store) -> None:
    """One transaction writes seal, segment, name and entry at 2 units each, which is 7 units more than an append.

    Before the transaction the log reads the name, for 1 read unit. The entries of a segment share these 7
    write units and 1 read unit. With 20 entries, as here, each entry costs 0.35 write units and 0.05 read units more.
    With 10,000 entries, the default, the numbers are 0.0007 and 0.0001.
    """
    log = store.create_log("acme", "plan")
    log.append(Event("step", 0))
    steps = [units(index, lambda: log.append(Event("step", 0))) for _ in range(40)]
    assert steps == ([(0, 1)] * 19 + [(NAME, 8)]) * 2


def test_a_roll_over_of_a_document_with_a_snapshot_costs_another_read_unit(index: Counted, store: Store) -> None:
    """If the segment has a snapshot, a roll-over costs 2 read units and 7 write units more than a commit."""
    document = store.create("acme", "budget")
    costs = []
    for n in range(21):
        costs.append(units(index, lambda n=n: document.mutate("put", {"key": f"{n}", "value": n})))  # type: ignore[misc]
        if n == 5:
            document.snapshot()
    assert costs[1:] == [(0, 1)] * 19 + [(NAME + SNAPSHOT, 8)]


def test_commits_to_a_document_that_a_rival_changes_waste_only_the_first_put(index: Counted) -> None:
    """From the second commit on, a commit reads the head and the tail at 1 unit each, and wastes no put."""
    clock = ManualClock()
    store = Store(Environment(index, MemoryBlobs(clock), clock), MemoryQueue(clock))
    document = store.create("acme", "budget")
    document.mutate("put", {"key": "first", "value": 0})
    rival = Store(store.environment, store.queue).document("acme", "budget")
    wasted = []
    for n in range(4):
        rival.mutate("put", {"key": f"rival/{n}", "value": n})
        before = index.meter.total("wasted write units")
        clock.sleep(1)
        document.mutate("put", {"key": f"own/{n}", "value": n})
        wasted.append(index.meter.total("wasted write units") - before)
    assert wasted == [1, 0, 0, 0]
    assert len(list(document.scan())) == 9
