"""The handler of API Gateway's WebSocket events authenticates connections, sends pokes, and shows presence."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from stratalog.aws import listeners as gateway_listeners
from stratalog.aws.listeners import ANNOUNCE_SECONDS_MAX, THREADS, Listeners
from stratalog.aws.sockets import SILENCE_SECONDS, Sockets
from stratalog.client import HttpTransport
from stratalog.keys import listeners_partition
from stratalog.limits import GATEWAY_CONNECTION_SECONDS_MAX
from stratalog.ports.index import Item
from stratalog.protocol.live import Here, Poke, Ready
from stratalog.protocol.messages import Mutation
from stratalog.protocol.sync import Pull, Push
from stratalog.store import open_store
from stratalog.testing.clock import ManualClock
from tests.aws.application import Held, app, container, event
from tests.aws.deployed import ORGANISATION, Deployed
from tests.aws.template import TOKENS
from tests.client.helpers import memory_environment

SECONDS_MAX = 60
RECORDED = "DEKKqd8CoAMCEJQ="


class Room:
    """The handler on a store in memory, with one document whose name contains a slash. The tests move its clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.held = Held()
        self.container = container(self.held, open_store("memory:", rules=app.rules, clock=self.clock))
        self.sockets = Sockets(self.container)
        self.document = self.container.store.create("acme", "plan/2")

    def take(self, name: str, id: str = RECORDED, **message: Any) -> dict[str, Any]:
        event_data = event(f"socket-{name}")
        event_data["requestContext"]["connectionId"] = id
        return self.sockets.take({**event_data, "body": json.dumps(message)} if message else event_data)

    def hello(self, id: str = RECORDED, token: str = TOKENS["ann"]) -> None:
        self.take("message", id, type="hello", token=token, document="acme/plan%2F2")

    def listening(self) -> list[str]:
        return sorted(listener.id for listener in self.container.listeners._all(("acme", "plan/2"), True))


@pytest.fixture
def room() -> Iterator[Room]:
    room = Room()
    yield room
    room.sockets.close()


def test_a_connect_event_is_accepted_with_the_subprotocol(room: Room) -> None:
    answer = room.take("connect")
    assert answer == {"statusCode": 200, "headers": {"Sec-WebSocket-Protocol": "stratalog.live.1"}}
    assert room.listening() == []


def test_a_connect_event_may_have_a_header_with_any_characters(room: Room) -> None:
    sent = event("socket-connect")
    sent["headers"]["cookie"] = "a=表"
    assert room.sockets.take(sent)["statusCode"] == 200


def test_a_connect_event_of_another_origin_is_forbidden(room: Room) -> None:
    sent = event("socket-connect")
    sent["headers"]["origin"] = "https://evil.example"
    assert room.sockets.take(sent)["statusCode"] == 403


def test_a_connect_event_of_the_api_s_own_origin_is_accepted() -> None:
    sent = event("socket-connect")
    sent["headers"]["origin"] = "https://api.example"
    origins = "https://api.example https://other.example"
    with closing(Sockets(container(STRATALOG_ORIGINS=origins))) as sockets:
        assert sockets.take(sent)["statusCode"] == 200


def test_the_recorded_hello_is_answered_with_the_version_and_the_silence_limit(room: Room) -> None:
    room.document.mutate("put", {"key": "k", "value": 1})
    room.take("message")
    assert room.held.posted == [(RECORDED, Ready(RECORDED, 1, SILENCE_SECONDS))]
    assert room.listening() == [RECORDED]


def test_a_hello_after_the_end_of_its_connection_adds_no_listener(room: Room) -> None:
    room.held.gone.add(RECORDED)
    room.take("disconnect")
    room.hello()
    assert room.listening() == []
    assert room.container.listeners.name_of(RECORDED) is None


def test_a_connection_is_closed_15_minutes_after_its_hello_and_gets_no_more_pokes() -> None:
    environment, held = memory_environment(), Held()
    listeners = Listeners(environment, held)  # type: ignore[arg-type]
    listeners.join("a", "acme", "plan", None)
    environment.clock.sleep(15 * 60 - 1)
    listeners.announce("acme", "plan", Poke(1))
    environment.clock.sleep(1)
    listeners.announce("acme", "plan", Poke(2))
    assert (held.posted, held.closed) == ([("a", Poke(1))], ["a"])


def test_a_second_hello_for_another_document_closes_the_connection(room: Room) -> None:
    room.container.store.create("acme", "other")
    room.hello()
    room.take("message", type="hello", token=TOKENS["ann"], document="acme/other")
    assert room.held.closed == [RECORDED]
    room.container.listeners.announce("acme", "other", Poke(1))
    assert (RECORDED, Poke(1)) not in room.held.posted


def test_presence_right_after_the_hello_works_although_eventual_reads_lag(room: Room) -> None:
    room.hello("a")
    index = room.container.store.environment.index
    lagging = list(index.query(listeners_partition("acme", "plan/2")))
    original = index.query

    def query(partition: str, *, consistent: bool = True, **bounds: Any) -> Iterator[Item]:
        return original(partition, **bounds) if consistent else iter(lagging)

    index.query = query  # type: ignore[method-assign, assignment]
    room.hello("b")
    room.held.posted.clear()
    room.take("message", "b", type="presence", state=1)
    assert room.held.closed == []
    assert sorted(room.held.posted, key=lambda posted: posted[0]) == [(id, Here({"b": 1})) for id in ("a", "b")]


def test_a_connection_above_the_limit_of_shown_connections_stays_open_and_is_not_shown(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_listeners, "GATEWAY_SHOWN_MAX", 1)
    for id in ("a", "b"):
        room.hello(id)
        room.take("message", id, type="presence", state=id)
    assert room.held.closed == []
    assert room.listening() == ["a", "b"]
    room.take("message", "a", type="presence", state="again")
    assert room.held.posted[-1][1] == Here({"a": "again"})


def test_a_connection_that_is_shown_above_the_limit_can_change_its_state(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    for id in ("a", "b"):
        room.hello(id)
        room.take("message", id, type="presence", state=id)
    monkeypatch.setattr(gateway_listeners, "GATEWAY_SHOWN_MAX", 1)  # as if both had joined at the same time
    room.take("message", "a", type="presence", state="again")
    assert room.held.posted[-1][1] == Here({"a": "again", "b": "b"})


def test_the_presence_of_a_vanished_connection_is_removed(room: Room) -> None:
    for id in ("a", "b"):
        room.hello(id)
    room.take("message", "a", type="presence", state=1)
    room.held.gone.add("a")
    room.held.posted.clear()
    room.container.listeners.announce("acme", "plan/2", Poke(1))
    assert [message for id, message in room.held.posted if id == "b"] == [Poke(1), Here({})]
    assert room.listening() == ["b"]


def test_a_connection_that_leaves_during_its_presence_message_is_not_added_again(room: Room) -> None:
    room.hello("a")
    listeners = room.container.listeners
    original = listeners._all

    def meanwhile(*asked: Any) -> Iterator[Any]:
        listeners.leave("a")
        return original(*asked)

    listeners._all = meanwhile  # type: ignore[method-assign]
    listeners.show("a", 1)
    listeners._all = original  # type: ignore[method-assign]
    assert room.listening() == []


def test_a_disconnect_removes_the_listener(room: Room) -> None:
    room.hello()
    room.take("disconnect")
    assert room.listening() == []
    assert room.take("disconnect") == {"statusCode": 200}


@pytest.mark.parametrize(
    "message",
    [
        {"type": "hello", "token": "nobody's", "document": "acme/plan%2F2"},
        {"type": "hello", "token": TOKENS["ann"], "document": "acme/nothing"},
        {"type": "hello", "token": TOKENS["ann"], "document": "acme/plan/2"},
        {"type": "hello", "token": TOKENS["ann"]},
        {"type": "presence", "state": 1},
        {"type": "what"},
    ],
)
def test_an_invalid_message_closes_the_connection_and_adds_no_listener(message: dict[str, Any], room: Room) -> None:
    room.take("message", **message)
    assert room.held.closed == [RECORDED]
    assert room.listening() == []


def test_a_presence_with_an_integer_beyond_64_bits_closes_the_connection(room: Room) -> None:
    room.hello()
    assert room.take("message", type="presence", state={"number": 2**64}) == {"statusCode": 200}
    assert room.held.closed == [RECORDED]


def test_presence_is_sent_to_all_listeners_and_removed_on_disconnect(room: Room) -> None:
    room.hello("a")
    room.hello("b")
    room.held.posted.clear()
    room.take("message", "a", type="presence", state={"cell": "C2"})
    assert sorted(room.held.posted, key=lambda posted: posted[0]) == [
        (id, Here({"a": {"cell": "C2"}})) for id in ("a", "b")
    ]
    room.hello("c")
    assert room.held.posted[-1] == ("c", Here({"a": {"cell": "C2"}}))
    room.held.posted.clear()
    room.take("disconnect", "a")
    assert {id for id, message in room.held.posted if message == Here({})} == {"b", "c"}


def test_a_presence_state_above_the_size_limit_closes_the_connection(room: Room) -> None:
    room.hello()
    room.take("message", type="presence", state="x" * 1100)
    assert room.held.closed == [RECORDED]


def test_an_expired_listener_gets_no_poke_and_is_closed() -> None:
    environment, held = memory_environment(), Held()
    assert isinstance(environment.clock, ManualClock)
    listeners = Listeners(environment, held)  # type: ignore[arg-type]
    listeners.join("token", "acme", "plan", environment.clock.wall_ms() + 1000)
    listeners.join("gateway", "acme", "plan", None)
    environment.clock.sleep(2)
    listeners.announce("acme", "plan", Poke(1))
    assert (held.posted, held.closed) == ([("gateway", Poke(1))], ["token"])
    environment.clock.sleep(GATEWAY_CONNECTION_SECONDS_MAX)
    listeners.announce("acme", "plan", Poke(2))
    assert held.closed == ["token", "gateway"]


def test_a_failed_close_of_an_expired_listener_does_not_prevent_other_pokes() -> None:
    environment, held = memory_environment(), Held()
    listeners = Listeners(environment, held)  # type: ignore[arg-type]
    listeners.join("over", "acme", "plan", environment.clock.wall_ms())
    listeners.join("living", "acme", "plan", None)
    held.refused.add("over")
    listeners.announce("acme", "plan", Poke(1))
    assert held.posted == [("living", Poke(1))]
    held.refused.clear()
    listeners.announce("acme", "plan", Poke(2))
    assert held.closed == ["over"]


def test_an_announcement_to_slow_connections_ends_after_its_time_limit() -> None:
    environment, held = memory_environment(), Held()
    held.on_post = lambda: environment.clock.sleep(ANNOUNCE_SECONDS_MAX + 1)
    listeners = Listeners(environment, held)  # type: ignore[arg-type]
    for number in range(100):
        listeners.join(str(number), "acme", "plan", None)
    listeners.announce("acme", "plan", Poke(1))
    assert 1 <= len(held.posted) <= THREADS
    assert len(list(listeners._all(("acme", "plan"), True))) == 100


def kinds(deployed: Deployed) -> list[str]:
    """Return the types of the messages that functions posted. A second `ready` would come from a second connection."""
    return [json.loads(text)["type"] for text in deployed.gateway.posts]


def test_the_messages_and_closes_of_an_announcement_share_a_time_limit() -> None:
    environment, held = memory_environment(), Held()
    held.on_post = held.on_close = lambda: environment.clock.sleep(ANNOUNCE_SECONDS_MAX / 2)
    listeners = Listeners(environment, held)  # type: ignore[arg-type]
    for number in range(6):
        listeners.join(f"over-{number}", "acme", "plan", environment.clock.wall_ms())
    listeners.join("gone", "acme", "plan", None)
    listeners.show("gone", 1)
    for name in "living", "other":
        listeners.join(name, "acme", "plan", None)
    environment.clock.sleep(ANNOUNCE_SECONDS_MAX)
    held.gone.add("gone")
    held.posted.clear()
    began_ms = environment.clock.boot_ms()
    listeners.announce("acme", "plan", Poke(1))
    assert [message for _, message in held.posted].count(Poke(1)) == 3
    assert environment.clock.boot_ms() - began_ms <= 2 * ANNOUNCE_SECONDS_MAX * 1000


def test_announcements_of_several_documents_share_a_time_limit(room: Room) -> None:
    room.held.on_post = lambda: room.clock.sleep(ANNOUNCE_SECONDS_MAX / 2)
    for number in range(20):
        room.container.listeners.join(str(number), "acme", f"plan/{number}", None)
        room.container.note("acme", f"plan/{number}", 1)
    began_ms = room.clock.boot_ms()
    room.container.announce()
    assert len(room.held.posted) == 3
    assert room.clock.boot_ms() - began_ms == 1.5 * ANNOUNCE_SECONDS_MAX * 1000
    room.container.announce()
    assert len(room.held.posted) == 3, "pokes that come late are not sent with the next commit"


@pytest.mark.parametrize("queued", ["", "all"])
def test_a_client_behind_a_gateway_finds_the_websocket_address_and_gets_a_poke(queued: str, deployed: Deployed) -> None:
    deployed.serve(STRATALOG_QUEUED=queued)
    deployed.store.create(ORGANISATION, "plan")
    first, second = (HttpTransport(deployed.document_url("plan")) for _ in range(2))
    heard = threading.Semaphore(0)
    first.pull(Pull("g"))
    stop = first.listen(heard.release)
    assert heard.acquire(timeout=SECONDS_MAX), "the connection is not ready"
    assert kinds(deployed) == ["ready"]
    second.push(Push("h", [Mutation(client="c", id=1, name="put", args={"key": "k", "value": 1})]))
    deployed.source.poll()
    assert heard.acquire(timeout=SECONDS_MAX), "no poke came"
    assert kinds(deployed) == ["ready", "poke"]
    assert deployed.gateway.connections == 1
    stop()
    for way in (first, second):
        way.close()
