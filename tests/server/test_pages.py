"""The pages and the browser client, as the server gives them out."""

from __future__ import annotations

import re

import pytest

from stratalog.server.application import Application
from stratalog.server.pages import FOLDER, WEB
from stratalog.server.security import StaticTokens
from tests.server.api import Client, serving

CLIENT = WEB + "client/stratalog.js"


def test_the_browser_client_needs_nothing_but_its_own_files(client: Client) -> None:
    waiting, seen = ["stratalog.js"], set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        answer = client.get(WEB + "client/" + name)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/javascript")
        imported = re.findall(r'from "([^"]+)";', answer.text)
        assert all(path.startswith("./") for path in imported)
        waiting += {path.removeprefix("./") for path in imported} - seen
    assert seen == {path.name for path in (FOLDER / "client").glob("*.js")}


def test_a_page_may_load_nothing_from_elsewhere(client: Client) -> None:
    policy = client.get(WEB + "movies/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_a_page_that_a_browser_has_is_not_sent_again(client: Client) -> None:
    tag = client.get(CLIENT).headers["etag"]
    again = client.get(CLIENT, headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path", ["client/no.js", "../server/pages.py", "client/../../py.typed", "client/package.json", ""]
)
def test_there_are_no_other_files(client: Client, path: str) -> None:
    assert client.get(WEB + path.replace("..", "%2E%2E")).status_code == 404


def test_pages_are_open_where_documents_ask_for_a_token() -> None:
    with serving(Application(authenticate=StaticTokens({}))) as client:
        assert client.get(CLIENT).status_code == 200
        assert client.get("/v1/organisations/acme/").status_code == 401
