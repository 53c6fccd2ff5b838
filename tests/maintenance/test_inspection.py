"""An inspection finds and names damage of every kind of stored object, and reports no intact object as damaged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import apsw
import msgspec
import pytest

import stratalog
from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.codec import PLAIN, sha256
from stratalog.documents import Document
from stratalog.documents.projections import Projection
from stratalog.documents.rebuild import Rebuild
from stratalog.documents.redaction import redact
from stratalog.errors import Corrupt, Invalid, NotFound, VersionForgotten
from stratalog.keys import (
    NAME_SORT,
    checkpoints_partition,
    dead_letters_partition,
    deleted_partition,
    entries_partition,
    failures_partition,
    name_partition,
    number,
    record_key,
    record_partition,
)
from stratalog.log import Event, create_log, delete_log, fork_log, open_log
from stratalog.log.retention import forget_segment, raise_floor
from stratalog.log.segments import list_segments
from stratalog.log.snapshots import put_snapshot
from stratalog.log.sweep import sweep_deleted
from stratalog.log.verification import verify_log
from stratalog.maintenance.damage import DamageList, StoredDamage, item_key
from stratalog.maintenance.inspection import HistoryInspection, inspect_history, inspected_histories, look
from stratalog.maintenance.recording_ports import RecordingBlobs, RecordingIndex
from stratalog.maintenance.shapes import SHAPES, shape_fault
from stratalog.maintenance.verification import HistoryName, HistoryReport, verify_history
from stratalog.ports.index import Delete, Item, Put
from stratalog.ports.scratch import Scratch
from stratalog.protocol import Mutation
from stratalog.records.floor import FLOOR_SORT
from stratalog.testing.clock import ManualClock
from tests.damage import CUT, DAMAGES, FLIP, LOSE, damage_blob
from tests.documents.helpers import World
from tests.interleaving import interleaved
from tests.maintenance.damage_sweep import FolderObjects, StoreObjects, inspect_all, sweep
from tests.maintenance.full_store import full_store
from tests.maintenance.unnoticed import DELETED, UNNOTICED, UNNOTICED_BY_STATE
from tests.stored import stored_blobs

PAGE = Path(__file__).parents[2] / "docs/guides/verify.md"
PLAN = HistoryName("log", "acme", "plan")
ROWS = 300
LONG_SECONDS = 100_000


@pytest.fixture
def document() -> Iterator[tuple[stratalog.Store, Document]]:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        document = store.create("acme", "plan")
        for row in range(ROWS):
            document.mutate("put", {"key": f"cells/{row:04}", "value": f"value {row}"})
        document.mutate("put", {"key": "cells/large", "value": "v" * 5000})
        document.apply([Mutation(client="local", name="no such", args={"note": "z" * 5000})])
        document.snapshot()
        yield store, document


def keys_in(store: stratalog.Store, folder: str) -> list[str]:
    return [stat.key for stat in store.environment.blobs.list("") if f"/{folder}/" in stat.key]


def inspected(store: stratalog.Store) -> HistoryInspection:
    return inspect_history(store, PLAN)


def test_damage_of_every_kind_is_found_and_named_in_memory() -> None:
    with full_store("memory:") as store:
        result = sweep(store, StoreObjects(store), Random(5), per_kind=1)
    assert result.missed == []
    assert {what.partition(":")[0] for what in result.planted} >= SHAPES.keys()


def test_damage_of_every_kind_is_found_and_named_in_a_folder(tmp_path: Path) -> None:
    with full_store(tmp_path) as store:
        result = sweep(store, FolderObjects(tmp_path), Random(6), per_kind=1)
    assert result.missed == []
    assert {what.partition(":")[0] for what in result.planted} >= SHAPES.keys()
    assert {"delete", "flip", "swap", "truncate"} == {what.partition(": ")[2] for what in result.planted}


@pytest.mark.parametrize(("shelf", "partition"), [("log", "acme/!logs/00"), ("record", "acme/!records/10")])
def test_a_history_with_a_damaged_directory_line_is_inspected_too(tmp_path: Path, shelf: str, partition: str) -> None:
    """The history has no blob."""
    with stratalog.open(tmp_path, clock=ManualClock()) as store:
        for version in range(2):
            store.records("acme").put("a", b"%d" % version)
        log = store.create_log("acme", "a")
        for version in range(2):
            log.append(Event("seen", version))
        history = entries_partition(log.record.prefix, 1) if shelf == "log" else "acme/!record/a"
        database = apsw.Connection(str(tmp_path / "index.sqlite"))
        for key in ((partition, "a"), (history, number(1))):
            database.execute("UPDATE items SET body = x'c1' WHERE partition = ? AND sort = ?", key)
            assert database.changes() == 1
        assert {item_key(partition, "a"), item_key(history, number(1))} <= {each.key for each in inspect_all(store)}


@pytest.mark.parametrize("damaged", ["failures", "dead letter"])
def test_failures_of_a_record_without_a_version_are_inspected(damaged: str) -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        for _ in range(5):
            store.records("acme").fail("new", "no good")
        assert inspect_all(store) == ()
        partition = failures_partition("acme") if damaged == "failures" else dead_letters_partition("acme")
        [item] = store.environment.index.query(partition)
        store.environment.index.commit([Put(Item(partition, item.sort, {**item.attributes, "y": "another reason"}))])
        assert item_key(partition, item.sort) in {each.key for each in inspect_all(store)}


@pytest.mark.parametrize("freed", [1, 2])
def test_a_record_floor_that_names_fewer_freed_versions_is_harmless(freed: int) -> None:
    """A verification cannot notice it, since an interrupted maintenance leaves such a floor too."""
    with full_store("memory:") as store:
        records, index = store.records("acme"), store.environment.index
        intact = index.get(record_partition("acme", record_key("report")), FLOOR_SORT)
        assert intact is not None
        assert intact.attributes["g"] == 3
        before = list(records.versions("report"))
        index.commit([Put(Item(intact.partition, FLOOR_SORT, {**intact.attributes, "g": freed}))])
        assert inspect_all(store) == ()
        assert list(records.versions("report")) == before
        records.free("report")
        standing = index.get(intact.partition, FLOOR_SORT)
        assert standing is not None
        assert standing.attributes["g"] == 3
        assert list(records.versions("report")) == before


@pytest.mark.parametrize("folder", ["items", "chunks", "arguments"])
@pytest.mark.parametrize("how", DAMAGES)
def test_an_unreadable_blob_of_a_document_is_reported_as_damage(
    document: tuple[stratalog.Store, Document], folder: str, how: str
) -> None:
    """Defect B58 of docs/guarantees.md: `verify` reported a document with unreadable chunks as verified."""
    store, _ = document
    [key, *_] = keys_in(store, folder)
    damage_blob(store.environment.blobs, key, how)  # type: ignore[arg-type]
    [damage] = inspected(store).damages
    assert (damage.key, damage.fault) == (key, "missing" if how == LOSE else "damaged")
    assert damage.history == "acme/plan"
    assert 0 < damage.first <= damage.last <= ROWS + 2
    assert damage.derivable == (folder == "chunks")


def test_an_inspection_reads_a_value_of_entries_and_snapshots_once(
    document: tuple[stratalog.Store, Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, plan = document
    plan.mutate("put", {"key": "cells/copy", "value": "v" * 5000})
    plan.snapshot()
    keys: Counter[str] = Counter()
    get = store.environment.blobs.get

    def count(key: str) -> bytes:
        keys[key] += 1
        return get(key)

    monkeypatch.setattr(store.environment.blobs, "get", count)
    assert inspected(store).damages == ()
    values = keys_in(store, "items") + keys_in(store, "arguments")
    assert [keys[key] for key in values] == [1, 1]


def test_the_damage_of_a_value_names_all_versions_that_need_the_value(
    document: tuple[stratalog.Store, Document],
) -> None:
    store, plan = document
    plan.mutate("put", {"key": "cells/copy", "value": "v" * 5000})
    plan.mutate("put", {"key": "cells/small", "value": 1})
    version = plan.snapshot()
    [key] = keys_in(store, "items")
    damage_blob(store.environment.blobs, key, LOSE)  # type: ignore[arg-type]
    [damage] = inspected(store).damages
    assert (damage.key, damage.first, damage.last) == (key, ROWS + 1, version)


def test_a_damaged_chunk_below_a_damaged_chunk_is_named_too(document: tuple[stratalog.Store, Document]) -> None:
    store, _ = document
    keys = keys_in(store, "chunks")
    assert len(keys) > 2
    for key in keys:
        damage_blob(store.environment.blobs, key, FLIP)  # type: ignore[arg-type]
    assert [damage.key for damage in inspected(store).damages] == keys


def test_an_inspection_writes_nothing(document: tuple[stratalog.Store, Document]) -> None:
    store, _ = document
    damage_blob(store.environment.blobs, keys_in(store, "chunks")[0], CUT)  # type: ignore[arg-type]
    stored = StoreObjects(store)
    before = [(each.key, each.body) for each in stored.objects()]
    inspect_all(store)
    assert [(each.key, each.body) for each in stored.objects()] == before


def test_an_entry_that_cannot_be_applied_is_named_by_the_key_of_its_item(
    document: tuple[stratalog.Store, Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    def advance(self: Rebuild, version: int) -> None:
        raise Corrupt("the entry cannot be applied")

    monkeypatch.setattr(Rebuild, "advance", advance)
    store, _ = document
    [damage] = inspected(store).damages
    partition, _, sort = damage.key.rpartition(" ")
    assert (damage.kind, damage.fault) == ("entry", "contradicts")
    assert store.environment.index.get(partition, sort) is not None


@pytest.mark.parametrize("name", ["digest", "count"])
def test_a_base_snapshot_with_an_altered_root_is_reported(name: str) -> None:
    """Only the chunks of a base snapshot, and the entry that refers to the snapshot, prove the snapshot's root."""
    with stratalog.open("memory:", clock=ManualClock()) as store:
        handle = store.create("acme", "plan")
        for row in range(ROWS):
            handle.mutate("put", {"key": f"cells/{row:04}", "value": f"value {row}"})
        handle.forget_below(ROWS)
        index, partition = store.environment.index, f"{handle.log.record.prefix}/snapshots"
        [base] = index.query(partition)
        roots: Any = msgspec.msgpack.decode(base.attributes[PLAIN.tag])  # type: ignore[arg-type]
        assert roots[0]["count"] == ROWS
        roots[0][name] = ROWS + 1 if name == "count" else bytes(32)
        altered = {**base.attributes, PLAIN.tag: msgspec.msgpack.encode(roots)}
        index.commit([Put(type(base)(partition, base.sort, altered))])
        assert f"{partition} {base.sort}" in {damage.key for damage in inspected(store).damages}


def test_a_snapshot_with_the_state_of_another_version_is_derivable(document: tuple[stratalog.Store, Document]) -> None:
    store, handle = document
    handle.mutate("put", {"key": "cells/0000", "value": "another"})
    handle.snapshot()
    index, prefix = store.environment.index, handle.log.record.prefix
    older, newer = index.query(f"{prefix}/snapshots")
    index.commit([Put(type(newer)(newer.partition, newer.sort, {**newer.attributes, "b": older.attributes["b"]}))])
    [damage] = inspected(store).damages
    assert (damage.kind, damage.fault, damage.derivable) == ("snapshot", "contradicts", True)
    assert damage.key == f"{newer.partition} {newer.sort}"


def test_an_object_that_is_deleted_during_the_inspection_is_not_reported(
    document: tuple[stratalog.Store, Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, handle = document
    index, prefix = store.environment.index, handle.log.record.prefix
    [snapshot] = index.query(f"{prefix}/snapshots")
    get = type(store.environment.blobs).get
    gone: list[str] = []

    def collected_meanwhile(self: Any, key: str) -> bytes:
        if "/chunks/" in key and not gone:
            gone.append(key)
            index.commit([Delete(snapshot.partition, snapshot.sort)])
            raise Corrupt("gone", key=key)
        return get(self, key)

    monkeypatch.setattr(type(store.environment.blobs), "get", collected_meanwhile)
    assert inspected(store).damages == ()
    assert gone


def test_a_history_without_a_directory_line_is_inspected(document: tuple[stratalog.Store, Document]) -> None:
    store, _ = document
    store.environment.index.commit([Delete("acme/!logs/00", "plan")])
    assert list(inspected_histories(store)) == [PLAN]
    assert "directory line" in {damage.kind for damage in inspect_all(store)}


def test_the_guide_lists_every_kind_of_object_and_the_damage_that_is_not_noticed() -> None:
    table = PAGE.read_text().split("| what cannot be noticed |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| ([a-z][a-z ']+) \| .+ \|(.*)\|$", table, re.MULTILINE)
    listed = {kind: {phrase for phrase in cell.strip().split("; ") if phrase} for kind, cell in rows}
    assert SHAPES.keys() <= listed.keys()
    for kind, phrases in listed.items():
        assert phrases == {*UNNOTICED.get(kind, {}).values(), *UNNOTICED_BY_STATE.get(kind, ())}, kind
    assert UNNOTICED.keys() | UNNOTICED_BY_STATE.keys() <= listed.keys()


def test_each_attribute_with_unnoticed_damage_is_an_attribute_of_its_kind() -> None:
    attributes = {kind: shape.attributes.keys() for kind, shape in SHAPES.items()}
    assert [kind for kind, names in UNNOTICED.items() if names.keys() - {DELETED} - attributes[kind]] == []


@pytest.mark.parametrize("reverse", [False, True])
def test_damaged_items_do_not_count_towards_the_limit_of_a_query(reverse: bool) -> None:
    index = MemoryIndex()
    store = stratalog.open("memory:")
    log = store.create_log("acme", "plan")
    for step in range(6):
        log.append(stratalog.Event("step", step))
    partition = entries_partition(log.record.prefix, 1)
    for position, item in enumerate(store.environment.index.query(partition)):
        sound = position in (2, 3)
        index.commit([Put(item if sound else Item(partition, item.sort, {}))])
    damages = DamageList()
    sorts = [item.sort for item in RecordingIndex(index, damages).query(partition, reverse=reverse, limit=2)]
    assert sorts == sorted((number(3), number(4)), reverse=reverse)


def test_an_attribute_that_does_not_decode_is_a_fault_of_its_item() -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        store.records("acme").put("report", b"body", metadata={"at": 1})
        item = store.environment.index.get(record_partition("acme", record_key("report")), number(1))
        assert item is not None
        assert shape_fault(item) == ""
        cut = Item(item.partition, item.sort, {**item.attributes, "u": b"\x81"})
        assert shape_fault(cut) == "the attribute u cannot be decoded"


@pytest.mark.parametrize("changed", [{"f": -5}, {"f": 2**60}, {"s": -5}, {"s": 2**60}])
def test_a_name_record_whose_numbers_are_no_versions_is_named(changed: dict[str, int]) -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        store.create_log("acme", "log").append(Event("fact", 1))
        item = store.environment.index.get(name_partition("acme", "log"), NAME_SORT)
        assert item is not None
        damaged = Item(item.partition, item.sort, {**item.attributes, **changed})
        store.environment.index.commit([Put(damaged)])
        damages = inspect_history(store, HistoryName("log", "acme", "log")).damages
    assert item_key(item.partition, item.sort) in {damage.key for damage in damages}


def test_a_missing_blob_is_read_from_another_folder_of_its_owner() -> None:
    blobs, damages, body = MemoryBlobs(ManualClock()), DamageList(), b"an argument, and a value too"
    missing, other = (f"acme/plan@1/{folder}/{sha256(body).hex()}" for folder in ("arguments", "fields"))
    blobs.put(other, body)
    assert RecordingBlobs(blobs, Scratch(), damages).get(missing) == body
    [damage] = damages.damages()
    assert (damage.key, damage.fault, damage.derivable) == (missing, "missing", True)


@pytest.mark.parametrize("commits", range(12))
def test_a_partly_swept_log_is_not_reported_as_damaged(commits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = stratalog.LogSettings(segment_entries_target=2)
    with stratalog.open("memory:", settings=settings, clock=ManualClock()) as store:
        log = store.create_log("acme", "events")
        for position in range(5):
            log.append(stratalog.Event("seen", position))
        store.delete_log(log)
        store.environment.clock.sleep(LONG_SECONDS)
        commit, left = store.environment.index.commit, iter(range(commits))

        def few(writes: Any, *blobs: Any) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt
            commit(writes, *blobs)

        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            patched.setattr(store.environment.index, "commit", few)
            sweep_deleted(store.environment, "acme")
        assert inspect_all(store) == ()


def test_an_end_marker_lost_during_a_sweep_is_reported() -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        log = store.create_log("acme", "events")
        log.append(stratalog.Event("seen", 1))
        store.delete_log(log)
        index = store.environment.index
        [segment] = list_segments(index, log.record.prefix)
        assert forget_segment(store.environment, log.record.prefix, segment)
        assert inspect_all(store) == ()
        [marker] = index.query(entries_partition(log.record.prefix, segment.first), reverse=True, limit=1)
        index.commit([Delete(marker.partition, marker.sort)])
        assert [(damage.kind, damage.fault) for damage in inspect_all(store)] == [("end marker", "missing")]


def test_a_pin_of_a_deleted_fork_without_a_pending_sweep_is_reported() -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        document = store.create("acme", "plan")
        document.mutate("put", {"key": "cells/1", "value": 1})
        fork = document.fork("draft")
        store.delete_log(fork.log)
        assert inspect_all(store) == ()
        store.environment.index.commit([Delete(deleted_partition("acme"), fork.log.record.prefix)])
        assert {"pin", "deleted incarnation"} <= {damage.kind for damage in inspected(store).damages}


def test_an_application_snapshot_in_a_custom_format_is_intact() -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        log = store.create_log("acme", "events")
        log.append(stratalog.Event("seen", 1))
        assert put_snapshot(store.environment, log.record, 1, log.hash_at(1), b"the program's own", None)
        assert inspect_all(store) == ()


def test_a_truncated_list_of_parts_is_reported_as_damage_of_only_its_snapshot() -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        log = store.create_log("acme", "grid")
        log.append(stratalog.Event("seen", 1))
        log.save_snapshot(1, [b"one part", b"another"])
        [item] = store.environment.index.query(f"{log.record.prefix}/snapshots")
        manifest: Any = msgspec.msgpack.decode(item.attributes[PLAIN.tag])  # type: ignore[arg-type]
        cut = msgspec.msgpack.encode([*manifest[:2], manifest[2][:-1], *manifest[3:]])
        store.environment.index.commit([Put(Item(item.partition, item.sort, {**item.attributes, PLAIN.tag: cut}))])
        assert [(damage.kind, damage.fault) for damage in inspect_all(store)] == [("snapshot", "damaged")]


def test_a_snapshot_without_a_list_of_parts_is_damaged() -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        log = store.create_log("acme", "grid")
        log.append(stratalog.Event("seen", 1))
        log.save_snapshot(1, [b"one part"])
        [item] = store.environment.index.query(f"{log.record.prefix}/snapshots")
        manifest: Any = msgspec.msgpack.decode(item.attributes[PLAIN.tag])  # type: ignore[arg-type]
        none = msgspec.msgpack.encode([*manifest[:2], None, *manifest[3:]])
        store.environment.index.commit([Put(Item(item.partition, item.sort, {**item.attributes, PLAIN.tag: none}))])
        assert [(damage.kind, damage.fault) for damage in inspect_all(store)] == [("snapshot", "damaged")]


def test_a_projection_checkpoint_ahead_of_its_log_is_reported() -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        log = store.create_log("acme", "events")
        log.append(stratalog.Event("seen", 1))
        Projection(log, "counts", lambda entry: []).catch_up()
        assert inspect_all(store) == ()
        [item] = store.environment.index.query(checkpoints_partition(log.record.prefix))
        store.environment.index.commit([Put(Item(item.partition, item.sort, {**item.attributes, "v": 2}))])
        assert [damage.kind for damage in inspect_all(store)] == ["projection checkpoint"]


def test_a_snapshot_after_a_damaged_snapshot_is_inspected_despite_a_redaction() -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        document = store.create("acme", "plan")
        for version in range(1, 13):
            document.mutate("put", {"key": "cells/1", "value": version})
            if version in (4, 8, 12):
                document.snapshot()
        redact(document, 3)
        index = store.environment.index
        first, second, third = index.query(f"{document.log.record.prefix}/snapshots")
        assert inspect_all(store) == ()
        for item, other in ((first, b"\x96"), (third, second.attributes[PLAIN.tag])):
            index.commit([Put(Item(item.partition, item.sort, {**item.attributes, PLAIN.tag: other}))])
        named = {damage.key for damage in inspected(store).damages}
        assert named == {f"{item.partition} {item.sort}" for item in (first, third)}


def test_a_damaged_snapshot_after_a_redacted_version_does_not_make_the_base_damaged() -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        document = store.create("acme", "plan")
        for version in range(1, 9):
            document.mutate("put", {"key": "cells/1", "value": version})
        document.forget_below(4)
        redact(document, 6)
        document.snapshot()
        index = store.environment.index
        assert inspect_all(store) == ()
        *_, newest = index.query(f"{document.log.record.prefix}/snapshots")
        index.commit([Put(Item(newest.partition, newest.sort, {**newest.attributes, PLAIN.tag: b"\x96"}))])
        assert {damage.key for damage in inspected(store).damages} == {f"{newest.partition} {newest.sort}"}


def test_a_log_whose_floor_rises_during_each_reading_is_intact(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = stratalog.LogSettings(segment_entries_target=4)
    with stratalog.open("memory:", settings=settings, clock=ManualClock()) as store:
        log = store.create_log("acme", "log")
        for number in range(24):
            log.append([Event("fact", [number, "x" * 40_000])])
        floors = iter((8, 16))

        def look_beside_retention(*arguments: Any) -> HistoryInspection:
            risen = next(floors)

            def forget(count: int) -> None:
                raise_floor(log, risen)

            return look(*arguments[:3], forget)

        monkeypatch.setattr("stratalog.maintenance.inspection.look", look_beside_retention)
        report = inspect_history(store, HistoryName("log", "acme", "log"))
        assert report.damages == ()
        assert report.chain is not None
        assert report.chain.start == log.floor() == 8


def test_an_inspection_whose_log_is_forgotten_meanwhile_begins_again_without_earlier_damages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = stratalog.LogSettings(segment_entries_target=4)
    with stratalog.open("memory:", settings=settings, clock=ManualClock()) as store:
        log, history = store.create_log("acme", "log"), HistoryName("log", "acme", "log")
        for count in range(24):
            log.append([Event("fact", [count, "x" * 40_000])])
        store.environment.index.commit([Put(Item(entries_partition(log.record.prefix, 1), number(2), {}))])
        steps = iter((0, 0, 8))  # the floor rises after the damaged version was read

        def forget(count: int) -> None:
            if risen := next(steps, 0):
                raise_floor(log, risen)

        assert look(store, history, progress=forget).damages == ()
        monkeypatch.setattr("stratalog.maintenance.inspection.VERIFY_ATTEMPTS_MAX", 1)
        steps = iter((16,))
        with pytest.raises(VersionForgotten, match="during each attempt"):
            look(store, history, progress=forget)


def test_an_inspection_of_a_nonexistent_record_raises_not_found() -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        store.records("acme").put("report", b"body")
        with pytest.raises(NotFound):
            inspect_history(store, HistoryName("record", "acme", "repo"))


def test_a_dead_letter_without_a_body_is_intact() -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        records = stratalog.Records(store.environment, "acme", failures_max=1)
        records.put("report", b"body")
        assert records.fail("report", "no such column").dead
        assert inspect_all(store) == ()


@pytest.mark.parametrize("how", DAMAGES)
def test_an_inspection_names_each_damaged_part_of_a_record_s_body(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog.log.bodies.BODY_PART_BYTES", 10_000)
    with stratalog.open("memory:", clock=ManualClock()) as store:
        store.records("acme").put("scan", iter([Random(7).randbytes(45_000)]))
        blobs = store.environment.blobs
        parts = sorted(key for key, stored in stored_blobs(blobs).items() if len(stored) >= 5_000)
        for key in parts[1:]:
            damage_blob(blobs, key, how)
        damages = inspect_history(store, HistoryName("record", "acme", "scan")).damages
    bodies = [damage for damage in damages if damage.kind == "record body"]
    assert len(parts) == 5
    assert [damage.key for damage in bodies] == parts[1:]
    assert {(damage.fault, damage.first, damage.last) for damage in bodies} == {
        ("missing" if how == LOSE else "damaged", 1, 1)
    }


@pytest.mark.parametrize("inspect", [inspect_history, verify_history])
def test_an_inspection_up_to_a_version_before_its_fork_point_or_floor_is_refused(
    inspect: Callable[[stratalog.Store, HistoryName, int], HistoryInspection | HistoryReport],
    document: tuple[stratalog.Store, Document],
) -> None:
    store, plan = document
    plan.fork("fork", at=8)
    log = store.create_log("acme", "log")
    for n in range(5):
        log.append([Event("fact", n)])
    log.save_snapshot(2, [b"state"])
    fork_log(log, "log-fork", at=3)
    assert (raise_floor(log, 2), plan.forget_below(6)) == (2, 6)
    refusals: dict[tuple[str, int], type[Exception]] = {
        ("plan", 5): VersionForgotten,
        ("fork", 5): VersionForgotten,
        ("fork", 7): Invalid,
        ("log", 1): VersionForgotten,
        ("log-fork", 1): VersionForgotten,
    }
    for (name, upto), error in refusals.items():
        with pytest.raises(error):
            inspect(store, HistoryName("log", "acme", name), upto)
    with pytest.raises(VersionForgotten):
        verify_log(log, 1)
    for name, upto in (("plan", 6), ("fork", 8), ("log", 2), ("log-fork", 2)):
        report = inspect(store, HistoryName("log", "acme", name), upto)
        assert report.chain is not None
        assert report.chain.version == upto


def test_a_log_that_is_deleted_and_created_again_during_an_inspection_is_inspected_anew() -> None:
    def made() -> World:
        world = World()
        create_log(world.environment, "acme", "log").append([Event("seen", 1)])
        return world

    def inspected(world: World) -> tuple[StoredDamage, ...]:
        store = stratalog.Store(world.open_environment(), MemoryQueue(world.clock))
        return inspect_history(store, HistoryName("log", "acme", "log")).damages

    def replace(world: World) -> None:
        delete_log(open_log(world.environment, "acme", "log"))
        create_log(world.environment, "acme", "log").append([Event("seen", 2)])

    assert set(interleaved(made, inspected, replace)) == {()}
