"""A prune hides old versions immediately, but never the latest version.

`Records.free` later deletes the hidden versions, and the blobs to which no version refers.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from stratalog.backends.memory import MemoryBlobs
from stratalog.clock import Observation
from stratalog.errors import ContentionError, Corrupt, Invalid, NotFound, VersionForgotten
from stratalog.limits import GRACE_SECONDS, OBSERVATION_SECONDS_MAX, RECORD_MARKS_MAX
from stratalog.log.environment import LogSettings
from stratalog.ports.index import Item, Put
from stratalog.records.floor import FLOOR_SORT, read_floor, store_floor
from stratalog.records.versions import Name
from tests.damage import DAMAGES, damaged_blob
from tests.records.helpers import World

CHANGES = 500
"""A caller that waits before each try reaches its deadline before another process makes this many changes."""


@pytest.fixture
def world(world: World) -> World:
    for n in range(1, 6):
        world.records.put("b1", large(n))
        world.pass_seconds(10)
    return world


def large(n: int) -> bytes:
    return random.Random(n).randbytes(20_000)


def numbers(world: World) -> list[int]:
    return [version.version for version in world.records.versions("b1")]


def stored(world: World, id: str = "b1") -> list[str]:
    return [item.sort.lstrip("0") for item in world.backend.query(world.partition(id))]


def test_b18_a_pruned_version_reads_as_forgotten_immediately(world: World) -> None:
    assert world.records.prune("b1", retain=2) == 4
    with pytest.raises(VersionForgotten):
        world.handle().get("b1", 3)
    assert world.handle().get("b1", 4).body == large(4)
    assert numbers(world) == [4, 5]
    assert [version.version for version in world.records.versions("b1", reverse=True)] == [5, 4]


def test_a_prune_of_many_versions_is_a_single_write(world: World) -> None:
    world.index.calls.clear()
    world.records.prune("b1", retain=1)
    assert world.index.calls["write"] == 1


def test_a_prune_before_a_time_retains_the_latest_version_of_that_time(world: World) -> None:
    third = world.records.stat("b1", 3)
    assert world.records.prune("b1", before_ms=third.created_ms + 1) == 3
    assert world.records.prune("b1", before_ms=third.created_ms - 1) == 3
    assert numbers(world) == [3, 4, 5]


def test_the_latest_version_is_never_pruned(world: World) -> None:
    with pytest.raises(Invalid):
        world.records.prune("b1", retain=0)
    assert world.records.prune("b1", before_ms=world.clock.now_ms * 2) == 5
    assert world.records.prune("b1", retain=1) == 5
    world.pass_seconds()
    assert world.records.free("b1") == 4
    assert world.records.get("b1").body == large(5)


def test_pruning_needs_a_single_rule_and_an_existing_record(world: World) -> None:
    for rules in ({}, {"retain": 1, "before_ms": 1}):
        with pytest.raises(Invalid):
            world.records.prune("b1", **rules)
    with pytest.raises(NotFound):
        world.records.prune("unknown", retain=1)


def test_pruning_never_lowers_the_floor(world: World) -> None:
    world.records.prune("b1", retain=1)
    assert world.records.prune("b1", retain=4) == 5


def test_nothing_is_freed_before_the_observation_and_the_grace_are_over(world: World) -> None:
    world.records.prune("b1", retain=2)
    world.pass_seconds(OBSERVATION_SECONDS_MAX + GRACE_SECONDS)
    assert world.records.free("b1") == 0
    world.pass_seconds(1)
    assert world.records.free("b1") == 3
    assert stored(world) == ["!floor", "4", "5"]
    assert world.records.free("b1") == 0


def test_versions_pruned_by_a_clock_that_was_far_ahead_are_freed_after_the_grace_period(world: World) -> None:
    now_ms = world.clock.wall_ms()
    world.clock.now_ms += 365 * 86_400_000
    world.records.prune("b1", retain=4)
    world.clock.now_ms = now_ms
    world.records.prune("b1", retain=3)
    assert world.records.free("b1") == 0
    world.records.prune("b1", retain=2)
    world.pass_seconds(OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1)
    assert world.records.free("b1") == 3


def test_a_free_marks_versions_again_that_a_clock_far_ahead_has_marked(world: World) -> None:
    now_ms = world.clock.wall_ms()
    world.clock.now_ms += 365 * 86_400_000
    world.records.prune("b1", retain=2)
    world.clock.now_ms = now_ms
    assert world.records.free("b1") == 0
    world.pass_seconds(OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1)
    assert world.records.free("b1") == 3


def test_a_process_whose_clock_is_days_behind_leaves_the_marks_of_versions_as_they_are(world: World) -> None:
    now_ms = world.clock.wall_ms()
    world.records.prune("b1", retain=2)
    world.clock.now_ms -= 20 * 86_400_000
    assert world.records.free("b1") == 0
    world.clock.now_ms = now_ms
    world.pass_seconds(OBSERVATION_SECONDS_MAX)
    assert world.records.free("b1") == 0
    world.pass_seconds(GRACE_SECONDS + 1)
    assert world.records.free("b1") == 3


def test_versions_of_each_prune_are_freed_after_the_grace_period_of_that_prune(world: World) -> None:
    world.records.prune("b1", retain=4)
    world.pass_seconds(400)
    world.records.prune("b1", retain=2)
    world.pass_seconds(400)
    assert world.records.free("b1") == 1
    world.pass_seconds(400)
    assert world.records.free("b1") == 2


def test_old_versions_of_a_record_pruned_after_every_put_are_eventually_freed(world: World) -> None:
    for n in range(RECORD_MARKS_MAX * 3):
        world.records.put("b2", b"%d" % n)
        world.records.prune("b2", retain=1)
        world.pass_seconds(10)
        world.records.free("b2")
    world.pass_seconds()
    world.records.free("b2")
    world.pass_seconds()
    world.records.free("b2")
    assert stored(world, "b2") == ["!floor", str(RECORD_MARKS_MAX * 3)]


def test_puts_continue_after_versions_were_freed(world: World) -> None:
    world.records.prune("b1", retain=1)
    world.pass_seconds()
    world.records.free("b1")
    assert world.handle().put("b1", b"new").version == 6
    assert numbers(world) == [5, 6]


def test_blobs_of_freed_versions_are_deleted(world: World) -> None:
    world.records.prune("b1", retain=2)
    world.pass_seconds()
    world.records.free("b1")
    assert len(world.blob_keys()) == 2


def test_a_blob_that_a_retained_version_shares_is_not_deleted(world: World) -> None:
    world.records.put("b1", large(1))
    world.records.prune("b1", retain=1)
    world.pass_seconds()
    world.records.free("b1")
    assert world.records.get("b1").body == large(1)
    assert len(world.blob_keys()) == 1


def test_an_old_blob_of_an_interrupted_put_is_deleted(world: World) -> None:
    def fail(commit: object) -> None:
        raise KeyboardInterrupt

    world.index.blob_bytes_max = 0  # so the writer puts the body before the commit
    world.index.script = [fail]
    with pytest.raises(KeyboardInterrupt):
        world.records.put("b1", large(9))
    world.records.free("b1")
    assert len(world.blob_keys()) == 6
    world.pass_seconds()
    world.records.free("b1")
    assert len(world.blob_keys()) == 5


def test_a_blob_put_again_during_a_collection_is_not_deleted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.records.prune("b1", retain=1)
    world.pass_seconds()
    stat = world.blobs.stat

    def stat_then_put(key: str) -> object:
        before = stat(key)
        world.handle().put("b1", large(2))
        return before

    monkeypatch.setattr(world.blobs, "stat", stat_then_put)
    world.records.free("b1")
    assert world.handle().get("b1").body == large(2)


def test_parts_of_a_retained_body_are_not_deleted(world: World) -> None:
    body = random.Random(1).randbytes(9 * 1024 * 1024)
    world.records.put("b2", iter([body]))
    world.pass_seconds()
    world.records.free("b2")
    assert world.records.get("b2").body == body


def test_undelete_of_a_pruned_version_raises_version_forgotten(world: World) -> None:
    world.records.delete("b1")
    world.records.prune("b1", retain=1)
    with pytest.raises(VersionForgotten):
        world.records.undelete("b1")


def test_an_undeleted_version_retains_its_blob_after_earlier_versions_are_freed(world: World) -> None:
    world.records.delete("b1")
    world.records.undelete("b1")
    world.records.prune("b1", retain=1)
    world.pass_seconds()
    world.records.free("b1")
    assert world.records.get("b1").body == large(5)


def test_an_undeletion_that_races_with_a_prune_raises_version_forgotten(world: World) -> None:
    def prune_first(commit: object) -> None:
        world.handle().prune("b1", retain=1)
        assert callable(commit)
        commit()

    world.records.delete("b1")
    world.index.script = [prune_first]
    with pytest.raises(VersionForgotten):
        world.records.undelete("b1")
    assert world.records.stat("b1").version == 6


def test_a_read_of_a_body_whose_version_was_freed_raises_version_forgotten(world: World) -> None:
    first, latest = world.records.open("b1", 1), world.records.open("b1")
    world.records.put("b1", large(6))
    world.records.prune("b1", retain=1)
    world.pass_seconds()
    world.records.free("b1")
    for reader in (first, latest):
        with pytest.raises(VersionForgotten):
            b"".join(reader)


def test_a_listing_during_freeing_continues_with_the_retained_versions(world: World) -> None:
    for n in range(250):
        world.records.put("b2", b"%d" % n)
    listing = world.records.versions("b2")
    seen = [next(listing).version]
    world.records.prune("b2", retain=10)
    world.pass_seconds()
    world.records.free("b2")
    seen += [version.version for version in listing]
    assert seen == [1, *range(241, 251)]


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("retained", [4, 5])
def test_a_prune_is_refused_while_the_body_of_a_retained_version_is_damaged(how: str, retained: int) -> None:
    """An older version may be the only undamaged version."""
    world = World()
    for n in range(1, 6):
        world.records.put("b1", large(n))
        world.pass_seconds(10)
    blobs = world.blobs._backend
    assert isinstance(blobs, MemoryBlobs)
    (key,) = (stat.key for stat in blobs.list("") if blobs.get(stat.key) == large(retained))
    with damaged_blob(blobs, key, how):
        with pytest.raises(Corrupt) as caught:
            world.records.prune("b1", retain=2)
        assert caught.value.details["key"] == key
        assert world.handle().get("b1", 3).body == large(3)
    assert world.records.prune("b1", retain=2) == 4


def test_two_concurrent_prunes_retain_only_versions_that_both_retain(world: World) -> None:
    def prune_first(commit: object) -> None:
        world.handle().prune("b1", retain=3)
        assert callable(commit)
        commit()

    world.index.script = [prune_first]
    assert world.records.prune("b1", retain=2) == 4
    assert numbers(world) == [4, 5]


def change_floor(world: World) -> None:
    """Write the floor again with another revision, as another process does when it marks or frees versions."""
    environment, name = world.elsewhere().environment, Name(world.organisation, "b1")
    store_floor(environment, name, read_floor(environment.index, name))


@pytest.mark.parametrize(("call", "commits"), [("prune", 0), ("free", 0), ("free", 2)])
def test_a_prune_or_free_that_loses_every_race_raises_contention_error_at_its_deadline(call: str, commits: int) -> None:
    """Another process changes the floor before each commit after the first ``commits`` commits.

    `Records.free` makes three commits: it marks the floor, deletes versions, and marks the floor again.
    """
    world = World(LogSettings(append_seconds_max=5.0))
    for n in range(1, 4):
        world.records.put("b1", large(n))
    if call == "free":
        world.records.prune("b1", retain=2)
        world.pass_seconds()

    changes = [0] * CHANGES

    def change_first(commit: Callable[[], None]) -> None:
        changes.pop()
        world.index.script = [change_first] if changes else []
        change_floor(world)
        commit()

    world.index.script = [*[lambda commit: commit()] * commits, change_first]
    begun = Observation(world.clock)
    with pytest.raises(ContentionError):
        world.records.prune("b1", retain=1) if call == "prune" else world.records.free("b1")
    assert changes
    assert 5 <= begun.age_seconds() < 7
    world.index.script = []
    assert world.records.prune("b1", retain=1) == 3
    world.pass_seconds()
    world.records.free("b1")
    assert world.item(2) is None


@pytest.mark.parametrize("damage", [{"v": None}, {"p": None}, {"p": b"\xc1"}, {"r": None}])
def test_a_floor_that_does_not_decode_is_corrupt(world: World, damage: dict[str, bytes | None]) -> None:
    world.records.prune("b1", retain=2)
    item = world.backend.get(world.partition(), FLOOR_SORT)
    assert item is not None
    attributes = {name: value for name, value in {**item.attributes, **damage}.items() if value is not None}
    world.backend.commit([Put(Item(item.partition, item.sort, attributes))])
    with pytest.raises(Corrupt):
        world.handle().prune("b1", retain=1)
