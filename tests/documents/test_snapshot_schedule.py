"""The schedule of snapshots: the version at which a snapshot is due, the thread that takes it, and failed snapshots."""

from __future__ import annotations

import pytest

from stratalog.documents import Document
from stratalog.documents.snapshot_schedule import SnapshotSchedule
from stratalog.documents.state_cache import StateCache
from stratalog.errors import Corrupt, NotFound, OutcomeUnknown, StratalogError, Unavailable, VersionForgotten
from stratalog.log import LogSettings
from stratalog.log.snapshots import list_snapshots
from tests.documents.helpers import World, inc

INTERVAL = 3
NONE_DUE = 1000


def grown(versions: int) -> tuple[World, Document]:
    """A document with ``versions`` versions and no snapshot."""
    world = World(snapshot_entries_interval=NONE_DUE)
    document = world.create()
    for _ in range(versions):
        document.apply([inc()])
    return world, document


def scheduled(world: World, document: Document, interval: int = INTERVAL) -> tuple[SnapshotSchedule, StateCache]:
    """A new schedule and a new state cache over the document's log. The cache holds the newest state."""
    states = StateCache(document.log, document.chunks)
    states.fresh()
    world.environment.settings = LogSettings(snapshot_entries_interval=interval, append_seconds_max=0.01)
    return SnapshotSchedule(document.log, states), states


def snapshots(document: Document) -> list[int]:
    log = document.log
    return [snapshot.version for snapshot in list_snapshots(log.environment.index, log.record.prefix)]


@pytest.mark.parametrize(("versions", "made"), [(INTERVAL - 1, []), (INTERVAL, [INTERVAL])])
def test_a_snapshot_is_due_an_interval_after_the_beginning(versions: int, made: list[int]) -> None:
    world, document = grown(versions)
    schedule, states = scheduled(world, document)
    schedule.begin_if_due()
    assert snapshots(document) == made
    assert states.fresh().snapshot_version == sum(made)


@pytest.mark.parametrize(("after", "made"), [(INTERVAL - 1, []), (INTERVAL, [4 + INTERVAL])])
def test_a_forks_first_snapshot_is_due_an_interval_after_the_fork(after: int, made: list[int]) -> None:
    world, document = grown(4)
    fork = document.fork("fork")
    for _ in range(after):
        fork.apply([inc()])
    schedule, _ = scheduled(world, fork)
    schedule.begin_if_due()
    assert snapshots(fork) == made


@pytest.mark.parametrize(("mutations", "made"), [(999, []), (1000, [10])])
def test_a_snapshot_is_due_after_few_entries_of_many_mutations(mutations: int, made: list[int]) -> None:
    world, document = grown(0)
    for _ in range(10):
        document.apply([inc() for _ in range(mutations)])
    schedule, _ = scheduled(world, document, interval=500)
    schedule.begin_if_due()
    assert snapshots(document) == made


def test_the_interval_counts_from_another_processs_snapshot() -> None:
    world, document = grown(INTERVAL)
    schedule, states = scheduled(world, document)
    world.open().snapshot(INTERVAL - 1)
    schedule.begin_if_due()
    assert snapshots(document) == [INTERVAL - 1]
    assert states.fresh().snapshot_version == INTERVAL - 1


def test_no_snapshot_is_due_without_a_cached_state() -> None:
    world, document = grown(INTERVAL)
    schedule, states = scheduled(world, document)
    states.drop(states.cached)
    schedule.begin_if_due()
    assert snapshots(document) == []


def test_a_writer_leaves_a_snapshot_to_a_later_commit_while_another_thread_takes_one() -> None:
    world, document = grown(INTERVAL)
    schedule, _ = scheduled(world, document)
    with schedule._lock:
        schedule.begin_if_due()
    assert snapshots(document) == []
    schedule.begin_if_due()
    assert snapshots(document) == [INTERVAL]


@pytest.mark.parametrize("error", [Unavailable("no"), OutcomeUnknown("no"), Corrupt("no"), NotFound("no")])
def test_a_snapshot_that_fails_is_counted_and_due_again(error: StratalogError) -> None:
    world, document = grown(INTERVAL)
    schedule, states = scheduled(world, document)

    def refuse(name: str, target: str) -> None:
        raise error

    world.recorder.before = refuse
    schedule.begin_if_due()
    world.recorder.before = None
    assert world.environment.counters["snapshot failed"] == 1
    assert not schedule._lock.locked()
    states.fresh()
    world.clock.sleep(60)
    schedule.begin_if_due()
    assert snapshots(document) == [INTERVAL]


@pytest.mark.parametrize(("error", "is_held"), [(Unavailable("no"), True), (Corrupt("no"), False)])
def test_a_corrupt_error_of_a_snapshot_drops_the_cached_state_and_an_outage_does_not(
    error: StratalogError, is_held: bool
) -> None:
    world, document = grown(INTERVAL)
    schedule, states = scheduled(world, document)

    def refuse(name: str, target: str) -> None:
        raise error

    world.recorder.before = refuse
    schedule.begin_if_due()
    assert (states.cached is not None) is is_held


def test_an_interrupt_during_a_snapshot_is_raised_and_releases_the_lock() -> None:
    world, document = grown(INTERVAL)
    schedule, _ = scheduled(world, document)

    def interrupt(name: str, target: str) -> None:
        raise KeyboardInterrupt

    world.recorder.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        schedule.begin_if_due()
    assert not schedule._lock.locked()


def test_a_requested_snapshot_raises_its_error() -> None:
    world, document = grown(INTERVAL)
    schedule, _ = scheduled(world, document)

    def refuse(name: str, target: str) -> None:
        if name == "commit":
            raise Unavailable("no")

    world.recorder.before = refuse
    with pytest.raises(Unavailable):
        schedule.take()
    assert not schedule._lock.locked()
    assert snapshots(document) == []


def test_the_cached_state_moves_onto_the_snapshot_just_taken() -> None:
    world, document = grown(INTERVAL)
    schedule, states = scheduled(world, document)
    assert schedule.take(2) == 2
    held = states.cached
    assert held is not None
    assert (held.version, held.snapshot_version) == (INTERVAL, 2)


def test_a_state_whose_snapshot_was_forgotten_is_loaded_again() -> None:
    world, document = grown(INTERVAL)
    document.snapshot(2)
    schedule, states = scheduled(world, document, NONE_DUE)
    for _ in range(INTERVAL):
        document.apply([inc()])
    assert states.fresh().snapshot_version == 2
    world.open().forget_below(INTERVAL)
    with pytest.raises(VersionForgotten):
        schedule.take(2)
    assert schedule.take(2 * INTERVAL) == 2 * INTERVAL
    assert snapshots(document) == [INTERVAL, 2 * INTERVAL]
    assert states.fresh().snapshot_version == 2 * INTERVAL


def test_take_base_takes_the_snapshot_at_the_floor() -> None:
    world, document = grown(INTERVAL)
    schedule, _ = scheduled(world, document)
    schedule.take_base(2)
    assert snapshots(document) == [2]


def test_an_older_snapshot_is_no_base(monkeypatch: pytest.MonkeyPatch) -> None:
    world, document = grown(INTERVAL)
    document.snapshot(1)
    schedule, _ = scheduled(world, document)
    monkeypatch.setattr("stratalog.documents.snapshot_schedule.take_snapshot", lambda log, state, pause=None: state)
    with pytest.raises(Unavailable, match="base snapshot could not be made"):
        schedule.take_base(2)
