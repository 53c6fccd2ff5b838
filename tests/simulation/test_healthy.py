"""Healthy stores verify, both at rest and while other processes write."""

from __future__ import annotations

import pytest

import stratalog
from stratalog.maintenance import inspection
from stratalog.testing.checkers import Violation
from stratalog.testing.clock import ManualClock
from stratalog.testing.scheduler import Counts
from tests.simulation.healthy import HEALTHY_WORLDS, healthy
from tests.simulation.inspected import check_healthy
from tests.simulation.worlds import run_seed


def test_healthy_stores_verify() -> None:
    result = healthy(24, seed=40)
    assert result.alarms == []
    assert result.forks
    assert result.floors
    assert result.archives
    assert result.live > 100


def test_an_inspection_without_repeated_reads_reports_damage_in_healthy_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "LOOKS_MAX", 0)
    checkers = (run_seed(HEALTHY_WORLDS["CollectWorld"], seed).checker for seed in range(200))
    assert "no false alarm" in checkers


@pytest.mark.parametrize("world", ["BranchesWorld", "QueueWorld", "ThreadWorld"])
def test_an_inspection_without_repeated_reads_reports_damage_in_worlds_of_branches_queues_and_threads(
    world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "LOOKS_MAX", 0)
    checkers = (run_seed(HEALTHY_WORLDS[world], seed).checker for seed in range(200))
    assert "no false alarm" in checkers


def test_a_store_that_lost_a_blob_is_not_healthy() -> None:
    counts = Counts()
    with stratalog.open("memory:", clock=ManualClock()) as store:
        document = store.create("acme", "plan")
        document.mutate("put", {"key": "cells/large", "value": "v" * 5000})
        check_healthy(store, "inspected", counts)
        assert counts.get("inspected") == 1
        for stat in list(store.environment.blobs.list("")):
            store.environment.blobs.delete(stat.key, stat.stamp)
        with pytest.raises(Violation, match="no false alarm"):
            check_healthy(store, "inspected", counts)
