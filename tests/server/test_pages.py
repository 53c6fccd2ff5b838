"""The browser client and an application's pages, as the server gives them out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.server.application import Application
from stratalog.server.pages import CLIENT, WEB
from stratalog.server.security import StaticTokens
from tests.server.api import Client, serving

FRONT = WEB + "client/stratalog.js"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Client]:
    """A server with a page of its own, which asks for tokens elsewhere."""
    folder = tmp_path / "pages"
    (folder / "more").mkdir(parents=True)
    (tmp_path / "secret.html").write_text("secret")
    (folder / "keys.pem").write_text("secret")
    (folder / "index.html").write_text("the shop")
    (folder / "more" / "shop.css").write_text("body {}")
    with serving(Application(pages={"shop": folder}, authenticate=StaticTokens({}))) as running:
        yield running


def test_the_browser_client_needs_nothing_but_its_own_files(client: Client) -> None:
    waiting, seen = ["stratalog.js"], set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        answer = client.get(f"{WEB}client/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
        imported = re.findall(r'from "([^"]+)";', answer.text)
        assert all(path.startswith("./") for path in imported)
        waiting += {path.removeprefix("./") for path in imported} - seen
    assert seen == {path.name for path in CLIENT.glob("*.js")}


def test_every_server_gives_out_the_theme_of_our_pages(client: Client) -> None:
    kinds = {name: client.get(f"{WEB}theme/{name}").headers["content-type"] for name in ("base.css", "theme.js")}
    assert kinds == {"base.css": "text/css; charset=utf-8", "theme.js": "text/javascript; charset=utf-8"}


def test_a_file_that_a_browser_has_is_not_sent_again(client: Client) -> None:
    tag = client.get(FRONT).headers["etag"]
    again = client.get(FRONT, headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


def test_pages_are_open_where_documents_ask_for_a_token(shop: Client) -> None:
    assert shop.get(WEB + "shop/").text == "the shop"
    assert shop.get(WEB + "shop/more/shop.css").headers["content-type"].startswith("text/css")
    assert shop.get(FRONT).status_code == 200
    assert shop.get("/v1/organisations/acme/").status_code == 401


def test_a_page_may_load_nothing_from_elsewhere(shop: Client) -> None:
    policy = shop.get(WEB + "shop/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("path", ["shop/no.html", "shop/keys.pem", "shop/../secret.html", "client/package.json", ""])
def test_there_are_no_other_files(shop: Client, path: str) -> None:
    assert shop.get(WEB + path.replace("..", "%2E%2E")).status_code == 404
