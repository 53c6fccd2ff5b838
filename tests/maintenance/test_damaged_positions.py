"""A damaged position of the maintenance or of a copy costs time: the work starts again. It stops nothing for ever."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import msgspec
import pytest

import stratalog
from stratalog.keys import (
    COPY_PARTITION,
    MAINTENANCE_PARTITION,
    collecting_partition,
    entries_partition,
    number,
    usage_partition,
)
from stratalog.log.usage import load_measurement
from stratalog.maintenance.policy import MaintenancePolicy
from stratalog.maintenance.store_copy import copy_store
from stratalog.maintenance.store_pass import maintain
from stratalog.maintenance.usage import measure_usage
from stratalog.ports.index import Item, Put
from stratalog.testing.clock import ManualClock
from tests.inline_store import open_inline

POLICY = MaintenancePolicy(collect_hours=0, scrub_days=1)
POSITIONS = [
    (MAINTENANCE_PARTITION, "pass"),
    (MAINTENANCE_PARTITION, "scrub"),
    (collecting_partition("acme"), "acme"),
    (usage_partition("acme"), "progress"),
    (usage_partition("acme"), "measured"),
]


def grown(folder: Path) -> stratalog.Store:
    store = open_inline(folder, clock=ManualClock())
    document = store.create("acme", "plan")
    for text in ("one", "two"):
        document.mutate("put", {"key": "notes/a", "value": text * 2000})
    store.records("acme").put("report", b"body")
    return store


def damage(folder: Path, partition: str, sort: str) -> None:
    with closing(apsw.Connection(str(folder / "index.sqlite"))) as database:
        database.execute("UPDATE items SET body = x'c1' WHERE partition = ? AND sort = ?", (partition, sort))
        assert database.changes() == 1


@pytest.mark.parametrize(("partition", "sort"), POSITIONS)
def test_maintenance_and_measurement_replace_a_position_that_cannot_be_decoded(
    tmp_path: Path, partition: str, sort: str
) -> None:
    with grown(tmp_path) as store:
        store.environment.index.commit([Put(Item(partition, sort, {"f": 1}))])
        damage(tmp_path, partition, sort)
        report = maintain(store, POLICY)
        assert (report.failures, report.logs, report.records, report.blobs_scrubbed) == ((), 1, 1, 2)
        measured = measure_usage(store.environment, "acme")
        assert measured is not None
        assert measured == load_measurement(store.environment.index, "acme")
        assert maintain(store, POLICY).failures == ()


@pytest.mark.parametrize(("shelf", "id"), [(3, "x"), (3, ""), (4, "0"), (-1, "")])
def test_a_pass_with_steps_replaces_a_position_with_an_impossible_value(tmp_path: Path, shelf: int, id: str) -> None:
    with grown(tmp_path) as store:
        body = msgspec.msgpack.encode(["", shelf, id, "", False, 0])
        store.environment.index.commit([Put(Item(MAINTENANCE_PARTITION, "pass", {"f": 1, "b": body}))])
        report = maintain(store, POLICY, steps=[lambda opened: None])
        assert (report.failures, report.logs, report.records, report.steps) == ((), 1, 1, 1)


@pytest.mark.parametrize("attributes", [None, {"o": "acme"}])
def test_a_copy_whose_position_is_damaged_starts_again(tmp_path: Path, attributes: dict[str, str] | None) -> None:
    with grown(tmp_path / "source") as source, open_inline(tmp_path / "target", clock=ManualClock()) as target:
        target.environment.index.commit([Put(Item(COPY_PARTITION, "state", attributes or {}))])
        if attributes is None:
            damage(tmp_path / "target", COPY_PARTITION, "state")
        assert copy_store(source, target).failures == ()
        assert target.document("acme", "plan").get("notes/a") == "two" * 2000
        assert target.environment.index.get(COPY_PARTITION, "state") is None


def test_a_measurement_counts_everything_but_a_damaged_item(tmp_path: Path) -> None:
    with grown(tmp_path) as store:
        store.create("acme", "other").mutate("put", {"key": "notes/a", "value": "other"})
        undamaged = measure_usage(store.environment, "acme")
        assert undamaged is not None
        damage(tmp_path, "acme/other", "name")
        damage(tmp_path, entries_partition(store.log("acme", "plan").record.prefix, 1), number(2))
        store.environment.clock.sleep(1)
        rest = measure_usage(store.environment, "acme")
        assert rest is not None
        assert (undamaged.amounts.documents, rest.amounts.documents, rest.amounts.records) == (2, 1, 1)
        assert (undamaged.unreadable, rest.unreadable) == (0, 2)
