"""Expiry of idle clients, and mutations of their groups that arrive during the expiry or after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.documents import Document, verify
from stratalog.documents.commits import COLLECT
from stratalog.documents.expiry import idle_clients
from stratalog.log import Event
from tests.documents.helpers import World, inc, statuses

DAY_SECONDS = 86_400


def rows(document: Document) -> list[str]:
    """The keys in the tree of clients."""
    state = document.state()
    return [key for key, _ in state.clients.scan(state.chunks, "")]


def aged(world: World, document: Document, groups: int = 3) -> int:
    """Create groups of three clients, then let forty days pass. Return the time in the middle of those days."""
    for group in range(groups):
        for client in range(3):
            document.apply([inc(client=f"c{group}{client}", id=1)], group=f"group/{group}", owner="ann")
    world.clock.sleep(20 * DAY_SECONDS)
    between = world.clock.wall_ms()
    world.clock.sleep(20 * DAY_SECONDS)
    return between


def test_expiry_collects_idle_groups_and_retains_every_client_of_active_groups() -> None:
    world = World()
    document = world.create()
    document.apply([inc(client="alone", id=1)])
    between = aged(world, document)
    document.apply([inc(client="c11", id=2)], group="group/1", owner="ann")
    assert document.expire_clients(between, dry_run=True) == 6
    assert document.version == 11
    assert document.expire_clients(between) == 6
    assert dict(document.state().client_ids()) == {"alone": 1, "c10": 1, "c11": 2, "c12": 1}
    assert document.expire_clients(between) == 0
    assert dict(world.open().state().client_ids()) == dict(document.state().client_ids())


def test_a_late_mutation_of_an_expired_group_is_not_applied() -> None:
    world = World()
    document = world.create()
    document.expire_clients(aged(world, document))
    assert statuses(document.apply([inc(client="c00", id=1)], group="group/0", owner="ann")) == ["collected"]
    assert document.get("n") == 9
    assert all(key.startswith("\0g/") for key in rows(document))


@pytest.mark.parametrize("limit", [1, 2, 4, 100])
def test_an_expiry_entry_collects_a_bounded_number_of_clients(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog.documents.expiry.idle_clients.__defaults__", ("", limit))
    world = World()
    document = world.create()
    between = aged(world, document)
    assert document.expire_clients(between) == 9
    collected = [entry.events[0] for entry in document.log.read(9)]
    assert [event.type for event in collected] == [COLLECT] * -(-9 // limit)
    assert max(len(event.data[0]) for event in collected) <= limit
    assert all(key.startswith("\0g/") for key in rows(document))


def test_an_expiry_collects_the_rest_of_a_partly_collected_group() -> None:
    world = World()
    document = world.create()
    between = aged(world, document)
    document.collect_clients(["c00"], ["group/0"])
    assert document.expire_clients(between, stop=lambda: True) == 0
    assert document.expire_clients(0) == 0
    assert document.expire_clients(between) == 8


def test_an_expiry_with_a_forgotten_time_collects_no_client() -> None:
    world = World()
    document = world.create()
    early = world.clock.wall_ms()
    aged(world, document)
    document.apply([inc()])
    document.forget_below(10)
    assert world.open().expire_clients(early) == 0


def race(world: World, document: Document, meanwhile: Callable[[], object]) -> None:
    """Run ``meanwhile`` before the next commit."""

    def first(name: str, target: str) -> None:
        if name == "commit":
            world.recorder.before = None
            meanwhile()

    world.recorder.before = first


def test_a_group_that_becomes_active_during_an_expiry_is_retained() -> None:
    world = World()
    document = world.create()
    between = aged(world, document)
    push = [inc(client="c11", id=2)]
    race(world, document, lambda: world.open().apply(push, group="group/1", owner="ann"))
    assert document.expire_clients(between) == 6
    assert dict(document.state().client_ids()) == {"c10": 1, "c11": 2, "c12": 1}


def test_a_client_that_arrives_during_its_collection_leaves_no_row_in_its_group() -> None:
    world = World()
    document = world.create()
    document.apply([inc(client="second", id=1)], group="team", owner="ann")
    race(world, document, lambda: world.open().apply([inc(client="first", id=1)], group="team", owner="ann"))
    document.collect_clients(["first"])
    state = document.state()
    assert (list(state.members("team")), state.group_owner("team")) == (["second"], "ann")
    assert statuses(document.apply([inc(client="mallory", id=1)], group="team", owner="mallory")) == ["wrong-group"]
    verify(document)


@pytest.mark.parametrize(
    ("others", "expired"),
    [
        ([], False),
        (["queue#000101"], False),
        (["queue#000102"], True),
        (["queue#000999"], True),
        (["line#000102"], False),
        (["queue#00010x", "queue#x", "queue2#000102"], False),
        (["queue#00010x", "queue#000102"], True),
    ],
)
def test_a_weekly_group_expires_only_after_a_commit_of_its_series_two_weeks_later(
    others: list[str], expired: bool
) -> None:
    world = World()
    document = world.create()
    document.apply([inc(client="first", id=1)], group="queue#000100")
    for group in others:
        document.apply([inc(client=f"of {group}", id=1)], group=group)
    document.expire_clients(world.clock.wall_ms())
    assert (document.state().client("first") is None) == expired


def test_a_weekly_group_expires_only_once_a_push_two_weeks_later_is_old_enough() -> None:
    world = World()
    document = world.create()
    document.apply([inc(client="first", id=1)], group="queue#000100")
    world.clock.sleep(40 * DAY_SECONDS)
    document.apply([inc(client="later", id=1)], group="queue#000102")
    committed_ms = world.clock.wall_ms()
    assert document.expire_clients(committed_ms - 1) == 0
    assert document.expire_clients(committed_ms) == 1


def test_a_member_without_a_client_is_idle() -> None:
    """A `collect` event that does not name a client's group leaves such a member."""
    world = World()
    document = world.create()
    document.apply([inc(client="first", id=1)], group="team", owner="ann")
    document.log.append(Event(COLLECT, [[["first", ""]], []]))
    idle = idle_clients(world.open().state(), 1)
    assert idle is not None
    assert idle.clients == [["first", "team"]]
