"""If a record changes during each attempt to read it, the new backup has the record as the previous backup has it."""

from __future__ import annotations

import pytest

import stratalog
from stratalog.backups import records
from stratalog.errors import Corrupt
from stratalog.testing.clock import ManualClock
from tests.backups.stores import Backups
from tests.inline_store import open_inline
from tests.maintenance.growing import SETTINGS

pytestmark = pytest.mark.slow

FIRST, SECOND = b"1" * 20_000, b"2" * 20_000


@pytest.fixture
def memory() -> stratalog.Store:
    return open_inline(settings=SETTINGS, clock=ManualClock())


@pytest.mark.parametrize("has_failure", [False, True])
def test_a_new_backup_has_the_previous_version_of_a_record_that_changes_in_each_attempt(
    memory: stratalog.Store, monkeypatch: pytest.MonkeyPatch, has_failure: bool
) -> None:
    """Before the second backup, the test deletes the blob of the only version in the first backup."""
    backups, blobs = Backups(memory.environment.clock), memory.environment.blobs
    memory.records("acme").put("r", FIRST)
    backups.make(memory)
    [stat] = blobs.list("acme/records/r/")
    memory.records("acme").put("r", SECOND)
    if has_failure:
        memory.records("acme").fail("r", "cannot be parsed", body=b"3" * 20_000)
    blobs.delete(stat.key, stat.stamp)
    monkeypatch.setattr(records, "packed", lambda items: b"another row")
    [failure] = backups.make(memory).manifest.failures
    assert (failure.what, failure.code) == ("acme/r", "conflict")
    assert backups.view().records("acme").get("r").body == FIRST


def test_a_damaged_body_is_reported_once_although_each_attempt_reads_the_body(
    memory: stratalog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    backups, blobs = Backups(memory.environment.clock), memory.environment.blobs
    memory.records("acme").put("r", FIRST)
    [stat] = blobs.list("acme/records/r/")

    def get(key: str) -> bytes:
        raise Corrupt("the body is damaged", key=key)

    monkeypatch.setattr(blobs, "get", get)
    monkeypatch.setattr(records, "packed", lambda items: b"another row")
    failures = backups.make(memory).manifest.failures
    assert [(failure.what, failure.code) for failure in failures] == [(stat.key, "corrupt"), ("acme/r", "conflict")]
