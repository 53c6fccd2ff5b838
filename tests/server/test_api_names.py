"""Two organisations have documents of the same name.

Neither organisation reads, changes, delays or deletes the other organisation's document.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from litestar.testing import TestClient

from stratalog.documents import Document
from stratalog.limits import NAME_HOLDERS_MAX
from stratalog.log.directory import name_line_put
from stratalog.protocol.sync import Push, Pushed
from stratalog.server.app import create_app
from stratalog.server.application import Application
from stratalog.server.security import Action, Principal, StaticTokens
from stratalog.store import open_store
from stratalog.sync.push import push as push_directly
from tests.server.api import BUDGET, HOST, Client, mutation, problem, push, serving

GLOBEX = "/v1/organisations/globex/documents/budget"
SECONDS_MAX = 120
TOKENS = StaticTokens({f"{name}-token": Principal(id=name, claims={"of": name}) for name in ("acme", "globex", "ops")})


def headers(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}-token"}


def own_only(principal: Principal, action: Action, organisation: str, name: str) -> bool:
    return principal.id == "ops" or organisation in ("", principal.id)


def state(client: Client, path: str) -> Any:
    return client.get(f"{path}/state").json()["content"]


def test_two_organisations_can_create_documents_and_logs_of_the_same_name(client: Client) -> None:
    assert client.put(BUDGET).status_code == 201
    assert problem(client.get(GLOBEX)) == (404, "not-found")
    assert client.put(GLOBEX).status_code == 201
    assert [client.put(path).status_code for path in (BUDGET, GLOBEX)] == [200, 200]
    logs = [f"/v1/organisations/{organisation}/logs/plan" for organisation in ("acme", "globex")]
    assert [client.put(path).status_code for path in logs + logs] == [201, 201, 200, 200]


def test_recreating_a_document_does_not_change_the_other_organisation_s_document(client: Client) -> None:
    for path in (BUDGET, GLOBEX):
        client.put(path)
        push(client, mutation("c", 1, key="k", value=path), path=path)
    client.delete(GLOBEX)
    assert problem(client.get(GLOBEX)) == (404, "not-found")
    assert state(client, BUDGET) == {"k": BUDGET}
    assert client.put(GLOBEX).status_code == 201
    assert (state(client, GLOBEX), state(client, BUDGET)) == ({}, {"k": BUDGET})


def test_a_client_has_separate_mutation_numbers_in_each_organisation(client: Client) -> None:
    for path in (BUDGET, GLOBEX):
        client.put(path)
    push(client, mutation("c", 1, key="k", value=1), mutation("c", 2, key="l", value=2))
    pushed = push(client, mutation("c", 1, key="k", value="globex"), path=GLOBEX)
    assert [outcome["status"] for outcome in pushed] == ["applied"]
    assert [client.get(path).json()["version"] for path in (BUDGET, GLOBEX)] == [1, 1]


def test_a_listener_gets_only_the_pokes_of_its_own_organisation(client: Client) -> None:
    for path in (BUDGET, GLOBEX):
        client.put(path)
    with client.websocket_connect(f"{BUDGET}/live") as ours, client.websocket_connect(f"{GLOBEX}/live") as theirs:
        greetings = [ours.receive_json(), theirs.receive_json()]
        assert [greeting["version"] for greeting in greetings] == [0, 0]
        for number in (1, 2):
            push(client, mutation("c", number, key="k", value=number))
        push(client, mutation("c", 1, key="k", value="theirs"), path=GLOBEX)
        assert [ours.receive_json()["version"] for _ in range(2)] == [1, 2]
        assert theirs.receive_json()["version"] == 1


# In the second case, the organisation and the name, joined by a slash, are `a/b/c` for both documents.
@pytest.mark.parametrize("other", ["/v1/organisations/globex/documents/budget", "/v1/organisations/a/documents/b%2Fc"])
def test_pushes_do_not_wait_for_a_push_of_another_organisation(other: str) -> None:
    mine = "/v1/organisations/a%2Fb/documents/c" if "%2F" in other else BUDGET
    began, held = threading.Event(), threading.Event()

    def hold(document: Document, request: Push, owner: str, author: str) -> Pushed:
        if document.organisation in ("acme", "a/b"):
            began.set()
            assert held.wait(SECONDS_MAX)
        return push_directly(document, request, owner, author)

    app = create_app(open_store("memory:"), Application(hosts=(HOST,)), push=hold)
    with TestClient(app) as client:
        for path in (mine, other):
            assert client.put(path).status_code == 201
        pushed: list[Any] = []
        waiting = threading.Thread(
            target=lambda: pushed.extend(push(client, mutation("c", 1, key="k", value=1), path=mine)), daemon=True
        )
        waiting.start()
        try:
            assert began.wait(SECONDS_MAX)
            assert push(client, mutation("c", 1, key="k", value=1), path=other)[0]["status"] == "applied"
            assert pushed == []
        finally:
            held.set()
            waiting.join(SECONDS_MAX)
        assert [outcome["status"] for outcome in pushed] == ["applied"]


def test_the_holders_of_a_name_are_listed_if_the_caller_may_read_them() -> None:
    with serving(Application(authenticate=TOKENS, authorize=own_only)) as client:
        for name in ("acme", "globex"):
            for document in ("budget", f"plan-{name}"):
                client.put(f"/v1/organisations/{name}/documents/{document}", headers=headers(name))
        client.put("/v1/organisations/globex/logs/a%2Fb", headers=headers("globex"))

        def held(who: str, name: str) -> list[tuple[str, str]]:
            answer = client.get(f"/v1/names/{name}", headers=headers(who)).json()
            assert answer["complete"]
            return [(item["organisation"], item["kind"]) for item in answer["items"]]

        assert held("acme", "budget") == [("acme", "document")]
        assert held("globex", "budget") == [("globex", "document")]
        assert held("ops", "budget") == [("acme", "document"), ("globex", "document")]
        assert held("acme", "plan-globex") == held("acme", "nothing") == []
        assert held("ops", "a%2Fb") == [("globex", "log")]
        client.delete(BUDGET, headers=headers("acme"))
        assert held("ops", "budget") == [("globex", "document")]
        assert client.get("/v1/names/budget").status_code == 401


def test_a_caller_that_may_not_list_the_holders_of_a_name_is_forbidden() -> None:
    rules = Application(authenticate=TOKENS, authorize=lambda principal, action, organisation, name: organisation != "")
    with serving(rules) as client:
        assert problem(client.get("/v1/names/budget", headers=headers("acme"))) == (403, "forbidden")


def test_the_list_of_the_holders_of_a_name_is_bounded_and_marked_incomplete() -> None:
    store = open_store("memory:")
    holders = [f"o{number:05d}" for number in range(NAME_HOLDERS_MAX + 1)]
    for holder in holders:
        store.environment.index.commit([name_line_put(holder, "budget", "document")])
    with serving(store=store) as client:
        answer = client.get("/v1/names/budget").json()
    assert [item["organisation"] for item in answer["items"]] == holders[:NAME_HOLDERS_MAX]
    assert not answer["complete"]
