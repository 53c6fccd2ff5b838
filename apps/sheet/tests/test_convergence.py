"""Real engines that share a sheet have equal states at the end of random runs: see `convergence/run.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.sheet.tests.convergence import run
from apps.sheet.tests.convergence.run import Diverged, play
from stratalog import Log
from stratalog.errors import Invalid
from stratalog_sheet import EnginePool, SheetSettings, load_plan, snapshot_versions

RUNS = 20
RUNS_OF_A_TEST = 5
STEPS = 200
VERSIONS_MIN = 15
"""The minimum number of versions of a run. When this number was chosen, seven runs had 23 to 56 versions."""

SEED_ACROSS = 14
"""The seed of a run in which an undo reaches across an app snapshot, if `at_the_head` chooses the snapshots."""


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, RUNS + 1, RUNS_OF_A_TEST))
def test_clients_states_and_replay_agree(first: int, engines: EnginePool) -> None:
    for seed in range(first, first + RUNS_OF_A_TEST):
        counts = play(seed, engines, steps=STEPS)
        assert counts["versions"] >= VERSIONS_MIN, counts
        assert counts["conflicts"] > 0, counts
        assert counts["in their cells"] > 0, counts


@pytest.mark.parametrize(
    "seed",
    [1795600014, 1795600062, 1796001362],
    ids=["writesAroundAnInsertedRow", "anothersUndo", "eachDeletesASheet"],
)
def test_a_seed_that_once_lost_a_text_loses_no_text(seed: int, engines: EnginePool) -> None:
    assert play(seed, engines)["in their cells"] > 0


def test_a_load_plan_that_omits_an_undone_edit_fails_the_run(
    engines: EnginePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_versions, "snapshot_versions", at_the_head)
    play(SEED_ACROSS, engines)
    monkeypatch.setattr(load_plan, "_lowest_target", lambda entries, default: default)
    with pytest.raises((AssertionError, Invalid)):
        play(SEED_ACROSS, engines)


@pytest.mark.parametrize("program", ["", 'console.log(\'{"name": "end"}\');', 'console.log(\'{"name": "name"}\');'])
def test_clients_that_hang_are_killed(
    program: str, engines: EnginePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = tmp_path / "hang.mjs"
    hanging.write_text(f"{program} setInterval(() => {{}}, 1000);")
    monkeypatch.setattr(run, "CLIENTS", hanging)
    monkeypatch.setattr(run, "SECONDS_MAX", 1)
    with pytest.raises(Diverged, match="SIGKILL"):
        play(1, engines)


def at_the_head(log: Log, settings: SheetSettings) -> Iterator[int]:
    """Yield the version of the snapshot that an older program saved when a snapshot was due. An undo may cross it."""
    head, interval = log.head().version, settings.snapshot_entries
    newest = log.app_snapshot(head)
    last = newest.version if newest else 0
    if head - last >= interval:
        yield head if head - last < 2 * interval else last + interval
