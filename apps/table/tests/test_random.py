"""A random workload, compared with a plain model. Planted bugs, one at a time, show that the workload finds bugs."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.table.tests.mutants import MUTANTS, Mutant, hunt
from apps.table.tests.workload import Workload
from stratalog.backends.sqlite import SqliteDatabase
from stratalog.clock import SystemClock

SEEDS = 80
MUTANT_SEEDS = range(100)


@pytest.mark.usefixtures("untraced")
@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_random_workload_loses_no_row_or_file_and_its_job_tracker_agrees_with_its_table(part: int) -> None:
    for seed in range(part, SEEDS, 4):
        Workload(seed).run()


@pytest.mark.parametrize("backend", ["sqlite", "dynamodb"])
def test_a_random_workload_passes_on_sqlite_and_dynamodb(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if backend == "sqlite":
        database = SqliteDatabase(tmp_path / "index.sqlite", SystemClock())
        Workload(0, database.index).run()
        database.close()
    else:
        Workload(0, request.getfixturevalue("dynamo")).run()


@pytest.mark.usefixtures("untraced")
@pytest.mark.mutants
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_caught_by_its_checker(mutant: Mutant) -> None:
    catch = hunt(mutant, MUTANT_SEEDS)
    assert catch.good, catch


@pytest.mark.usefixtures("untraced")
@pytest.mark.slow
def test_a_planted_bug_is_gone_after_the_hunt() -> None:
    for mutant in MUTANTS:
        hunt(mutant, range(1))
    Workload(0).run()
