"""HEAD on each path that has GET, and the methods in the header Allow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from litestar import HttpMethod, Request, asgi, get, head, route
from litestar.exceptions import HTTPException
from litestar.response.base import ASGIResponse
from litestar.static_files import create_static_files_router
from litestar.types import Receive, Scope, Send

from stratalog.server.application import Application
from tests.server.api import BUDGET, Client, problem, serving
from tests.server.web_servers import HOST, web_server

ACME = "/v1/organisations/acme"
READ_HEADERS = ("content-type", "content-length", "etag", "cache-control", "stratalog-version")
DOCUMENT = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS"}


@route("/own", http_method=[HttpMethod.GET, HttpMethod.OPTIONS])
async def own_options(request: Request[Any, Any, Any]) -> str:
    return request.method


@head("/head")
async def own_head() -> None: ...


@asgi("/mounted", is_mount=True, copy_scope=True)
async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
    method = Request[Any, Any, Any](scope).method
    await ASGIResponse(headers={"X-Method": method})(scope, receive, send)


@get("/refused")
async def refused_without_allow() -> None:
    raise HTTPException("read-only", status_code=405)


@get("/refused/with-allow")
async def refused_with_allow() -> None:
    raise HTTPException("read-only", status_code=405, headers={"Allow": "PUT,GET"})


def test_head_has_the_status_and_the_headers_of_get_and_no_body() -> None:
    with serving() as client:
        client.put(BUDGET)
        client.put(f"{ACME}/records/logo", content=b"x" * 300_000)
        paths = (
            "/",
            "/health",
            "/web/client/stratalog.js",
            BUDGET,
            f"{BUDGET}/state",
            f"{ACME}/records/logo",
            "/v1/nothing",
        )
        for path in paths:
            get, head = client.get(path), client.head(path)
            assert (head.status_code, head.content) == (get.status_code, b"")
            assert [head.headers.get(name) for name in READ_HEADERS] == [get.headers.get(name) for name in READ_HEADERS]
        assert client.head(f"{ACME}/records/logo", headers={"Range": "bytes=0-9"}).headers["content-length"] == "10"


def test_head_of_a_stream_of_events_ends_and_the_connection_serves_the_next_request() -> None:
    def request(method: bytes, path: str, *headers: bytes) -> bytes:
        return method + b" %s HTTP/1.1\r\n" % path.encode() + HOST + b"".join(headers) + b"\r\n"

    with web_server() as running:
        running.answer(request(b"PUT", BUDGET, b"Connection: close\r\n"))
        events = request(b"HEAD", f"{BUDGET}/events")
        answer = running.answer(
            events + request(b"HEAD", BUDGET) + request(b"GET", "/health", b"Connection: close\r\n")
        )
    heads = answer.split(b"\r\n\r\n")
    assert [head.split()[1] for head in heads[:3]] == [b"200", b"200", b"200"]
    assert b"text/event-stream" in heads[0]
    assert heads[3].startswith(b"{")


def test_options_and_a_refused_method_name_all_methods_of_the_path(client: Client) -> None:
    for path, methods in [
        (BUDGET, DOCUMENT),
        (f"{BUDGET}/state", {"GET", "HEAD", "OPTIONS"}),
        (f"{BUDGET}/push", {"POST", "OPTIONS"}),
        (f"{ACME}/records/logo", {"GET", "HEAD", "PUT", "DELETE", "OPTIONS"}),
    ]:
        options, refused = client.options(path), client.request("TRACE", path)
        assert (options.status_code, refused.status_code) == (204, 405)
        assert {*options.headers["allow"].split(", ")} == {*refused.headers["allow"].split(", ")} == methods


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_path_with_a_websocket_alone_names_no_method_of_http(client: Client, method: str) -> None:
    refused = client.request(method, f"{BUDGET}/live")
    assert (refused.status_code, refused.headers["allow"]) == (405, "")


def test_an_applications_own_handlers_of_head_and_options_run() -> None:
    with serving(Application(routes=[own_options, own_head, mounted])) as client:
        assert client.options("/own").text == "OPTIONS"
        assert client.head("/own").status_code == client.head("/head").status_code == 200
        assert client.options("/head").headers["allow"] == "HEAD, OPTIONS"
        for method in ("HEAD", "OPTIONS", "GET"):
            assert client.request(method, "/mounted/a").headers["x-method"] == method


def test_head_of_an_applications_static_file_has_the_headers_of_get(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("a { color: red }")
    with serving(Application(routes=[create_static_files_router("/files", [tmp_path])])) as client:
        get, head = client.get("/files/a.css"), client.head("/files/a.css")
        assert (head.status_code, head.content) == (200, b"")
        assert get.headers["content-type"].startswith("text/css")
        assert [head.headers.get(name) for name in READ_HEADERS] == [get.headers.get(name) for name in READ_HEADERS]
        assert client.head("/files/b.css").status_code == 404


def test_an_application_may_refuse_a_method_itself() -> None:
    with serving(Application(routes=[refused_without_allow, refused_with_allow])) as client:
        without, named = client.get("/refused"), client.get("/refused/with-allow")
    assert (problem(without), problem(named)) == ((405, "method-not-allowed"),) * 2
    assert (without.headers.get("allow"), named.headers["allow"]) == (None, "GET, HEAD, PUT")
