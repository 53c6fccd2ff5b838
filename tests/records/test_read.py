"""Reads of one version, of the latest version, or of all versions in order.

Missing, damaged and unavailable data raise different errors.
"""

from __future__ import annotations

import random

import pytest

from stratalog.errors import Corrupt, LimitExceeded, NotFound, Unavailable
from stratalog.keys import number
from stratalog.ports.index import Delete, Item, Put
from tests.records.helpers import World

LARGE = random.Random(5).randbytes(50_000)


@pytest.fixture
def world(world: World) -> World:
    for n in range(1, 6):
        world.records.put("b1", b"body %d" % n)
    return world


def at(world: World, version: int) -> tuple[str, str]:
    return world.partition(), number(version)


def test_b14_a_read_of_the_latest_body_returns_its_version(world: World) -> None:
    record = world.records.get("b1")
    assert (record.version.version, record.body) == (5, b"body 5")


def test_b17_each_version_can_be_read_back(world: World) -> None:
    assert [world.records.get("b1", n).body for n in range(1, 6)] == [b"body %d" % n for n in range(1, 6)]


@pytest.mark.parametrize("version", [0, 6, 99])
def test_b15_a_version_that_was_never_written_is_not_found(world: World, version: int) -> None:
    with pytest.raises(NotFound):
        world.records.get("b1", version)


def test_b16_b55_an_unknown_record_is_not_found(world: World) -> None:
    for read in (
        world.records.get,
        world.records.stat,
        world.records.open,
        lambda id: next(world.records.versions(id)),
    ):
        with pytest.raises(NotFound):
            read("unknown")


def test_b47_two_handles_see_each_others_writes(world: World) -> None:
    other = world.elsewhere()
    other.put("b1", LARGE)
    assert world.records.get("b1").body == LARGE
    world.records.put("b1", b"ours")
    assert other.get("b1").body == b"ours"


def test_b55_the_latest_version_ignores_records_whose_ids_share_a_prefix(world: World) -> None:
    world.records.put("b", b"x")
    world.records.put("b11", b"y")
    assert world.records.stat("b1").version == 5


@pytest.mark.parametrize("reverse", [False, True])
def test_versions_are_listed_in_order_without_opening_a_body(world: World, reverse: bool) -> None:
    world.records.put("b1", LARGE)
    listed = [version.version for version in world.records.versions("b1", reverse=reverse)]
    assert listed == sorted(range(1, 7), reverse=reverse)
    assert world.blobs.calls["get"] == 0


def test_stat_opens_no_body(world: World) -> None:
    world.records.put("b1", LARGE)
    assert world.records.stat("b1").size == len(LARGE)
    assert world.blobs.calls["get"] == 0


def test_b19_b40_a_call_to_an_unavailable_index_raises_unavailable(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise Unavailable("the index is away")

    monkeypatch.setattr(world.index, "query", fail)
    with pytest.raises(Unavailable):
        world.records.get("b1")
    with pytest.raises(Unavailable):
        world.records.update("b1", lambda body: body)


def test_b39_a_read_from_an_unavailable_blob_store_raises_unavailable(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(key: str) -> bytes:
        raise Unavailable("the blobs are away")

    world.records.put("b1", LARGE)
    monkeypatch.setattr(world.blobs, "get", fail)
    with pytest.raises(Unavailable):
        world.records.get("b1")


def test_b37_a_dangling_pointer_is_corrupt_for_each_read_of_the_body(world: World) -> None:
    world.records.put("b1", LARGE)
    world.lose_blobs()
    for read in (lambda: world.records.get("b1"), lambda: world.records.get("b1", 6)):
        with pytest.raises(Corrupt):
            read()
    with pytest.raises(Corrupt):
        world.records.update("b1", lambda body: body + b"!")
    assert world.records.stat("b1").version == 6


def test_b53_a_read_of_a_missing_body_is_not_retried(world: World) -> None:
    world.records.put("b1", LARGE)
    world.lose_blobs()
    world.blobs.calls.clear()
    with pytest.raises(Corrupt):
        world.records.get("b1")
    assert world.blobs.calls["get"] == 1


def test_b42_an_item_of_the_wrong_shape_is_corrupt(world: World) -> None:
    partition, sort = at(world, 6)
    world.backend.commit([Put(Item(partition, sort, {"c": 1}))])
    for read in (world.records.stat, world.records.get):
        with pytest.raises(Corrupt):
            read("b1")


def test_b41_an_inline_body_that_was_changed_is_corrupt(world: World) -> None:
    partition, sort = at(world, 5)
    item = world.backend.get(partition, sort)
    assert item is not None
    world.backend.commit([Put(Item(partition, sort, {**item.attributes, "b": b"forged"}))])
    with pytest.raises(Corrupt):
        world.records.get("b1")


def test_a_missing_version_is_corrupt_and_never_skipped(world: World) -> None:
    world.backend.commit([Delete(*at(world, 3))])
    with pytest.raises(Corrupt):
        world.records.get("b1", 3)
    for reverse in (False, True):
        with pytest.raises(Corrupt):
            list(world.records.versions("b1", reverse=reverse))


def test_b56_reads_of_the_latest_version_are_consistent(world: World) -> None:
    """The index reads consistently by default, and records never ask for an inconsistent read."""
    asked: list[object] = []
    query = world.index.query

    def watch(partition: str, **options: object) -> object:
        asked.append(options.get("consistent", True))
        return query(partition, **options)

    world.index.query = watch  # type: ignore[method-assign, assignment]
    world.records.get("b1")
    world.handle().put("b1", b"new")
    assert asked == [True, True]


def test_a_body_above_the_size_limit_of_a_get_is_not_downloaded(world: World) -> None:
    world.records.put("b1", LARGE)
    world.blobs.calls.clear()
    with pytest.raises(LimitExceeded):
        world.records.get("b1", size_max=len(LARGE) - 1)
    assert not world.blobs.calls
    assert world.records.get("b1", size_max=len(LARGE)).body == LARGE
