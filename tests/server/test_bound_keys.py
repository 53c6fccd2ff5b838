"""Reused keys: a used write id, a mutation's number with another payload, and names reserved for the store."""

from __future__ import annotations

from typing import Any

import pytest

from stratalog.errors import ReservedName
from stratalog.protocol import Mutation
from stratalog.protocol.messages import UNSTORABLE
from stratalog.protocol.sync import Push
from stratalog.sync.push import push, reject
from stratalog.worker.dead_letters import list_letters, redrive
from stratalog.worker.messages import group_of, write_message
from tests.documents.helpers import World, inc, put, statuses
from tests.server.api import BUDGET, Client, mutation, problem
from tests.server.api import push as push_over_http
from tests.server.helpers import push_replicache
from tests.server.queue_path import QueuePath

LOG = "/v1/organisations/acme/logs/sheet"
RECORD = "/v1/organisations/acme/records/r"
COPY = "/v1/organisations/acme/documents/copy"
RESERVED = ["replay/abc/3", "replay/", "redrive/0000000000000007/1"]


@pytest.mark.parametrize("client", RESERVED)
def test_a_reserved_client_is_refused_before_anything_is_applied(client: str) -> None:
    document = World().create()
    for owner in ("", "eve"):
        with pytest.raises(ReservedName) as caught:
            push(document, Push("g", [inc(client="ada", id=1), inc(client=client, id=1)]), owner)
        assert caught.value.details == {"client": client}
    assert document.version == 0


def test_a_client_name_that_resembles_a_reserved_name_is_allowed() -> None:
    document = World().create()
    names = ["replay", "Replay/x", "my/replay/x", "redriver/x", " replay/x"]
    pushed = push(document, Push("g", [inc(client=name, id=1) for name in names]))
    assert statuses(pushed.outcomes) == ["applied"] * len(names)


def test_replicaches_push_may_not_use_a_reserved_client() -> None:
    document = World().create()
    mutation = {"clientID": RESERVED[0], "id": 1, "name": "inc", "args": {"key": "n"}}
    with pytest.raises(ReservedName):
        push_replicache(document, {"pushVersion": 1, "clientGroupID": "g", "mutations": [mutation]})
    assert document.version == 0


def test_a_reserved_client_is_refused_before_it_is_queued() -> None:
    path = QueuePath()
    with pytest.raises(ReservedName):
        path.push(Mutation(client=RESERVED[0], id=1, name="inc", args={"key": "n"}))
    assert path.waiting() == []


@pytest.mark.parametrize("large", [False, True])
def test_a_message_that_names_a_reserved_client_never_takes_effect(large: bool) -> None:
    path = QueuePath()
    forged = Push("g", [Mutation(client=RESERVED[0], id=1, name="inc", args={"key": "n"})])
    record = path.document.log.record
    message = write_message(path.store.environment, record, forged, "", "", 1 if large else 10_000)
    path.store.queue.send(group_of(record), [message])
    path.work_through(6000)
    assert (path.document.version, path.document.last_mutation(RESERVED[0])) == (0, 0)
    [letter] = list_letters(path.store)
    assert letter.reason.startswith("ReservedName: ")
    with pytest.raises(ReservedName):
        redrive(path.store, letter.id)


def test_a_repetition_of_an_unstorable_mutation_is_seen_with_any_payload() -> None:
    document = World().create()
    with pytest.raises(ReservedName):
        push(document, Push("g", [Mutation(client="ada", id=1, name=UNSTORABLE)]))
    poison = Mutation(client="ada", id=1, name="put", args={"key": "k", "value": "\ud800"})
    assert statuses(push(document, Push("g", [poison])).outcomes) == ["rejected"]
    # A repetition has the status `seen`, both with the same payload and with a storable payload.
    for again in (poison, put("k", "storable", client="ada", id=1)):
        assert statuses(push(document, Push("g", [again])).outcomes) == ["seen"]


def test_a_rejection_as_unstorable_does_not_replace_a_stored_mutation() -> None:
    document = World().create()
    push(document, Push("g", [put("k", 1, client="ada", id=1)]))
    unstorable = Mutation(client="ada", id=1, name=UNSTORABLE)
    assert reject(document, unstorable, "too deep by now", group="g").status == "seen"
    assert statuses(push(document, Push("g", [put("k", 2, client="ada", id=1)])).outcomes) == ["mismatch"]


def test_a_reused_number_is_a_mismatch_in_its_own_batch_and_seen_in_a_later_batch() -> None:
    document = World().create()
    first = [put("k", number, client="ada", id=number) for number in (1, 2)]
    assert statuses(push(document, Push("g", [*first, put("k", "else", client="ada", id=1)])).outcomes) == [
        "applied",
        "applied",
        "mismatch",
    ]
    assert statuses(push(document, Push("g", [put("k", "else", client="ada", id=1)])).outcomes) == ["seen"]
    assert document.get("k") == 2


def test_another_append_under_a_used_write_id_is_answered_409(client: Client) -> None:
    client.put(LOG)

    def append(data: Any, **rest: Any) -> Any:
        body = {"events": [{"type": "t", "data": data}], "expected": 0, "write_id": "w", **rest}
        return client.post(f"{LOG}/append", json=body)

    first = append({"a": 1, "b": 2})
    assert append({"b": 2.0, "a": 1.0}).json() == first.json()
    assert problem(append("abe pays 1000")) == (409, "key-reused")
    assert problem(append({"a": 1, "b": 2}, events=[{"type": "u"}] * 2)) == (409, "key-reused")
    assert [entry["events"] for entry in client.get(f"{LOG}/entries").json()["entries"]] == [first.json()["events"]]


def test_other_bytes_under_a_used_write_id_are_answered_409(client: Client) -> None:
    first = client.put(f"{RECORD}?write_id=w&expected=0", content=b"ada's bytes").json()
    again = client.put(f"{RECORD}?write_id=w&expected=0", content=b"ada's bytes")
    assert again.json() == first
    answers = [
        client.put(f"{RECORD}?write_id=w&expected=0", content=b"something else"),
        client.put(f"{RECORD}?write_id=w", content=b"something else"),
        client.put(f"{RECORD}?write_id=w", content=b"ada's bytes", headers={"Stratalog-Metadata": '{"a": 1}'}),
        client.put(f"{RECORD}?write_id=w&source_time_ms=5", content=b"ada's bytes"),
        client.put(f"{RECORD}?write_id=w&source_time_ms=5&if_newer=true", content=b"ada's bytes"),
        client.delete(f"{RECORD}?write_id=w"),
        client.post(f"{RECORD}/undelete?write_id=w"),
    ]
    assert [problem(answer) for answer in answers] == [(409, "key-reused")] * len(answers)
    assert client.get(RECORD).content == b"ada's bytes"


def test_a_push_cannot_use_the_client_of_a_merge(budget: Client) -> None:
    made = budget.post(f"{BUDGET}/fork", json={"name": "copy"}).json()
    push_over_http(budget, *(mutation("k", id, key=f"n/{id}", value=id) for id in range(1, 4)), path=COPY)
    for client in (f"replay/{made['incarnation']}", f"replay/{made['incarnation']}/{made['first']}"):
        body = {"group": "zz", "mutations": [mutation(client, 1, key="junk", value=1)]}
        assert problem(budget.post(f"{BUDGET}/push", json=body)) == (400, "reserved-name")
    report = budget.post(f"{COPY}/merge", json={"document": "budget"}).json()["mutations"]
    assert [merged["merged_in"] for merged in report] == [4, 4, 4]
    assert budget.get(f"{BUDGET}/item?key=n/3").json()["value"] == 3


def test_a_conflicting_merge_is_answered_409_and_writes_nothing(budget: Client) -> None:
    budget.post(f"{BUDGET}/fork", json={"name": "copy", "at": 2})
    push_over_http(budget, mutation("k", 1, "inc", key="n"), path=COPY)
    push_over_http(budget, mutation("zoe", 1, key="n", value="no number"))
    version = budget.get(BUDGET).json()["version"]
    assert problem(budget.post(f"{COPY}/merge", json={"document": "budget"})) == (409, "merge-conflict")
    assert budget.get(BUDGET).json()["version"] == version
