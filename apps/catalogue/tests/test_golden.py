"""The stored formats are fixed: each transformer makes the golden bytes, and the program still reads golden records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stratalog_catalogue.ingest import IngestFailure
from stratalog_catalogue.model import MODEL_VERSION, decode_work, encode_work
from stratalog_catalogue.names import source_id, stored_id, work_id
from stratalog_catalogue.sources import Source
from stratalog_catalogue.summary import Summary
from stratalog_catalogue.transformers import TRANSFORMERS, Given

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[3] / "formats/golden/catalogue-v1.json").read_text())


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_transformer_makes_the_golden_work(name: str) -> None:
    golden = GOLDEN["works"][name]
    made = TRANSFORMERS[name].make(
        Given("golden", golden["id"], golden["format"], golden["body"].encode(), len(golden["body"]))
    )
    assert TRANSFORMERS[name].name == golden["transformer"], "a transformer with other results needs a new version"
    assert encode_work(made).decode() == golden["work"]
    assert decode_work(golden["work"].encode()) == made


def test_every_golden_work_has_the_current_model_version() -> None:
    assert {json.loads(golden["work"])["model"] for golden in GOLDEN["works"].values()} == {MODEL_VERSION}


@pytest.mark.parametrize(("kind", "name"), [(Source, "source"), (Summary, "summary"), (IngestFailure, "letter")])
def test_golden_sources_summaries_and_letters_are_still_read(kind: type[msgspec.Struct], name: str) -> None:
    read = msgspec.json.decode(GOLDEN[name], type=kind)
    assert msgspec.json.encode(read).decode() == GOLDEN[name]


def test_settings_of_a_source_without_since_and_until_are_still_read() -> None:
    read = msgspec.json.decode(GOLDEN["source_before"], type=Source)
    assert (read.name, read.since, read.until) == ("archive", "", "")


def test_settings_and_letters_without_an_encoding_are_still_read() -> None:
    source = msgspec.json.decode(GOLDEN["source_before_encodings"], type=Source)
    assert (source.encoding, source.paused, source.deletions_percent_max) == ("", False, 20.0)
    letter = msgspec.json.decode(GOLDEN["letter_before_documents"], type=IngestFailure)
    assert (letter.document, letter.encoding) == (False, "")


def test_letters_without_metadata_are_still_read() -> None:
    letter = msgspec.json.decode(GOLDEN["letter_before_metadata"], type=IngestFailure)
    assert (letter.encoding, letter.metadata) == ("cp1252", {})


def test_golden_ids_still_have_the_same_stored_form() -> None:
    assert [[id, stored_id(id)] for id, _ in GOLDEN["ids"]] == GOLDEN["ids"]
    assert (source_id("s", "a/b"), work_id("s", "a/b")) == ("source/s/a/b", "works/s/a/b")
