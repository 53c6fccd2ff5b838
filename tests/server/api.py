"""A server on a store in memory, and the calls that tests make again and again."""

from __future__ import annotations

from collections.abc import Iterator
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
Client = TestClient[Litestar]


@contextmanager
def serving(application: Application | None = None, store: Store | None = None) -> Iterator[Client]:
    """A client of a running server, which knows the name that test clients call it by."""
    application = application or Application()
    known = msgspec.structs.replace(application, hosts=(*application.hosts, HOST))
    with TestClient(create_app(store or open_store("memory:"), known)) as client:
        yield client


def mutation(client: str, id: int, name: str = "put", /, **args: Any) -> dict[str, Any]:
    return {"client": client, "id": id, "name": name, "args": args}


def push(client: Client, *mutations: dict[str, Any], path: str = BUDGET, group: str = "g", **headers: str) -> Any:
    """The outcomes of a push that went well."""
    answer = client.post(f"{path}/push", json={"group": group, "mutations": mutations}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["outcomes"]


def problem(answer: httpx.Response) -> tuple[int, str]:
    """The status and code of an error, which has the one shape that errors have."""
    said = answer.json()
    assert set(said) == {"code", "message", "limit", "value"}, said
    return answer.status_code, said["code"]
