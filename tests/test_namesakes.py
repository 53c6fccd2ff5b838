"""Documents and records of the same name in two organisations share nothing, in one process and in maintenance."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

import stratalog
from stratalog.errors import Conflict, NotFound
from stratalog.log import delete_log
from stratalog.maintenance.policy import MaintenancePolicy
from stratalog.maintenance.store_copy import copy_store
from stratalog.maintenance.store_pass import maintain
from stratalog.protocol.messages import Mutation
from stratalog.protocol.sync import Push
from stratalog.testing.clock import ManualClock
from stratalog.worker.queued_pushes import QueuedPushes
from stratalog.worker.worker import Worker
from tests.threads import run_together

LARGE = Random(1).randbytes(30_000)
LONG_SECONDS = 40 * 86_400
ORGANISATIONS = ("acme", "globex")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory:", "folder", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[stratalog.Store]:
    url = request.getfixturevalue("postgres") if request.param == "postgres" else request.param
    with stratalog.open(tmp_path / "data" if url == "folder" else url, clock=clock) as opened:
        yield opened


def put(key: str, value: object, number: int = 1) -> Mutation:
    return Mutation(client="c", id=number, name="put", args={"key": key, "value": value})


def test_documents_of_the_same_name_have_separate_handles_and_states(store: stratalog.Store) -> None:
    ours, theirs = (store.create(organisation, "budget") for organisation in ORGANISATIONS)
    ours.mutate("put", {"key": "a", "value": 1})
    assert (store.document("acme", "budget"), store.document("globex", "budget")) == (ours, theirs)
    assert (ours.get("a"), theirs.at().to_dict(), theirs.version) == (1, {}, 0)


def test_deletion_and_collection_of_a_document_leave_its_namesake_intact(
    store: stratalog.Store, clock: ManualClock
) -> None:
    documents = [store.create(organisation, "budget") for organisation in ORGANISATIONS]
    for document in documents:
        document.mutate("put", {"key": "files/large", "value": LARGE + document.organisation.encode()})
        store.records(document.organisation).put("r", LARGE)
    delete_log(documents[1].log)
    store.records("globex").delete("r")
    for _ in range(3):
        clock.sleep(LONG_SECONDS)
        report = maintain(store, MaintenancePolicy(collect_hours=0, retain_record_versions=1))
        assert report.failures == ()
    blobs = [stat.key for stat in store.environment.blobs.list("")]
    assert [key for key in blobs if key.startswith("globex/budget@")] == []
    assert store.document("acme", "budget").get("files/large") == LARGE + b"acme"
    assert store.records("acme").get("r").body == LARGE
    with pytest.raises(NotFound):
        store.document("globex", "budget")
    assert store.create("globex", "budget").version == 0
    assert store.document("acme", "budget").get("files/large") == LARGE + b"acme"


def test_forks_stay_in_their_organisation(store: stratalog.Store) -> None:
    ours, theirs = (store.create(organisation, "budget") for organisation in ORGANISATIONS)
    for document in (ours, theirs):
        document.mutate("put", {"key": "of", "value": document.organisation})
        assert document.fork("copy").organisation == document.organisation
    assert [store.document(of, "copy").get("of") for of in ORGANISATIONS] == list(ORGANISATIONS)


def test_queued_pushes_of_namesakes_are_in_separate_groups(store: stratalog.Store) -> None:
    queue = QueuedPushes(store)
    for organisation in ORGANISATIONS:
        document = store.create(organisation, "budget")
        push = Push("g", [put("of", organisation)], document.origin)
        assert queue.push(document, push).queued
    # A group delivers one message at a time. The queue delivers both messages, so they are in two groups.
    messages = store.queue.receive(10)
    assert len({message.group for message in messages}) == 2
    for message in messages:
        store.queue.release(message)
    Worker(store).run(drain=True)
    assert [store.document(of, "budget").get("of") for of in ORGANISATIONS] == list(ORGANISATIONS)


def test_a_copy_lists_the_same_organisations_of_a_name_as_its_source(store: stratalog.Store) -> None:
    for organisation in (*ORGANISATIONS, "計画"):
        store.create(organisation, "budget")
    delete_log(store.document("globex", "budget").log)
    with stratalog.open("memory:") as target:
        copy_store(store, target)
        assert [holder.organisation for holder in target.organisations_of("budget")] == ["acme", "計画"]
        delete_log(store.document("acme", "budget").log)
        store.create("globex", "budget")
        copy_store(store, target)
        assert [holder.organisation for holder in target.organisations_of("budget")] == ["globex", "計画"]


def test_concurrent_creations_of_a_name_succeed_once_in_each_organisation(store: stratalog.Store) -> None:
    created: list[str] = []

    def create(organisation: str) -> None:
        try:
            store.create(organisation, "budget")
        except Conflict:
            return
        created.append(organisation)

    for _ in range(5):
        run_together(partial(create, organisation) for organisation in ORGANISATIONS * 4)
        assert sorted(created) == list(ORGANISATIONS)
        assert [holder.organisation for holder in store.organisations_of("budget")] == list(ORGANISATIONS)
        created.clear()
        for organisation in ORGANISATIONS:
            delete_log(store.document(organisation, "budget").log)
        assert list(store.organisations_of("budget")) == []
