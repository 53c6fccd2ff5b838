"""Tests of snapshots: the interval, retries, the order of old and new snapshots, and the base of a floor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from stratalog.cache import ByteCache
from stratalog.codec import encode
from stratalog.documents import Document, Rules, verify
from stratalog.documents.snapshots import roots_of, take_snapshot
from stratalog.documents.state import EMPTY_ROOTS
from stratalog.errors import (
    ContentionError,
    Corrupt,
    Invalid,
    NotFound,
    OutcomeUnknown,
    StratalogError,
    Unavailable,
    VersionForgotten,
)
from stratalog.keys import number, snapshots_partition
from stratalog.limits import GRACE_SECONDS, OBSERVATION_SECONDS_MAX
from stratalog.log.lifecycle import delete_log
from stratalog.log.names import read_name
from stratalog.log.retention import raise_floor_onto
from stratalog.log.snapshots import list_snapshots
from stratalog.log.sweep import sweep_deleted
from stratalog.maintenance.collection import collect_family
from stratalog.maintenance.marks import Marking, Reached
from stratalog.ports.index import Item, Put
from stratalog.tree.nodes import Slot
from stratalog.tree.update import update
from tests.documents.helpers import World, inc, large, put, statuses


def snapshots(document: Document) -> list[int]:
    return [snapshot.version for snapshot in list_snapshots(document.log.environment.index, document.log.record.prefix)]


def test_the_writer_that_crosses_the_interval_makes_the_snapshot() -> None:
    world = World(snapshot_entries_interval=5)
    document = world.create()
    for _ in range(17):
        document.apply([inc()])
    assert snapshots(document) == [5, 10, 15]


def test_the_interval_counts_from_another_processs_snapshot() -> None:
    world = World(snapshot_entries_interval=5)
    first, second = world.create(), world.open()
    for _ in range(4):
        first.apply([inc()])
    second.apply([inc(client="bob")])
    assert snapshots(first) == [5]
    first.apply([inc()])
    assert snapshots(first) == [5]
    for _ in range(4):
        first.apply([inc()])
    assert snapshots(first) == [5, 10]


@pytest.mark.parametrize("broken", ["blob put", "snapshots"])
@pytest.mark.parametrize("error", [Unavailable("no"), Corrupt("no"), NotFound("no")])
def test_a_failed_snapshot_does_not_fail_its_commit_and_a_later_commit_takes_the_snapshot(
    broken: str, error: StratalogError
) -> None:
    world = World(snapshot_entries_interval=5, append_seconds_max=0.01)
    document = world.create()
    document.apply([put(f"c/{n}", "x" * 900) for n in range(50)])
    for _ in range(3):
        document.apply([inc()])

    def refuse(name: str, target: str) -> None:
        if broken in (name, target.split("/")[-1].split(" ")[0]):
            raise error

    world.recorder.before = refuse
    assert statuses(document.apply([inc()])) == ["applied"]
    world.recorder.before = None
    assert snapshots(document) == []
    world.clock.sleep(60)
    document.apply([inc()])
    assert snapshots(document) == [6]
    assert world.open().get("n") == 5


def test_a_state_over_a_newer_snapshot_counts_the_changes_after_it() -> None:
    document = World(snapshot_entries_interval=100).create()
    document.apply([put("a", 1), put("b", 1), put("b", 2)])
    document.snapshot()
    document.apply([put("c", 1), put("d", 1)])
    newer = document.state()
    assert newer.changes == 2
    base = document.state(1)
    assert newer.onto(1, base.roots).changes == 2
    assert newer.onto(2, take_snapshot(document.log, newer).roots).changes == 0


def test_an_older_snapshot_never_replaces_a_newer_snapshot() -> None:
    world = World(snapshot_entries_interval=100)
    document = world.create()
    for n in range(4):
        document.apply([put("a", n)])
    slow, old = world.open(), world.open().state(2)
    document.snapshot()
    assert take_snapshot(slow.log, old).version == 2
    assert snapshots(document) == [2, 4]
    assert world.open().state().snapshot_version == 4
    assert world.open().get("a") == 3


def test_an_existing_snapshot_is_not_taken_again() -> None:
    world = World(snapshot_entries_interval=100)
    document = world.create()
    document.apply([inc()])
    assert document.snapshot() == document.snapshot(1) == 1
    assert world.environment.counters["snapshot"] == 1


def test_a_snapshot_whose_base_was_deleted_meanwhile_is_not_stored() -> None:
    world = World(snapshot_entries_interval=100, segment_entries_target=2)
    document = world.create()
    for n in range(3):
        document.apply([put("a", n)])
    document.snapshot()
    held = world.open().state()
    for n in range(3):
        document.apply([put("a", n)])
    document.forget_below(6)
    take_snapshot(document.log, held)
    assert snapshots(document) == [6]


def take_slow_snapshot(world: World, document: Document, meanwhile: Callable[[], object]) -> None:
    """Take the snapshot of version 3 in another process, and run ``meanwhile`` before the first put of a chunk."""
    slow = world.open(document.log.record.name)
    state = slow.state(3)

    def sleep(name: str, target: str) -> None:
        if name == "blob put":
            world.recorder.before = None
            meanwhile()

    world.recorder.before = sleep
    try:
        take_snapshot(slow.log, state)
    finally:
        assert world.recorder.before is None


def forget_and_collect(world: World, document: Document, version: int) -> None:
    document.forget_below(version)
    for _ in range(2):
        world.clock.sleep(OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1)
        document.free_segments()
    assert collect_family(world.environment, document.log.record.owner).garbage


def refers_to_present_data(world: World, owner: str) -> bool:
    """Return whether every blob that the family refers to exists."""
    marked = set[str]()
    Marking(world.environment, owner, marked.add, Reached(), set(), lambda: None).run()
    return {f"{owner}/{name}" for name in marked} <= set(world.blob_keys())


def overwrite(document: Document, versions: int) -> None:
    """Commit ``versions`` versions of the document. Each version replaces the same large value."""
    for n in range(versions):
        document.apply([put("c/large", large(f"{document.log.record.name} {n}"))])


def furnished(world: World) -> Document:
    document = world.create()
    document.apply([put(f"c/{n}", "small " * 20) for n in range(100)])
    return document


def test_a_snapshot_without_a_base_is_not_stored_below_a_concurrently_raised_floor() -> None:
    world = World(snapshot_entries_interval=1000, segment_entries_target=2)
    document = furnished(world)
    overwrite(document, 8)
    take_slow_snapshot(world, document, lambda: forget_and_collect(world, document, 8))
    assert snapshots(document) == [8]
    assert refers_to_present_data(world, document.log.record.owner)


def test_a_snapshot_of_a_fork_is_not_stored_below_a_concurrently_raised_floor() -> None:
    world = World(snapshot_entries_interval=1000, segment_entries_target=2)
    parent = furnished(world)
    parent.snapshot()
    parent.fork("fork")
    fork = world.open("fork")
    overwrite(fork, 8)
    take_slow_snapshot(world, fork, lambda: forget_and_collect(world, fork, 8))
    assert snapshots(fork) == [8]
    assert refers_to_present_data(world, fork.log.record.owner)


def test_a_snapshot_is_not_stored_in_a_log_that_was_deleted_meanwhile() -> None:
    world = World(snapshot_entries_interval=1000)
    document = furnished(world)
    overwrite(document, 4)

    def delete() -> None:
        delete_log(document.log)
        world.clock.sleep(OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1)
        assert sweep_deleted(world.environment, "acme") == 1

    with pytest.raises(NotFound):
        take_slow_snapshot(world, document, delete)
    assert snapshots(document) == []


def test_a_snapshot_is_stored_although_its_log_rolls_over_meanwhile() -> None:
    world = World(snapshot_entries_interval=1000, segment_entries_target=2)
    document = furnished(world)
    revisions = [read_name(world.index, "acme", "doc")]

    def roll_over(name: str, target: str) -> None:
        if name == "commit" and "/snapshots" in target:
            world.recorder.before = None
            overwrite(world.open(), 5)
            revisions.append(read_name(world.index, "acme", "doc"))

    world.recorder.before = roll_over
    assert take_snapshot(document.log, document.state()).snapshot_version == 1
    assert snapshots(document) == [1]
    assert revisions[0] != revisions[1]


def test_losing_every_snapshot_costs_time_and_no_data() -> None:
    world = World(snapshot_entries_interval=3)
    document = world.create()
    for n in range(20):
        document.apply([put(f"c/{n % 7}", n)])
    expected = document.at().to_dict()
    for version in snapshots(document):
        world.backend._partitions[snapshots_partition(document.log.record.prefix)].delete(number(version))
    assert world.open().at().to_dict() == expected


@pytest.mark.parametrize("tree", ["content", "clients", "tombstones"])
def test_verify_detects_a_tampered_snapshot(tree: str) -> None:
    world = World(snapshot_entries_interval=5)
    document = world.create()
    for n in range(12):
        document.apply([put(f"c/{n}", n)])
    verified = verify(document)
    assert (verified.version, verified.start, verified.snapshots) == (12, 0, 2)
    snapshot = next(list_snapshots(world.backend, document.log.record.prefix))
    roots = roots_of(snapshot)
    forged = update(document.chunks, getattr(roots, tree), {"c/1": Slot(encode("forged"), 2)})
    replaced: Any = {**{name: getattr(roots, name) for name in roots.__struct_fields__}, tree: forged}
    partition = snapshots_partition(snapshot.prefix)
    item = Item(partition, number(5), {"c": 1, "w": "forged", "b": encode(type(roots)(**replaced)), "h": snapshot.hash})
    world.backend.commit([Put(item)])
    with pytest.raises(Corrupt, match=f"{tree} contradicts its log"):
        verify(world.open())


def test_verify_computes_the_same_root_for_any_snapshot_interval() -> None:
    roots = set()
    for interval in (1, 2, 7, 100):
        world = World(snapshot_entries_interval=interval, segment_entries_target=5)
        document = world.create()
        for n in range(25):
            document.apply([put(f"c/{n % 9}", n), put("c/large", large(str(n)))])
            document.mutate("del", {"key": f"c/{(n + 3) % 9}"}, client="bob")
        roots.add((verify(document).root, verify(document).digest))
    assert len(roots) == 1


def grown(world: World, versions: int = 40) -> Document:
    document = world.create()
    for n in range(versions):
        document.apply([put(f"c/{n % 5}", large(str(n))), inc(client="bob")])
    return document


def change_snapshot(world: World, document: Document, version: int) -> None:
    """Replace the content root in the snapshot of a version with the empty root."""
    snapshot = document.log.snapshot_at(version)
    assert snapshot is not None
    roots = msgspec.structs.replace(roots_of(snapshot), content=EMPTY_ROOTS.content)
    item = world.backend.get(snapshots_partition(document.log.record.prefix), number(version))
    assert item is not None
    changed = msgspec.structs.replace(item, attributes={**item.attributes, "b": encode(roots)})
    world.backend.commit([Put(changed)])


def test_history_below_a_verified_base_is_forgotten() -> None:
    world = World(snapshot_entries_interval=10, segment_entries_target=8)
    document = grown(world)
    states = {version: document.at(version).to_dict() for version in range(41)}
    read: list[int] = []
    assert document.forget_below(33, progress=read.append) == 33
    assert sum(read) == 33
    world.clock.sleep(1000)
    assert document.free_segments() >= 3
    reader = world.open()
    assert {version: reader.at(version).to_dict() for version in range(33, 41)} == {
        version: states[version] for version in range(33, 41)
    }
    with pytest.raises(VersionForgotten):
        reader.at(5)
    assert verify(reader).start == 33
    assert reader.mutate("inc", {"key": "n"}, client="bob").id == 41


def test_no_version_is_forgotten_if_the_base_contradicts_the_log() -> None:
    world = World(snapshot_entries_interval=10, segment_entries_target=8)
    document = grown(world)
    document.snapshot(33)
    change_snapshot(world, document, 33)
    with pytest.raises(Corrupt, match="contradicts its log"):
        world.open().forget_below(33)
    assert world.open().log.floor() == 0
    assert world.open().at(1).get("n") == 1


def test_forget_below_a_version_under_the_floor_changes_nothing() -> None:
    world = World(snapshot_entries_interval=10, segment_entries_target=8)
    document = grown(world)
    document.forget_below(30)
    version = document.version
    assert document.forget_below(20) == 30
    assert (document.version, version) == (42, 42)


def test_an_entry_names_the_base_before_the_floor_rises() -> None:
    world = World(snapshot_entries_interval=10, segment_entries_target=7, append_seconds_max=0.01)
    document = grown(world)

    def crash(name: str, target: str) -> None:
        if name == "commit" and target.startswith("acme/doc name"):
            raise Unavailable("the process ends here")

    world.recorder.before = crash
    with pytest.raises((Unavailable, ContentionError)):
        document.forget_below(30)
    world.recorder.before = None
    reader = world.open()
    (event,) = reader.log.entry(reader.version).events
    assert (event.type, event.data[0], reader.log.floor(), reader.state().floor) == ("base", 30, 0, 0)
    assert reader.forget_below(30) == 30
    assert (verify(reader).start, reader.state().floor) == (30, 30)


def test_a_crash_between_a_raised_floor_and_its_entry_is_repaired() -> None:
    world = World(snapshot_entries_interval=10, segment_entries_target=7, append_seconds_max=0.01)
    document = grown(world)
    raised: list[str] = []

    def crash(name: str, target: str) -> None:
        if name == "commit" and target.startswith("acme/doc name"):
            raised.append(target)
            world.recorder.before = refuse

    def refuse(name: str, target: str) -> None:
        if name == "commit" and target.split("/")[-1].split(" ")[0].isdigit():
            raise Unavailable("the process ends here")

    world.recorder.before = crash
    with pytest.raises(OutcomeUnknown):  # Unavailable would mean that nothing was written
        document.forget_below(30)
    world.recorder.before = None
    assert raised
    reader = world.open()
    assert (reader.log.floor(), reader.state().floor) == (30, 0)
    assert reader.forget_below(30) == 30
    assert (reader.state().floor, verify(reader).start) == (30, 30)


def test_verify_detects_a_tampered_base() -> None:
    world = World(snapshot_entries_interval=10, segment_entries_target=8)
    document = grown(world)
    document.forget_below(30)
    change_snapshot(world, document, 30)
    with pytest.raises(Corrupt, match="base"):
        verify(world.open())


def test_verify_begins_at_a_raised_floor_that_no_entry_records_yet() -> None:
    world = World(snapshot_entries_interval=10, segment_entries_target=8)
    document = grown(world)
    stale = world.open()
    assert verify(stale).start == 0
    raise_floor_onto(document.log, 30, document._snapshots.take_base)
    assert stale.state().floor == 0
    assert verify(stale).start == 30


def test_an_older_snapshot_is_no_base(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(snapshot_entries_interval=10, segment_entries_target=8)
    document = grown(world)
    monkeypatch.setattr("stratalog.documents.snapshot_schedule.take_snapshot", lambda log, state, pause=None: state)
    with pytest.raises(Unavailable, match="base snapshot could not be made"):
        document.forget_below(33)
    assert (world.open().log.floor(), snapshots(document)) == (0, [10, 20, 30, 40])


def test_a_state_does_not_depend_on_the_mutators_of_its_reader() -> None:
    world = World(snapshot_entries_interval=100)
    document = grown(world, 8)
    other = world.open(rules=Rules(mutators={"inc": lambda draft, args: draft.put("n", "changed")}))
    assert other.at().to_dict() == document.at().to_dict()
    assert verify(other) == verify(document)


def test_a_snapshot_answered_late_puts_its_chunks_again() -> None:
    world = World()
    document = world.create()
    document.apply([put(f"notes/{position}", "x" * 100) for position in range(100)])

    def collect(name: str, target: str) -> None:
        if name == "commit" and "snapshots" in target:
            world.clock.sleep(1000)
            for key in world.blob_keys("/chunks/"):
                stat = world.blobs.stat(key)
                assert stat is not None
                assert world.blobs.delete(key, stat.stamp)

    world.recorder.before = collect
    document.snapshot()
    world.recorder.before = None
    assert world.blob_keys("/chunks/")
    assert len(world.open().at().to_dict()) == 100


def test_chunks_are_put_again_if_the_answer_to_the_commit_of_their_snapshot_is_lost() -> None:
    world = World(snapshot_entries_interval=1000)
    document = world.create()
    document.apply([put(f"c/{n}", f"{n} " * 200) for n in range(50)])

    def late_and_lost(name: str, target: str) -> None:
        if name == "commit" and "/snapshots" in target:
            world.clock.sleep(OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1)
            collect_family(world.environment, document.log.record.owner)
            world.recorder.before = None
            world.recorder.after = lose

    def lose(name: str, target: str) -> None:
        world.recorder.after = None
        raise OutcomeUnknown("scripted")

    world.recorder.before = late_and_lost
    with pytest.raises(OutcomeUnknown):
        document.snapshot()
    assert snapshots(document) == [document.version]
    assert world.open().at(document.version).to_dict() == {f"c/{n}": f"{n} " * 200 for n in range(50)}


def test_a_snapshot_whose_writer_slept_puts_its_chunks_again_before_its_commit() -> None:
    world = World(snapshot_entries_interval=1000)
    document = world.create()
    document.apply([put(f"c/{n}", f"{n} " * 200) for n in range(50)])

    def sleep(name: str, target: str) -> None:
        if name == "blob put" and world.blob_keys("/chunks/"):
            world.recorder.before = None
            world.clock.sleep(OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1)
            assert collect_family(world.environment, document.log.record.owner).garbage

    def lose_the_blobs(name: str, target: str) -> None:
        if "/snapshots" in target:
            world.recorder.before = refuse

    def refuse(name: str, target: str) -> None:
        if name == "blob put":
            raise Unavailable("scripted")

    world.recorder.before, world.recorder.after = sleep, lose_the_blobs
    assert document.snapshot() == document.version
    assert world.open().at(document.version).to_dict() == {f"c/{n}": f"{n} " * 200 for n in range(50)}


def test_repeated_puts_of_chunks_are_retried_and_need_no_read_of_older_chunks() -> None:
    world = World(snapshot_entries_interval=1000)
    document = world.create()
    document.apply([put(f"c/{n}", f"{n} " * 200) for n in range(50)])
    document.snapshot()
    document.apply([put("c/1", "changed")])
    failures = [OutcomeUnknown("scripted"), Unavailable("scripted")]

    def late(name: str, target: str) -> None:
        if name == "commit" and "/snapshots" in target:
            world.clock.sleep(OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1)
            assert collect_family(world.environment, document.log.record.owner).garbage
            world.recorder.before = fail
            document.chunks._cache = ByteCache(0)

    def fail(name: str, target: str) -> None:
        if name == "blob get":
            raise NotFound("scripted")
        if name == "blob put" and failures:
            raise failures.pop()

    world.recorder.before = late
    document.snapshot()
    world.recorder.before = None
    assert (failures, snapshots(document)) == ([], [1, 2])
    assert world.open().at(2).get("c/1") == "changed"


def test_a_snapshot_with_an_unknown_outcome_puts_its_chunks_again() -> None:
    """The record of the snapshot may be committed.

    A running collection may have listed the chunks as old before that commit.
    """
    world = World(snapshot_entries_interval=1000)
    document = world.create()
    document.apply([put(f"c/{n}", f"{n} " * 200) for n in range(50)])

    def late(name: str, target: str) -> None:
        if name == "commit" and "/snapshots" in target:
            world.clock.sleep(OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1)
            raise OutcomeUnknown("scripted")
        if name == "get" and "/snapshots" in target:
            raise Unavailable("scripted")

    world.recorder.before = late
    with pytest.raises(OutcomeUnknown):
        document.snapshot()
    stats = [stat for stat in world.blobs.list("") if "/chunks/" in stat.key]
    assert len(stats) > 1
    assert all(world.clock.wall_ms() - stat.modified_ms < GRACE_SECONDS * 1000 for stat in stats)


def test_an_app_snapshot_of_a_document_can_be_saved_after_a_snapshot_of_the_document() -> None:
    document = World(snapshot_entries_interval=1000).create()
    document.apply([inc()])
    document.snapshot()
    document.apply([inc()])
    assert document.log.save_snapshot(2, [b"the state of version 2"])
    saved = document.log.app_snapshot(2)
    assert saved is not None
    assert list(document.log.read_snapshot(saved)) == [b"the state of version 2"]


def test_a_verification_up_to_a_forgotten_version_is_refused() -> None:
    world = World(snapshot_entries_interval=3, segment_entries_target=3)
    document = world.create()
    for n in range(10):
        document.apply([put("k", n)])
    floor = document.forget_below(3)
    assert floor == 3
    with pytest.raises(VersionForgotten):
        verify(document, floor - 2)
    assert verify(document, floor).version == floor


def test_a_verification_up_to_a_version_before_the_fork_is_refused() -> None:
    document = World().create()
    for n in range(5):
        document.apply([put("k", n)])
    fork = document.fork("copy", at=4)
    with pytest.raises(Invalid):
        verify(fork, 3)
    assert verify(fork, 4).version == 4
