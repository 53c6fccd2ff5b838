"""A redaction keeps the newest state and is visible in the history. Then a collection removes every copy of a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stratalog
from stratalog.clock import Observation
from stratalog.documents import Document, redact, verify
from stratalog.documents.redaction import ATTEMPTS_MAX
from stratalog.errors import ContentionError, Redacted, RedactionRefused, Unsupported, VersionForgotten
from stratalog.keys import NAME_SORT, name_partition
from stratalog.log import delete_log
from stratalog.log.names import name_put, require_name
from stratalog.log.retention import archive_segments
from stratalog.log.snapshots import list_snapshots
from stratalog.log.sweep import sweep_deleted
from stratalog.log.tasks import InlineTasks
from stratalog.maintenance.collection import collect
from stratalog.maintenance.document_export import export_document
from stratalog.maintenance.document_import import import_document
from stratalog.maintenance.inspection import inspect_history
from stratalog.maintenance.store_copy import copy_store
from stratalog.maintenance.verification import HistoryName, list_histories, verify_history
from stratalog.ports.index import Item, Put
from stratalog.protocol import Mutation
from stratalog.testing.clock import ManualClock
from tests.documents.helpers import World, put
from tests.server.helpers import Follower
from tests.stored import stored_items
from tests.test_verify_export import verified

SECRET = "a person's name "
LARGE = SECRET * 300


def new_store(**options: Any) -> stratalog.Store:
    options = {"segment_entries_target": 6, "snapshot_entries_interval": 3, **options}
    store = stratalog.open("memory:", settings=stratalog.LogSettings(**options), clock=ManualClock())
    # The result of a redaction depends on the snapshots. `InlineTasks` takes a due snapshot immediately.
    store.environment.background = InlineTasks()
    return store


def grown(store: stratalog.Store, secret: str = SECRET) -> Document:
    """A document of nine versions: version 3 puts the secret, and version 6 overwrites it."""
    document = store.create("acme", "plan")
    for version in range(1, 10):
        key = "people/1" if version in (3, 6) else f"cells/{version}"
        value = secret if version == 3 else version
        document.mutate("put", {"key": key, "value": value}, client="ada" if version == 3 else "bob")
    return document


def other(store: stratalog.Store) -> Document:
    """A new handle with its own cached state, in the same environment as the first handle."""
    return Document(store.log("acme", "plan"))


def stored(store: stratalog.Store) -> list[bytes]:
    """All byte strings in the index and all blobs."""
    items = stored_items(store.environment.index)
    values = [value for item in items for value in item.attributes.values() if isinstance(value, bytes)]
    return values + [store.environment.blobs.get(stat.key) for stat in store.environment.blobs.list("")]


def holds_secret(store: stratalog.Store) -> bool:
    return any(SECRET.encode() in value for value in stored(store))


@pytest.fixture
def store() -> Any:
    with new_store() as opened:
        yield opened


def test_redaction_does_not_change_the_newest_state_and_the_chain_verifies(store: stratalog.Store) -> None:
    document = grown(store)
    before = document.at().to_dict()
    redact(document, 3)
    for handle in (document, other(store)):
        assert handle.at().to_dict() == before
        report = verify(handle)
        assert (report.redacted, report.version, report.hash) == ((3,), 9, document.log.head().hash)
    document.mutate("put", {"key": "cells/10", "value": 10})
    assert verify(other(store)).version == 10


@pytest.mark.parametrize("secret", [SECRET, LARGE], ids=["small", "large"])
def test_a_collection_after_a_redaction_removes_every_copy_of_the_value(store: stratalog.Store, secret: str) -> None:
    document = grown(store, secret)
    assert holds_secret(store)
    redact(document, 3)
    for _ in range(3):
        store.environment.clock.sleep(100_000)
        collect(store.environment, "acme")
    assert not holds_secret(store)
    assert verify_history(store, next(list_histories(store))).findings == ()


def test_redaction_deletes_only_snapshots_that_contain_the_value(store: stratalog.Store) -> None:
    document = grown(store)
    snapshots = [snapshot.version for snapshot in list_snapshots(store.environment.index, document.log.record.prefix)]
    assert snapshots == [3, 6, 9]
    document.snapshot(4)
    assert redact(document, 3) == [3, 4]
    remaining = list_snapshots(store.environment.index, document.log.record.prefix)
    assert [snapshot.version for snapshot in remaining] == [6, 9]


def test_reads_that_need_the_redacted_version_raise_redacted(store: stratalog.Store) -> None:
    document = grown(store)
    redact(document, 3)
    for version in (3, 4, 5):
        with pytest.raises(Redacted):
            document.at(version)
    for version in (0, 1, 2, 6, 7, 8, 9):
        assert document.at(version).version == version
    listed = list(document.versions())
    assert [(version.version, version.redacted) for version in listed] == [(n, n == 3) for n in range(1, 10)]
    assert [change.version for change in document.history("cells/1")] == [1]
    assert [document.applied_in("bob", id) for id in (1, 3, 8)] == [1, 4, 9]
    with pytest.raises(Redacted):
        document.applied_in("ada", 1)


def test_the_history_of_a_key_names_redacted_changes_and_goes_on_below_them(store: stratalog.Store) -> None:
    document = store.create("acme", "plan")
    for version in range(1, 21):
        key = "people/1" if version in (1, 4, 7, 8, 10, 12, 20) else f"cells/{version}"
        document.mutate("put", {"key": key, "value": version}, client="ada")
    for version in (4, 8, 12):
        redact(document, version)
    expected = [(20, 20, False), (12, None, True), (10, 10, False), (8, None, True)]
    expected += [(7, 7, False), (4, None, True), (1, 1, False)]
    for at in (None, *range(1, 21)):
        changes = [(change.version, change.value, change.redacted) for change in document.history("people/1", at=at)]
        assert changes == [row for row in expected if at is None or row[0] <= at], at
    [erased] = [change for change in document.history("people/1") if change.version == 8]
    assert (erased.author, erased.mutations, erased.deleted) == ("ada", (), False)


def test_a_history_goes_on_below_two_redacted_versions_without_a_snapshot_between_them() -> None:
    with new_store(snapshot_entries_interval=100) as store:
        document = store.create("acme", "plan")
        for version in range(1, 9):
            key = "people/1" if version in (1, 3, 5, 7, 8) else f"cells/{version}"
            document.mutate("put", {"key": key, "value": version})
        document.snapshot()
        redact(document, 5)
        redact(document, 7)
        changes = [(change.version, change.value) for change in document.history("people/1")]
        assert changes == [(8, 8), (7, None), (3, 3), (1, 1)]


def test_redaction_of_a_value_in_the_newest_state_is_refused(store: stratalog.Store) -> None:
    document = grown(store)
    with pytest.raises(RedactionRefused, match="delete or overwrite them first") as refused:
        redact(document, 9)
    assert refused.value.details["keys"] == ["cells/9"]
    document.mutate("del", {"key": "cells/9"})
    redact(document, 9)
    assert verify(other(store)).redacted == (9,)


def test_redaction_of_a_version_that_a_fork_needs_is_refused(store: stratalog.Store) -> None:
    document = grown(store)
    fork = document.fork("draft", at=4)
    with pytest.raises(RedactionRefused, match="forks need the version"):
        redact(document, 3)
    with pytest.raises(RedactionRefused, match="belongs to the log"):
        redact(fork, 3)
    delete_log(fork.log)
    store.environment.clock.sleep(100_000)
    sweep_deleted(store.environment, "acme")
    redact(document, 3)
    later = document.fork("later")
    later.mutate("put", {"key": "cells/1", "value": "new"})
    assert verify(later).version == 10
    assert stratalog.merge(later, document)


def test_a_fork_at_a_version_without_a_readable_state_is_refused(store: stratalog.Store) -> None:
    document = grown(store)
    redact(document, 3)
    with pytest.raises(Redacted):
        document.fork("draft", at=4)
    assert [line.id for line in store.list("acme")] == ["plan"]
    assert document.fork("draft", at=7).at().version == 7


def test_redacting_the_log_of_a_document_directly_is_refused(store: stratalog.Store) -> None:
    with pytest.raises(RedactionRefused, match="has a state"):
        grown(store).log.redact(3)


def test_a_rejected_mutation_and_the_newest_version_may_be_redacted(store: stratalog.Store) -> None:
    document = grown(store)
    document.apply([Mutation(client="local", name="no such mutator", args={"name": SECRET})])
    redact(document, 10)
    redact(document, 3)
    assert document.mutate("put", {"key": "a", "value": 1}).status == "applied"
    assert verify(other(store)).redacted == (3, 10)


def test_a_stale_handle_continues_after_a_redacted_version(store: stratalog.Store) -> None:
    document = store.create("acme", "plan")
    document.mutate("put", {"key": "a", "value": 1})
    behind = other(store)
    assert behind.at().version == 1
    document.mutate("put", {"key": "b", "value": SECRET})
    document.mutate("del", {"key": "b"})
    redact(document, 2)
    assert behind.at().to_dict() == {"a": 1}
    assert behind.mutate("put", {"key": "c", "value": 3}).version == 4


def test_a_document_with_several_redacted_versions_verifies(store: stratalog.Store) -> None:
    document = grown(store)
    for version in range(10, 16):
        document.mutate("put", {"key": "people/2", "value": f"{SECRET}{version}"})
    redact(document, 3)
    for version in range(10, 15):
        redact(document, version)
    report = verify(other(store))
    assert report.redacted == (3, 10, 11, 12, 13, 14)
    assert redact(document, 10) == []


def test_an_archived_version_is_redacted(store: stratalog.Store) -> None:
    document = grown(store)
    assert archive_segments(document.log) == 1
    redact(document, 3)
    assert verify(other(store)).redacted == (3,)


def test_a_pull_across_a_redacted_version_returns_the_newest_state_without_the_value(store: stratalog.Store) -> None:
    document = store.create("acme", "plan")
    document.mutate("put", {"key": "a", "value": 1})
    document.mutate("put", {"key": "old", "value": 1})
    followers = Follower(), Follower()
    for follower in followers:
        follower.pull(document)
    document.mutate("put", {"key": "b", "value": SECRET})
    document.mutate("del", {"key": "b"})
    document.mutate("del", {"key": "old"})
    redact(document, 3)
    for follower, handle in zip(followers, (document, other(store)), strict=True):
        answer = follower.pull(handle)
        assert (answer.cookie.version, follower.content) == (5, {"a": 1})
        assert SECRET.encode() not in msgspec.msgpack.encode(answer)


def test_an_export_of_a_redacted_document_verifies_independently_and_cannot_be_imported(store: stratalog.Store) -> None:
    document = grown(store, LARGE)
    redact(document, 3)
    file = BytesIO()
    export_document(document, file)
    assert SECRET.encode() not in file.getvalue()
    assert verified(file.getvalue())[1][-1] == document.log.head().hash
    with pytest.raises(Unsupported, match="redacted"):
        import_document(store, "acme", "again", file)
    assert [line.id for line in store.list("acme")] == ["plan"]


def test_a_copied_store_has_the_same_redacted_versions(store: stratalog.Store) -> None:
    redact(grown(store), 3)
    with new_store() as target:
        copy_store(store, target)
        assert verify(other(target)).redacted == (3,)


@pytest.mark.parametrize("seed", range(5))
def test_a_copy_succeeds_although_its_check_selects_redacted_versions(seed: int) -> None:
    """The clock's seed determines the versions that the copy compares."""
    settings = stratalog.LogSettings(segment_entries_target=6, snapshot_entries_interval=3)
    with stratalog.open("memory:", settings=settings, clock=ManualClock(seed=seed)) as source, new_store() as target:
        source.environment.background = InlineTasks()
        redact(grown(source), 3)
        copy_store(source, target)
        assert verify(other(target)).redacted == (3,)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 9)), min_size=4, max_size=14),
    st.lists(st.integers(1, 14), min_size=1, max_size=5),
    st.booleans(),
)
def test_any_redaction_is_refused_or_leaves_a_document_that_verifies(
    changes: list[tuple[str, int | None]], redactions: list[int], archived: bool
) -> None:
    with new_store() as store:
        document = store.create("acme", "plan")
        for key, value in changes:
            document.mutate(*(("put", {"key": key, "value": value}) if value is not None else ("del", {"key": key})))
        if archived:
            archive_segments(document.log)
        newest = document.at().to_dict()
        done = set()
        for version in redactions:
            with suppress(stratalog.NotFound, RedactionRefused):
                redact(document, version)
                done.add(version)
        for handle in (document, other(store)):
            assert handle.at().to_dict() == newest
            assert verify(handle).redacted == tuple(sorted(done))


def test_a_snapshot_that_became_the_base_meanwhile_is_not_deleted() -> None:
    """A floor rises onto a snapshot that a redaction has listed for deletion."""
    world = World(snapshot_entries_interval=1000, segment_entries_target=4)
    document = world.create()
    for number in range(12):
        document.apply([put("secret", f"text {number}")])
    document.snapshot(6)
    other, floors = world.open(), list[int]()

    def forget(name: str, target: str) -> None:
        if name == "commit" and "/snapshots" in target and target.endswith("acme/doc name") and not floors:
            floors.append(0)
            floors.append(other.forget_below(6))

    world.recorder.before = forget
    with pytest.raises(VersionForgotten):
        redact(document, 6)
    world.recorder.before = None
    assert floors == [0, 6]
    assert verify(world.open()).start == 6
    assert world.open().at(7).get("secret") == "text 6"


def test_redaction_returns_every_deleted_snapshot_despite_a_concurrent_fork() -> None:
    world = World(snapshot_entries_interval=1000)
    document = world.create()
    for number in range(6):
        document.apply([put("secret", f"text {number}")])
        document.apply([put("other", number)])
    for version in (3, 4):
        document.snapshot(version)
    other, deleted = world.open(), list[str]()

    def fork_at_the_second(name: str, target: str) -> None:
        if name == "commit" and "/snapshots 0" in target and target.count(" + ") == 1:
            deleted.append(target)
            if len(deleted) == 2:
                other.fork("fork", at=2)

    world.recorder.before = fork_at_the_second
    assert redact(document, 3) == [3, 4]
    world.recorder.before = None
    assert len(deleted) == 3
    assert verify(world.open()).redacted == (3,)


def sealed() -> tuple[World, Document]:
    """Version 3 puts the secret, and version 6 overwrites it.

    The log has snapshots at 3, 6 and 9. Only the snapshot at 3 contains the secret.
    """
    world = World(snapshot_entries_interval=3, segment_entries_target=100)
    document = world.create()
    for version in range(1, 10):
        key = "people/1" if version in (3, 6) else f"cells/{version}"
        document.mutate("put", {"key": key, "value": SECRET if version == 3 else version})
    return world, document


def sealed_and_archived() -> tuple[World, Document]:
    """Version 3 puts the secret. The full segments are archived, and the only snapshot is at version 9."""
    world = World(snapshot_entries_interval=1000, segment_entries_target=4)
    document = world.create()
    for version in range(1, 10):
        value = SECRET if version == 3 else version
        document.mutate("put", {"key": "people/1", "value": value})
    document.snapshot()
    assert archive_segments(document.log)
    return world, document


def test_a_redaction_that_loses_every_race_backs_off_and_raises_contention_error() -> None:
    world, document = sealed()
    begun, tries = Observation(world.clock), 0

    def change_the_log(name: str, target: str) -> None:
        nonlocal tries
        if name == "commit":
            record = require_name(world.backend, "acme", "doc")
            world.backend.commit([name_put(msgspec.structs.replace(record, revision=record.revision + 1))])
            tries += 1

    world.recorder.before = change_the_log
    with pytest.raises(ContentionError):
        redact(document, 3)
    assert tries >= ATTEMPTS_MAX
    assert 0 < begun.age_seconds() < 10
    world.recorder.before = None
    assert redact(document, 3) == [3]


def at_each_call(act: Callable[[World, Document], object], meanwhile: Callable[[World], object]) -> Iterator[World]:
    """Run ``act`` in a new store once for each port call that ``act`` makes, and yield the store.

    Run number n calls ``meanwhile`` before port call number n.
    """
    call = calls = 0
    while call <= calls:
        call += 1
        world, document = sealed()
        calls = 0

        def count(name: str, target: str, world: World = world, call: int = call) -> None:
            nonlocal calls
            calls += 1
            if calls == call:
                world.recorder.before = None
                with suppress(Redacted, ContentionError):
                    meanwhile(world)
                world.recorder.before = count

        world.recorder.before = count
        with suppress(Redacted, RedactionRefused, ContentionError):
            act(world, document)
        world.recorder.before = None
        yield world


def check_fork(world: World) -> bool:
    """Return whether the fork exists. Check that an existing fork has its state and no redacted version."""
    try:
        fork = world.open("draft")
    except stratalog.NotFound:
        return False
    assert fork.at().to_dict()["people/1"] == SECRET
    assert verify(fork).redacted == ()
    return True


def redact_3(world: World, document: Document | None = None) -> None:
    redact(document or world.open(), 3)


def fork_4(world: World, document: Document | None = None) -> None:
    (document or world.open()).fork("draft", at=4)


def test_a_fork_created_during_a_redaction_has_its_state() -> None:
    forked = [check_fork(world) for world in at_each_call(redact_3, fork_4)]
    assert forked.count(True) > 20


def test_a_redaction_during_a_fork_leaves_no_fork_without_a_state() -> None:
    forked = [check_fork(world) for world in at_each_call(fork_4, redact_3)]
    assert {True, False} == {*forked}


def test_a_stale_handle_creates_no_fork_whose_state_is_not_stored() -> None:
    """The handle forks the newest version that it has read. Its cache still has the state of that version."""

    def overtake(world: World) -> None:
        other = world.open()
        other.apply([put("people/1", SECRET)])
        secret = other.version
        other.apply([put("people/1", "none")])
        other.apply([put("cells/1", "later")])
        redact(other, secret)

    forked = 0
    for world in at_each_call(lambda world, document: document.fork("draft"), overtake):
        with suppress(stratalog.NotFound):
            fork = world.open("draft")
            assert fork.at().to_dict()["people/1"] in (6, "none", SECRET)
            forked += 1
    assert forked > 2


def test_a_fork_at_a_redacted_version_is_refused_despite_a_cached_archive() -> None:
    world, document = sealed_and_archived()
    behind = world.open()
    assert list(behind.log.read(0, 4))  # the handle caches the archive
    redact(document, 3)
    with pytest.raises(Redacted):
        behind.fork("draft", at=4)


def test_a_fork_of_a_document_without_redactions_reads_no_state() -> None:
    world, document = sealed()
    recorder = world.watched()
    document.fork("draft", at=4)
    assert not any("/snapshots" in partition for partition in recorder.named("query"))


def test_a_name_record_that_lost_its_redactions_is_reported_as_damage(store: stratalog.Store) -> None:
    redact(grown(store), 3)
    index, partition = store.environment.index, name_partition("acme", "plan")
    item = index.get(partition, NAME_SORT)
    assert item is not None
    index.commit(
        [Put(Item(partition, NAME_SORT, {key: item.attributes[key] for key in item.attributes if key != "x"}))]
    )
    (damage,) = inspect_history(store, HistoryName("log", "acme", "plan")).damages
    assert (damage.kind, damage.reason) == ("name record", "it does not record that a version was redacted")
