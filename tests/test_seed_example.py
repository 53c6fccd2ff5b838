"""Check each write in the worked example of the sync backend's article. docs/seed-example.md describes the example."""

from __future__ import annotations

from typing import Any

import pytest

from stratalog.codec import decode, encode, sha256
from stratalog.documents import Document
from stratalog.documents.commits import read_commit
from stratalog.documents.values import as_reference
from stratalog.errors import Unavailable
from stratalog.log import create_log
from stratalog.ports.index import Absent, Check, Put
from stratalog.protocol import Mutation
from tests.documents.helpers import World, large, put, statuses

ITEM = "Collection1/id1"
MUT1 = Mutation(client="c_client1", id=1, name="patch", args={"key": ITEM, "merge": {"name": "renamed"}})


def stored(world: World) -> Document:
    """Return project p_4567 at version 10. The tenth commit changed the project's name and item id1."""
    document = Document(create_log(world.environment, "o_123", "p_4567", "document"))
    document.apply([put("name", "My project"), put(ITEM, large("abc"))])
    for number in range(8):
        document.apply([put(f"Collection1/other{number}", number)])
    document.apply([put("name", "My project (edited)"), put(ITEM, large("xyz"))])
    assert document.version == 10
    return document


def new_value() -> dict[str, Any]:
    return {**large("xyz"), "name": "renamed"}


def test_the_tenth_version_contains_both_changes() -> None:
    document = stored(World())
    assert [change.key for change in document.diff(9, 10)] == [ITEM, "name"]
    (version,) = document.versions(9)
    assert version.changed == (ITEM, "name")


def test_a_mutation_gets_a_blob_puts_a_blob_and_then_commits_a_conditional_put() -> None:
    world = World()
    document = stored(world)
    calls = world.watched()
    (outcome,) = document.apply([MUT1])
    assert (outcome.status, outcome.version) == ("applied", 11)

    owner = document.log.record.owner
    old, new = (sha256(encode(value)).hex() for value in (large("xyz"), new_value()))
    assert calls.calls == [
        ("blob get", f"{owner}/items/Collection1/{old}"),
        ("blob put", f"{owner}/items/Collection1/{new}"),
        ("commit", f"{owner}/1 {11:016d} + {owner}/1 {10:016d}"),
    ]
    write, check = world.index.commits[-1]
    assert isinstance(write, Put)
    assert isinstance(write.condition, Absent)
    assert isinstance(check, Check)  # the check of the head, which costs nothing on an index with joint commits


def test_the_entry_holds_the_mutation_its_outcome_and_the_patch() -> None:
    document = stored(World())
    document.apply([MUT1])
    commit = read_commit(document.log.entry(11))
    (recorded,) = commit.mutations
    assert (recorded.client, recorded.id, recorded.name, recorded.reason) == ("c_client1", 1, "patch", None)
    assert decode(recorded.args) == MUT1.args
    (change,) = commit.patch
    assert (change.key, change.before, change.by) == (ITEM, 10, (0,))
    reference = as_reference(change.value or b"")
    assert reference is not None
    assert reference.content_hash == sha256(encode(new_value()))
    assert reference.metadata == {"id": "xyz", "name": "renamed"}


def test_a_cold_process_mutates_with_few_reads_and_the_same_two_writes() -> None:
    world = World()
    stored(world)
    document = Document(world.open_in("o_123", "p_4567"))
    calls = world.watched()
    document.apply([MUT1])
    assert [name for name, _ in calls.calls] == ["query", "query", "query", "blob get", "blob put", "commit"]


def test_a_crash_between_the_two_writes_leaves_a_blob_and_no_version() -> None:
    world = World(append_seconds_max=0.01)
    document = stored(world)
    blobs = len(world.blob_keys())

    def crash(name: str, target: str) -> None:
        if name == "commit":
            raise Unavailable("the process ends here")

    world.recorder.before = crash
    with pytest.raises(Unavailable):
        document.apply([MUT1])
    world.recorder.before = None
    again = Document(world.open_in("o_123", "p_4567"))
    assert (again.version, len(world.blob_keys())) == (10, blobs + 1)
    assert statuses(again.apply([MUT1])) == ["applied"]
    assert len(world.blob_keys()) == blobs + 1


def test_a_mutation_after_a_concurrent_version_11_becomes_version_12() -> None:
    world = World()
    document = stored(world)
    other = Document(world.open_in("o_123", "p_4567"))
    other.apply([Mutation(client="c_client2", name="patch", args={"key": ITEM, "merge": {"colour": "red"}})])
    (outcome,) = document.apply([MUT1])
    assert outcome.version == 12
    assert document.get(ITEM) == {**new_value(), "colour": "red"}


def test_a_second_delivery_of_a_mutation_writes_nothing() -> None:
    world = World()
    stored(world).apply([MUT1])
    document = Document(world.open_in("o_123", "p_4567"))
    calls = world.watched()
    assert statuses(document.apply([MUT1])) == ["seen"]
    assert calls.named("commit") == calls.named("blob put") == []
