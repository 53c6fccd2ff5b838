"""The hash chain of a record's versions: the facts that a hash covers, and the hash of each kind of version."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stratalog.errors import KeyReused
from stratalog.keys import number, record_key, record_partition
from stratalog.records import NewBody, Records, RecordVersion
from stratalog.records.floor import read_floor
from stratalog.records.versions import Name
from tests.records.test_golden import empty

PARTS = [bytes(5_000_000), b"x" * 5_000_000]


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return empty(tmp_path)


def item_of(records: Records, version: int) -> Any:
    item = records.environment.index.get(record_partition("acme", record_key("b1")), number(version))
    assert item is not None
    return item.attributes


def expected_hash(before: bytes, version: RecordVersion, item: Any, kind: str) -> bytes:
    """Compute a version's hash by the rules of `formats/chain.md`, without Stratalog's code."""
    digest = hashlib.sha256(item["s"] + version.digest).digest()
    extras = [version.source_time_ms, msgspec.msgpack.encode(version.metadata) if version.metadata else None, kind]
    facts = [1, version.version, version.created_ms, version.principal, "", version.write_id, digest, extras]
    return hashlib.sha256(before + hashlib.sha256(msgspec.msgpack.encode(facts)).digest()).digest()


def test_every_kind_of_version_continues_the_history_of_the_record(records: Records) -> None:
    put = records.put("b1", b"first", principal="u-1", metadata={"title": "x"}, source_time_ms=5)
    newer = records.put_if_newer("b1", iter(PARTS), 9, principal="u-2")
    updated = records.update("b1", lambda body: b"small" * 500, principal="u-1")
    deleted = records.delete("b1", principal="u-3")
    revived = records.undelete("b1", principal="u-4")
    [many] = records.put_many([NewBody(id="b1", body=b"many", principal="u-5")])
    assert newer is not None
    assert many.version is not None
    versions = [put, newer, updated, deleted, revived, many.version]
    before = hashlib.sha256(b"stratalog history 1\0" + item_of(records, 1)["og"].encode()).digest()
    for version, kind in zip(versions, ["", "n", "u", "t", "r", ""], strict=True):
        before = expected_hash(before, version, item_of(records, version.version), kind)
        assert version.hash == before
    assert [version.principal for version in versions] == ["u-1", "u-2", "u-1", "u-3", "u-4", "u-5"]
    assert list(records.versions("b1")) == versions


def test_an_undeleted_version_has_its_own_salt_and_principal(records: Records) -> None:
    records.put("b1", b"first", principal="u-1")
    records.delete("b1", principal="u-1")
    assert records.undelete("b1").principal == ""
    assert len({item_of(records, version)["s"] for version in (1, 2, 3)}) == 3
    assert "og" not in item_of(records, 3)


def test_the_floor_keeps_the_hash_before_the_oldest_retained_version_and_the_origin(records: Records) -> None:
    versions = [records.put("b1", b"%d" % body) for body in range(6)]
    origin = item_of(records, 1)["og"]
    for retain, before in ((4, 2), (2, 4)):
        records.prune("b1", retain=retain)
        records.environment.clock.sleep(1000)
        records.free("b1")
        floor = read_floor(records.environment.index, Name("acme", "b1"))
        assert (floor.hash, floor.origin) == (versions[before - 1].hash, origin)


def test_two_records_with_the_same_bodies_have_no_hash_in_common(records: Records) -> None:
    assert records.put("b1", b"same", write_id="w").hash != records.put("b2", b"same", write_id="w").hash


def test_a_retried_put_returns_the_hash_of_the_stored_version(records: Records) -> None:
    first = records.put("b1", b"first", write_id="w-1")
    records.environment.clock.sleep(5)
    assert records.put("b1", b"first", write_id="w-1").hash == first.hash


def test_a_write_id_is_bound_to_the_principal(records: Records) -> None:
    stored = records.put("b1", b"first", write_id="w-1", principal="u-1")
    assert records.put("b1", b"first", write_id="w-1", principal="u-1") == stored
    for call in (
        lambda: records.put("b1", b"first", write_id="w-1", principal="u-2"),
        lambda: records.put("b1", b"first", write_id="w-1"),
        lambda: records.update("b1", bytes.upper, write_id="w-1", principal="u-1"),
    ):
        with pytest.raises(KeyReused):
            call()
    [answer] = records.put_many([NewBody(id="b1", body=b"first", write_id="w-1", principal="u-2")])
    assert isinstance(answer.error, KeyReused)
