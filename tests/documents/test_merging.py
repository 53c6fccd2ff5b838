"""`merge` merges each mutation once, and raises MergeConflict for a new rejection and for a fork that lost history."""

from __future__ import annotations

import io
import sys
import tracemalloc

import pytest

import stratalog
from stratalog.documents import Document, merge, replay, verify
from stratalog.documents.replay import merge_client
from stratalog.errors import Invalid, MergeConflict, ReservedName, Unavailable
from stratalog.keys import entries_partition
from stratalog.maintenance.document_export import export_document
from stratalog.maintenance.document_import import import_document
from stratalog.ports.index import Delete
from stratalog.protocol import Mutation
from tests.documents.helpers import World, inc, put
from tests.documents.test_forks import RULES, grown, two_sides


def limited(limit: int, client: str = "bob") -> Mutation:
    return Mutation(client=client, name="limited", args={"most": limit})


def test_a_mutation_that_only_the_target_rejects_stops_the_merge_before_any_write() -> None:
    fork, document = two_sides(World(), limit=20)
    version = document.version
    with pytest.raises(MergeConflict) as caught:
        merge(fork, document)
    assert caught.value.details == {"log": "doc", "client": "bob", "id": 1, "status": "rejected", "reason": "full"}
    assert (document.version, document.last_mutation(merge_client(fork))) == (version, 0)


def test_a_merge_can_apply_a_mutation_that_the_fork_rejected() -> None:
    world = World()
    document = grown(world)
    document.apply([inc(by=100, client="eve")])
    fork = document.fork("copy")
    fork.apply([limited(20)])
    document.apply([inc(by=-100, client="eve")])
    [merged] = merge(fork, document)
    assert (merged.reason_before, merged.reason_after, merged.same) == ("full", None, False)


def test_a_merge_conflict_is_decided_on_a_fresh_state() -> None:
    world = World()
    document = grown(world)
    fork = document.fork("copy", at=10)
    fork.apply([limited(50)])
    document.apply([inc(by=100, client="eve")])
    world.open(rules=RULES).apply([inc(by=-100, client="eve")])
    assert [merged.reason_after for merged in merge(fork, document)] == [None]


def test_a_mutation_that_a_concurrent_commit_makes_invalid_stops_the_merge() -> None:
    world = World()
    document = grown(world)
    fork = document.fork("copy", at=10)
    fork.apply([limited(50)])
    other = world.open(rules=RULES)

    def interfere(name: str, target: str) -> None:
        if name == "commit":
            world.recorder.before = None
            other.apply([inc(by=100, client="eve")])

    world.recorder.before = interfere
    with pytest.raises(MergeConflict):
        merge(fork, document)
    assert document.last_mutation(merge_client(fork)) == 0


def test_a_merge_checks_the_remaining_mutations_again_between_two_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["stratalog.documents.replay"], "BATCH_MUTATIONS", 2)
    world = World()
    document = grown(world)
    fork = document.fork("copy", at=10)
    for _ in range(4):
        fork.apply([inc(by=1, client="bob")])
    fork.apply([limited(50)])
    other, commits = world.open(rules=RULES), 0

    def interfere(name: str, target: str) -> None:
        nonlocal commits
        commits += name == "commit"
        if commits == 2:
            world.recorder.before = None
            other.apply([inc(by=100, client="eve")])

    world.recorder.before = interfere
    with pytest.raises(MergeConflict):
        merge(fork, document)
    assert document.last_mutation(merge_client(fork)) == 2
    other.apply([inc(by=-100, client="eve")])
    assert [merged.merged_in is None for merged in merge(fork, document)] == [True, True, False, False, False]
    verify(document)


def test_a_merge_checks_all_mutations_of_the_fork_before_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["stratalog.documents.replay"], "BATCH_MUTATIONS", 2)
    fork, document = two_sides(World(), limit=20)
    version = document.version
    with pytest.raises(MergeConflict):
        merge(fork, document)
    assert document.version == version


def test_two_forks_of_one_version_are_both_merged() -> None:
    world = World()
    document = grown(world)
    forks = [document.fork(name, at=10) for name in ("one", "two")]
    for by, fork in enumerate(forks, 1):
        fork.apply([inc(by=by, client="bob")])
    before = document.get("n")
    for fork in forks:
        merge(fork, document)
    assert document.get("n") == before + 3
    assert len({merge_client(fork) for fork in forks}) == 2


def test_a_fork_without_mutations_merges_to_nothing() -> None:
    document = grown(World())
    fork = document.fork("copy")
    assert (len(merge(fork, document)), len(replay(fork, document))) == (0, 0)


def exchanged(store: stratalog.Store, fork: Document, name: str) -> Document:
    """Export the fork, and import the export under another name."""
    file = io.BytesIO()
    export_document(fork, file)
    return import_document(store, "acme", name, file)


def test_a_merge_of_an_exported_and_imported_fork_merges_only_new_mutations() -> None:
    with stratalog.open("memory:") as store:
        document = store.create("acme", "d")
        document.mutate("put", {"key": "n", "value": 0}, client="a")
        fork = document.fork("f")
        fork.mutate("inc", {"key": "n", "by": 1}, client="b")
        merge(fork, document)
        again = exchanged(store, fork, "f2")
        merge(again, document)
        assert document.get("n") == 1
        again.mutate("inc", {"key": "n", "by": 10}, client="b")
        assert [merged.merged_in for merged in merge(again, document)] == [None, 3]
        assert document.get("n") == 11


def test_an_exported_and_imported_target_remembers_merged_mutations() -> None:
    with stratalog.open("memory:") as store:
        document = store.create("acme", "d")
        document.mutate("put", {"key": "n", "value": 0}, client="a")
        fork = document.fork("f")
        fork.mutate("inc", {"key": "n", "by": 1}, client="b")
        merge(fork, document)
        again = exchanged(store, document, "d2")
        merge(fork, again)
        assert again.get("n") == 1


@pytest.mark.parametrize("then", [1000, 10])
def test_a_merge_of_a_fork_that_lost_merged_history_is_refused(then: int) -> None:
    world = World(snapshot_entries_interval=1000)
    document = world.create()
    document.mutate("put", {"key": "n", "value": 0}, client="a")
    fork = document.fork("g")
    fork.mutate("inc", {"key": "n", "by": 1}, client="b")
    fork.mutate("inc", {"key": "n", "by": 10}, client="b")
    merge(fork, document)
    rolled_back(world, fork)
    fork = world.open("g")
    with pytest.raises(MergeConflict, match="lost history that was merged"):
        merge(fork, document)
    fork.mutate("inc", {"key": "n", "by": then}, client="b")
    for run in (merge, replay):
        with pytest.raises(MergeConflict, match="lost history that was merged"):
            run(fork, document)
    assert document.get("n") == 11


def test_a_snapshot_stores_how_far_a_fork_was_merged() -> None:
    world = World(snapshot_entries_interval=1000)
    document = world.create()
    fork = document.fork("g")
    fork.mutate("inc", {"key": "n", "by": 1}, client="b")
    fork.mutate("inc", {"key": "n", "by": 10}, client="b")
    merge(fork, document)
    document.snapshot()
    rolled_back(world, fork)
    fork = world.open("g")
    fork.mutate("inc", {"key": "n", "by": 10}, client="b")
    with pytest.raises(MergeConflict):
        merge(fork, world.open())
    verify(world.open())


def rolled_back(world: World, fork: Document) -> None:
    """Remove the fork's last entry, as a restore from an older backup does."""
    record = fork.log.record
    *_, last = world.backend.query(entries_partition(record.prefix, record.segment))
    world.backend.commit([Delete(last.partition, last.sort)])


def test_a_mutation_with_a_reserved_client_name_is_refused() -> None:
    document = grown(World())
    for client in ("replay/abc/1", "redrive/x/1"):
        with pytest.raises(ReservedName) as caught:
            document.mutate("inc", {"key": "n"}, client=client)
        assert (caught.value.code, caught.value.details) == ("reserved-name", {"client": client})
    assert document.mutate("inc", {"key": "n"}, client="replayed").status == "applied"


def test_a_storage_error_during_a_merge_is_raised_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(append_seconds_max=0.01)
    fork, document = two_sides(world)

    def fail(name: str, target: str) -> None:
        if name == "commit":
            raise Unavailable("out of reach")

    world.recorder.before = fail
    with pytest.raises(Unavailable):
        merge(fork, document)


def test_the_memory_of_a_merge_does_not_grow_with_the_square_of_the_mutations_of_an_entry() -> None:
    world = World()
    document = world.create()
    fork = document.fork("copy")
    fork.apply([put(f"k/{number}", number) for number in range(1000)])
    assert fork.version == 1
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        merge(fork, document)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (peak - before) / 1000 < 4000, "bytes for each mutation"


@pytest.mark.parametrize("is_fork", [False, True], ids=["document", "fork"])
def test_a_document_is_not_merged_into_itself(is_fork: bool) -> None:
    """Otherwise each merge would add the mutations of the last merge to the next one."""
    world = World()
    document = world.create()
    document.apply([inc()])
    merged = document.fork("copy") if is_fork else document
    merged.apply([inc(client="bob")])
    version = merged.version
    for function in (merge, replay):
        with pytest.raises(Invalid, match="into itself"):
            function(merged, world.open(merged.name))
    assert merged.version == version
