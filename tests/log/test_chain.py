"""The hash chain: the facts that a hash covers, the records that store a hash, and the detection of changed history."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stratalog
from stratalog.documents import Document
from stratalog.errors import Corrupt, HistoryChanged, VersionForgotten
from stratalog.keys import entries_partition, number
from stratalog.log import Log, fork_log, open_log
from stratalog.log.append import JOINT_ENTRIES_MAX
from stratalog.log.chain import checked_entries, genesis
from stratalog.log.pending_entry import prepare_entry
from stratalog.log.retention import raise_floor
from stratalog.log.snapshots import newest_snapshot
from stratalog.log.verification import verify_log
from stratalog.ports.index import Delete, Item, Put
from tests.log.helpers import another, event, fill, new_log, scripted


def test_the_first_hash_covers_the_origin_and_the_facts_of_the_entry() -> None:
    log = new_log()
    entry = log.append(event("once"), author="Ada", principal="u-1", write_id="w-1")
    before = hashlib.sha256(b"stratalog history 1\0" + log.record.origin.encode()).digest()
    body = msgspec.msgpack.encode([["set", "once", 1]])
    digest = hashlib.sha256(entry.salt + hashlib.sha256(body).digest()).digest()
    facts = msgspec.msgpack.encode([1, 1, entry.created_ms, "u-1", "Ada", "w-1", digest, None])
    assert entry.hash == hashlib.sha256(before + hashlib.sha256(facts).digest()).digest()
    assert other(log).entry(1) == entry


def test_the_hash_of_an_entry_does_not_depend_on_how_its_body_is_stored() -> None:
    log = new_log(segment_entries_target=3)
    for size in (10, 2000, 200_000):
        log.append(event("x" * size))
    log.append(event(hashlib.shake_256(b"").hexdigest(40_000)))
    assert [entry.hash for entry in checked_entries(genesis(log.record.origin), other(log).read())][
        -1
    ] == log.head().hash


def test_a_fork_continues_the_history_of_its_parent() -> None:
    log = new_log()
    fill(log, 3)
    fork = fork_log(log, "fork", 2)
    fill(fork, 1)
    again = fork_log(fork, "again", 3)
    assert (fork.record.origin, again.record.lineage[-1].hash) == (log.record.origin, fork.head().hash)
    assert [entry.hash for entry in fork.read()][:2] == [entry.hash for entry in log.read()][:2]
    assert len(list(checked_entries(log.hash_at(0), again.read()))) == 3


def test_a_fork_whose_parent_forgot_entries_verifies_from_the_floor_of_the_parent() -> None:
    log = new_log(segment_entries_target=2)
    fill(log, 4)
    middle = fork_log(log, "middle", 4)
    fill(middle, 6)
    fork = fork_log(middle, "fork", 10)
    fill(fork, 2)
    assert raise_floor(middle, 10) == 10
    assert fork.entry(4).version == 4
    with pytest.raises(VersionForgotten):
        fork.entry(5)
    report = verify_log(fork)
    assert (report.findings, report.start, report.version) == ((), 10, 12)


def test_the_hash_at_the_floor_is_still_readable() -> None:
    log = new_log(segment_entries_target=2)
    fill(log, 9)
    hashes = [entry.hash for entry in log.read()]
    raise_floor(log, 4)
    handle = other(log)
    assert (handle.record.floor, handle.hash_at(4)) == (4, hashes[3])
    assert len(list(checked_entries(hashes[3], handle.read(4)))) == 5


def test_a_snapshot_stores_the_hash_of_its_version() -> None:
    log = new_log(kind="model")
    fill(log, 3)
    log.save_snapshot(2, [b"state"])
    snapshot = newest_snapshot(log.environment.index, log.record.prefix, 3)
    assert snapshot is not None
    assert snapshot.hash == log.hash_at(2)


CHANGES: dict[str, Any] = {
    "c": lambda value: value + 1,
    "w": lambda value: value + "x",
    "a": lambda value: "somebody else",
    "p": lambda value: "u-2",
    "b": lambda value: msgspec.msgpack.encode([["set", "altered", 1]]),
    "h": lambda value: bytes(32),
}


@given(version=st.integers(1, 5), name=st.sampled_from(sorted(CHANGES)))
def test_an_altered_entry_is_found(version: int, name: str) -> None:
    log = new_log()
    for count in range(5):
        log.append(event(f"plan:{count}"), author="Ada", principal="u-1")
    item = _item(log, version)
    altered = {**item.attributes, name: CHANGES[name](item.attributes[name])}
    scripted(log.environment).backend.commit([Put(Item(item.partition, item.sort, altered))])
    with pytest.raises(Corrupt) as raised:
        list(checked_entries(log.hash_at(0), other(log).read()))
    assert raised.value.details["version"] == version


def test_an_append_to_an_index_that_lost_its_last_entries_raises_history_changed() -> None:
    log = new_log()
    fill(log, 5)
    lost = [Delete(entries_partition(log.record.prefix, 1), number(version)) for version in (4, 5)]
    scripted(log.environment).backend.commit(lost)
    for _ in range(2):
        with pytest.raises(HistoryChanged):
            log.append(event("behind a gap"))
    assert log.is_lost
    assert other(log).append(event("after")).version == 4


def test_a_store_reopens_a_document_whose_history_changed() -> None:
    with stratalog.open("memory:") as store:
        document = store.create("acme", "plan")
        for count in range(5):
            document.mutate("put", {"key": "n", "value": count})
        last = Delete(entries_partition(document.log.record.prefix, 1), number(5))
        store.environment.index.commit([last])
        with pytest.raises(HistoryChanged):
            document.mutate("put", {"key": "n", "value": "behind a gap"})
        again = store.document("acme", "plan")
        again.mutate("inc", {"key": "n", "by": 10})
        assert (again.version, again.get("n")) == (5, 13)


def test_an_append_after_a_replaced_last_entry_raises_history_changed() -> None:
    log = new_log()
    fill(log, 3)
    rival = open_log(log.environment, log.record.organisation, log.record.name)
    scripted(log.environment).backend.commit([Delete(entries_partition(log.record.prefix, 1), number(3))])
    rival.append(event("of another branch"))
    with pytest.raises(HistoryChanged):
        log.append(event("on the lost branch"), expected=3)


def test_the_largest_batch_fits_into_a_commit_that_rolls_over() -> None:
    log = new_log(segment_entries_target=2)
    fill(log, 4)
    log._appender._run([prepare_entry(log.environment, log.record.owner, [event()]) for _ in range(JOINT_ENTRIES_MAX)])
    assert log.head().version == 4 + JOINT_ENTRIES_MAX


@pytest.mark.parametrize("others", [{}, {"c": 3}])
def test_verify_finds_an_altered_entry_of_a_document(others: dict[str, Any]) -> None:
    with stratalog.open("memory:") as store:
        document = store.create("acme", "plan")
        for count in range(5):
            document.mutate("put", {"key": "n", "value": count}, author="Ada")
        assert stratalog.verify(document).version == 5
        partition = entries_partition(document.log.record.prefix, 1)
        item = store.environment.index.get(partition, number(3))
        assert item is not None
        store.environment.index.commit([Put(Item(partition, number(3), {**item.attributes, "a": "Eve", **others}))])
        with pytest.raises(Corrupt, match="does not follow from the history"):
            stratalog.verify(Document(open_log(store.environment, "acme", "plan")))


def test_two_swapped_entries_are_detected() -> None:
    log = new_log()
    fill(log, 4)
    second, third = _item(log, 2), _item(log, 3)
    swapped = [
        Put(Item(second.partition, second.sort, third.attributes)),
        Put(Item(third.partition, third.sort, second.attributes)),
    ]
    scripted(log.environment).backend.commit(swapped)
    with pytest.raises(Corrupt) as raised:
        list(checked_entries(log.hash_at(0), other(log).read()))
    assert raised.value.details["version"] == 2


def other(log: Log) -> Log:
    """Return a handle of the log in another process."""
    return open_log(another(log.environment), log.record.organisation, log.record.name)


def _item(log: Log, version: int) -> Item:
    item = log.environment.index.get(entries_partition(log.record.prefix, 1), number(version))
    assert item is not None
    return item
