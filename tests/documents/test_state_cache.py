"""No older state replaces the cached state of a handle, and this state never moves onto an older snapshot."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Never

import pytest

from stratalog.documents import Document
from stratalog.documents.snapshots import LOOKS_MAX
from stratalog.documents.state import State
from stratalog.documents.state_cache import StateCache
from stratalog.errors import Corrupt, Invalid, NotFound, Unavailable, VersionForgotten
from stratalog.keys import snapshots_partition
from stratalog.log.head import Head
from stratalog.log.snapshots import Snapshot
from stratalog.ports.index import Delete
from tests.documents.helpers import World, inc


def grown(world: World, versions: int) -> tuple[Document, StateCache]:
    """A document with ``versions`` versions, and an empty cache of its states."""
    document = world.create()
    for _ in range(versions):
        document.apply([inc()])
    return document, StateCache(document.log, document.chunks)


def held(states: StateCache) -> tuple[int, int]:
    """The version of the cached state and the version of its snapshot."""
    state = states.cached
    assert state is not None
    return state.version, state.snapshot_version


def after(document: Document, state: State) -> State:
    """The state after the next entry."""
    return state.after(document.log.read(state.version, state.version + 1))


def test_no_state_is_cached_before_the_first_read() -> None:
    _, states = grown(World(), 1)
    assert states.cached is None
    assert states.fresh() is states.cached


def test_a_state_at_the_head_is_shared() -> None:
    _, states = grown(World(), 3)
    assert states.fresh() is states.fresh() is states.at(3) is states.cached


def test_a_state_below_the_head_is_loaded_and_not_cached() -> None:
    _, states = grown(World(), 3)
    assert states.at(2).version == 2
    assert states.cached is None


def test_an_older_state_does_not_replace_a_newer_one() -> None:
    _, states = grown(World(), 3)
    older, newest = states.load(2), states.fresh()
    assert states.offer(older) is newest is states.cached


def test_an_older_state_is_not_cached_after_a_newer_state_was_dropped() -> None:
    _, states = grown(World(), 3)
    older = states.load(2)
    states.drop(states.fresh())
    states.offer(older)
    assert states.cached is None
    assert states.fresh().version == 3


def test_dropping_an_outdated_state_does_not_drop_a_newer_cached_state() -> None:
    world = World()
    document, states = grown(world, 1)
    old = states.fresh()
    world.open().apply([inc()])
    states.fresh()
    states.drop(old)
    assert held(states) == (2, 0)
    assert document.version == 2


def test_a_state_on_an_older_snapshot_moves_onto_the_newer_one() -> None:
    world = World(snapshot_entries_interval=1000)
    document, states = grown(world, 3)
    old = states.fresh()
    document.snapshot()
    states.move_onto(document.state())
    assert (old.snapshot_version, *held(states)) == (0, 3, 3)
    document.apply([inc()])
    states.offer(after(document, old))
    assert held(states) == (4, 3)
    assert states.fresh().slot("n") == document.state().slot("n")


def test_a_newer_state_does_not_move_onto_the_snapshot_of_a_stale_state() -> None:
    world = World(snapshot_entries_interval=1000)
    document, states = grown(world, 3)
    old = states.load(3)
    document.snapshot()
    states.fresh().stale = True
    assert held(states) == (3, 3)
    document.apply([inc()])
    states.offer(after(document, old))
    assert held(states) == (4, 0)


def test_the_cached_state_does_not_move_onto_a_later_or_an_older_snapshot() -> None:
    world = World(snapshot_entries_interval=1000)
    document, states = grown(world, 3)
    states.fresh()
    document.apply([inc()])
    document.snapshot()
    states.move_onto(document.state())
    assert held(states) == (3, 0)
    assert states.fresh().version == 4
    states.move_onto(document.state())
    document.snapshot(2)
    states.move_onto(states.load(2))
    assert held(states) == (4, 4)


def test_a_stale_state_is_loaded_again() -> None:
    _, states = grown(World(), 2)
    stale = states.fresh()
    stale.stale = True
    assert states.at(2) is not stale
    assert states.fresh() is not stale
    assert held(states) == (2, 0)


def test_a_state_far_behind_is_loaded_from_a_newer_snapshot() -> None:
    world = World(snapshot_entries_interval=4)
    _, states = grown(world, 1)
    states.fresh()
    other = world.open()
    for _ in range(5):
        other.apply([inc()])
    states.fresh()
    assert held(states) == (6, 4)


@pytest.mark.parametrize(("base", "left"), [(3, None), (2, 3)])
def test_drop_base_drops_only_a_cached_state_on_that_base(base: int, left: int | None) -> None:
    document, states = grown(World(snapshot_entries_interval=1000), 3)
    document.snapshot()
    states.fresh()
    states.drop_base(base)
    state = states.cached
    assert (state.version if state else None) == left


@pytest.mark.parametrize("version", [-1, True, 1.0, "1"])
def test_a_version_is_a_whole_number(version: int) -> None:
    _, states = grown(World(), 1)
    with pytest.raises(Invalid):
        states.at(version)


def test_a_version_beyond_the_head_is_not_found() -> None:
    _, states = grown(World(), 2)
    with pytest.raises(NotFound, match="head=2"):
        states.at(3)


def test_a_version_below_the_floor_is_forgotten() -> None:
    document, states = grown(World(segment_entries_target=2), 6)
    document.forget_below(4)
    with pytest.raises(VersionForgotten):
        states.at(3)
    assert states.at(4).version == 4


@pytest.mark.parametrize(("often", "raises"), [(1, None), (LOOKS_MAX, Unavailable)])
def test_a_floor_that_rises_while_the_head_is_read_is_read_again(often: int, raises: type[Exception] | None) -> None:
    world = World(segment_entries_target=2)
    document, states = grown(world, 6)
    other, heads = world.open(), document.log.head

    def head_then_forgotten() -> Head:
        head = heads()
        if len(floors) < often:
            other.apply([inc(), inc()])
            other.apply([inc()])
            floors.append(other.forget_below(other.version))
        return head

    floors: list[object] = []
    with pytest.MonkeyPatch.context() as patch, pytest.raises(raises) if raises else nullcontext():
        patch.setattr(document.log, "head", head_then_forgotten)
        assert states.fresh().version == other.version
    assert len(floors) == often


def test_a_floor_that_rises_while_a_state_is_loaded_is_read_again() -> None:
    """The version asked for stays above the floor. The load needs entries below it, which are freed meanwhile."""
    world = World(segment_entries_target=2, snapshot_entries_interval=1000)
    document, states = grown(world, 1)
    document.snapshot()
    for _ in range(3):
        document.apply([inc()])
    other, newest_snapshot = world.open(), document.log.snapshot_at

    def snapshot_then_freed(version: int) -> Snapshot | None:
        snapshot = newest_snapshot(version)
        if not floors:
            floors.append(other.forget_below(2))
            world.clock.sleep(1000)
            assert other.free_segments()
        return snapshot

    floors: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document.log, "snapshot_at", snapshot_then_freed)
        assert states.at(4).slot("n") == other.state(4).slot("n")
    assert floors == [2]


def test_a_floor_that_rises_during_each_load_makes_the_state_unavailable() -> None:
    document, states = grown(World(), 2 * LOOKS_MAX)
    floors = iter(range(2 * LOOKS_MAX))

    def forgotten(*args: object, **kwargs: object) -> Never:
        raise VersionForgotten("the version is no longer kept")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document.log, "read", forgotten)
        patch.setattr(document.log, "floor", partial(next, floors))
        with pytest.raises(Unavailable):
            states.load(2 * LOOKS_MAX)
    assert next(floors) == LOOKS_MAX


def test_a_lost_base_is_reported_as_damage_and_not_as_forgotten_history() -> None:
    """Nobody raises the floor, so another read would fail too."""
    world = World()
    document, states = grown(world, 3)
    document.forget_below(2)
    index, partition = world.environment.index, snapshots_partition(document.log.record.prefix)
    index.commit([Delete(partition, item.sort) for item in list(index.query(partition))])
    with pytest.raises(Corrupt, match="floor=2"):
        states.fresh()
