"""The server closes a live connection when the caller has lost the right to read."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from litestar.exceptions import WebSocketDisconnect

from stratalog.errors import StratalogError, Unavailable
from stratalog.limits import INVALID_TOKEN_WAIT_SECONDS, INVALID_TOKENS_BURST
from stratalog.server.app import create_app
from stratalog.server.application import Application, ServerLimits
from stratalog.server.errors import Refused
from stratalog.server.live_right import LiveRight
from stratalog.server.security import Principal
from stratalog.store import Store, open_store
from stratalog.testing.clock import ManualClock
from tests.server.api import BUDGET, serving, until_closed

ADA = {"Authorization": "Bearer ada"}


class Rules:
    """Rules of an application that the tests change."""

    def __init__(self) -> None:
        self.principals: dict[str, Principal] = {"ada": Principal(id="u-ada")}
        self.may_read = True
        self.is_away = False
        self.cannot_decide = False

    def authenticate(self, token: str) -> Principal | None:
        if self.is_away:
            raise Unavailable("no keys")
        return self.principals.get(token)

    def authorize(self, principal: Principal, action: str, organisation: str, name: str) -> bool:
        if self.cannot_decide:
            raise Unavailable("no rights")
        return self.may_read

    def application(self, heartbeat_seconds: float) -> Application:
        limits = ServerLimits(live_heartbeat_seconds=heartbeat_seconds)
        return Application(authenticate=self.authenticate, authorize=self.authorize, limits=limits)


def asked(rules: Rules, clock: ManualClock) -> tuple[LiveRight, Store]:
    store = open_store("memory:", clock=clock)
    service = create_app(store, rules.application(20)).state.service
    right = LiveRight(service, "ada", "10.0.0.1", "acme", "budget")
    asyncio.run(right.ask())
    return right, store


def again(right: LiveRight) -> StratalogError | None:
    return asyncio.run(right.ask_again())


def test_the_refusal_of_a_live_connection_is_delayed_for_an_address_that_guesses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules, slept = Rules(), list[float]()
    right, _ = asked(rules, ManualClock())
    authentication = right._service.authentication

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(authentication, "_sleep", sleep)
    rules.principals.clear()
    with pytest.raises(Refused):
        asyncio.run(right.ask())
    assert slept == []
    authentication.invalid_tokens.take(("address", "10.0.0.1"), INVALID_TOKENS_BURST - 1)
    with pytest.raises(Refused):
        asyncio.run(right.ask())
    assert slept == [INVALID_TOKEN_WAIT_SECONDS]


@pytest.mark.parametrize(("change", "code"), [("may_read", "forbidden"), ("principals", "unauthenticated")])
def test_a_revoked_right_is_noticed_at_the_next_heartbeat(change: str, code: str) -> None:
    rules, clock = Rules(), ManualClock()
    right, _ = asked(rules, clock)
    setattr(rules, change, type(getattr(rules, change))())
    assert again(right) is None
    assert right.due_seconds() == 20
    clock.sleep(20)
    error = again(right)
    assert error is not None
    assert getattr(error, "wire_code", error.code) == code


def test_a_right_ends_when_its_token_expires_and_not_a_heartbeat_later() -> None:
    rules, clock = Rules(), ManualClock()
    rules.principals["ada"] = Principal(id="u-ada", expires_ms=clock.wall_ms() + 3000)
    right, _ = asked(rules, clock)
    assert right.due_seconds() == 3
    clock.sleep(2)
    assert again(right) is None
    assert right.due_seconds() == 1
    clock.sleep(1)
    assert right.due_seconds() == 0
    error = again(right)
    assert isinstance(error, Refused)
    assert (error.status, error.message) == (401, "the token has expired")


def test_connections_that_begin_together_are_checked_at_different_times() -> None:
    clock = ManualClock()
    service = create_app(open_store("memory:", clock=clock), Rules().application(20)).state.service
    rights = [LiveRight(service, "ada", "10.0.0.1", "acme", "budget") for _ in range(200)]
    for right in rights:
        asyncio.run(right.ask())
    in_each_second = Counter(int(min(right.due_seconds(), 19.9)) for right in rights)
    assert max(in_each_second.values()) <= 12
    clock.sleep(20)
    for right in rights:
        assert right.due_seconds() == 0, "the check comes later than one heartbeat"
        assert again(right) is None
        assert right.due_seconds() == 20


def test_a_token_that_now_belongs_to_another_principal_ends_the_connection() -> None:
    rules, clock = Rules(), ManualClock()
    right, _ = asked(rules, clock)
    rules.principals["ada"] = Principal(id="u-eve")
    clock.sleep(20)
    assert again(right) is not None


def test_a_live_connection_stays_open_while_its_right_cannot_be_checked() -> None:
    rules, clock = Rules(), ManualClock()
    right, _ = asked(rules, clock)
    rules.is_away, rules.may_read = True, False
    clock.sleep(20)
    assert again(right) is None
    rules.is_away = False
    clock.sleep(20)
    assert again(right) is not None


def test_a_changed_principal_ends_the_connection_even_if_its_right_could_first_not_be_checked() -> None:
    rules, clock = Rules(), ManualClock()
    right, _ = asked(rules, clock)
    rules.principals["ada"] = Principal(id="u-eve")
    rules.cannot_decide = True
    clock.sleep(20)
    assert again(right) is None
    rules.cannot_decide = False
    clock.sleep(20)
    assert again(right) is not None


def test_a_websocket_is_closed_with_4403_after_its_right_is_withdrawn() -> None:
    rules = Rules()
    with serving(rules.application(0.01)) as client:
        client.put(BUDGET, headers=ADA)
        with client.websocket_connect(f"{BUDGET}/live") as socket:
            socket.send_json({"type": "hello", "token": "ada"})
            assert socket.receive_json()["type"] == "ready"
            rules.may_read = False
            with pytest.raises(WebSocketDisconnect) as closed:
                until_closed(socket)
    assert closed.value.code == 4403


def test_a_websocket_closed_for_an_invalid_token_states_the_reason() -> None:
    with serving(Rules().application(20)) as client, client.websocket_connect(f"{BUDGET}/live") as socket:
        socket.send_json({"type": "hello", "token": "wrong"})
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_json()
    assert (closed.value.code, closed.value.detail) == (4401, "invalid token")
