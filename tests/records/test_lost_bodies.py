"""If a record's body is damaged or lost, the next put of the same body restores it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import stratalog
from stratalog.errors import Corrupt
from stratalog.keys import number, record_key, record_partition
from stratalog.limits import OBSERVATION_SECONDS_MAX
from stratalog.ports.index import Delete
from stratalog.records import NewBody, Records
from stratalog.testing.clock import ManualClock

BODY = os.urandom(100_000)
PARTS = os.urandom(9_000_000)


def put(records: Records, body: bytes) -> object:
    return records.put("x", body, source_time_ms=1)


def put_if_newer(records: Records, body: bytes) -> object:
    records.put_if_newer("x", body, source_time_ms=1)
    return records.stat("x")


def put_by_write_id(records: Records, body: bytes) -> object:
    return records.put("x", body, write_id="w")


def put_many(records: Records, body: bytes) -> object:
    [stored] = records.put_many([NewBody(id="x", body=body, source_time_ms=1)])
    assert stored.error is None
    return stored.version


@pytest.mark.parametrize("ingest", [put, put_if_newer, put_by_write_id, put_many])
@pytest.mark.parametrize("body", [BODY, PARTS], ids=["one blob", "parts"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "lost"])
def test_putting_a_record_again_restores_its_body(
    tmp_path: Path, ingest: Callable[[Records, bytes], object], body: bytes, damage: str
) -> None:
    with stratalog.open(tmp_path, clock=ManualClock()) as store:
        records = store.records("acme")
        first = ingest(records, body)
        for file in list((tmp_path / "blobs/acme").rglob("*.zst")):
            stored = file.read_bytes()
            if damage == "lost":
                file.unlink()
            else:
                file.write_bytes(stored[:50] if damage == "truncated" else bytes([*stored[:-1], stored[-1] ^ 1]))
        with pytest.raises(stratalog.Corrupt):
            records.get("x")
        assert ingest(records, body) == first
        assert records.get("x").body == body


def test_repeated_puts_read_a_stored_body_back_once_per_observation_window(tmp_path: Path) -> None:
    clock = ManualClock()
    with stratalog.open("memory:", clock=clock) as store:
        reads = 0
        get = store.environment.blobs.get

        def counting(key: str) -> bytes:
            nonlocal reads
            reads += 1
            return get(key)

        store.environment.blobs.get = counting  # type: ignore[method-assign]
        for expected in (0, 1, 1, 1):
            store.records("acme").put("x", BODY)
            assert reads == expected
        clock.sleep(OBSERVATION_SECONDS_MAX + 1)
        store.records("acme").put("x", BODY)
        assert reads == 2


@pytest.mark.parametrize(
    "call", [lambda records: records.get("x"), lambda records: records.update("x", bytes.upper)], ids=["get", "update"]
)
def test_a_record_whose_latest_item_is_a_forgotten_version_is_damaged(
    call: Callable[[Records], object],
) -> None:
    """The only kept version is lost, so a forgotten version is the latest one. Its body is collected."""
    store = stratalog.open("memory:", clock=ManualClock())
    index, blobs, records = store.environment.index, store.environment.blobs, store.records("acme")
    records.put("x", BODY)
    retained = records.put("x", b"kept")
    records.prune("x", retain=1)
    index.commit([Delete(record_partition("acme", record_key("x")), number(retained.version))])
    for stat in list(blobs.list("acme/records/x/")):
        blobs.delete(stat.key, stat.stamp)
    with pytest.raises(Corrupt, match="version=2"):
        call(stratalog.Records(store.environment, "acme"))
