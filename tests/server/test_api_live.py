"""Live connections: presence, and pokes about new versions, also about versions that another process commits."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from litestar.exceptions import WebSocketDisconnect

from stratalog.errors import LimitExceeded, Unavailable
from stratalog.limits import PRESENCE_SECONDS_MIN
from stratalog.log import delete_log
from stratalog.log.head import Head
from stratalog.protocol.live import (
    SUBPROTOCOL,
    SUBPROTOCOLS,
    FromClient,
    FromServer,
    Gone,
    Heartbeat,
    Here,
    Poke,
    Ready,
)
from stratalog.server import hub as hub_module
from stratalog.server import live
from stratalog.server.application import Application, ServerLimits
from stratalog.server.hub import Hub, Listener
from stratalog.server.metrics import Metrics
from stratalog.server.pools import Pools
from stratalog.server.security import Principal, StaticTokens
from stratalog.store import Store, open_store
from stratalog.testing.clock import ManualClock
from tests.server.api import BUDGET, STORY_SECONDS_MAX, Client, mutation, push, serving, until_closed

Story = Callable[[Hub, Store], Awaitable[None]]
QUICK = ServerLimits(live_poll_seconds=0.001, live_heartbeat_seconds=60)


def test_a_push_pokes_the_listeners(budget: Client) -> None:
    with budget.websocket_connect(f"{BUDGET}/live") as socket:
        ready = socket.receive_json()
        assert (ready["type"], ready["version"]) == ("ready", 3)
        push(budget, mutation("ada", 3, key="k", value=1))
        assert socket.receive_json() == {"type": "poke", "version": 4}


def test_a_push_that_commits_nothing_pokes_nobody(budget: Client) -> None:
    with budget.websocket_connect(f"{BUDGET}/live") as socket:
        socket.receive_json()
        push(budget, mutation("ada", 2, key="cells/C2", value=105))
        push(budget, mutation("ada", 3, key="k", value=1))
        assert socket.receive_json() == {"type": "poke", "version": 4}


def test_an_append_to_a_log_pokes_its_listeners(client: Client) -> None:
    client.put("/v1/organisations/acme/logs/sheet")
    with client.websocket_connect("/v1/organisations/acme/logs/sheet/live") as socket:
        socket.receive_json()
        client.post("/v1/organisations/acme/logs/sheet/append", json={"events": [{"type": "set"}]})
        assert socket.receive_json() == {"type": "poke", "version": 1}


def test_presence_is_sent_to_other_listeners_and_removed_on_disconnect(budget: Client) -> None:
    with budget.websocket_connect(f"{BUDGET}/live") as ours:
        ours.receive_json()
        with budget.websocket_connect(f"{BUDGET}/live") as theirs:
            their_id = theirs.receive_json()["id"]
            theirs.send_json({"type": "presence", "state": {"cell": "C2"}})
            assert ours.receive_json() == {"type": "here", "present": {their_id: {"cell": "C2"}}}
        assert ours.receive_json() == {"type": "here", "present": {}}
    assert budget.get(BUDGET).json()["version"] == 3


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("no json", 4400),
        ('{"type": "shout"}', 4400),
        ('{"type": "\ud800"}', 4400),
        ("[" * 3000, 4400),
        ('{"type": "presence", "state": "' + "x" * 2000 + '"}', 4422),
        ('{"type": "presence", "state": "' + "x" * 5000 + '"}', 4413),
        ('{"type": "presence", "state": "' + "é" * 3000 + '"}', 4413),
    ],
)
def test_an_invalid_message_closes_the_connection_with_its_code(budget: Client, message: str, code: int) -> None:
    with budget.websocket_connect(f"{BUDGET}/live") as socket:
        socket.receive_json()
        socket.send_text(message)
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_json()
    assert closed.value.code == code


def test_a_live_connection_to_an_unknown_document_is_closed_with_4404(client: Client) -> None:
    with client.websocket_connect(f"{BUDGET}/live") as socket, pytest.raises(WebSocketDisconnect) as closed:
        socket.receive_json()
    assert closed.value.code == 4404


def test_a_page_of_another_origin_cannot_listen(budget: Client) -> None:
    with (
        pytest.raises(WebSocketDisconnect, match="pages of this origin may not call the server"),
        budget.websocket_connect(f"{BUDGET}/live", headers={"Origin": "https://evil.example"}) as socket,
    ):
        socket.receive_json()


def test_too_many_listeners_are_refused() -> None:
    with serving(Application(limits=ServerLimits(live_connections_max=1))) as bounded:
        bounded.put(BUDGET)
        with bounded.websocket_connect(f"{BUDGET}/live") as first:
            first.receive_json()
            with bounded.websocket_connect(f"{BUDGET}/live") as second:
                with pytest.raises(WebSocketDisconnect) as closed:
                    second.receive_json()
                assert closed.value.code == 4503


def test_listeners_of_a_deleted_document_get_gone_and_are_closed_with_4410(budget: Client) -> None:
    with budget.websocket_connect(f"{BUDGET}/live") as socket:
        socket.receive_json()
        budget.delete(BUDGET)
        assert socket.receive_json() == {"type": "gone"}
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_json()
    assert closed.value.code == 4410


async def messages_of(listener: Listener) -> list[FromServer]:
    return [frame.message for frame in await listener.next()]


def on_a_hub(story: Story, limits: ServerLimits = QUICK) -> None:
    """Run ``story`` with a hub that watches a store with one document."""

    async def run() -> None:
        store = open_store("memory:")
        store.create("acme", "budget")
        hub = Hub(store, limits, Metrics(store.environment), Pools(limits))
        watch = asyncio.create_task(hub.watch())
        try:
            async with asyncio.timeout(STORY_SECONDS_MAX):
                await story(hub, store)
        finally:
            watch.cancel()

    asyncio.run(run())


def test_a_commit_of_another_process_pokes_the_listener() -> None:
    async def story(hub: Hub, store: Store) -> None:
        listener = await hub.join("acme", "budget")
        assert await messages_of(listener) == [Ready(listener.id, 0)]
        store.document("acme", "budget").mutate("put", {"key": "k", "value": 1})
        assert await messages_of(listener) == [Poke(1)]

    on_a_hub(story)


def test_a_slow_listener_gets_only_the_newest_poke_and_presence() -> None:
    async def story(hub: Hub, store: Store) -> None:
        listener = await hub.join("acme", "budget")
        for version in range(1, 1000):
            hub.poke("acme", "budget", version)
            listener.show({"cursor": version})
        assert await messages_of(listener) == [Ready(listener.id, 0), Poke(999), Here({listener.id: {"cursor": 999}})]

    on_a_hub(story)


def test_a_poke_with_an_older_version_is_not_sent() -> None:
    async def story(hub: Hub, store: Store) -> None:
        listener = await hub.join("acme", "budget")
        await listener.next()
        hub.poke("acme", "budget", 5)
        hub.poke("acme", "budget", 4)
        assert await messages_of(listener) == [Poke(5)]

    on_a_hub(story)


def test_a_silent_connection_gets_heartbeats() -> None:
    async def story(hub: Hub, store: Store) -> None:
        listener = await hub.join("acme", "budget")
        await listener.next()
        assert await messages_of(listener) == [Heartbeat()]

    on_a_hub(story, ServerLimits(live_poll_seconds=60, live_heartbeat_seconds=0.001))


def test_only_listeners_of_the_old_document_get_gone_after_a_recreation() -> None:
    async def story(hub: Hub, store: Store) -> None:
        listener = await hub.join("acme", "budget")
        await listener.next()
        delete_log(store.document("acme", "budget").log)
        assert await messages_of(listener) == [Gone()]
        store.create("acme", "budget")
        newer = await hub.join("acme", "budget")
        hub.leave(listener)
        hub.poke("acme", "budget", 1)
        assert await messages_of(newer) == [Ready(newer.id, 0), Poke(1)]

    on_a_hub(story)


def test_a_recreation_between_two_polls_ends_the_listeners_of_the_old_document() -> None:
    async def story(hub: Hub, store: Store) -> None:
        listener = await hub.join("acme", "budget")
        await listener.next()
        delete_log(store.document("acme", "budget").log)
        store.create("acme", "budget")
        await hub.join("acme", "budget")
        assert await messages_of(listener) == [Gone()]

    on_a_hub(story, ServerLimits(live_poll_seconds=60))


def test_a_join_that_read_the_old_document_ends_no_listener_of_the_new_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first caller reads the old document and pauses. Meanwhile a second caller joins the new document."""

    async def story(hub: Hub, store: Store) -> None:
        looked, made_again = threading.Event(), threading.Event()
        read = hub_module._log_and_version

        def late(*given: Any) -> Any:
            result = read(*given)
            if not looked.is_set():
                looked.set()
                assert made_again.wait(STORY_SECONDS_MAX)
            return result

        monkeypatch.setattr(hub_module, "_log_and_version", late)
        early = asyncio.create_task(hub.join("acme", "budget"))
        assert await asyncio.to_thread(looked.wait, STORY_SECONDS_MAX)
        delete_log(store.document("acme", "budget").log)
        store.create("acme", "budget")
        second = await hub.join("acme", "budget")
        made_again.set()
        first = await early
        hub.poke("acme", "budget", 1)
        assert await messages_of(second) == [Ready(second.id, 0), Poke(1)]
        assert await messages_of(first) == [Ready(first.id, 0), Poke(1)]

    on_a_hub(story, ServerLimits(live_poll_seconds=60))


def test_a_poke_with_too_high_a_version_does_not_hide_a_later_commit() -> None:
    async def story(hub: Hub, store: Store) -> None:
        listener = await hub.join("acme", "budget")
        hub.poke("acme", "budget", 100)
        assert await messages_of(listener) == [Ready(listener.id, 0), Poke(100)]
        store.document("acme", "budget").mutate("put", {"key": "k", "value": 1})
        hub.poke("acme", "budget", 1)
        assert await messages_of(listener) == [Poke(1)]

    on_a_hub(story)


def test_a_late_read_of_the_old_document_s_head_is_not_announced() -> None:
    async def story(hub: Hub, store: Store) -> None:
        await hub.join("acme", "budget")
        old = hub._rooms["acme", "budget"]
        delete_log(store.document("acme", "budget").log)
        store.create("acme", "budget")
        newer = await hub.join("acme", "budget")
        hub._note(("acme", "budget"), old, 0, 100)
        hub.poke("acme", "budget", 1)
        assert await messages_of(newer) == [Ready(newer.id, 0), Poke(1)]

    on_a_hub(story, ServerLimits(live_poll_seconds=60))


def test_polling_continues_after_a_failed_read_of_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(hub: Hub, store: Store) -> None:
        listener = await hub.join("acme", "budget")
        await listener.next()
        log = hub._rooms["acme", "budget"].log
        head, failures = log.head, [ValueError("a fault of ours"), Unavailable("away")]

        def failing() -> Head:
            if failures:
                raise failures.pop()
            return head()

        monkeypatch.setattr(log, "head", failing)
        store.document("acme", "budget").mutate("put", {"key": "k", "value": 1})
        assert await messages_of(listener) == [Poke(1)]
        assert failures == []

    on_a_hub(story)


def test_a_presence_state_above_the_size_limit_is_refused() -> None:
    async def story(hub: Hub, store: Store) -> None:
        listener = await hub.join("acme", "budget")
        listener.show("x" * 1000)
        with pytest.raises(LimitExceeded):
            listener.show("x" * 2000)

    on_a_hub(story)


def test_a_presence_state_with_an_integer_beyond_64_bits_is_refused_as_invalid(budget: Client) -> None:
    with budget.websocket_connect(f"{BUDGET}/live") as socket:
        assert socket.receive_json()["type"] == "ready"
        socket.send_json({"type": "presence", "state": 2**70})
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_json()
    assert closed.value.code == 4400


def test_a_failed_join_leaves_no_room_in_the_hub() -> None:
    async def story(hub: Hub, store: Store) -> None:
        for _ in range(3):
            with pytest.raises(Exception, match="log not found"):
                await hub.join("acme", "nothing")
        assert hub._rooms == {}
        listener = await hub.join("acme", "budget")
        hub.leave(listener)
        assert hub._rooms == {}

    on_a_hub(story)


def test_a_failed_live_connection_does_not_count_against_the_limit() -> None:
    with serving(Application(limits=ServerLimits(live_connections_max=1))) as bounded:
        for _ in range(3):
            with bounded.websocket_connect(f"{BUDGET}/live") as socket, pytest.raises(WebSocketDisconnect) as closed:
                socket.receive_json()
            assert closed.value.code == 4404
        bounded.put(BUDGET)
        with bounded.websocket_connect(f"{BUDGET}/live") as socket:
            assert socket.receive_json()["type"] == "ready"


def test_a_server_that_stops_ends_its_live_connections(budget: Client) -> None:
    with budget.websocket_connect(f"{BUDGET}/live") as socket:
        socket.receive_json()
        with budget.portal() as portal:
            portal.call(budget.app.state.service.hub.close)
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_json()
    assert closed.value.code == 1012


def test_a_live_connection_is_closed_when_its_token_expires() -> None:
    clock = ManualClock()
    tokens = StaticTokens({"token": Principal(id="u-ada", expires_ms=clock.wall_ms() + 1000)})
    application = Application(authenticate=tokens, limits=ServerLimits(live_heartbeat_seconds=0.01))
    with serving(application, open_store("memory:", clock=clock)) as client:
        client.put(BUDGET, headers={"Authorization": "Bearer token"})
        with client.websocket_connect(f"{BUDGET}/live") as socket:
            socket.send_json({"type": "hello", "token": "token"})
            assert [socket.receive_json()["type"] for _ in range(2)] == ["ready", "heartbeat"]
            clock.sleep(1)
            with pytest.raises(WebSocketDisconnect) as closed:
                until_closed(socket)
    assert (closed.value.code, closed.value.detail) == (4401, "the token has expired")


def test_the_golden_messages_are_still_read_and_written() -> None:
    golden = json.loads((Path(__file__).parents[2] / "formats/golden/live-v1.json").read_text())
    assert golden["subprotocol"] == SUBPROTOCOL
    assert golden["subprotocols"] == list(SUBPROTOCOLS)
    for side, kind in (("client", FromClient), ("server", FromServer)):
        messages = [msgspec.convert(plain, kind) for plain in golden[side]]
        assert {type(message) for message in messages} == set(get_args(kind))
        assert [msgspec.json.decode(msgspec.json.encode(message)) for message in messages] == golden[side]


def test_server_sent_events_carry_ready_and_poke() -> None:
    store = open_store("memory:")
    store.create("acme", "budget")
    messages = asyncio.run(_first_events(store))
    assert [message.split(b"\n")[0] for message in messages] == [b"event: ready", b"event: poke"]
    assert messages[1].endswith(b'data: {"type":"poke","version":1}\n\n')


async def _first_events(store: Store) -> list[bytes]:
    """Return the events up to the first poke. The test client would wait for the end of the response instead."""
    from stratalog.server.app import create_app

    app = create_app(store)
    came: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    gone = asyncio.Event()
    asked = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        if asked:
            return asked.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    path = f"{BUDGET}/events"
    scope: Any = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "scheme": "http",
        "client": None,
        "server": None,
        "http_version": "1.1",
        "root_path": "",
        "asgi": {"version": "3.0"},
        "extensions": {},
    }
    serving_it = asyncio.create_task(app(scope, receive, came.put))
    bodies: list[bytes] = []
    assert (await came.get())["status"] == 200
    while len(bodies) < 2:
        async with asyncio.timeout(STORY_SECONDS_MAX):
            message = await came.get()
        bodies += [message["body"]] if message["body"] else []
        if len(bodies) == 1:
            app.state.service.hub.poke("acme", "budget", 1)
    gone.set()
    async with asyncio.timeout(STORY_SECONDS_MAX):
        await serving_it
    return bodies


def test_the_server_pauses_after_each_presence_message_from_a_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    messages = ['{"type": "presence", "state": 1}'] * 2

    class Speaking:
        async def receive_data(self, mode: str) -> str:
            if not messages:
                raise WebSocketDisconnect(detail="", code=1000)
            return messages.pop()

    class Shown:
        def show(self, state: object) -> None:
            done.append("shown")

    async def pause(seconds: float) -> None:
        done.append(seconds)

    async def hear() -> None:
        socket: Any = Speaking()
        listener: Any = Shown()
        with pytest.raises(WebSocketDisconnect):
            await live._hear(socket, listener)

    monkeypatch.setattr("stratalog.server.live.anyio.sleep", pause)
    asyncio.run(hear())
    assert done == ["shown", PRESENCE_SECONDS_MIN] * 2
