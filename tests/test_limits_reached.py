"""Limits of the library that no other test reaches. `docs/limits.md` names a test for each limit."""

from __future__ import annotations

import threading
from typing import Any, NoReturn

import pytest

import stratalog
from stratalog.clock import Observation
from stratalog.documents.expiry import idle_clients
from stratalog.errors import Invalid, LimitExceeded, QueueFull
from stratalog.limits import (
    BACKGROUND_OFFERS_MAX,
    CLIENT_IDLE_DAYS_MIN,
    FAILURE_REASON_CHARACTERS_MAX,
    METADATA_BYTES_MAX,
    MUTATOR_NAME_BYTES_MAX,
    PRINCIPAL_BYTES_MAX,
    READS_REMEMBERED_MAX,
    VALUE_INLINE_BYTES_MAX,
)
from stratalog.log.tasks import BackgroundTasks
from stratalog.maintenance.policy import read_policy
from stratalog.protocol.messages import Mutation
from stratalog.protocol.sync import Push
from stratalog.recent_reads import RecentReads
from stratalog.records import content
from stratalog.testing.clock import ManualClock
from stratalog.worker import messages, queued_pushes
from tests.server.queue_path import QueuePath, put
from tests.threads import SECONDS_MAX


@pytest.fixture
def document() -> stratalog.Document:
    return stratalog.open("memory:").create("acme", "plan")


def test_a_principal_has_a_bounded_name() -> None:
    store = stratalog.open("memory:")
    log = store.create_log("acme", "orders")
    log.append(stratalog.Event("t"), principal="p" * PRINCIPAL_BYTES_MAX)
    with pytest.raises(LimitExceeded) as refused:
        log.append(stratalog.Event("t"), principal="p" * (PRINCIPAL_BYTES_MAX + 1))
    assert refused.value.details["limit"] == PRINCIPAL_BYTES_MAX


def test_a_mutator_has_a_bounded_name(document: stratalog.Document) -> None:
    with pytest.raises(LimitExceeded) as refused:
        document.apply([Mutation(client="c", name="n" * (MUTATOR_NAME_BYTES_MAX + 1))])
    assert refused.value.details["limit"] == MUTATOR_NAME_BYTES_MAX


def test_a_value_up_to_a_bound_is_in_its_entry_and_a_larger_value_is_a_blob(document: stratalog.Document) -> None:
    blobs = document.log.environment.blobs
    # MessagePack adds three bytes before a text of this length.
    document.mutate("put", {"key": "notes/a", "value": "x" * (VALUE_INLINE_BYTES_MAX - 3)})
    assert list(blobs.list("")) == []
    document.mutate("put", {"key": "notes/b", "value": "x" * (VALUE_INLINE_BYTES_MAX - 2)})
    assert list(blobs.list("")) != []


def test_metadata_of_a_record_is_bounded() -> None:
    records = stratalog.open("memory:").records("acme")
    with pytest.raises(LimitExceeded) as refused:
        records.put("report", b"body", metadata={"title": "x" * METADATA_BYTES_MAX})
    assert refused.value.details["limit"] == METADATA_BYTES_MAX


def test_a_record_has_a_bounded_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "RECORD_BYTES_MAX", 1000)
    records = stratalog.open("memory:").records("acme")
    records.put("report", iter([b"x" * 500, b"x" * 500]))
    with pytest.raises(LimitExceeded) as refused:
        records.put("report", iter([b"x" * 20_000]))
    assert refused.value.details["limit"] == 1000


def test_a_bounded_number_of_blobs_is_remembered_as_read_back() -> None:
    reads, clock = RecentReads(), ManualClock()
    for number in range(READS_REMEMBERED_MAX + 1):
        reads.note(f"blob {number}", "g", Observation(clock))
    assert reads.find("blob 0", "g") is None
    assert reads.find("blob 1", "g") is not None


def test_a_bounded_number_of_background_tasks_is_accepted() -> None:
    tasks, may_end = BackgroundTasks(), threading.Event()

    def work() -> None:
        may_end.wait(SECONDS_MAX)

    offered = [tasks.offer(work) for _ in range(BACKGROUND_OFFERS_MAX + 1)]
    may_end.set()
    tasks.close()
    assert [task is None for task in offered] == [False] * BACKGROUND_OFFERS_MAX + [True]


def test_an_entry_forgets_a_bounded_number_of_idle_clients(document: stratalog.Document) -> None:
    for client in range(1001):
        if client % 500 == 0:
            last = min(client + 500, 1001)
            batch = [
                Mutation(client=f"c{number}", name="put", id=1, args={"key": "k", "value": 1})
                for number in range(client, last)
            ]
            document.apply(batch, group=f"g{client}")
    idle = idle_clients(document.state(), document.version)
    assert idle is not None
    assert len(idle.clients) == 1000


@pytest.mark.parametrize("days", [CLIENT_IDLE_DAYS_MIN - 1, 0])
def test_a_policy_that_expires_clients_below_the_minimum_days_is_refused(days: float) -> None:
    with pytest.raises(Invalid):
        read_policy(f'{{"expire_clients_days": {days}}}')


def test_a_push_that_is_too_large_to_be_queued_is_refused(
    document: stratalog.Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "QUEUED_BYTES_MAX", 1000)
    push = Push("g", [Mutation(client="c", name="put", id=1, args={"key": "k", "value": "x" * 1000})])
    with pytest.raises(LimitExceeded) as refused:
        messages.write_message(document.log.environment, document.log.record, push, "", "")
    assert refused.value.details["limit"] == 1000


def test_queued_pushes_are_counted_for_a_bounded_number_of_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queued_pushes, "QUEUED_DOCUMENTS_REMEMBERED_MAX", 1)
    path = QueuePath()
    path.backlog = queued_pushes.QueuedPushes(path.store, pushes_max=1)
    assert path.push(put("ada", 1)).queued
    with pytest.raises(QueueFull):
        path.push(put("ada", 2))
    assert path.push(put("ada", 1), document=path.store.create("acme", "other")).queued
    assert path.push(put("ada", 2)).queued


def test_the_stored_reason_of_a_failure_has_a_bounded_length() -> None:
    path = QueuePath()
    path.push(put("ada", 1))

    def fail(*_: Any, **__: Any) -> NoReturn:
        raise RuntimeError("x" * 1000)

    path.document.apply = fail  # type: ignore[method-assign]
    path.work()
    assert [len(reason) for reason in path.failures] == [FAILURE_REASON_CHARACTERS_MAX]
