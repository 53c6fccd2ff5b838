"""The scrub reads all blobs within a given number of days. Each pass of the scrub reads a share of the blobs.

A pass reports each damaged blob as a failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import stratalog
from stratalog.maintenance import scrub as scrub_module
from stratalog.maintenance.policy import MaintenancePolicy
from stratalog.maintenance.scrub import last_scrub_ms, scrub
from stratalog.maintenance.store_pass import maintain
from stratalog.testing.clock import ManualClock
from tests.damage import CUT, damage_blob

HOUR_SECONDS = 3600
BLOBS = 60


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[stratalog.Store]:
    monkeypatch.setattr(scrub_module, "SCRUB_PASS_BYTES_MIN", 25_000)
    with stratalog.open("memory:", clock=ManualClock()) as opened:
        for number in range(BLOBS):
            opened.records("acme").put(f"r{number}", os.urandom(10_000))
        yield opened


def test_each_pass_reads_a_share_and_the_next_pass_continues(store: stratalog.Store) -> None:
    reports = []
    while not reports or not reports[-1].is_round_finished:
        reports.append(scrub(store.environment, 30))
        store.environment.clock.sleep(HOUR_SECONDS)
    assert sum(report.blobs for report in reports) == BLOBS
    assert {report.blobs for report in reports[:-1]} == {3}
    assert 0 < last_scrub_ms(store.environment) < store.environment.clock.wall_ms()


def test_a_scrub_round_ends_within_the_configured_days(store: stratalog.Store) -> None:
    clock = store.environment.clock
    for days in (0.25, 0.25):
        last = last_scrub_ms(store.environment)
        for _ in range(200):
            scrub(store.environment, days)
            clock.sleep(600)
        assert last_scrub_ms(store.environment) > last
    # The last finished round began before the present round, so at most two rounds ago.
    assert clock.wall_ms() - last_scrub_ms(store.environment) <= 2 * 0.25 * 86_400_000


def test_the_first_round_of_a_large_store_ends_within_the_configured_days(
    store: stratalog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the minimum alone, a pass a day would read half of the blobs within the days."""
    monkeypatch.setattr(scrub_module, "SCRUB_PASS_BYTES_MIN", 10_000)
    for _ in range(30):
        scrub(store.environment, 30)
        store.environment.clock.sleep(24 * HOUR_SECONDS)
    assert last_scrub_ms(store.environment) > 0


def test_a_count_of_the_blobs_that_is_stopped_resumes(store: stratalog.Store) -> None:
    calls = 0

    def stop() -> bool:
        nonlocal calls
        calls += 1
        return calls % 20 == 0

    reports = [scrub(store.environment, 30, stop=stop) for _ in range(4)]
    assert [report.blobs for report in reports[:3]] == [0, 0, 0]
    assert reports[3].blobs > 0


def test_a_damaged_blob_is_a_failure_of_the_pass(store: stratalog.Store) -> None:
    key = next(iter(store.environment.blobs.list(""))).key
    damage_blob(store.environment.blobs, key, CUT)  # type: ignore[arg-type]
    report = maintain(store)
    assert [(failure.what, failure.code) for failure in report.failures] == [(key, "corrupt")]
    assert report.blobs_scrubbed == 3
    assert maintain(store).failures == ()


def test_a_policy_without_scrub_days_reads_no_blob(store: stratalog.Store) -> None:
    assert maintain(store, MaintenancePolicy(scrub_days=None)).blobs_scrubbed == 0


def test_a_dry_run_reads_blobs_and_saves_no_position(store: stratalog.Store) -> None:
    assert [scrub(store.environment, 30, dry_run=True).blobs for _ in range(30)] == [3] * 30
    assert last_scrub_ms(store.environment) == 0
