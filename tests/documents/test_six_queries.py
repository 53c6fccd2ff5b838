"""The six queries of the article that describes the sync backend. `docs/coverage.md` lists them by the same numbers."""

from __future__ import annotations

import math

import pytest

from stratalog.documents import Document, redact
from stratalog.errors import NotFound, Redacted, VersionForgotten
from stratalog.protocol import Mutation
from tests.documents.helpers import World, inc, large, put


def test_query_1_the_whole_latest_version() -> None:
    world = World()
    document = world.create()
    document.apply([put("name", "My project"), put("Collection1/id1", large("a")), put("Collection1/id2", 2)])
    document.mutate("del", {"key": "Collection1/id2"})
    assert world.open().at().to_dict() == {"name": "My project", "Collection1/id1": large("a")}
    assert world.open().at().fields() == {"name": "My project"}


def test_query_2_item_metadata_without_opening_a_body() -> None:
    world = World()
    document = world.create()
    for start in range(0, 200, 50):
        document.apply([put(f"movies/{n:03}", large(f"{n:03}", 50_000 // 3)) for n in range(start, start + 50)])
    reader = world.open()
    calls = world.watched()
    items = list(reader.at().list("movies/"))
    assert [(item.key, item.metadata) for item in items] == [
        (f"movies/{n:03}", {"id": f"{n:03}", "name": f"name of {n:03}"}) for n in range(200)
    ]
    assert all(item.size > 50_000 - 100 for item in items)
    assert [key for key in calls.named("blob get") if "/items/" in key] == []


def test_listing_starts_after_a_given_key() -> None:
    document = World().create()
    document.apply([put(f"c/{n}", n) for n in range(5)])
    assert [item.key for item in document.at().list("c/", after="c/2")] == ["c/3", "c/4"]


def test_the_fields_are_read_without_opening_an_item() -> None:
    world = World()
    world.create().apply([put("name", "My project"), put("c/a", large("a")), put("zoom", 2)])
    calls = world.watched()
    assert world.open().at().fields() == {"name": "My project", "zoom": 2}
    assert calls.named("blob get") == []


def test_query_3_one_item_at_the_latest_or_a_given_version() -> None:
    world = World()
    document = world.create()
    document.apply([put("c/a", large("first"))])
    document.apply([put("c/a", large("second"))])
    reader = world.open()
    calls = world.watched()
    assert reader.get("c/a") == large("second")
    assert len([key for key in calls.named("blob get") if "/items/" in key]) == 1
    assert reader.get("c/a", at=1) == large("first")
    assert reader.get("c/a", at=0) is None
    with pytest.raises(NotFound):
        reader.get("c/a", at=3)


def test_query_4_all_versions_with_their_mutations_and_full_state() -> None:
    world = World()
    document = world.create()
    document.apply([put("a", 1), inc("a", 5), put("b", large("b"))], author="ada")
    document.apply([Mutation(client="ada", name="del", args={"key": "b"})])
    document.apply([Mutation(client="local", name="nope", args={"x": 1})])
    first, second, third = world.open().versions()
    assert (first.version, first.author, first.changed, first.deleted) == (1, "ada", ("a", "b"), ())
    assert [(mutation.client, mutation.id, mutation.name, mutation.args) for mutation in first.mutations] == [
        ("ada", 1, "put", {"key": "a", "value": 1}),
        ("ada", 2, "inc", {"key": "a", "by": 5}),
        ("ada", 3, "put", {"key": "b", "value": large("b")}),
    ]
    assert second.deleted == ("b",)
    assert third.mutations[0].reason == "no such mutator: nope"
    states = [document.at(version).to_dict() for version in range(4)]
    assert states == [{}, {"a": 6, "b": large("b")}, {"a": 6}, {"a": 6}]


def grown(world: World, versions: int) -> Document:
    document = world.create()
    for n in range(versions):
        document.apply([inc("n", client=f"client-{n % 3}")])
    return document


def test_query_5_in_which_version_a_mutation_was_applied() -> None:
    world = World(segment_entries_target=8, snapshot_entries_interval=5)
    document = grown(world, 60)
    assert [document.applied_in(f"client-{n % 3}", n // 3 + 1) for n in range(60)] == list(range(1, 61))
    assert document.applied_in("client-0", 21) is None
    assert document.applied_in("nobody", 1) is None


def test_query_5_makes_a_logarithmic_number_of_port_calls() -> None:
    world = World(segment_entries_target=1000, snapshot_entries_interval=5)
    document = grown(world, 400)
    for id in (1, 50, 133):
        calls = world.watched()
        document.applied_in("client-0", id)
        assert len(calls.calls) <= 6 * math.ceil(math.log2(400 / 5)) + 6


def test_query_5_after_archiving() -> None:
    world = World(segment_entries_target=8, snapshot_entries_interval=5)
    document = grown(world, 40)
    assert document.archive() >= 3
    world.clock.sleep(1000)
    assert document.free_segments() >= 3
    assert [world.open().applied_in(f"client-{n % 3}", n // 3 + 1) for n in range(40)] == list(range(1, 41))


def test_query_5_raises_version_forgotten_for_a_mutation_in_a_forgotten_version() -> None:
    world = World(segment_entries_target=8, snapshot_entries_interval=5)
    document = grown(world, 40)
    document.forget_below(30)
    reader = world.open()
    with pytest.raises(VersionForgotten, match="applied in a version that is no longer kept"):
        reader.applied_in("client-0", 1)
    assert reader.applied_in("client-0", 12) == 34


@pytest.mark.parametrize("gap", [0, 1, 7])
def test_query_5_a_client_that_began_anew_has_only_its_new_mutations(gap: int) -> None:
    """The client was collected and begins in another group. Its new mutations have the numbers of its old mutations."""
    world = World(segment_entries_target=8, snapshot_entries_interval=5)
    document = world.create()

    def change(count: int, group: str) -> list[tuple[int, int]]:
        """Return the number and the version of each new mutation."""
        made = []
        for id in range(1, count + 1):
            document.apply([inc("n", client="ada", id=id)], group=group)
            made.append((id, document.version))
            for _ in range(gap):
                document.apply([inc("n", client="bob")])
        return made

    old = change(6, "old")
    assert [(id, document.applied_in("ada", id)) for id, _ in old] == old
    world.clock.sleep(2)
    assert document.expire_clients(world.clock.wall_ms() - 1000) == 1
    assert document.applied_in("ada", 1) is None
    began, new = document.version, change(3, "new")
    assert [(id, document.applied_in("ada", id)) for id, _ in new] == new
    assert document.applied_in("ada", 4) is None
    document.forget_below(began - 1)
    assert [(id, world.open().applied_in("ada", id)) for id, _ in new] == new


@pytest.mark.parametrize("groups", [("", ""), ("old", "new")])
def test_query_5_a_redacted_entry_in_which_a_client_began_anew_hides_its_earlier_mutations(
    groups: tuple[str, str],
) -> None:
    """The client's mutation 1 is version 1, and after a collection it is version 4, which is redacted."""
    world = World(segment_entries_target=8, snapshot_entries_interval=50)
    document = world.create()
    document.apply([inc("n", client="ada")], group=groups[0])
    document.apply([inc("n", client="bob")])
    document.collect_clients(["ada"], [group for group in groups[:1] if group])
    for _ in range(2):
        document.apply([inc("n", client="ada")], group=groups[1])
    redact(document, 4)
    for handle in (document, world.open()):
        with pytest.raises(Redacted):
            handle.applied_in("ada", 1)
        assert handle.applied_in("ada", 2) == 5


def test_query_5_a_client_that_began_anew_without_a_group_has_only_its_new_mutations() -> None:
    world = World(segment_entries_target=8, snapshot_entries_interval=5)
    document = world.create()
    for _ in range(10):
        document.apply([inc("n", client="ada")])
    document.collect_clients(["ada"])
    for _ in range(20):
        document.apply([inc("n", client="ada")])
    assert [world.open().applied_in("ada", id) for id in range(1, 21)] == list(range(12, 32))


def test_query_6_the_clients_latest_mutation() -> None:
    world = World(snapshot_entries_interval=5)
    grown(world, 12)
    reader = world.open()
    assert [reader.last_mutation(client) for client in ("client-0", "client-1", "client-2", "nobody")] == [4, 4, 4, 0]
