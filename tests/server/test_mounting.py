"""The server as a part of another ASGI application, which gives it the requests below a path."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from litestar.testing import TestClient
from litestar.types import Receive, Scope, Send

from stratalog.server import Application, create_app
from stratalog.store import Store, open_store
from tests.server.api import HOST

BELOW = "/below"
PLAN = f"{BELOW}/v1/organisations/acme/documents/plan"


class OuterApplication:
    """An ASGI application, as Starlette is one: it mounts the server below `BELOW`, and runs the server's lifespan."""

    def __init__(self, store: Store) -> None:
        self._server = create_app(store, Application(hosts=(HOST,)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            async with self._server.lifespan():
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["path"].startswith(BELOW):
            scope["root_path"] = BELOW
            await self._server(scope, receive, send)


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory:") as store:
        yield store


def test_a_server_that_is_mounted_below_a_path_answers_there(store: Store) -> None:
    with TestClient(OuterApplication(store)) as client:
        assert client.put(PLAN).status_code == 201
        pushed = {
            "group": "g",
            "mutations": [{"client": "ada", "id": 1, "name": "put", "args": {"key": "k", "value": 1}}],
        }
        assert client.post(f"{PLAN}/push", json=pushed).json()["outcomes"][0]["status"] == "applied"
        assert client.get(f"{PLAN}/state").json()["content"] == {"k": 1}


def test_a_mounted_server_whose_lifespan_runs_pokes_about_commits_of_the_outer_application(store: Store) -> None:
    with TestClient(OuterApplication(store)) as client:
        client.put(PLAN)
        with client.websocket_connect(f"{PLAN}/live") as socket:
            assert socket.receive_json()["type"] == "ready"
            store.document("acme", "plan").put("k", 1)
            assert socket.receive_json() == {"type": "poke", "version": 1}
