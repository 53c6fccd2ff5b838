"""A projection is a read model, which moves its checkpoint only forward and writes the effects of an entry once."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import pytest

from stratalog.documents import Document, Projection
from stratalog.documents.commits import read_commit
from stratalog.errors import HistoryChanged, LimitExceeded, OutcomeUnknown, Unavailable, VersionForgotten
from stratalog.keys import checkpoints_partition
from stratalog.log import Entry
from stratalog.ports.index import Delete, Item, Put, Write
from tests.documents.helpers import World, inc


def count(entry: Entry) -> Sequence[Write]:
    """Project one row per mutation."""
    rows = [f"{mutation.client} {mutation.id}" for mutation in read_commit(entry).mutations]
    return [Put(Item("projected", row, {"v": entry.version})) for row in rows]


def grown(world: World, versions: int = 5) -> Document:
    document = world.create()
    for _ in range(versions):
        document.apply([inc()])
    return document


def rows(world: World) -> dict[str, object]:
    return {item.sort: item.attributes["v"] for item in world.backend.query("projected")}


def test_a_projection_catches_up_to_the_head() -> None:
    world = World()
    document = grown(world)
    projection = Projection(document.log, "counts", count)
    assert (projection.checkpoint(), projection.catch_up(), projection.checkpoint()) == (0, 5, 5)
    document.apply([inc()])
    assert projection.catch_up() == 6
    assert rows(world) == {f"ada {n}": n for n in range(1, 7)}


def test_catch_up_with_version_min_stops_at_that_version_and_tail_yields_the_rest() -> None:
    world = World()
    projection = Projection(grown(world).log, "counts", count)
    assert projection.catch_up(version_min=3) == 3
    assert projection.catch_up(version_min=2) == 3
    assert [entry.version for entry in projection.tail(5)] == [4, 5]
    assert list(projection.tail(2)) == []
    assert projection.catch_up(version_min=99) == 5


def test_a_projection_behind_the_floor_serves_projected_versions_and_cannot_catch_up() -> None:
    world = World()
    document = grown(world)
    projection = Projection(document.log, "counts", count)
    projection.catch_up(version_min=3)
    document.forget_below(5)
    assert projection.catch_up(version_min=2) == 3
    with pytest.raises(VersionForgotten):
        projection.catch_up()


def test_two_concurrent_projections_write_each_effect_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    document = grown(world)
    seen: list[int] = []
    written: list[str] = []
    commit = world.backend.commit

    def noted(writes: Sequence[Write], *blobs: Any) -> None:
        commit(writes, *blobs)
        effects = (write.item for write in writes if isinstance(write, Put))
        written.extend(item.sort for item in effects if item.partition == "projected")

    monkeypatch.setattr(world.backend, "commit", noted)

    def slow(entry: Entry) -> Sequence[Write]:
        if entry.version == 2 and 2 not in seen:
            seen.append(2)
            Projection(world.open().log, "counts", count).catch_up()
        return count(entry)

    assert Projection(document.log, "counts", slow).catch_up() == 5
    assert written == [f"ada {n}" for n in range(1, 6)]
    assert rows(world) == {f"ada {n}": n for n in range(1, 6)}


def test_a_projection_that_loses_every_race_ends_at_the_head() -> None:
    world = World()
    document = grown(world, 400)
    ahead = Projection(world.open().log, "counts", count)
    depths: list[int] = []

    def lose(entry: Entry) -> Sequence[Write]:
        depths.append(len(inspect.stack(0)))
        ahead.catch_up(entry.version)
        return count(entry)

    assert Projection(document.log, "counts", lose).catch_up() == 400
    assert len(depths) == 400
    assert max(depths) == min(depths)
    assert rows(world) == {f"ada {n}": n for n in range(1, 401)}


def test_catch_up_leaves_entries_appended_meanwhile_to_the_next_call() -> None:
    world = World()
    document = grown(world)
    other = Projection(world.open().log, "counts", count)

    def append(entry: Entry) -> Sequence[Write]:
        document.apply([inc()])
        other.catch_up(entry.version)
        return count(entry)

    assert Projection(world.open().log, "counts", append).catch_up() == 5
    assert document.version == 10


def test_effects_are_written_once_if_every_answer_is_lost() -> None:
    world = World()
    document = grown(world)
    before = len(world.index.commits)

    def lose(name: str, target: str) -> None:
        raise OutcomeUnknown("lost")

    world.recorder.after = lose
    assert Projection(document.log, "counts", count).catch_up() == 5
    assert len(world.index.commits) - before == 5


def test_a_checkpoint_does_not_pass_an_entry_whose_effects_cannot_be_written() -> None:
    world = World(append_seconds_max=0.01)
    document = grown(world)

    def refuse(name: str, target: str) -> None:
        if "ada 3" in target:
            raise Unavailable("no")

    world.recorder.before = refuse
    projection = Projection(document.log, "counts", count)
    with pytest.raises(Unavailable):
        projection.catch_up()
    world.recorder.before = None
    assert projection.checkpoint() == 2
    assert projection.catch_up() == 5


def test_too_many_effects_of_one_entry_are_refused() -> None:
    document = grown(World())
    many = [Delete("projected", str(n)) for n in range(100)]
    with pytest.raises(LimitExceeded):
        Projection(document.log, "counts", lambda entry: many).catch_up()


def test_a_projection_of_versions_that_the_log_has_lost_raises_history_changed() -> None:
    world = World()
    document = grown(world)
    older = copy.deepcopy(world.backend._partitions)
    document.apply([inc()])
    Projection(document.log, "counts", count).catch_up()
    checkpoint = world.backend._partitions[checkpoints_partition(document.log.record.prefix)]
    world.backend._partitions = older | {checkpoints_partition(document.log.record.prefix): checkpoint}
    for _ in range(2):
        with pytest.raises(HistoryChanged):
            Projection(world.open().log, "counts", count).catch_up()
        world.open().apply([inc(by=2)])


def test_projections_with_different_names_have_separate_checkpoints() -> None:
    document = grown(World())
    Projection(document.log, "one", count).catch_up(2)
    other = Projection(document.log, "other/name", lambda entry: [])
    assert (other.checkpoint(), other.catch_up(), Projection(document.log, "one", count).checkpoint()) == (0, 5, 2)
