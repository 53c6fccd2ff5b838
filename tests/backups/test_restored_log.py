"""Maintenance removes a restoration of one log that was killed at any write, and may run during a restoration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

import stratalog
from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.backups.backup import back_up
from stratalog.backups.restored_log import restore_log
from stratalog.errors import Conflict, LimitExceeded, Redacted
from stratalog.keys import ORGANISATIONS_PARTITION, deleted_partition
from stratalog.limits import UNKNOWN_OWNER_SECONDS_MAX
from stratalog.log import delete_log
from stratalog.log.sweep import sweep_deleted
from stratalog.maintenance.collection import collect
from stratalog.maintenance.inspection import inspect_history, inspect_store, inspected_histories
from stratalog.ports.index import NO_BLOBS, Item, Put, Write
from stratalog.testing.clock import ManualClock
from tests.backups.stores import Backups
from tests.inline_store import open_inline
from tests.maintenance.growing import SETTINGS

GARBAGE_SECONDS = 1000


class Killed(Exception):
    """The process ended."""


class Killing(MemoryIndex):
    """An index that makes ``commits_left`` more commits, and then raises Killed. With None, it never raises Killed."""

    def __init__(self) -> None:
        super().__init__()
        self.commits_left: int | None = None

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        if self.commits_left is not None:
            if self.commits_left == 0:
                raise Killed
            self.commits_left -= 1
        super().commit(writes, blobs)


class World:
    """A store with a document, a fork of it and a fork of the fork, and their backup."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = open_inline(settings=SETTINGS, clock=self.clock)
        self.backups = Backups(self.clock)
        plan = self.store.create("acme", "plan")
        for number in range(6):
            plan.mutate("put", {"key": "items/a", "value": f"{number}" * 2000})
        copy = plan.fork("copy", at=5)
        copy.mutate("put", {"key": "items/a", "value": "copied" * 1000})
        third = copy.fork("third", at=6)
        third.mutate("put", {"key": "items/a", "value": "third" * 1000})
        self.backups.make(self.store)

    def restore(self, target: stratalog.Store, name: str, report: Callable[[int], None] | None = None) -> None:
        restore_log(self.backups.view(), "acme", name, target, name, report)

    def maintain(self, target: stratalog.Store) -> None:
        for organisation in list(target.organisations()):
            sweep_deleted(target.environment, organisation)
            assert collect(target.environment, organisation).failures == ()


def damages(store: stratalog.Store) -> list[object]:
    histories = (inspect_history(store, history).damages for history in inspected_histories(store))
    return [*inspect_store(store), *(damage for reported in histories for damage in reported)]


def newest(store: stratalog.Store, name: str) -> object:
    document = store.document("acme", name)
    return document.version, document.at(document.version).to_dict()


def emptied(index: MemoryIndex) -> bool:
    left = {partition for partition, contents in index._partitions.items() if contents.items}
    return left <= {ORGANISATIONS_PARTITION}


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("name", ["plan", "third"])
def test_maintenance_removes_a_restoration_that_was_killed_at_any_write(world: World, name: str) -> None:
    commits = 0
    while True:
        index, blobs = Killing(), MemoryBlobs(world.clock)
        target = open_inline(settings=SETTINGS, clock=world.clock)
        target.environment.index, target.environment.blobs = index, blobs
        index.commits_left = commits
        try:
            world.restore(target, name)
        except Killed:
            commits += 1
        else:
            break
        index.commits_left = None
        assert list(target.list("acme")) == []
        assert inspect_store(target) == ()
        world.clock.sleep(UNKNOWN_OWNER_SECONDS_MAX + GARBAGE_SECONDS)
        for _ in range(2):
            world.maintain(target)
        assert emptied(index), commits
        assert list(blobs.list("")) == []
    assert commits > 5
    assert newest(target, name) == newest(world.store, name)


@pytest.mark.parametrize("deleted", [(), ("plan", "copy", "third")], ids=["beside live logs", "of deleted names"])
@pytest.mark.parametrize("name", ["plan", "third"])
def test_maintenance_during_a_slow_restoration_deletes_no_restored_data(
    world: World, name: str, deleted: tuple[str, ...]
) -> None:
    for gone in deleted or (name,):
        delete_log(world.store.document("acme", gone).log)
    for _ in range(3):
        world.clock.sleep(GARBAGE_SECONDS)
        world.maintain(world.store)

    def slowly(count: int) -> None:
        world.clock.sleep(GARBAGE_SECONDS)
        world.maintain(world.store)

    world.restore(world.store, name, slowly)
    world.clock.sleep(GARBAGE_SECONDS)
    world.maintain(world.store)
    assert newest(world.store, name) == newest(world.backups.view(), name)
    assert damages(world.store) == []


def test_the_ancestors_of_a_restored_fork_are_no_damage_and_are_deleted_with_the_fork(world: World) -> None:
    target = open_inline(settings=SETTINGS, clock=world.clock)
    world.restore(target, "third")
    assert damages(target) == []
    delete_log(target.document("acme", "third").log)
    for _ in range(2):
        world.clock.sleep(GARBAGE_SECONDS)
        world.maintain(target)
    assert list(target.environment.blobs.list("")) == []


@pytest.mark.parametrize("later_logs", [0, 1, 2])
def test_a_restored_store_with_a_deleted_fork_that_another_fork_needs_has_no_damage(
    world: World, later_logs: int
) -> None:
    delete_log(world.store.document("acme", "copy").log)
    for count in range(later_logs):
        later = world.store.create("acme", "copy")
        if count == 0:
            delete_log(later.log)
    world.backups.make(world.store)
    target = world.backups.restored(world.backups.view())
    assert damages(target) == []
    delete_log(target.document("acme", "third").log)
    world.clock.sleep(GARBAGE_SECONDS)
    for _ in range(2):
        world.maintain(target)
    assert target.document("acme", "plan").forget_below(6) == 6


def test_a_name_in_a_backup_belongs_to_the_log_deleted_meanwhile_and_not_to_a_former_log(
    world: World,
) -> None:
    """A fork needs the former log. The backup reads that log's family after the later log was read and deleted."""
    delete_log(world.store.document("acme", "copy").log)
    later = world.store.create_log("acme", "copy")
    later.append(stratalog.Event("seen", 1))

    def delete(count: int) -> None:
        if any(listing.id == "copy" for listing in world.store.list("acme")):
            delete_log(later)

    report = back_up(world.store, world.backups.repository(), delete)
    target = world.backups.restored(world.backups.view())
    assert (report.manifest.failures, damages(target)) == ((), [])
    assert target.log("acme", "copy").head().version == 1


def test_a_damaged_line_of_a_deleted_log_is_reported_and_the_family_is_backed_up(world: World) -> None:
    log = world.store.document("acme", "copy").log
    delete_log(log)
    [line] = world.store.environment.index.query(deleted_partition("acme"))
    world.store.environment.index.commit([Put(Item(line.partition, line.sort, {**line.attributes, "l": "x"}))])
    assert [failure.what for failure in world.backups.make(world.store).manifest.failures] == [log.record.prefix]
    assert newest(world.backups.restored(world.backups.view()), "third") == newest(world.store, "third")


def test_a_backup_of_a_fork_of_a_deleted_log_needs_no_ancestor_below_the_floor_of_that_log(world: World) -> None:
    copy = world.store.document("acme", "copy")
    delete_log(world.store.document("acme", "third").log)
    assert copy.forget_below(5) == 5
    copy.fork("fourth", at=5)
    for name in ("copy", "plan"):
        delete_log(world.store.document("acme", name).log)
    world.backups.make(world.store)
    target = world.backups.restored(world.backups.view())
    assert damages(target) == []
    assert newest(target, "fourth") == newest(world.store, "fourth")


def test_a_restoration_that_takes_too_long_fails_and_creates_no_name(world: World) -> None:
    target = open_inline(settings=SETTINGS, clock=world.clock)
    with pytest.raises(LimitExceeded, match="took too long"):
        world.restore(target, "plan", lambda count: world.clock.sleep(UNKNOWN_OWNER_SECONDS_MAX))
    assert list(target.list("acme")) == []


def test_a_name_that_is_taken_during_a_restoration_is_a_conflict(world: World) -> None:
    target = open_inline(settings=SETTINGS, clock=world.clock)

    def take(count: int) -> None:
        if not list(target.list("acme")):
            target.create("acme", "plan")

    with pytest.raises(Conflict, match="in use"):
        world.restore(target, "plan", take)


def test_a_version_without_a_state_because_of_a_redaction_is_not_restored() -> None:
    world = World()
    plan = world.store.document("acme", "plan")
    for number in range(4):
        plan.mutate("put", {"key": "items/a", "value": number})
    stratalog.redact(plan, 8)
    world.backups.make(world.store)
    prefix, target = plan.log.record.prefix, open_inline(settings=SETTINGS, clock=world.clock)
    with pytest.raises(Redacted):
        restore_log(world.backups.view_of(prefix, 8), "acme", "plan", target, "plan")
    assert list(target.list("acme")) == []
    for version, value in ((7, 0), (plan.version, 3)):
        restore_log(world.backups.view_of(prefix, version), "acme", "plan", target, f"plan-{version}")
        assert target.document("acme", f"plan-{version}").get("items/a") == value
