"""Healthy stores verify, at rest and while others write."""

from __future__ import annotations

import pytest

from stratalog.maintenance import inspection
from tests.simulation.healthy import HEALTHY_WORLDS, healthy
from tests.simulation.worlds import run_seed


def test_healthy_stores_verify() -> None:
    result = healthy(20, seed=40)
    assert result.alarms == []
    assert result.forks
    assert result.floors
    assert result.archives
    assert result.live > 100


def test_an_inspection_that_looks_once_calls_healthy_stores_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "LOOKS_MAX", 0)
    checkers = {run_seed(HEALTHY_WORLDS["CollectWorld"], seed).checker for seed in range(12)}
    assert "no false alarm" in checkers
