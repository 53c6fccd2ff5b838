"""A read of a store writes nothing, so a read hides no damage.

The quick verification names each lost chunk of a history's snapshots.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import pytest

import stratalog
from stratalog.documents import Document
from stratalog.documents.redaction import redact
from stratalog.documents.snapshots import roots_of
from stratalog.maintenance.checkpoint import checkpoint_of, prove_descent
from stratalog.maintenance.collection import collect_family
from stratalog.maintenance.copy_check import check_copy
from stratalog.maintenance.document_export import export_document, export_state
from stratalog.maintenance.inspection import inspect_history
from stratalog.maintenance.repair import repair_history
from stratalog.maintenance.verification import HistoryName, HistoryReport, verify_history
from stratalog.testing.clock import ManualClock
from stratalog.tree.reach import read_tree_back
from tests.damage import FLIP, LOSE, damaged_blob
from tests.maintenance.damage_sweep import inspect_all
from tests.maintenance.full_store import full_store
from tests.stored import stored_blobs, stored_items

PLAN = HistoryName("log", "acme", "plan")
ROWS = 400
DAY_SECONDS = 86_400


@pytest.fixture
def store() -> stratalog.Store:
    settings = stratalog.LogSettings(snapshot_entries_interval=10_000)
    store = stratalog.open("memory:", clock=ManualClock(), settings=settings)
    document = store.create("acme", "plan")
    write_rows(document, "first")
    document.snapshot()
    write_rows(document, "second")
    document.snapshot()
    document.mutate("put", {"key": "cells/0007", "value": "newest"})
    store.environment.clock.sleep(10)
    return store


def write_rows(document: Document, text: str) -> None:
    for start in range(0, ROWS, 100):
        puts = [{"key": f"cells/{row:04}", "value": f"{text} {row} {'x' * 60}"} for row in range(start, start + 100)]
        document.apply([stratalog.Mutation(client="local", name="put", args=args) for args in puts])


def chunks_in(store: stratalog.Store) -> list[str]:
    return sorted(key for key in stored_blobs(store.environment.blobs) if "/chunks/" in key)


def stored(store: stratalog.Store) -> list[object]:
    """Return all stored items and blobs, with the stats of the blobs."""
    blobs = store.environment.blobs
    return [stored_items(store.environment.index), stored_blobs(blobs), list(blobs.list(""))]


def quick(store: stratalog.Store, history: HistoryName) -> HistoryReport:
    return verify_history(store, history)


def against(store: stratalog.Store, history: HistoryName) -> HistoryReport:
    descent = prove_descent(store, checkpoint_of(store, history))
    assert descent.status == "proven"
    assert descent.report is not None
    return descent.report


READS: dict[str, Callable[[stratalog.Store], object]] = {
    "verify --quick": lambda store: quick(store, PLAN),
    "verify --against": lambda store: against(store, PLAN),
    "verify": lambda store: inspect_history(store, PLAN),
    "verify in Python": lambda store: stratalog.verify(store.document("acme", "plan")),
    "repair --dry-run": lambda store: repair_history(store, PLAN, dry_run=True),
    "collect --dry-run": lambda store: collect_family(
        store.environment, store.document("acme", "plan").log.record.owner, dry_run=True
    ),
    "export": lambda store: export_document(store.document("acme", "plan"), BytesIO()),
    "export --state": lambda store: export_state(store.document("acme", "plan"), BytesIO()),
    "digest": lambda store: store.document("acme", "plan").at().content_digest(),
    "copy's check": lambda store: check_copy(store.environment, store.environment, ["acme"]),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_writes_nothing(store: stratalog.Store, read: Callable[[stratalog.Store], object]) -> None:
    before = stored(store)
    read(store)
    assert stored(store) == before


@pytest.mark.parametrize("verify", [quick, against])
def test_each_lost_chunk_is_reported_and_not_rebuilt(
    store: stratalog.Store, verify: Callable[[stratalog.Store, HistoryName], HistoryReport]
) -> None:
    keys = chunks_in(store)
    assert len(keys) > 10
    for key in keys:
        with damaged_blob(store.environment.blobs, key, LOSE):
            [finding] = verify(store, PLAN).findings
            assert (finding.kind, finding.key) == ("missing", key)
            assert chunks_in(store) == sorted(set(keys) - {key})
    assert verify(store, PLAN).findings == ()


def test_quick_and_full_verification_report_the_same_lost_chunks() -> None:
    """The full store has forks, snapshots, and a base snapshot at a floor."""
    with full_store("memory:") as store:
        histories = [HistoryName("log", "acme", listing.id) for listing in store.list("acme")]
        named = 0
        for key in chunks_in(store):
            with damaged_blob(store.environment.blobs, key, LOSE):
                by_quick = {finding.key for name in histories for finding in quick(store, name).findings}
                by_inspection = {damage.key for damage in inspect_all(store) if "/chunks/" in damage.key}
                assert by_quick == by_inspection
                if by_inspection:
                    assert by_inspection == {key}
                    named += 1
        assert named > 0


def test_quick_verification_reports_a_lost_chunk_exactly_if_the_base_snapshot_needs_it(store: stratalog.Store) -> None:
    document = store.document("acme", "plan")
    assert document.forget_below(8) == 8
    needed = chunks_of_snapshot(document, 8)
    assert len(needed) > 5
    for key in chunks_in(store):
        with damaged_blob(store.environment.blobs, key, LOSE):
            assert [finding.key for finding in quick(store, PLAN).findings] == [key] * (key in needed)


def chunks_of_snapshot(document: Document, version: int) -> set[str]:
    snapshot = document.log.snapshot_at(version)
    assert snapshot is not None
    assert snapshot.version == version
    return {chunk.key for chunk in read_tree_back(document.chunks, roots_of(snapshot).content) if chunk.key}


def test_the_snapshot_after_a_redacted_version_is_read_from_the_store(store: stratalog.Store) -> None:
    """Only the snapshot's stored bytes show its state, because entries cannot be replayed past a redacted version."""
    document = store.document("acme", "plan")
    document.mutate("put", {"key": "cells/secret", "value": "secret"})
    document.mutate("del", {"key": "cells/secret"})
    assert redact(document, 10) == []
    for key in chunks_of_snapshot(document, 11):
        with damaged_blob(store.environment.blobs, key, FLIP):
            assert [finding.key for finding in quick(store, PLAN).findings] == [key]
    assert quick(store, PLAN).findings == ()


@pytest.mark.parametrize("forget", ["raise the floor", "redact"])
def test_chunks_that_another_process_deletes_during_verification_are_not_damage(
    store: stratalog.Store, forget: str
) -> None:
    document, other = (store.document("acme", "plan") for _ in range(2))
    before, calls = chunks_in(store), list[int]()

    def forget_and_collect(versions: int) -> None:
        calls.append(versions)
        if len(calls) == 1:
            assert redact(other, 1) == [4] if forget == "redact" else other.forget_below(8) == 8
            for _ in range(2):
                store.environment.clock.sleep(DAY_SECONDS)
                collect_family(store.environment, document.log.record.owner)
            assert set(before) - set(chunks_in(store))

    verified = stratalog.verify(document, progress=forget_and_collect)
    assert calls
    assert verified.start == (0 if forget == "redact" else 8)
    assert verified.root == stratalog.verify(other, verified.version).root
