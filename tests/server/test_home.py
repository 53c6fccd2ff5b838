"""The server's own pages: their content, and the sites that may open them."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from litestar.openapi.plugins import OpenAPIRenderPlugin

from stratalog.server.application import Application
from stratalog.server.security import StaticTokens
from tests.server.api import BUDGET, Client, problem, serving

FOLLOWED_LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
EMBEDDED = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}
FRAMED = {**FOLLOWED_LINK, "Sec-Fetch-Dest": "iframe"}
OTHER_PORT = {**EMBEDDED, "Sec-Fetch-Site": "same-site"}
PAGE = "https://app.example"


@pytest.mark.parametrize("path", ["/", "/web/", "/schema"])
def test_every_file_that_a_server_page_links_to_exists(client: Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    named = set(re.findall(r'(?:href|src)="([^"]+)"', answer.text))
    assert named, "the page names no file"
    assert all(name.startswith("/") and not name.startswith("//") for name in named), "the page names another host"
    assert {name: client.get(name).status_code for name in named} == dict.fromkeys(named, 200)


def test_the_first_page_links_to_the_applications_pages(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("the shop")
    with serving(Application(pages={"shop & co": tmp_path}, authenticate=StaticTokens({}))) as client:
        assert '<a href="/web/shop &amp; co/">Shop &amp; co</a>' in client.get("/").text


def test_the_page_of_the_api_names_each_call(client: Client) -> None:
    document = client.get("/schema/openapi.json").json()
    text = client.get("/schema").text
    assert "<dd>not found · Problem</dd>" in text
    calls = [(method.upper(), path) for path, methods in document["paths"].items() for method in methods]
    assert calls
    for method, path in calls:
        assert f"<code><b>{method}</b> {path}</code>" in text
    ElementTree.fromstring(text.replace("<!doctype html>", ""))


def test_the_openapi_document_is_encoded_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    first = client.get("/schema/openapi.json")
    monkeypatch.setattr(OpenAPIRenderPlugin, "render_json", lambda *_: pytest.fail("encoded again"))
    assert client.get("/schema/openapi.json").content == first.content


def test_the_icon_has_the_name_that_browsers_ask_for(client: Client) -> None:
    answer = client.get("/favicon.ico")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")


# Errors

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
JAVA = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"
"""The header `Accept` that Java's `HttpURLConnection` sends by default."""


def test_a_person_gets_a_page_for_an_unknown_address(client: Client) -> None:
    answer = client.get("/sheets", headers=BROWSER)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert answer.headers["cache-control"] == "no-store", "a cache would give the page to a program"
    page = ElementTree.fromstring(answer.text.replace("<!doctype html>", ""))
    assert page.findtext(".//h1") == "There is no page at this address"
    assert [link.get("href") for link in page.iter("a")] == ["/"]


def test_a_person_gets_a_page_for_an_address_that_needs_a_token() -> None:
    with serving(Application(authenticate=StaticTokens({}))) as client:
        answer = client.get("/sheets", headers=BROWSER)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert "<p>A bearer token is required.</p>" in answer.text


def test_a_person_gets_a_page_for_each_error_of_a_handler(client: Client) -> None:
    missing = client.get(BUDGET, headers=BROWSER)
    assert (missing.status_code, missing.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert missing.headers["cache-control"] == "no-store"
    assert "<p>Document not found.</p>" in missing.text
    invalid = client.get(f"{BUDGET}/state?at=x", headers=BROWSER)
    assert (invalid.status_code, invalid.headers["content-type"]) == (400, "text/html; charset=utf-8")
    assert "The server could not show this address" in invalid.text


@pytest.mark.parametrize("accept", ["*/*", "application/json, text/html", "application/msgpack", JAVA])
def test_a_program_gets_the_error_as_json(client: Client, accept: str) -> None:
    answer = client.get("/sheets", headers={"Accept": accept})
    assert problem(answer) == (404, "not-found")
    assert problem(client.post("/sheets", headers=BROWSER)) == (404, "not-found")


# Other sites


@pytest.mark.parametrize("headers", [EMBEDDED, FRAMED, OTHER_PORT])
@pytest.mark.parametrize("path", ["/", BUDGET, "/web/client/stratalog.js", "/health"])
def test_the_local_server_refuses_requests_from_pages_of_other_sites(
    client: Client, path: str, headers: dict[str, str]
) -> None:
    assert problem(client.get(path, headers=headers)) == (403, "forbidden")


def test_a_link_to_a_page_of_the_local_server_may_be_followed(client: Client) -> None:
    assert client.get("/", headers=FOLLOWED_LINK).status_code == 200
    assert client.get("/web/client/stratalog.js", headers=FOLLOWED_LINK).status_code == 200
    assert problem(client.get(BUDGET, headers=FOLLOWED_LINK)) == (403, "forbidden")
    assert problem(client.post("/", headers=FOLLOWED_LINK)) == (403, "forbidden")


def test_the_local_server_s_own_pages_and_allowed_origins_may_call_it() -> None:
    with serving(Application(origins=(PAGE,))) as client:
        for headers in ({"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {**EMBEDDED, "Origin": PAGE}):
            assert client.get("/health", headers=headers).status_code == 200


def test_a_server_with_authentication_accepts_requests_from_pages_of_other_sites() -> None:
    with serving(Application(authenticate=StaticTokens({}))) as client:
        assert client.get("/health", headers=EMBEDDED).status_code == 200


def test_no_other_origin_may_embed_an_answer_unless_it_may_read_it() -> None:
    name = "cross-origin-resource-policy"
    with serving() as client:
        assert client.get("/health").headers[name] == "same-origin"
        assert client.get(BUDGET).headers[name] == "same-origin"
    with serving(Application(origins=(PAGE,))) as client:
        assert client.get("/health").headers[name] == "same-origin"
        assert name not in client.get("/health", headers={"Origin": PAGE}).headers
    with serving(Application(authenticate=StaticTokens({}))) as client:
        assert client.get("/health").headers[name] == "same-origin"


def test_any_origin_may_embed_an_answer_of_a_server_with_authentication_and_allowed_origins() -> None:
    with serving(Application(authenticate=StaticTokens({}), origins=(PAGE,))) as client:
        assert "cross-origin-resource-policy" not in client.get("/health").headers
