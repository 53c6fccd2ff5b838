"""An application for the tests of the Lambda handlers, and containers that run it in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from litestar import get
from litestar.response import Response

from stratalog.aws.container import Container
from stratalog.errors import Unavailable
from stratalog.protocol.live import FromServer
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Draft
from stratalog.server.application import Application
from stratalog.server.security import Principal, StaticTokens
from tests.aws.template import TOKENS

__all__ = ["Held", "app", "container", "event"]

EVENTS = Path(__file__).parent / "events"


def fail(draft: Draft, args: Any) -> None:
    raise SystemError("this mutator always fails")


@get("/cookies", opt={"action": "read"}, sync_to_thread=False)
def cookies() -> Response[bytes]:
    """Return a response with two cookies, so that one header occurs twice."""
    answer = Response(b"\x00\xff", media_type="application/octet-stream")
    answer.set_cookie("theme", "dark")
    answer.set_cookie("seen", "1")
    return answer


app = Application(
    mutators={**BUILT_IN_MUTATORS, "fail": fail},
    authenticate=StaticTokens({token: Principal(id=name) for name, token in TOKENS.items()}),
    origins=("https://app.example",),
    routes=[cookies],
)


class Held:
    """The connections of a simulated gateway.

    ``posted`` and ``closed`` record the posts and closes. ``gone`` contains the connections that have ended.
    ``refused`` contains the connections that cannot be closed. Tests fill both.
    """

    def __init__(self) -> None:
        self.posted: list[tuple[str, FromServer]] = []
        self.closed: list[str] = []
        self.gone: set[str] = set()
        self.refused: set[str] = set()
        self.on_post: Callable[[], None] = lambda: None
        self.on_close: Callable[[], None] = lambda: None

    def post(self, id: str, message: FromServer) -> bool:
        self.on_post()
        self.posted.append((id, message))
        return id not in self.gone

    def close(self, id: str) -> bool:
        self.on_close()
        if id in self.refused:
            raise Unavailable("the gateway refused")
        self.closed.append(id)
        return id not in self.gone


def container(held: Held | None = None, store: Any = None, **environment: str) -> Container:
    """Return a container on ``store``, or on a new store in memory."""
    given = {"STRATALOG_STORE": "memory:", "STRATALOG_APPLICATION": "tests.aws.application:app", **environment}
    made = Container({**given, "STRATALOG_SOCKETS": "https://sockets.example/live"})
    if store is not None:
        made.store = store
    made.listeners.connections = held or Held()  # type: ignore[assignment]
    return made


def event(name: str) -> dict[str, Any]:
    """Return the example event in the file of this name, written as AWS documents its events."""
    return dict(json.loads((EVENTS / f"{name}.json").read_text()))
