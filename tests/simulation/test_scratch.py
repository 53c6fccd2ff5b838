"""The worlds that work on real files pass many seeds, and remove the folder of each seed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.simulation import scratch
from tests.simulation.world_disk import DiskWorld
from tests.simulation.world_folder import FolderWorld
from tests.simulation.world_turns import TurnsWorld
from tests.simulation.worlds import World, run_seed

SEEDS = 30


@pytest.mark.parametrize("world", [DiskWorld, FolderWorld, TurnsWorld])
def test_seeds_pass_and_leave_no_folders_behind(
    world: type[World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []
    make = tempfile.mkdtemp

    def note(**options: Any) -> str:
        made.append(Path(make(**options)))
        return str(made[-1])

    monkeypatch.setattr(scratch, "IN_MEMORY", str(tmp_path))
    monkeypatch.setattr("tempfile.mkdtemp", note)
    assert [run_seed(world, seed).details for seed in range(SEEDS)] == [""] * SEEDS
    assert [folder.parent for folder in made] == [tmp_path] * SEEDS
    assert list(tmp_path.iterdir()) == []
