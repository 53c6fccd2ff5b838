"""Authentication and authorisation: tokens, an application's rules, and clients bound to their principal."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from http.client import BadStatusLine, IncompleteRead
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any, get_args

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from litestar.exceptions import WebSocketDisconnect

from stratalog.errors import Invalid, Unavailable
from stratalog.server import live
from stratalog.server import web_tokens as tokens_module
from stratalog.server.application import Application
from stratalog.server.security import Action, Principal, StaticTokens, is_expired
from stratalog.server.web_tokens import WebTokens
from stratalog.testing.clock import ManualClock
from tests.server.api import BUDGET, STORY_SECONDS_MAX, Client, mutation, problem, push, serving

ADA = {"Authorization": "Bearer ada-token"}
BOB = {"Authorization": "Bearer bob-token"}
READER = {"Authorization": "Bearer reader-token"}
TOKENS = StaticTokens(
    {
        "ada-token": Principal(id="u-ada", name="Ada"),
        "bob-token": Principal(id="u-bob"),
        "reader-token": Principal(id="u-eve", read_only=True),
    }
)


@pytest.fixture
def guarded() -> Iterator[Client]:
    with serving(Application(authenticate=TOKENS)) as client:
        assert client.put(BUDGET, headers=ADA).status_code == 201
        yield client


def test_a_request_without_a_valid_token_is_unauthenticated(guarded: Client) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic YTpi"}, {"Authorization": ""}):
        answer = guarded.get(BUDGET, headers=headers)
        assert problem(answer) == (401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert problem(guarded.get(f"{BUDGET}?token=ada-token")) == (401, "unauthenticated")
    assert problem(guarded.get("/metrics")) == (401, "unauthenticated")
    assert problem(guarded.get(BUDGET, headers={"Authorization": "Bearer " + "x" * 9000})) == (401, "unauthenticated")


def test_health_needs_no_token(guarded: Client) -> None:
    assert guarded.get("/health").status_code == 200
    assert guarded.get("/schema/openapi.json").status_code == 200


def test_the_author_of_a_version_is_the_name_of_the_principal(guarded: Client) -> None:
    push(guarded, mutation("c1", 1, key="k", value=1), **ADA)
    version = guarded.get(f"{BUDGET}/versions", headers=ADA).json()["versions"][0]["version"]
    assert version["author"] == "Ada"


def test_a_read_only_token_can_read_and_cannot_write(guarded: Client) -> None:
    assert guarded.get(f"{BUDGET}/state", headers=READER).status_code == 200
    assert guarded.post(f"{BUDGET}/pull", json={"group": "g"}, headers=READER).status_code == 200
    body = {"group": "g", "mutations": [mutation("c", 1, key="k", value=1)]}
    for call in (
        guarded.post(f"{BUDGET}/push", json=body, headers=READER),
        guarded.post(f"{BUDGET}/replicache/push", json={"pushVersion": 1}, headers=READER),
        guarded.post(f"{BUDGET}/fork", json={"name": "copy"}, headers=READER),
        guarded.post(f"{BUDGET}/merge", json={"document": "budget"}, headers=READER),
        guarded.delete(BUDGET, headers=READER),
        guarded.put("/v1/organisations/acme/documents/new", headers=READER),
        guarded.put("/v1/organisations/acme/records/r", content=b"x", headers=READER),
        guarded.put("/v1/organisations/acme/logs/l", headers=READER),
    ):
        assert problem(call) == (403, "forbidden")
    assert guarded.get(BUDGET, headers=ADA).json()["version"] == 0


def test_a_client_is_bound_to_the_principal_that_used_it_first(guarded: Client) -> None:
    push(guarded, mutation("c1", 1, key="k", value=1), group="g1", **ADA)
    stolen = push(guarded, mutation("c1", 2, key="k", value=2), group="g1", **BOB)
    joined = push(guarded, mutation("c2", 1, key="k", value=3), group="g1", **BOB)
    assert [outcome["status"] for outcome in stolen + joined] == ["wrong-group", "wrong-group"]
    assert problem(guarded.post(f"{BUDGET}/pull", json={"group": "g1"}, headers=BOB)) == (403, "forbidden")


def test_the_application_s_rules_get_the_action_and_name_of_each_request() -> None:
    asked: list[tuple[str, Action, str, str]] = []

    def authorize(principal: Principal, action: Action, organisation: str, name: str) -> bool:
        asked.append((principal.id, action, organisation, name))
        return action != "write" and name != "secret"

    with serving(Application(authenticate=TOKENS, authorize=authorize)) as client:
        assert client.put(BUDGET, headers=ADA).status_code == 201
        body = {"group": "g", "mutations": []}
        assert problem(client.post(f"{BUDGET}/push", json=body, headers=ADA)) == (403, "forbidden")
        assert problem(client.post(f"{BUDGET}/fork", json={"name": "secret"}, headers=ADA)) == (403, "forbidden")
        client.get("/v1/organisations/acme", headers=BOB)
        client.get("/v1/organisations/acme/records/r", headers=BOB)
    assert asked == [
        ("u-ada", "create", "acme", "budget"),
        ("u-ada", "write", "acme", "budget"),
        ("u-ada", "read", "acme", "budget"),
        ("u-ada", "create", "acme", "secret"),
        ("u-bob", "list", "acme", ""),
        ("u-bob", "read-record", "acme", "r"),
    ]


def test_every_handler_of_the_api_declares_an_action(client: Client) -> None:
    handlers = [
        (route.path, handler)
        for route in client.app.routes
        for handler in getattr(route, "route_handlers", [])
        if route.path.startswith("/v1") and "OPTIONS" not in handler.http_methods
    ]
    assert len(handlers) > 30
    assert [path for path, handler in handlers if handler.opt.get("action") not in get_args(Action)] == []


def test_a_long_author_name_is_truncated_in_the_history(client: Client) -> None:
    long = StaticTokens({"t": Principal(id="u-1", name="Ä" * 100)})
    headers = {"Authorization": "Bearer t"}
    with serving(Application(authenticate=long)) as guarded:
        guarded.put(BUDGET, headers=headers)
        push(guarded, mutation("c1", 1, key="k", value=1), **headers)
        version = guarded.get(f"{BUDGET}/versions", headers=headers).json()["versions"][0]["version"]
    assert version["author"] == "Ä" * 64


def test_the_rules_may_be_asynchronous() -> None:
    async def authenticate(token: str) -> Principal | None:
        return Principal(id=token) if token.startswith("u-") else None

    async def authorize(principal: Principal, action: Action, organisation: str, name: str) -> bool:
        return organisation == "acme"

    with serving(Application(authenticate=authenticate, authorize=authorize)) as client:
        headers = {"Authorization": "Bearer u-1"}
        assert client.put(BUDGET, headers=headers).status_code == 201
        assert problem(client.put("/v1/organisations/zeta/documents/d", headers=headers)) == (403, "forbidden")
        assert problem(client.get(BUDGET, headers={"Authorization": "Bearer x"})) == (401, "unauthenticated")


def test_a_live_connection_accepts_its_token_in_the_hello_or_as_a_subprotocol(guarded: Client) -> None:
    with guarded.websocket_connect(f"{BUDGET}/live") as socket:
        socket.send_json({"type": "hello", "token": "reader-token"})
        assert socket.receive_json()["type"] == "ready"
    offered = ["stratalog.live.1", "bearer.reader-token"]
    with guarded.websocket_connect(f"{BUDGET}/live", subprotocols=offered) as socket:
        assert socket.accepted_subprotocol == "stratalog.live.1"
        assert socket.receive_json()["type"] == "ready"


@pytest.mark.parametrize("first", [{"type": "hello", "token": "wrong"}, {"type": "hello"}, {"type": "presence"}])
def test_a_live_connection_without_a_valid_token_is_closed(guarded: Client, first: dict[str, str]) -> None:
    with guarded.websocket_connect(f"{BUDGET}/live?token=ada-token") as socket:
        socket.send_json(first)
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_json()
    assert closed.value.code == 4401


def test_a_live_connection_that_sends_no_hello_in_time_is_closed(
    guarded: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LIVE_HELLO_SECONDS_MAX", 0.01)
    with guarded.websocket_connect(f"{BUDGET}/live") as silent, pytest.raises(WebSocketDisconnect) as closed:
        silent.receive_json()
    assert closed.value.code == 4401


def test_the_history_distinguishes_two_principals_of_the_same_name() -> None:
    tokens = {f"{name}-token": Principal(id=name, name="Ada Lovelace") for name in ("ada", "mallory")}
    with serving(Application(authenticate=StaticTokens(tokens))) as client:
        client.put(BUDGET, headers=ADA)
        for name in ("ada", "mallory"):
            push(client, mutation(name, 1, key="a", value=name), group=name, Authorization=f"Bearer {name}-token")
        versions = client.get(f"{BUDGET}/versions", headers=ADA).json()["versions"]
    authors = [(row["version"]["author"], row["version"]["principal"]) for row in versions]
    assert authors == [("Ada Lovelace", "ada"), ("Ada Lovelace", "mallory")]


def test_no_log_message_contains_a_token(guarded: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        guarded.get(BUDGET, headers=ADA)
        guarded.get(BUDGET, headers={"Authorization": "Bearer wrong-token"})
    assert "ada-token" not in caplog.text
    assert "wrong-token" not in caplog.text


KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE = ec.generate_private_key(ec.SECP256R1())


def key_set() -> Mapping[str, Any]:
    public = json.loads(RSAAlgorithm.to_jwk(KEY.public_key()))
    curve = json.loads(ECAlgorithm.to_jwk(CURVE.public_key()))
    return {"keys": [{**public, "kid": "k1", "alg": "RS256"}, {**curve, "kid": "k2", "alg": "ES256"}]}


def claims(**changes: Any) -> dict[str, Any]:
    usual = {"sub": "u-ada", "aud": "stratalog", "iss": "https://id.example", "exp": 4_000_000_000, "name": "Ada"}
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def token(key: Any = KEY, algorithm: str = "RS256", kid: str | None = "k1", **changes: Any) -> str:
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode(claims(**changes), key, algorithm=algorithm, headers=headers)


def web_tokens(**options: Any) -> WebTokens:
    given = {"algorithms": ["RS256"], "audience": "stratalog", "issuer": "https://id.example"} | options
    return WebTokens(given.pop("keys", key_set), **given)


def test_a_valid_web_token_authenticates_its_subject() -> None:
    principal = web_tokens()(token(read_only=True))
    assert principal is not None
    assert (principal.id, principal.name, principal.read_only) == ("u-ada", "Ada", True)


def test_a_principal_expires_when_its_token_is_no_longer_accepted() -> None:
    """The token has expired, but today is still within the long leeway. So the principal must not have expired yet."""
    expired_s, leeway_seconds = 1_000_000_000, 3_000_000_000
    principal = web_tokens(leeway_seconds=leeway_seconds)(token(exp=expired_s))
    assert principal is not None
    assert not is_expired(principal, (expired_s + leeway_seconds) * 1000 - 1)
    assert is_expired(principal, (expired_s + leeway_seconds) * 1000)
    endless = web_tokens(principal=lambda claims: Principal(id="u-ada"))(token())
    assert endless == Principal(id="u-ada")


@pytest.mark.parametrize(
    "bad",
    [
        token(exp=1_000_000_000),
        token(exp=None),
        token(aud="another"),
        token(aud=None),
        token(iss="https://evil.example"),
        token(sub=None),
        token(sub=""),
        token(kid=None),
        token(kid="k9"),
        token(CURVE, "ES256", "k1"),
        token(CURVE, "ES256", "k2"),
        token(rsa.generate_private_key(public_exponent=65537, key_size=2048)),
        jwt.encode(claims(), None, algorithm="none", headers={"kid": "k1"}),
        jwt.encode(claims(), "a secret of thirty-two bytes ....", algorithm="HS256", headers={"kid": "k1"}),
        token()[:-4] + "AAAA",
        "",
        "a.b.c",
    ],
)
def test_an_invalid_web_token_authenticates_nobody(bad: str) -> None:
    assert web_tokens()(bad) is None


def test_web_tokens_accept_only_named_asymmetric_algorithms() -> None:
    assert web_tokens(algorithms=["ES256"])(token(CURVE, "ES256", "k2")) is not None
    for algorithms in ([], ["HS256"], ["none"], ["RS256", "HS256"]):
        with pytest.raises(Invalid):
            web_tokens(algorithms=algorithms)


def test_a_plain_http_address_for_keys_on_another_machine_is_refused() -> None:
    with pytest.raises(Invalid):
        web_tokens(keys="http://id.example/jwks.json")


def test_a_token_with_a_known_key_does_not_wait_for_a_fetch_of_keys() -> None:
    principals: list[Principal | None] = []
    in_time: list[int] = []

    def fetch() -> Mapping[str, Any]:
        if principals:
            reader = Thread(target=lambda: principals.append(tokens(token())), daemon=True)
            reader.start()
            reader.join(STORY_SECONDS_MAX)
            in_time.append(len(principals))
        return key_set()

    clock = ManualClock()
    tokens = web_tokens(keys=fetch, clock=clock)
    principals.append(tokens(token()))
    clock.sleep(61)
    assert tokens(token(kid="unknown")) is None
    assert in_time == [2]
    assert principals == [tokens(token())] * 2


class Issuer(BaseHTTPRequestHandler):
    """Serves keys at `/keys`, and redirects `/moved` to `/keys`."""

    def do_GET(self) -> None:
        moved = self.path == "/moved"
        self.send_response(302 if moved else 200)
        self.send_header("Location", "/keys")
        self.end_headers()
        self.wfile.write(json.dumps(key_set()).encode())

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def test_a_redirect_of_the_address_for_keys_is_not_followed() -> None:
    with HTTPServer(("127.0.0.1", 0), Issuer) as issuer:
        Thread(target=issuer.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{issuer.server_port}"
        assert web_tokens(keys=f"{address}/keys")(token()) is not None
        with pytest.raises(Unavailable):
            web_tokens(keys=f"{address}/moved")(token())
        issuer.shutdown()


def test_a_key_set_above_the_size_limit_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "TOKEN_KEYS_BYTES_MAX", 100)
    with HTTPServer(("127.0.0.1", 0), Issuer) as issuer:
        Thread(target=issuer.serve_forever, daemon=True).start()
        tokens = web_tokens(keys=f"http://127.0.0.1:{issuer.server_port}/keys")
        with pytest.raises(Unavailable):
            tokens(token())
        issuer.shutdown()


def test_a_fetch_of_keys_from_a_silent_issuer_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "TOKEN_KEYS_FETCH_SECONDS_MAX", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        tokens = web_tokens(keys=f"http://127.0.0.1:{silent.getsockname()[1]}/keys")
        with pytest.raises(Unavailable):
            tokens(token())


def test_unknown_keys_cause_no_more_than_a_single_fetch_per_minute() -> None:
    fetched: list[int] = []
    clock = ManualClock()

    def fetch() -> Mapping[str, Any]:
        fetched.append(clock.boot_ms())
        return key_set() if len(fetched) > 1 else {"keys": key_set()["keys"][1:]}

    tokens = web_tokens(keys=fetch, clock=clock)
    assert [tokens(token()) for _ in range(5)] == [None] * 5
    clock.sleep(61)
    assert tokens(token()) is not None
    assert [tokens(token(kid=f"k{number}")) for number in range(3, 9)] == [None] * 6
    assert len(fetched) == 2


def fails(error: Exception) -> Mapping[str, Any]:
    raise error


@pytest.mark.parametrize(
    "fetch",
    [
        lambda: fails(OSError("no route")),
        lambda: fails(BadStatusLine("HELLO")),
        lambda: fails(IncompleteRead(b"{")),
        lambda: fails(LookupError("of the application's own function")),
        lambda: {"keys": ["no key"]},
        lambda: {"keys": [{**key_set()["keys"][0], "kid": []}, {**key_set()["keys"][0], "kid": ["k1"]}]},
    ],
)
def test_known_keys_stay_valid_while_the_fetch_of_new_keys_fails(fetch: Callable[[], Mapping[str, Any]]) -> None:
    clock = ManualClock()
    fetches: list[Callable[[], Mapping[str, Any]]] = [key_set]
    fetched: list[int] = []

    def fetch_newest() -> Mapping[str, Any]:
        fetched.append(clock.boot_ms())
        return fetches[-1]()

    tokens = web_tokens(keys=fetch_newest, clock=clock)
    assert tokens(token()) is not None
    fetches.append(fetch)
    clock.sleep(7200)
    assert [tokens(token()) is not None for _ in range(3)] == [True] * 3
    assert len(fetched) == 2, "a failed fetch was repeated immediately"
    with pytest.raises(Unavailable):
        web_tokens(keys=fetch, clock=clock)(token())
