"""The server decodes and applies a large push in parts. Each part is its own entry.

If the server refuses a later part, the outcome of the push is unknown, because the earlier parts are committed.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stratalog.limits import (
    DECODED_BYTES_IN_FLIGHT_MAX,
    MUTATIONS_PER_BATCH_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_COPIES,
    REQUEST_DECODED_BYTES_MAX,
)
from stratalog.protocol.messages import Mutation
from stratalog.protocol.sync import Push
from stratalog.server import bodies, push_parts
from stratalog.server.application import Application, ServerLimits
from stratalog.server.push_parts import RawArguments, parts_of
from stratalog.server.security import Principal, StaticTokens
from tests.server.api import BUDGET, Client, mutation, problem, serving

LISTS = [[{"id": row, "done": False} for row in range(50)] for _ in range(40)]
MSGPACK = {"Content-Type": "application/msgpack"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the server decode a push in parts, if the decoded push takes more than 4 KB."""
    monkeypatch.setattr(bodies, "PUSH_PART_DECODED_BYTES", 4096)
    monkeypatch.setattr(push_parts, "PUSH_PART_DECODED_BYTES", 50_000)


def pushed(client: Client, mutations: list[dict[str, Any]], *, packed: bool = False) -> Any:
    client.put(BUDGET)
    encode, headers = (msgspec.msgpack.encode, MSGPACK) if packed else (msgspec.json.encode, JSON)
    return client.post(f"{BUDGET}/push", content=encode({"group": "g", "mutations": mutations}), headers=headers)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("packed", [False, True])
def test_a_large_push_is_applied_in_parts_and_answered_as_one(client: Client, packed: bool) -> None:
    values = [*LISTS, {"$bytes": "aGk="}, {"$$bytes": 1}, None]
    mutations = [mutation("c", id, key=f"k/{id}", value=value) for id, value in enumerate(values, 1)]
    answer = pushed(client, [*mutations, {"client": "c", "id": len(values) + 1, "name": "unheard of"}], packed=packed)
    assert answer.status_code == 200
    outcomes = answer.json()["outcomes"]
    assert [outcome["id"] for outcome in outcomes] == list(range(1, len(values) + 2))
    assert [outcome["status"] for outcome in outcomes] == ["applied"] * len(values) + ["rejected"]
    assert len({outcome["version"] for outcome in outcomes}) > 3
    state = client.get(f"{BUDGET}/state").json()["content"]
    expected = [*values] if not packed else [*LISTS, {"$$bytes": "aGk="}, {"$$$bytes": 1}, None]
    assert [state[f"k/{id}"] for id in range(1, len(values) + 1)] == expected


@pytest.mark.usefixtures("small_parts")
def test_a_large_push_of_replicache_stores_large_integers_as_floats(client: Client) -> None:
    client.put(BUDGET)
    mutations = [
        {"clientID": "c", "id": id, "name": "put", "args": {"key": f"k/{id}", "value": [2**60, *value]}, "timestamp": 1}
        for id, value in enumerate(LISTS, 1)
    ]
    body = {"pushVersion": 1, "clientGroupID": "g", "profileID": "p", "schemaVersion": "", "mutations": mutations}
    assert client.post(f"{BUDGET}/replicache/push", json=body).status_code == 200
    state = client.get(f"{BUDGET}/state").json()["content"]
    assert state["k/40"] == [float(2**60), *LISTS[39]]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    "last",
    [
        {"client": "", "id": 41, "name": "put"},
        {"client": "replay/x", "id": 41, "name": "put"},
        {"client": "c", "id": 41},
    ],
)
def test_an_invalid_last_mutation_refuses_a_large_push_before_anything_is_applied(client: Client, last: Any) -> None:
    mutations = [mutation("c", id, key=f"k/{id}", value=value) for id, value in enumerate(LISTS, 1)]
    assert pushed(client, [*mutations, last]).status_code == 400
    assert client.get(f"{BUDGET}/state").json()["content"] == {}


UNDECODABLE = {
    "lone surrogate": rb'{"key": "a", "value": "x\ud83d"}',
    "lone surrogate in a name": rb'{"\udc00": 1}',
    "deep": b'{"key": "a", "value": ' + b"[" * 80 + b"]" * 80 + b"}",
    "large number": b'{"key": "a", "value": 1e400}',
    "large integer": b'{"key": "a", "value": ' + b"9" * 5000 + b"}",
    "not UTF-8": b'{"key": "a", "value": "\xff"}',
    "not base64": b'{"key": "a", "value": {"$bytes": "?"}}',
    "bytes that are no text": b'{"key": "a", "value": {"$bytes": 5}}',
    "reserved name": b'{"key": "a", "value": {"$other": 5}}',
}


@pytest.mark.parametrize("arguments", UNDECODABLE.values(), ids=UNDECODABLE)
@pytest.mark.parametrize("size", [1, 100_000], ids=["small", "in parts"])
def test_a_mutation_whose_arguments_cannot_be_decoded_is_rejected_and_blocks_nobody(
    client: Client, arguments: bytes, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "PUSH_PART_DECODED_BYTES", 50_000)
    client.put(BUDGET)
    # The first value has the text of an escape, which is no surrogate. The last value has a pair of surrogates.
    values = [rb'"\\ud83d%s"' % (b"x" * size), rb'"\ud83d\ude00"']
    good = [b'{"key": "k/%d", "value": %s}' % numbered for numbered in enumerate(values)]
    pushed = b",".join(
        b'{"client": "c", "clientID": "c", "id": %d, "name": "put", "args": %s}' % numbered
        for numbered in enumerate((good[0], arguments, good[1]), 1)
    )
    for path, rest in (("push", b'"group": "g"'), ("replicache/push", b'"pushVersion": 1, "clientGroupID": "g"')):
        answer = client.post(f"{BUDGET}/{path}", content=b'{%s, "mutations": [%s]}' % (rest, pushed), headers=JSON)
        assert answer.status_code == 200
        if path == "push":
            outcomes = answer.json()["outcomes"]
            assert [outcome["status"] for outcome in outcomes] == ["applied", "rejected", "applied"]
            assert "cannot be decoded" in outcomes[1]["reason"]
    content = client.get(f"{BUDGET}/state").json()["content"]
    assert content == {"k/0": "\\ud83d" + "x" * size, "k/1": "\U0001f600"}


@pytest.mark.parametrize("group", ["group", "clientGroupID"])
def test_a_push_whose_group_cannot_be_decoded_is_refused_with_the_reason(client: Client, group: str) -> None:
    client.put(BUDGET)
    path = "push" if group == "group" else "replicache/push"
    body = rb'{"%s": "\ud83d", "pushVersion": 1, "mutations": []}' % group.encode()
    refused = client.post(f"{BUDGET}/{path}", content=body, headers=JSON)
    assert problem(refused) == (400, "invalid")
    assert "surrogate" in refused.json()["message"]


@pytest.mark.usefixtures("small_parts")
def test_a_push_whose_later_part_is_refused_has_an_unknown_outcome() -> None:
    limits = ServerLimits(client_creations_per_second=0.001, client_creations_burst=1)
    application = Application(authenticate=StaticTokens({"t": Principal(id="ada")}), limits=limits)
    with serving(application) as client:
        client.headers["Authorization"] = "Bearer t"
        mutations = [mutation("c", id, key=f"k/{id}", value=value) for id, value in enumerate(LISTS, 1)]
        answer = pushed(client, [*mutations, mutation("d", 1, key="k", value=1)])
        assert problem(answer) == (504, "outcome-unknown")
        assert client.get(f"{BUDGET}/state").json()["content"]["k/1"] == LISTS[0]
        assert pushed(client, [mutation("d", 1, key="k", value=LISTS)]).status_code == 429


def test_a_push_whose_later_batch_is_refused_has_an_unknown_outcome() -> None:
    limits = ServerLimits(client_creations_per_second=0.001, client_creations_burst=1)
    application = Application(authenticate=StaticTokens({"t": Principal(id="ada")}), limits=limits)
    with serving(application) as client:
        client.headers["Authorization"] = "Bearer t"
        mutations = [mutation("c", id, key="k", value=id) for id in range(1, MUTATIONS_PER_BATCH_MAX + 1)]
        batches = [*mutations, mutation("d", 1, key="k", value=0)]
        assert problem(pushed(client, batches)) == (504, "outcome-unknown")
        assert client.get(f"{BUDGET}/state").json()["content"]["k"] == MUTATIONS_PER_BATCH_MAX
        assert pushed(client, batches).status_code == 429  # this call has committed nothing


@pytest.mark.usefixtures("small_parts")
def test_a_mutation_above_the_limit_of_decoded_bytes_is_refused() -> None:
    limits = ServerLimits(request_decoded_bytes_max=100_000)
    with serving(Application(limits=limits)) as client:
        mutations = [mutation("c", id, key=f"k/{id}", value=value) for id, value in enumerate(LISTS, 1)]
        assert pushed(client, mutations).status_code == 200
        answer = pushed(client, [*mutations, mutation("c", 41, key="k", value=[{}] * 1000)])
    assert problem(answer) == (422, "limit-exceeded")
    assert answer.json()["limit"] == 100_000
    assert answer.json()["value"] > 100_000


@pytest.mark.usefixtures("small_parts")
def test_a_large_push_of_too_many_mutations_is_refused(client: Client) -> None:
    answer = pushed(client, [{"client": "c", "id": id, "name": "n"} for id in range(20_001)])
    assert problem(answer) == (422, "limit-exceeded")
    assert answer.json()["limit"] == 20_000


def test_a_part_has_a_bounded_decoded_size_and_is_decoded_on_demand() -> None:
    decoded: list[bytes] = []

    def decode(raw: msgspec.Raw) -> None:
        decoded.append(bytes(raw))

    size = push_parts.PUSH_PART_DECODED_BYTES // 2
    arguments = [RawArguments(msgspec.Raw(b"%d" % id), size, decode) for id in range(1, 6)]
    mutations = [Mutation(client="c", name="n", id=id, args=raw) for id, raw in enumerate(arguments, 1)]
    counts = [(len(part.mutations), len(decoded)) for part in parts_of(Push("g", mutations))]
    assert counts == [(2, 2), (2, 4), (1, 5)]


def test_a_part_has_no_more_mutations_than_a_batch() -> None:
    mutations = [Mutation(client="c", name="n", id=id) for id in range(1, 2501)]
    mutations[0] = msgspec.structs.replace(mutations[0], args=RawArguments(msgspec.Raw(b"1"), 1, bytes))
    assert [len(part.mutations) for part in parts_of(Push("g", mutations))] == [1000, 1000, 500]


def test_a_text_is_counted_for_each_copy_in_memory() -> None:
    with serving(Application(limits=ServerLimits(decoded_bytes_in_flight_max=60_000))) as client:
        answers = [pushed(client, [mutation("c", 1, key="k", value="x" * size)]) for size in (12_000, 9_000)]
    assert problem(answers[0]) == (422, "limit-exceeded")
    assert answers[0].json()["limit"] == 60_000
    assert answers[1].status_code == 200


def test_the_budget_of_decoded_bytes_has_room_for_the_largest_body_and_others() -> None:
    assert REQUEST_COPIES * REQUEST_BYTES_MAX <= REQUEST_DECODED_BYTES_MAX < DECODED_BYTES_IN_FLIGHT_MAX
