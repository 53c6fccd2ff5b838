"""A backup of a store that has lost blobs names these blobs, and keeps the copies of the previous backup."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import msgspec
import pytest

import stratalog
from stratalog.backups import references, verification, writer
from stratalog.backups.backup import back_up
from stratalog.backups.restore import restore_store
from stratalog.documents.redaction import redact
from stratalog.errors import Conflict, Corrupt
from stratalog.keys import COPY_PARTITION, entries_partition, number
from stratalog.maintenance import store_copy
from stratalog.maintenance.collection import collect
from stratalog.maintenance.damage import blob_kind, item_key
from stratalog.maintenance.store_copy import copy_store
from stratalog.protocol import Mutation
from stratalog.testing.clock import ManualClock
from tests.backups.stores import Backups
from tests.inline_store import open_inline
from tests.maintenance.damage_sweep import needed_blobs
from tests.maintenance.full_store import full_store
from tests.maintenance.growing import SETTINGS


@pytest.fixture
def store() -> stratalog.Store:
    return open_inline(settings=SETTINGS, clock=ManualClock())


def lose(store: stratalog.Store, key: str) -> bytes:
    """Delete a blob, and return its bytes."""
    blobs = store.environment.blobs
    body, stat = blobs.get(key), blobs.stat(key)
    assert stat is not None
    blobs.delete(key, stat.stamp)
    return body


def damage(store: stratalog.Store, keys: list[str]) -> None:
    """Let each read of the blobs ``keys`` report damage."""
    blobs = store.environment.blobs
    get = blobs.get

    def damaged(key: str) -> bytes:
        if key in keys:
            raise Corrupt("the blob is damaged", key=key)
        return get(key)

    blobs.get = damaged  # type: ignore[method-assign]


def named(backups: Backups, store: stratalog.Store) -> list[str]:
    """Make a backup, and return what its failures name, in order."""
    return sorted(failure.what for failure in backups.make(store).manifest.failures)


@pytest.mark.parametrize("kind", ["app snapshot part", "archive", "argument", "chunk", "entry body", "value"])
def test_a_lost_blob_of_a_log_is_a_failure_and_stays_in_later_backups(kind: str) -> None:
    store = full_store("memory:")
    backups, draft = Backups(store.environment.clock), store.document("acme", "draft")
    for name in ("events", "grid"):
        store.fork_log(store.log("acme", name), f"{name} draft", store.log("acme", name).head().version)
    keys = sorted(key for key in needed_blobs(store) if blob_kind(key) == kind)
    backups.make(store)
    bodies = {key: lose(store, key) for key in keys}
    draft.put("later", "x")
    for name in ("events", "grid"):
        store.log("acme", f"{name} draft").append(stratalog.Event("later"))
    for _ in range(2):
        assert named(backups, store) == keys
        assert {key: backups.view().environment.blobs.get(key) for key in keys} == bodies


@pytest.mark.parametrize("kind", ["app snapshot part", "argument", "entry body", "value"])
def test_the_first_backup_names_each_lost_blob_of_a_log(kind: str) -> None:
    store = full_store("memory:")
    keys = sorted(key for key in needed_blobs(store) if blob_kind(key) == kind)
    for key in keys:
        lose(store, key)
    assert named(Backups(store.environment.clock), store) == keys


def test_a_search_that_remembers_few_blobs_names_each_lost_blob(monkeypatch: pytest.MonkeyPatch) -> None:
    """More blobs are lost than the search remembers. So the later backups keep all blobs of the first backup."""
    monkeypatch.setattr(references, "BACKUP_BLOBS_REMEMBERED_MAX", 2)
    store = full_store("memory:")
    backups, draft = Backups(store.environment.clock), store.document("acme", "draft")
    keys = sorted(key for key in needed_blobs(store) if blob_kind(key) in ("argument", "entry body", "value"))
    assert len(keys) > 4
    backups.make(store)
    bodies = {key: lose(store, key) for key in keys}
    draft.put("later", "x")
    for _ in range(2):
        assert named(backups, store) == keys
        assert {key: backups.view().environment.blobs.get(key) for key in keys} == bodies


@pytest.mark.parametrize("kind", ["log", "record"])
def test_a_backup_of_a_store_that_has_lost_blobs_contains_no_redacted_body(store: stratalog.Store, kind: str) -> None:
    """The backup still has the blob that the store lost, which belongs to the other version."""
    backups, content = Backups(store.environment.clock), store.environment.clock.random_bytes
    log, records = store.create_log("acme", "r"), store.records("acme")
    bodies = list[str]()
    for _ in range(2):
        if kind == "log":
            log.append(stratalog.Event("seen", content(20_000)))
        else:
            records.put("r", content(20_000))
        bodies += {stat.key for stat in store.environment.blobs.list("acme/")}.difference(bodies)
    backups.make(store)
    log.redact(1) if kind == "log" else records.redact("r", 1)
    store.environment.clock.sleep(86_400)
    assert collect(store.environment, "acme").garbage == (bodies[0],)
    lose(store, bodies[1])
    log.append(stratalog.Event("later"))
    assert named(backups, store) == [bodies[1]]
    assert [stat.key for stat in backups.view().environment.blobs.list("acme/")] == [bodies[1]]


def test_the_search_for_lost_blobs_reads_no_blob_that_the_previous_backup_has(store: stratalog.Store) -> None:
    """The last change makes a snapshot, which shares most of its chunks with the snapshot before."""
    backups, blobs, read = Backups(store.environment.clock), store.environment.blobs, list[str]()
    document = store.create("acme", "plan")
    mutations = [
        Mutation(client="ada", name="put", args={"key": f"cells/{row}", "value": "x" * 50}) for row in range(400)
    ]
    for first in range(0, len(mutations), 100):
        document.apply(mutations[first : first + 100])
    backups.make(store)
    known = {stat.key for stat in blobs.list("acme/")}
    for _ in range(3):
        document.put("cells/7", store.environment.clock.random_bytes(3_000).hex())
    get = blobs.get

    def watched(key: str) -> bytes:
        read.append(key)
        return get(key)

    blobs.get = watched  # type: ignore[method-assign]
    assert named(backups, store) == []
    assert any("/chunks/" in key for key in read)
    assert known.isdisjoint(read)


def test_a_backup_that_checks_blobs_names_the_lost_blobs_of_what_is_unchanged(store: stratalog.Store) -> None:
    """The backup has the blobs, since the previous backup has copied them."""
    backups, lost = Backups(store.environment.clock), store_with_large_bodies(store)
    backups.make(store)
    bodies = {key: lose(store, key) for key in lost}
    assert named(backups, store) == []
    manifest = back_up(store, backups.repository(), checks_blobs=True).manifest
    assert sorted(failure.what for failure in manifest.failures) == sorted(lost)
    assert {key: backups.view().environment.blobs.get(key) for key in lost} == bodies


def puts(values: list[str]) -> list[Mutation]:
    """Return one put for each value, under the keys k0, k1 and so on."""
    return [Mutation(client="a", name="put", args={"key": f"k{i}", "value": value}) for i, value in enumerate(values)]


@pytest.mark.parametrize("kind", ["log", "document"])
def test_a_backup_reads_each_entry_body_once_and_none_again_after_a_collection_of_bodies(
    store: stratalog.Store, kind: str
) -> None:
    """One body is redacted and collected between the two backups."""
    backups, blobs, read = Backups(store.environment.clock), store.environment.blobs, list[str]()
    content = store.environment.clock.random_bytes
    log = store.create_log("acme", "plan") if kind == "log" else store.create("acme", "plan").log
    for _ in range(5):
        if kind == "log":
            log.append(stratalog.Event("seen", content(20_000)))
        else:
            # Each value is small and stays in the patch, but the body of the entry is large.
            store.document("acme", "plan").apply(puts([content(400).hex() for _ in range(40)]))
    get = blobs.get

    def watched(key: str) -> bytes:
        read.append(key)
        return get(key)

    blobs.get = watched  # type: ignore[method-assign]
    bodies = {stat.key for stat in blobs.list("acme/") if "/bodies/" in stat.key}
    assert named(backups, store) == []
    assert len(bodies) >= 5
    assert sorted(key for key in read if key in bodies) == sorted(bodies)
    log.redact(1) if kind == "log" else redact(store.document("acme", "plan"), 1)
    store.environment.clock.sleep(86_400)
    assert not bodies.isdisjoint(collect(store.environment, "acme").garbage)
    read.clear()
    assert named(backups, store) == []
    assert bodies.isdisjoint(read)


def test_a_value_that_is_lost_while_another_is_collected_is_named(store: stratalog.Store) -> None:
    """The bodies that refer to the values are in the previous backup, and are read again."""
    backups, blobs = Backups(store.environment.clock), store.environment.blobs
    document, content = store.create("acme", "plan"), store.environment.clock.random_bytes
    for size in (3_000, 3_001, 1):
        document.apply(puts([content(each).hex() for each in (*[400] * 40, size)]))
    backups.make(store)
    values = {stat.key for stat in blobs.list("acme/") if blob_kind(stat.key) == "argument"}
    redact(document, 1)
    store.environment.clock.sleep(86_400)
    assert not values.isdisjoint(collect(store.environment, "acme").garbage)
    [remaining] = [stat.key for stat in blobs.list("acme/") if stat.key in values]
    lose(store, remaining)
    assert remaining in named(backups, store)


def test_a_backup_and_a_copy_of_a_store_that_lost_very_much_name_some_blobs_and_count_the_others(
    store: stratalog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second backup searches all blobs again, since no list of the lost blobs exists."""
    for module in (writer, store_copy, verification):
        monkeypatch.setattr(module, "DAMAGED_PARTS_NAMED_MAX", 3)
    backups, content = Backups(store.environment.clock), store.environment.clock.random_bytes
    for name in "abcde":
        store.create_log("acme", name).append(stratalog.Event("seen", content(20_000)))
    intact = backups.make(store).manifest
    for key in needed_blobs(store):
        lose(store, key)
    for _ in range(2):
        for name in "abcde":
            store.log("acme", name).append(stratalog.Event("later"))
        manifest = backups.make(store).manifest
        assert (len(manifest.failures), manifest.more_failures) == (3, 2)
        assert manifest.blobs == intact.blobs
    view = backups.view()
    damage(view, [stat.key for stat in view.environment.blobs.list("acme/")])
    report = copy_store(view, open_inline(settings=SETTINGS))
    assert len(report.failures) == 3
    assert report.more_failures >= 2
    for stat in list(backups.blobs.list("!backup/blobs/")):
        backups.blobs.delete(stat.key, stat.stamp)
    verified = verification.verify_backup(backups.repository(), manifest)
    assert len(verified.findings) == 3
    assert verified.more_findings >= 2


def test_a_backup_that_resumes_names_the_lost_blobs_that_the_previous_backup_named(store: stratalog.Store) -> None:
    """The interrupted backup has not read the damaged log again, so it knows of no failure."""
    backups = Backups(store.environment.clock)
    store.create_log("acme", "plan").append(stratalog.Event("seen", store.environment.clock.random_bytes(20_000)))
    [key] = needed_blobs(store)
    lose(store, key)
    assert named(backups, store) == [key]
    repository = backups.repository()
    base = repository.manifest()
    unread = msgspec.structs.replace(base, id=repository.new_id(1, base.id), failures=(), base=base.id)
    repository.note_unfinished(unread)
    assert named(backups, store) == [key]


@pytest.mark.parametrize("kind", ["log", "record"])
def test_a_search_for_damage_reads_only_the_packs_of_a_changed_history_that_changed(kind: str) -> None:
    store, read = open_inline(clock=ManualClock()), list[str]()
    backups, log, records = Backups(store.environment.clock), store.create_log("acme", "r"), store.records("acme")

    def change(times: int) -> None:
        for count in range(times):
            if kind == "log":
                log.append(stratalog.Event("seen", count))
            else:
                records.put("r", b"%d" % count)

    change(1500)
    backups.make(store)
    packs = {stat.key for stat in backups.blobs.list("!backup/packs/")}
    change(1)
    get = backups.blobs.get

    def watched(key: str) -> bytes:
        read.append(key)
        return get(key)

    backups.blobs.get = watched  # type: ignore[method-assign]
    assert named(backups, store) == []
    assert len(packs) > 3
    assert len(packs.intersection(read)) == 1


@pytest.mark.parametrize("data", [5, "x", [1, 2], [[1], [2]], [[], [["key"]]], [[], [["key", 5]]], [[[1] * 6], []]])
def test_an_event_of_an_application_named_as_a_documents_commit_refers_to_no_blob(
    store: stratalog.Store, data: object
) -> None:
    log, content = store.create_log("acme", "plan"), store.environment.clock.random_bytes
    for body in (data, content(20_000)):
        log.append(stratalog.Event("commit", body))
    store.environment.clock.sleep(86_400)
    assert named(Backups(store.environment.clock), store) == []
    report = collect(store.environment, "acme")
    assert (report.retained, report.garbage, report.failures) == (1, (), ())


@pytest.mark.parametrize("has_versions", [False, True])
def test_a_lost_body_of_a_record_s_failure_is_a_failure_and_stays_in_later_backups(
    store: stratalog.Store, has_versions: bool
) -> None:
    """Each later backup lists the blobs of the record again."""
    backups, records, body = Backups(store.environment.clock), store.records("acme"), b"f" * 20_000
    if has_versions:
        records.put("r", b"1" * 20_000)
    records.fail("r", "unreadable", body=body)
    blobs = store.environment.blobs
    [key] = [stat.key for stat in blobs.list("acme/records/") if blobs.get(stat.key) == body]
    backups.make(store)
    lose(store, key)
    if has_versions:
        records.put("r", b"2" * 20_000)
    for _ in range(2):
        assert named(backups, store) == [key]
        assert b"".join(backups.view().records("acme").open_dead_letter("r")) == body
    assert named(Backups(store.environment.clock), store) == [key]


def store_with_large_bodies(store: stratalog.Store) -> list[str]:
    """Create two logs and two records. Return the keys of the blobs of one log and one record."""
    for name in ("lost", "kept"):
        store.create_log("acme", name).append(stratalog.Event("seen", store.environment.clock.random_bytes(20_000)))
        store.records("acme").put(name, store.environment.clock.random_bytes(20_000))
    return [stat.key for stat in store.environment.blobs.list("acme/") if "/kept" not in stat.key]


def is_restored(store: stratalog.Store, source: stratalog.Store) -> bool:
    """Return whether a store has the intact log and record, and no mark of an unfinished restoration."""
    answers = [(of.log("acme", "kept").entry(1), of.records("acme").get("kept")) for of in (store, source)]
    return answers[0] == answers[1] and not list(store.environment.index.query(COPY_PARTITION))


def items_of_lost_bodies(store: stratalog.Store) -> set[str]:
    """Return the keys of the items that refer to the bodies of `store_with_large_bodies`."""
    log = store.log("acme", "lost").record.prefix
    return {item_key(partition, number(1)) for partition in (entries_partition(log, 1), "acme/!record/lost")}


def test_a_restoration_names_lost_blobs_and_restores_the_rest(store: stratalog.Store) -> None:
    backups, target = Backups(store.environment.clock), open_inline(settings=SETTINGS)
    lost = store_with_large_bodies(store)
    for key in lost:
        lose(store, key)
    backups.make(store)
    report = restore_store(backups.view(), target, "a")
    assert {failure.key for failure in report.failures} == set(lost)
    assert {failure.what for failure in report.failures} == {"acme/lost", *items_of_lost_bodies(store)}
    assert is_restored(target, store)


def test_a_restoration_names_lost_copies_and_restores_the_rest(store: stratalog.Store) -> None:
    """The damage is in the repository."""
    backups, target = Backups(store.environment.clock), open_inline(settings=SETTINGS)
    lost = store_with_large_bodies(store)
    backups.make(store)
    for stat in list(backups.blobs.list("!backup/blobs/")):
        if any(key in stat.key for key in lost):
            backups.blobs.delete(stat.key, stat.stamp)
    report = restore_store(backups.view(), target, "a")
    assert {failure.what for failure in report.failures} == {*lost, "acme/lost", *items_of_lost_bodies(store)}
    assert is_restored(target, store)


def test_a_restoration_names_damaged_copies_and_restores_the_rest(store: stratalog.Store) -> None:
    """The copies exist, and each read of them reports damage."""
    backups, target = Backups(store.environment.clock), open_inline(settings=SETTINGS)
    lost = store_with_large_bodies(store)
    backups.make(store)
    view = backups.view()
    damage(view, lost)
    report = restore_store(view, target, "a")
    assert {failure.what for failure in report.failures} == {*lost, "acme/lost"}
    assert is_restored(target, store)


def test_a_restoration_whose_backup_is_pruned_meanwhile_stays_unfinished(store: stratalog.Store) -> None:
    backups, target = Backups(store.environment.clock), open_inline(settings=SETTINGS)
    store_with_large_bodies(store)
    id, view, repository = backups.make(store).manifest.id, backups.view(), backups.repository()
    for folder in ("manifests", "blobs"):
        for stat in list(backups.blobs.list(f"!backup/{folder}/")):
            backups.blobs.delete(stat.key, stat.stamp)
    with pytest.raises(Conflict, match="pruned"):
        restore_store(view, target, "a", require_backup=lambda: repository.require_backup(id))
    assert list(target.environment.index.query(COPY_PARTITION))


def test_a_copy_names_lost_blobs_and_copies_the_rest(store: stratalog.Store) -> None:
    target, lost = open_inline(settings=SETTINGS), store_with_large_bodies(store)
    for key in lost:
        lose(store, key)
    failures = copy_store(store, target).failures
    assert {failure.key for failure in failures} == set(lost)
    assert {failure.what for failure in failures} == {"acme/lost", *items_of_lost_bodies(store)}
    assert target.log("acme", "kept").entry(1) == store.log("acme", "kept").entry(1)
    assert target.records("acme").get("kept") == store.records("acme").get("kept")


class Killed(Exception):
    """The process stops at a commit."""


def stop_at(store: stratalog.Store, count: int) -> None:
    """Let the commits after the first ``count`` raise Killed."""
    index, left = store.environment.index, iter(range(count))
    commit = index.commit

    def counted(*args: Any, **kwargs: Any) -> None:
        if next(left, None) is None:
            raise Killed
        commit(*args, **kwargs)

    index.commit = counted  # type: ignore[method-assign]


@pytest.mark.parametrize("shelf", ["logs", "records", "failures"])
def test_a_copy_that_resumes_or_is_repeated_names_the_damaged_blobs_again(store: stratalog.Store, shelf: str) -> None:
    """The copy is stopped at each of its commits. The comparison reads none of the damaged blobs."""
    content, records = store.environment.clock.random_bytes, store.records("acme")
    log = store.create_log("acme", "a")
    for size in (20_000, *range(30)):
        log.append(stratalog.Event("seen", content(size)))
    store.create_log("acme", "b")
    for size in (20_000, 1):
        records.put("r", content(size))
    records.put("s", b"small")
    records.fail("f", "no good", body=content(20_000))
    prefix = {"logs": "acme/a@", "records": "acme/records/r/", "failures": "acme/records/f/"}[shelf]
    [key] = [stat.key for stat in store.environment.blobs.list(prefix)]
    damage(store, [key])
    for count in itertools.count():
        target = open_inline(settings=SETTINGS)
        commit = target.environment.index.commit
        stop_at(target, count)
        with suppress(Killed):
            assert key in {failure.what for failure in copy_store(store, target).failures}
            break
        target.environment.index.commit = commit  # type: ignore[method-assign]
        for _ in range(2):
            report = copy_store(store, target)
            assert key in {failure.what for failure in report.failures}
    assert count > 10
    assert report.blobs_written == 0
