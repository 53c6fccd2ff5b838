"""A query with a parameter that the handler does not declare is refused, and so is an unknown field of a body."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from litestar import Request, get
from litestar.params import QueryParameter

from stratalog.server.application import Application
from stratalog.server.parameters import PREFIX
from stratalog_catalogue.http import application as catalogue
from stratalog_sheet.http import application as sheet
from tests.server.api import BUDGET, Client, mutation, problem, push, serving

APPLICATIONS = {"server": Application, "catalogue": catalogue, "sheet": sheet}
ACME = PREFIX.replace("{organisation:str}", "acme")
REPORT = f"{ACME}/records/report"
LOG = f"{ACME}/logs/events"
MSGPACK = {"Content-Type": "application/msgpack"}


@get("/many")
async def many(tag: Annotated[list[str], QueryParameter()]) -> str:
    return ",".join(tag)


@get("/hidden", include_in_schema=False)
async def hidden(request: Request[Any, Any, Any]) -> str:
    return request.query_params.get("any", "")


@get("/own", opt={"any_query": True})
async def own(request: Request[Any, Any, Any]) -> str:
    return request.query_params.get("any", "")


def test_a_write_with_a_misspelt_condition_is_refused_and_writes_nothing(client: Client) -> None:
    client.put(REPORT, content=b"first")
    for query in ("expcted=7", "expected=1&Expected=7", "write_id=a&if_newr=true", "expected=1&=", "expected=1&%65x"):
        refused = client.put(f"{REPORT}?{query}", content=b"second")
        assert problem(refused) == (400, "invalid")
    refused = client.delete(f"{REPORT}?expcted=7")
    assert (refused.status_code, refused.json()["value"]) == (400, "expcted")
    assert "unknown parameter (known: expected, write_id)" in refused.json()["message"]
    assert len(client.get(f"{REPORT}/versions").json()["versions"]) == 1


def test_a_read_with_a_misspelt_parameter_is_refused(client: Client) -> None:
    client.put(BUDGET)
    for path in ("state?att=1", "items?limt=2", "versions?upto=1&states=true&afer=0", "events?at=1"):
        assert problem(client.get(f"{BUDGET}/{path}")) == (400, "invalid")
    assert "(known: none)" in client.get(f"{BUDGET}?at=1").json()["message"]
    assert client.head(f"{BUDGET}/state?att=1").status_code == 400
    assert client.delete(f"{BUDGET}?expected=7").status_code == 400
    assert client.get(f"{BUDGET}/state?").status_code == 200


@pytest.mark.parametrize("name", APPLICATIONS)
def test_every_path_for_programs_refuses_an_undeclared_parameter_and_names_the_declared_ones(
    name: str,
) -> None:
    with serving(APPLICATIONS[name]()) as client:
        paths = client.get("/schema/openapi.json").json()["paths"]
        checked = 0
        for path, methods in paths.items():
            for method, call in methods.items():
                names = sorted(p["name"] for p in call.get("parameters", ()) if p["in"] == "query")
                filled = path.replace("{organisation}", "acme").replace("{", "").replace("}", "")
                answer = client.request(method.upper(), f"{filled}?undeclared=1")
                if path.endswith(("/replicache/push", "/replicache/pull")):
                    assert "parameter" not in answer.json()["message"]
                    continue
                if path in ("/health", "/metrics"):
                    assert answer.status_code == 200
                    continue
                assert (answer.status_code, answer.json()["value"]) == (400, "undeclared"), (method, path)
                assert f"(known: {', '.join(names) or 'none'})" in answer.json()["message"], (method, path)
                checked += 1
        assert checked > 40


def test_a_caller_s_right_is_checked_before_the_query() -> None:
    with serving(Application(authorize=lambda principal, action, organisation, name: action == "read")) as client:
        assert problem(client.put(f"{REPORT}?expcted=7", content=b"x")) == (403, "forbidden")
        assert problem(client.get(f"{BUDGET}?att=7")) == (400, "invalid")


def test_a_parameter_that_is_given_twice_is_refused(client: Client) -> None:
    client.put(REPORT, content=b"first")
    refused = client.put(f"{REPORT}?expected=7&expected=1", content=b"second")
    assert (problem(refused), refused.json()["value"]) == ((400, "invalid"), "expected")
    assert client.get(REPORT).content == b"first"


def test_a_handler_s_list_may_be_given_twice() -> None:
    with serving(Application(routes=[many])) as client:
        assert client.get("/many?tag=a&tag=b").text == "a,b"
        assert client.get("/many?tag=a&tga=b").status_code == 400


def test_pages_and_handlers_that_read_the_query_themselves_accept_any_query(client: Client) -> None:
    for path in ("/", "/web/", "/web/client/stratalog.js", "/schema", "/favicon.ico"):
        assert client.get(f"{path}?in=acme&in=b&sheet=plan").status_code == 200
    assert client.options(f"{BUDGET}?at=1").status_code == 204
    with serving(Application(routes=[hidden, own])) as other:
        assert [other.get(f"{path}?any=x&any=y").text for path in ("/hidden", "/own")] == ["x", "x"]


def test_a_websocket_and_replicache_s_client_may_send_any_query(client: Client) -> None:
    client.put(BUDGET)
    with client.websocket_connect(f"{BUDGET}/live?release=7") as socket:
        assert socket.receive_json()["type"] == "ready"
    pull = {"pullVersion": 1, "profileID": "p", "clientGroupID": "g", "cookie": None, "schemaVersion": "", "more": 1}
    assert client.post(f"{BUDGET}/replicache/pull?as=ada", json=pull).status_code == 200


def test_an_unknown_field_of_a_body_is_refused_and_nothing_is_written(client: Client) -> None:
    client.put(LOG)
    client.put(BUDGET)
    events = [{"type": "set", "data": 1}]
    for path, body in (
        (f"{LOG}/append", {"events": events, "expcted": 7}),
        (f"{LOG}/append", {"events": [{**events[0], "scema": 2}]}),
        (f"{LOG}/fork", {"name": "copy", "att": 0}),
        (f"{BUDGET}/fork", {"name": "copy", "att": 0}),
        (f"{BUDGET}/merge", {"document": "budget", "at": 0}),
        (f"{BUDGET}/replay", {"document": "budget", "at": 0}),
    ):
        refused = client.post(path, json=body)
        assert problem(refused) == (400, "invalid")
        assert "unknown field" in refused.json()["message"]
        assert client.post(path, content=msgspec.msgpack.encode(body), headers=MSGPACK).status_code == 400
    assert client.get(LOG).json()["version"] == 0
    assert [item["id"] for item in client.get(ACME).json()["items"]] == ["budget", "events"]


def test_a_push_and_a_pull_ignore_further_fields_as_their_format_states(client: Client) -> None:
    client.put(BUDGET)
    body = {"group": "g", "mutations": [{**mutation("ada", 1, key="k", value=1), "later": 1}], "later": 1}
    assert client.post(f"{BUDGET}/push", json=body).json()["outcomes"][0]["status"] == "applied"
    assert client.post(f"{BUDGET}/pull", json={"group": "g", "cookie": None, "later": 1}).status_code == 200
    assert push(client, mutation("ada", 2, key="k", value=2))[0]["status"] == "applied"
