"""Each mutation of a batch takes effect at most once and in order, and its committed outcome does not change later."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from stratalog.documents import Document, Rules
from stratalog.errors import (
    Closed,
    Corrupt,
    Invalid,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    StratalogError,
    Unavailable,
)
from stratalog.limits import DOCUMENT_FIELDS_BYTES_MAX, GRACE_SECONDS, MUTATIONS_PER_BATCH_MAX
from stratalog.log import delete_log
from stratalog.ports.index import Check, Put
from stratalog.protocol import BUILT_IN_MUTATORS, Draft, Mutation, Rejected
from tests.documents.helpers import World, inc, large, put, statuses
from tests.processes import ROOT, environment, run

SECONDS_MAX = 60
GARBAGE = """
import gc
from tests.documents.helpers import World, inc, large, put

document = World().create()
document.apply([put("c/a", large())])
gc.collect()
gc.disable()
document.apply([put("c/a", large("b")), inc("n"), put("", 1)])
unreachable = gc.collect()
if unreachable:
    raise SystemExit(f"a commit left {unreachable} objects in cycles")
"""


def test_a_batch_is_one_version() -> None:
    document = World().create()
    outcomes = document.apply([put("a", 1), put("b", 2, client="bob"), inc("a", 2)])
    assert [(outcome.client, outcome.id, outcome.status, outcome.version) for outcome in outcomes] == [
        ("ada", 1, "applied", 1),
        ("bob", 1, "applied", 1),
        ("ada", 2, "applied", 1),
    ]
    assert document.at().to_dict() == {"a": 3, "b": 2}


def test_a_commit_creates_no_cyclic_garbage() -> None:
    # `gc.collect` counts the garbage of the whole process, including the garbage of earlier tests. So this test
    # uses a new process.
    run([sys.executable, "-c", GARBAGE], env=environment(), cwd=ROOT)


def test_a_mutation_seen_before_changes_nothing_and_makes_no_version() -> None:
    world = World()
    document = world.create()
    batch = [inc(id=1), inc(id=2)]
    document.apply(batch)
    for handle in (document, world.open()):
        assert statuses(handle.apply(batch)) == ["seen", "seen"]
    assert (document.version, document.get("n")) == (1, 2)


def test_only_the_unseen_mutations_of_a_batch_are_applied() -> None:
    document = World().create()
    document.apply([inc(id=1), inc(id=2)])
    assert statuses(document.apply([inc(id=2), inc(id=3)])) == ["seen", "applied"]
    assert document.get("n") == 3


def test_a_gap_stops_its_client_only_and_names_the_expected_id() -> None:
    document = World().create()
    document.apply([inc(id=1)])
    outcomes = document.apply([inc(id=3), inc(id=4), inc("m", client="bob", id=1), inc(id=2)])
    assert statuses(outcomes) == ["gap", "gap", "applied", "gap"]
    assert [outcome.expected for outcome in outcomes] == [2, 2, None, 2]
    assert document.at().to_dict() == {"n": 1, "m": 1}


def test_another_payload_with_the_last_mutation_id_is_a_mismatch() -> None:
    document = World().create()
    document.apply([inc(id=1, by=1)])
    assert statuses(document.apply([inc(id=1, by=2)])) == ["mismatch"]
    assert statuses(document.apply([inc(id=1, by=1)])) == ["seen"]
    assert document.get("n") == 1


def test_a_mismatch_in_a_large_argument_is_detected() -> None:
    world = World()
    document = world.create()
    document.apply([put("c/a", large("a"), id=1)])
    assert statuses(world.open().apply([put("c/a", large("b"), id=1)])) == ["mismatch"]
    assert statuses(world.open().apply([put("c/a", large("a"), id=1)])) == ["seen"]


def test_a_new_client_that_does_not_start_at_id_1_is_unknown() -> None:
    document = World().create()
    assert statuses(document.apply([inc(id=2)])) == ["unknown-client"]
    assert (document.version, document.last_mutation("ada")) == (0, 0)


def test_a_client_is_bound_to_the_group_and_owner_of_its_first_mutation() -> None:
    document = World().create()
    document.apply([inc(id=1)], group="tab-group", owner="ada@example.org")
    assert statuses(document.apply([inc(id=2)], group="other", owner="ada@example.org")) == ["wrong-group"]
    assert statuses(document.apply([inc(id=2)], group="tab-group", owner="eve@example.org")) == ["wrong-group"]
    assert statuses(document.apply([inc(id=2)], group="tab-group", owner="ada@example.org")) == ["applied"]
    assert document.state().binding("ada") == ("tab-group", "ada@example.org")


def test_a_client_cannot_join_a_group_of_another_owner() -> None:
    world = World()
    document = world.create()
    document.apply([inc(id=1)], group="g", owner="ada")
    assert statuses(document.apply([inc(client="tab", id=1)], group="g", owner="eve")) == ["wrong-group"]
    assert statuses(world.open().apply([inc(client="tab", id=1)], group="g", owner="ada")) == ["applied"]
    assert [*document.state().members("g")] == ["ada", "tab"]


def test_the_members_of_a_group_exclude_members_of_groups_with_a_common_prefix() -> None:
    document = World(snapshot_entries_interval=1).create()
    document.apply([inc(id=1)], group="g/1", owner="ada")
    document.apply([inc(client="1/x", id=1)], group="g", owner="eve")
    assert [*document.state().members("g")] == ["1/x"]
    assert [*document.state().members("g/1")] == ["ada"]


def test_clients_without_a_group_do_not_form_a_group() -> None:
    document = World().create()
    document.apply([inc(id=1)], owner="ada")
    assert statuses(document.apply([inc(client="eve", id=1)], owner="eve")) == ["applied"]
    assert [*document.state().members("")] == []


def test_a_collected_client_is_removed_from_its_group() -> None:
    document = World(snapshot_entries_interval=1).create()
    document.apply([inc(id=1), inc(client="tab", id=1)], group="g")
    document.collect_clients(["tab"])
    assert [*document.state().members("g")] == ["ada"]


def test_late_mutations_of_a_collected_group_have_no_effect() -> None:
    world = World(snapshot_entries_interval=2)
    document = world.create()
    document.apply([inc(id=1)], group="g")
    document.collect_clients(["ada"], ["g"])
    assert statuses(document.apply([inc(id=1)], group="g")) == ["collected"]
    assert statuses(world.open().apply([inc(id=2), inc(id=3)], group="g")) == ["collected", "collected"]
    assert (document.get("n"), document.last_mutation("ada"), document.state().binding("ada")) == (1, 0, None)
    document.apply([inc(client="bob", id=1)], group="h")
    assert document.get("n") == 2
    assert world.open().state().group_collected("g")


def test_a_new_handle_knows_a_client_that_was_collected_and_came_back() -> None:
    world = World()
    document = world.create()
    document.apply([inc(id=1)])
    document.collect_clients(["ada"])
    document.apply([inc(id=1)])
    assert dict(world.open().state().client_ids()) == dict(document.state().client_ids()) == {"ada": 1}


def test_a_stale_handle_answers_seen_and_mismatch_from_a_fresh_head() -> None:
    world = World()
    document, stale = world.create(), world.open()
    stale.apply([inc("other", client="bob")])
    for number in range(1, 6):
        document.apply([inc(id=number)])
    assert statuses(stale.apply([inc(id=1)])) == ["seen"]
    assert statuses(stale.apply([inc(id=5, by=2)])) == ["mismatch"]


def test_a_stale_handle_does_not_report_a_gap_that_was_filled() -> None:
    world = World()
    document, stale = world.create(), world.open()
    stale.apply([inc(id=1)])
    document.apply([inc(id=2)])
    assert statuses(stale.apply([inc(id=3)])) == ["applied"]
    assert stale.get("n") == 3


def test_a_stale_handle_does_not_report_a_client_of_another_handle_as_unknown() -> None:
    world = World()
    document, stale = world.create(), world.open()
    stale.apply([inc("other", client="bob")])
    document.apply([inc(id=1)])
    assert statuses(stale.apply([inc(id=2)])) == ["applied"]


def test_a_rejection_is_committed_with_its_reason_and_uses_its_mutation_id() -> None:
    world = World()
    document = world.create()
    outcomes = document.apply([put("n", "text", id=1), inc(id=2), put("m", 1, id=3)])
    assert statuses(outcomes) == ["applied", "rejected", "applied"]
    assert outcomes[1].reason == "inc needs numbers: key=n"
    reader = world.open()
    assert reader.last_mutation("ada") == 3
    assert [mutation.reason for version in reader.versions() for mutation in version.mutations] == [
        None,
        outcomes[1].reason,
        None,
    ]
    assert statuses(reader.apply([inc(id=2)])) == ["seen"]


def test_a_batch_of_rejections_only_is_a_version() -> None:
    document = World().create()
    [outcome] = document.apply([Mutation(client="local", name="nope")])
    assert (outcome.status, outcome.version) == ("rejected", 1)
    assert document.mutate("put", {"key": "a", "value": 1}).id == 2


def raises(error: Exception) -> Rules:
    def mutator(draft: Draft, args: Any) -> None:
        draft.put("half", "done")
        raise error

    return Rules(mutators={**BUILT_IN_MUTATORS, "bad": mutator})


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Rejected("no room"), "no room"),
        (ValueError("odd"), "ValueError: odd"),
        (KeyError("k"), "KeyError: 'k'"),
        (RecursionError("deep"), "RecursionError: deep"),
        (Invalid("bad input", value=1), "Invalid: bad input value=1"),
        (Rejected("x" * 900), "x" * 500),
    ],
)
def test_an_error_of_the_mutator_itself_is_a_rejection_without_effect(error: Exception, reason: str) -> None:
    document = World().create(rules=raises(error))
    outcome = document.mutate("bad")
    assert (outcome.status, outcome.reason, outcome.id) == ("rejected", reason, 1)
    assert document.at().to_dict() == {}


@pytest.mark.parametrize("error", [Unavailable("u"), OutcomeUnknown("o"), Corrupt("c"), Closed("x")])
def test_a_port_error_passes_through_and_nothing_is_committed(error: StratalogError) -> None:
    world = World()
    world.create()
    document = world.open(rules=raises(error))
    with pytest.raises(type(error)):
        document.apply([put("a", 1), Mutation(client="ada", name="bad")])
    assert (document.version, document.last_mutation("ada")) == (0, 0)


def test_an_unavailable_item_raises_unavailable_instead_of_a_rejection() -> None:
    world = World()
    document = world.create()
    document.apply([put("c/a", large("a"))])

    def refuse(name: str, target: str) -> None:
        if name == "blob get":
            raise Unavailable("no blobs today")

    world.recorder.before = refuse
    with pytest.raises(Unavailable):
        document.mutate("patch", {"key": "c/a", "merge": {"x": 1}})
    world.recorder.before = None
    assert document.version == 1
    assert document.mutate("patch", {"key": "c/a", "merge": {"x": 1}}).status == "applied"


def careless(draft: Draft, args: Any) -> None:
    """Catch every exception, and use a default value if the item cannot be read."""
    try:
        value = draft.get("c/a", {})
        keys = [key for key, _ in draft.scan("c/")]
    except Exception:  # noqa: BLE001 - a careless application does this
        value, keys = {}, []
    draft.put("copy", [value.get("id"), keys])


def test_a_mutator_that_catches_a_port_error_commits_nothing() -> None:
    world = World()
    document = world.create(rules=Rules(mutators={**BUILT_IN_MUTATORS, "careless": careless}))
    document.apply([put("c/a", large("a"))])

    def refuse(name: str, target: str) -> None:
        if name == "blob get":
            raise Unavailable("no blobs today")

    world.recorder.before = refuse
    with pytest.raises(Unavailable):
        document.mutate("careless")
    world.recorder.before = None
    assert document.version == 1
    assert document.mutate("careless").status == "applied"
    assert document.get("copy") == ["a", ["c/a"]]


def many(draft: Draft, args: Any) -> None:
    """Put ``value`` under each of ``count`` keys that begin with ``prefix``."""
    for number in range(args["count"]):
        draft.put(f"{args['prefix']}{number}", args["value"])


@pytest.mark.parametrize(
    ("prefix", "value"), [("c/", "x" * 1000), ("c/" + "漢" * 160, "x" * 500)], ids=["values", "keys"]
)
def test_a_mutation_with_a_too_large_patch_is_rejected_and_the_rest_of_the_batch_is_applied(
    monkeypatch: pytest.MonkeyPatch, prefix: str, value: str
) -> None:
    monkeypatch.setattr("stratalog.documents.run.PATCH_BYTES_MAX", 50_000)
    document = World().create(rules=Rules(mutators={**BUILT_IN_MUTATORS, "many": many}))
    many_of = [{"count": count, "prefix": prefix, "value": value} for count in (45, 55, 1)]
    outcomes = document.apply([Mutation(client="ada", name="many", args=args) for args in many_of])
    assert statuses(outcomes) == ["applied", "rejected", "applied"]
    assert "changes too much at once" in str(outcomes[1].reason)


def test_a_put_equal_to_the_present_value_is_not_part_of_the_patch() -> None:
    document = World().create()
    document.apply([put("a", 1), put("c/b", large("b"))])
    document.apply([put("a", 1.0), put("c/b", large("b")), put("z", 1)])
    document.apply([put("z", 2), put("z", 1)])
    assert [version.changed for version in document.versions()] == [("a", "c/b"), ("z",), ()]
    assert [change.version for change in document.history("c/b")] == [1]


def test_deleting_a_missing_key_changes_nothing() -> None:
    document = World().create()
    document.apply([put("a", 1), Mutation(client="ada", name="del", args={"key": "a"})])
    document.mutate("del", {"key": "b"})
    assert [(version.changed, version.deleted) for version in document.versions()] == [((), ()), ((), ())]


def test_an_item_with_a_damaged_value_can_be_deleted() -> None:
    world = World()
    world.create().apply([put("c/a", large("a")), put("c/b", large("b"))])

    def damaged(name: str, target: str) -> None:
        if name == "blob get":
            raise Corrupt("the blob is not what was put", key=target)

    world.recorder.before = damaged
    document = world.open()
    assert statuses(document.apply([Mutation(client="bob", name="del", args={"key": "c/a"})])) == ["applied"]
    assert [item.key for item in document.at().list("c/")] == ["c/b"]
    with pytest.raises(Corrupt):
        document.get("c/b")


def test_a_mutation_that_exceeds_the_total_size_limit_of_fields_is_rejected() -> None:
    document = World().create()
    size = DOCUMENT_FIELDS_BYTES_MAX // 5
    outcomes = document.apply([put(f"field{n}", "x" * size) for n in range(6)])
    assert statuses(outcomes) == ["applied"] * 4 + ["rejected"] * 2
    assert "fields are too large" in str(outcomes[4].reason)
    outcomes = document.apply([put("field0", ""), put("field4", "x" * size), put("c/item", "x" * 50_000)])
    assert statuses(outcomes) == ["applied"] * 3


def test_the_size_of_the_fields_survives_snapshots_and_other_processes() -> None:
    world = World(snapshot_entries_interval=2)
    document = world.create()
    for n in range(5):
        document.apply([put("a", "x" * n), put(f"f{n % 2}", n), Mutation(client="ada", name="del", args={"key": "f0"})])
    expected = sum(len(key) + len(slot.value) for key, slot in document.state().scan() if "/" not in key)
    assert world.open().state().fields_bytes == document.state().fields_bytes == expected


def test_large_value_and_large_argument_share_one_blob() -> None:
    world = World()
    document = world.create()
    document.apply([put("c/a", large("a"))])
    assert len(world.blob_keys()) == 1
    assert "/items/c/" in world.blob_keys()[0]
    (version,) = world.open().versions()
    assert version.mutations[0].args == {"key": "c/a", "value": large("a")}


def test_a_large_argument_that_is_not_the_value_of_an_item_has_a_blob_of_its_own() -> None:
    world = World()
    document = world.create()
    document.apply([Mutation(client="ada", name="nope", args={"text": "y" * 5000, "small": 1})])
    document.apply([Mutation(client="ada", name="nope", args="z" * 5000)])
    document.apply([Mutation(client="ada", name="nope", args=["w" * 600, "w" * 600])])
    assert len(world.blob_keys("/arguments/")) == len(world.blob_keys()) == 3
    assert [version.mutations[0].args for version in world.open().versions()] == [
        {"text": "y" * 5000, "small": 1},
        "z" * 5000,
        ["w" * 600, "w" * 600],
    ]


def copy(draft: Draft, args: Any) -> None:
    draft.put(args["to"], draft.get(args["of"]))


def test_a_copied_item_refers_to_the_same_blob() -> None:
    world = World()
    document = world.create(rules=Rules(mutators={**BUILT_IN_MUTATORS, "copy": copy}))
    document.apply([put("c/a", large("a"))])
    document.apply([Mutation(client="ada", name="copy", args={"of": "c/a", "to": "c/b"})])
    assert len(world.blob_keys("/items/")) == 1
    assert document.get("c/b") == large("a")


def test_the_body_of_an_item_is_put_before_its_entry_is_committed() -> None:
    world = World()
    document = world.create()
    document.apply([put("a", 1)])
    calls = world.watched()
    document.apply([put("c/a", large("a"))])
    assert [name for name, _ in calls.calls] == ["blob put", "commit"]


def test_a_steady_writer_makes_one_write_and_no_read() -> None:
    world = World()
    document = world.create()
    document.apply([inc()])
    calls = world.watched()
    document.apply([inc()])
    assert [name for name, _ in calls.calls] == ["commit"]
    assert [type(write) for write in world.index.commits[-1]] == [Put, Check]


def slow_commit(world: World) -> Callable[[str, str], None]:
    def dawdle(name: str, target: str) -> None:
        if name == "commit":
            world.clock.sleep(GRACE_SECONDS * 0.6)
            world.recorder.after = None
            world.recorder.before = refuse

    def refuse(name: str, target: str) -> None:
        if name == "blob put":
            raise Unavailable("no blobs any more")

    return dawdle


def test_a_commit_whose_blobs_cannot_be_put_again_raises_outcome_unknown() -> None:
    world = World()
    document = world.create()
    document.apply([inc()])
    world.recorder.after = slow_commit(world)
    with pytest.raises(OutcomeUnknown):
        document.apply([put("c/a", large("a"), id=2)])
    world.recorder.before = None
    assert statuses(document.apply([put("c/a", large("a"), id=2)])) == ["seen"]


def test_a_batch_whose_answer_is_lost_is_applied_once() -> None:
    world = World()
    document = world.create()
    document.apply([inc(id=1)])

    def lose(name: str, target: str) -> None:
        world.recorder.after = None
        raise OutcomeUnknown("lost")

    world.recorder.after = lose
    assert statuses(document.apply([inc(id=2)])) == ["applied"]
    assert (document.get("n"), document.version) == (2, 2)


def test_alternating_commits_of_two_handles_rerun_mutators_on_the_new_state() -> None:
    world = World()
    first, second = world.create(), world.open()
    for number in range(1, 11):
        assert statuses(first.apply([inc(client="one", id=number)])) == ["applied"]
        assert statuses(second.apply([inc(client="other", id=number)])) == ["applied"]
    assert first.get("n") == second.get("n") == 20
    assert world.environment.counters["conflict"] > 0


@pytest.mark.parametrize(
    ("mutation", "error"),
    [
        (put("a", float("nan")), Invalid),
        (put("a", 2**53), Invalid),
        (put("a", "\ud800"), Invalid),
        (put("a", object()), Invalid),
        (put("a", {1: 2}), Invalid),
        (Mutation(client="", name="put"), Invalid),
        (Mutation(client="\0b/x", name="put"), Invalid),
        (Mutation(client="c" * 129, name="put"), LimitExceeded),
        (Mutation(client="ada", name=""), Invalid),
        (Mutation(client="ada", name="n" * 129), LimitExceeded),
        (Mutation(client="ada", name="put", id=-1), Invalid),
        (Mutation(client="ada", name="put", id=2**53), Invalid),
        (Mutation(client="ada", name="put", id=True), Invalid),
        (Mutation(client="ada", name="put", id=1.0), Invalid),  # type: ignore[arg-type]
        (Mutation(client=5, name="put"), Invalid),  # type: ignore[arg-type]
        (Mutation(client="\udc00", name="put"), Invalid),
        (Mutation(client="ada", name="put", origin=("", 1)), Invalid),
        (Mutation(client="ada", name="put", origin=("c" * 129, 1)), LimitExceeded),
        (Mutation(client="ada", name="put", origin=("bob", -1)), Invalid),
        (Mutation(client="ada", name="put", origin="bob"), Invalid),  # type: ignore[arg-type]
    ],
)
def test_an_invalid_mutation_is_refused_and_nothing_is_written(mutation: Mutation, error: type) -> None:
    document = World().create()
    with pytest.raises(error):
        document.apply([put("ok", 1), mutation])
    assert document.version == 0


@pytest.mark.parametrize(
    ("identity", "error"), [("g" * 129, LimitExceeded), ("\0g", Invalid), ("\ud800", Invalid), (7, Invalid)]
)
def test_an_invalid_group_owner_or_client_is_refused(identity: Any, error: type) -> None:
    document = World(snapshot_entries_interval=1).create()
    calls: list[Callable[[], object]] = [
        lambda: document.apply([inc()], group=identity),
        lambda: document.apply([inc()], owner=identity),
        lambda: document.collect_clients([identity]),
        lambda: document.collect_clients(["ada"], [identity]),
    ]
    for call in calls:
        with pytest.raises(error):
            call()
    assert document.version == 0


def test_clients_without_a_group_cannot_be_collected_as_a_group() -> None:
    document = World().create()
    with pytest.raises(Invalid):
        document.collect_clients(["ada"], [""])
    assert statuses(document.apply([inc(id=1)])) == ["applied"]


def test_a_mutation_id_repeated_in_a_batch_is_applied_once() -> None:
    document = World().create()
    outcomes = document.apply([inc(id=1), inc(id=1), inc(id=1, by=5), inc(id=2)])
    assert statuses(outcomes) == ["applied", "seen", "mismatch", "applied"]
    assert document.get("n") == 2


def test_arguments_that_are_too_deep_are_refused() -> None:
    value: Any = 1
    for _ in range(64):
        value = [value]
    with pytest.raises(LimitExceeded):
        World().create().apply([put("a", value)])


def test_too_many_mutations_are_refused() -> None:
    document = World().create()
    with pytest.raises(LimitExceeded):
        document.apply([inc()] * (MUTATIONS_PER_BATCH_MAX + 1))
    assert document.apply([]) == []


@pytest.mark.parametrize("key", ["", "\0b/ada", "/item", "k" * 513, "\ud800", 7, None, "%" * 100 + "/item"])
def test_a_put_with_an_invalid_key_is_rejected_and_a_get_of_the_key_raises(key: Any) -> None:
    document = World().create()
    if key == "\ud800":
        with pytest.raises(Invalid):
            document.mutate("put", {"key": key, "value": 1})
    else:
        assert document.mutate("put", {"key": key, "value": 1}).status == "rejected"
    with pytest.raises((Invalid, LimitExceeded)):
        document.get(key)


@pytest.mark.parametrize("version", [-1, 1.0, "1", True])
def test_a_version_must_be_a_whole_number(version: Any) -> None:
    with pytest.raises(Invalid):
        World().create().at(version)


def test_reading_and_changing_a_deleted_document_raises_not_found() -> None:
    world = World()
    document, stale = world.create(), world.open()
    stale.apply([inc()])
    delete_log(document.log)
    for call in (stale.at, lambda: stale.apply([inc()]), lambda: document.get("n")):
        with pytest.raises(NotFound):
            call()
    again = world.create()
    assert (again.at().to_dict(), again.version) == ({}, 0)


def test_a_recreated_document_has_a_new_incarnation() -> None:
    world = World()
    first: Document = world.create()
    delete_log(first.log)
    assert world.create().log.record.incarnation != first.log.record.incarnation


def test_a_reader_does_not_wait_for_a_commit() -> None:
    world = World()
    document = world.create()
    document.apply([inc(id=1)])
    seen: list[Any] = []

    def read_beside(*_: Any) -> None:
        world.recorder.before = None
        reader = threading.Thread(target=lambda: seen.append(document.get("n")), daemon=True)
        reader.start()
        reader.join(SECONDS_MAX)

    world.recorder.before = read_beside
    document.apply([inc(id=2)])
    assert (seen, document.get("n")) == ([1], 2)


def test_concurrent_readers_see_only_complete_versions_in_ascending_order() -> None:
    document = World(snapshot_entries_interval=5).create()
    stopped = threading.Event()
    seen: list[set[int]] = [set(), set(), set()]
    wrong: list[Any] = []

    def read(versions: set[int]) -> None:
        last = 0
        while not stopped.is_set():
            view = document.at()
            if not (view.version >= last and view.get("a/n", 0) == view.get("b/n", 0) == view.version):
                wrong.append((last, view.version, view.to_dict()))
            last = view.version
            versions.add(last)

    readers = [threading.Thread(target=read, args=(versions,), daemon=True) for versions in seen]
    try:
        for reader in readers:
            reader.start()
        id = 0
        # On a slow machine a reader may get no processor for a while. So the writer goes on until each reader has seen
        # three versions.
        while id < 200 or (min(map(len, seen)) < 3 and all(reader.is_alive() for reader in readers)):
            id += 1
            document.apply([inc("a/n", id=2 * id - 1), inc("b/n", id=2 * id)])
    finally:
        stopped.set()
    for reader in readers:
        reader.join(SECONDS_MAX)
        assert not reader.is_alive()
    assert wrong == []
    assert min(map(len, seen)) >= 3
