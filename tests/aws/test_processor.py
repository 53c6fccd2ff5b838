"""The processor applies SQS batches in order, despite partial failures, lost answers and calls with little time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from stratalog.aws.listeners import ANNOUNCE_SECONDS_MAX
from stratalog.aws.processor import END_SECONDS, Processor
from stratalog.clock import SystemClock
from stratalog.documents import Document, Rules
from stratalog.errors import Unavailable
from stratalog.log import Environment
from stratalog.ports.index import NO_BLOBS
from stratalog.protocol import BUILT_IN_MUTATORS, Draft
from stratalog.protocol.live import Poke
from stratalog.protocol.messages import Mutation
from stratalog.protocol.sync import Push
from stratalog.store import Store
from stratalog.worker.attempt_record import read_attempts
from stratalog.worker.queued_pushes import QueuedPushes
from tests.aws.application import Held, container, event
from tests.aws.event_source import EventSource
from tests.aws.functions import Failed
from tests.aws.gateway_events import http_event, socket_event
from tests.client.helpers import memory_environment
from tests.cloud.sqs_service import ForwardingClock, Service, queue_on

VISIBILITY_SECONDS = 30
PLENTY = 900.0


class Works:
    """A processor on a store in memory, with a queue of the SQS service. The service runs on the test's clock."""

    def __init__(self, sqs: Service) -> None:
        self.clock = ForwardingClock(sqs.time)
        self.queue = queue_on(sqs, self.clock)
        inner = memory_environment()
        self.store = Store(Environment(inner.index, inner.blobs, self.clock), self.queue)
        self.held = Held()
        self.container = container(self.held, self.store)
        self.store.rules = self.container.application.rules
        self.remaining = PLENTY
        self.restart()
        self.events: list[Any] = []
        self.source = EventSource(sqs.client, self.queue._url, self._call)
        self.lose_answers = 0

    def restart(self) -> None:
        """Replace the container by a new container with empty caches."""
        self.store = Store(self.store.environment, self.queue, self.store.rules)
        self.container = container(self.held, self.store)
        self.processor = Processor(self.container)

    def document(self, name: str) -> Document:
        return self.store.create("acme", name)

    def push(self, document: Document, *mutations: Mutation) -> None:
        wanted = Push("g", list(mutations), document.origin)
        assert QueuedPushes(self.store).push(document, wanted, "").queued

    def poll(self, seconds: float = 0) -> int:
        """Process one batch after ``seconds``, and return its number of messages."""
        self.clock.sleep(seconds)
        return self.source.poll()

    def _call(self, event: Any) -> Any:
        self.events.append(event)
        try:
            failed = self.processor.process(event["Records"], lambda: self.remaining)
        except Ended as exc:
            raise Failed("the process ended") from exc
        if self.lose_answers:
            self.lose_answers -= 1
            raise Failed("the answer was lost")
        return {"batchItemFailures": [{"itemIdentifier": id} for id in failed]}


@pytest.fixture
def works(sqs: Service) -> Iterator[Works]:
    made = Works(sqs)
    yield made
    made.queue.close()


def put(id: int, client: str = "c", name: str = "put") -> Mutation:
    return Mutation(client=client, id=id, name=name, args={"key": f"{client}/{id}", "value": id})


def applied(document: Document) -> list[str]:
    return [f"{mutation.client}/{mutation.id}" for version in document.versions() for mutation in version.mutations]


def test_a_batch_is_applied_in_order_and_deleted(works: Works) -> None:
    document = works.document("plan")
    for id in (1, 2, 3):
        works.push(document, put(id))
    assert works.poll() == 3
    assert applied(works.store.document("acme", "plan")) == ["c/1", "c/2", "c/3"]
    assert works.poll(VISIBILITY_SECONDS) == 0


def test_the_messages_of_a_document_in_a_batch_make_a_single_entry(works: Works) -> None:
    document, other = works.document("plan"), works.document("other")
    for id in range(1, 6):
        works.push(document, put(id))
        works.push(other, put(id))
    assert works.poll() == 10
    for name in ("plan", "other"):
        assert applied(works.store.document("acme", name)) == [f"c/{id}" for id in range(1, 6)]
        assert works.store.document("acme", name).version == 1


def test_messages_around_a_message_that_ends_the_process_are_applied(works: Works) -> None:
    document = works.document("plan")
    works.store.rules = Rules({**BUILT_IN_MUTATORS, "end": end})
    for mutation in (put(1), put(2, name="end"), put(3)):
        works.push(document, mutation)
    for _ in range(9):
        works.restart()
        works.poll(VISIBILITY_SECONDS)
    assert applied(works.store.document("acme", "plan")) == ["c/1", "c/2", "c/3"]
    assert list(works.queue.dead_letters()) == []


def end(draft: Draft, args: Any) -> None:
    """A mutator that ends the process, so that the caller gets no answer."""
    raise Ended


class Ended(BaseException):
    """The end of the process. The processor must not catch this exception."""


def test_an_unreadable_message_stops_only_its_own_group(works: Works) -> None:
    document = works.document("plan")
    group = "acme/plan"
    works.queue.send(group, [b"\x01 not a push"])
    works.push(document, put(1))
    works.push(works.document("fine"), put(1))
    assert works.poll() == 3
    assert works.source.counts["reported"] == 2
    assert applied(works.store.document("acme", "fine")) == ["c/1"]
    assert applied(works.store.document("acme", "plan")) == []
    note = read_attempts(
        works.store.environment.index, works.events[0]["Records"][0]["attributes"]["MessageDeduplicationId"]
    )
    assert note.reason.startswith("Corrupt: a message is not a queued push")


def test_an_unreadable_message_becomes_a_dead_letter_and_its_group_continues(works: Works) -> None:
    document = works.document("plan")
    works.queue.send("acme/plan", [b"\x01 not a push"])
    works.push(document, put(1))
    for _ in range(12):
        works.poll(600)
    assert applied(works.store.document("acme", "plan")) == ["c/1"]
    (letter,) = works.queue.dead_letters()
    assert (letter.body, letter.receives) == (b"\x01 not a push", 10)


def test_a_repeated_batch_and_a_batch_with_a_lost_answer_are_applied_once(works: Works) -> None:
    document = works.document("plan")
    works.push(document, put(1), put(2))
    works.lose_answers = 2
    for _ in range(3):
        works.poll(VISIBILITY_SECONDS)
    works.processor.process(works.events[0]["Records"], lambda: PLENTY)
    assert applied(works.store.document("acme", "plan")) == ["c/1", "c/2"]
    assert works.source.counts["failed"] == 2


def test_a_redelivered_batch_is_deleted_although_its_answers_are_lost(works: Works) -> None:
    works.push(works.document("plan"), put(1))
    works.lose_answers = 2
    works.poll()
    works.poll(VISIBILITY_SECONDS)
    assert works.poll(VISIBILITY_SECONDS) == 0


def test_a_message_without_time_left_is_reported_and_redelivered_immediately(works: Works) -> None:
    works.push(works.document("plan"), put(1))
    works.remaining = END_SECONDS - 0.1
    works.poll()
    assert works.source.counts["reported"] == 1
    works.remaining = PLENTY
    assert works.poll() == 1
    assert applied(works.store.document("acme", "plan")) == ["c/1"]


def test_an_error_of_a_port_is_retried_while_the_call_has_time(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    works.push(works.document("plan"), put(1))
    commit, failures = works.store.environment.index.commit, iter([True] * 3)

    def failing(writes: Any, blobs: Any = NO_BLOBS) -> None:
        if next(failures, False):
            raise Unavailable("simulated")
        commit(writes, blobs)

    monkeypatch.setattr(works.store.environment.index, "commit", failing)
    works.restart()
    works.poll()
    assert works.source.counts["reported"] == 0
    assert applied(works.store.document("acme", "plan")) == ["c/1"]


def test_a_lasting_error_of_a_port_is_reported_and_not_recorded_against_the_message(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    works.push(works.document("plan"), put(1))

    def failing(writes: Any, blobs: Any = NO_BLOBS) -> None:
        works.remaining -= 1
        raise Unavailable("simulated")

    with monkeypatch.context() as patch:
        patch.setattr(works.store.environment.index, "commit", failing)
        works.restart()
        works.remaining = 20
        works.poll()
    assert works.source.counts["reported"] == 1
    message = works.events[0]["Records"][0]["attributes"]["MessageDeduplicationId"]
    assert read_attempts(works.store.environment.index, message).reason == ""


def test_listeners_are_poked_after_a_batch_is_applied(works: Works) -> None:
    works.push(works.document("plan"), put(1))
    works.container.listeners.join("b", "acme", "plan", None)
    works.poll()
    assert works.held.posted == [("b", Poke(1))]


def test_a_large_push_is_applied_and_its_blobs_are_removed(works: Works) -> None:
    document = works.document("plan")
    large = random.Random(0).randbytes(900_000).hex()
    works.push(document, Mutation(client="c", id=1, name="put", args={"key": "notes/k", "value": large}))
    assert list(works.store.environment.blobs.list("acme/queue/")) != []
    works.poll()
    assert works.store.document("acme", "plan").get("notes/k") == large
    assert list(works.store.environment.blobs.list("acme/queue/")) == []


def test_the_message_of_the_recorded_event_is_reported_as_failed(works: Works) -> None:
    [record] = event("queue")["Records"]
    assert works.processor.process([record], lambda: PLENTY) == [record["messageId"]]
    attempts = read_attempts(works.store.environment.index, record["attributes"]["MessageDeduplicationId"])
    assert attempts.reason.startswith("Corrupt: a message is not")


SCOPE = {
    "method": "POST",
    "raw_path": b"/v1/organisations/acme/documents/plan%2F2/push",
    "query_string": b"a=1&a=2&b=x%20y",
    "client": ("203.0.113.7", 0),
}


def fields(event: Any) -> Any:
    """Return the nested names of an event's fields, without values and without the names of headers and parameters."""
    if isinstance(event, dict):
        return {
            name: fields(value) if name not in ("headers", "multiValueHeaders", "queryStringParameters") else None
            for name, value in event.items()
        }
    return [fields(event[0])] if isinstance(event, list) and event and isinstance(event[0], dict) else None


@pytest.mark.parametrize("name", ["http", "socket-connect", "socket-message", "socket-disconnect", "queue"])
def test_the_emulated_gateway_and_queue_make_events_of_the_recorded_shape(name: str, works: Works) -> None:
    recorded = event(name)
    headers = {**recorded.get("headers", {}), "cookie": "; ".join(recorded.get("cookies", []))}
    scope = {**SCOPE, "headers": [(key.encode(), value.encode()) for key, value in headers.items() if value]}
    clock = SystemClock()
    if name == "http":
        made = http_event(scope, b"\x82", clock)
        assert (made["rawPath"], made["rawQueryString"]) == (recorded["rawPath"], recorded["rawQueryString"])
        assert made["cookies"] == recorded["cookies"]
    elif name == "queue":
        works.queue.send("acme/plan", [b""])
        works.poll()
        made = works.events[0]
    else:
        made = socket_event(scope, recorded["requestContext"]["eventType"], "id", clock, recorded.get("body"))
    assert fields(made) == fields(recorded)


def test_the_listeners_of_a_document_are_poked_once_and_only_if_time_is_left(works: Works) -> None:
    document = works.document("plan")
    works.container.listeners.join("b", "acme", "plan", None)
    for id in (1, 2, 3):
        works.push(document, put(id))
    works.remaining = END_SECONDS + ANNOUNCE_SECONDS_MAX
    assert works.poll() == 3
    assert works.held.posted == []
    works.remaining = PLENTY
    works.push(document, put(4))
    works.poll()
    assert works.held.posted == [("b", Poke(works.store.document("acme", "plan").version))]
