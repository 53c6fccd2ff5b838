"""A short run of `soak.py`: after kills of the processes, every record still has its original bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.catalogue.tests.soak import soak


@pytest.mark.slow
def test_records_survive_processes_that_are_killed(tmp_path: Path) -> None:
    done = soak(12_000, 2, 2, 7, 0.2, tmp_path)
    assert done == {"records": 12_000, "kills": 2}
