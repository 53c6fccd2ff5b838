"""Reads during retention: the floor rises before any call of a port, and no kept version is forgotten or damaged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stratalog.documents import Document
from stratalog.errors import Corrupt, Unavailable, VersionForgotten
from stratalog.log.retained_entries import read_retained
from stratalog.maintenance.collection import collect
from stratalog.protocol.sync import Pull
from stratalog.sync.pull import pull
from tests.documents.helpers import World, large, put
from tests.interleaving import interleaved

KEY = "cells/A1"
VERSIONS = 8


def grown() -> World:
    """A document whose every version puts the same key. Its values are old enough to be collected."""
    world = World(segment_entries_target=2, snapshot_entries_interval=1000)
    document = world.create()
    for number in range(1, VERSIONS + 1):
        document.apply([put(KEY, large(f"{number}"), client=f"client-{number}")])
        world.clock.sleep(1)
    world.clock.sleep(1000)
    return world


def forget(world: World, floor: int) -> None:
    """Forget and free versions as another process does."""
    document = world.open()
    document.forget_below(floor)
    world.clock.sleep(1000)
    document.free_segments()
    assert collect(document.log.environment, "acme").failures == ()


def replace(world: World) -> None:
    """Replace the value of the key, and forget and collect the versions with the former value."""
    document = world.open()
    document.apply([put(KEY, large("new"), client="new")])
    document.forget_below(document.version)
    assert collect(document.log.environment, "acme").garbage


def test_the_version_of_a_mutation_above_the_risen_floor_is_found() -> None:
    def applied(world: World) -> int | None:
        return world.open().applied_in("client-7", 1)

    results = list(interleaved(grown, applied, lambda world: forget(world, 5)))
    assert len(results) > 5
    assert set(results) == {7}


def test_versions_are_listed_from_the_risen_floor_on() -> None:
    def first(world: World) -> tuple[int, int]:
        document = world.open()
        return next(document.unread_versions()).position, next(read_retained(document.log)).version

    results = set(interleaved(grown, first, lambda world: forget(world, 4)))
    assert results == {(1, 5), (5, 5)}


def test_a_floor_that_rises_above_a_listed_version_ends_the_list() -> None:
    world = grown()
    rows = world.open().unread_versions()
    next(rows)
    forget(world, VERSIONS)
    with pytest.raises(VersionForgotten):
        list(rows)


READS: dict[str, Callable[[Document], Any]] = {
    "get": lambda document: document.get(KEY)["id"],
    "scan": lambda document: next(value["id"] for _, value in document.scan()),
    "fields": lambda document: document.at().fields() or document.at()[KEY]["id"],
    "pull": lambda document: pull(document, Pull("g", None)).patch[1].value["id"],
    "patch": lambda document: document.patch(KEY, {"id": "patched"}) and document.get(KEY)["id"],
    "diff": lambda document: next(document.diff(0, document.version)).after["id"],
}  # fmt: skip


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_value_that_is_replaced_and_collected_during_a_read_is_not_damaged(read: Callable[[Document], Any]) -> None:
    def seen(world: World) -> object:
        try:
            return read(world.open())
        except (Unavailable, VersionForgotten) as exc:
            return type(exc)

    results = set(interleaved(grown, seen, replace))
    assert Unavailable in results
    assert results - {Unavailable, VersionForgotten} <= {f"{VERSIONS}", "new", "patched"}


def test_a_missing_value_of_a_kept_version_is_damaged() -> None:
    world = grown()
    view = world.open().at()
    for key in world.blob_keys("items/"):
        stat = world.blobs.stat(key)
        assert stat is not None
        world.blobs.delete(key, stat.stamp)
    with pytest.raises(Corrupt):
        view.get(KEY)


ROWS: dict[str, Callable[[Document], Any]] = {
    "versions": lambda document: [version.version for version in document.versions(VERSIONS - 1)],
    "history": lambda document: [change.version for change in document.history(KEY)],
}


@pytest.mark.parametrize("read", ROWS.values(), ids=ROWS)
def test_a_row_of_a_version_that_is_forgotten_during_a_read_is_not_damaged(read: Callable[[Document], Any]) -> None:
    def seen(world: World) -> object:
        try:
            return str(read(world.open()))
        except VersionForgotten as exc:
            return exc.message

    results = set(interleaved(grown, seen, replace))
    assert "the version was forgotten while it was read" in results


def test_a_snapshot_of_the_newest_version_is_made_although_that_version_is_forgotten_meanwhile() -> None:
    results = set(interleaved(grown, lambda world: world.open().snapshot(), replace))
    assert results == {VERSIONS + 3}
