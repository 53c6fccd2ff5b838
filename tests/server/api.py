"""A server on a store in memory, and the calls that tests make again and again."""

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
STORY_SECONDS_MAX = 20
Client = TestClient[Litestar]


@contextmanager
def serving(application: Application | None = None, store: Store | None = None) -> Iterator[Client]:
    """A client of a running server, which knows the name that test clients call it by."""
    application = application or Application()
    known = msgspec.structs.replace(application, hosts=(*application.hosts, HOST))
    with TestClient(create_app(store or open_store("memory:"), known)) as client:
        yield client


def run_in_time(story: Coroutine[Any, Any, None]) -> None:
    """Run a story. It fails, rather than hang, where something in it waits for ever."""

    async def run() -> None:
        async with asyncio.timeout(STORY_SECONDS_MAX):
            await story

    asyncio.run(run())


def mutation(client: str, id: int, name: str = "put", /, **args: Any) -> dict[str, Any]:
    return {"client": client, "id": id, "name": name, "args": args}


def push(client: Client, *mutations: dict[str, Any], path: str = BUDGET, group: str = "g", **headers: str) -> Any:
    """The outcomes of a push that went well."""
    answer = client.post(f"{path}/push", json={"group": group, "mutations": mutations}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["outcomes"]


def problem(answer: httpx.Response, *, scope: bool = False) -> tuple[int, str]:
    """The status and code of an error, which has the one shape that errors have; with ``scope`` where callers share."""
    said = answer.json()
    assert set(said) - {"scope"} == {"code", "message", "limit", "value"}, said
    assert not scope or "scope" in said, said
    return answer.status_code, said["code"]
