"""Calls beside puts and prunes of another process: the newest version of a record is never missing."""

from __future__ import annotations

import pytest

from stratalog.errors import VersionForgotten
from stratalog.records import Records
from tests.documents.helpers import World
from tests.interleaving import interleaved


def records(world: World) -> Records:
    """Open the records as another process does."""
    return Records(world.open_environment(), "acme")


def grown() -> World:
    world = World()
    for text in (b"one", b"two"):
        records(world).put("a", text)
    return world


def deleted() -> World:
    world = grown()
    records(world).delete("a")
    return world


def replace(world: World) -> None:
    records(world).put("a", b"new")
    records(world).prune("a", retain=1)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_list_of_versions_has_the_newest_version_although_all_earlier_versions_are_forgotten_meanwhile(
    reverse: bool,
) -> None:
    def listed(world: World) -> list[int]:
        return [version.version for version in records(world).versions("a", reverse=reverse)]

    results = list(interleaved(grown, listed, replace))
    assert [3] in results
    assert all(results)
    assert records(grown()).prune("a", retain=1) == 2


def test_a_record_that_is_put_during_an_undeletion_is_not_forgotten() -> None:
    versions = interleaved(deleted, lambda world: records(world).undelete("a").version, replace)
    assert set(versions) == {4}


def test_an_undeletion_of_a_pruned_version_is_refused() -> None:
    world = deleted()
    records(world).prune("a", retain=1)
    with pytest.raises(VersionForgotten):
        records(world).undelete("a")
