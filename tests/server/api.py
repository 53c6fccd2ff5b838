"""Helpers for tests of the HTTP API: a server, by default on an in-memory store, and common calls."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec
from litestar import Litestar
from litestar.testing import TestClient

from stratalog.server.app import create_app
from stratalog.server.application import Application
from stratalog.store import Store, open_store

HOST = "testserver.local"
BUDGET = "/v1/organisations/acme/documents/budget"
STORY_SECONDS_MAX = 60
Client = TestClient[Litestar]


@contextmanager
def serving(application: Application | None = None, store: Store | None = None) -> Iterator[Client]:
    """Run a server that accepts `HOST`, the host name of test clients. Yield a client of the server."""
    application = application or Application()
    known = msgspec.structs.replace(application, hosts=(*application.hosts, HOST))
    with TestClient(create_app(store or open_store("memory:"), known)) as client:
        yield client


def run_in_time(story: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine. Raises TimeoutError after `STORY_SECONDS_MAX` seconds, so that no test waits for ever."""

    async def run() -> None:
        async with asyncio.timeout(STORY_SECONDS_MAX):
            await story

    asyncio.run(run())


def until_closed(socket: Any) -> None:
    """Receive messages until the server closes the connection. Stop after 1,000 messages, so that the test ends."""
    for _ in range(1000):
        socket.receive_json()


def mutation(client: str, id: int, name: str = "put", /, **args: Any) -> dict[str, Any]:
    return {"client": client, "id": id, "name": name, "args": args}


def push(client: Client, *mutations: dict[str, Any], path: str = BUDGET, group: str = "g", **headers: str) -> Any:
    """Push mutations, assert that the server answers 200, and return the outcomes of the mutations."""
    answer = client.post(f"{path}/push", json={"group": group, "mutations": mutations}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["outcomes"]


def problem(answer: httpx.Response, *, scope: bool = False) -> tuple[int, str]:
    """Return an error's status and code. Assert that the body has the fields that every error has.

    With ``scope``, also assert that the body names the scope of a shared limit.
    """
    body = answer.json()
    assert set(body) - {"scope"} == {"code", "message", "limit", "value"}, body
    assert not scope or "scope" in body, body
    return answer.status_code, body["code"]
