"""A copy of a store with a damaged item names it, and copies everything that the source can still read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import stratalog
from stratalog.errors import Corrupt, NotFound, StratalogError
from stratalog.keys import (
    NAME_SORT,
    entries_partition,
    family_partition,
    name_partition,
    number,
    segments_partition,
)
from stratalog.log.segments import list_segments
from stratalog.maintenance.damage import SHAPES, item_key, item_kind
from stratalog.maintenance.store_copy import copy_store
from stratalog.ports.index import Delete, Item, Put
from stratalog.testing.clock import ManualClock
from tests.inline_store import open_inline
from tests.maintenance.growing import SETTINGS, told

DELETED = "acme/b@"
"""The prefix of a deleted log, which a copy leaves out."""

UNDECODABLE = b"\xc1"


def grow(store: stratalog.Store) -> None:
    """Create a document with a fork, two logs, three records, and failures."""
    document = store.create("acme", "plan")
    for version in range(5):
        document.mutate("put", {"key": f"cells/{version}", "value": "v" * 40}, client="ada")
    document.snapshot()
    document.fork("draft", at=3).mutate("put", {"key": "cells/0", "value": "fork"})
    for name in ("a", "b"):
        log = store.create_log("acme", name)
        for count in range(SETTINGS.segment_entries_target + 1 if name == "a" else 1):
            log.append(stratalog.Event("seen", count))
        for version in range(3):
            store.records("acme").put(name, f"{name}{version}".encode())
        for _ in range(5):
            store.records("acme").fail(f"dead {name}", "no good", body=b"x" * 20_000)
    store.records("acme").prune("a", retain=2)
    store.delete_log(store.log("acme", "b"))
    store.create_log("acme", "c").append(stratalog.Event("seen", 1))
    store.create_log("zeta", "c").append(stratalog.Event("seen", 1))


def readable(store: stratalog.Store) -> dict[str, Any]:
    """Return everything that a reader of the store can read, by name, and errors in place of the rest."""
    answers: dict[str, Any] = {}

    def read(name: str, call: Any) -> None:
        try:
            answers[name] = call()
        except StratalogError as exc:
            answers[name] = exc

    for organisation in store.organisations():
        for name in ("plan", "draft", "a", "b", "c"):
            for version in range(1, 10):
                read(f"{organisation}/{name}@{version}", lambda: store.log(organisation, name).entry(version))  # noqa: B023
        for id in ("a", "b", "dead a", "dead b"):
            records = store.records(organisation)
            for version in range(1, 5):
                read(f"{organisation} record {id}@{version}", lambda: records.get(id, version))  # noqa: B023
            read(f"{organisation} failure {id}", lambda: records.failure(id))  # noqa: B023
    return answers


def expect_readable(source: stratalog.Store, target: stratalog.Store, named: set[str]) -> None:
    """Expect the target to answer as the source does, except for logs and records that the copy has named."""
    there = readable(target)
    for question, answer in readable(source).items():
        is_left_out = question.partition("@")[0].replace(" record ", "/") in named
        if not isinstance(answer, StratalogError) and not is_left_out:
            assert there[question] == answer, (question, there[question], named)


class Rows:
    """The rows of the items of a store in a folder."""

    def __init__(self, folder: Path) -> None:
        self._database = apsw.Connection(str(folder / "index.sqlite"))

    def items(self) -> list[tuple[str, str, bytes]]:
        return list(self._database.execute("SELECT partition, sort, body FROM items"))

    def put(self, partition: str, sort: str, body: bytes) -> None:
        self._database.execute("UPDATE items SET body = ? WHERE partition = ? AND sort = ?", (body, partition, sort))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[tuple[stratalog.Store, Rows]]:
    with open_inline(tmp_path, settings=SETTINGS, clock=ManualClock()) as store:
        grow(store)
        yield store, Rows(tmp_path)


def test_a_copy_names_each_item_that_cannot_be_decoded_and_copies_what_the_source_can_read(
    folder: tuple[stratalog.Store, Rows], tmp_path: Path
) -> None:
    store, rows = folder
    intact = told(store)
    for partition, sort, body in rows.items():
        rows.put(partition, sort, UNDECODABLE)
        with open_inline(tmp_path, settings=SETTINGS, clock=ManualClock()) as damaged:
            target = open_inline(settings=SETTINGS, clock=ManualClock())
            failures = copy_store(damaged, target).failures
            named = {failure.what for failure in failures}
            expect_readable(damaged, target, named)
        assert named or partition.startswith(DELETED), (partition, sort)
        assert {failure.code for failure in failures} <= {Corrupt.code}
        rows.put(partition, sort, body)
        assert copy_store(store, target).failures == ()
        assert told(target) == intact, (partition, sort)


def test_a_copy_names_each_item_that_lacks_an_attribute_and_copies_what_the_source_can_read() -> None:
    store = open_inline(settings=SETTINGS, clock=ManualClock())
    grow(store)
    intact, index = told(store), store.environment.index
    items = [item for part in index._partitions.values() for item in part.items.values()]  # type: ignore[attr-defined]
    for item in items:
        # Each item of a kind with required attributes lacks one of them. An organisation's line has no attributes.
        required = sorted(SHAPES[item_kind(item)].required)
        kept = {key: value for key, value in item.attributes.items() if key not in required[:1]}
        index.commit([Put(Item(item.partition, item.sort, kept))])
        target = open_inline(settings=SETTINGS, clock=ManualClock())
        named = {failure.what for failure in copy_store(store, target).failures}
        assert bool(named) is (bool(required) and not item.partition.startswith(DELETED)), item
        expect_readable(store, target, named)
        index.commit([Put(item)])
        assert copy_store(store, target).failures == ()
        assert told(target) == intact, item


def test_an_item_that_an_earlier_copy_copied_stays_if_the_source_cannot_decode_it(
    folder: tuple[stratalog.Store, Rows], tmp_path: Path
) -> None:
    store, rows = folder
    target = open_inline(settings=SETTINGS, clock=ManualClock())
    copy_store(store, target)
    intact = told(target)
    for partition, sort, body in rows.items():
        rows.put(partition, sort, UNDECODABLE)
        with open_inline(tmp_path, settings=SETTINGS, clock=ManualClock()) as damaged:
            copy_store(damaged, target)
        assert told(target) == intact, (partition, sort)
        rows.put(partition, sort, body)


def test_a_copy_of_a_log_with_a_damaged_entry_has_all_other_entries(
    folder: tuple[stratalog.Store, Rows], tmp_path: Path
) -> None:
    store, rows = folder
    prefix = store.log("acme", "a").record.prefix
    rows.put(entries_partition(prefix, 1), number(2), UNDECODABLE)
    target = open_inline(settings=SETTINGS, clock=ManualClock())
    with open_inline(tmp_path, settings=SETTINGS, clock=ManualClock()) as damaged:
        named = {failure.what for failure in copy_store(damaged, target).failures}
    assert item_key(entries_partition(prefix, 1), number(2)) in named
    log = target.log("acme", "a")
    assert [entry.version for entry in (log.entry(1), *log.read(2))] == [1, 3, 4, 5]
    with pytest.raises(Corrupt):
        log.entry(2)


def test_a_log_with_a_damaged_newest_entry_has_no_name_in_the_copy(
    folder: tuple[stratalog.Store, Rows], tmp_path: Path
) -> None:
    """A writer in the target could otherwise put another entry in place of the damaged one. The log's fork is whole."""
    store, rows = folder
    plan, draft = store.log("acme", "plan"), store.log("acme", "draft")
    segment = [segment.first for segment in list_segments(store.environment.index, plan.record.prefix)][-1]
    rows.put(entries_partition(plan.record.prefix, segment), number(plan.head().version), UNDECODABLE)
    target = open_inline(settings=SETTINGS, clock=ManualClock())
    with open_inline(tmp_path, settings=SETTINGS, clock=ManualClock()) as damaged:
        named = {failure.what for failure in copy_store(damaged, target).failures}
    assert "acme/plan" in named
    assert [line.id for line in target.list("acme")] == ["a", "c", "draft"]
    with pytest.raises(NotFound):
        target.log("acme", "plan")
    assert list(target.log("acme", "draft").read(0)) == list(draft.read(0))


def test_a_log_whose_family_lost_its_item_is_copied_and_the_item_is_named() -> None:
    store, target = (open_inline(settings=SETTINGS, clock=ManualClock()) for _ in range(2))
    grow(store)
    record = store.log("acme", "draft").record
    intact = told(store)
    for prefix in (record.prefix, record.owner):
        store.environment.index.commit([Delete(family_partition(record.owner), prefix)])
    named = {failure.what for failure in copy_store(store, target).failures}
    assert named == {item_key(family_partition(record.owner), prefix) for prefix in (record.prefix, record.owner)}
    assert told(target) == intact


def test_a_listed_log_without_a_name_record_does_not_stop_a_copy() -> None:
    store, target = (open_inline(settings=SETTINGS, clock=ManualClock()) for _ in range(2))
    grow(store)
    store.environment.index.commit([Delete(name_partition("acme", "a"), NAME_SORT)])
    assert [failure.what for failure in copy_store(store, target).failures] == ["acme/a"]
    assert [line.id for line in target.list("acme")] == ["c", "draft", "plan"]


def test_a_log_that_lost_the_record_of_its_current_segment_is_copied_whole_and_the_record_is_named() -> None:
    store, target = (open_inline(settings=SETTINGS, clock=ManualClock()) for _ in range(2))
    grow(store)
    log = store.log("acme", "a")
    key = segments_partition(log.record.prefix), number(log.head().segment)
    store.environment.index.commit([Delete(*key)])
    assert [failure.what for failure in copy_store(store, target).failures][:1] == [item_key(*key)]
    assert target.log("acme", "a").head().version == log.head().version
    expect_readable(store, target, set())
