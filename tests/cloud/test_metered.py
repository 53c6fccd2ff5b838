"""For the same workload, the meter of an in-memory port and the meter of a service's backend count the same units.

The emulator reports the right consumed capacity for writes of up to 1 KB. For larger writes the emulator always reports
one unit. The emulator ignores the size of an overwritten or deleted item, and returns a query in one page. In these
cases the backends' counts follow only the published rules.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from stratalog.backends import dynamodb
from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.backends.metered_ports import MeteredBlobs, MeteredIndex, MeteredQueue
from stratalog.codec import sha256
from stratalog.errors import ConditionFailed
from stratalog.log import Environment, LogSettings
from stratalog.log.tasks import InlineTasks
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Absent, Check, Condition, Delete, Equals, Index, Item, Put, Write
from stratalog.ports.meter import Meter
from stratalog.ports.queue import Queue
from stratalog.store import Store
from stratalog.testing.clock import ManualClock
from stratalog.testing.emulators import Emulator
from tests.cloud.helpers import dynamo_index
from tests.cloud.seaweed import VERSIONED, blobs_in
from tests.cloud.sqs_service import ForwardingClock, Service, queue_on

SMALL = 900
LARGE = 30_000


@pytest.fixture
def index(aws: Emulator) -> Iterator[DynamoIndex]:
    made = dynamo_index(aws)
    made._client.meter = Meter()  # do not count the creation of the table
    yield made
    made.close()


@pytest.fixture
def metered() -> MeteredIndex:
    return MeteredIndex(MemoryIndex(), Meter())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_random_workload_counts_the_same_units_on_both_meters(
    index: DynamoIndex, metered: MeteredIndex, size: int, seed: int
) -> None:
    assert play(index, seed, size) == play(metered, seed, size)
    assert index.meter.read() == metered.meter.read()
    assert metered.meter.total("wasted write units") > 0


def test_the_counted_write_units_equal_the_consumed_capacity_that_dynamodb_reports(
    index: DynamoIndex, metered: MeteredIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DynamoDB reports no units for a failed condition, since the response is an error."""
    reported: list[float] = []
    ask = dynamodb._reported_units
    monkeypatch.setattr(dynamodb, "_reported_units", lambda written: reported.append(ask(written)) or reported[-1])
    play(index, 7, SMALL)
    play(metered, 7, SMALL)
    assert sum(reported) == metered.meter.total("write units") - metered.meter.total("wasted write units")
    assert len(reported) > 30


def test_the_life_of_a_document_counts_the_same_units_on_both_meters(index: DynamoIndex, metered: MeteredIndex) -> None:
    """The workload has a creation, commits, a roll-over, a snapshot, a fork, an archive and a record."""
    sums = []
    for each in (index, metered):
        clock = ManualClock()
        settings = LogSettings(segment_entries_target=20, snapshot_entries_interval=10)
        # The version of a snapshot in the background would depend on the timing.
        environment = Environment(each, MemoryBlobs(clock), clock, settings, background=InlineTasks())
        live(Store(environment, MemoryQueue(clock)))
        sums.append(each.meter.read())
    assert sums[0] == sums[1]


@pytest.mark.parametrize("retains_freed", [False, True])
def test_blobs_count_the_same_requests_and_bytes(bucket: Emulator, retains_freed: bool) -> None:
    ours = MeteredBlobs(MemoryBlobs(ManualClock()), Meter(), retains_freed=retains_freed)
    theirs = blobs_in(VERSIONED, bucket, retains_freed=retains_freed)
    for blobs in (ours, theirs):
        store_blobs(blobs)
    assert ours.meter.read() == theirs.meter.read()


def test_the_queue_counts_the_same_requests(sqs: Service) -> None:
    ours, theirs = MeteredQueue(MemoryQueue(ManualClock()), Meter()), queue_on(sqs, ForwardingClock(sqs.time))
    for queue in (ours, theirs):
        pass_messages(queue)
    assert ours.meter.read() == theirs.meter.read()


def play(index: Index, seed: int, size: int) -> list[object]:
    """Run a hundred commits, each followed by a get and a query.

    An item only grows, and a delete finds no item. The emulator miscounts other cases (see the module's docstring).
    """
    chance = random.Random(seed)
    answers: list[object] = []
    for step in range(100):
        writes = [write(chance, step, position, size) for position in range(chance.choice([1, 1, 1, 2, 5]))]
        try:
            index.commit(writes)
        except ConditionFailed as exc:
            answers.append(dict(exc.items))
        sort, consistent = f"{chance.randrange(8):03d}", chance.random() < 0.5
        answers.append(index.get("p0", sort, consistent=consistent))
        limit = chance.choice([None, 1, 3])
        answers.append(list(index.query(f"p{chance.randrange(3)}", after=sort, limit=limit, consistent=consistent)))
    return answers


def write(chance: random.Random, step: int, position: int, size: int) -> Write:
    sort = f"{chance.randrange(8):03d}"
    condition: Condition | None = chance.choice([None, Absent(), Equals("n", step - 1)])
    kind = chance.randrange(6)
    if kind == 0:
        return Delete(f"d{position}", sort, None if isinstance(condition, Absent) else condition)
    if kind == 1:
        return Check(f"d{position}", sort, Absent())
    body = bytes(size * (step + 1) // 100 + chance.randrange(9))
    return Put(Item(f"p{position}", sort, {"b": body, "n": step, "t": "né"}), condition)


def live(store: Store) -> None:
    document = store.create("acme", "plan")
    for number in range(50):
        document.mutate("put", {"key": f"items/{number % 12:02d}", "value": {"title": f"title {number}"}})
    document.mutate("put", {"key": "items/large", "value": {"text": "x" * 5000}})
    document.archive()
    fork = document.fork("other", at=30)
    fork.mutate("put", {"key": "items/00", "value": {"title": "forked"}})
    again = Store(store.environment, store.queue)
    assert again.document("acme", "plan").get("items/11") == {"title": "title 47"}
    assert len(list(again.document("acme", "plan").history("items/00"))) == 5
    records = again.records("acme")
    records.put("contract", b"first")
    records.put("contract", b"second" * 10_000)
    assert [line.id for line in again.list("acme")] == ["other", "plan"]


def store_blobs(blobs: Blobs) -> None:
    bodies = [b"some text %d " % number * 100 for number in range(4)]
    keys = [f"metered/{number}/{sha256(body).hex()}" for number, body in enumerate(bodies)]
    for key, body in zip(keys, bodies, strict=True):
        blobs.put(key, body)
    for key in keys[:2]:
        blobs.get(key)
    stats = list(blobs.list("metered/"))
    assert [stat.key for stat in stats] == sorted(keys)
    stat = blobs.stat(keys[0])
    assert stat is not None
    assert blobs.delete(keys[0], stat.stamp)


def pass_messages(queue: Queue) -> None:
    queue.send("g", [b"small"] * 10)
    queue.send("h", [b"", bytes(100_000)])
    while given := queue.receive():
        queue.release(given[0], after_seconds=60)
        assert all(queue.acknowledge(message) for message in given)
