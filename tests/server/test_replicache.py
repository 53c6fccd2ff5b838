"""The protocol of Replicache, as its client reads the answers. After any status but 200, the client sends again."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from stratalog.documents import Document
from stratalog.errors import Forbidden, Invalid
from stratalog.log import delete_log
from stratalog.protocol import Mutation, Outcome
from stratalog.protocol.sync import Cookie, Pull, Push, Pushed
from stratalog.sync.replicache import ReplicacheAnswer, answer_push, read_pull, read_push
from tests.documents.helpers import World
from tests.server.helpers import pull_replicache, push_replicache

NOT_FOUND = ReplicacheAnswer(200, {"error": "ClientStateNotFound"})


def mutation(id: int, name: str = "inc", args: Any = None, client: str = "c1") -> dict[str, Any]:
    arguments = {"key": "n"} if args is None else args
    return {"clientID": client, "id": id, "name": name, "args": arguments, "timestamp": 12.5}


def push_body(*mutations: dict[str, Any], group: str = "g", version: Any = 1) -> dict[str, Any]:
    return {
        "pushVersion": version,
        "profileID": "p",
        "clientGroupID": group,
        "schemaVersion": "",
        "mutations": list(mutations),
    }


def pull_body(cookie: Any = None, group: str = "g", version: Any = 1) -> dict[str, Any]:
    return {"pullVersion": version, "profileID": "p", "clientGroupID": group, "schemaVersion": "", "cookie": cookie}


def pulled(document: Document, cookie: Any = None, group: str = "g", owner: str = "") -> dict[str, Any]:
    """Return the body of a pull's response, as the client reads it."""
    answer = pull_replicache(document, pull_body(cookie, group), owner)
    assert answer.status == 200
    return json.loads(msgspec.json.encode(answer.body))  # type: ignore[no-any-return]


def test_a_push_that_was_applied_is_answered_200() -> None:
    document = World().create()
    assert push_replicache(document, push_body(mutation(1), mutation(2))) == ReplicacheAnswer(200, {})
    assert document.get("n") == 2


def test_a_rejected_or_unknown_mutation_is_answered_200_and_advances_its_client() -> None:
    document = World().create()
    body = push_body(mutation(1, "no such"), mutation(2, args={"key": "n", "by": "x"}), mutation(3))
    assert push_replicache(document, body) == ReplicacheAnswer(200, {})
    assert pulled(document)["lastMutationIDChanges"] == {"c1": 3}
    assert document.get("n") == 1


def test_a_push_with_a_gap_commits_the_mutations_before_it_and_is_answered_409() -> None:
    document = World().create()
    answer = push_replicache(document, push_body(mutation(1), mutation(3)))
    assert answer.status == 409
    assert "expected=2" in answer.body["message"]
    assert document.get("n") == 1


def test_a_repeated_push_is_answered_200() -> None:
    document = World().create()
    body = push_body(mutation(1), mutation(2))
    assert [push_replicache(document, body).status for _ in range(3)] == [200] * 3
    assert document.get("n") == 2


def test_another_payload_under_the_last_committed_number_is_a_conflict() -> None:
    document = World().create()
    push_replicache(document, push_body(mutation(1)))
    assert push_replicache(document, push_body(mutation(1, args={"key": "other"}))).status == 409


def test_a_push_of_an_unknown_client_above_number_1_is_answered_409() -> None:
    answer = push_replicache(World().create(), push_body(mutation(5)))
    assert answer.status == 409
    assert "a pull comes first" in answer.body["message"]


def test_a_client_that_pushed_to_a_document_before_its_recreation_is_answered_client_state_not_found() -> None:
    world = World()
    document = world.create()
    push_replicache(document, push_body(mutation(1)))
    cookie = pulled(document)["cookie"]
    delete_log(document.log)
    heir = world.create()
    assert pull_replicache(heir, pull_body(cookie)) == NOT_FOUND
    assert pulled(heir, cookie, group="next")["patch"] == [{"op": "clear"}]


def test_a_client_that_only_pulled_a_deleted_document_gets_the_recreated_document() -> None:
    world = World()
    document = world.create()
    cookie = pulled(document)["cookie"]
    delete_log(document.log)
    assert pulled(world.create(), cookie)["patch"] == [{"op": "clear"}]


def test_a_collected_group_is_answered_client_state_not_found_on_push_and_pull() -> None:
    document = World().create()
    push_replicache(document, push_body(mutation(1)))
    cookie = pulled(document)["cookie"]
    document.collect_clients(["c1"], ["g"])
    assert push_replicache(document, push_body(mutation(2))) == NOT_FOUND
    assert pull_replicache(document, pull_body(cookie)) == NOT_FOUND
    assert pull_replicache(document, pull_body(None)) == NOT_FOUND


def test_a_new_group_can_pull_with_the_cookie_of_a_collected_group() -> None:
    document = World().create()
    push_replicache(document, push_body(mutation(1)))
    cookie = pulled(document)["cookie"]
    document.collect_clients(["c1"], ["g"])
    answer = pulled(document, cookie, group="next")
    assert answer["patch"] == []
    assert answer["cookie"]["order"] > cookie["order"]


def test_a_client_of_another_principal_or_group_is_forbidden() -> None:
    document = World().create()
    push_replicache(document, push_body(mutation(1)), owner="eve")
    assert push_replicache(document, push_body(mutation(2)), owner="mallory").status == 403
    assert push_replicache(document, push_body(mutation(2), group="other"), owner="eve").status == 403
    with pytest.raises(Forbidden):
        pull_replicache(document, pull_body(), owner="mallory")
    assert document.get("n") == 1


def test_a_queued_push_is_answered_200() -> None:
    assert answer_push(Pushed([], queued=True)) == ReplicacheAnswer(200, {})


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (["applied", "seen", "rejected"], 200),
        (["applied", "gap"], 409),
        (["applied", "mismatch"], 409),
        (["gap", "wrong-group"], 403),
        (["unknown-client"], 409),
        (["unknown-client", "wrong-group"], 403),
        (["gap", "collected"], 200),
    ],
)
def test_the_worst_outcome_of_a_push_determines_the_status(statuses: list[Any], status: int) -> None:
    outcomes = [Outcome(client="c", id=id, status=outcome) for id, outcome in enumerate(statuses, 1)]
    assert answer_push(Pushed(outcomes)).status == status


def test_the_first_pull_has_a_clear_then_puts_and_a_cookie_with_a_numeric_order() -> None:
    document = World().create()
    push_replicache(document, push_body(mutation(1, "put", {"key": "c/a", "value": {"x": [1, None, "é"]}})))
    assert pulled(document) == {
        "cookie": {
            "order": 1,
            "origin": document.origin,
            "version": 1,
            "hash": document.log.hash_at(1).hex(),
            "group": "g",
            "last": {"c1": 1},
        },
        "lastMutationIDChanges": {"c1": 1},
        "patch": [{"op": "clear"}, {"op": "put", "key": "c/a", "value": {"x": [1, None, "é"]}}],
    }


def test_a_pull_returns_deleted_keys() -> None:
    document = World().create()
    push_replicache(document, push_body(mutation(1)))
    cookie = pulled(document)["cookie"]
    push_replicache(document, push_body(mutation(2, "del", {"key": "n"})))
    assert pulled(document, cookie)["patch"] == [{"op": "del", "key": "n"}]


def test_a_pull_without_changes_returns_the_cookie_of_the_request() -> None:
    document = World().create()
    push_replicache(document, push_body(mutation(1)))
    cookie = pulled(document)["cookie"]
    assert pulled(document, cookie) == {"cookie": cookie, "lastMutationIDChanges": {}, "patch": []}


def test_a_rejected_mutation_moves_the_cookie_although_the_patch_is_empty() -> None:
    document = World().create()
    cookie = pulled(document)["cookie"]
    push_replicache(document, push_body(mutation(1, "no such")))
    answer = pulled(document, cookie)
    assert answer["cookie"]["order"] == cookie["order"] + 1
    assert (answer["patch"], answer["lastMutationIDChanges"]) == ([], {"c1": 1})


@pytest.mark.parametrize("cookie", [7, 7.9, {"order": 7, "epoch": "x"}, {"order": 7.2}, -3, 0])
def test_the_order_exceeds_the_cookie_of_another_backend(cookie: Any) -> None:
    document = World().create()
    answer = pulled(document, cookie)
    assert answer["cookie"]["order"] > (cookie["order"] if isinstance(cookie, dict) else cookie)
    assert answer["patch"] == [{"op": "clear"}]


@pytest.mark.parametrize("cookie", ["7", {"order": "7"}, {}, [], True, 1e300, 2**53])
def test_a_cookie_without_a_numeric_order_that_can_be_exceeded_is_refused(cookie: Any) -> None:
    with pytest.raises(Invalid):
        pull_replicache(World().create(), pull_body(cookie))


@pytest.mark.parametrize("version", [0, 2, None, "1"])
def test_an_unsupported_protocol_version_is_answered_version_not_supported(version: Any) -> None:
    document = World().create()
    push_answer = push_replicache(document, push_body(version=version))
    assert push_answer == ReplicacheAnswer(200, {"error": "VersionNotSupported", "versionType": "push"})
    pull_answer = pull_replicache(document, pull_body(version=version))
    assert pull_answer == ReplicacheAnswer(200, {"error": "VersionNotSupported", "versionType": "pull"})


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {"pushVersion": 1},
        {"pushVersion": 1, "clientGroupID": 5, "mutations": []},
        {"pushVersion": 1, "clientGroupID": "g", "mutations": [{"clientID": "c"}]},
        {"pushVersion": 1, "clientGroupID": "g", "mutations": {}},
    ],
)
def test_a_push_body_that_does_not_match_the_schema_is_refused(body: Any) -> None:
    with pytest.raises(Invalid):
        push_replicache(World().create(), body)


def test_push_and_pull_bodies_are_read_into_requests() -> None:
    assert read_push(push_body(mutation(1))) == Push("g", [Mutation(client="c1", id=1, name="inc", args={"key": "n"})])
    assert read_pull(pull_body({"order": 3, "origin": "i", "version": 2})) == Pull("g", Cookie(3, "i", 2))


def test_arguments_that_were_left_out_are_null() -> None:
    body = push_body({"clientID": "c1", "id": 1, "name": "inc"})
    assert read_push(body) == Push("g", [Mutation(client="c1", id=1, name="inc")])


def test_an_integer_beyond_the_safe_integers_of_javascript_is_stored_as_a_double() -> None:
    """JavaScript writes 2 ** 60 with all its digits. The store accepts no integer of this size."""
    document = World().create()
    body = json.loads(json.dumps(push_body(mutation(1, "put", {"key": "n", "value": [2**60, {"x": -(2**70)}]}))))
    assert push_replicache(document, body) == ReplicacheAnswer(200, {})
    assert document.get("n") == [2.0**60, {"x": -(2.0**70)}]


def test_a_mutation_that_cannot_be_stored_blocks_nobody() -> None:
    document = World().create()
    deep: Any = 1
    for _ in range(70):
        deep = [deep]
    body = push_body(mutation(1, "put", {"key": "n", "value": deep}), mutation(2))
    assert push_replicache(document, body) == ReplicacheAnswer(200, {})
    assert pulled(document)["lastMutationIDChanges"] == {"c1": 2}


def test_bytes_are_sent_as_base64_text() -> None:
    document = World().create()
    document.mutate("put", {"key": "b", "value": b"\x00\xff"})
    assert pulled(document)["patch"][1] == {"op": "put", "key": "b", "value": "AP8="}
