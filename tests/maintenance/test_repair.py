"""Repair rebuilds damaged objects from intact objects.

Repair names the objects that it cannot rebuild, and deletes nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

import stratalog
from stratalog.documents.document import Document
from stratalog.keys import family_partition, number
from stratalog.log.family_members import member_put
from stratalog.maintenance.inspection import inspected_histories
from stratalog.maintenance.repair import RepairReport, RepairResults, repair_histories, repair_store
from stratalog.ports.index import Delete, Item, Put
from stratalog.testing.clock import ManualClock
from tests.damage import DAMAGES, damage_blob
from tests.maintenance.damage_sweep import StoredObject, StoreObjects, inspect_all
from tests.maintenance.full_store import full_store

DERIVABLE = (
    "chunk",
    "dead letter",
    "directory line",
    "failures",
    "family member",
    "name line",
    "organisation line",
    "pin",
    "seal",
)


def repair_all(store: stratalog.Store, *, dry_run: bool = False) -> RepairReport:
    results = RepairResults()
    repair_histories(store, list(inspected_histories(store)), results, dry_run=dry_run)
    report, around = results.report(), repair_store(store, dry_run=dry_run)
    return RepairReport(report.repaired + around.repaired, report.remaining + around.remaining)


def content(stored: StoreObjects) -> dict[str, bytes]:
    return {f"{each.kind} {each.key}": each.body for each in stored.objects()}


def reported_when_deleted(store: stratalog.Store, target: StoredObject) -> bool:
    target.replace(None)
    is_reported = target.key in {damage.key for damage in inspect_all(store) if damage.derivable}
    target.replace(target.body)
    return is_reported


@pytest.mark.parametrize("kind", DERIVABLE)
def test_a_deleted_derivable_object_is_rebuilt_unchanged(kind: str) -> None:
    with full_store("memory:") as store:
        stored = StoreObjects(store)
        before = content(stored)
        targets = [each for each in stored.objects() if each.kind == kind and reported_when_deleted(store, each)]
        assert targets
        for target in targets:
            target.replace(None)
            foretold = repair_all(store, dry_run=True)
            assert f"{target.kind} {target.key}" not in content(stored)
            report = repair_all(store)
            assert target.key in {damage.key for damage in foretold.repaired}
            assert {damage.key for damage in foretold.repaired} <= {damage.key for damage in report.repaired}
            assert report.remaining == inspect_all(store) == ()
            after = content(stored)
            assert after.keys() == before.keys()
            # If a record's first version is forgotten, only the directory line has the record's creation time.
            assert {key for key in after if after[key] != before[key]} <= {"directory line acme/!records/04 report"}
            target.replace(target.body)
            assert repair_all(store) == RepairReport()


@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_chunks_and_archives_are_rebuilt_from_entries(how: str) -> None:
    with full_store("memory:") as store:
        chunks = [each for each in StoreObjects(store).objects() if each.kind == "chunk"]
        keys = [
            each.key for each in chunks if reported_when_deleted(store, each)
        ]  # repair cannot rebuild chunks of a base
        log = store.log("acme", "events")
        segments = list(store.environment.index.query(f"{log.record.prefix}/segments"))
        waiting = [item for item in segments if "a" in item.attributes and not item.attributes.get("d")]
        archive = stratalog.codec.decode(waiting[0].attributes["a"])[0].hex()  # type: ignore[arg-type]
        keys.append(f"{log.record.owner}/archive/{archive}")
        for key in keys:
            damage_blob(store.environment.blobs, key, how)  # type: ignore[arg-type]
        report = repair_all(store)
        repaired = {damage.key: damage.kind for damage in report.repaired}
        assert {repaired[key] for key in keys} == {"archive", "chunk"}
        assert report.remaining == inspect_all(store) == ()


def test_a_damaged_snapshot_is_rebuilt_and_an_underivable_value_is_reported() -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        document = store.create("acme", "plan")
        for row in range(100):
            document.mutate("put", {"key": f"cells/{row}", "value": "v" * 50})
        document.mutate("put", {"key": "cells/large", "value": "v" * 5000})
        document.snapshot()
        stored = StoreObjects(store)
        [snapshot] = [each for each in stored.objects() if each.kind == "snapshot"]
        assert snapshot.item is not None
        broken = stratalog.codec.encode({**snapshot.item.attributes, "b": b"\x96"})
        for body in (broken, stratalog.codec.encode({"c": 1})):
            snapshot.replace(body)
            assert [damage.kind for damage in repair_all(store).repaired] == ["snapshot"]
            assert inspect_all(store) == ()
        [value] = [each for each in stored.objects() if each.kind == "value"]
        value.replace(None)
        foretold, report = repair_all(store, dry_run=True), repair_all(store)
        assert foretold.remaining == report.remaining
        assert [(damage.kind, damage.derivable) for damage in report.remaining] == [("value", False)]
        document.mutate("put", {"key": "cells/again", "value": "v" * 5000})
        assert inspect_all(store) == ()


def test_a_snapshot_is_not_rebuilt_below_a_floor_that_rose_during_the_repair() -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        document = store.create("acme", "plan")
        for row in range(100):
            document.mutate("put", {"key": f"cells/{row}", "value": "v" * 50})
        document.snapshot(80)
        [snapshot] = [each for each in StoreObjects(store).objects() if each.kind == "snapshot"]
        assert snapshot.item is not None
        snapshot.replace(stratalog.codec.encode({**snapshot.item.attributes, "b": b"\x96"}))
        blobs, put = store.environment.blobs, store.environment.blobs.put

        def put_later(key: str, body: bytes) -> None:
            """Let another process repair the snapshot first and raise the floor, and then put the blob."""
            blobs.put = put  # type: ignore[method-assign]
            repair_all(store)
            document.forget_below(100)
            put(key, body)

        blobs.put = put_later  # type: ignore[method-assign]
        repair_all(store)
        assert blobs.put == put
        assert store.environment.counters["repair overtaken"] == 1
        assert [each.sort for each in store.environment.index.query(snapshot.item.partition)] == [number(100)]


def test_repair_does_not_rebuild_a_damaged_base_snapshot() -> None:
    """No other object gives the state of a base snapshot, because the log has forgotten the entries before it."""
    with stratalog.open("memory:", clock=ManualClock()) as store:
        document = store.create("acme", "plan")
        for row in range(100):
            document.mutate("put", {"key": f"cells/{row}", "value": "v" * 50})
        document.forget_below(100)
        document.mutate("put", {"key": "cells/0", "value": 1})
        [base] = store.environment.index.query(f"{document.log.record.prefix}/snapshots")
        roots: Any = stratalog.codec.decode(base.attributes["b"])  # type: ignore[arg-type]
        roots[0]["count"] += 1
        altered = Item(base.partition, base.sort, {**base.attributes, "b": stratalog.codec.encode(roots)})
        store.environment.index.commit([Put(altered)])
        before = content(StoreObjects(store))
        assert repair_all(store, dry_run=True).repaired == ()
        report = repair_all(store)
        assert "snapshot" in {damage.kind for damage in report.remaining}
        assert (report.repaired, content(StoreObjects(store))) == ((), before)


def family_of(store: stratalog.Store) -> list[Document]:
    """Return a document, its fork, the fork's fork and so on. An inspection lists the deepest fork first."""
    document = store.create("acme", "4")
    document.mutate("put", {"key": "a", "value": 0})
    documents = [document]
    for name in "321":
        documents.append(documents[-1].fork(name))
        documents[-1].mutate("put", {"key": "a", "value": name})
    return documents


def depths(store: stratalog.Store, owner: str) -> list[tuple[str, Any]]:
    members = store.environment.index.query(family_partition(owner))
    return [(item.sort.partition("@")[0], item.attributes["d"]) for item in members]


DEPTHS = [("acme/1", 3), ("acme/2", 2), ("acme/3", 1), ("acme/4", 0)]


@pytest.mark.parametrize("lost", [(0, 1, 2, 3), (1, 2), (2, 3), (1, 3)])
def test_a_fork_that_is_repaired_before_its_ancestors_gets_its_depth(lost: tuple[int, ...]) -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        documents = family_of(store)
        owner = documents[0].log.record.owner
        store.environment.index.commit(
            [Delete(family_partition(owner), documents[depth].log.record.prefix) for depth in lost]
        )
        assert repair_all(store).remaining == inspect_all(store) == ()
        assert depths(store, owner) == DEPTHS


def test_a_repaired_fork_that_forgot_its_ancestors_has_a_smaller_depth_than_its_own_forks() -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        first, second, *_ = family_of(store)
        second.snapshot()
        second.forget_below(second.log.head().version)
        assert store.document("acme", "3").log.record.lineage == ()
        record, owner = second.log.record, first.log.record.owner
        store.environment.index.commit([Delete(family_partition(owner), record.prefix)])
        assert repair_all(store).remaining == inspect_all(store) == ()
        assert depths(store, owner) == DEPTHS


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_a_depth_that_is_too_great_is_repaired_and_no_fork_gets_a_greater_one(damaged: int) -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        record = family_of(store)[damaged].log.record
        store.environment.index.commit([member_put(record.owner, record.prefix, 9)])
        assert repair_all(store).remaining == inspect_all(store) == ()
        assert depths(store, record.owner) == DEPTHS


def test_a_fork_of_a_log_that_is_no_member_of_its_family_stays_deeper_than_the_repaired_log() -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        record = (deepest := family_of(store)[-1]).log.record
        store.environment.index.commit([Delete(family_partition(record.owner), record.prefix)])
        deepest.fork("0")
        assert repair_all(store).remaining == inspect_all(store) == ()
        assert depths(store, record.owner) == [("acme/0", 4), *DEPTHS]
