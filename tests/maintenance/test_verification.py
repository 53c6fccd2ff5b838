"""Verification of stores finds altered, missing and reordered versions in every kind of history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import stratalog
from stratalog.codec import encode, sha256
from stratalog.errors import VersionForgotten
from stratalog.keys import (
    NAME_SORT,
    entries_partition,
    name_partition,
    number,
    record_key,
    record_owner,
    record_partition,
    snapshots_partition,
)
from stratalog.log.archive import open_archive, pack_archive
from stratalog.log.bodies import write_body
from stratalog.log.entries import encode_events
from stratalog.log.lifecycle import delete_log
from stratalog.log.retention import archive_segments, raise_floor
from stratalog.log.segments import list_segments, segment_change
from stratalog.log.verification import Finding
from stratalog.maintenance.checkpoint import Checkpoint, checkpoint_of, prove_descent
from stratalog.maintenance.collection import collect
from stratalog.maintenance.damage import DAMAGES_OF_GAP_MAX
from stratalog.maintenance.inspection import inspect_history
from stratalog.maintenance.verification import HistoryName, list_histories, verify_history
from stratalog.ports.index import Delete, Item, Put
from stratalog.records.floor import FLOOR_SORT
from stratalog.testing.clock import ManualClock

LOG = HistoryName("log", "acme", "events")
RECORD = HistoryName("record", "acme", "report")
VERSIONS = 9
LARGE = 40_000


@pytest.fixture
def store() -> Iterator[stratalog.Store]:
    settings = stratalog.LogSettings(segment_entries_target=4, snapshot_entries_interval=3)
    with stratalog.open("memory:", settings=settings, clock=ManualClock()) as opened:
        log = opened.create_log("acme", "events")
        records = opened.records("acme")
        for position in range(VERSIONS):
            opened.environment.clock.sleep(1)
            body = bytes(LARGE) if position == 5 else b"%d" % position
            log.append(stratalog.Event("seen", {"at": position, "bytes": body}), principal="u-1", author="Ada")
            records.put("report", body, metadata={"at": position}, principal="u-1")
        yield opened


def item_at(store: stratalog.Store, history: HistoryName, version: int) -> Item:
    index = store.environment.index
    if history.kind == "record":
        stored = index.get(record_partition("acme", record_key(history.name)), number(version))
    else:
        prefix = store.log("acme", history.name).record.prefix
        stored = next(
            item
            for first in range(version, 0, -1)
            if (item := index.get(entries_partition(prefix, first), number(version))) is not None
            and "k" not in item.attributes
        )
    assert stored is not None
    return stored


def put(store: stratalog.Store, item: Item, **changed: Any) -> None:
    attributes = {name: value for name, value in {**item.attributes, **changed}.items() if value is not None}
    store.environment.index.commit([Put(Item(item.partition, item.sort, attributes))])


def findings(store: stratalog.Store, history: HistoryName) -> list[tuple[str, int, int]]:
    return [(finding.kind, finding.version, finding.last) for finding in verify_history(store, history).findings]


both = pytest.mark.parametrize("history", [LOG, RECORD], ids=["log", "record"])


@both
def test_an_unharmed_history_has_no_findings(store: stratalog.Store, history: HistoryName) -> None:
    report = verify_history(store, history)
    assert (report.findings, report.chain.start, report.chain.version) == ((), 0, VERSIONS)
    hash = store.log("acme", "events").head().hash if history is LOG else store.records("acme").stat("report").hash
    assert report.chain.hash == hash


@both
@pytest.mark.parametrize(
    "changed", [{"c": 1}, {"p": "u-2"}, {"p": None}, {"w": "forged"}, {"s": bytes(16)}, {"b": b"\x90"}]
)
def test_an_altered_version_is_reported_with_its_number(
    store: stratalog.Store, history: HistoryName, changed: dict[str, Any]
) -> None:
    put(store, item_at(store, history, 3), **changed)
    assert findings(store, history) == [("altered", 3, 3)]


def test_altered_attributes_that_only_logs_or_only_records_have_are_reported(store: stratalog.Store) -> None:
    put(store, item_at(store, LOG, 2), a="Eve")
    put(store, item_at(store, RECORD, 2), t=5)
    put(store, item_at(store, RECORD, 3), u=None)
    put(store, item_at(store, RECORD, 4), o="u")
    put(store, item_at(store, RECORD, 7), n=5)
    assert findings(store, LOG) == [("altered", 2, 2)]
    assert findings(store, RECORD) == [("altered", 2, 4), ("altered", 7, 7)]


@both
def test_an_altered_hash_is_found_once(store: stratalog.Store, history: HistoryName) -> None:
    put(store, item_at(store, history, 7), **{"h" if history is LOG else "ch": bytes(32)})
    assert findings(store, history) == [("altered", 7, 7)]


@both
def test_removed_versions_are_missing(store: stratalog.Store, history: HistoryName) -> None:
    for version in (2, 3, 7):
        item = item_at(store, history, version)
        store.environment.index.commit([Delete(item.partition, item.sort)])
    assert findings(store, history) == [("missing", 2, 3), ("missing", 7, 7)]


def few_steps() -> Callable[[int], None]:
    """Return a progress function that fails after ten steps for each version of the store."""
    steps = list[int]()

    def progress(count: int) -> None:
        steps.append(count)
        assert len(steps) < 10 * VERSIONS, "the verification walks through a gap version by version"

    return progress


@both
@pytest.mark.parametrize("version", [10**5, 8 * 10**15])
def test_a_huge_gap_is_verified_in_few_steps(store: stratalog.Store, history: HistoryName, version: int) -> None:
    """A damaged digit in an item's key may raise the item's version by any power of ten."""
    last = item_at(store, history, VERSIONS)
    store.environment.index.commit([Put(Item(last.partition, number(version), last.attributes))])
    report = verify_history(store, history, progress=few_steps())
    assert [(finding.kind, finding.version, finding.last) for finding in report.findings] == [
        ("missing", VERSIONS + 1, version - 1)
    ]
    inspection = inspect_history(store, history, progress=few_steps())
    assert len(inspection.damages) < 2 * DAMAGES_OF_GAP_MAX
    assert max(damage.last for damage in inspection.damages) >= version - 1


def test_a_name_record_with_a_huge_segment_is_verified_in_few_steps(store: stratalog.Store) -> None:
    item = store.environment.index.get(name_partition("acme", "events"), NAME_SORT)
    assert item is not None
    put(store, item, s=8 * 10**15)
    report = verify_history(store, LOG, progress=few_steps())
    assert [(finding.kind, finding.version, finding.last) for finding in report.findings] == [
        ("missing", VERSIONS + 1, 8 * 10**15 - 1)
    ]
    assert len(inspect_history(store, LOG, progress=few_steps()).damages) < 2 * DAMAGES_OF_GAP_MAX


def test_a_gap_in_the_parent_of_a_fork_is_a_single_finding(store: stratalog.Store) -> None:
    log = store.log("acme", "events")
    store.fork_log(log, "fork", 6)
    items = [item_at(store, LOG, version) for version in range(2, 6)]
    store.environment.index.commit([Delete(item.partition, item.sort) for item in items])
    assert findings(store, HistoryName("log", "acme", "fork")) == [("missing", 2, 5)]


def test_a_segment_record_with_a_huge_end_is_damage(store: stratalog.Store) -> None:
    """A list of all versions that the record names would not fit into memory."""
    log = store.log("acme", "events")
    archive_segments(log)
    segment = next(list_segments(store.environment.index, log.record.prefix))
    changed = segment_change(log.record.prefix, msgspec.structs.replace(segment, last=8 * 10**15))
    store.environment.index.commit([changed])
    for stat in list(store.environment.blobs.list(f"{log.record.owner}/archive")):
        store.environment.blobs.delete(stat.key, stat.stamp)
    assert [(finding.version, finding.last) for finding in verify_history(store, LOG).findings] == [(1, segment.last)]
    assert inspect_history(store, LOG, progress=few_steps()).damages


@both
def test_two_swapped_versions_are_reported_as_disordered(store: stratalog.Store, history: HistoryName) -> None:
    first, second = item_at(store, history, 7), item_at(store, history, 8)
    store.environment.index.commit(
        [
            Put(Item(first.partition, first.sort, second.attributes)),
            Put(Item(second.partition, second.sort, first.attributes)),
        ]
    )
    assert findings(store, history) == [("disordered", 7, 8)]


@both
def test_a_reference_to_the_blob_of_another_body_is_reported(store: stratalog.Store, history: HistoryName) -> None:
    if history is LOG:
        owner, body = store.log("acme", "events").record.owner, encode_events([stratalog.Event("seen", "replaced")])
    else:
        owner, body = record_owner("acme", record_key(history.name)), b"replaced"
    ref = write_body(store.environment.blobs, f"{owner}/bodies", body)
    put(store, item_at(store, history, 6), z=None, x=encode(ref))
    assert findings(store, history) == [("altered", 6, 6)]


@both
def test_a_missing_blob_is_reported(store: stratalog.Store, history: HistoryName) -> None:
    put(store, item_at(store, history, 6), z=None, x=encode([bytes(32), LARGE, None]))
    assert findings(store, history) == [("missing", 6, 6)]


def test_each_altered_version_of_a_document_is_reported(store: stratalog.Store) -> None:
    document = store.create("acme", "plan")
    for position in range(7):
        document.mutate("put", {"key": f"cells/{position}", "value": position})
    document.snapshot()
    history = HistoryName("log", "acme", "plan")
    report = verify_history(store, history)
    assert report.rebuilt is not None
    assert (report.findings, report.kind, report.chain.hash) == ((), "document", document.log.head().hash)
    put(store, item_at(store, history, 2), a="Eve")
    put(store, item_at(store, history, 6), c=5)
    assert findings(store, history) == [("altered", 2, 2), ("altered", 6, 6)]


def test_a_missing_large_value_of_a_document_is_reported(store: stratalog.Store) -> None:
    document = store.create("acme", "plan")
    document.mutate("put", {"key": "cells/1", "value": b"x" * LARGE})
    history = HistoryName("log", "acme", "plan")
    assert findings(store, history) == []
    for stat in list(store.environment.blobs.list(f"{document.log.record.owner}/items")):
        store.environment.blobs.delete(stat.key, stat.stamp)
    [finding] = verify_history(store, history).findings
    assert finding.kind == "missing"


def test_a_history_is_verified_from_its_floor_and_from_its_archive(store: stratalog.Store) -> None:
    archive_segments(store.log("acme", "events"))
    raise_floor(store.log("acme", "events"), 5)
    store.records("acme").prune("report", retain=3)
    for history, start in ((LOG, 5), (RECORD, 6)):
        report = verify_history(store, history)
        assert (report.findings, report.chain.start) == ((), start)
        put(store, item_at(store, history, 9), c=1)
        assert findings(store, history) == [("altered", 9, 9)]


@pytest.mark.parametrize("kind", ["log", "document"])
def test_a_verification_during_which_the_floor_rises_starts_again_at_the_new_floor(
    store: stratalog.Store, kind: str
) -> None:
    document, log = store.create("acme", "plan"), store.log("acme", "events")
    for position in range(VERSIONS):
        document.put("a/1", [position, "x" * LARGE])
    name = LOG if kind == "log" else HistoryName("log", "acme", "plan")
    calls: list[int] = []

    def forget(count: int) -> None:
        if not calls:
            document.forget_below(8)
            raise_floor(log, 8)
        calls.append(count)

    report = verify_history(store, name, progress=forget)
    assert (report.findings, report.chain.start, report.chain.version) == (
        (),
        8,
        store.log("acme", name.name).head().version,
    )
    with pytest.raises(VersionForgotten):
        verify_history(store, name, 3)


@both
def test_damage_above_a_floor_that_rises_during_each_attempt_is_reported(
    store: stratalog.Store, history: HistoryName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions below the floor may have been forgotten and freed meanwhile, and look like damage."""
    for module in ("maintenance", "records"):
        monkeypatch.setattr(f"stratalog.{module}.verification.VERIFY_ATTEMPTS_MAX", 1)
    log, records = store.log("acme", "events"), store.records("acme")
    for version in (1, 3, 4, 7):
        put(store, item_at(store, history, version), p="u-2")

    def forget(count: int) -> None:
        raise_floor(log, 3)
        records.prune("report", retain=VERSIONS - 3)

    report = verify_history(store, history, progress=forget)
    assert [(finding.version, finding.last) for finding in report.findings] == [(4, 4), (7, 7)]
    assert report.chain.start == 3


def test_a_log_whose_damage_is_forgotten_during_each_attempt_is_not_verified(
    store: stratalog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog.maintenance.verification.VERIFY_ATTEMPTS_MAX", 1)
    log = store.log("acme", "events")
    checkpoint = Checkpoint(LOG, log.record.origin, VERSIONS, log.head().hash)
    for version in (1, 2):
        put(store, item_at(store, LOG, version), c=1)

    def forget(version: int) -> Callable[[int], None]:
        return lambda count: raise_floor(log, version)

    with pytest.raises(VersionForgotten, match="during each attempt"):
        verify_history(store, LOG, upto=1, progress=forget(1))
    assert prove_descent(store, checkpoint, progress=forget(2)).status == "not-provable"
    assert prove_descent(store, checkpoint).status == "proven"


def test_a_record_whose_damage_is_forgotten_during_each_attempt_is_not_verified(
    store: stratalog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("records.verification", "maintenance.inspection"):
        monkeypatch.setattr(f"stratalog.{module}.VERIFY_ATTEMPTS_MAX", 1)
    for version, verify in ((1, verify_history), (2, inspect_history)):
        put(store, item_at(store, RECORD, version), c=1)
        retain = VERSIONS - version

        def forget(count: int, retain: int = retain) -> None:
            store.records("acme").prune("report", retain=retain)

        with pytest.raises(VersionForgotten, match="during each attempt"):
            verify(store, RECORD, progress=forget)
    assert verify_history(store, RECORD).findings == inspect_history(store, RECORD).damages == ()


def test_a_version_missing_from_an_archive_is_reported(store: stratalog.Store) -> None:
    log = store.log("acme", "events")
    archive_segments(log)
    segment = next(list_segments(store.environment.index, log.record.prefix))
    items = open_archive(store.environment, log.record.prefix, log.record.owner, segment)
    body = pack_archive([items[0], *items[2:]])
    ref = write_body(store.environment.blobs, f"{log.record.owner}/archive", body)
    changed = segment_change(log.record.prefix, msgspec.structs.replace(segment, archive=ref))
    store.environment.index.commit([changed])
    with pytest.raises(stratalog.Corrupt, match="an archive lacks a version"):
        list(store.log("acme", "events").read())
    assert findings(store, LOG) == [("missing", 2, 2)]


def test_a_fork_is_verified_with_its_ancestors_versions(store: stratalog.Store) -> None:
    log = store.log("acme", "events")
    fork = store.fork_log(log, "fork", 6)
    fork.append(stratalog.Event("seen", 7))
    put(store, item_at(store, LOG, 3), a="Eve")
    assert findings(store, HistoryName("log", "acme", "fork")) == [("altered", 3, 3)]


def test_a_listed_record_without_versions_is_reported(store: stratalog.Store) -> None:
    for version in range(1, VERSIONS + 1):
        item = item_at(store, RECORD, version)
        store.environment.index.commit([Delete(item.partition, item.sort)])
    assert findings(store, RECORD) == [("missing", 1, 1)]
    with pytest.raises(stratalog.NotFound):
        verify_history(store, HistoryName("record", "acme", "repo"))


def test_a_record_that_lost_all_kept_versions_is_reported(store: stratalog.Store) -> None:
    """The latest version in the index is a forgotten one that is not freed yet."""
    store.records("acme").prune("report", retain=2)
    lost = [item_at(store, RECORD, version) for version in (VERSIONS - 1, VERSIONS)]
    store.environment.index.commit([Delete(item.partition, item.sort) for item in lost])
    assert findings(store, RECORD) == [("missing", VERSIONS - 1, VERSIONS - 1)]
    with pytest.raises(stratalog.Corrupt, match=f"version={VERSIONS - 1}"):
        list(store.records("acme").versions("report"))


def test_all_histories_of_a_store_are_listed(store: stratalog.Store) -> None:
    store.create("globex", "plan")
    assert list(list_histories(store)) == [LOG, RECORD, HistoryName("log", "globex", "plan")]


def test_versions_after_a_fault_are_verified(store: stratalog.Store) -> None:
    for version in (2, 4, 8):
        put(store, item_at(store, RECORD, version), p="u-2")
    reason = "its hash does not follow from its content and the hash before it"
    assert verify_history(store, RECORD).findings == tuple(Finding("altered", n, n, reason) for n in (2, 4, 8))


def test_versions_below_a_damaged_head_are_verified(store: stratalog.Store) -> None:
    put(store, item_at(store, LOG, 3), p="u-2")
    put(store, item_at(store, LOG, VERSIONS), h=None)
    assert findings(store, LOG) == [("altered", 3, 3), ("altered", VERSIONS, VERSIONS)]
    assert [finding.version for finding in verify_history(store, LOG, upto=VERSIONS - 1).findings] == [3]


def test_a_damaged_name_record_is_a_finding(store: stratalog.Store) -> None:
    item = store.environment.index.get(name_partition("acme", "events"), NAME_SORT)
    assert item is not None
    put(store, item, g=None)
    report = verify_history(store, LOG)
    assert (report.chain.origin, [finding.kind for finding in report.findings]) == ("", ["altered"])


def test_a_listed_log_without_a_name_record_is_a_finding_and_not_provable(store: stratalog.Store) -> None:
    checkpoint = checkpoint_of(store, LOG)
    store.environment.index.commit([Delete(name_partition("acme", "events"), NAME_SORT)])
    assert findings(store, LOG) == [("missing", 0, 0)]
    assert prove_descent(store, checkpoint).status == "not-provable"
    with pytest.raises(stratalog.NotFound):
        verify_history(store, HistoryName("log", "acme", "other"))


@both
@pytest.mark.parametrize("name", ["hash", "s", "b"])
@pytest.mark.parametrize("value", [7, "text"])
def test_a_value_of_another_type_damages_its_version(
    store: stratalog.Store, history: HistoryName, name: str, value: int | str
) -> None:
    changed = {("h" if history is LOG else "ch") if name == "hash" else name: value}
    put(store, item_at(store, history, 3), **changed)
    put(store, item_at(store, history, 8), p="u-2")
    assert findings(store, history) == [("altered", 3, 3), ("altered", 8, 8)]


@pytest.mark.parametrize(
    "changed", [{"f": "x"}, {"f": 2**60}, {"s": b"x"}, {"g": 7}, {"p": 7}, {"f": 2, "fh": 7}, {"s": 2**60}]
)
def test_a_name_record_with_a_value_of_another_type_or_range_is_a_finding_and_not_provable(
    store: stratalog.Store, changed: dict[str, Any]
) -> None:
    checkpoint = checkpoint_of(store, LOG)
    item = store.environment.index.get(name_partition("acme", "events"), NAME_SORT)
    assert item is not None
    put(store, item, **changed)
    assert findings(store, LOG)
    assert prove_descent(store, checkpoint).status == "not-provable"


@pytest.mark.parametrize("changed", [{"v": "x"}, {"v": 2**60}, {"p": 7}, {"ch": 7}])
def test_a_record_floor_with_a_value_of_another_type_or_range_is_a_finding(
    store: stratalog.Store, changed: dict[str, Any]
) -> None:
    store.records("acme").prune("report", retain=3)
    item = store.environment.index.get(record_partition("acme", record_key("report")), FLOOR_SORT)
    assert item is not None
    put(store, item, **changed)
    assert findings(store, RECORD)


@pytest.mark.parametrize("changed", [{"b": 7}, {"h": "x"}])
def test_a_snapshot_with_a_value_of_another_type_is_a_finding(store: stratalog.Store, changed: dict[str, Any]) -> None:
    document = store.create("acme", "plan")
    for value in range(4):
        document.mutate("put", {"key": "cells/1", "value": value})
    document.snapshot()
    item = next(store.environment.index.query(snapshots_partition(document.log.record.prefix)))
    put(store, item, **changed)
    assert len(findings(store, HistoryName("log", "acme", "plan"))) == 1


def test_a_document_is_verified_up_to_its_head_if_the_wanted_version_is_beyond(store: stratalog.Store) -> None:
    store.create("acme", "plan").mutate("put", {"key": "cells/1", "value": 1})
    report = verify_history(store, HistoryName("log", "acme", "plan"), upto=9)
    assert (report.findings, report.chain.version) == ((), 1)


def test_a_collection_after_a_merge_deletes_only_the_orphaned_blob(store: stratalog.Store) -> None:
    document = store.create("acme", "plan")
    document.mutate("put", {"key": "cells/1", "value": 1})
    fork = document.fork("draft")
    value = b"x" * LARGE
    fork.mutate("put", {"key": "cells/2", "value": value})
    stratalog.merge(fork, document)
    delete_log(fork.log)
    blobs = {stat.key for stat in store.environment.blobs.list(f"{document.log.record.owner}/")}
    assert any("/items/" in key for key in blobs)
    orphan = f"{document.log.record.owner}/bodies/{sha256(b'orphan').hex()}"
    store.environment.blobs.put(orphan, b"orphan")
    store.environment.clock.sleep(100_000)
    report = collect(store.environment, "acme")
    assert (report.failures, report.garbage) == ((), (orphan,))
    assert {stat.key for stat in store.environment.blobs.list(f"{document.log.record.owner}/")} == blobs
    assert store.document("acme", "plan").get("cells/2") == value
