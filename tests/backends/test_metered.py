"""A metered port fulfils the contract of its port, and counts requests and units by the rules that AWS publishes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stratalog
from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.backends.metered_ports import MeteredBlobs, MeteredIndex, MeteredQueue
from stratalog.clock import Clock
from stratalog.codec import compress, encode, sha256
from stratalog.errors import ConditionFailed
from stratalog.homes import open_ports
from stratalog.limits import ITEM_BYTES_MAX
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Absent, Attribute, Check, Delete, Equals, Item, Put, item_bytes, small_bytes
from stratalog.ports.meter import Meter
from stratalog.testing.blobs_contract import BlobsContract
from stratalog.testing.clock import ManualClock
from stratalog.testing.index_contract import IndexContract
from stratalog.testing.queue_contract import QueueContract
from tests.backends.test_memory import rename_blob
from tests.cloud.helpers import check_billed_requests

MB = 1024 * 1024


class TestMeteredIndex(IndexContract):
    def make(self) -> MeteredIndex:
        return MeteredIndex(MemoryIndex(), Meter())


class TestMeteredBlobs(BlobsContract):
    def make(self, clock: Clock) -> MeteredBlobs:
        return MeteredBlobs(MemoryBlobs(clock), Meter())

    def rename(self, blobs: Blobs, key: str, name: str) -> bool:
        assert isinstance(blobs, MeteredBlobs)
        assert isinstance(blobs._blobs, MemoryBlobs)
        return rename_blob(blobs._blobs, key, name)


class TestMeteredQueue(QueueContract):
    def make(self, clock: Clock, receives_max: int) -> MeteredQueue:
        return MeteredQueue(MemoryQueue(clock, receives_max), Meter())


@pytest.fixture
def index() -> MeteredIndex:
    return MeteredIndex(MemoryIndex(), Meter())


def item(sort: str = "sss", size: int = 0, **attributes: Any) -> Item:
    """Return an item of ``size + 7`` bytes. The names `P`, `S` and `b` and the keys p and sss take seven bytes."""
    return Item("p", sort, {"b": bytes(size), **attributes})


def spent(index: MeteredIndex, work: Callable[[], object]) -> dict[tuple[str, str], float]:
    """Return the amounts that ``work`` adds to the meter, without the numbers of requests."""
    before = index.meter.read()
    work()
    after = index.meter.read()
    return {
        key: sum_ - before.get(key, 0)
        for key, sum_ in after.items()
        if key[1] != "requests" and sum_ != before.get(key, 0)
    }


@pytest.mark.parametrize(("size", "units"), [(0, 1), (1017, 1), (1018, 2), (5000, 5), (409_593, 400)])
def test_a_write_costs_a_unit_per_started_kb_including_names_and_keys(
    index: MeteredIndex, size: int, units: int
) -> None:
    assert spent(index, lambda: index.commit([Put(item(size=size), Absent())])) == {("PutItem", "write units"): units}


@given(st.integers(-(2**53), 2**53))
def test_the_counted_size_of_a_number_is_never_below_its_size_on_dynamodb(number: int) -> None:
    """DynamoDB counts one byte, one for each pair of digits but trailing pairs of zeros, and one for a minus sign."""
    digits = str(abs(number))
    pairs = -(-len(digits) // 2)
    while pairs and digits.endswith("00"):
        digits, pairs = digits[:-2], pairs - 1
    theirs = (pairs if number else 0) + 1 + (number < 0)
    assert (
        theirs <= item_bytes(Item("p", "s", {"n": number})) - len("PpSsn") <= theirs + 1 + str(number).count("0") // 2
    )


def test_a_transaction_counts_double_and_its_checks_too(index: MeteredIndex) -> None:
    index.commit([Put(item("ccc", 3000))])
    writes = [Put(item("aaa", 1500)), Delete("p", "bbb"), Check("p", "ccc", Equals("b", bytes(3000)))]
    assert spent(index, lambda: index.commit(writes)) == {("TransactWriteItems", "write units"): 2 * (2 + 1 + 3)}


def test_an_overwrite_is_billed_by_the_larger_of_the_old_and_the_new_item(index: MeteredIndex) -> None:
    index.commit([Put(item(size=5000))])
    assert spent(index, lambda: index.commit([Put(item(size=10))])) == {("PutItem", "write units"): 5}
    assert spent(index, lambda: index.commit([Put(item(size=3000))])) == {("PutItem", "write units"): 3}


def test_a_delete_is_billed_by_the_size_of_the_deleted_item(index: MeteredIndex) -> None:
    index.commit([Put(item(size=5000))])
    assert spent(index, lambda: index.commit([Delete("p", "sss")])) == {("DeleteItem", "write units"): 5}
    assert spent(index, lambda: index.commit([Delete("p", "sss")])) == {("DeleteItem", "write units"): 1}


def test_a_failed_condition_is_billed_as_if_it_held(index: MeteredIndex) -> None:
    index.commit([Put(item(size=5000))])

    def lose() -> None:
        with pytest.raises(ConditionFailed):
            index.commit([Put(item(), Absent())])

    assert spent(index, lose) == {("PutItem", "write units"): 5, ("PutItem", "wasted write units"): 5}


def test_a_commit_with_only_a_check_is_billed_as_a_consistent_read(index: MeteredIndex) -> None:
    index.commit([Put(item(size=5000, n=1))])
    assert spent(index, lambda: index.commit([Check("p", "sss", Equals("n", 1))])) == {("GetItem", "read units"): 2}
    with pytest.raises(ConditionFailed):
        index.commit([Check("p", "none", Equals("n", 1))])
    assert index.meter.total("read units") == 3
    assert index.meter.total("write units") == 5


def test_a_read_costs_a_unit_per_started_4_kb_or_half_if_not_consistent(index: MeteredIndex) -> None:
    index.commit([Put(item(size=5000))])
    assert spent(index, lambda: index.get("p", "sss")) == {("GetItem", "read units"): 2}
    assert spent(index, lambda: index.get("p", "sss", consistent=False)) == {("GetItem", "read units"): 1}
    assert spent(index, lambda: index.get("p", "none")) == {("GetItem", "read units"): 1}


def test_a_query_adds_the_sizes_of_its_items_before_it_rounds_up(index: MeteredIndex) -> None:
    for number in range(10):
        index.commit([Put(item(f"{number:03d}", 493))])
    assert spent(index, lambda: list(index.query("p"))) == {("Query", "read units"): 2}
    assert spent(index, lambda: list(index.query("p", limit=3))) == {("Query", "read units"): 1}
    assert spent(index, lambda: list(index.query("p", consistent=False))) == {("Query", "read units"): 1}
    assert spent(index, lambda: list(index.query("none"))) == {("Query", "read units"): 1}
    assert spent(index, lambda: list(index.query("p", limit=0))) == {}


def test_a_query_that_stops_midway_is_billed_for_its_first_page(index: MeteredIndex) -> None:
    for number in range(12):
        index.commit([Put(item(f"{number:03d}", 300_000))])
    first_page = -(-4 * 300_007 // 4096)
    assert spent(index, lambda: next(index.query("p"))) == {("Query", "read units"): first_page}
    assert [item.sort for item in index.query("p")] == [f"{number:03d}" for number in range(12)]


def test_a_metered_index_has_no_joint_commits() -> None:
    assert MemoryIndex().joint_commits
    assert not MeteredIndex(MemoryIndex(), Meter()).joint_commits


def test_blobs_count_requests_by_class_and_stored_bytes() -> None:
    blobs = MeteredBlobs(MemoryBlobs(ManualClock()), Meter())
    body = b"some text " * 1000
    key = f"acme/plan/{sha256(body).hex()}"
    blobs.put(key, body)
    assert blobs.get(key) == body
    (stat,) = blobs.list("acme/")
    assert blobs.stat(key) == stat
    assert blobs.delete(key, stat.stamp)
    assert blobs.delete(key, stat.stamp)
    assert blobs.meter.read() == {
        ("PutObject", "requests"): 1,
        ("PutObject", "bytes"): len(compress(body)),
        ("GetObject", "requests"): 1,
        ("GetObject", "bytes"): len(compress(body)),
        ("GetBucketVersioning", "requests"): 1,
        ("ListObjectVersions", "requests"): 3,
        ("HeadObject", "requests"): 1,
        ("CopyObject", "requests"): 1,
        ("DeleteObject", "requests"): 1,
    }


def test_the_meter_of_a_local_store_counts_the_copies_that_the_template_makes_of_deleted_blobs() -> None:
    """A blob that is not deleted is not copied."""
    template = (Path(__file__).parents[2] / "deploy/aws/template.yaml").read_text()
    assert "freed=retain" in template
    ports = open_ports("memory:", True, ManualClock(), Meter())
    assert ports.meter is not None
    key = f"acme/plan/{sha256(b'x').hex()}"
    ports.blobs.put(key, b"x")
    [stat] = ports.blobs.list("acme/")
    for stamp in ("another", stat.stamp, stat.stamp):
        ports.blobs.delete(key, stamp)
    assert ports.meter.read()["CopyObject", "requests"] == 1


def test_the_queue_counts_a_request_per_batch_and_per_started_64_kb() -> None:
    """`tests/cloud/test_sqs.py::test_requests_are_counted_as_they_are_billed` checks the same counts on SQS."""
    queue = MeteredQueue(MemoryQueue(ManualClock()), Meter())
    check_billed_requests(queue)


@pytest.mark.parametrize("folder", [True, False])
def test_a_local_store_with_a_meter_counts_the_units_of_aws(folder: bool, tmp_path: Path) -> None:
    meter = Meter()
    with stratalog.open(tmp_path if folder else "memory:", meter=meter) as store:
        document = store.create("acme", "budget")
        document.mutate("put", {"key": "items/1", "value": 1})
        before = meter.read()
        for number in range(5):
            document.mutate("put", {"key": "items/2", "value": number})
        after = meter.read()
    assert {key: after[key] - before.get(key, 0) for key in after if after[key] != before.get(key, 0)} == {
        ("PutItem", "requests"): 5,
        ("PutItem", "write units"): 5,
    }


def test_a_store_without_a_meter_does_not_wrap_its_index() -> None:
    with stratalog.open("memory:") as store:
        assert type(store.environment.index) is MemoryIndex


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=4),
        st.text() | st.binary() | st.integers(-(2**63), 2**64 - 1),
        max_size=8,
    )
)
def test_the_size_estimate_of_an_encoded_item_is_an_upper_bound(attributes: dict[str, Attribute]) -> None:
    item = Item("p", "sort", attributes)
    assert small_bytes(item, encode(attributes)) >= item_bytes(item)


@pytest.mark.parametrize(
    "odd",
    [
        Item("", "s", {}),
        Item("p", "", {}),
        Item("ä", "s", {}),
        Item("p", "s" * 1024, {}),
        item(size=ITEM_BYTES_MAX),
        Item("p", "s", {"n": None}),  # type: ignore[dict-item]
    ],
    ids=lambda odd: repr(odd)[:40],
)
def test_an_item_that_may_break_a_limit_gets_no_size_estimate(odd: Item) -> None:
    assert small_bytes(odd, encode(dict(odd.attributes))) == 0
