"""The HTTP API of the spreadsheet, for its page and other programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apps.sheet.tests.helpers import ENGINES
from apps.sheet.tests.packages import package, rows
from stratalog.server import ServerLimits
from stratalog.server.security import Principal, StaticTokens
from stratalog_sheet.engine_files import install_engine
from stratalog_sheet.files import import_bytes
from stratalog_sheet.http import application
from stratalog_sheet.pages import PAGE
from tests.server.api import Client, problem, serving

SHEETS = "/v1/organisations/acme/sheets"
BUDGET = f"{SHEETS}/budget"
TOKENS = {"full": Principal(id="ann", name="Ann Lee"), "look": Principal(id="bob", read_only=True)}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Return a client of a server without authentication."""
    install_engine()
    with serving(application(engines=ENGINES)) as running:
        yield running


@pytest.fixture
def name(client: Client, request: pytest.FixtureRequest) -> str:
    """Return the path of a new sheet for one test."""
    path = f"{SHEETS}/{request.node.name}"
    assert client.put(f"{path}/", params={"author": "Maker"}, json={"title": "Budget"}).status_code == 201
    return path


def revision(client: Client, path: str, id: str, content: str) -> dict[str, Any]:
    """Return a message that sets A1 and is based on the current revision, as a browser makes it."""
    entries = client.get(f"{path}/load").json()["entries"]
    messages = [entry["message"] for entry in entries if entry["message"]]
    base = client.get(f"{path}/state").json()["revisionId"]
    command = {"type": "UPDATE_CELL", "sheetId": "sheet1", "col": 0, "row": 0, "content": content}
    return {
        "type": "REMOTE_REVISION",
        "version": 1,
        "clientId": "me",
        "serverRevisionId": messages[-1]["nextRevisionId"] if messages else base,
        "nextRevisionId": id,
        "commands": [command],
    }


def test_a_new_sheet_is_listed_with_its_title(client: Client, name: str) -> None:
    facts = client.get(f"{name}/").json()
    assert (facts["title"], facts["version"], facts["first"], facts["read_only"]) == ("Budget", 1, 1, False)
    listed = {listed_sheet["name"]: listed_sheet["title"] for listed_sheet in client.get(f"{SHEETS}/").json()}
    assert listed[facts["name"]] == "Budget"


def test_a_second_creation_of_a_sheet_is_a_conflict(client: Client, name: str) -> None:
    assert problem(client.put(f"{name}/", json={})) == (409, "conflict")


def test_a_message_sent_twice_is_appended_once_and_listed_in_the_entries(client: Client, name: str) -> None:
    message = revision(client, name, "rev-1", "one")
    first = client.post(f"{name}/append", params={"author": "Ada"}, json={"message": message})
    again = client.post(f"{name}/append", params={"author": "Ada"}, json={"message": message})
    assert first.json() == again.json()
    assert (first.json()["version"], first.json()["author"], first.json()["message"]) == (2, "Ada", message)
    assert [entry["version"] for entry in client.get(f"{name}/entries", params={"after": 1}).json()["entries"]] == [2]


def test_a_message_based_on_an_old_revision_is_a_conflict(client: Client, name: str) -> None:
    stale = revision(client, name, "rev-1", "one")
    client.post(f"{name}/append", json={"message": revision(client, name, "rev-2", "two")})
    assert problem(client.post(f"{name}/append", json={"message": stale})) == (409, "version-conflict")


def test_a_load_with_a_known_base_returns_only_new_entries(client: Client, name: str) -> None:
    complete = client.get(f"{name}/load").json()
    client.put(f"{name}/cells/B2", json={"content": "42"})
    known = {"known": complete["base"], "after": complete["version"]}
    new = client.get(f"{name}/load", params=known).json()
    assert (new["data"], [entry["version"] for entry in new["entries"]], new["version"]) == (None, [2], 2)
    assert complete["data"]["sheets"]


def test_a_cell_is_read_at_the_current_and_at_an_earlier_version(client: Client, name: str) -> None:
    client.put(f"{name}/cells/A1", params={"author": "Cleo"}, json={"content": "2"})
    client.put(f"{name}/cells/A2", json={"content": "=A1*21"})
    assert client.get(f"{name}/cells/A2").json()["value"] == 42
    assert client.get(f"{name}/cells/A2", params={"at": 2}).json()["content"] == ""
    (held,) = client.get(f"{name}/blame", params={"cell": "A1"}).json()
    assert (held["author"], held["before"], held["after"]) == ("Cleo", "", "2")


def test_the_references_of_a_formula_follow_inserted_rows(client: Client, name: str) -> None:
    client.put(f"{name}/cells/A1", json={"content": "=SUM(B5:B9)"})
    client.post(f"{name}/rows", json={"row": 3, "count": 2})
    assert client.get(f"{name}/cells/A1").json()["content"] == "=SUM(B7:B11)"


def test_earlier_versions_are_named_compared_restored_and_copied(client: Client, name: str) -> None:
    for content in ("one", "two"):
        client.put(f"{name}/cells/A1", json={"content": content})
    client.post(f"{name}/versions", params={"author": "Ann"}, json={"version": 2, "label": "first"})
    assert [(row["version"], row["label"]) for row in client.get(f"{name}/versions").json()] == [(2, "first")]
    (changed,) = client.get(f"{name}/changes", params={"source": 2, "target": 3}).json()
    assert (changed["cell"], changed["before"], changed["after"]) == ("A1", "one", "two")
    assert client.post(f"{name}/restore", json={"version": 2}).json()["type"] == "restored"
    assert client.get(f"{name}/cells/A1").json()["content"] == "one"
    copy = client.post(f"{name}/fork", json={"name": f"{name[-20:]}-copy", "version": 3, "title": "Copy"})
    assert (copy.status_code, copy.json()["title"]) == (201, "Copy")
    assert [row["type"] for row in client.get(f"{name}/activity", params={"limit": 2}).json()] == ["restored", "named"]


def test_a_misspelt_field_or_parameter_of_a_request_is_refused_and_nothing_is_committed(
    client: Client, name: str
) -> None:
    client.post(f"{name}/versions", json={"version": 1, "label": "first"})
    for path, query, body in (
        ("versions", {}, {"version": 1, "lable": "second"}),
        ("rows", {}, {"row": 1, "cuont": 3}),
        ("append", {}, {"message": revision(client, name, "r1", "1"), "versoin": 2}),
        ("restore", {"incarnatoin": "x"}, {"version": 1}),
        ("fork", {}, {"name": "copy", "version": 1, "titel": "Copy"}),
    ):
        assert problem(client.post(f"{name}/{path}", params=query, json=body)) == (400, "invalid")
    assert problem(client.delete(f"{name}/", params={"incarnatoin": "x"})) == (400, "invalid")
    assert client.get(f"{name}/").json()["version"] == 2
    assert [version["label"] for version in client.get(f"{name}/versions").json()] == ["first"]


def test_an_import_provides_the_original_file_and_the_imported_cells(client: Client, name: str) -> None:
    client.put(f"{name}/cells/A1", json={"content": "kept"})
    exported = client.get(f"{name}/export.xlsx")
    assert exported.headers["content-disposition"] == "attachment; filename*=UTF-8''Budget.xlsx"
    other = f"{name}-imported"
    asked = {"file": "Liste – März.xlsx", "title": "Liste", "author": "Ann"}
    made = client.post(f"{other}/import", params=asked, content=exported.content)
    assert (made.status_code, made.json()["title"]) == (201, "Liste")
    original = client.get(f"{other}/original.xlsx")
    assert original.content == exported.content
    assert "Liste%20%E2%80%93%20M%C3%A4rz.xlsx" in original.headers["content-disposition"]
    assert client.get(f"{other}/cells/A1").json()["content"] == "kept"


def test_imports_and_exports_report_losses(client: Client, name: str) -> None:
    body = package({"S": rows('<c r="A1"><f>NOSUCH(1)</f></c>')})
    assert client.post(f"{name}-xlsx/import", params={"file": "book.xlsx"}, content=body).status_code == 201
    (finding,) = client.get(f"{name}-xlsx/import-report").json()["findings"]
    assert (finding["code"], finding["count"], finding["where"]) == ("formula", 1, ["S!A1"])
    client.put(f"{name}-xlsx/cells/A2", json={"content": "=[@none"})
    (lost,) = client.get(f"{name}-xlsx/export-report").json()["findings"]
    assert (lost["code"], lost["where"]) == ("formula", ["S!A2"])
    assert client.get(f"{name}-xlsx/export-report", params={"at": 1}).json() == {"findings": []}
    assert client.post(f"{name}-csv/import", params={"file": "list.csv"}, content=b"a;007\r\n").status_code == 201
    written = client.get(f"{name}-csv/export.csv")
    assert (written.content, written.headers["content-type"]) == (b"a,007\r\n", "text/csv; charset=utf-8")
    assert client.get(f"{name}-csv/original.xlsx").content == b"a;007\r\n"
    assert problem(client.get(f"{name}-csv/export.csv", params={"tab": "none"})) == (404, "not-found")


def test_the_unpacked_bytes_of_an_import_count_toward_the_server_limit() -> None:
    cells = "".join(f'<c r="A{row}" s="1"/>' for row in range(1, 40_000))
    body = package({"S": f"<sheetData><row>{cells}</row></sheetData>"})
    assert len(body) < import_bytes(body) // 20
    limits = ServerLimits(decoded_bytes_in_flight_max=import_bytes(body) - 1)
    with serving(application(limits=limits, engines=ENGINES)) as client:
        answer = client.post(f"{SHEETS}/large/import", content=body)
        assert problem(answer) == (422, "limit-exceeded")
        assert client.get(f"{SHEETS}/large/").status_code == 404
        small = package({"S": rows('<c r="A1"><v>1</v></c>')})
        assert client.post(f"{SHEETS}/small/import", content=small).status_code == 201


def test_a_file_that_is_not_a_workbook_is_refused(client: Client) -> None:
    answer = client.post(f"{SHEETS}/broken/import", content=b"PK nonsense")
    assert problem(answer) == (400, "invalid")
    assert client.get(f"{SHEETS}/broken/").status_code == 404


def test_a_change_has_the_name_of_its_principal_and_a_reader_cannot_write() -> None:
    with serving(application(StaticTokens(TOKENS), engines=ENGINES)) as client:
        full, look = ({"Authorization": f"Bearer {token}"} for token in TOKENS)
        assert client.get(f"{BUDGET}/").status_code == 401
        client.put(f"{BUDGET}/", json={}, headers=full)
        client.put(f"{BUDGET}/cells/A1", params={"author": "Mallory"}, json={"content": "1"}, headers=full)
        assert client.get(f"{BUDGET}/blame", params={"cell": "A1"}, headers=look).json()[0]["author"] == "Ann Lee"
        assert client.get(f"{BUDGET}/", headers=look).json()["read_only"] is True
        refused = client.put(f"{BUDGET}/cells/A1", json={"content": "2"}, headers=look)
        assert problem(refused) == (403, "forbidden")
        assert problem(client.post(f"{BUDGET}/restore", json={"version": 1}, headers=look)) == (403, "forbidden")
        assert problem(client.post(f"{BUDGET}/rename", json={"title": "x"}, headers=look)) == (403, "forbidden")
        assert problem(client.delete(f"{BUDGET}/", headers=look)) == (403, "forbidden")
        listed = {
            token: client.get(f"{SHEETS}/", headers=who).json() for token, who in (("full", full), ("look", look))
        }
        assert {token: [line["read_only"] for line in lines] for token, lines in listed.items()} == {
            "full": [False],
            "look": [True],
        }


def test_a_sheet_is_renamed_and_its_address_stays(client: Client, name: str) -> None:
    answer = client.post(f"{name}/rename", params={"author": "Ada"}, json={"title": "Plan"})
    assert (answer.status_code, answer.json()["type"], answer.json()["author"]) == (200, "renamed", "Ada")
    assert client.get(f"{name}/").json()["title"] == "Plan"
    assert client.get(f"{name}/export.xlsx").headers["content-disposition"].endswith("''Plan.xlsx")
    assert problem(client.post(f"{name}/rename", json={"title": " "})) == (400, "invalid")
    assert problem(client.post(f"{name}/rename", json={"title": "x" * 201})) == (422, "limit-exceeded")


def test_a_deleted_sheet_is_not_found(client: Client, name: str) -> None:
    assert client.delete(f"{name}/").status_code == 204
    assert problem(client.get(f"{name}/")) == (404, "not-found")
    assert problem(client.delete(f"{name}/")) == (404, "not-found")
    assert name.rpartition("/")[2] not in [listed["name"] for listed in client.get(f"{SHEETS}/").json()]


def test_a_request_with_the_incarnation_of_a_deleted_sheet_is_not_found(client: Client, name: str) -> None:
    old = {"incarnation": client.get(f"{name}/").json()["incarnation"]}
    assert client.get(f"{name}/entries", params={"after": 0, **old}).status_code == 200
    client.delete(f"{name}/", params=old)
    client.put(f"{name}/", json={"title": "Another"})
    for answer in (
        client.get(f"{name}/entries", params={"after": 0, **old}),
        client.post(f"{name}/rename", params=old, json={"title": "x"}),
        client.delete(f"{name}/", params=old),
    ):
        assert problem(answer) == (404, "not-found")
    assert client.get(f"{name}/").json()["title"] == "Another"


def test_the_page_and_the_engine_have_a_content_security_policy_without_remote_sources(client: Client) -> None:
    for path in ("", "edit.html", "edit.js", "engine/o-spreadsheet/dist/o_spreadsheet.min.iife.js"):
        answer = client.get(PAGE + path)
        assert answer.status_code == 200, path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'" in policy
        assert "http" not in policy


def test_the_installed_engine_has_its_licence_file() -> None:
    folder = install_engine()
    assert "LESSER GENERAL PUBLIC LICENSE" in (folder / "o-spreadsheet" / "LICENSE").read_text().upper()


def test_refused_commands_are_listed_with_their_content(client: Client, name: str) -> None:
    message = revision(client, name, "refused", "precious")
    message["commands"][0]["sheetId"] = "nosuch"
    assert client.post(f"{name}/append", params={"author": "Eve"}, json={"message": message}).status_code == 200
    [command] = client.get(f"{name}/refused").json()
    assert command == {
        "version": 2,
        "author": "Eve",
        "type": "UPDATE_CELL",
        "reason": "InvalidSheetId",
        "command": message["commands"][0],
    }
    assert client.get(f"{name}/refused", params={"at": 1}).json() == []
