"""A read of a log beside redaction, freeing and collection: no kept entry and no deleted snapshot is damage."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.backends.memory import MemoryQueue
from stratalog.errors import Corrupt, Unavailable, VersionForgotten
from stratalog.log import Event, Log, create_log, delete_log, open_log
from stratalog.log.retention import archive_segments, free_segments, raise_floor
from stratalog.log.verification import Finding
from stratalog.maintenance.collection import collect
from stratalog.maintenance.verification import HistoryName, verify_history
from stratalog.store import Store
from tests.documents.helpers import World
from tests.interleaving import interleaved

PARTS = [b"first" * 100, b"second" * 100]


def opened(world: World) -> Log:
    """Open the log as another process does."""
    return open_log(world.open_environment(), "acme", "log")


def grown() -> World:
    """A log of two segments of three versions, and a third segment. The first two segments are archived."""
    world = World(segment_entries_target=3, body_inline_bytes_max=100)
    log = create_log(world.environment, "acme", "log")
    for number in range(1, 8):
        log.append(Event("seen", number.to_bytes() + bytes(range(256))))
    archive_segments(log)
    world.clock.sleep(1000)
    return world


def free(world: World) -> None:
    free_segments(opened(world))
    assert collect(world.environment, "acme").failures == ()


def redact(world: World) -> None:
    """Erase version 5, so another archive replaces the one that also contains version 4. Then free both segments."""
    opened(world).redact(5)
    world.clock.sleep(1000)
    free(world)


def freed() -> World:
    world = grown()
    free(world)
    return world


@pytest.mark.parametrize("make", [grown, freed])
def test_an_archive_that_is_replaced_and_collected_during_a_read_is_not_damaged(make: Callable[[], World]) -> None:
    def hashes(world: World) -> list[bytes]:
        log = opened(world)
        return [entry.hash for entry in log.read(3)] + [log.entry(4).hash]

    results = list(interleaved(make, hashes, redact))
    assert len(results) > 5
    assert all(result == hashes(make()) for result in results)


def lose_blobs(world: World, folder: str) -> None:
    for key in world.blob_keys(folder):
        stat = world.blobs.stat(key)
        assert stat is not None
        world.blobs.delete(key, stat.stamp)


def test_an_entry_whose_archive_is_repaired_and_freed_during_a_read_is_not_damaged() -> None:
    def without_archives() -> World:
        world = grown()
        lose_blobs(world, "archive/")
        return world

    versions = interleaved(without_archives, lambda world: opened(world).entry(4).version, free)
    assert set(versions) == {4}


def test_an_archive_is_read_once_however_many_of_its_entries_are_damaged() -> None:
    world = freed()
    lose_blobs(world, "bodies/")
    log, recorder = opened(world), world.watched()
    for version in range(1, 7):
        with pytest.raises(Corrupt):
            log.entry(version)
    assert sum("/archive/" in key for key in recorder.named("blob get")) == 2


def saved() -> World:
    world = World(segment_entries_target=3)
    log = create_log(world.environment, "acme", "log")
    for number in range(1, 8):
        log.append(Event("seen", number))
    log.save_snapshot(4, PARTS)
    world.clock.sleep(1000)
    return world


def read_parts(world: World) -> object:
    log = opened(world)
    app_snapshot = log.app_snapshot(6)
    assert app_snapshot is not None
    try:
        return list(log.read_snapshot(app_snapshot)) == PARTS
    except (VersionForgotten, Unavailable) as exc:
        return type(exc)


def test_an_app_snapshot_that_is_forgotten_and_collected_during_a_read_is_not_damaged() -> None:
    def replace(world: World) -> None:
        log = opened(world)
        log.save_snapshot(6, [b"third" * 100])
        assert raise_floor(log, 6) == 6
        assert collect(world.environment, "acme").garbage

    results = set(interleaved(saved, read_parts, replace))
    assert VersionForgotten in results
    assert results <= {VersionForgotten, True, False}


def test_an_app_snapshot_that_is_deleted_by_a_redaction_and_collected_during_a_read_is_not_damaged() -> None:
    def redact_first(world: World) -> None:
        opened(world).redact(1)
        assert collect(world.environment, "acme").garbage

    world = saved()
    log = opened(world)
    app_snapshot = log.app_snapshot(6)
    assert app_snapshot is not None
    redact_first(world)
    with pytest.raises(Unavailable):
        list(log.read_snapshot(app_snapshot))


def test_an_app_snapshot_is_saved_although_the_parts_list_of_its_base_is_collected_meanwhile() -> None:
    def with_many_parts() -> World:
        world = saved()
        opened(world).save_snapshot(5, [number.to_bytes(2) for number in range(300)])
        world.clock.sleep(1000)
        return world

    def replace(world: World) -> None:
        log = opened(world)
        log.save_snapshot(6, [b"third"])
        assert raise_floor(log, 6) == 6
        assert collect(world.environment, "acme").garbage

    assert all(interleaved(with_many_parts, lambda world: opened(world).save_snapshot(7, PARTS), replace))


def test_a_lost_part_of_an_existing_app_snapshot_is_damage() -> None:
    world = saved()
    for key in world.blob_keys("app-snapshots/"):
        stat = world.blobs.stat(key)
        assert stat is not None
        world.blobs.delete(key, stat.stamp)
    with pytest.raises(Corrupt):
        read_parts(world)


@pytest.mark.parametrize("kind", ["log", "document"])
def test_a_log_that_is_deleted_and_created_again_during_its_verification_is_not_damaged(kind: str) -> None:
    def create_again(world: World) -> None:
        delete_log(opened(world))
        created(world)

    def created(world: World) -> World:
        create_log(world.environment, "acme", "log", kind)
        return world

    def verified(world: World) -> tuple[Finding, ...]:
        return verify_history(
            Store(world.open_environment(), MemoryQueue(world.clock)), HistoryName("log", "acme", "log")
        ).findings

    results = list(interleaved(lambda: created(World()), verified, create_again))
    assert len(results) > 5
    assert set(results) == {()}
