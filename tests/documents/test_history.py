"""Reads of history: the changes of a key, the difference between two versions, and the version of a collection."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.documents import Document, verify
from stratalog.documents.snapshots import roots_of
from stratalog.errors import Corrupt, Unavailable, Unsupported, VersionForgotten
from stratalog.keys import entries_partition, number, snapshots_partition
from stratalog.log import Event
from stratalog.log.snapshots import list_snapshots
from stratalog.ports.index import Delete, Item, Put
from stratalog.protocol import Mutation
from stratalog.tree.reach import addresses
from tests.documents.helpers import World, inc, large, put
from tests.threads import run_together


def delete(key: str) -> Mutation:
    return Mutation(client="ada", name="del", args={"key": key})


def values_of(document: Document, key: str, at: int | None = None) -> list[tuple[int, Any]]:
    return [(change.version, "deleted" if change.deleted else change.value) for change in document.history(key, at=at)]


def grown(world: World) -> Document:
    """Return a document with eight versions. Versions 1, 3 and 6 put c/a, and versions 4 and 8 delete c/a."""
    document = world.create()
    for mutation in (
        put("c/a", 1),
        put("other", 0),
        put("c/a", large("3")),
        delete("c/a"),
        put("other", 5),
        put("c/a", 6),
        put("other", 7),
        delete("c/a"),
    ):
        document.apply([mutation], author="ada@example.org")
    return document


@pytest.mark.parametrize(("version", "source"), [(6, 2), (3, 6)])
def test_a_history_that_meets_the_entry_of_another_version_is_corrupt(version: int, source: int) -> None:
    """Version 3 with the body of version 6 names version 4 as the change before it, so the read would not end."""
    document = grown(World())
    index, partition = document.log.environment.index, entries_partition(document.log.record.prefix, 1)
    body = index.get(partition, number(source))
    assert body is not None
    index.commit([Put(Item(partition, number(version), body.attributes))])
    with pytest.raises(Corrupt, match="lacks the change"):
        list(islice(document.history("c/a"), 10))


@pytest.mark.parametrize("interval", [1, 2, 3, 100])
def test_the_history_of_a_key_walks_across_deletions(interval: int) -> None:
    world = World(snapshot_entries_interval=interval)
    grown(world)
    reader = world.open()
    assert values_of(reader, "c/a") == [(8, "deleted"), (6, 6), (4, "deleted"), (3, large("3")), (1, 1)]
    assert values_of(reader, "c/a", at=5) == [(4, "deleted"), (3, large("3")), (1, 1)]
    assert values_of(reader, "never") == []


def test_a_change_names_its_author_and_the_mutations_that_made_it() -> None:
    document = World().create()
    document.apply([inc("n", 1), put("m", 0, client="bob"), inc("n", 2, client="bob")], author="both")
    (change,) = document.history("n")
    assert change.author == "both"
    assert [(mutation.client, mutation.id, mutation.args) for mutation in change.mutations] == [
        ("ada", 1, {"key": "n", "by": 1}),
        ("bob", 2, {"key": "n", "by": 2}),
    ]


def test_a_history_reads_only_the_entries_of_its_key() -> None:
    world = World(snapshot_entries_interval=1000)
    document = world.create()
    for n in range(300):
        document.apply([put("rare", n) if n % 100 == 0 else put("often", n)])
    calls = world.watched()
    assert len(list(document.history("rare"))) == 3
    assert len(calls.calls) <= 5


@pytest.mark.parametrize("interval", [2, 100])
def test_a_history_ends_at_the_floor(interval: int) -> None:
    world = World(snapshot_entries_interval=interval, segment_entries_target=2)
    document = grown(world)
    document.forget_below(5)
    reader = world.open()
    assert values_of(reader, "c/a") == [(8, "deleted"), (6, 6)]
    reader.apply([put("c/a", 10)])
    assert values_of(reader, "c/a") == [(11, 10), (8, "deleted"), (6, 6)]


def test_a_key_deleted_below_the_floor_and_put_again_starts_a_new_history() -> None:
    world = World(snapshot_entries_interval=2, segment_entries_target=2)
    document = grown(world)
    document.apply([put("other", 9)])
    document.forget_below(9)
    document.apply([put("c/a", 11)])
    document.apply([put("other", 12)])
    assert values_of(document, "c/a") == values_of(world.open(), "c/a") == [(12, 11)]
    verify(world.open())


@pytest.mark.parametrize("interval", [1, 3, 100])
def test_the_version_of_a_collection_is_the_version_of_its_last_change_or_deletion(interval: int) -> None:
    world = World(snapshot_entries_interval=interval)
    grown(world)
    reader = world.open()
    versions = [reader.at(version).collection_version("c") for version in range(9)]
    assert versions == [0, 1, 1, 3, 4, 4, 6, 6, 8]
    assert reader.at().collection_version("never") == 0


changes = st.lists(
    st.dictionaries(st.sampled_from(["a", "c/a", "c/b", "d/a", "d/b"]), st.none() | st.integers(0, 2), max_size=3),
    min_size=1,
    max_size=12,
)


def changed(key: str, value: Any) -> Mutation:
    return delete(key) if value is None else put(key, value)


@given(changes, st.sampled_from([1, 2, 3, 50]), st.data())
def test_a_diff_equals_the_difference_of_two_dictionaries(
    steps: list[dict[str, Any]], interval: int, data: st.DataObject
) -> None:
    world = World(snapshot_entries_interval=interval)
    document = world.create()
    models: list[dict[str, Any]] = [{}]
    for step in steps:
        document.apply(
            [put("z/always", len(models))] + [delete(k) if v is None else put(k, v) for k, v in step.items()]
        )
        after = {**models[-1], "z/always": len(models), **step}
        models.append({key: value for key, value in after.items() if value is not None})
    source, target = (data.draw(st.integers(0, len(steps))) for _ in range(2))
    before, after = models[source], models[target]
    expected = [
        (key, before.get(key), after.get(key), key in before, key in after)
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]
    for handle in (document, world.open()):
        differences = handle.diff(source, target)
        assert [
            (change.key, change.before, change.after, change.was, change.is_now) for change in differences
        ] == expected


def test_the_digest_depends_on_the_content_and_not_on_its_history() -> None:
    world = World(snapshot_entries_interval=3)
    first, second = world.create("one"), world.create("other")
    for key in ("c/a", "c/b", "name"):
        first.apply([put(key, key)])
    second.apply([put("name", 1), put("c/b", "c/b"), put("x", 1)])
    second.apply([delete("x"), put("name", "name"), put("c/a", "c/a")])
    assert first.at().content_digest() == second.at().content_digest()
    second.apply([put("c/a", "other")])
    assert first.at().content_digest() != second.at().content_digest()


def test_a_returned_view_does_not_change_with_later_commits() -> None:
    world = World(snapshot_entries_interval=3)
    document = grown(world)
    view = document.at()
    before = view.to_dict()
    for n in range(200):
        document.apply([put(f"d/{n}", n)])
    assert (view.version, view.to_dict()) == (8, before)
    view.to_dict()["other"] = "changed"
    assert view.get("other") == 7
    assert "d/1" not in view


def test_threads_share_one_handle() -> None:
    world = World(snapshot_entries_interval=10, segment_entries_target=16)
    document = world.create()
    failures: list[BaseException] = []

    def work(client: str) -> None:
        try:
            for number in range(1, 41):
                assert document.apply([inc("n", client=client, id=number)])[0].status == "applied"
                assert document.at().get("n") >= number
        except BaseException as exc:  # noqa: BLE001 - the test reports a thread's failure
            failures.append(exc)

    run_together(partial(work, f"client-{position}") for position in range(4))
    assert failures == []
    assert (document.get("n"), document.version) == (160, 160)
    verify(world.open())


def test_an_entry_with_a_newer_schema_raises_unsupported() -> None:
    world = World()
    document = world.create()
    document.apply([inc()])
    document.log.append(Event("commit", ["something", "new"], schema=2))
    with pytest.raises(Unsupported):
        world.open().at()
    assert world.open().at(1).to_dict() == {"n": 1}


def test_a_reader_whose_snapshot_was_forgotten_finds_the_new_one() -> None:
    world = World(snapshot_entries_interval=100, segment_entries_target=4)
    document = world.create()
    keys = [f"c/{n:03}" for n in range(300)]
    document.apply([put(key, "old") for key in keys])
    document.snapshot()
    reader = world.open()
    assert reader.get(keys[0]) == "old"
    document.apply([put(key, "new") for key in keys[::2]])
    document.forget_below(2)
    delete_blobs(world, set(world.blob_keys("/chunks/")) - needed_chunks(document))
    assert reader.at().to_dict() == {key: "old" if position % 2 else "new" for position, key in enumerate(keys)}


def delete_blobs(world: World, keys: set[str]) -> None:
    assert keys
    for key in keys:
        stat = world.blobs.stat(key)
        assert stat is not None
        world.blobs.delete(key, stat.stamp)


def needed_chunks(document: Document) -> set[str]:
    """The keys of the chunks that the remaining snapshots refer to."""
    needed = set()
    for snapshot in list_snapshots(document.log.environment.index, document.log.record.prefix):
        roots = roots_of(snapshot)
        for root in (roots.content, roots.clients, roots.tombstones):
            needed |= {
                f"{document.log.record.owner}/chunks/{address.hex()}" for address in addresses(document.chunks, root)
            }
    return needed


def test_a_view_of_a_forgotten_snapshot_asks_to_read_the_document_again() -> None:
    world = World()
    document = world.create()
    document.apply([put(f"c/{n:03}", "x" * 900) for n in range(30)])
    document.snapshot()
    reader = world.open()
    view = reader.at()
    world.backend.commit([Delete(snapshots_partition(document.log.record.prefix), number(1))])
    delete_blobs(world, set(world.blob_keys("/chunks/")))
    for _ in range(2):
        with pytest.raises(Unavailable, match="read the document again"):
            view.get("c/001")
        with pytest.raises(Unavailable, match="read the document again"):
            view.to_dict()
    assert reader.get("c/001") == "x" * 900


LOST_CHUNK_READS: dict[str, Callable[[Document], Any]] = {
    "a value": lambda document: document.get("c/001"),
    "all values": lambda document: document.at().to_dict(),
    "the number of keys": len,
    "the clients": lambda document: list(document.state().client_ids()),
    "the number of clients": lambda document: document.state().count_clients(),
    "a difference": lambda document: list(document.diff(1, 2)),
    "the digest": lambda document: document.at().content_digest(),
    "a snapshot": lambda document: document.snapshot(),
    "a commit": lambda document: document.apply([put("c/001", 1)]),
}


@pytest.mark.parametrize("read", LOST_CHUNK_READS.values(), ids=LOST_CHUNK_READS)
def test_a_lost_chunk_of_an_existing_snapshot_is_damage_for_every_read(read: Callable[[Document], Any]) -> None:
    world = World()
    document = world.create()
    for batch in range(4):
        document.apply(
            [put(f"c/{n:03}", f"{batch}" * 900, client=f"{batch}-{n:03}" + "c" * 90, id=1) for n in range(40)]
        )
        document.snapshot()
    document.apply([put("c/002", 2), put("d/1", 1)])
    chunks = {key: world.blobs.get(key) for key in world.blob_keys("/chunks/")}
    delete_blobs(world, set(chunks))
    reader = world.open()
    for _ in range(2):
        with pytest.raises(Corrupt, match="a chunk of a snapshot is missing"):
            read(reader)
    for key, body in chunks.items():
        world.blobs.put(key, body)
    read(reader)


def test_versions_below_the_floor_are_forgotten_although_their_segment_still_exists() -> None:
    document = World().create()
    for value in range(5):
        document.mutate("put", {"key": "a", "value": value})
    document.forget_below(3)
    assert document.get("a", at=3) == 2
    for forgotten in (lambda: document.get("a", at=2), lambda: document.log.entry(2), lambda: document.log.read(1)):
        with pytest.raises(VersionForgotten):
            forgotten()
    assert [version.version for version in document.versions()] == [4, 5, 6, 7]


def test_the_history_up_to_an_old_version_ends_above_the_present_floor() -> None:
    document = World().create()
    for value in range(1, 6):
        document.apply([put("a", value)])
    document.forget_below(3)
    assert values_of(document, "a", at=4) == [(4, 4)]
    assert values_of(document, "a", at=3) == []
