"""Documents over HTTP: create, change, query, fork and delete them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from litestar.testing import TestClient

from stratalog.documents import Document
from stratalog.protocol import Mutation
from stratalog.protocol.sync import Push, Pushed
from stratalog.server.app import create_app
from stratalog.server.application import Application
from stratalog.store import open_store
from tests.server.api import BUDGET, HOST, Client, mutation, problem, push, serving

MSGPACK = "application/msgpack"


def test_a_first_put_creates_a_document_and_a_second_put_returns_it(client: Client) -> None:
    made = client.put(BUDGET)
    again = client.put(BUDGET)
    assert (made.status_code, again.status_code) == (201, 200)
    assert made.json() == again.json()
    assert made.json()["version"] == 0


def test_a_name_may_hold_a_slash_and_a_percent_sign(client: Client) -> None:
    path = "/v1/organisations/acme/documents/plans%2F100%25"
    assert client.put(path).json()["document"] == "plans/100%"
    assert client.get(path).status_code == 200
    assert problem(client.get("/v1/organisations/acme/documents/%FF")) == (400, "invalid")


def test_a_document_is_shown_and_listed(budget: Client) -> None:
    assert budget.get(BUDGET).json()["version"] == 3
    listed = budget.get("/v1/organisations/acme").json()
    assert [item["id"] for item in listed["items"]] == ["budget"]
    assert listed["next"] is None


def test_a_list_comes_by_pages(client: Client) -> None:
    for name in "abc":
        client.put(f"/v1/organisations/acme/documents/{name}")
    first = client.get("/v1/organisations/acme?limit=2").json()
    rest = client.get(f"/v1/organisations/acme?limit=2&after={first['next']}").json()
    assert [item["id"] for page in (first, rest) for item in page["items"]] == ["a", "b", "c"]


def test_a_push_returns_the_outcome_of_each_mutation(client: Client) -> None:
    client.put(BUDGET)
    outcomes = push(client, mutation("ada", 1, key="a", value=1), mutation("ada", 2, "inc", key="b", by="x"))
    assert [outcome["status"] for outcome in outcomes] == ["applied", "rejected"]
    again = push(client, mutation("ada", 1, key="a", value=1), mutation("ada", 9, key="a", value=1))
    assert [(outcome["status"], outcome["expected"]) for outcome in again] == [("seen", None), ("gap", 3)]


def test_a_push_to_a_cached_document_reads_nothing_from_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    store, read = open_store("memory:"), list[object]()
    with serving(store=store) as client:
        client.put(BUDGET)
        push(client, mutation("ada", 1, key="a", value=1))
        for name in ("get", "query"):
            unwatched = getattr(store.environment.index, name)
            monkeypatch.setattr(store.environment.index, name, partial(_noted, read, unwatched))
        push(client, mutation("ada", 2, key="a", value=2))
    assert read == []


@pytest.mark.parametrize(
    "mutations", [[mutation("ada", 2, key="a", value=2)], [mutation("ada", 1, key="a", value=1)], []]
)
def test_a_push_to_a_cached_document_deleted_by_another_process_is_not_found(
    tmp_path: Path, mutations: list[dict[str, Any]]
) -> None:
    with open_store(tmp_path) as other, open_store(tmp_path) as store, serving(store=store) as client:
        client.put(BUDGET)
        push(client, mutation("ada", 1, key="a", value=1))
        other.delete(other.document("acme", "budget"))
        answer = client.post(f"{BUDGET}/push", json={"group": "g", "mutations": mutations})
        assert problem(answer) == (404, "not-found")


@pytest.mark.parametrize(("meant_for", "status"), [("old", "unknown-client"), ("new", "applied"), ("any", "applied")])
def test_a_push_to_a_document_recreated_by_another_process_goes_to_the_new_document(
    tmp_path: Path, meant_for: str, status: str
) -> None:
    with open_store(tmp_path) as other, open_store(tmp_path) as store, serving(store=store) as client:
        client.put(BUDGET)
        push(client, mutation("ada", 1, key="a", value=1))
        old = other.document("acme", "budget")
        other.delete(old)
        heir = other.create("acme", "budget")
        origin = {"old": old.origin, "new": heir.origin, "any": ""}[meant_for]
        body = {"group": "g", "mutations": [mutation("ada", 1, key="a", value=2)], "origin": origin}
        assert [outcome["status"] for outcome in client.post(f"{BUDGET}/push", json=body).json()["outcomes"]] == [
            status
        ]
        assert heir.get("a") == (2 if status == "applied" else None)


def _noted(calls: list[object], call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    calls.append(arguments)
    return call(*arguments, **options)


def test_a_queued_push_is_answered_202_or_200_for_replicache() -> None:
    def queue(document: Document, request: Push, owner: str, author: str) -> Pushed:
        return Pushed([], queued=True)

    app = create_app(open_store("memory:"), Application(hosts=(HOST,)), push=queue)
    with TestClient(app) as client:
        client.put(BUDGET)
        queued = client.post(f"{BUDGET}/push", json={"group": "g", "mutations": []})
        assert (queued.status_code, queued.json()) == (202, {"outcomes": [], "queued": True})
        body = {"pushVersion": 1, "clientGroupID": "g", "mutations": []}
        assert client.post(f"{BUDGET}/replicache/push", json=body).status_code == 200


def test_a_pull_returns_the_changes_since_its_cookie(budget: Client) -> None:
    first = budget.post(f"{BUDGET}/pull", json={"group": "g"}).json()
    assert first["patch"][0] == {"op": "clear"}
    assert first["last"] == {"ada": 2, "bob": 2}
    push(budget, mutation("ada", 3, "del", key="title"))
    second = budget.post(f"{BUDGET}/pull", json={"group": "g", "cookie": first["cookie"]}).json()
    assert second["patch"] == [{"op": "del", "key": "title"}]
    assert second["last"] == {"ada": 3}


def test_messagepack_carries_bytes_as_they_are(client: Client) -> None:
    client.put(BUDGET)
    body = Push("g", [Mutation(client="ada", id=1, name="put", args={"key": "raw", "value": b"\x00\xff"})])
    headers = {"Content-Type": MSGPACK, "Accept": MSGPACK}
    answer = client.post(f"{BUDGET}/push", content=msgspec.msgpack.encode(body), headers=headers)
    assert answer.headers["content-type"] == MSGPACK
    assert msgspec.msgpack.decode(answer.content, type=Pushed).outcomes[0].status == "applied"
    item = client.get(f"{BUDGET}/item?key=raw", headers={"Accept": MSGPACK})
    assert msgspec.msgpack.decode(item.content)["value"] == b"\x00\xff"
    assert client.get(f"{BUDGET}/item?key=raw").json()["value"] == {"$bytes": "AP8="}


def test_bytes_and_objects_that_look_like_encoded_bytes_survive_json(client: Client) -> None:
    client.put(BUDGET)
    values = [{"$bytes": "AP8="}, {"$$bytes": "AP8="}, {"$$x": 1}]
    push(client, mutation("ada", 1, key="values", value=values))
    assert client.get(f"{BUDGET}/item?key=values").json()["value"] == values


def test_query_1_returns_the_state_at_any_version_in_pages(budget: Client) -> None:
    assert budget.get(f"{BUDGET}/state").json()["content"] == {"cells/C2": 105, "title": "Budget"}
    assert budget.get(f"{BUDGET}/state?at=1").json()["content"] == {"cells/C2": 100}
    first = budget.get(f"{BUDGET}/state?limit=1").json()
    assert (first["content"], first["next"]) == ({"cells/C2": 105}, "cells/C2")
    rest = budget.get(f"{BUDGET}/state?at={first['version']}&after={first['next']}").json()
    assert (rest["content"], rest["next"]) == ({"title": "Budget"}, None)


def test_query_2_lists_items_without_their_bodies(budget: Client) -> None:
    push(budget, mutation("ada", 3, key="pages/1", value={"id": 7, "name": "Intro", "text": "x" * 5000}))
    answer = budget.get(f"{BUDGET}/items")
    assert "text" not in answer.text
    small, large = answer.json()["items"][:2]
    assert (small["key"], small["version"], small["blob"]) == ("cells/C2", 2, None)
    assert (large["metadata"], len(large["blob"])) == ({"id": 7, "name": "Intro"}, 64)
    assert budget.get(f"{BUDGET}/items?prefix=cells/&limit=1").json()["next"] is None
    assert budget.get(f"{BUDGET}/items?limit=1").json()["next"] == "cells/C2"


def test_query_3_returns_an_item_at_any_version(budget: Client) -> None:
    assert budget.get(f"{BUDGET}/item?key=cells/C2").json() == {"version": 3, "key": "cells/C2", "value": 105}
    assert budget.get(f"{BUDGET}/item?key=cells/C2&at=1").json()["value"] == 100
    assert problem(budget.get(f"{BUDGET}/item?key=cells/C2&at=0")) == (404, "not-found")
    assert problem(budget.get(f"{BUDGET}/item?key=cells/C2&at=9")) == (404, "not-found")


def test_query_4_lists_versions_with_their_mutations_and_states(budget: Client) -> None:
    page = budget.get(f"{BUDGET}/versions?states=true").json()
    assert [row["version"]["version"] for row in page["versions"]] == [1, 2, 3]
    assert [row["state"].get("cells/C2") for row in page["versions"]] == [100, 105, 105]
    assert "needs numbers" in page["versions"][2]["version"]["mutations"][0]["reason"]
    first = budget.get(f"{BUDGET}/versions?limit=2").json()
    assert (first["next"], first["versions"][0]["state"]) == (2, None)
    assert [row["version"]["version"] for row in budget.get(f"{BUDGET}/versions?after=2").json()["versions"]] == [3]


def test_query_5_returns_the_version_that_applied_a_mutation(budget: Client) -> None:
    assert budget.get(f"{BUDGET}/mutation?client=bob&id=1").json()["version"] == 2
    assert budget.get(f"{BUDGET}/mutation?client=bob&id=9").json()["version"] is None


def test_query_6_returns_the_number_of_a_client_s_latest_mutation(budget: Client) -> None:
    assert budget.get(f"{BUDGET}/client?client=ada").json() == {"client": "ada", "last": 2}
    assert budget.get(f"{BUDGET}/client?client=nobody").json()["last"] == 0


def test_the_newest_version_at_a_time_is_found(budget: Client) -> None:
    versions = budget.get(f"{BUDGET}/versions").json()["versions"]
    created = {row["version"]["version"]: row["version"]["created_ms"] for row in versions}
    for time_ms in (created[1] - 1, *created.values()):
        newest = max([version for version, at in created.items() if at <= time_ms], default=0)
        assert budget.get(f"{BUDGET}/version?time_ms={time_ms}").json() == {"version": newest}
    assert problem(budget.get(f"{BUDGET}/version")) == (400, "invalid")
    assert problem(budget.get(f"{BUDGET}/version?time_ms=-1")) == (400, "invalid")


def test_two_versions_are_compared(budget: Client) -> None:
    page = budget.get(f"{BUDGET}/diff?source=1&target=2").json()
    assert [(difference["key"], difference["before"], difference["after"]) for difference in page["differences"]] == [
        ("cells/C2", 100, 105),
        ("title", None, "Budget"),
    ]
    assert budget.get(f"{BUDGET}/diff?source=1&target=2&limit=1").json()["next"] == "cells/C2"


def test_the_changes_of_one_key_come_newest_first(budget: Client) -> None:
    changes = budget.get(f"{BUDGET}/history?key=cells/C2").json()["changes"]
    assert [(change["version"], change["value"], change["author"]) for change in changes] == [
        (2, 105, "ada"),
        (1, 100, "ada"),
    ]


def test_equal_content_has_an_equal_digest(budget: Client) -> None:
    budget.put("/v1/organisations/acme/documents/other")
    copied = [mutation("eve", 1, key="title", value="Budget"), mutation("eve", 2, key="cells/C2", value=105)]
    other = "/v1/organisations/acme/documents/other"
    push(budget, copied[0], path=other)
    before = budget.get(f"{other}/digest").json()["digest"]
    push(budget, copied[1], path=other)
    ours, theirs = (budget.get(f"{path}/digest").json()["digest"] for path in (BUDGET, other))
    assert ours == theirs != before


def test_a_fork_is_replayed_and_merged(budget: Client) -> None:
    made = budget.post(f"{BUDGET}/fork", json={"name": "copy", "at": 2})
    assert (made.status_code, made.json()["first"]) == (201, 2)
    copy = "/v1/organisations/acme/documents/copy"
    push(budget, mutation("eve", 1, key="cells/D4", value=1), path=copy)
    report = budget.post(f"{copy}/replay", json={"document": "budget"}).json()["mutations"]
    assert [(replayed["client"], replayed["same"], replayed["merged_in"]) for replayed in report] == [
        ("eve", True, None)
    ]
    merged = budget.post(f"{copy}/merge", json={"document": "budget"}).json()["mutations"]
    assert merged[0]["merged_in"] == 4
    assert budget.get(f"{BUDGET}/item?key=cells/D4").json()["value"] == 1


def test_a_deleted_document_is_gone_and_its_name_free(budget: Client) -> None:
    before = budget.get(BUDGET).json()["incarnation"]
    assert budget.delete(BUDGET).status_code == 204
    assert problem(budget.get(BUDGET)) == (404, "not-found")
    assert budget.put(BUDGET).json()["incarnation"] != before


def test_the_replicache_endpoints_answer_in_the_format_of_replicache(client: Client) -> None:
    client.put(BUDGET)
    value = {"$bytes": "not base64"}
    sent = {"clientID": "c", "id": 1, "name": "put", "args": {"key": "k", "value": value}, "timestamp": 1.5}
    pushed = client.post(
        f"{BUDGET}/replicache/push",
        json={"pushVersion": 1, "profileID": "p", "clientGroupID": "g", "schemaVersion": "", "mutations": [sent]},
    )
    assert (pushed.status_code, pushed.json()) == (200, {})
    pulled = client.post(
        f"{BUDGET}/replicache/pull",
        json={"pullVersion": 1, "profileID": "p", "clientGroupID": "g", "schemaVersion": "", "cookie": None},
    ).json()
    assert pulled["lastMutationIDChanges"] == {"c": 1}
    assert pulled["patch"][-1] == {"op": "put", "key": "k", "value": value}


def test_a_merge_that_commits_nothing_pokes_nobody() -> None:
    poked: list[tuple[str, str, int]] = []
    store = open_store("memory:")
    fork = store.create("acme", "budget").fork("copy")
    app = create_app(store, Application(hosts=(HOST,)), poked=lambda *news: poked.append(news))
    with TestClient(app) as client:
        merge = partial(client.post, "/v1/organisations/acme/documents/copy/merge", json={"document": "budget"})
        assert merge().status_code == 200
        assert poked == []
        fork.mutate("put", {"key": "k", "value": 1})
        assert [merge().status_code for _ in range(2)] == [200, 200]
    assert poked == [("acme", "budget", 1)]
