"""Forks, and the outcomes of their mutations after a replay or a merge onto another base."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from stratalog.documents import Document, Rules, merge, replay, verify
from stratalog.documents.replay import merge_client
from stratalog.errors import Invalid, NotFound, Unavailable, VersionForgotten
from stratalog.log.lifecycle import delete_log
from stratalog.log.snapshots import list_snapshots
from stratalog.maintenance.document_export import export_document
from stratalog.protocol import BUILT_IN_MUTATORS, Draft, Mutation, Rejected
from tests.documents.helpers import World, inc, large, put, statuses
from tests.log.helpers import DUE_SECONDS


def limited(draft: Draft, args: Any) -> None:
    """Add one to ``n`` if ``n`` is below ``most``. Otherwise reject the mutation."""
    if draft.get("n", 0) >= args["most"]:
        raise Rejected("full")
    draft.put("n", draft.get("n", 0) + 1)


def settle(draft: Draft, args: Any) -> None:
    """Set each key that has another value. If ``urgent`` is set, set ``alarm`` too."""
    for key, value in args.items():
        if draft.get(key) != value:
            draft.put(key, value)
    if draft.get("urgent"):
        draft.put("alarm", True)


RULES = Rules(mutators={**BUILT_IN_MUTATORS, "limited": limited, "settle": settle})


def grown(world: World, versions: int = 12, rules: Rules | None = RULES) -> Document:
    document = world.create(rules=rules)
    for n in range(versions):
        document.apply([put(f"c/{n % 4}", large(str(n))), inc(client="bob")])
    return document


@pytest.mark.parametrize("interval", [1, 5, 100])
def test_a_fork_has_its_parents_history_up_to_the_fork_point_and_its_own_after(interval: int) -> None:
    world = World(snapshot_entries_interval=interval, segment_entries_target=4)
    document = grown(world)
    state = document.at(7).to_dict()
    fork = document.fork("copy", at=7)
    fork.apply([put("c/0", "changed")])
    document.apply([put("c/0", "other")])
    for handle in (fork, world.open("copy")):
        assert handle.at(7).to_dict() == state
        assert handle.at(8).to_dict() == handle.at().to_dict() == {**state, "c/0": "changed"}
        assert handle.at(3).to_dict() == document.at(3).to_dict()
        assert [change.version for change in handle.history("c/0")] == [8, 5, 1]
        assert [change.key for change in handle.diff(7, 8)] == ["c/0"]
        assert len(list(handle.versions())) == 8
        assert verify(handle).start == 7
    assert document.get("c/0") == "other"


def test_a_fork_keeps_only_the_versions_that_its_parent_keeps() -> None:
    world = World(snapshot_entries_interval=3, segment_entries_target=4)
    document = grown(world)
    fork = document.fork("copy", at=10)
    state = document.at(7).to_dict()
    assert document.forget_below(7) == 7
    for handle in (fork, world.open("copy")):
        assert [version.version for version in handle.versions()] == [8, 9, 10]
        assert handle.at(7).to_dict() == state
        with pytest.raises(VersionForgotten):
            handle.at(6)
        with pytest.raises(Invalid):
            export_document(handle, io.BytesIO())


@pytest.mark.parametrize("interval", [1, 5, 100])
def test_a_forks_clients_start_empty(interval: int) -> None:
    world = World(snapshot_entries_interval=interval)
    document = grown(world)
    fork = document.fork("copy", at=10)
    assert (fork.last_mutation("bob"), list(fork.state().client_ids())) == (0, [])
    assert statuses(fork.apply([inc(client="bob", id=11)])) == ["unknown-client"]
    assert statuses(fork.apply([inc(client="bob", id=1)])) == ["applied"]
    reader = world.open("copy")
    assert (reader.last_mutation("bob"), reader.get("n"), reader.applied_in("bob", 1)) == (1, 11, 11)
    assert reader.applied_in("ada", 3) is None
    for _ in range(7):
        reader.apply([inc(client="bob")])
    assert dict(world.open("copy").state().client_ids()) == {"bob": 8}


def test_the_cost_of_a_fork_of_a_document_does_not_depend_on_the_length_of_its_history() -> None:
    costs = []
    for versions in (3, 60):
        world = World(snapshot_entries_interval=10, segment_entries_target=8)
        document = grown(world, versions)
        calls = world.watched()
        document.fork("copy")
        costs.append(len(calls.calls))
        assert len(calls.named("commit")) == 1
        assert calls.named("blob put") == []
    assert costs[0] == costs[1]


def test_a_fork_of_a_fork_has_the_history_of_both_ancestors() -> None:
    world = World(snapshot_entries_interval=3, segment_entries_target=4)
    document = grown(world)
    fork = document.fork("fork", at=8)
    fork.apply([put("c/0", "fork"), inc(client="bob")])
    again = fork.fork("again", at=9)
    early = fork.fork("early", at=4)
    again.apply([put("c/1", "again"), inc(client="bob")])
    early.apply([inc(client="bob")])
    reader = world.open("again")
    assert (reader.get("n"), reader.get("c/0"), reader.get("c/1")) == (10, "fork", "again")
    assert (reader.at(8).to_dict(), reader.at(2).to_dict()) == (document.at(8).to_dict(), document.at(2).to_dict())
    assert world.open("early").get("n") == 5
    assert [change.version for change in reader.history("c/0")] == [9, 5, 1]
    assert (verify(reader).start, verify(world.open("early")).start) == (9, 4)


def test_a_fork_holds_its_parents_floor_until_it_has_a_base_of_its_own() -> None:
    world = World(snapshot_entries_interval=4, segment_entries_target=4)
    document = grown(world, 30)
    fork = document.fork("copy", at=9)
    fork.apply([inc(client="bob")])
    assert document.forget_below(25) == 9
    assert fork.forget_below(10) == 10
    assert document.forget_below(25) == 25
    reader = world.open("copy")
    assert (reader.get("n"), reader.last_mutation("bob")) == (10, 1)
    reader.apply([inc(client="bob")])
    assert verify(world.open("copy")).start == 10
    with pytest.raises(VersionForgotten):
        reader.at(5)


def assert_floor(reader: Document, floor: int, *, head: int, state: dict[str, Any]) -> None:
    """Check the floor of a fork, its versions from the floor to ``head``, and its state at the floor."""
    assert reader.log.floor() == floor
    assert [version.version for version in reader.versions()] == [*range(floor + 1, head + 1)]
    assert reader.at(floor).to_dict() == state
    assert verify(reader).version == head


@pytest.mark.parametrize("frees", [False, True])
def test_the_floor_of_a_fork_is_that_of_its_deleted_ancestor_after_another_document_took_the_name(frees: bool) -> None:
    world = World(snapshot_entries_interval=4, segment_entries_target=4)
    document = grown(world, 9)
    fork = document.fork("copy", at=9)
    fork.apply([inc(client="bob")])
    second = fork.fork("second")
    assert document.forget_below(8) == 8
    if frees:
        world.clock.sleep(DUE_SECONDS)
        document.free_segments()
    delete_log(document.log)
    world.create()
    for name in ("copy", "second"):
        assert_floor(world.open(name), 8, head=10, state=second.at(8).to_dict())


@pytest.mark.parametrize("is_last", [False, True], ids=["in a segment", "in the last segment"])
@pytest.mark.parametrize("makes_gap", [False, True])
def test_a_floor_within_a_segment_of_a_deleted_ancestor_stays_after_another_document_took_the_name(
    is_last: bool, makes_gap: bool
) -> None:
    world = World(snapshot_entries_interval=4, segment_entries_target=1000 if is_last else 9)
    document = grown(world)
    fork = document.fork("copy", at=10)
    fork.apply([inc(client="bob")])
    second = fork.fork("second")
    assert document.forget_below(6) == 6
    if makes_gap:
        world.clock.sleep(DUE_SECONDS)
        document.free_segments()
    delete_log(document.log)
    world.create()
    for name in ("copy", "second"):
        assert_floor(world.open(name), 6, head=11, state=second.at(6).to_dict())


def test_a_fork_that_forgets_the_versions_of_its_ancestors_can_be_merged_and_forked() -> None:
    world = World(snapshot_entries_interval=4, segment_entries_target=4)
    document = grown(world)
    fork = document.fork("copy", at=10)
    fork.apply([inc(by=5, client="bob")])
    states = {version: fork.at(version).to_dict() for version in (10, 11)}
    assert fork.forget_below(10) == 10
    fork.fork("third", at=10)
    fork.fork("fourth", at=11)
    for is_freed in (False, True):
        if is_freed:
            assert document.forget_below(document.version) == 10
            world.clock.sleep(DUE_SECONDS)
            document.free_segments()
        for name in ("copy", "third", "fourth"):
            reader = world.open(name)
            assert reader.log.floor() == 10
            assert reader.at().to_dict() == states[min(11, reader.version)]
            assert verify(reader).version == reader.version
    before = document.at()["n"]
    for _ in range(2):
        assert len(merge(world.open("copy"), document)) == 1
        assert document.at()["n"] == before + 5


def test_a_fork_at_the_floor_and_its_own_fork_have_the_state_of_the_floor() -> None:
    world = World(snapshot_entries_interval=100, segment_entries_target=4)
    document = grown(world)
    state = document.at(6).to_dict()
    assert document.forget_below(6) == 6
    document.fork("copy", at=6).fork("second", at=6)
    assert [world.open(name).at(6).to_dict() for name in ("copy", "second")] == [state, state]


def test_a_fork_with_a_snapshot_below_its_ancestor_s_floor_is_read_and_forked() -> None:
    world = World(snapshot_entries_interval=100, segment_entries_target=4)
    document = grown(world)
    fork = document.fork("copy", at=10)
    fork.apply([inc(client="bob")])
    state = fork.at().to_dict()
    fork.snapshot(3)
    assert document.forget_below(7) == 7
    reader = world.open("copy")
    assert (reader.log.floor(), reader.at().to_dict()) == (7, state)
    assert reader.at(8).to_dict() == document.at(8).to_dict()
    fork_of_fork = reader.fork("second", at=11)
    fork_of_fork.snapshot(8)
    assert document.forget_below(9) == 9
    assert world.open("second").at().to_dict() == state
    assert verify(world.open("second")).version == verify(reader).version == 11


@pytest.mark.parametrize("read_first", [True, False])
def test_a_fork_commits_and_makes_snapshots_after_its_parents_snapshot_is_deleted(read_first: bool) -> None:
    world = World(snapshot_entries_interval=4, segment_entries_target=4)
    document = grown(world, 30)
    document.apply([put(f"d/{n:03}", n) for n in range(300)])
    document.snapshot(31)
    document.apply([put(f"d/{n:03}", -n) for n in range(300)])
    fork = document.fork("copy", at=31)
    fork.apply([inc()])
    assert fork.state().snapshot_version == 31
    document.forget_below(31)
    fork.forget_below(32)
    document.forget_below(32)
    snapshots = [snapshot.version for snapshot in list_snapshots(world.backend, fork.log.record.prefix)]
    assert snapshots == [32]
    if read_first:
        assert world.open("copy").get("d/007") == 7
    for _ in range(9):
        fork.apply([inc()])
    assert [snapshot.version for snapshot in list_snapshots(world.backend, fork.log.record.prefix)] == [32, 36, 40]


def test_a_fork_at_a_missing_version_is_refused() -> None:
    document = grown(World())
    for at in (13, -1):
        with pytest.raises((NotFound, Invalid)):
            document.fork("copy", at=at)


def two_sides(world: World, limit: int = 200) -> tuple[Document, Document]:
    """Return a fork and its document. Both have committed since the fork.

    If ``most`` is at most 117, the document would reject the fork's mutation `limited`.
    """
    document = grown(world)
    fork = document.fork("copy", at=10)
    fork.apply([inc(by=5), put("c/new", large("new"))])
    fork.apply([Mutation(client="bob", name="limited", args={"most": limit}), Mutation(client="bob", name="nope")])
    document.apply([inc(by=100, client="eve")])
    return fork, document


def test_replay_reports_and_changes_nothing() -> None:
    world = World(snapshot_entries_interval=3)
    fork, document = two_sides(world, limit=20)
    version = document.version
    report = replay(fork, document)
    assert [(replayed.client, replayed.id, replayed.name, replayed.version, replayed.same) for replayed in report] == [
        ("ada", 1, "inc", 11, False),
        ("ada", 2, "put", 11, True),
        ("bob", 1, "limited", 12, False),
        ("bob", 2, "nope", 12, True),
    ]
    assert report.mutations[0].differences == {"n": (15, 117)}
    assert (report.mutations[2].reason_before, report.mutations[2].reason_after, report.mutations[2].differences) == (
        None,
        "full",
        {},
    )
    assert report.mutations[1].args == {"key": "c/new", "value": large("new")}
    assert document.version == version


def settling(id: int, **args: Any) -> Mutation:
    return Mutation(client="ada", id=id, name="settle", args=args)


def test_a_replay_and_a_merge_compare_the_keys_that_change_only_on_the_target() -> None:
    world = World()
    document = grown(world)
    fork = document.fork("copy")
    fork.apply([settling(1, n=12, k=1), settling(2, k=2)])
    fork.apply([settling(3, k=2)])
    document.apply([put("urgent", True), put("k", 2)])
    for report in (replay(fork, document), merge(fork, document)):
        assert [replayed.differences for replayed in report] == [{}, {"alarm": (None, True)}, {"alarm": (None, True)}]
        assert report.different == 2


def test_a_replay_reports_no_difference_where_one_side_has_the_value_already() -> None:
    document = grown(World())
    fork = document.fork("copy")
    fork.apply([settling(1, k=1), put("n", 12)])
    document.apply([put("k", 1), put("n", 1)])
    assert [replayed.differences for replayed in replay(fork, document)] == [{}, {}]


@pytest.mark.parametrize("asked", [True, False], ids=["asked for", "due"])
def test_a_fork_makes_a_snapshot_of_its_own_after_its_parents_snapshot_is_deleted(asked: bool) -> None:
    world = World(snapshot_entries_interval=4)
    document = grown(world, 30)
    fork = document.fork("copy", at=30)
    fork.apply([inc()])
    assert fork.state().snapshot_version == 28
    document.forget_below(30)
    if asked:
        assert fork.forget_below(31) == 31
    else:
        for _ in range(4):
            fork.apply([inc()])
    assert [snapshot.version for snapshot in list_snapshots(world.backend, fork.log.record.prefix)] == [
        31 if asked else 35
    ]


def test_a_replay_after_a_version_runs_the_mutations_of_later_versions() -> None:
    world = World()
    fork, document = two_sides(world, limit=20)
    report = replay(fork, document, after=11)
    assert [(replayed.name, replayed.same, replayed.reason_after) for replayed in report] == [
        ("limited", False, "full"),
        ("nope", True, "no such mutator: nope"),
    ]


def test_a_replay_after_a_merge_runs_the_unmerged_mutations() -> None:
    world = World()
    fork, document = two_sides(world)
    merge(fork, document)
    fork.apply([inc(by=5)])
    assert [(replayed.name, replayed.same) for replayed in replay(fork, document)] == [
        ("inc", True),
        ("put", True),
        ("limited", True),
        ("nope", True),
        ("inc", False),
    ]


def test_merge_commits_with_the_origin_as_provenance() -> None:
    world = World()
    fork, document = two_sides(world)
    report = merge(fork, document)
    assert [mutation.merged_in for mutation in report] == [14, 14, 14, 14]
    assert (document.get("n"), document.get("c/new")) == (118, large("new"))
    (version,) = world.open().versions(13)
    assert [(mutation.origin, mutation.reason) for mutation in version.mutations] == [
        (("ada", 1), None),
        (("ada", 2), None),
        (("bob", 1), None),
        (("bob", 2), "no such mutator: nope"),
    ]
    assert {mutation.client for mutation in version.mutations} == {merge_client(fork)}


def test_merging_twice_changes_nothing() -> None:
    world = World()
    fork, document = two_sides(world)
    merge(fork, document)
    again = merge(world.open("copy"), world.open())
    assert [(merged.same, merged.merged_in) for merged in again] == [(True, None)] * 4
    assert document.version == 14


def test_a_crashed_merge_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["stratalog.documents.replay"], "BATCH_MUTATIONS", 3)
    world = World(append_seconds_max=0.01)
    document = grown(world, 4)
    fork = document.fork("copy")
    for _ in range(10):
        fork.apply([inc(by=1)])
    commits = 0

    def crash(name: str, target: str) -> None:
        nonlocal commits
        commits += name == "commit"
        if commits > 2:
            raise Unavailable("the process ends here")

    world.recorder.before = crash
    with pytest.raises(Unavailable):
        merge(fork, document)
    world.recorder.before = None
    assert (document.get("n"), document.version) == (10, 6)
    merge(world.open("copy"), world.open())
    assert (document.get("n"), document.version) == (14, 8)
    assert document.last_mutation(merge_client(fork)) == 10


def test_a_second_merge_merges_only_the_new_mutations_of_the_fork() -> None:
    world = World()
    fork, document = two_sides(world)
    merge(fork, document)
    fork.apply([inc(by=1000)])
    assert [merged.merged_in for merged in merge(fork, document)] == [None, None, None, None, 15]
    assert document.get("n") == 1118


def test_the_report_of_a_merge_describes_the_committed_outcomes() -> None:
    world = World()
    fork, document = two_sides(world)
    other = world.open(rules=RULES)

    def interfere(name: str, target: str) -> None:
        if name == "commit":
            world.recorder.before = None
            other.apply([inc(by=-100, client="eve2")])

    world.recorder.before = interfere
    report = merge(fork, document)
    assert document.get("n") == 18
    assert (report.mutations[2].reason_after, report.mutations[2].merged_in) == (None, 15)
    assert report.mutations[0].differences == {"n": (15, 17)}
