"""A trusted proxy's header gives the address of the caller. The server ignores the header of any other peer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from stratalog.errors import Invalid
from stratalog.server.app import create_app
from stratalog.server.application import Application, ServerLimits
from stratalog.server.audit import Audit
from stratalog.server.line_log import LineLog
from stratalog.server.security import Principal, StaticTokens
from stratalog.server.trusted_proxies import TrustedProxies
from stratalog.store import open_store

PROXY = "10.0.0.5"
PROXIES = (PROXY, "192.0.2.0/24", "2001:db8:1::/48")
TOKENS = StaticTokens({"ada": Principal(id="u-ada")})


@pytest.mark.parametrize(
    ("peer", "header", "caller"),
    [
        (PROXY, "203.0.113.9", "203.0.113.9"),
        (PROXY, "1.1.1.1, 203.0.113.9", "203.0.113.9"),
        (PROXY, "1.1.1.1, 203.0.113.9, 192.0.2.77", "203.0.113.9"),
        (PROXY, "192.0.2.1,192.0.2.2", "192.0.2.1"),
        (PROXY, "203.0.113.9:4711", "203.0.113.9"),
        (PROXY, "[2001:db8:2::9]:4711", "2001:db8:2::9"),
        (PROXY, "203.0.113.9, 2001:db8:1::5", "203.0.113.9"),
        (PROXY, "::ffff:203.0.113.9", "203.0.113.9"),
        ("::ffff:10.0.0.5", "203.0.113.9", "203.0.113.9"),
        (PROXY, "", PROXY),
        (PROXY, "unknown", PROXY),
        (PROXY, "203.0.113.9, localhost, 192.0.2.7", "192.0.2.7"),
        (PROXY, "203.0.113.9, " + "1" * 10_000, PROXY),
        ("10.0.0.6", "203.0.113.9", "10.0.0.6"),
        ("testclient", "203.0.113.9", "testclient"),
    ],
)
def test_the_caller_is_the_rightmost_address_that_is_no_trusted_proxy(peer: str, header: str, caller: str) -> None:
    assert TrustedProxies(PROXIES).caller_of(peer, [header.encode()]) == caller


def test_several_headers_are_read_as_a_single_list_in_their_order() -> None:
    assert TrustedProxies(PROXIES).caller_of(PROXY, [b"1.1.1.1", b"203.0.113.9, 192.0.2.7"]) == "203.0.113.9"


@pytest.mark.parametrize("proxy", ["*", "10.0.0.1/8", "proxy.example", "", "10.0.0.0/33"])
def test_an_invalid_address_of_a_trusted_proxy_is_refused_at_the_start(proxy: str) -> None:
    with pytest.raises(Invalid, match="trusted proxy"):
        create_app(open_store("memory:"), Application(trusted_proxies=(proxy,)))


def test_invalid_tokens_behind_a_trusted_proxy_count_for_each_caller_s_own_address(tmp_path: Path) -> None:
    limits = ServerLimits(invalid_tokens_per_second=0.001, invalid_tokens_burst=2, invalid_token_wait_seconds=0)
    statuses, lines = ask_all(tmp_path, Application(authenticate=TOKENS, limits=limits, trusted_proxies=(PROXY,)))
    assert statuses == [401, 401, 429, 401]
    assert lines == ["203.0.113.1"] * 3 + ["2001:db8:2::"]


def test_the_header_of_a_peer_that_is_not_trusted_is_ignored(tmp_path: Path) -> None:
    limits = ServerLimits(invalid_tokens_per_second=0.001, invalid_tokens_burst=2, invalid_token_wait_seconds=0)
    statuses, lines = ask_all(tmp_path, Application(authenticate=TOKENS, limits=limits))
    assert statuses == [401, 401, 429, 429]
    assert lines == [PROXY] * 4


def test_a_connection_counts_for_its_address_while_its_refusal_is_delayed(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ServerLimits(invalid_tokens_burst=1)
    app = create_app(open_store("memory:"), Application(authenticate=TOKENS, limits=limits))
    service, address = app.state.service, "203.0.113.1"
    waits: list[tuple[float, int]] = []

    async def sleep(seconds: float) -> None:
        waits.append((seconds, service.connections.connections.used_by(("address", address))))

    monkeypatch.setattr(service.authentication, "_sleep", sleep)
    assert asyncio.run(ask(app, "", peer=address)) == 401
    assert waits == [(limits.invalid_token_wait_seconds, 1)]


def test_without_authentication_a_caller_from_another_machine_is_refused_behind_a_local_proxy() -> None:
    store = open_store("memory:")
    local = Application(trusted_proxies=("127.0.0.1",))
    assert asyncio.run(ask(create_app(store, local), "203.0.113.1", peer="127.0.0.1")) == 403
    assert asyncio.run(ask(create_app(store, local), "127.0.0.1", peer="127.0.0.1")) == 200


def ask_all(folder: Path, application: Application) -> tuple[list[int], list[str]]:
    """Send four requests of two callers via the proxy. Return the statuses and the logged addresses."""
    store = open_store("memory:")
    log = LineLog(str(folder / "access"), store.environment.clock, 1000)
    app = create_app(store, application, audit=Audit(store.environment.clock, log))

    async def run() -> list[int]:
        return [await ask(app, caller) for caller in ["1.1.1.1, 203.0.113.1"] * 3 + ["2001:db8:2::1"]]

    statuses = asyncio.run(run())
    log.close()
    return statuses, [json.loads(line)["address"] for line in (folder / "access").read_text().splitlines()]


async def ask(app: Any, forwarded: str, peer: str = PROXY) -> int:
    """Request the list of documents with an unknown token, and return the status of the answer."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = {"host": "localhost", "authorization": "Bearer guess", "x-forwarded-for": forwarded}
    await app(
        {
            "type": "http",
            "method": "GET",
            "path": "/v1/organisations/acme",
            "raw_path": b"/v1/organisations/acme",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": (peer, 1),
            "server": ("localhost", 80),
            "scheme": "http",
            "root_path": "",
            "http_version": "1.1",
        },
        receive,
        send,
    )
    return int(sent[0]["status"])
