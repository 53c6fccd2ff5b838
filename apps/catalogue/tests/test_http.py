"""The catalogue's read API and page: search, a work, versions and their differences, and the counts for an alarm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

import stratalog
from apps.catalogue.tests.helpers import Catalogue
from stratalog.server.app import create_app
from stratalog.server.security import Principal, StaticTokens
from stratalog_catalogue.http import app, application

BASE = "/v1/organisations/acme/catalogue"
LARGE = bytes(range(256)) * 4096 + b"!"
BASH = {"source": "debian", "id": "bash/amd64"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient[Any]]:
    catalogue = Catalogue(stratalog.open("memory:"), tmp_path_factory.mktemp("sources"))
    catalogue.add()
    for day, version in enumerate(("5.2", "5.3"), 1):
        catalogue.write_packages({"bash": version, "zsh": "5.9"}, day=day)
        catalogue.poll()
    catalogue.scan()
    catalogue.records.put("source/debian/large", LARGE)
    while not catalogue.records.fail("source/debian/bad", "no id").dead:
        pass
    with TestClient(create_app(catalogue.store, app), base_url="http://127.0.0.1") as made:
        yield made


def test_works_are_found_by_words_and_by_ids(client: TestClient[Any]) -> None:
    assert [hit["id"] for hit in client.get(f"{BASE}/works").json()] == ["bash/amd64", "zsh/amd64"]
    assert [hit["id"] for hit in client.get(f"{BASE}/works", params={"text": "ZSH prog"}).json()] == ["zsh/amd64"]
    assert client.get(f"{BASE}/works", params={"begins": "b", "source": "debian"}).json()[0]["kind"] == "package"


def test_the_api_returns_a_work_with_its_record_its_versions_and_their_differences(client: TestClient[Any]) -> None:
    assert client.get(f"{BASE}/work", params=BASH).json()["title"] == "bash: the bash program"
    assert b"Version: 5.3" in client.get(f"{BASE}/record", params=BASH).content
    assert b"Version: 5.2" in client.get(f"{BASE}/record", params={**BASH, "version": 1}).content
    assert [version["version"] for version in client.get(f"{BASE}/versions", params=BASH).json()["versions"]] == [2, 1]
    first = client.get(f"{BASE}/versions", params={**BASH, "limit": 1}).json()
    assert ([version["version"] for version in first["versions"]], first["next"]) == ([2], 2)
    rest = client.get(f"{BASE}/versions", params={**BASH, "before": first["next"]}).json()
    assert ([version["version"] for version in rest["versions"]], rest["next"]) == ([1], None)
    lines = client.get(f"{BASE}/diff", params={**BASH, "before": 1, "after": 2}).json()["lines"]
    assert {"-Version: 5.2", "+Version: 5.3"} <= set(lines)


def test_a_record_too_large_for_a_comparison_is_served_entirely_or_by_range(client: TestClient[Any]) -> None:
    large = {"source": "debian", "id": "large"}
    assert client.get(f"{BASE}/diff", params={**large, "before": 0, "after": 1}).status_code == 422
    assert client.get(f"{BASE}/record", params=large).content == LARGE
    part = client.get(f"{BASE}/record", params=large, headers={"Range": "bytes=7-9"})
    assert (part.status_code, part.content) == (206, LARGE[7:10])


def test_an_unknown_work_or_version_is_not_found(client: TestClient[Any]) -> None:
    assert client.get(f"{BASE}/work", params={**BASH, "id": "none"}).status_code == 404
    assert client.get(f"{BASE}/diff", params={**BASH, "before": 1, "after": 9}).status_code == 404


def test_stats_and_metrics_count_works_and_dead_letters(client: TestClient[Any]) -> None:
    stats = client.get(f"{BASE}/stats").json()
    assert (stats["sources"][0]["works"], stats["dead_letters"]) == (2, {"debian": 1})
    samples = client.get(f"{BASE}/metrics").text
    assert 'stratalog_catalogue_works{source="debian"} 2' in samples
    assert 'stratalog_catalogue_dead_letters{source="debian"} 1' in samples
    assert "stratalog_catalogue_more_dead_letters 0" in samples


def test_the_page_is_served_with_its_parts(client: TestClient[Any]) -> None:
    page = client.get("/web/catalogue/").text
    own = ("catalogue/catalogue.css", "catalogue/catalogue.js", "catalogue/icon.svg")
    for name in (*own, "theme/base.css", "theme/theme.js"):
        assert f"/web/{name}" in page
        assert client.get(f"/web/{name}").status_code == 200


def test_the_api_refuses_writes(client: TestClient[Any]) -> None:
    assert {client.post(f"{BASE}/{path}").status_code for path in ("works", "work", "record", "stats")} == {405}


PATHS = ("works", "work", "record", "versions", "diff")


@pytest.mark.parametrize("path", PATHS)
def test_the_routes_to_works_and_records_require_the_action_read_record(client: TestClient[Any], path: str) -> None:
    asked: list[tuple[str, str]] = []

    def authorize(principal: Principal, action: str, organisation: str, name: str) -> bool:
        asked.append((action, name))
        return action == "read"

    assert fetch(client, path, authorize) == 403
    assert asked == [("read-record", "")]


@pytest.mark.parametrize("path", PATHS[1:])
def test_authorisation_of_a_record_uses_its_id(client: TestClient[Any], path: str) -> None:
    def all_but_bash(principal: Principal, action: str, organisation: str, name: str) -> bool:
        return name != "source/debian/bash/amd64"

    assert fetch(client, path, all_but_bash) == 403
    assert fetch(client, path, lambda principal, action, organisation, name: True) == 200


def fetch(client: TestClient[Any], path: str, authorize: Any) -> int:
    """Return the HTTP status of a search, or of another request for the package bash, with this ``authorize``."""
    rules = application(authenticate=StaticTokens({"t": Principal(id="ann")}), authorize=authorize)
    store: Any = client.app.state.service.store  # type: ignore[attr-defined]
    with TestClient(create_app(store, rules)) as other:
        params = {"works": {}, "diff": {**BASH, "before": 1, "after": 2}}.get(path, BASH)
        return other.get(f"{BASE}/{path}", params=params, headers={"Authorization": "Bearer t"}).status_code
