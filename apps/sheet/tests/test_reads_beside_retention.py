"""Reads of kept entries and of labels while retention raises the floor."""

from __future__ import annotations

import pytest

from stratalog.log import Event, Log, create_log, open_log
from stratalog.log.retention import raise_floor
from stratalog_sheet.events import Named, event_of
from stratalog_sheet.history import Labels
from stratalog_sheet.retention import read_retained
from tests.documents.helpers import World
from tests.interleaving import interleaved


def opened(world: World) -> Log:
    return open_log(world.open_environment(), "acme", "log")


def grown() -> World:
    """A log of nine versions that has forgotten the first two."""
    world = World(segment_entries_target=2)
    log = create_log(world.environment, "acme", "log")
    for number in range(1, 10):
        log.append(Event("seen", number))
    raise_floor(log, 2)
    return world


def test_kept_entries_are_read_although_the_floor_rises_again_during_the_read() -> None:
    def retained(world: World) -> int:
        return read_retained(opened(world), 0)[0].version

    assert set(interleaved(grown, retained, lambda world: raise_floor(opened(world), 6))) == {3, 7}
    assert read_retained(opened(grown()), 0, 2) == []


def test_labels_are_read_although_the_floor_rises_three_times_during_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    world, floor, rises = grown(), Log.floor, iter((5, 7, 9))
    handles: list[Log] = []

    def rising(log: Log) -> int:
        before = floor(log)
        if log in handles and (risen := next(rises, None)) is not None:
            raise_floor(opened(world), risen)
        return before

    monkeypatch.setattr(Log, "floor", rising)
    opened(world).append(event_of(Named(9, "kept")))
    handles.append(opened(world))
    assert [named.label for named in Labels(handles[0]).read()] == ["kept"]
    assert list(rises) == []
