"""Pushes through SQS to DynamoDB and an object store: claim checks, order, poison messages and dead letters."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from stratalog.clock import SystemClock
from stratalog.documents import Document, Rules
from stratalog.log import Environment
from stratalog.protocol import BUILT_IN_MUTATORS, Draft, Mutation
from stratalog.protocol.sync import Push
from stratalog.store import Store
from stratalog.testing.emulators import Emulator
from stratalog.worker.dead_letters import list_letters, redrive
from stratalog.worker.queued_pushes import QueuedPushes
from stratalog.worker.worker import Worker
from tests.cloud.helpers import dynamo_index
from tests.cloud.seaweed import VERSIONED, blobs_in
from tests.cloud.sqs_service import ForwardingClock, Service, queue_on

LARGE = random.Random(0).randbytes(1_500_000).hex()


class Killed(BaseException):
    """A mutator raises this exception to simulate a kill of the worker's process."""


def kill(draft: Draft, args: Any) -> None:
    raise Killed


@pytest.fixture
def store(aws: Emulator, bucket: Emulator, sqs: Service) -> Iterator[Store]:
    clock = ForwardingClock(sqs.time)
    # The object store uses the machine's clock, so the blobs use this clock too. Everything else uses the test's clock.
    environment = Environment(dynamo_index(aws), blobs_in(VERSIONED, bucket, clock=SystemClock()), clock)
    with Store(environment, queue_on(sqs, clock), Rules({**BUILT_IN_MUTATORS, "kill": kill})) as opened:
        yield opened


def push(store: Store, document: Document, *mutations: Mutation) -> None:
    assert QueuedPushes(store).push(document, Push("g", list(mutations), document.origin), "").queued


def put(id: int, value: str) -> Mutation:
    return Mutation(client="c", id=id, name="put", args={"key": f"notes/{id}", "value": value})


def work(store: Store) -> None:
    """Run 80 workers one after another. A worker runs until the queue returns no message, or until `Killed` ends it."""
    for _ in range(80):
        worker = Worker(store)
        try:
            while worker.step():
                pass
        except Killed:
            pass
        store.environment.clock.sleep(31)


def test_small_and_large_pushes_are_applied_in_order_and_leave_no_claim_check(store: Store) -> None:
    document = store.create("acme", "plan")
    push(store, document, put(1, "small"))
    push(store, document, put(2, LARGE))
    push(store, document, put(3, "small"))
    claims = [stat.key for stat in store.environment.blobs.list("acme/queue/")]
    assert len(claims) == 1
    work(store)
    assert [document.get(f"notes/{id}") for id in (1, 2, 3)] == ["small", LARGE, "small"]
    assert list(store.environment.blobs.list("acme/queue/")) == []
    assert store.queue.receive() == []


def test_a_push_that_is_too_large_for_its_queue_is_queued_by_its_claim_check(store: Store, sqs: Service) -> None:
    """Queues of SQS accepted 256 KB until 2025, and keep this limit."""
    document = store.create("acme", "plan")
    queue: Any = store.queue
    sqs.client.set_queue_attributes(QueueUrl=queue._url, Attributes={"MaximumMessageSize": str(256 * 1024)})
    value = LARGE[:500_000]
    push(store, document, put(1, value))
    assert len(list(store.environment.blobs.list("acme/queue/"))) == 1
    work(store)
    assert document.get("notes/1") == value


def test_a_mutation_that_kills_each_worker_is_rejected_and_later_mutations_are_applied(store: Store) -> None:
    document = store.create("acme", "plan")
    push(store, document, Mutation(client="c", id=1, name="kill"), put(2, "after"))
    work(store)
    assert document.get("notes/2") == "after"
    (letter,) = list_letters(store)
    assert (letter.client, letter.mutation) == ("c", 1)


def test_a_message_that_is_never_acknowledged_becomes_a_dead_letter_that_can_be_redriven(store: Store) -> None:
    document = store.create("acme", "plan")
    push(store, document, put(1, "late"))
    for _ in range(10):
        (message,) = store.queue.receive(visibility_seconds=30)
        store.environment.clock.sleep(30)
    assert store.queue.receive() == []
    (letter,) = list_letters(store)
    assert (letter.id, letter.document, letter.receives) == (message.id, "plan", 10)
    assert [outcome.status for outcome in redrive(store, letter.id)] == ["applied"]
    assert document.get("notes/1") == "late"
