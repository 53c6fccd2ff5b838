"""Polls of several sources: damage to one source stops no other source, and a failing source is polled less often."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stratalog
from apps.catalogue.tests.helpers import Catalogue
from stratalog.testing.clock import ManualClock
from stratalog_catalogue import polls
from stratalog_catalogue.folder import Step
from stratalog_catalogue.names import CHECKPOINTS, SETTINGS
from stratalog_catalogue.polls import Polled, poll
from stratalog_catalogue.precedence import note_read
from stratalog_catalogue.record_splitter import SplitRecord
from stratalog_catalogue.sources import Source

SCANS = {"format": "file", "transformer": "plain"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def catalogue(clock: ManualClock, tmp_path: Path) -> Iterator[Catalogue]:
    with stratalog.open("memory:", clock=clock) as store:
        made = Catalogue(store, tmp_path)
        for name in ("first", "second"):
            made.add(name, **SCANS)
            made.write("text", source=name, name="a")
        yield made


def poll_due(catalogue: Catalogue) -> list[Polled]:
    return list(poll(catalogue.store, "acme", catalogue.connect, due_only=True))


@pytest.mark.parametrize("due_only", [False, True])
@pytest.mark.parametrize("body", [b"not JSON", b"[]"])
def test_a_damaged_checkpoint_stops_no_other_source(catalogue: Catalogue, body: bytes, due_only: bool) -> None:
    catalogue.records.put(f"{CHECKPOINTS}first", body)
    first, second = poll(catalogue.store, "acme", catalogue.connect, due_only=due_only)
    assert "checkpoint cannot be read" in first.reason
    assert (second.source, second.taken.new) == ("second", 1)


def test_damaged_settings_stop_no_other_source(catalogue: Catalogue) -> None:
    catalogue.records.put(f"{SETTINGS}first", b"not JSON")
    first, second = poll(catalogue.store, "acme", catalogue.connect)
    assert "settings" in first.reason
    assert (second.source, second.taken.new) == ("second", 1)


@pytest.mark.parametrize("polled_before", [False, True])
def test_a_source_that_fails_is_due_after_a_back_off(
    catalogue: Catalogue, clock: ManualClock, polled_before: bool
) -> None:
    if polled_before:
        assert len(poll_due(catalogue)) == 2
    (catalogue.folder / "first").rename(catalogue.folder / "away")
    clock.sleep(3600)
    assert [polled.reason != "" for polled in poll_due(catalogue)] == [True, False]
    clock.sleep(59)
    assert poll_due(catalogue) == []
    clock.sleep(1)
    assert [polled.source for polled in poll_due(catalogue)] == ["first"]
    clock.sleep(60)
    assert poll_due(catalogue) == []
    clock.sleep(60)
    (catalogue.folder / "away").rename(catalogue.folder / "first")
    assert [polled.reason for polled in poll_due(catalogue)] == [""]
    assert catalogue.records.failure("polls/first") is None


def test_a_poll_that_fails_after_a_checkpoint_resumes_after_a_back_off(
    catalogue: Catalogue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(source: Source, *_: object) -> Iterator[Step]:
        yield Step(iter(()), {"position": 1}, clock.wall_ms())
        raise ValueError("a part of the source is damaged")

    monkeypatch.setattr(polls, "_steps", interrupted)
    assert [polled.reason != "" for polled in poll_due(catalogue)] == [True, True]
    monkeypatch.undo()
    clock.sleep(59)
    assert poll_due(catalogue) == []
    clock.sleep(1)
    assert [(polled.source, polled.reason) for polled in poll_due(catalogue)] == [("first", ""), ("second", "")]
    clock.sleep(60)
    assert poll_due(catalogue) == []


def test_the_back_off_ends_at_the_interval_of_the_source(catalogue: Catalogue, clock: ManualClock) -> None:
    catalogue.add("first", **SCANS, every_seconds=100.0)
    (catalogue.folder / "first").rename(catalogue.folder / "away")
    for _ in range(5):
        assert poll_due(catalogue)[0].source == "first"
        clock.sleep(100)


@pytest.mark.parametrize("fails", [False, True])
def test_a_source_that_was_polled_by_a_clock_that_was_far_ahead_is_due(
    catalogue: Catalogue, clock: ManualClock, fails: bool
) -> None:
    folder, away = catalogue.folder / "first", catalogue.folder / "away"
    if fails:
        folder.rename(away)
    clock.set_wall(clock.wall_ms() + 10**12)
    assert len(poll_due(catalogue)) == 2
    clock.set_wall(clock.wall_ms() - 10**12)
    if fails:
        away.rename(folder)
    assert [polled.source for polled in poll_due(catalogue)] == ["first", "second"]
    assert poll_due(catalogue) == []


@pytest.mark.parametrize(
    ("adapter", "time_ms", "complete", "is_remembered"),
    [
        ("http", 1, False, False),
        ("http", None, False, True),
        ("oai", 1, False, True),
        ("folder", None, False, False),
        ("folder", None, True, True),
    ],
)
def test_a_poll_remembers_only_the_ids_that_it_may_need_again(
    adapter: Any, time_ms: int | None, complete: bool, is_remembered: bool
) -> None:
    source, step = Source(name="a", adapter=adapter, location="x", format="json"), Step(iter(()), {}, 1, complete)
    read = [note_read(source, step, SplitRecord(id="1", time_ms=time_ms), 1) for _ in range(2)]
    assert (read, len(step.seen)) == ([True, not is_remembered], is_remembered)
