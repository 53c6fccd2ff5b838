"""The bench of tables does the work that it measures, on each store. No test here asserts a speed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import stratalog
from bench.table import Case, Runs, costed, table
from bench.table_sides import BOUNDS, SIDES

SECONDS = 0.1
STANDING = 10
REFUSED = r"already|does not hold|not assigned|not found|not there|the job"


@pytest.mark.parametrize("name", SIDES)
def test_each_store_commits_files_without_a_failure(name: str, tmp_path: Path) -> None:
    case, tuning = Case("hosted", 2, 1, 1, 60), SIDES[name].tunings[-1]
    row = costed(Runs(tmp_path, SECONDS, STANDING).run(name, case, tuning), name, case, STANDING, tuning)
    assert row.failed == 0
    assert row.commits_per_second > 0
    assert None not in (row.requests, row.kilobytes, row.dollars_per_million)
    head, _, line = table([row])
    assert (name in line, line.count("|")) == (True, head.count("|"))


def test_a_writer_that_begins_after_the_end_of_the_run_commits_once(tmp_path: Path) -> None:
    """Its process was stopped, or its thread ran late. Without a commit the run would have no figures."""
    case, name = Case("hosted", 2), next(iter(SIDES))
    tuning = SIDES[name].tunings[-1]
    row = costed(Runs(tmp_path, 0, STANDING).run(name, case, tuning), name, case, STANDING, tuning)
    assert row.commits_per_second > 0
    assert None not in (row.requests, row.kilobytes, row.dollars_per_million)


@pytest.mark.parametrize("case", [Case("hosted", 2), Case("hosted", 2, files=10, jobs=3)])
def test_the_bench_measures_a_minimal_commit_like_the_stores(case: Case, tmp_path: Path) -> None:
    for name in BOUNDS:
        row = costed(Runs(tmp_path, SECONDS, STANDING).run(name, case, None), name, case, STANDING, None)
        assert (row.failed, row.partition_limit is not None) == (0, True)


@pytest.mark.parametrize("name", SIDES)
def test_each_store_does_jobs_without_a_failure(name: str, tmp_path: Path) -> None:
    case, tuning = Case("hosted", 2, files=10, jobs=3), SIDES[name].tunings[-1]
    row = costed(Runs(tmp_path, 60, STANDING).run(name, case, tuning), name, case, STANDING, tuning)
    assert (row.failed, row.jobs) == (0, True)
    assert row.files_per_second == row.commits_per_second * 10
    assert "10 → 1" in list(table([row]))[-1]


@pytest.mark.parametrize("name", SIDES)
def test_no_store_assigns_a_file_to_two_jobs_or_replaces_a_file_of_another_job(name: str) -> None:
    with stratalog.open("memory:") as store:
        SIDES[name].create(store, "t")
        side = SIDES[name](store, "t", SIDES[name].tunings[-1])
        side.add(["a", "b", "c"])
        side.assign("one", ["a", "b"])
        with pytest.raises(Exception, match=REFUSED):
            side.assign("two", ["b", "c"])
        with pytest.raises(Exception, match=REFUSED):
            side.replace("two", ["c"], "d")
        with pytest.raises(Exception, match=REFUSED):
            side.replace("one", ["a", "b"], "c")
        side.replace("one", ["a", "b"], "d")
        with pytest.raises(Exception, match=REFUSED):
            side.replace("one", ["a", "b"], "e")
        side.assign("two", ["c", "d"])


@pytest.mark.parametrize("name", SIDES)
def test_each_store_refuses_only_the_duplicates_among_concurrent_additions(name: str) -> None:
    """Four of five concurrent calls add the same file. The store refuses three of the four. The fifth call succeeds."""
    with stratalog.open("memory:") as store:
        SIDES[name].create(store, "t")
        side = SIDES[name](store, "t", SIDES[name].tunings[-1])
        with ThreadPoolExecutor(5) as pool:
            answers = [pool.submit(side.add, [filename]) for filename in "aaaab"]
        refused = [answer.exception() is not None for answer in answers]
        assert (sum(refused), refused[-1]) == (3, False)


@pytest.mark.parametrize("name", SIDES)
def test_no_store_adds_a_file_twice(name: str) -> None:
    with stratalog.open("memory:") as store:
        SIDES[name].create(store, "t")
        side = SIDES[name](store, "t", SIDES[name].tunings[-1])
        side.add(["a"])
        with pytest.raises(Exception, match=REFUSED):
            side.add(["a"])
