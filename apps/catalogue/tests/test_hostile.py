"""A poll of a hostile file stores its valid records exactly, makes dead letters of the rest, and reads other files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.catalogue.tests.helpers import Catalogue, catalogue_in
from apps.catalogue.tests.hostile import HOSTILE, Hostile
from stratalog_catalogue.names import source_id
from stratalog_catalogue.polls import poll
from stratalog_catalogue.redrive import redrive

HONEST = {
    "json": b'[{"id":"honest"}]',
    "jsonl": b'{"id":"honest"}',
    "csv": b"id\nhonest\n",
    "rfc822": b"id: honest\n",
    "xml": b"<i><id>honest</id></i>",
    "file": b"honest",
}


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Catalogue]:
    made = catalogue_in(tmp_path)
    yield made
    made.store.close()


def test_the_hostile_cases_are_many_and_have_unique_names() -> None:
    names = [hostile.name for hostile in HOSTILE]
    assert len(names) >= 100
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("hostile", HOSTILE, ids=[re.sub(r"\W+", "_", hostile.name) for hostile in HOSTILE])
def test_valid_records_of_a_hostile_file_are_stored_and_the_rest_become_dead_letters(
    plain: Catalogue, hostile: Hostile
) -> None:
    settings = {"format": hostile.form, "transformer": "plain", "id": "id", "complete": False}
    plain.add("hostile", **{**settings, **hostile.settings})
    plain.add("later", format="jsonl", transformer="plain", id="id", complete=False)
    plain.write(b'{"id":1}', source="later", name="later.jsonl")
    honest = HONEST[hostile.form]
    if hostile.settings.get("id"):
        honest = b"<i id='honest'/>"
    if hostile.settings.get("records") == "items":
        honest = b'{"items":' + honest + b"}"
    if hostile.settings.get("time"):
        honest = b'[{"id":"honest","t":"2024-01-01"}]'
    plain.write(honest, source="hostile", name="zz-honest", day=9)
    path = os.fsencode(plain.folder / "hostile") + b"/" + os.fsencode(hostile.file)
    with open(path, "wb") as file:
        file.write(hostile.body)
    os.utime(path, (1_600_000_000, 1_600_000_000))

    outcomes = list(poll(plain.store, "acme", plain.connect))
    assert [(outcome.source, outcome.reason) for outcome in outcomes] == [("hostile", ""), ("later", "")]
    assert plain.ids("source/later/") == ["1"]
    for id, body in hostile.taken.items():
        assert plain.records.get(source_id("hostile", id)).body == body
    assert len(plain.ids("source/hostile/")) == len(hostile.taken) + 1
    letters = list(plain.records.dead_letters())
    assert len(letters) == hostile.letters, [letter.reason for letter in letters]
    for letter in letters:
        stored = b"".join(plain.records.open_dead_letter(letter.id)) if letter.size else b""
        assert letter.size is not None or not hostile.body
        assert stored in hostile.body or hostile.form == "csv", "a letter has bytes that the file does not have"
    # A second poll reads nothing, and a redrive resolves no dead letter.
    assert [outcome.taken.read for outcome in poll(plain.store, "acme", plain.connect)] == [0, 0]
    assert [result.resolved for result in redrive(plain.store, "acme", plain.connect)] == [False] * len(letters)
    assert len(list(plain.records.dead_letters())) == len(letters)
    plain.scan()
