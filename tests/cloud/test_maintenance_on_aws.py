"""Collection and maintenance on DynamoDB and object stores: deletes of object versions and items, and resumed runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from stratalog.backends.memory import MemoryQueue
from stratalog.backends.objectstore import ObjectBlobs
from stratalog.backends.s3_versions import create_bucket
from stratalog.clock import SystemClock
from stratalog.codec import sha256
from stratalog.documents import verify
from stratalog.errors import QuotaExceeded
from stratalog.limits import GRACE_SECONDS, OBSERVATION_SECONDS_MAX
from stratalog.log import Environment, LogSettings
from stratalog.log.admission import Admission
from stratalog.log.tasks import InlineTasks
from stratalog.log.usage import Quotas, load_measurement
from stratalog.maintenance.collection import collect
from stratalog.maintenance.policy import MaintenancePolicy, RetentionPolicy
from stratalog.maintenance.store_pass import maintain
from stratalog.maintenance.usage import measure_usage
from stratalog.store import Store
from stratalog.testing.clock import ManualClock
from stratalog.testing.emulators import Emulator
from tests.cloud.helpers import dynamo_index
from tests.cloud.seaweed import VERSIONED, blobs_in, client

OLD_SECONDS = OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 60
LONG = "long " * 400


@pytest.fixture(params=["seaweed", "ministack"])
def blobs(request: pytest.FixtureRequest, aws: Emulator, bucket: Emulator) -> ObjectBlobs:
    if request.param == "ministack":
        create_bucket(client(aws), VERSIONED)
        return blobs_in(VERSIONED, aws)
    return blobs_in(VERSIONED, bucket)


@pytest.fixture
def store(aws: Emulator, blobs: ObjectBlobs) -> Iterator[Store]:
    """The store has a manual clock that starts at the present. The object store dates the blobs by its own clock."""
    clock = ManualClock(SystemClock().wall_ms())
    tuning = LogSettings(segment_entries_target=4, snapshot_entries_interval=3)
    with Store(
        Environment(dynamo_index(aws), blobs, clock, tuning, background=InlineTasks()), MemoryQueue(clock)
    ) as made:
        yield made


def fill(store: Store, count: int) -> str:
    """Create a document with large values, and a blob that nothing refers to. Return this blob's key."""
    document = store.create("acme", "budget")
    for number in range(count):
        assert document.mutate("put", {"key": "notes/a", "value": f"{number} {LONG}"}).status == "applied"
    orphan = f"{document.log.record.owner}/bodies/{sha256(b'orphan').hex()}"
    store.environment.blobs.put(orphan, b"orphan")
    store.environment.blobs.put(orphan, b"orphan")  # a second version; a collection must delete both
    return orphan


def test_a_collection_has_a_dry_run_and_resumes_after_a_stop(store: Store) -> None:
    orphan = fill(store, 6)
    store.environment.clock.sleep(OLD_SECONDS)
    planned = collect(store.environment, "acme", dry_run=True)
    assert planned.garbage == (orphan,)
    asked = itertools.count()
    assert not collect(store.environment, "acme", stop=lambda: next(asked) > 12).is_finished
    assert collect(store.environment, "acme").garbage == (orphan,)
    assert store.environment.blobs.stat(orphan) is None
    assert verify(store.document("acme", "budget")).version == 6


def test_maintenance_archives_forgets_frees_and_collects(store: Store) -> None:
    orphan = fill(store, 14)
    policy = MaintenancePolicy(documents=RetentionPolicy(retain_segments=3, archive_days=0), collect_hours=0)
    reports = [maintain(store, policy)]
    for _ in range(2):
        store.environment.clock.sleep(OLD_SECONDS)
        reports.append(maintain(store, policy))
    assert [report.failures for report in reports] == [(), (), ()]
    assert reports[0].archived_segments > 0
    assert reports[1].freed_segments > 0
    assert orphan in reports[1].garbage
    document = store.document("acme", "budget")
    retained = range(document.log.floor() + 1, 15)
    assert [document.get("notes/a", at=version) for version in retained] == [
        f"{version - 1} {LONG}" for version in retained
    ]
    assert document.log.floor() > 0


def test_freed_items_are_deleted_by_single_deletes_without_transactions(store: Store) -> None:
    fill(store, 14)
    maintain(store, MaintenancePolicy(documents=RetentionPolicy(retain_segments=1)))
    store.environment.clock.sleep(OLD_SECONDS)
    meter = store.environment.index.meter  # type: ignore[attr-defined]
    before = dict(meter.read())
    freed = maintain(store, MaintenancePolicy(snapshots=False)).freed_segments
    spent = {name: amount - before.get(name, 0) for name, amount in meter.read().items()}
    assert freed == 3
    assert spent.get(("DeleteItem", "requests"), 0) >= freed * 5
    assert spent.get(("TransactWriteItems", "requests"), 0) == 0


def test_a_measurement_of_usage_resumes_after_each_stop(store: Store) -> None:
    fill(store, 6)
    store.records("acme").put("report", b"body " * 1000)
    stops = itertools.cycle((False, False, True))
    while (measured := measure_usage(store.environment, "acme", stop=lambda: next(stops))) is None:
        pass
    assert (measured.amounts.documents, measured.amounts.records, measured.amounts.clients) == (1, 1, 1)
    blob_bytes = sum(stat.stored_bytes for stat in store.environment.blobs.list("acme/"))
    assert measured.amounts.stored_bytes > blob_bytes > 0
    store.environment.admission = Admission(
        store.environment.index, store.environment.clock, lambda organisation: Quotas(documents_max=1)
    )
    with pytest.raises(QuotaExceeded):
        store.create("acme", "other")
    assert load_measurement(store.environment.index, "acme") == measured
