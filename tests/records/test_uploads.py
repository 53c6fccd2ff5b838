"""The index stores failures and the pins of uploads apart from versions. Maintenance finds all failures and pins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stratalog.clock import new_id
from stratalog.codec import sha256
from stratalog.keys import uploads_partition
from stratalog.limits import BODY_PART_BYTES, RECORD_UPLOAD_SECONDS_MAX
from stratalog.log.directory import list_organisations
from stratalog.records.uploads import pin_put, pins_of, sweep_pins
from stratalog.records.versions import Name
from tests.records.helpers import World


def begin_upload(world: World, id: str, ahead_ms: int = 0) -> None:
    """Store the pin of an upload, as if the process of the upload had died before it committed the pointer.

    The clock of that process was ``ahead_ms`` ahead.
    """
    pin = pin_put(Name(world.organisation, id), new_id(world.clock), world.clock.wall_ms() + ahead_ms)
    world.backend.commit([pin])


def pins(world: World) -> list[str]:
    """The ids of the records that have pins."""
    return [item.sort.partition("/")[0] for item in world.backend.query(uploads_partition(world.organisation))]


def orphan(world: World, id: str) -> str:
    """Put a blob to which no version refers. Return the blob's key."""
    key = f"{world.organisation}/records/{id}/bodies/{sha256(b'an orphan').hex()}"
    world.blobs.put(key, b"an orphan")
    return key


def test_the_pins_of_a_record_exclude_pins_of_ids_with_a_common_prefix(world: World) -> None:
    for id in ("b", "b1", "b1-", "b1.x", "b10", "b1/2", "b1é"):
        begin_upload(world, id)
    uploads = [item.sort.partition("/")[0] for item in pins_of(world.environment, Name(world.organisation, "b1"))]
    assert uploads == ["b1"]


def test_an_upload_stops_the_collector_only_for_its_own_record(world: World) -> None:
    begin_upload(world, "b1")
    retained, gone = orphan(world, "b1"), orphan(world, "b10")
    world.pass_seconds()
    for id in ("b1", "b10"):
        world.records.free(id)
    assert world.blobs.stat(retained) is not None
    assert world.blobs.stat(gone) is None


def test_pins_are_swept_after_twice_the_time_limit_of_an_upload(world: World) -> None:
    begin_upload(world, "b1")
    world.pass_seconds(2 * RECORD_UPLOAD_SECONDS_MAX - 1)
    begin_upload(world, "b2")
    sweep_pins(world.environment, world.organisation)
    assert pins(world) == ["b1", "b2"]
    world.pass_seconds(1)
    sweep_pins(world.environment, world.organisation)
    assert pins(world) == ["b2"]


def test_the_pin_of_a_clock_that_was_ahead_expires(world: World) -> None:
    for id in ("b1", "b2"):
        begin_upload(world, id, 365 * 86_400_000)
    left = orphan(world, "b1")
    world.pass_seconds()
    world.records.free("b1")
    assert world.blobs.stat(left) is None
    assert pins(world) == ["b2"]
    sweep_pins(world.environment, world.organisation)
    assert pins(world) == []


def test_a_finished_or_failed_upload_leaves_no_pin(world: World) -> None:
    def broken() -> Iterator[bytes]:
        yield bytes(BODY_PART_BYTES + 1)
        assert pins(world) == ["b2"]
        raise ConnectionError("the source is gone")

    world.records.put("b1", iter([bytes(BODY_PART_BYTES + 1)]))
    with pytest.raises(ConnectionError):
        world.records.put("b2", broken())
    assert pins(world) == []


def test_a_first_upload_adds_its_organisation_to_the_directory(world: World) -> None:
    def broken() -> Iterator[bytes]:
        yield bytes(BODY_PART_BYTES + 1)
        raise ConnectionError("the source is gone")

    with pytest.raises(ConnectionError):
        world.records.put("b1", broken())
    assert world.organisation in list_organisations(world.backend)


def test_a_first_failure_adds_its_organisation_to_the_directory(world: World) -> None:
    world.records.fail("b1", "bad")
    assert world.organisation in list_organisations(world.backend)


def test_a_failure_in_a_known_organisation_writes_a_single_item(world: World) -> None:
    written: list[int] = []
    commit = world.index.commit

    def count(writes: list[object], *blobs: Any) -> None:
        written.append(len(writes))
        commit(writes, *blobs)  # type: ignore[arg-type]

    world.index.commit = count  # type: ignore[method-assign, assignment]
    for id in ("b1", "b1", "b2"):
        world.records.fail(id, "bad")
    assert written == [2, 1, 1]


def test_the_partition_of_a_record_contains_only_versions_and_the_floor(world: World) -> None:
    world.records.fail("b1", "bad", body=b"input")
    begin_upload(world, "b1")
    assert list(world.backend.query(world.partition())) == []
    world.records.put("b1", b"1")
    world.records.put("b1", b"2")
    world.records.prune("b1", retain=1)
    assert [item.sort for item in world.backend.query(world.partition())][:1] == ["!floor"]
    assert len(list(world.backend.query(world.partition()))) == 3
