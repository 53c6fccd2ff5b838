"""API Gateway passes each request to a function as an event. The server's application answers these events."""

from __future__ import annotations

import gzip
import json
import random
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
import zstandard

from stratalog.aws.answers import GatewayAnswer, packing_of
from stratalog.aws.api import Api
from stratalog.aws.container import Container
from stratalog.errors import Invalid, LimitExceeded
from stratalog.limits import FUNCTION_ANSWER_BYTES_MAX, FUNCTION_UNPACKED_BYTES_MAX
from stratalog.protocol.live import Poke
from tests.aws.application import Held, app, container, event
from tests.aws.template import TOKENS
from tests.server.api import mutation

PLAN = "/v1/organisations/acme/documents/plan"


UNPACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "zstd": lambda body: zstandard.ZstdDecompressor().decompressobj().decompress(body),
}


@pytest.fixture
def made() -> Iterator[Callable[[Container], Api]]:
    """A function that makes the handler of a container. The fixture closes the handlers after the test."""
    with ExitStack() as ending:

        def make(held: Container) -> Api:
            api = Api(held)
            ending.callback(api.close)
            return api

        yield make


@pytest.fixture
def api(made: Callable[[Container], Api]) -> Api:
    api = made(container())
    api._container.store.create("acme", "plan")
    return api


def request(method: str, path: str, body: bytes = b"", query: str = "", **headers: str) -> dict[str, Any]:
    """Return the recorded event with another request in it."""
    event_data = event("http")
    http = {**event_data["requestContext"]["http"], "method": method, "path": path}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    host = event_data["requestContext"]["domainName"]
    return {
        **event_data,
        "rawPath": path,
        "rawQueryString": query,
        "cookies": [],
        "headers": {"host": host, "authorization": f"Bearer {TOKENS['ann']}", **named},
        "requestContext": {**event_data["requestContext"], "http": http},
        "body": b64encode(body).decode(),
    }


def body_of(answer: dict[str, Any]) -> Any:
    return json.loads(b64decode(answer["body"]))


def push(*mutations: dict[str, Any]) -> dict[str, Any]:
    body = msgspec.json.encode({"group": "g", "mutations": mutations})
    return request("POST", f"{PLAN}/push", body, content_type="application/json", content_length=str(len(body)))


def test_the_recorded_event_reaches_a_document_with_a_slash_in_its_name(api: Api) -> None:
    api._container.store.create("acme", "plan/2")
    recorded = event("http")
    refused = api.answer(recorded)
    assert (refused["statusCode"], body_of(refused)["value"]) == (400, "a")
    answer = api.answer({**recorded, "rawQueryString": ""})
    assert answer["statusCode"] == 200
    assert answer["headers"]["content-type"] == "application/msgpack"
    assert msgspec.msgpack.decode(b64decode(answer["body"])) == {"outcomes": [], "queued": False}


def test_a_name_with_a_slash_is_resolved_only_if_a_header_repeats_the_path(api: Api) -> None:
    api._container.store.create("acme", "plan/2")
    assert api.answer(request("GET", f"{PLAN}/2"))["statusCode"] == 404
    assert api.answer(request("GET", f"{PLAN}/2", stratalog_path=f"{PLAN}%2F2"))["statusCode"] == 200


def test_a_path_header_that_differs_from_the_gateway_s_path_is_ignored(api: Api) -> None:
    api._container.store.create("acme", "secret")
    answer = api.answer(request("GET", PLAN, stratalog_path=PLAN.replace("plan", "secret")))
    assert body_of(answer)["document"] == "plan"


@pytest.mark.parametrize("name", ["50 %", "50%25", "é", "a+b", "a&b=c"])
def test_names_without_a_slash_are_resolved_from_the_gateway_s_decoded_path(name: str, api: Api) -> None:
    api._container.store.create("acme", name)
    assert body_of(api.answer(request("GET", PLAN.replace("plan", name))))["document"] == name


def test_the_escaped_path_of_a_function_url_is_decoded(api: Api) -> None:
    api._container.store.create("acme", "plan/2")
    sent = request("GET", f"{PLAN}%2F2")
    sent["requestContext"]["domainName"] = "abcdef.lambda-url.eu-west-1.on.aws"
    assert api.answer(sent)["statusCode"] == 200


def test_the_stage_is_removed_from_the_path(api: Api) -> None:
    sent = request("GET", f"/prod{PLAN}")
    sent["requestContext"]["stage"] = "prod"
    assert body_of(api.answer(sent))["document"] == "plan"


def test_cookies_are_separate_fields_and_binary_bodies_are_base64(api: Api) -> None:
    answer = api.answer({**request("GET", "/cookies"), "cookies": ["theme=dark"]})
    assert [cookie.partition("=")[0] for cookie in answer["cookies"]] == ["theme", "seen"]
    assert b64decode(answer["body"]) == b"\x00\xff"


@pytest.mark.parametrize("token", ["", "Bearer nobody's"])
def test_a_request_without_a_valid_token_is_unauthenticated(token: str, api: Api) -> None:
    answer = api.answer(request("GET", PLAN, authorization=token))
    assert (answer["statusCode"], body_of(answer)["code"]) == (401, "unauthenticated")


def test_only_pages_of_allowed_origins_may_call_the_api(api: Api) -> None:
    assert api.answer(request("GET", PLAN, origin="https://evil.example"))["statusCode"] == 403
    allowed = api.answer(request("GET", PLAN, origin="https://app.example"))
    assert allowed["headers"]["access-control-allow-origin"] == "https://app.example"
    assert "stratalog-live" in allowed["headers"]["access-control-expose-headers"]


def test_without_authentication_every_request_is_forbidden(made: Callable[[Container], Api]) -> None:
    api = made(container(STRATALOG_APPLICATION=""))
    assert api.answer(request("GET", PLAN))["statusCode"] == 403


def test_an_answer_too_large_for_lambda_is_answered_limit_exceeded(api: Api) -> None:
    document = api._container.store.document("acme", "plan")
    document.mutate("put", {"key": "notes/large", "value": "x" * (FUNCTION_ANSWER_BYTES_MAX + 1)})
    answer = api.answer(request("GET", f"{PLAN}/item", query="key=notes/large", origin="https://app.example"))
    assert (answer["statusCode"], body_of(answer)["code"], body_of(answer)["limit"]) == (
        422,
        "limit-exceeded",
        FUNCTION_ANSWER_BYTES_MAX,
    )
    assert body_of(answer)["value"] > FUNCTION_ANSWER_BYTES_MAX
    assert "request a smaller range or a lower limit" in body_of(answer)["message"]
    assert "accept zstd or gzip" in body_of(answer)["message"]
    assert "access-control-allow-origin" in answer["headers"]


def test_a_write_whose_answer_is_too_large_for_lambda_has_an_unknown_outcome(api: Api) -> None:
    log = api._container.store.create_log("acme", "large")
    body = msgspec.json.encode(
        {"events": [{"type": "t", "data": "x" * FUNCTION_ANSWER_BYTES_MAX}], "expected": 0, "write_id": "once"}
    )
    path = "/v1/organisations/acme/logs/large/append"
    for _ in range(2):
        answer = api.answer(request("POST", path, body, content_type="application/json"))
        assert (answer["statusCode"], body_of(answer)["code"]) == (504, "outcome-unknown")
        assert body_of(answer)["message"].startswith("the request may have been applied, but the response is too large")
    assert log.head().version == 1


def test_a_replay_whose_answer_is_too_large_for_lambda_has_written_nothing(api: Api) -> None:
    fork = api._container.store.document("acme", "plan").fork("copy")
    fork.mutate("put", {"key": "notes/large", "value": "x" * FUNCTION_ANSWER_BYTES_MAX})
    path, body = "/v1/organisations/acme/documents/copy/replay", b'{"document": "plan"}'
    answer = api.answer(request("POST", path, body, content_type="application/json"))
    assert (answer["statusCode"], body_of(answer)["code"]) == (422, "limit-exceeded")


def test_the_largest_allowed_answer_fits_the_limit_of_lambda(api: Api) -> None:
    document = api._container.store.document("acme", "plan")
    document.mutate("put", {"key": "notes/large", "value": "x" * (FUNCTION_ANSWER_BYTES_MAX - 1000)})
    answer = api.answer(request("GET", f"{PLAN}/item", query="key=notes/large"))
    assert answer["statusCode"] == 200
    assert FUNCTION_ANSWER_BYTES_MAX < len(json.dumps(answer)) < 6 * 1024 * 1024


def test_an_answer_too_large_for_lambda_is_compressed_if_the_caller_accepts_it(api: Api) -> None:
    document = api._container.store.document("acme", "plan")
    document.mutate("put", {"key": "notes/large", "value": "x" * (FUNCTION_ANSWER_BYTES_MAX + 1)})
    for packing, unpacked in UNPACKED.items():
        answer = api.answer(request("GET", f"{PLAN}/item", query="key=notes/large", accept_encoding=f"br, {packing}"))
        assert answer["statusCode"] == 200
        assert (answer["headers"]["content-encoding"], answer["headers"]["vary"]) == (packing, "accept-encoding")
        assert json.loads(unpacked(b64decode(answer["body"])))["value"] == "x" * (FUNCTION_ANSWER_BYTES_MAX + 1)


def test_an_answer_that_fits_is_not_compressed(api: Api) -> None:
    assert "content-encoding" not in api.answer(request("GET", PLAN, accept_encoding="gzip"))["headers"]


def test_an_answer_too_large_even_compressed_is_answered_limit_exceeded(api: Api) -> None:
    document = api._container.store.document("acme", "plan")
    document.mutate("put", {"key": "notes/large", "value": random.Random(0).randbytes(FUNCTION_ANSWER_BYTES_MAX).hex()})
    answer = api.answer(request("GET", f"{PLAN}/item", query="key=notes/large", accept_encoding="gzip"))
    assert (answer["statusCode"], body_of(answer)["code"]) == (422, "limit-exceeded")
    assert "request a smaller range or a lower limit" in body_of(answer)["message"]
    assert "gzip" not in body_of(answer)["message"]
    assert "content-encoding" not in answer["headers"]


def test_the_uncompressed_size_of_a_compressed_answer_is_bounded() -> None:
    answer = GatewayAnswer("zstd")
    answer.status = 200
    answer.add(bytes(FUNCTION_UNPACKED_BYTES_MAX))
    with pytest.raises(LimitExceeded):
        answer.add(b"1")


def test_a_large_record_is_compressed_with_a_weak_etag_and_its_ranges_are_not(api: Api) -> None:
    path, body = "/v1/organisations/acme/records/report", b"0123456789abcdef" * 600_000
    api._container.store.records("acme").put("report", body)
    compressed = api.answer(request("GET", path, accept_encoding="gzip"))
    assert gzip.decompress(b64decode(compressed["body"])) == body
    assert "accept-ranges" not in compressed["headers"]
    tag = compressed["headers"]["etag"]
    assert tag.startswith('W/"')
    assert api.answer(request("GET", path, if_none_match=tag))["statusCode"] == 304
    span = f"bytes=0-{FUNCTION_ANSWER_BYTES_MAX}"
    assert api.answer(request("GET", path, accept_encoding="gzip", range=span))["statusCode"] == 422
    part = api.answer(request("GET", path, accept_encoding="gzip", range="bytes=0-9"))
    assert (part["statusCode"], b64decode(part["body"])) == (206, body[:10])


@pytest.mark.parametrize(
    ("accepted", "packing"),
    [
        ("gzip, deflate, br, zstd", "zstd"),
        ("br;q=1.0, GZIP;q=0.2", "gzip"),
        ("*", "zstd"),
        ("zstd;q=0, *", "gzip"),
        ("*;q=1, gzip; q=0.0, zstd;q=0.000", ""),
        ("br", ""),
        ("", ""),
    ],
)
def test_the_compression_follows_the_accept_encoding_header(accepted: str, packing: str) -> None:
    assert packing_of({"accept-encoding": accepted}) == packing


def test_an_event_stream_is_refused_with_501_and_does_not_block_the_function(api: Api) -> None:
    answer = api.answer(request("GET", f"{PLAN}/events"))
    assert (answer["statusCode"], body_of(answer)["code"]) == (501, "unsupported")
    assert api.answer(request("GET", PLAN))["statusCode"] == 200


def test_an_answer_names_the_websocket_address_in_a_header(api: Api) -> None:
    assert api.answer(request("GET", PLAN))["headers"]["stratalog-live"] == "wss://sockets.example/live"


def test_the_content_security_policy_allows_the_websocket_address(api: Api) -> None:
    policy = api.answer(request("GET", "/"))["headers"]["content-security-policy"]
    assert "connect-src 'self' wss://sockets.example;" in policy


def test_listeners_are_poked_before_the_answer_is_returned(made: Callable[[Container], Api]) -> None:
    held = Held()
    api = made(container(held))
    api._container.store.create("acme", "plan")
    api._container.listeners.join("b", "acme", "plan", None)
    assert api.answer(push(mutation("c", 1, key="k", value=1)))["statusCode"] == 200
    assert held.posted == [("b", Poke(1))]


def test_a_listener_that_is_gone_is_forgotten(made: Callable[[Container], Api]) -> None:
    held = Held()
    held.gone.add("b")
    api = made(container(held))
    api._container.store.create("acme", "plan")
    api._container.listeners.join("b", "acme", "plan", None)
    for id in (1, 2):
        api.answer(push(mutation("c", id, key="k", value=id)))
    assert held.posted == [("b", Poke(1))]
    assert api._container.listeners.name_of("b") is None


def test_a_container_appends_after_commits_of_another_container(api: Api, made: Callable[[Container], Api]) -> None:
    api.answer(push(mutation("c", 1, key="k", value=1)))
    other = made(container(store=api._container.store))
    other.answer(push(mutation("d", 1, key="k", value=2)))
    (outcome,) = body_of(api.answer(push(mutation("c", 2, key="k", value=3))))["outcomes"]
    assert (outcome["status"], outcome["version"]) == ("applied", 3)


@pytest.mark.parametrize(
    "environment",
    [{}, {"STRATALOG_STORE": "memory:", "STRATALOG_APPLICATION": "tests.aws.application:TOKENS"}],
)
def test_a_container_with_invalid_settings_does_not_start(environment: dict[str, str]) -> None:
    with pytest.raises(Invalid, match="STRATALOG"):
        Container(environment)


def test_a_container_uses_the_application_of_its_environment() -> None:
    assert container().application.mutators is app.mutators


@pytest.mark.parametrize("name", ["cookie", "x-title"])
def test_a_header_may_have_any_characters(api: Api, name: str) -> None:
    sent = request("GET", PLAN)
    sent |= {"cookies": ["a=表"]} if name == "cookie" else {"headers": {**sent["headers"], name: "é表\ud800"}}
    assert api.answer(sent)["statusCode"] == 200
