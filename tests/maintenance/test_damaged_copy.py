"""A copy of a store with a damaged item names it, and copies everything that the source can still read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
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
from stratalog.limits import GRACE_SECONDS, OBSERVATION_SECONDS_MAX
from stratalog.log import bodies
from stratalog.log.retention import archive_segments, raise_floor
from stratalog.log.segments import list_segments
from stratalog.maintenance import copied_references, store_copy
from stratalog.maintenance.collection import collect
from stratalog.maintenance.damage import item_key, item_kind
from stratalog.maintenance.shapes import SHAPES
from stratalog.maintenance.store_copy import copy_store
from stratalog.ports.blobs import Blobs
from stratalog.ports.blobs_wrapper import BlobsWrapper
from stratalog.ports.index import Delete, Item, Put
from stratalog.protocol import Mutation
from stratalog.testing.clock import ManualClock
from stratalog.tree.nodes import FORMAT, Inner, Leaf, chunk_of
from tests.inline_store import open_inline
from tests.maintenance.growing import SETTINGS, contents_of
from tests.stored import stored_items

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
    intact = contents_of(store)
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
        assert contents_of(target) == intact, (partition, sort)


def test_a_copy_names_each_item_that_lacks_an_attribute_and_copies_what_the_source_can_read() -> None:
    store = open_inline(settings=SETTINGS, clock=ManualClock())
    grow(store)
    intact, index = contents_of(store), store.environment.index
    for item in stored_items(index):
        # Each item of a kind with required attributes lacks one of them. An organisation's line has no attributes.
        required = sorted(SHAPES[item_kind(item)].required)
        remaining = {key: value for key, value in item.attributes.items() if key not in required[:1]}
        index.commit([Put(Item(item.partition, item.sort, remaining))])
        target = open_inline(settings=SETTINGS, clock=ManualClock())
        named = {failure.what for failure in copy_store(store, target).failures}
        assert bool(named) is (bool(required) and not item.partition.startswith(DELETED)), item
        expect_readable(store, target, named)
        index.commit([Put(item)])
        assert copy_store(store, target).failures == ()
        assert contents_of(target) == intact, item


def test_an_item_that_an_earlier_copy_copied_stays_if_the_source_cannot_decode_it(
    folder: tuple[stratalog.Store, Rows], tmp_path: Path
) -> None:
    store, rows = folder
    target = open_inline(settings=SETTINGS, clock=ManualClock())
    copy_store(store, target)
    intact = contents_of(target)
    for partition, sort, body in rows.items():
        rows.put(partition, sort, UNDECODABLE)
        with open_inline(tmp_path, settings=SETTINGS, clock=ManualClock()) as damaged:
            copy_store(damaged, target)
        assert contents_of(target) == intact, (partition, sort)
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
    intact = contents_of(store)
    for prefix in (record.prefix, record.owner):
        store.environment.index.commit([Delete(family_partition(record.owner), prefix)])
    named = {failure.what for failure in copy_store(store, target).failures}
    assert named == {item_key(family_partition(record.owner), prefix) for prefix in (record.prefix, record.owner)}
    assert contents_of(target) == intact


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


@pytest.mark.parametrize("folder", ["items", "chunks", "bodies", "app-snapshots", "records"])
def test_each_copy_names_an_item_whose_blob_is_lost(folder: str) -> None:
    source, target = (open_inline(settings=SETTINGS, clock=ManualClock()) for _ in range(2))
    document = source.create("acme", "plan")
    for count in range(200):
        document.mutate("put", {"key": f"cells/{count}", "value": f"{count}".zfill(40)})
    document.mutate("put", {"key": "cells/long", "value": "v" * 40_000})
    document.snapshot()
    log, records = source.create_log("acme", "a"), source.records("acme")
    for count in range(3):
        body = Random(count).randbytes(20_000)
        log.append(stratalog.Event("seen", body))
        records.put("a", body)
    log.save_snapshot(3, [body])
    blobs = source.environment.blobs
    stat = next(stat for stat in blobs.list("acme/") if f"/{folder}/" in stat.key)
    assert blobs.delete(stat.key, stat.stamp)
    for _ in range(2):
        failures = copy_store(source, target).failures
        assert {failure.key for failure in failures} == {stat.key}
        assert any(
            item_kind(Item(*failure.what.split(" "), {})) in ("entry", "snapshot", "record version")
            for failure in failures
            if " " in failure.what
        )


def test_a_copy_does_not_name_forgotten_entries_whose_blobs_were_collected() -> None:
    source, target = (open_inline(settings=SETTINGS, clock=ManualClock()) for _ in range(2))
    log = source.create_log("acme", "a")
    for count in range(4 * SETTINGS.segment_entries_target):
        log.append(stratalog.Event("seen", Random(count).randbytes(20_000)))
    raise_floor(log, 3 * SETTINGS.segment_entries_target)
    source.environment.clock.sleep(OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1)
    assert collect(source.environment, "acme").garbage
    assert log.environment.index.get(entries_partition(log.record.prefix, 1), number(1)) is not None
    assert copy_store(source, target).failures == ()


class CountedBlobs(BlobsWrapper):
    """Blobs that count the gets of each key."""

    def __init__(self, blobs: Blobs, gets: Counter[str]) -> None:
        super().__init__(blobs)
        self._gets = gets

    def get(self, key: str) -> bytes:
        self._gets[key] += 1
        return super().get(key)


def test_a_copy_reads_each_blob_once_and_a_repeated_copy_reads_only_new_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_copy, "check_copy", lambda *stores, **options: (0, 0))
    source, target = (open_inline(settings=SETTINGS, clock=ManualClock()) for _ in range(2))
    document = source.create("acme", "plan")
    for count in range(300):
        document.mutate("put", {"key": f"cells/{count}", "value": f"{count}".zfill(40)})
    document.mutate("put", {"key": "cells/long", "value": "v" * 40_000})
    document.snapshot()
    log = source.create_log("acme", "a")
    for count in range(2 * SETTINGS.segment_entries_target):
        log.append(stratalog.Event("seen", Random(count).randbytes(20_000)))
    archive_segments(log)
    source.records("acme").put("a", Random(1).randbytes(20_000))
    blobs, gets = source.environment.blobs, Counter[str]()
    for store in (source, target):
        store.environment.blobs = CountedBlobs(store.environment.blobs, gets)
    assert copy_store(source, target).failures == ()
    keys = [stat.key for stat in blobs.list("")]
    assert {key.rpartition("/")[0].rpartition("/")[2] for key in keys} == {"archive", "bodies", "cells", "chunks"}
    assert gets == Counter(keys)
    source.environment.blobs = blobs
    document.mutate("put", {"key": "cells/1", "value": "new"})
    document.snapshot()
    source.environment.blobs = CountedBlobs(blobs, gets)
    gets.clear()
    assert copy_store(source, target).failures == ()
    new = Counter(stat.key for stat in blobs.list("")) - Counter(keys)
    assert new
    assert gets == new


def test_a_copy_does_not_name_garbage_that_refers_to_collected_blobs() -> None:
    source, target = (open_inline(settings=SETTINGS, clock=ManualClock()) for _ in range(2))
    document = source.create("acme", "plan")
    for count in range(200):
        document.mutate("put", {"key": f"cells/{count}", "value": f"{count}".zfill(40)})
    child = chunk_of(Leaf(FORMAT, 0, ("cells/1",), (b"value",), (1,)))
    garbage = chunk_of(Inner(FORMAT, 1, ("cells/1",), (child.address,), (child.digest,), (child.count,)))
    source.environment.blobs.put(f"{document.log.record.owner}/chunks/{garbage.address.hex()}", garbage.body)
    assert copy_store(source, target).failures == ()


def test_a_copy_does_not_name_a_forgotten_version_of_a_record_whose_body_is_gone() -> None:
    source, target = (open_inline(settings=SETTINGS, clock=ManualClock()) for _ in range(2))
    records, blobs = source.records("acme"), source.environment.blobs
    records.put("a", Random(1).randbytes(20_000))
    (stat,) = blobs.list("acme/")
    records.put("a", Random(2).randbytes(20_000))
    records.prune("a", retain=1)
    assert blobs.delete(stat.key, stat.stamp)
    assert copy_store(source, target).failures == ()


def test_an_item_whose_blob_is_lost_is_named_if_the_record_of_its_segment_is_damaged_too(
    folder: tuple[stratalog.Store, Rows],
) -> None:
    store, rows = folder
    target = open_inline(settings=SETTINGS, clock=ManualClock())
    log, blobs = store.create_log("acme", "large"), store.environment.blobs
    before = {stat.key for stat in blobs.list("")}
    for count in range(SETTINGS.segment_entries_target):
        log.append(stratalog.Event("seen", Random(count).randbytes(20_000)))
    lost = next(stat for stat in blobs.list("") if stat.key not in before)
    assert blobs.delete(lost.key, lost.stamp)
    log.append(stratalog.Event("seen", "in the next segment"))
    partition = segments_partition(log.record.prefix)
    rows.put(partition, number(1), b"\xff")
    failures = copy_store(store, target).failures
    assert lost.key in {failure.key for failure in failures}
    assert target.log("acme", "a").head().version == store.log("acme", "a").head().version


def test_an_item_is_named_although_a_forgotten_item_refers_to_the_same_lost_blob() -> None:
    source, target = (open_inline(settings=SETTINGS, clock=ManualClock()) for _ in range(2))
    log, records, body = source.create_log("acme", "a"), source.records("acme"), Random(1).randbytes(20_000)
    for same in (True, False, False, False, False, True):
        log.append(stratalog.Event("seen", body if same else "other"))
        records.put("a", body if same else b"other")
    raise_floor(log, SETTINGS.segment_entries_target)
    records.prune("a", retain=1)
    lost = list(source.environment.blobs.list(""))
    for stat in lost:
        assert source.environment.blobs.delete(stat.key, stat.stamp)
    failures = copy_store(source, target).failures
    assert {failure.key for failure in failures if " " in failure.what} == {stat.key for stat in lost}


@pytest.mark.parametrize("folder", ["cells", "bodies", "record"])
def test_each_copy_names_an_item_whose_body_lost_one_of_its_parts(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_PART_BYTES", 10_000)
    source, target = (open_inline(settings=SETTINGS, clock=ManualClock()) for _ in range(2))
    body = Random(1).randbytes(35_000)
    if folder == "record":
        source.records("acme").put("a", body)
    elif folder == "bodies":
        source.create_log("acme", "a").append(stratalog.Event("seen", body))
    else:
        source.create("acme", "plan").put("cells/long", body)
    blobs = source.environment.blobs
    lost = next(stat for stat in blobs.list("acme/") if len(blobs.get(stat.key)) == 10_000)
    assert blobs.delete(lost.key, lost.stamp)
    for _ in range(2):
        failures = copy_store(source, target).failures
        assert lost.key in {failure.key for failure in failures if " " in failure.what}


def test_a_copy_that_forgets_references_meanwhile_names_the_same_lost_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied_references, "BACKUP_BLOBS_REMEMBERED_MAX", 2)
    source, target = (open_inline(settings=SETTINGS, clock=ManualClock()) for _ in range(2))
    document, blobs = source.create("acme", "plan"), source.environment.blobs
    for count in range(500):
        document.put(f"cells/{count}", f"{count}".zfill(9000 if count % 50 == 0 else 40))
    document.snapshot()
    assert copy_store(source, open_inline(settings=SETTINGS, clock=ManualClock())).failures == ()
    lost = [next(stat for stat in blobs.list("acme/") if f"/{folder}/" in stat.key) for folder in ("cells", "chunks")]
    for stat in lost:
        assert blobs.delete(stat.key, stat.stamp)
    for _ in range(2):
        failures = copy_store(source, target).failures
        assert {failure.key for failure in failures if " " in failure.what} == {stat.key for stat in lost}


def test_a_copy_that_has_found_the_item_above_a_lost_chunk_reads_no_more_items(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The search for the item reads snapshots before entries, so it reads no body of an entry."""
    monkeypatch.setattr(store_copy, "check_copy", lambda *args, **options: (0, 0))  # it reads the bodies too
    source, target = (open_inline(settings=SETTINGS, clock=ManualClock()) for _ in range(2))
    document, read = source.create("acme", "plan"), list[str]()
    args = [{"key": f"cells/{count}", "value": "v" * 40} for count in range(5000)]
    puts = [Mutation(client="ada", id=id, name="put", args=each) for id, each in enumerate(args, 1)]
    for start in range(0, len(puts), 1000):
        document.apply(puts[start : start + 1000])
    document.snapshot()
    top = document.chunks.top(document.state().roots.content)
    assert isinstance(top, Inner)
    middle = document.chunks.child(top, 0)
    assert isinstance(middle, Inner), "no item refers to a child of this chunk"
    key = f"{document.log.record.owner}/chunks/{middle.addresses[0].hex()}"
    stat = source.environment.blobs.stat(key)
    assert stat is not None
    assert source.environment.blobs.delete(key, stat.stamp)
    get_blob = target.environment.blobs.get

    def get(key: str) -> bytes:
        read.append(key)
        return get_blob(key)

    target.environment.blobs.get = get  # type: ignore[method-assign]
    failures = copy_store(source, target).failures
    assert key in {failure.key for failure in failures if " " in failure.what}
    assert any("/chunks/" in key for key in read)
    assert not any("/bodies/" in key for key in read)
