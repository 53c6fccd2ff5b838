"""Shares of connections: a caller cannot use up the connections of other callers."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
from litestar.exceptions import WebSocketDisconnect

from stratalog.server.app import create_app
from stratalog.server.application import Application, ServerLimits
from stratalog.server.byte_budgets import ByteBudgets, RequestBytes
from stratalog.server.connection_shares import SOCKET, ConnectionBudgets, address_of
from stratalog.server.errors import Refused
from stratalog.server.security import Principal, StaticTokens
from stratalog.server.shares import Budget
from stratalog.server.web_server import WebServer
from stratalog.store import open_store
from tests.server.api import BUDGET, Client, problem, run_in_time, serving

TOKENS = StaticTokens({name: Principal(id=f"u-{name}") for name in ("ada", "bob", "cat")})
LIMITS = ServerLimits(connections_max=20, live_connections_max=10, principal_share_max=0.2, organisation_share_max=0.5)
ADA, BOB, CAT = ({"Authorization": f"Bearer {name}"} for name in ("ada", "bob", "cat"))


def in_own_organisation(principal: Principal, action: str, organisation: str, name: str) -> bool:
    """Return whether a principal may act in an organisation: bob in `beta`, other principals in `acme`."""
    return not organisation or organisation == ("beta" if principal.id == "u-bob" else "acme")


def scope(address: str = "10.0.0.1") -> Any:
    return {"type": "http", "client": (address, 1)}


@pytest.fixture
def shared() -> Iterator[Client]:
    with serving(Application(authenticate=TOKENS, limits=LIMITS)) as client:
        client.put(BUDGET, headers=ADA)
        yield client


def listen(client: Client, stack: ExitStack, token: str) -> Any:
    socket = stack.enter_context(client.websocket_connect(f"{BUDGET}/live"))
    socket.send_json({"type": "hello", "token": token})
    return socket


def test_a_principal_at_its_share_of_live_connections_is_refused_and_another_is_not(shared: Client) -> None:
    with ExitStack() as stack:
        for _ in range(2):
            assert listen(shared, stack, "ada").receive_json()["type"] == "ready"
        third = listen(shared, stack, "ada")
        with pytest.raises(WebSocketDisconnect) as closed:
            third.receive_json()
        assert closed.value.code == 4429
        assert listen(shared, stack, "bob").receive_json()["type"] == "ready"
    with ExitStack() as stack:
        assert listen(shared, stack, "ada").receive_json()["type"] == "ready"


def test_a_connection_with_an_incomplete_body_counts_for_its_principal_and_not_for_its_address() -> None:
    application = Application(authenticate=TOKENS, limits=LIMITS)
    store = open_store("memory:")
    store.create("acme", "budget")
    app = create_app(store, application)

    async def ask(token: str, gone: asyncio.Event) -> list[Any]:
        sent: list[Any] = []

        async def receive() -> Any:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        path = f"{BUDGET}/pull"
        headers = {"host": "h", "authorization": f"Bearer {token}", "content-type": "application/json"}
        headers["content-length"] = "100"
        asked: Any = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("10.0.0.1", 1),
            "server": None,
            "scheme": "http",
            "http_version": "1.1",
        }
        await app(asked, receive, send)
        return sent

    async def run() -> None:
        gone, immediately = asyncio.Event(), asyncio.Event()
        immediately.set()
        halves = [asyncio.create_task(ask("ada", gone)) for _ in range(4)]
        budget = app.asgi_handler._connections.connections  # type: ignore[attr-defined]
        while budget.used < 4:
            await asyncio.sleep(0)
        # A connection counts for its principal only after the authentication, which runs on a thread.
        while budget.used_by(("principal", "u-ada")) < 4:
            await asyncio.sleep(0.005)
        assert (budget.used, budget.used_by(("principal", "u-ada"))) == (4, 4)
        assert budget.used_by(("address", "10.0.0.1")) == 0
        fifth = await ask("ada", immediately)
        assert fifth[0]["status"] == 429
        assert json.loads(fifth[1]["body"])["scope"] == "principal"
        assert (await ask("bob", immediately))[0]["status"] == 400
        gone.set()
        assert {(await half)[0]["status"] for half in halves} == {400}
        assert budget.used == 0

    run_in_time(run())


def test_a_full_organisation_refuses_a_connection_that_may_then_enter_another() -> None:
    budgets = ConnectionBudgets(LIMITS, is_shared=True)
    with ExitStack() as stack:
        for number in range(10):
            opened = stack.enter_context(budgets.open(scope()))
            opened.count_for_principal(f"u-{number}")
            opened.enter("acme")
        outsider = stack.enter_context(budgets.open(scope()))
        outsider.count_for_principal("u-x")
        with pytest.raises(Refused) as refused:
            outsider.enter("acme")
        assert (refused.value.status, refused.value.details["scope"]) == (429, "organisation")
        outsider.enter("beta")
    assert budgets.connections.used == 0


def test_an_authenticated_connection_no_longer_counts_for_its_address() -> None:
    budgets = ConnectionBudgets(LIMITS, is_shared=True)
    with ExitStack() as stack:
        for number in range(5):
            opened = stack.enter_context(budgets.open(scope()))
            opened.count_for_address()
            opened.count_for_principal(f"u-{number}")
        for _ in range(5):
            stack.enter_context(budgets.open(scope())).count_for_address()
        unknown = stack.enter_context(budgets.open(scope()))
        with pytest.raises(Refused, match="the address has used its share"):
            unknown.count_for_address()
        stack.enter_context(budgets.open(scope("10.0.0.2"))).count_for_address()


def test_a_connection_refused_by_a_principal_s_share_still_counts_for_its_address() -> None:
    budgets = ConnectionBudgets(LIMITS, is_shared=True)
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(budgets.open(scope())).count_for_principal("u-ada")
        fifth = stack.enter_context(budgets.open(scope()))
        fifth.count_for_address()
        with pytest.raises(Refused, match="the principal has used its share"):
            fifth.count_for_principal("u-ada")
        assert (fifth.principal, fifth.holder) == ("", ("address", "10.0.0.1"))
        assert fifth.holders == (("address", "10.0.0.1"),)


def test_a_request_on_a_socket_above_its_principal_s_share_counts_for_its_address_as_before() -> None:
    budgets, sockets = (
        ConnectionBudgets(LIMITS, is_shared=True),
        Budget("connections", 4, {"address": 2, "principal": 1}),
    )
    sockets.take(("principal", "ada"))
    socket = sockets.take(("address", "10.0.0.1"))
    with budgets.open({**scope(), SOCKET: socket}) as connection:
        connection.count_for_address()
        with pytest.raises(Refused, match="the principal has used its share"):
            connection.count_for_principal("ada")
        assert (connection.principal, connection.holders) == ("", (("address", "10.0.0.1"),))
        assert socket.holders == (("address", "10.0.0.1"),)
        assert budgets.connections.used_by(("principal", "ada")) == 0


def test_live_connections_cannot_use_all_connections() -> None:
    budgets = ConnectionBudgets(ServerLimits(connections_max=8, live_connections_max=100), is_shared=False)
    with ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(budgets.open(scope())).become_live()
        seventh = stack.enter_context(budgets.open(scope()))
        with pytest.raises(Refused) as refused:
            seventh.become_live()
        assert (refused.value.status, refused.value.details["limit"]) == (503, 6)


def test_shares_are_fractions_of_the_process_s_connection_limit() -> None:
    budgets = ConnectionBudgets(ServerLimits(connections_max=10_000), is_shared=True)
    budgets.bound(40)
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(budgets.open(scope())).count_for_principal("u-ada")
        fifth = stack.enter_context(budgets.open(scope()))
        with pytest.raises(Refused, match="the principal has used its share"):
            fifth.count_for_principal("u-ada")


def test_the_web_server_s_connection_limit_bounds_the_application_s_budget() -> None:
    app = create_app(open_store("memory:"), Application(authenticate=TOKENS))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        WebServer(app, listening, 40)
    assert app.asgi_handler._connections.connections.limit == 40  # type: ignore[attr-defined]


def test_without_authentication_nobody_has_a_share() -> None:
    budgets = ConnectionBudgets(LIMITS, is_shared=False)
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(budgets.open(scope())).count_for_address()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::9", "2001:db8:1:2::"),
        ("testclient", "testclient"),
    ],
)
def test_addresses_are_normalised_to_the_caller_s_network(text: str, address: str) -> None:
    assert address_of(scope(text)) == address


def test_the_addresses_of_a_network_share_a_byte_budget() -> None:
    limits = msgspec.structs.replace(LIMITS, body_bytes_in_flight_max=100, body_bytes_of_principal_max=10)
    connections, budgets = (
        ConnectionBudgets(limits, is_shared=True),
        ByteBudgets(Application(authenticate=TOKENS, limits=limits)),
    )
    callers = [scope("2001:db8:1:2::9"), scope("2001:db8:1:2::a"), scope("2001:db8:1:3::9")]
    for caller in callers:
        with connections.open(caller) as connection:
            connection.count_for_address()
    first, second, third = (RequestBytes(budgets, caller) for caller in callers)
    first.take_body(10)
    third.take_body(10)
    with pytest.raises(Refused) as refused:
        second.take_body(1)
    assert refused.value.details["scope"] == "address"


def test_callers_outside_an_organisation_use_none_of_its_body_bytes() -> None:
    limits = msgspec.structs.replace(LIMITS, body_bytes_in_flight_max=12, body_bytes_of_principal_max=3)
    connections, budgets = (
        ConnectionBudgets(limits, is_shared=True),
        ByteBudgets(Application(authenticate=TOKENS, limits=limits)),
    )
    for number in range(3):
        stranger = {**scope(), "path_params": {"organisation": "acme"}}
        with connections.open(stranger) as connection:
            connection.count_for_principal(f"u-{number}")
        RequestBytes(budgets, stranger).take_body(3)
    member = scope()
    with connections.open(member) as connection:
        connection.count_for_principal("u-ada")
        connection.enter("acme")
    RequestBytes(budgets, member).take_body(3)
    assert budgets.bodies.used_by(("organisation", "acme")) == 3


def test_the_rate_of_document_creations_of_a_principal_is_limited() -> None:
    limits = ServerLimits(creations_per_second=0.001, creations_burst=2)
    with serving(Application(authenticate=TOKENS, limits=limits)) as client:
        made = [client.put(f"/v1/organisations/acme/documents/d{number}", headers=ADA) for number in range(3)]
        assert [answer.status_code for answer in made[:2]] == [201, 201]
        assert problem(made[2]) == (429, "too-many-requests")
        assert client.put("/v1/organisations/acme/documents/d3", headers=BOB).status_code == 201
        assert client.get("/v1/organisations/acme/documents/d0", headers=ADA).status_code == 200


def test_the_request_rate_of_an_organisation_limits_all_its_principals_together() -> None:
    limits = ServerLimits(rate_organisation_requests_per_second=0.001, rate_organisation_requests_burst=3)
    with serving(Application(authenticate=TOKENS, authorize=in_own_organisation, limits=limits)) as client:
        client.put(BUDGET, headers=ADA)
        asked = [client.get(BUDGET, headers=headers) for headers in (ADA, CAT, ADA)]
        assert [answer.status_code for answer in asked[:2]] == [200, 200]
        assert problem(asked[2], scope=True) == (429, "too-many-requests")
        assert asked[2].json()["scope"] == "organisation"
        assert int(asked[2].headers["retry-after"]) > 1
        assert problem(client.get(f"{BUDGET}/events", headers=CAT), scope=True)[0] == 429
        assert client.put("/v1/organisations/beta/documents/plan", headers=BOB).status_code == 201
        text = client.get("/metrics", headers=BOB).text
    assert 'stratalog_rate_refusals_total{rate="requests",scope="organisation"} 2.0' in text


def test_forbidden_requests_do_not_use_the_organisation_s_request_rate() -> None:
    limits = ServerLimits(rate_organisation_requests_per_second=0.001, rate_organisation_requests_burst=2)
    with serving(Application(authenticate=TOKENS, authorize=in_own_organisation, limits=limits)) as client:
        assert {client.get(BUDGET, headers=BOB).status_code for _ in range(5)} == {403}
        assert client.put(BUDGET, headers=ADA).status_code == 201


def test_a_live_connection_counts_against_the_request_rates() -> None:
    for limits in (
        ServerLimits(rate_requests_per_second=0.001, rate_requests_burst=3),
        ServerLimits(rate_organisation_requests_per_second=0.001, rate_organisation_requests_burst=3),
    ):
        with serving(Application(authenticate=TOKENS, limits=limits)) as client, ExitStack() as stack:
            client.put(BUDGET, headers=ADA)
            for _ in range(2):
                assert listen(client, stack, "ada").receive_json()["type"] == "ready"
            third = listen(client, stack, "ada")
            with pytest.raises(WebSocketDisconnect) as closed:
                third.receive_json()
            assert closed.value.code == 4429


def test_without_authentication_an_organisation_has_no_rate() -> None:
    limits = ServerLimits(rate_organisation_requests_per_second=0.001, rate_organisation_requests_burst=1)
    with serving(Application(limits=limits)) as client:
        client.put(BUDGET)
        assert {client.get(BUDGET).status_code for _ in range(3)} == {200}


def test_the_connections_in_use_are_a_metric(shared: Client) -> None:
    with ExitStack() as stack:
        listen(shared, stack, "ada").receive_json()
        text = shared.get("/metrics", headers=BOB).text
    assert 'stratalog_connections_in_use{kind="all"} 2.0' in text
    assert 'stratalog_connections_in_use{kind="live"} 1.0' in text
