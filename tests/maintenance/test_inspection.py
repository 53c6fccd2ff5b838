"""Inspection: every kind of stored object, damaged in every way, is found and named; what is healthy is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import stratalog
from stratalog.codec import PLAIN
from stratalog.documents import Document
from stratalog.errors import Corrupt
from stratalog.maintenance.damage import SHAPES
from stratalog.maintenance.inspection import HistoryInspection, inspect_history, inspected_histories
from stratalog.maintenance.verification import HistoryName
from stratalog.ports.index import Delete, Put
from stratalog.testing.clock import ManualClock
from tests.damage import CUT, DAMAGES, FLIP, LOSE, damage_blob
from tests.maintenance.damage_sweep import FolderPlace, MemoryPlace, inspect_all, sweep
from tests.maintenance.full_store import full_store
from tests.maintenance.unnoticed import UNNOTICED

PAGE = Path(__file__).parents[2] / "docs/guides/verify.md"
PLAN = HistoryName("log", "acme", "plan")
ROWS = 300


@pytest.fixture
def document() -> Iterator[tuple[stratalog.Store, Document]]:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        document = store.create("acme", "plan")
        for row in range(ROWS):
            document.mutate("put", {"key": f"cells/{row:04}", "value": f"value {row}"})
        document.mutate("put", {"key": "cells/large", "value": "v" * 5000})
        document.mutate("no such", {"note": "z" * 5000})
        document.snapshot()
        yield store, document


def keys_in(store: stratalog.Store, folder: str) -> list[str]:
    return [stat.key for stat in store.environment.blobs.list("") if f"/{folder}/" in stat.key]


def inspected(store: stratalog.Store) -> HistoryInspection:
    return inspect_history(store, PLAN)


def test_damage_of_every_kind_is_found_and_named_in_memory() -> None:
    with full_store("memory:") as store:
        result = sweep(store, MemoryPlace(store), Random(5), per_kind=1)
    assert result.missed == []
    assert {what.partition(":")[0] for what in result.planted} >= SHAPES.keys() - {
        "attempt record",
        "projection checkpoint",
    }


def test_damage_of_every_kind_is_found_and_named_in_a_folder(tmp_path: Path) -> None:
    with full_store(tmp_path) as store:
        result = sweep(store, FolderPlace(tmp_path), Random(6), per_kind=1)
    assert result.missed == []
    assert {"delete", "flip", "swap", "truncate"} == {what.partition(": ")[2] for what in result.planted}


@pytest.mark.parametrize("folder", ["items", "chunks", "arguments"])
@pytest.mark.parametrize("how", DAMAGES)
def test_what_cannot_be_read_is_not_verified(document: tuple[stratalog.Store, Document], folder: str, how: str) -> None:
    """`k_verify_blind`: each of these was "verified"."""
    store, _ = document
    [key, *_] = keys_in(store, folder)
    damage_blob(store.environment.blobs, key, how)  # type: ignore[arg-type]
    [damage] = inspected(store).damages
    assert (damage.key, damage.fault) == (key, "missing" if how == LOSE else "damaged")
    assert damage.history == "acme/plan"
    assert 0 < damage.first <= damage.last <= ROWS + 2
    assert damage.derivable == (folder == "chunks")


def test_each_damaged_chunk_is_named_also_below_another(document: tuple[stratalog.Store, Document]) -> None:
    store, _ = document
    keys = keys_in(store, "chunks")
    assert len(keys) > 2
    for key in keys:
        damage_blob(store.environment.blobs, key, FLIP)  # type: ignore[arg-type]
    assert [damage.key for damage in inspected(store).damages] == keys


def test_an_inspection_writes_nothing(document: tuple[stratalog.Store, Document]) -> None:
    store, _ = document
    damage_blob(store.environment.blobs, keys_in(store, "chunks")[0], CUT)  # type: ignore[arg-type]
    place = MemoryPlace(store)
    before = [(each.key, each.body) for each in place.objects()]
    inspect_all(store)
    assert [(each.key, each.body) for each in place.objects()] == before


@pytest.mark.parametrize("name", ["digest", "count"])
def test_a_base_whose_root_was_altered_is_named(name: str) -> None:
    """Nothing but its chunks and the entry that names it says what the root of a base is."""
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


def test_a_snapshot_that_is_another_state_can_be_made_again(document: tuple[stratalog.Store, Document]) -> None:
    store, handle = document
    handle.mutate("put", {"key": "cells/0000", "value": "another"})
    handle.snapshot()
    index, prefix = store.environment.index, handle.log.record.prefix
    older, newer = index.query(f"{prefix}/snapshots")
    index.commit([Put(type(newer)(newer.partition, newer.sort, {**newer.attributes, "b": older.attributes["b"]}))])
    [damage] = inspected(store).damages
    assert (damage.kind, damage.fault, damage.derivable) == ("snapshot", "contradicts", True)
    assert damage.key == f"{newer.partition} {newer.sort}"


def test_what_changes_between_two_looks_is_no_damage(
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


def test_a_history_that_is_not_listed_any_more_is_inspected(document: tuple[stratalog.Store, Document]) -> None:
    store, _ = document
    store.environment.index.commit([Delete("acme/!logs/00", "plan")])
    assert list(inspected_histories(store)) == [PLAN]
    assert "directory line" in {damage.kind for damage in inspect_all(store)}


def test_the_page_lists_every_kind_and_what_cannot_be_noticed() -> None:
    listed = set(re.findall(r"^\| ([a-z][a-z ']+?) +\|", PAGE.read_text(), re.MULTILINE))
    assert SHAPES.keys() <= listed
    assert UNNOTICED.keys() <= listed
