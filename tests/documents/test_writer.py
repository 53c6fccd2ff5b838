"""Commits by several threads of one handle, and the blobs of a commit that is retried."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from stratalog.backends.memory import MemoryIndex
from stratalog.codec import encode, sha256
from stratalog.documents import Document, Rules
from stratalog.errors import Corrupt, StratalogError, Unavailable
from stratalog.keys import number, snapshots_partition
from stratalog.log import Environment, create_log, open_log
from stratalog.ports.index import Delete
from stratalog.protocol import Draft, Mutation
from stratalog.protocol.mutators import BUILT_IN_MUTATORS
from tests.documents.helpers import World, inc, put, statuses
from tests.threads import join_all, start_all

ROWS = 300


def test_a_small_commit_does_not_wait_for_a_large_one_of_the_same_handle() -> None:
    world = World()
    document = world.create()
    reached, released = threading.Event(), threading.Event()

    def hold(name: str, target: str) -> None:
        if name == "blob put":
            reached.set()
            assert released.wait(30)

    world.recorder.before = hold
    threads = start_all([lambda: document.apply([put("items/large", "x" * 5000, client="bob")])])
    assert reached.wait(30)
    document.apply([inc()])
    assert document.version == 1
    released.set()
    join_all(threads)
    assert (document.get("n"), document.get("items/large")) == (1, "x" * 5000)


def test_a_mutator_with_a_large_value_runs_once_without_concurrent_commits() -> None:
    runs: list[Any] = []

    def note(draft: Draft, args: Any) -> None:
        runs.append(args)
        draft.put("items/large", "x" * 5000)

    document = World().create(rules=Rules({"note": note}))
    document.apply([Mutation(client="ada", id=1, name="note", args={"n": 1})])
    assert (document.get("items/large"), runs) == ("x" * 5000, [{"n": 1}])


def test_a_large_value_is_put_once_although_its_commit_loses_races() -> None:
    world = World()
    document, other = world.create(), world.open()
    document.apply([inc()])

    waiting = [inc(client="bob"), inc(client="bob")]

    def commit_first(name: str, target: str) -> None:
        if name == "commit" and waiting:
            mutation, world.recorder.before = waiting.pop(), None
            other.apply([mutation])
            world.recorder.before = commit_first

    world.watched().before = commit_first
    (outcome,) = document.apply([put("items/large", "x" * 5000)])
    assert (outcome.version, len(world.recorder.named("blob put"))) == (4, 1)


def test_a_retried_commit_stores_no_blob_of_an_earlier_try() -> None:
    world = World()
    index = MemoryIndex(world.blobs)

    def name_itself(draft: Draft, args: Any) -> None:
        draft.put("items/large", f"{draft.get('n')} " * 2000)

    environment = Environment(index, world.blobs, world.clock)
    document = Document(
        create_log(environment, "acme", "doc", "document"), Rules({**BUILT_IN_MUTATORS, "name": name_itself})
    )
    other = Document(open_log(environment, "acme", "doc"), document.rules)
    document.apply([inc()])
    other.apply([inc(client="bob")])
    document.apply([Mutation(client="ada", id=2, name="name")])
    named = f"{document.log.record.owner}/items/items/{sha256(encode('2 ' * 2000)).hex()}"
    assert world.blob_keys("/items/") == [named]


@pytest.mark.parametrize(("is_collected", "error"), [(True, Unavailable), (False, Corrupt)])
def test_a_writer_whose_snapshot_has_lost_its_chunks_fails_once_and_then_commits(
    is_collected: bool, error: type[StratalogError]
) -> None:
    world = World(snapshot_entries_interval=1000)
    first = world.create()
    first.apply([put(f"cells/{row:04}", f"value {row}") for row in range(ROWS)])
    first.snapshot()
    lost = world.blob_keys("/chunks/")
    document = world.open()
    document.apply([put("other", 1)])
    other = world.open()
    other.apply([put(f"cells/{row:04}", f"another {row}", client="bob") for row in range(ROWS)])
    other.snapshot()
    if is_collected:
        world.backend.commit([Delete(snapshots_partition(first.log.record.prefix), number(1))])
    for key in lost:
        del world.blobs.backend._bodies[key], world.blobs.backend._stats[key]
    with pytest.raises(error):
        document.apply([inc("cells/0001")])
    assert statuses(document.apply([put("cells/0001", 1)])) == ["applied"]
    assert world.open().get("cells/0001") == 1


def test_a_commit_after_the_floor_rose_runs_its_mutators_once_and_does_not_wait() -> None:
    runs: list[Any] = []

    def note(draft: Draft, args: Any) -> None:
        runs.append(args)

    world = World()
    document = world.create(rules=Rules({**BUILT_IN_MUTATORS, "note": note}))
    for _ in range(3):
        document.apply([inc()])
    document.forget_below(2)
    begun = world.clock.boot_ms()
    document.apply([Mutation(client="ada", id=4, name="note", args=4)])
    assert (runs, world.clock.boot_ms() - begun) == ([4], 0)
