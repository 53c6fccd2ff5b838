"""`forget_below` reads the base snapshot back from storage before it raises the floor, even while others write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.documents import Document
from stratalog.documents.read_back import require_state
from stratalog.documents.snapshots import roots_of
from stratalog.errors import Corrupt
from stratalog.keys import number, snapshots_partition
from stratalog.log.retention import archive_segments
from stratalog.log.snapshots import newest_snapshot
from stratalog.ports.index import Delete
from tests.damage import DAMAGES, LOSE, damage_blob
from tests.documents.helpers import World, inc, large, put

FLOOR = 24


def grown(versions: int = 30) -> tuple[World, Document]:
    """A document with content in several chunks, and with old and new large values."""
    world = World(snapshot_entries_interval=10, segment_entries_target=8)
    document = world.create()
    document.apply([put(f"k/{key:04}", "v" * 60) for key in range(400)])
    document.apply([put("books/old", large("old"))])
    for version in range(document.version, versions):
        document.apply([put("books/new", large(f"new {version}")), inc()])
    return world, document


def states_of(world: World, first: int) -> dict[int, dict[str, object]]:
    document = world.open()
    return {version: document.at(version).to_dict() for version in range(first, document.log.head().version + 1)}


@pytest.mark.parametrize("how", DAMAGES)
def test_the_floor_does_not_rise_onto_a_damaged_base(how: str) -> None:
    world, document = grown()
    document.snapshot(FLOOR)
    refused = 0
    for key in world.blob_keys():
        world, document = grown()
        document.snapshot(FLOOR)
        list(document.scan())
        damage_blob(world.blobs.backend, key, how)
        try:
            floor = document.forget_below(FLOOR)
        except Corrupt as exc:
            refused += 1
            assert world.open().log.floor() == 0
            if key in exc.details.values():
                continue
        else:
            assert floor == FLOOR
        base = newest_snapshot(world.index, document.log.record.prefix, FLOOR)
        assert base is not None
        require_state(world.open().chunks, document.stored_values, roots_of(base))
    assert refused >= 2  # the comparison with the log writes the chunks again, but not the values


def test_raising_the_floor_also_reads_back_chunks_that_no_forgotten_entry_changed() -> None:
    world, document = grown()
    document.forget_below(10)
    document.snapshot(FLOOR)
    base = newest_snapshot(world.index, document.log.record.prefix, FLOOR)
    assert base is not None
    addresses = document.chunks.top(roots_of(base).content).addresses  # type: ignore[union-attr]
    damage_blob(world.blobs.backend, document.chunks.key(addresses[2]), LOSE)
    with pytest.raises(Corrupt):
        document.forget_below(FLOOR)
    assert world.open().log.floor() == 10


def test_damage_outside_the_base_does_not_stop_the_floor_from_rising() -> None:
    world, document = grown()
    document.apply([put("books/new", "small")])
    document.apply([put("books/latest", large("latest"))])
    (latest,) = (key for key in world.blob_keys("/items/") if b"latest" in world.blobs.get(key))
    damage_blob(world.blobs.backend, latest, LOSE)
    assert document.forget_below(FLOOR) == FLOOR


def test_a_roll_over_does_not_restart_the_verification_of_the_base() -> None:
    world, document = grown()
    writer, read, races = world.open(), list[int](), [0]

    def roll_over(name: str, target: str) -> None:
        if name == "commit" and "acme/doc name" in target and "forks" not in target and races[0] < 30:
            races[0] += 1
            world.recorder.before = None
            segment = writer.log.head().segment
            while writer.log.head().segment == segment:
                writer.apply([inc(client="bob")])
            world.recorder.before = roll_over

    world.recorder.before = roll_over
    assert document.forget_below(FLOOR, progress=read.append) == FLOOR
    assert (races[0], sum(read)) == (30, FLOOR)


def at_call(world: World, wanted: int, meanwhile: Callable[[], object]) -> list[int]:
    """Run ``meanwhile`` before port call number ``wanted``. Return a list with the number of calls so far."""
    calls = [0]

    def count(name: str, target: str) -> None:
        calls[0] += 1
        if calls[0] == wanted:
            world.recorder.before = None
            meanwhile()
            world.recorder.before = count

    world.recorder.before = count
    return calls


def test_raising_the_floor_succeeds_if_another_process_raises_the_floor_higher() -> None:
    call = 0
    while True:
        call += 2
        world, document = grown()
        other = world.open()
        calls = at_call(world, call, lambda other=other: other.forget_below(FLOOR + 4))  # type: ignore[misc]
        floor = document.forget_below(FLOOR)
        world.recorder.before = None
        if calls[0] < call:
            break
        assert floor in (FLOOR, FLOOR + 4)
        assert world.open().log.floor() == FLOOR + 4
        assert len(states_of(world, FLOOR + 4)) >= 2
    assert call > 50


def test_a_base_deleted_before_the_commit_of_the_floor_is_created_again() -> None:
    world, document = grown()
    deleted: list[str] = []

    def delete(name: str, target: str) -> None:
        if name == "commit" and target.startswith("acme/doc name") and len(deleted) < 3:
            deleted.append(target)
            world.backend.commit([Delete(snapshots_partition(document.log.record.prefix), number(FLOOR))])

    world.recorder.before = delete
    assert document.forget_below(FLOOR) == FLOOR
    assert len(deleted) == 3
    base = newest_snapshot(world.index, document.log.record.prefix, FLOOR)
    assert base is not None
    require_state(world.open().chunks, document.stored_values, roots_of(base))


def test_archived_history_is_forgotten_like_any_other() -> None:
    world, document = grown()
    archive_segments(document.log)
    assert document.forget_below(FLOOR) == FLOOR
    assert len(states_of(world, FLOOR)) >= 7
