"""The lists of a store and of the HTTP API go on after a damaged line, and name it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import stratalog
from stratalog.documents.rejections import RejectedMutation, write_rejection
from stratalog.errors import Corrupt
from stratalog.keys import (
    ORGANISATIONS_PARTITION,
    REJECTED_PARTITION,
    dead_letters_partition,
    names_partition,
)
from stratalog.log.directory import LOGS, RECORDS, line_partition
from stratalog.maintenance.store_pass import maintain
from stratalog.records import Records
from stratalog.server import row_pages
from stratalog.testing.clock import ManualClock
from stratalog.worker.dead_letters import list_letters, redrive_all
from tests.inline_store import open_inline
from tests.server.api import serving

IDS = [f"{number:02}" for number in range(20)]
LOST = "07"
OTHERS = [id for id in IDS if id != LOST]

UNDECODABLE = "body = x'c1'"
WITHOUT_ATTRIBUTES = "body = x'80'"
DAMAGED_KEY = "sort = CAST(x'3037ff' AS TEXT)"

Damage = Callable[[str, str], None]
Listed = Callable[..., Iterator[Any]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[stratalog.Store]:
    with open_inline(tmp_path, clock=ManualClock()) as store:
        records = Records(store.environment, "acme", failures_max=1)
        for id in IDS:
            store.create("acme", id)
            store.create(id, "plan")
            records.put(id, b"body")
            records.fail(id, "no title")
        yield store


@pytest.fixture(params=[UNDECODABLE, WITHOUT_ATTRIBUTES, DAMAGED_KEY])
def damage(request: pytest.FixtureRequest, tmp_path: Path) -> Damage:
    def change(partition: str, sort: str) -> None:
        database = apsw.Connection(str(tmp_path / "index.sqlite"))
        database.execute(f"UPDATE items SET {request.param} WHERE partition = ? AND sort = ?", (partition, sort))
        assert database.changes() == 1

    return change


def expect_named(listed: Listed, id_of: Callable[[Any], str] = lambda row: row.id) -> None:
    """Expect all other rows in order and the damaged one by name, or without ``damaged`` the rows before it."""
    errors = list[Corrupt]()
    assert [id_of(row) for row in listed(damaged=errors.append)] == OTHERS
    assert [error.details["sort"].removesuffix("\\xff") for error in errors] == [LOST]
    before = list[str]()
    with pytest.raises(Corrupt, match=f"sort='{LOST}"):
        before.extend(map(id_of, listed()))
    assert before == [id for id in IDS if id < LOST][: len(before)]


def test_a_list_of_documents_goes_on_after_a_damaged_line_and_names_it(store: stratalog.Store, damage: Damage) -> None:
    damage(line_partition("acme", LOGS, LOST), LOST)
    expect_named(lambda **options: store.list("acme", **options))


def test_a_list_of_records_goes_on_after_a_damaged_line_and_names_it(store: stratalog.Store, damage: Damage) -> None:
    damage(line_partition("acme", RECORDS, LOST), LOST)
    expect_named(lambda **options: store.records("acme").list(**options))
    expect_named(lambda **options: store.records("acme").list(prefix="", **options))


def test_a_record_whose_damaged_line_is_the_prefix_itself_is_named(store: stratalog.Store) -> None:
    store.records("acme").put(f"{LOST}/part", b"body")
    database = apsw.Connection(str(store.location) + "/index.sqlite")
    key = (line_partition("acme", RECORDS, LOST), LOST)
    database.execute(f"UPDATE items SET {UNDECODABLE} WHERE partition = ? AND sort = ?", key)
    errors = list[Corrupt]()
    listed = store.records("acme").list(prefix=LOST, damaged=errors.append)
    assert [listing.id for listing in listed] == [f"{LOST}/part"]
    assert [error.details["sort"] for error in errors] == [LOST]


def test_a_list_of_dead_letters_goes_on_after_a_damaged_one_and_names_it(
    store: stratalog.Store, damage: Damage
) -> None:
    damage(dead_letters_partition("acme"), LOST)
    expect_named(lambda **options: store.records("acme").dead_letters(**options))


def test_a_list_of_holders_of_a_name_goes_on_after_a_damaged_line_and_names_it(
    store: stratalog.Store, damage: Damage
) -> None:
    damage(names_partition("plan"), LOST)
    expect_named(lambda **options: store.organisations_of("plan", **options), lambda row: row.organisation)


def test_an_organisation_whose_key_is_damaged_is_named_by_the_list_and_by_maintenance(
    store: stratalog.Store, tmp_path: Path
) -> None:
    database = apsw.Connection(str(tmp_path / "index.sqlite"))
    key = (ORGANISATIONS_PARTITION, LOST)
    database.execute(f"UPDATE items SET {DAMAGED_KEY} WHERE partition = ? AND sort = ?", key)
    errors = list[Corrupt]()
    assert list(store.organisations(damaged=errors.append)) == [*OTHERS, "acme"]
    assert [error.details["sort"] for error in errors] == [f"{LOST}\\xff"]
    assert [failure.what for failure in maintain(store).failures] == ["the list of organisations"]


@pytest.mark.parametrize("shelf", [LOGS, RECORDS])
def test_maintenance_names_a_directory_line_whose_key_is_damaged(
    store: stratalog.Store, tmp_path: Path, shelf: str
) -> None:
    database = apsw.Connection(str(tmp_path / "index.sqlite"))
    key = (line_partition("acme", shelf, LOST), LOST)
    database.execute(f"UPDATE items SET {DAMAGED_KEY} WHERE partition = ? AND sort = ?", key)
    report = maintain(store)
    assert [failure.what for failure in report.failures] == ["the directory of acme"]
    assert (report.logs, report.records) == (39, 20) if shelf == LOGS else (40, 19)


def test_a_damaged_dead_letter_of_a_mutation_is_listed_with_its_damage_and_the_others_are_redriven(
    store: stratalog.Store, damage: Damage
) -> None:
    ids = [f"{id}/1" for id in IDS]
    for id in ids:
        write_rejection(store.environment.index, id, RejectedMutation("acme", id, "1", "ada", 1, "no good", 1, 1))
    damage(REJECTED_PARTITION, f"{LOST}/1")
    letters = list(list_letters(store))
    assert [letter.id[:2] for letter in letters] == IDS
    assert [letter.id[:2] for letter in letters if "damaged" in letter.reason] == [LOST]
    results = dict(redrive_all(store))
    assert [*results] == [letter.id for letter in letters]
    assert [id[:2] for id, error in results.items() if isinstance(error, Corrupt)] == [LOST]


@pytest.mark.parametrize(("path", "rows", "shelf"), [("", "items", LOGS), ("/records", "records", RECORDS)])
def test_a_list_over_http_goes_on_after_a_damaged_line_and_names_it(
    store: stratalog.Store, damage: Damage, path: str, rows: str, shelf: str
) -> None:
    damage(line_partition("acme", shelf, LOST), LOST)
    with serving(store=store) as client:
        page = client.get(f"/v1/organisations/acme{path}?limit=5").json()
        listed, damaged = page[rows], page["damaged"]
        assert damaged == []
        while page["next"]:
            page = client.get(f"/v1/organisations/acme{path}?limit=5&after={page['next']}").json()
            listed, damaged = [*listed, *page[rows]], [*damaged, *page["damaged"]]
    assert [row["id"] for row in listed] == OTHERS
    assert {id.removesuffix("\\xff") for id in damaged} == {LOST}


def test_a_page_without_readable_lines_names_some_lines_and_counts_the_others(
    store: stratalog.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_pages, "DAMAGED_NAMED_MAX", 5)
    database = apsw.Connection(str(tmp_path / "index.sqlite"))
    database.execute(f"UPDATE items SET {UNDECODABLE} WHERE partition = ?", (line_partition("acme", LOGS, LOST),))
    with serving(store=store) as client:
        page = client.get("/v1/organisations/acme?limit=1").json()
    assert page == {"items": [], "next": None, "damaged": IDS[:5], "more_damaged": len(IDS) - 5}


def test_a_list_of_holders_over_http_with_a_damaged_line_is_not_complete(
    store: stratalog.Store, damage: Damage
) -> None:
    with serving(store=store) as client:
        assert client.get("/v1/names/plan").json()["complete"] is True
        damage(names_partition("plan"), LOST)
        answer = client.get("/v1/names/plan").json()
    assert [item["organisation"] for item in answer["items"]] == OTHERS
    assert answer["complete"] is False
