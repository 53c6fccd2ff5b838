"""The queue path over HTTP: the statuses of the answers, and a poke after the worker has applied a push."""

from __future__ import annotations

import json

import msgspec

from stratalog.server.application import Application, ServerLimits
from stratalog.store import open_store
from stratalog.worker.worker import Worker
from tests.server.api import BUDGET, mutation, problem, serving

QUEUED = Application(queued=lambda organisation, document: document == "budget")
OTHER = BUDGET.replace("budget", "other")


def body(*mutations: dict[str, object]) -> dict[str, object]:
    return {"group": "g", "mutations": list(mutations)}


def work(worker: Worker) -> None:
    while worker.step():
        pass


def test_a_push_that_is_queued_is_answered_202_and_applied_by_a_worker() -> None:
    store = open_store("memory:")
    with serving(QUEUED, store) as client:
        client.put(BUDGET)
        answer = client.post(f"{BUDGET}/push", json=body(mutation("ada", 1, key="k", value=1)))
        assert (answer.status_code, answer.json()) == (202, {"outcomes": [], "queued": True})
        assert client.get(f"{BUDGET}/item?key=k").status_code == 404
        work(Worker(store))
        assert client.get(f"{BUDGET}/item?key=k").json()["value"] == 1
        again = client.post(f"{BUDGET}/push", json=body(mutation("ada", 1, key="k", value=1)))
        assert (again.status_code, again.json()["outcomes"][0]["status"]) == (200, "seen")


def test_a_push_to_a_document_without_queueing_is_applied_directly() -> None:
    with serving(QUEUED) as client:
        client.put(OTHER)
        answer = client.post(f"{OTHER}/push", json=body(mutation("ada", 1, key="k", value=1)))
        assert (answer.status_code, answer.json()["outcomes"][0]["status"]) == (200, "applied")


def test_a_full_queue_is_answered_429_with_retry_after() -> None:
    application = msgspec.structs.replace(QUEUED, limits=ServerLimits(queued_pushes_max=1))
    with serving(application) as client:
        client.put(BUDGET)
        assert client.post(f"{BUDGET}/push", json=body(mutation("ada", 1, key="k"))).status_code == 202
        both = body(mutation("ada", 1, key="k"), mutation("ada", 2, key="k"))
        refused = client.post(f"{BUDGET}/push", json=both)
        assert (problem(refused), refused.json()["limit"]) == ((429, "queue-full"), 1)
        assert int(refused.headers["retry-after"]) > 0


def test_a_queued_push_of_replicache_is_answered_200() -> None:
    store = open_store("memory:")
    with serving(QUEUED, store) as client:
        client.put(BUDGET)
        pushed = {"pushVersion": 1, "clientGroupID": "g", "profileID": "p", "schemaVersion": ""}
        mutation = {"clientID": "ada", "id": 1, "name": "put", "args": {"key": "k", "value": 1}, "timestamp": 0}
        answer = client.post(f"{BUDGET}/replicache/push", json={**pushed, "mutations": [mutation]})
        assert (answer.status_code, answer.json()) == (200, {})
        work(Worker(store))
        pulled = {"pullVersion": 1, "clientGroupID": "g", "profileID": "p", "schemaVersion": "", "cookie": None}
        assert client.post(f"{BUDGET}/replicache/pull", json=pulled).json()["lastMutationIDChanges"] == {"ada": 1}


def test_listeners_are_poked_when_the_worker_has_applied_a_push() -> None:
    store = open_store("memory:")
    with serving(QUEUED, store) as client:
        client.put(BUDGET)
        with client.websocket_connect(f"{BUDGET}/live") as socket:
            assert json.loads(socket.receive_text())["type"] == "ready"
            client.post(f"{BUDGET}/push", json=body(mutation("ada", 1, key="k", value=1)))
            work(Worker(store))
            assert json.loads(socket.receive_text()) == {"type": "poke", "version": 1}
