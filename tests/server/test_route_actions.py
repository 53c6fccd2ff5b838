"""Each route of the server and of our applications is open or requires an action.

The action matches the data that the route reveals or writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stratalog.server.app import create_app
from stratalog.server.application import Application
from stratalog.server.parameters import PREFIX
from stratalog.server.security import READING
from stratalog.store import open_store
from stratalog_catalogue.http import application as catalogue
from stratalog_sheet.http import application as sheet

APPLICATIONS = {"server": Application, "catalogue": catalogue, "sheet": sheet}
Route = tuple[str, str]

# On these routes `LiveRight` checks the action `read`, after the server has accepted the WebSocket.
ASKS_LATER = {("WEBSOCKET", f"{PREFIX}/documents/{{document}}/live"), ("WEBSOCKET", f"{PREFIX}/logs/{{log}}/live")}
# These routes need no permission.
OPEN = {("GET", path) for path in ("/", "/favicon.ico", "/health", "/schema", "/schema/openapi.json", "/schema/{path}")}
# These routes require a second action, for the name in the request body: `create` for a fork, `read` for a replay,
# `write` for a merge.
ASKS_TWICE = {f"/documents/{{document}}/{verb}" for verb in ("fork", "merge", "replay")}
ASKS_TWICE |= {"/logs/{log}/fork", "/sheets/{log}/fork"}
PULLS = {"/documents/{document}/pull", "/documents/{document}/replicache/pull"}
# These routes reveal only counts of sources, formats and kinds.
COUNTS = {"/catalogue/stats", "/catalogue/metrics"}


@pytest.mark.parametrize("name", APPLICATIONS)
def test_every_route_asks_for_an_action_or_is_open(name: str) -> None:
    unguarded = {route for route, action in routes_of(APPLICATIONS[name]()) if action is None}
    pages = {route for route in unguarded if route[1] == "/web" or route[1].startswith("/web/")}
    assert unguarded - pages == OPEN | ASKS_LATER


@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_route_that_reveals_records_asks_for_the_records_action(name: str) -> None:
    shown = {
        (path, action)
        for (method, path), action in own_routes(APPLICATIONS[name]())
        if path.startswith(("/records", "/catalogue")) and path not in COUNTS
    }
    assert {path for path, action in shown if action not in ("read-record", "write-record")} == set()
    assert shown


@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_route_that_writes_asks_for_an_action_that_writes(name: str) -> None:
    reads = {
        path
        for (method, path), action in own_routes(APPLICATIONS[name]())
        if method not in ("GET", "HEAD", "WEBSOCKET") and action in READING
    }
    assert reads - ASKS_TWICE - PULLS == set()


def own_routes(application: Application) -> Iterator[tuple[Route, Any]]:
    """Yield the routes below an organisation, each without the common prefix."""
    for (method, path), action in routes_of(application):
        if path.startswith(f"{PREFIX}/"):
            yield (method, path.removeprefix(PREFIX)), action


def routes_of(application: Application) -> Iterator[tuple[Route, Any]]:
    """Yield the method and path of each route, and the action that it requires."""
    with open_store("memory:") as store:
        for route in create_app(store, application).routes:
            handlers: Any = getattr(route, "route_handlers", None) or [route.route_handler]  # type: ignore[union-attr]
            path = route.path_format.replace("{organisation}", "{organisation:str}")
            for handler in handlers:
                for method in {*getattr(handler, "http_methods", {"WEBSOCKET"})} - {"OPTIONS"}:
                    yield (method, path), handler.opt.get("action")
