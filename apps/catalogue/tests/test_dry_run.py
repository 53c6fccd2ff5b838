"""A dry run writes nothing. It returns the counts that a poll would return, if the source has no record twice."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

import stratalog
from apps.catalogue.tests.helpers import DAY_NS, PACKAGE, START_NS, Catalogue
from stratalog import Records, RecordVersion
from stratalog.testing.clock import ManualClock
from stratalog_catalogue.names import POLLS
from stratalog_catalogue.polls import WITHHELD, Polled, poll
from tests.stored import stored_items


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    return Catalogue(stratalog.open("memory:", clock=ManualClock()), tmp_path)


NAMES = [f"package-{number}" for number in range(40)]


def dry(catalogue: Catalogue, **options: bool) -> Polled:
    """Return the outcome of a dry run, and check that the run leaves every item and blob unchanged."""
    before = stored(catalogue)
    (planned,) = poll(catalogue.store, "acme", catalogue.connect, dry_run=True, **options)
    assert planned.dry_run
    assert stored(catalogue) == before
    return planned


def stored(catalogue: Catalogue) -> list[object]:
    environment = catalogue.store.environment
    return [*stored_items(environment.index), *environment.blobs.list("")]


@pytest.mark.parametrize("seed", range(20))
def test_a_dry_run_counts_as_the_poll_after_it(catalogue: Catalogue, seed: int) -> None:
    chance = Random(seed)
    catalogue.add(complete=chance.random() < 0.7)
    versions: dict[str, str] = {}
    for day in range(1, 8):
        for name in chance.sample(NAMES, chance.randrange(12)):
            versions[name] = str(chance.randrange(3))
        for name in chance.sample(sorted(versions), min(len(versions), chance.choice((0, 1, 30)))):
            del versions[name]
        paragraphs = [PACKAGE.format(name=name, version=at) for name, at in versions.items()]
        if chance.random() < 0.3:
            paragraphs.append("this is no paragraph\n")
        catalogue.write("\n".join(paragraphs), day=day if chance.random() < 0.8 else max(1, day - 2))
        planned, polled = dry(catalogue), catalogue.poll()
        assert (planned.taken, planned.reason) == (polled.taken, polled.reason)


def test_a_dry_run_reports_the_withheld_deletions_of_a_state_that_lacks_too_many_records(catalogue: Catalogue) -> None:
    catalogue.add()
    catalogue.write_packages(dict.fromkeys(NAMES, "1"))
    catalogue.poll()
    catalogue.write_packages({"bash": "1"}, day=2)
    planned = dry(catalogue)
    assert (planned.taken.withheld, planned.reason.startswith(WITHHELD)) == (40, True)
    assert dry(catalogue, allow_deletions=True).taken.deleted == 40


def test_a_dry_run_compares_files_that_are_records_by_their_times(catalogue: Catalogue) -> None:
    catalogue.add(format="file", transformer="plain")
    for name in ("a", "b"):
        catalogue.write(name * 10, name=name)
    assert dry(catalogue).taken.new == 2
    catalogue.poll()
    assert dry(catalogue).taken.read == 0
    catalogue.write("other", name="a", day=2)
    (catalogue.folder / "debian" / "b").unlink()
    planned, polled = dry(catalogue), catalogue.poll()
    assert planned.taken == polled.taken
    assert (planned.taken.new, planned.taken.deleted) == (1, 1)


@pytest.mark.parametrize("complete", [False, True])
def test_a_dry_run_looks_up_no_unchanged_record_a_second_time(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch, complete: bool
) -> None:
    catalogue.add(complete=complete)
    catalogue.write_packages({"ant": "1", "bee": "1"})
    catalogue.poll()
    catalogue.write_packages({"ant": "1", "bee": "1"}, day=2)
    stat, read = Records.stat, []

    def recorded(records: Records, id: str, *given: Any) -> RecordVersion:
        read.append(id)
        return stat(records, id, *given)

    monkeypatch.setattr(Records, "stat", recorded)
    (polled,) = poll(catalogue.store, "acme", catalogue.connect, dry_run=True)
    assert (polled.taken.same, [id for id in read if id.startswith("source/")]) == (2, [])


def test_a_dry_run_of_an_unavailable_source_counts_no_failure(catalogue: Catalogue) -> None:
    source = catalogue.add()
    (catalogue.folder / "debian").rename(catalogue.folder / "elsewhere")
    for _ in range(9):
        assert "folder" in dry(catalogue).reason
    assert catalogue.records.failure(POLLS + source.name) is None


def test_a_dry_run_counts_an_empty_file_with_a_newer_time_as_the_poll_does(catalogue: Catalogue) -> None:
    catalogue.add(format="file", transformer="plain")
    catalogue.write("", name="empty")
    catalogue.poll()
    path = catalogue.folder / "debian" / "empty"
    os.utime(path, ns=(START_NS + 2 * DAY_NS, START_NS + 2 * DAY_NS))
    planned, polled = dry(catalogue), catalogue.poll()
    assert planned.taken == polled.taken
