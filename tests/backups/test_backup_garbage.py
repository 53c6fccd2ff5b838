"""A backup that is made after a collection contains no blob that the source has collected."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

import stratalog
from stratalog.limits import BODY_PART_BYTES
from stratalog.maintenance.collection import collect
from stratalog.maintenance.policy import MaintenancePolicy, RetentionPolicy
from stratalog.maintenance.store_pass import maintain
from stratalog.ports.blobs import BlobStat
from stratalog.testing.clock import ManualClock
from tests.backups.stores import Backups
from tests.inline_store import open_inline
from tests.maintenance.growing import SETTINGS

NEWEST_SEGMENT = RetentionPolicy(retain_segments=1)
FREEING = MaintenancePolicy(documents=NEWEST_SEGMENT, logs=NEWEST_SEGMENT, collect_hours=10**6, scrub_days=None)
DAY_SECONDS = 86_400


@pytest.fixture
def store() -> Iterator[stratalog.Store]:
    with open_inline(settings=SETTINGS, clock=ManualClock()) as opened:
        yield opened


def body(count: int) -> bytes:
    return Random(count).randbytes(20_000)


def keys(store: stratalog.Store) -> set[str]:
    return {stat.key for stat in store.environment.blobs.list("")}


def free(store: stratalog.Store) -> None:
    """Free everything that a policy forgets. The blobs stay, because only a collection deletes blobs."""
    for _ in range(3):
        maintain(store, FREEING)
        store.environment.clock.sleep(DAY_SECONDS)


def test_a_backup_after_a_collection_contains_no_forgotten_blob(store: stratalog.Store) -> None:
    backups, records = Backups(store.environment.clock), store.records("acme")
    plan, log = store.create("acme", "plan"), store.create_log("acme", "events")
    for count in range(40):
        plan.put(f"a/{count % 3}", body(count).hex())
        log.append(stratalog.Event("seen", body(count)))
    for count in range(3):
        records.put("r", body(count))
    backups.make(store)
    records.prune("r", retain=1)
    free(store)
    before = keys(store)
    backups.make(store)
    assert len(collect(store.environment, "acme").garbage) > len(before) / 2
    assert backups.make(store).manifest.failures == ()
    assert keys(backups.view()) == keys(store)


def test_a_backup_after_a_collection_lacks_the_body_of_a_resolved_failure(
    store: stratalog.Store,
) -> None:
    backups, records = Backups(store.environment.clock), store.records("acme")
    records.put("r", body(1))
    records.fail("r", "unreadable", body=body(2))
    backups.make(store)
    records.resolve_dead_letter("r")
    backups.make(store)
    store.environment.clock.sleep(DAY_SECONDS)
    assert len(collect(store.environment, "acme").garbage) == 1
    backups.make(store)
    assert keys(backups.view()) == keys(store)


def test_the_blobs_of_an_unchanged_record_without_garbage_are_not_listed_again(store: stratalog.Store) -> None:
    """One record has a body of several parts, so the backup reads from its copies which blobs the body has."""
    backups, records, listed = Backups(store.environment.clock), store.records("acme"), list[str]()
    records.put("r", body(1))
    records.put("large", [bytes(BODY_PART_BYTES), b"end"])
    list_blobs = store.environment.blobs.list

    def watched(prefix: str, *, after: str = "") -> Iterator[BlobStat]:
        listed.append(prefix)
        return list_blobs(prefix, after=after)

    store.environment.blobs.list = watched  # type: ignore[method-assign]
    backups.make(store)
    assert len(listed) == 2
    backups.make(store)
    assert len(listed) == 2


def test_lost_copies_of_a_large_body_do_not_end_the_next_backup(store: stratalog.Store) -> None:
    backups = Backups(store.environment.clock)
    store.records("acme").put("large", [bytes(BODY_PART_BYTES), b"end"])
    backups.make(store)
    for stat in list(backups.blobs.list("!backup/blobs/")):
        backups.blobs.delete(stat.key, stat.stamp)
    assert backups.make(store).manifest.failures == ()
