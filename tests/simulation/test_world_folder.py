"""The world of a shared folder: a seed repeats exactly, and restores the replaced functions."""

from __future__ import annotations

import os

from stratalog import folders
from stratalog.backends import files
from stratalog.testing.scheduler import Scheduler
from tests.simulation.file_steps import FileSteps
from tests.simulation.world_folder import FolderWorld
from tests.simulation.worlds import run_seed


def test_a_seed_runs_the_same_way_twice() -> None:
    first = [run_seed(FolderWorld, seed).fingerprint for seed in range(20)]
    assert [run_seed(FolderWorld, seed).fingerprint for seed in range(20)] == first


def test_a_run_restores_the_replaced_functions_of_the_blob_folder() -> None:
    with FileSteps(Scheduler(7)).active():
        assert files.os is not os
    assert files.os is os
    assert folders.os is os
    assert not hasattr(files, "open")
