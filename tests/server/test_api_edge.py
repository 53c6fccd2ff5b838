"""The middleware refuses invalid requests, and a refused request writes nothing. All errors have the same shape."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import zstandard
from litestar.testing import TestClient
from litestar.types import Receive, Scope, Send

from stratalog.errors import Corrupt, OutcomeUnknown, Unavailable
from stratalog.ports.meter import Meter
from stratalog.server import bodies
from stratalog.server.app import create_app
from stratalog.server.application import Application, ServerLimits
from stratalog.server.errors import Refused
from stratalog.server.rates import Rates
from stratalog.store import open_store
from stratalog.testing.clock import ManualClock
from tests.server.api import BUDGET, HOST, Client, mutation, problem, push, serving

JSON = {"Content-Type": "application/json"}
PAGE = "https://app.example"
Pack = Callable[[bytes], bytes]


def test_a_request_for_an_unknown_host_is_refused(client: Client) -> None:
    assert problem(client.get("/health", headers={"Host": "evil.example"})) == (403, "forbidden")
    for name in ("localhost:8420", "127.0.0.1", "[::1]:80"):
        assert client.get("/health", headers={"Host": name}).status_code == 200


@pytest.mark.parametrize(
    ("address", "status"), [("10.0.0.9", 403), ("::ffff:10.0.0.9", 403), ("127.0.0.1", 200), ("::1", 200)]
)
def test_without_authentication_only_this_machine_is_served(address: str, status: int) -> None:
    app = create_app(open_store("memory:"), Application(hosts=(HOST,)))
    inner = app.asgi_handler

    async def from_address(scope: Scope, receive: Receive, send: Send) -> None:
        scope["client"] = (address, 5000)
        await inner(scope, receive, send)

    app.asgi_handler = from_address
    with TestClient(app) as client:
        assert client.get("/health").status_code == status


def test_a_page_of_another_origin_may_not_call(client: Client) -> None:
    for origin in ("https://evil.example", "null", "http://testserver.local.evil.example"):
        assert problem(client.put(BUDGET, headers={"Origin": origin})) == (403, "forbidden")
    assert client.put(BUDGET, headers={"Origin": "http://testserver.local"}).status_code == 201


def test_a_page_of_an_allowed_origin_may_call_and_read_the_answer() -> None:
    with serving(Application(origins=(PAGE,))) as client:
        answer = client.get("/health", headers={"Origin": PAGE})
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert "Origin" in answer.headers["vary"]
        missing = client.get(BUDGET, headers={"Origin": PAGE})
        assert (missing.status_code, missing.headers["access-control-allow-origin"]) == (404, PAGE)
        asked = {"Origin": PAGE, "Access-Control-Request-Method": "PUT"}
        assert "PUT" in client.options(BUDGET, headers=asked).headers["access-control-allow-methods"]
        asked["Origin"] = "https://evil.example"
        assert "access-control-allow-methods" not in client.options(BUDGET, headers=asked).headers


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.compress)])
def test_a_compressed_body_is_decompressed(client: Client, encoding: str, pack: Pack) -> None:
    client.put(BUDGET)
    body = b'{"group": "g", "mutations": [{"client": "a", "id": 1, "name": "put", "args": {"key": "k", "value": 1}}]}'
    sent = client.post(f"{BUDGET}/push", content=pack(body), headers={**JSON, "Content-Encoding": encoding})
    assert sent.json()["outcomes"][0]["status"] == "applied"


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.compress)])
def test_a_decompression_bomb_is_refused_with_the_limit(client: Client, encoding: str, pack: Pack) -> None:
    bomb = pack(b" " * 100_000_000)
    assert len(bomb) < 200_000
    answer = client.post(f"{BUDGET}/push", content=bomb, headers={**JSON, "Content-Encoding": encoding})
    assert problem(answer) == (413, "limit-exceeded")
    assert answer.json()["limit"] == 16 * 1024 * 1024


def test_a_corrupt_compressed_body_is_invalid_and_an_unknown_encoding_is_unsupported(client: Client) -> None:
    for encoding, body in (("gzip", b"plain"), ("gzip", gzip.compress(b"{}")[:-9]), ("zstd", b"plain")):
        answer = client.post(f"{BUDGET}/push", content=body, headers={**JSON, "Content-Encoding": encoding})
        assert problem(answer) == (400, "invalid")
    answer = client.post(f"{BUDGET}/push", content=b"{}", headers={**JSON, "Content-Encoding": "br"})
    assert problem(answer) == (415, "unsupported-media-type")


def test_the_bounds_of_a_body_can_be_lowered() -> None:
    limits = ServerLimits(request_bytes_max=1000, request_compressed_bytes_max=100)
    with serving(Application(limits=limits)) as client:
        answer = client.post(f"{BUDGET}/push", content=b" " * 1001, headers=JSON)
        assert problem(answer) == (413, "limit-exceeded")
        assert answer.json()["limit"] == 1000
        packed = {**JSON, "Content-Encoding": "gzip"}
        assert problem(client.post(f"{BUDGET}/push", content=b"x" * 101, headers=packed)) == (413, "limit-exceeded")


def test_a_body_nested_too_deeply_is_refused(client: Client) -> None:
    client.put(BUDGET)
    for depth in (80, 100_000):
        body = b'{"group": "g", "mutations": ' + b"[" * depth + b"]" * depth + b"}"
        assert problem(client.post(f"{BUDGET}/push", content=body, headers=JSON)) == (422, "limit-exceeded")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"{}",
        b'{"group": 1, "mutations": []}',
        b'{"group": "g", "mutations": [{"id": "1"}]}',
    ],
)
def test_a_body_that_does_not_match_the_schema_is_invalid(client: Client, body: bytes) -> None:
    client.put(BUDGET)
    assert problem(client.post(f"{BUDGET}/push", content=body, headers=JSON)) == (400, "invalid")


def test_a_body_with_a_content_type_that_needs_no_preflight_is_refused(client: Client) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = client.post(f"{BUDGET}/push", content=b"{}", headers={"Content-Type": kind})
        assert problem(answer) == (415, "unsupported-media-type")


@pytest.mark.parametrize("content_type", ["application/json", "application/msgpack", ""])
def test_a_request_without_its_body_is_told_that_it_needs_one(client: Client, content_type: str) -> None:
    client.put(BUDGET)
    for path in ("push", "pull", "fork", "replicache/pull"):
        refused = client.post(f"{BUDGET}/{path}", headers={"Content-Type": content_type})
        assert problem(refused) == (400, "invalid")
        assert refused.json()["message"] == "the request needs a body"


def test_a_push_of_many_mutations_is_cut_into_entries(client: Client) -> None:
    client.put(BUDGET)
    many = [mutation("ada", number, key="k", value=number) for number in range(1, 1202)]
    assert {outcome["status"] for outcome in push(client, *many)} == {"applied"}
    assert client.get(BUDGET).json()["version"] == 2


def test_a_push_of_too_many_mutations_is_refused(client: Client) -> None:
    client.put(BUDGET)
    many = [mutation("ada", number) for number in range(1, 20_002)]
    answer = client.post(f"{BUDGET}/push", json={"group": "g", "mutations": many})
    assert problem(answer) == (422, "limit-exceeded")
    assert (answer.json()["limit"], answer.json()["value"]) == (20_000, 20_001)
    assert client.get(BUDGET).json()["version"] == 0


def test_a_caller_above_the_request_rate_is_answered_429() -> None:
    with serving(Application(limits=ServerLimits(rate_requests_per_second=0.001, rate_requests_burst=2))) as client:
        answers = [client.get("/health") for _ in range(3)]
    assert [answer.status_code for answer in answers[:2]] == [200, 200]
    assert problem(answers[2]) == (429, "too-many-requests")
    assert int(answers[2].headers["retry-after"]) >= 1


def test_a_caller_constantly_above_the_request_rate_is_served_at_the_rate() -> None:
    clock = ManualClock()
    rates = Rates(clock, 10, 5)
    served = 0
    for _ in range(1000):
        clock.sleep(0.01)
        with suppress(Refused):
            rates.take(("principal", "ada"))
            served += 1
    assert 100 <= served <= 106


def test_a_principal_above_the_request_rate_does_not_limit_another_principal() -> None:
    rates = Rates(ManualClock(), 10, 1)
    rates.take(("principal", "ada"))
    with pytest.raises(Refused) as refused:
        rates.take(("principal", "ada"))
    assert refused.value.details["seconds"] == 1
    rates.take(("principal", "bob"))


def test_too_many_connections_are_turned_away() -> None:
    with serving(Application(limits=ServerLimits(connections_max=0))) as client:
        answer = client.get("/health")
    assert problem(answer) == (503, "unavailable")


@pytest.mark.parametrize("encoding", ["", "gzip"])
@pytest.mark.parametrize("path", ["documents/budget/push", "records/report"])
def test_a_disconnect_during_a_request_body_is_not_logged_as_an_error(
    encoding: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store("memory:")
    store.create("acme", "budget")
    messages: list[Any] = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    statuses: list[int] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    headers = {"host": "localhost", "content-type": "application/json", "content-length": "1000"}
    headers |= {"content-encoding": encoding} if encoding else {}
    raw = f"/v1/organisations/acme/{path}"
    scope: Any = {"type": "http", "method": "PUT" if "records" in path else "POST", "path": raw, "query_string": b""}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope |= {"raw_path": raw.encode(), "client": None, "server": None, "scheme": "http", "http_version": "1.1"}
    with caplog.at_level(logging.ERROR):
        asyncio.run(create_app(store)(scope, receive, send))
    assert (statuses, caplog.records) == ([400], [])


def test_unknown_paths_and_methods_are_answered_in_the_error_format(client: Client) -> None:
    assert problem(client.get("/v1/nothing")) == (404, "not-found")
    assert problem(client.patch(BUDGET)) == (405, "method-not-allowed")
    assert problem(client.get(f"{BUDGET}/state?at=x")) == (400, "invalid")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Unavailable("the index is away"), 503),
        (OutcomeUnknown("the answer was lost"), 504),
        (Corrupt("bytes are damaged"), 500),
        (RuntimeError("secret /etc/path"), 500),
    ],
)
def test_a_store_error_is_answered_with_its_status_and_without_a_traceback(
    error: Exception, status: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    store = open_store("memory:")
    with serving(store=store) as client, caplog.at_level(logging.ERROR):
        monkeypatch.setattr(store.environment.index, "get", fail)
        answer = client.get(BUDGET)
    assert problem(answer)[0] == status
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert caplog.records


def test_answers_in_json_forbid_caching_and_content_type_sniffing(client: Client) -> None:
    for answer in (client.get("/health"), client.get(BUDGET), client.get("/nothing", headers={"Host": "evil.example"})):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_metrics_of_a_metered_store_include_billed_aws_units() -> None:
    with serving(store=open_store("memory:", meter=Meter())) as client:
        client.put(BUDGET)
        push(client, mutation("ada", 1, key="k", value=1))
        assert 'stratalog_billed_total{operation="PutItem",unit="write_units"} 1.0' in client.get("/metrics").text


def test_the_metrics_include_the_counters_of_alarms_before_their_first_event(client: Client) -> None:
    """If a counter first appears with its first event, an alarm on its increase misses that event."""
    text = client.get("/metrics").text
    for what in (
        "unexpected_exception_in_a_mutator",
        "mutation_rejected_after_the_last_attempt",
        "dead_letter_of_the_queue",
        "dead_letter_of_a_record",
        "cookie_of_a_lost_branch",
    ):
        assert f'stratalog_core_total{{what="{what}"}} 0.0' in text


def test_the_metrics_contain_no_names_from_requests(client: Client) -> None:
    client.put(BUDGET)
    push(client, mutation("ada", 1, key="k", value=1))
    client.request("BREW", "/coffee/acme")
    text = client.get("/metrics").text
    assert 'stratalog_mutations_total{status="applied"} 1.0' in text
    assert "{document}/push" in text
    for name in ("acme", "budget", "ada", "BREW"):
        assert name not in text


def test_the_server_s_own_pages_may_call_it_behind_a_tls_proxy(client: Client) -> None:
    """The proxy sends plain HTTP to the server, but the origin of a page in the browser has `https`."""
    for origin in (f"https://{HOST}", f"http://{HOST}"):
        assert client.get("/health", headers={"Host": HOST, "Origin": origin}).status_code == 200
    assert problem(client.get("/health", headers={"Host": HOST, "Origin": PAGE})) == (403, "forbidden")


def test_large_bodies_are_decoded_and_encoded_off_the_event_loop(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_on_loop: dict[str, list[bool]] = {"decode_body": [], "encode_body": []}

    def watch(name: str) -> None:
        function = getattr(bodies, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            is_on_loop[name].append(asyncio._get_running_loop() is not None)
            return function(*arguments, **options)

        monkeypatch.setattr(bodies, name, watched)

    client.put(BUDGET)
    watch("decode_body")
    watch("encode_body")
    push(client, *(mutation("c1", id, key=f"c/{id}", value="x" * 60_000) for id in (1, 2)))
    assert is_on_loop["decode_body"] == [False]
    is_on_loop["encode_body"].clear()
    assert len(client.post(f"{BUDGET}/pull", json={"group": "g"}).content) > 100_000
    assert is_on_loop["encode_body"] == [False]
