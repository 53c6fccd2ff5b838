"""Push: the server applies mutations in order and once, and binds a client to its first principal.

A mutation that the server cannot apply blocks no later mutation.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stratalog.client.sync_cycle import NOTHING_COMMITTED
from stratalog.documents import Document, Rules
from stratalog.errors import (
    BY_CODE,
    Forbidden,
    Invalid,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    QueueFull,
    Unavailable,
    Unsupported,
)
from stratalog.limits import CLIENT_ID_BYTES_MAX, INTEGER_MAX, MUTATIONS_PER_BATCH_MAX
from stratalog.log import delete_log
from stratalog.protocol import BUILT_IN_MUTATORS, Draft, Mutation
from stratalog.protocol.messages import UNSTORABLE
from stratalog.protocol.sync import Push, Pushed
from stratalog.sync.push import denies_commit, push, reject
from tests.documents.helpers import World, inc, put, statuses


def pushed(document: Document, *mutations: Mutation, group: str = "g", owner: str = "eve") -> Pushed:
    return push(document, Push(group, list(mutations)), owner)


def incs(first: int, last: int, client: str = "ada") -> list[Mutation]:
    return [inc(client=client, id=id) for id in range(first, last + 1)]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_push_is_one_entry_with_its_outcomes_in_order() -> None:
    document = World().create()
    answer = pushed(document, *incs(1, 2), put("c/a", 1, client="bob", id=1), inc(by="x", id=3))  # type: ignore[arg-type]
    assert [(outcome.client, outcome.id, outcome.status, outcome.version) for outcome in answer.outcomes] == [
        ("ada", 1, "applied", 1),
        ("ada", 2, "applied", 1),
        ("bob", 1, "applied", 1),
        ("ada", 3, "rejected", 1),
    ]
    assert document.at().to_dict() == {"c/a": 1, "n": 2}
    assert not answer.queued


def test_an_empty_push_changes_nothing() -> None:
    document = World().create()
    assert pushed(document).outcomes == []
    assert document.version == 0


def test_the_entry_stores_the_author() -> None:
    document = World().create()
    push(document, Push("g", incs(1, 1)), "eve", author="Eve Example")
    assert [version.author for version in document.versions()] == ["Eve Example"]


def test_a_repeated_mutation_is_seen() -> None:
    document = World().create()
    pushed(document, *incs(1, 3))
    assert statuses(pushed(document, *incs(2, 4)).outcomes) == ["seen", "seen", "applied"]
    assert document.get("n") == 4


def test_a_gap_stops_only_the_mutations_of_its_client() -> None:
    document = World().create()
    answer = pushed(document, inc(id=1), inc(id=3), inc(id=4), inc(client="bob", id=1))
    assert [(outcome.status, outcome.expected) for outcome in answer.outcomes] == [
        ("applied", None),
        ("gap", 2),
        ("gap", 2),
        ("applied", None),
    ]
    assert document.get("n") == 2


def test_a_mutation_without_a_number_is_refused_before_anything_is_applied() -> None:
    document = World().create()
    with pytest.raises(Invalid, match="must be an integer from 1 to"):
        pushed(document, inc(id=1), inc(id=0))
    assert document.version == 0


@pytest.mark.parametrize("id", [-1, True, INTEGER_MAX + 1, 1.0])
def test_an_invalid_mutation_number_is_refused(id: Any) -> None:
    with pytest.raises(Invalid, match="must be an integer from 1 to"):
        pushed(World().create(), inc(id=id))


def test_an_invalid_client_or_group_is_refused_before_anything_is_applied() -> None:
    document = World().create()
    with pytest.raises(LimitExceeded):
        pushed(document, inc(id=1), inc(client="c" * (CLIENT_ID_BYTES_MAX + 1), id=1))
    with pytest.raises(Invalid):
        pushed(document, inc(id=1), group="")
    assert document.version == 0


def test_the_origin_in_a_pushed_mutation_is_ignored() -> None:
    document = World().create()
    pushed(document, msgspec.structs.replace(inc(id=1), origin=("eve", 7)))
    (version,) = document.versions()
    assert [mutation.origin for mutation in version.mutations] == [None]


def test_a_large_push_is_cut_into_batches() -> None:
    document = World().create()
    answer = pushed(document, *incs(1, MUTATIONS_PER_BATCH_MAX + 1))
    assert statuses(answer.outcomes) == ["applied"] * (MUTATIONS_PER_BATCH_MAX + 1)
    assert document.version == 2


def test_a_push_that_fails_part_way_leaves_its_beginning_applied() -> None:
    world = World(append_seconds_max=0)
    document = world.create()

    def fail(name: str, target: str) -> None:
        if name == "commit" and document.log.known_head().version == 1:  # type: ignore[union-attr]
            raise Unavailable("the index is away")

    world.recorder.before = fail
    with pytest.raises(Unavailable):
        pushed(document, *incs(1, MUTATIONS_PER_BATCH_MAX + 1))
    world.recorder.before = None
    assert document.last_mutation("ada") == MUTATIONS_PER_BATCH_MAX
    assert pushed(document, *incs(1, MUTATIONS_PER_BATCH_MAX + 1)).outcomes[-1].status == "applied"


@pytest.mark.parametrize(
    "poison",
    [
        Mutation(client="ada", id=2, name="put", args={"key": "n", "value": nested(70)}),
        Mutation(client="ada", id=2, name="put", args={"key": "n", "value": "\ud800"}),
        Mutation(client="ada", id=2, name="put", args={"key": "n", "value": 2**60}),
        Mutation(client="ada", id=2, name="x" * 200, args=None),
        Mutation(client="ada", id=2, name="", args=None),
    ],
    ids=["too deep", "a lone surrogate", "too large an integer", "too long a name", "no name"],
)
def test_a_mutation_that_cannot_be_stored_is_rejected_and_blocks_nobody(poison: Mutation) -> None:
    document = World().create()
    answer = pushed(document, inc(id=1), poison, inc(id=3), inc(client="bob", id=1))
    assert statuses(answer.outcomes) == ["applied", "rejected", "applied", "applied"]
    assert [(item.client, item.id) for item in answer.outcomes] == [("ada", 1), ("ada", 2), ("ada", 3), ("bob", 1)]
    assert document.get("n") == 3
    (recorded,) = [item for version in document.versions() for item in version.mutations if item.reason]
    assert (recorded.name, recorded.id, recorded.reason) == (UNSTORABLE, 2, answer.outcomes[1].reason)


def test_a_mutation_that_keeps_failing_is_committed_as_rejected_under_its_own_name() -> None:
    document = World().create()
    pushed(document, inc(id=1))
    outcome = reject(document, inc(id=2), "it failed 7 times", group="g", owner="eve")
    assert (outcome.status, outcome.reason) == ("rejected", "it failed 7 times")
    assert statuses(pushed(document, inc(id=2), inc(id=3)).outcomes) == ["seen", "applied"]
    assert document.get("n") == 2
    assert [mutation.name for version in document.versions() for mutation in version.mutations if mutation.reason] == [
        "inc"
    ]


def test_reject_commits_nothing_for_a_seen_mutation_or_a_gap() -> None:
    document = World().create()
    pushed(document, inc(id=1))
    rejected_statuses = [reject(document, inc(id=id), "why", group="g", owner="eve").status for id in (1, 3)]
    assert rejected_statuses == ["seen", "gap"]
    assert document.version == 1


def test_a_push_too_large_for_a_single_entry_is_committed_as_several_entries() -> None:
    def fill(draft: Draft, args: Any) -> None:
        for position in range(7000):
            draft.put(f"{args}/{position}", "x" * 1000)

    document = World().create(rules=Rules({**BUILT_IN_MUTATORS, "fill": fill}))
    batch = [Mutation(client="ada", id=id, name="fill", args=f"c{id}") for id in range(1, 11)]
    assert statuses(pushed(document, *batch).outcomes) == ["applied"] * 10
    assert document.version > 1
    assert document.last_mutation("ada") == 10


@pytest.mark.parametrize("count", [10, MUTATIONS_PER_BATCH_MAX + 1], ids=["halves_of_a_batch", "batches"])
def test_a_push_that_is_refused_after_a_commit_has_an_unknown_outcome(count: int) -> None:
    def fill(draft: Draft, args: Any) -> None:
        for position in range(7000 if count == 10 else 1):
            draft.put(f"{args}/{position}", "x" * 1000)
        if args == count and document.version:
            delete_log(document.log)

    document = World().create(rules=Rules({"fill": fill}))
    batch = [Mutation(client="ada", id=id, name="fill", args=id) for id in range(1, count + 1)]
    with pytest.raises(OutcomeUnknown, match="the first mutations of the push were committed, but"):
        pushed(document, *batch)
    with pytest.raises(NotFound):
        pushed(document, *batch)


def test_each_error_after_which_a_client_may_renumber_its_mutations_denies_a_commit() -> None:
    kinds = [kind for kind in BY_CODE.values() if issubclass(kind, NOTHING_COMMITTED)]
    assert {Forbidden, NotFound, Unsupported} <= set(kinds)
    assert all(denies_commit(kind("refused")) for kind in [*kinds, QueueFull])


def test_a_client_of_another_owner_is_refused() -> None:
    document = World().create()
    pushed(document, inc(id=1))
    assert statuses(pushed(document, inc(id=2), owner="mallory").outcomes) == ["wrong-group"]
    assert document.last_mutation("ada") == 1


def test_a_client_of_another_group_is_refused() -> None:
    document = World().create()
    pushed(document, inc(id=1))
    assert statuses(pushed(document, inc(id=2), group="other").outcomes) == ["wrong-group"]


def test_a_principal_cannot_add_a_client_to_another_principal_s_group() -> None:
    document = World().create()
    pushed(document, inc(id=1))
    answer = pushed(document, inc(client="guest", id=1), owner="mallory")
    assert statuses(answer.outcomes) == ["wrong-group"]
    assert document.last_mutation("guest") == 0


def test_a_push_of_a_collected_group_has_the_outcome_collected() -> None:
    document = World().create()
    pushed(document, inc(id=1))
    document.collect_clients(["ada"], ["g"])
    assert statuses(pushed(document, inc(id=2), inc(client="tab", id=1)).outcomes) == ["collected", "collected"]
    assert document.get("n") == 1


def test_a_push_for_a_deleted_document_does_not_change_the_recreated_document() -> None:
    world = World()
    document = world.create()
    request = Push("g", incs(1, 2), document.origin)
    assert statuses(push(document, request).outcomes) == ["applied", "applied"]
    delete_log(document.log)
    heir = world.create()
    assert statuses(push(heir, request).outcomes) == ["unknown-client", "unknown-client"]
    assert heir.version == 0


def test_a_second_push_reads_nothing_from_the_store() -> None:
    world = World()
    document = world.create()
    pushed(document, inc(id=1))
    calls = world.watched().calls
    pushed(document, inc(id=2))
    assert [name for name, _ in calls] == ["commit"]


def test_a_group_belongs_to_the_first_of_two_concurrent_pushes() -> None:
    world = World()
    document = world.create()

    def forestall(name: str, target: str) -> None:
        if name == "commit":
            world.recorder.before = None
            assert statuses(pushed(world.open(), inc(client="tab", id=1), owner="eve").outcomes) == ["applied"]

    world.recorder.before = forestall
    assert statuses(pushed(document, inc(id=1), owner="ada").outcomes) == ["wrong-group"]
    assert [*document.state().members("g")] == ["tab"]
