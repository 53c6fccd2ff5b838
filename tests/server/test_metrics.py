"""The number of metric series depends on the routes and statuses, not on the requests or the number of files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from stratalog.server.application import Application
from stratalog.server.metrics import METRIC_PATH
from tests.server.api import Client, serving

FILES = 30
REQUESTS = 1_000


def test_all_page_files_share_a_path_in_the_metrics(tmp_path: Path) -> None:
    for position in range(FILES):
        (tmp_path / f"page-{position}.html").write_text("page")
    with serving(Application(pages={"many": tmp_path})) as client:
        before = series(client)
        for position in range(FILES):
            assert client.get(f"/web/many/page-{position}.html").status_code == 200
        made = series(client) - before
    assert paths_of(made) == {"/web/{file}"}


def test_values_from_requests_make_no_metric_series(client: Client) -> None:
    client.get("/none")
    before = series(client)
    asyncio.run(ask_strangely(client.app))
    made = series(client) - before
    document = "/v1/organisations/{organisation}/documents/{document}"
    assert routes_of(made) == {("other", "other"), ("GET", document), ("GET", "/metrics")}
    assert len(made) == 3 * sum('path="/metrics"' in line for line in made)


async def ask_strangely(app: Any) -> None:
    """Send requests with new paths, hosts and queries.

    Half of the requests name documents. The other requests have new methods.
    """

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        pass

    for position in range(REQUESTS):
        is_known = position % 2
        path = f"/v1/organisations/acme/documents/none-{position}" if is_known else f"/none/{position}"
        request = {
            "type": "http",
            "method": "GET" if is_known else f"VERB{position}",
            "path": path,
            "raw_path": path.encode(),
            "query_string": f"q={position}".encode(),
            "headers": [(b"host", f"127.0.0.1:{position}".encode()), (b"user-agent", str(position).encode())],
            "client": ("127.0.0.1", position),
            "server": ("127.0.0.1", 80),
            "scheme": "http",
            "root_path": "",
            "http_version": "1.1",
        }
        await app(request, receive, send)


def series(client: Client) -> set[str]:
    """Return the name and labels of each series about requests in `/metrics`."""
    lines = client.get("/metrics").text.splitlines()
    return {line.rpartition(" ")[0] for line in lines if line.startswith("stratalog_request")}


def paths_of(shown: set[str]) -> set[str]:
    return {line.partition('path="')[2].partition('"')[0] for line in shown} - {"/metrics"}


def routes_of(shown: set[str]) -> set[tuple[str, str]]:
    """Return the methods and paths of series."""
    labels = [{name: line.partition(f'{name}="')[2].partition('"')[0] for name in ("method", "path")} for line in shown]
    return {(label["method"], label["path"]) for label in labels}


def test_each_handler_with_many_paths_has_a_metric_path(client: Client) -> None:
    app = client.app
    handlers = {handler for route in app.routes for handler in getattr(route, "route_handlers", ())}
    many = [handler for handler in handlers if len(handler.paths) > 2]
    assert many
    assert [handler.paths for handler in many if METRIC_PATH not in handler.opt] == []
