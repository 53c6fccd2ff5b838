"""Commits may come between any two steps of a snapshot. Afterwards every committed version reads correctly."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from stratalog.documents import Document, verify
from stratalog.errors import StratalogError, Unavailable
from stratalog.log.snapshots import list_snapshots
from tests.documents.helpers import World, inc, put, statuses

BODY = "about forty bytes of text in a value "
STEPS_MAX = 40


def snapshots(document: Document) -> list[int]:
    return [snapshot.version for snapshot in list_snapshots(document.log.environment.index, document.log.record.prefix)]


def change(document: Document, number: int) -> None:
    """Commit puts of an existing client, and a deletion by a new client."""
    document.apply([put(f"c/{number}", f"{BODY}{number}"), inc()])
    document.mutate("del", {"key": f"c/{number % 7}"}, client=f"bob-{number}")
    document.apply([put("c/3", f"back {number}"), put("title", f"{number}")])


def at_step(world: World, step: int, meanwhile: Callable[[], object]) -> list[int]:
    """Run ``meanwhile`` before port call number ``step``. Return a list with the number of calls so far."""
    calls = [0]

    def count(name: str, target: str) -> None:
        calls[0] += 1
        if calls[0] == step:
            world.recorder.before = None
            meanwhile()
            world.recorder.before = count

    world.recorder.before = count
    return calls


def grown(world: World) -> Document:
    """A document with a snapshot.

    The next snapshot shares chunks with the first snapshot and changes several chunks.
    """
    document = world.create()
    document.apply([put(f"c/{n}", BODY * 5 + str(n)) for n in range(300)])
    document.snapshot()
    for n in range(0, 300, 40):
        document.apply([put(f"c/{n}", f"{BODY}again {n}")])
    return document


@pytest.mark.parametrize("of", ["the head", "a version before"])
def test_after_commits_at_any_step_of_a_snapshot_the_state_is_based_on_that_snapshot(of: str) -> None:
    for step in range(1, STEPS_MAX):
        world = World(snapshot_entries_interval=1000)
        document = grown(world)
        version = document.version if of == "the head" else document.version - 2
        calls = at_step(world, step, partial(change, document, 301))
        document.snapshot(version)
        world.recorder.before = None
        if calls[0] < step:
            break
        assert snapshots(document) == [1, version] or (step == 1 and of == "the head")
        state = document.state()
        assert (state.version, state.snapshot_version) == (document.version, max(snapshots(document)))
        change(document, 302)
        assert document.at().to_dict() == world.open().at().to_dict()
        assert document.at().content_digest() == world.open().at().content_digest()
        document.snapshot()
        verify(document)
    assert calls[0] < step, "the snapshot makes more calls than the test has steps"
    assert step > 5


def test_a_commit_does_not_wait_for_a_snapshot() -> None:
    world = World(snapshot_entries_interval=1000)
    document = grown(world)
    answers: list[str] = []
    at_step(world, 3, lambda: answers.extend(statuses(document.apply([inc()]))))
    before = document.version
    document.snapshot(before)
    assert answers == ["applied"]
    assert snapshots(document) == [1, before]


def test_commits_during_a_snapshot_take_no_second_snapshot_and_the_next_commit_does() -> None:
    world = World(snapshot_entries_interval=10)
    document = world.create()
    document.apply([put(f"c/{n}", BODY * 5) for n in range(100)])

    def cross_the_interval() -> None:
        for _ in range(12):
            document.apply([inc()])

    at_step(world, 4, cross_the_interval)
    document.snapshot(1)
    world.recorder.before = None
    assert (snapshots(document), document.version) == ([1], 13)
    document.apply([inc()])
    assert snapshots(document) == [1, 14]
    assert verify(document).snapshots == 2


def test_a_failed_snapshot_preserves_concurrent_commits() -> None:
    world = World(snapshot_entries_interval=1000, append_seconds_max=0.01)
    document = grown(world)

    def commit_and_fail(name: str, target: str) -> None:
        if name == "blob put":
            world.recorder.before = None
            change(document, 301)
            raise Unavailable("scripted")

    world.recorder.before = commit_and_fail
    with pytest.raises(StratalogError):
        document.snapshot()
    assert snapshots(document) == [1]
    assert document.get("title") == "301"
    assert document.snapshot() == document.version
    assert document.at().to_dict() == world.open().at().to_dict()


@pytest.mark.parametrize("newer", [0, 2])
def test_a_snapshot_whose_base_is_forgotten_meanwhile_preserves_concurrent_commits(newer: int) -> None:
    world = World(snapshot_entries_interval=1000, segment_entries_target=2)
    document = grown(world)
    other, wanted = world.open(), document.version

    def forget() -> None:
        change(document, 301)
        other.forget_below(wanted + newer)
        change(document, 302)

    at_step(world, 4, forget)
    # The newest version at the start of the call is forgotten if ``newer``. Then the snapshot is of the newest version.
    taken = document.snapshot()
    world.recorder.before = None
    assert taken == (document.version if newer else wanted)
    assert snapshots(document) == sorted({wanted + newer, taken})
    change(document, 303)
    assert document.at().to_dict() == world.open().at().to_dict()
    assert document.snapshot() == document.version
    verify(document)
