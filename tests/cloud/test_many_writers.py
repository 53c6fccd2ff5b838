"""Sixty-four writers of one log on DynamoDB: no writer fails, no entry is lost, and few puts are wasted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from stratalog.backends.boto import aws_client
from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.memory import MemoryBlobs, MemoryQueue
from stratalog.backends.service_request import RequestPolicy
from stratalog.backends.sqs import SqsQueue
from stratalog.backends.sqs_setup import create_queues
from stratalog.clock import Observation, SystemClock, new_id
from stratalog.log import Environment
from stratalog.protocol import Mutation
from stratalog.protocol.sync import Push
from stratalog.store import Store
from stratalog.testing.emulators import Emulator
from stratalog.worker.queued_pushes import QueuedPushes
from stratalog.worker.worker import Worker
from tests.cloud.helpers import dynamo_client, dynamo_index
from tests.cloud.seaweed import session
from tests.cloud.writers import SECONDS_MAX, compete
from tests.threads import join_all, run_together, start_all

PROCESSES = THREADS = 8
WRITERS = PROCESSES * THREADS
APPENDS = 4
COMMITS = WRITERS * APPENDS
WASTED_BEHIND_QUEUE_MAX = 0.05
WORKERS = 2


@pytest.fixture
def index(dynamo: Emulator) -> Iterator[DynamoIndex]:
    made = dynamo_index(dynamo)
    yield made
    made.close()


def test_64_writers_in_8_processes_lose_nothing_and_none_runs_out_of_time(
    dynamo: Emulator, index: DynamoIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    """The numbers are only printed. A writer that gets no core wastes more puts: it tries with an outdated head.

    `tests/log/test_contention.py` limits the wasted puts in simulated time.
    """
    clock = SystemClock()
    log = Store(Environment(index, MemoryBlobs(clock), clock), MemoryQueue(clock)).create_log("acme", "plan")
    reports = compete(dynamo, index.table, processes=PROCESSES, threads=THREADS, appends=APPENDS)

    assert [error for report in reports for error in report.failed] == []
    acknowledged = sorted(append for report in reports for append in report.acknowledged)
    assert acknowledged == [(entry.version, entry.write_id) for entry in log.read()]
    assert [version for version, _ in acknowledged] == list(range(1, COMMITS + 1))
    wasted = sum(report.wasted for report in reports) / COMMITS
    reads = sum(report.read for report in reports) / COMMITS
    slowest = max(report.slowest_seconds for report in reports)
    rate = COMMITS / max(report.seconds for report in reports)
    with capsys.disabled():
        print(
            f" [{wasted:.2f} puts wasted and {reads:.2f} reads a commit, {rate:.0f}/s, slowest {slowest:.1f} s]", end=""
        )


def test_behind_the_queue_64_writers_waste_less_than_one_put_in_twenty(
    aws: Emulator, dynamo: Emulator, index: DynamoIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two workers share the queue. A document's pushes are one message group, which one worker at a time receives."""
    clock, client = SystemClock(), aws_client("sqs", session(), aws.url, RequestPolicy())
    blobs, urls = MemoryBlobs(clock), create_queues(client, new_id(SystemClock()))

    def store(index: DynamoIndex) -> Store:
        return Store(Environment(index, blobs, clock), SqsQueue(client, *urls, clock))

    document = store(index).create("acme", "plan")
    backlog = QueuedPushes(store(index))
    indexes = [DynamoIndex(dynamo_client(dynamo), index.table) for _ in range(WORKERS)]
    workers = [Worker(store(own)) for own in indexes]

    def write(writer: int) -> None:
        for id in range(1, APPENDS + 1):
            mutation = Mutation(client=f"c{writer}", id=id, name="put", args={"key": f"{writer}/{id}", "value": id})
            assert backlog.push(document, Push(f"g{writer}", [mutation], document.origin)).queued

    working = start_all(worker.run for worker in workers)
    run_together(partial(write, writer) for writer in range(WRITERS))
    begun = Observation(clock)
    while sum(worker.counts["applied"] for worker in workers) < COMMITS and begun.age_seconds() < SECONDS_MAX:
        clock.sleep(0.02)
    for worker in workers:
        worker.stop()
    join_all(working)

    expected = {f"{writer}/{id}": id for writer in range(WRITERS) for id in range(1, APPENDS + 1)}
    assert dict(document.scan()) == expected
    assert [entry.version for entry in document.log.read()] == list(range(1, document.version + 1))
    wasted = sum(own.meter.total("wasted write units") for own in indexes) / COMMITS
    with capsys.disabled():
        print(f" [{wasted:.3f} puts wasted a commit]", end="")
    assert wasted < WASTED_BEHIND_QUEUE_MAX
    for own in indexes:
        own.close()
