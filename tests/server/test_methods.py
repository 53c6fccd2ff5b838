"""HEAD on each path that has GET, and the methods in the header Allow."""

from __future__ import annotations

import pytest

from tests.server.api import BUDGET, Client, serving
from tests.server.web_servers import HOST, web_server

ACME = "/v1/organisations/acme"
READ_HEADERS = ("content-type", "content-length", "etag", "cache-control", "stratalog-version")
DOCUMENT = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS"}


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
