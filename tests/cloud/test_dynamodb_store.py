"""A store on DynamoDB: documents, forks and records, many writers of one log, and the units that writes cost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.dynamodb_setup import create_table, open_client
from stratalog.backends.memory import MemoryBlobs, MemoryQueue
from stratalog.clock import SystemClock
from stratalog.errors import Conflict, Invalid
from stratalog.log import Environment, Event, Log, LogSettings, delete_log
from stratalog.ports.index import Absent, Delete, Equals, Item, Put
from stratalog.store import Store
from stratalog.testing.emulators import Emulator
from tests.cloud.helpers import dynamo_client, dynamo_index
from tests.processes import start
from tests.threads import run_together

WRITERS = 8
APPENDS = 25

APPEND = """
import sys
from stratalog.store import Store
from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.dynamodb_setup import open_client
from stratalog.backends.memory import MemoryBlobs, MemoryQueue
from stratalog.clock import SystemClock
from stratalog.log import Environment, Event
endpoint, table, writer, appends = sys.argv[1:]
clock = SystemClock()
index = DynamoIndex(open_client(clock, region="us-east-1", endpoint=endpoint), table)
log = Store(Environment(index, MemoryBlobs(clock), clock), MemoryQueue(clock)).log("acme", "plan")
for n in range(int(appends)):
    print(log.append(Event("step", [writer, n]), write_id=f"{writer}-{n}").version)
index.close()
"""


@pytest.fixture
def index(dynamo: Emulator) -> Iterator[DynamoIndex]:
    made = dynamo_index(dynamo)
    yield made
    made.close()


def store_on(index: DynamoIndex, *, segment: int = 10_000) -> Store:
    clock = SystemClock()
    settings = LogSettings(segment_entries_target=segment, snapshot_entries_interval=10)
    return Store(Environment(index, MemoryBlobs(clock), clock, settings), MemoryQueue(clock))


def test_documents_forks_and_records_work_on_dynamodb(index: DynamoIndex) -> None:
    store = store_on(index)
    budget = store.create("acme", "budget")
    for n in range(30):
        budget.mutate("put", {"key": f"items/{n:02d}", "value": {"amount": n}})
    fork = budget.fork("plan-b", at=10)
    fork.mutate("put", {"key": "items/00", "value": {"amount": 100}})
    store.records("acme").put("contract", b"first")
    store.records("acme").put("contract", b"second" * 10_000)

    again = Store(store.environment, store.queue)
    assert again.document("acme", "budget").get("items/29") == {"amount": 29}
    assert again.document("acme", "budget").get("items/00", at=5) == {"amount": 0}
    assert len(list(again.document("acme", "plan-b").scan("items/"))) == 10
    assert again.document("acme", "plan-b").get("items/00") == {"amount": 100}
    assert again.records("acme").get("contract").body == b"second" * 10_000
    assert again.records("acme").get("contract", 1).body == b"first"
    assert [line.id for line in again.list("acme")] == ["budget", "plan-b"]


def test_the_name_of_a_deleted_document_can_be_used_again(index: DynamoIndex) -> None:
    store = store_on(index)
    store.create("acme", "budget").mutate("put", {"key": "name", "value": "first"})
    with pytest.raises(Conflict):
        store.create("acme", "budget")
    delete_log(store.document("acme", "budget").log)
    assert store.create("acme", "budget").at().to_dict() == {}


def test_many_writers_of_one_log_lose_nothing_and_leave_no_gap(index: DynamoIndex) -> None:
    """Each writer has its own store, so that the writers share only the index. Segments roll over during the test."""
    log = store_on(index).create_log("acme", "plan")
    acknowledged: list[tuple[int, str]] = []

    def write(writer: int) -> None:
        mine = store_on(index, segment=40).log("acme", "plan")
        for n in range(APPENDS):
            acknowledged.append(
                (mine.append(Event("step", [writer, n]), write_id=f"{writer}-{n}").version, f"{writer}-{n}")
            )

    run_together(partial(write, writer) for writer in range(WRITERS))
    assert sorted(acknowledged) == [(entry.version, entry.write_id) for entry in log.read()]
    assert [version for version, _ in sorted(acknowledged)] == list(range(1, WRITERS * APPENDS + 1))


def test_processes_that_write_one_log_lose_nothing_and_leave_no_gap(
    dynamo: Emulator, index: DynamoIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testsecret")
    log = store_on(index).create_log("acme", "plan")
    commands = [[sys.executable, "-c", APPEND, dynamo.url, index.table, f"{n}", "20"] for n in range(3)]
    with ExitStack() as stack:
        processes = [stack.enter_context(start(command)) for command in commands]
        answers = [process.end() for process in processes]
        assert [process.stderr for process in processes] == [""] * 3
    assert sorted(int(line) for output in answers for line in output.split()) == list(range(1, 61))
    assert steps_of(log) == {(f"{writer}", n) for writer in range(3) for n in range(20)}


def test_a_warm_commit_costs_one_write_unit_and_no_read(index: DynamoIndex) -> None:
    document = store_on(index).create("acme", "budget")
    document.mutate("put", {"key": "items/1", "value": {"title": "x" * 100}})
    before = index.meter.read()
    for n in range(5):
        document.mutate("put", {"key": f"items/{n}", "value": {"title": "y" * 100}})
    after = index.meter.read()
    spent = {key: amount - before.get(key, 0) for key, amount in after.items() if amount != before.get(key, 0)}
    assert spent == {("PutItem", "requests"): 5, ("PutItem", "write units"): 5}


@pytest.mark.parametrize(("size", "units"), [(0, 1), (1017, 1), (1018, 2), (5000, 5), (409_593, 400)])
def test_a_write_costs_a_unit_per_started_kb_including_names_and_keys(
    index: DynamoIndex, size: int, units: int
) -> None:
    """The meter follows the published rules, although the emulator reports one unit for any size.

    The item has 7 bytes besides the value: `P`, p, `S`, sss and `b`.
    """
    index.commit([Put(Item("p", "sss", {"b": bytes(size)}), Absent())])
    assert index.meter.total("write units") == units


def test_a_transaction_counts_double(index: DynamoIndex) -> None:
    index.commit([Put(Item("p", "a", {"b": bytes(1500)})), Delete("p", "b")])
    assert index.meter.total("write units") == 6


def test_a_write_whose_condition_fails_is_counted_as_wasted(index: DynamoIndex) -> None:
    index.commit([Put(Item("p", "a", {}), Absent())])
    for write in (Put(Item("p", "a", {"b": bytes(1500)}), Absent()), Delete("p", "a", Equals("n", 1))):
        with pytest.raises(Conflict):
            index.commit([write])
    assert index.meter.total("wasted write units") == 3


def test_a_second_create_table_recognises_the_existing_table(dynamo: Emulator) -> None:
    client = dynamo_client(dynamo)
    assert create_table(client, "made-once")
    assert not create_table(client, "made-once")
    client.close()


@pytest.mark.parametrize(
    ("missing", "error"),
    [("AWS_DEFAULT_REGION", "no AWS region is set"), ("AWS_ACCESS_KEY_ID", "no AWS credentials were found")],
)
def test_a_client_without_a_region_or_credentials_is_invalid(
    missing: str, error: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    known = {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    open_client(SystemClock()).close()
    monkeypatch.delenv(missing)
    with pytest.raises(Invalid, match=error):
        open_client(SystemClock())


def steps_of(log: Log) -> set[tuple[str, int]]:
    return {tuple(entry.events[0].data) for entry in log.read()}
