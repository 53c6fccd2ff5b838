"""The browser client and an application's pages, as the server sends them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.codec import sha256
from stratalog.server.application import Application
from stratalog.server.pages import CLIENT, WEB, PageFile, files_in
from stratalog.server.security import StaticTokens
from tests.server.api import Client, serving

FRONT = WEB + "client/stratalog.js"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Client]:
    """A client of a server with one application's pages. Documents require a token."""
    folder = tmp_path / "pages"
    (folder / "more").mkdir(parents=True)
    (tmp_path / "secret.html").write_text("secret")
    (folder / "keys.pem").write_text("secret")
    (folder / "index.html").write_text("the shop")
    (folder / "more" / "shop.css").write_text("body {}")
    with serving(Application(pages={"shop": folder}, authenticate=StaticTokens({}))) as running:
        yield running


def test_the_browser_client_imports_only_its_own_files(client: Client) -> None:
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


def test_every_server_serves_the_files_of_the_theme(client: Client) -> None:
    kinds = {name: client.get(f"{WEB}theme/{name}").headers["content-type"] for name in ("base.css", "theme.js")}
    assert kinds == {"base.css": "text/css; charset=utf-8", "theme.js": "text/javascript; charset=utf-8"}


def test_a_file_that_a_browser_has_is_not_sent_again(client: Client) -> None:
    tag = client.get(FRONT).headers["etag"]
    again = client.get(FRONT, headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


def test_a_symbolic_link_out_of_the_folder_is_not_served_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, other = tmp_path / "pages", tmp_path / "other"
    for made in (folder / "inner", other):
        made.mkdir(parents=True)
    (other / "secret.html").write_text("secret")
    (folder / "inner" / "own.html").write_text("own")
    (folder / "inner.html").symlink_to("inner/own.html")
    (folder / "absolute.html").symlink_to(other / "secret.html")
    (folder / "index.html").symlink_to("../other/secret.html")
    (folder / "folder").symlink_to(other)
    (folder / "folder.html").mkdir()
    (tmp_path / "linked").symlink_to(folder)
    paths = {"/web/p/inner.html": folder / "inner.html", "/web/p/inner/own.html": folder / "inner" / "own.html"}
    assert files_in("/web/p/", folder) == paths
    named = " ".join(record.getMessage() for record in caplog.records)
    assert all(str(folder / name) in named for name in ("absolute.html", "index.html"))
    assert files_in("/web/p/", tmp_path / "linked").keys() == paths.keys()


def test_pages_need_no_token_although_documents_do(shop: Client) -> None:
    assert shop.get(WEB + "shop/").text == "the shop"
    assert shop.get(WEB + "shop/more/shop.css").headers["content-type"].startswith("text/css")
    assert shop.get(FRONT).status_code == 200
    assert shop.get("/v1/organisations/acme/").status_code == 401


def test_the_content_security_policy_of_a_page_forbids_other_hosts(shop: Client) -> None:
    policy = shop.get(WEB + "shop/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "connect-src 'self';" in policy, "a page may connect to another host"


@pytest.mark.parametrize("path", ["shop/no.html", "shop/keys.pem", "shop/../secret.html", "client/package.json"])
def test_files_that_are_not_pages_are_not_found(shop: Client, path: str) -> None:
    assert shop.get(WEB + path.replace("..", "%2E%2E")).status_code == 404


def test_a_large_file_is_read_in_pieces_and_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = bytes(range(256)) * 1000
    (tmp_path / "large.js").write_bytes(body)
    monkeypatch.setattr(Path, "read_bytes", None)
    with serving(Application(pages={"shop": tmp_path})) as client:
        first = client.get(WEB + "shop/large.js")
        monkeypatch.setattr("hashlib.file_digest", None)
        again = client.get(WEB + "shop/large.js")
        known = client.get(WEB + "shop/large.js", headers={"If-None-Match": first.headers["etag"]})
    assert (first.content, again.content) == (body, body)
    assert first.headers["content-length"] == str(len(body))
    assert first.headers["etag"] == f'"{sha256(body).hex()[:32]}"' == again.headers["etag"]
    assert (known.status_code, known.content) == (304, b"")


def test_a_changed_file_has_another_etag(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("first")
    with serving(Application(pages={"shop": tmp_path})) as client:
        first = client.get(WEB + "shop/a.js")
        (tmp_path / "a.js").write_text("the second")
        second = client.get(WEB + "shop/a.js")
    assert (first.text, second.text) == ("first", "the second")
    assert first.headers["etag"] != second.headers["etag"]


def test_no_more_pieces_of_a_file_are_sent_after_the_file_changed(tmp_path: Path) -> None:
    path = tmp_path / "large.js"
    path.write_bytes(b"a" * 200_000)
    file = PageFile(path)
    version = file.read()
    assert file.piece(version, 199_990) == b"a" * 10
    path.write_bytes(b"b" * 300_000)
    assert file.piece(version, 199_990) == b""
