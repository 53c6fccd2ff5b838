"""Encodings of dead letters: a redrive reads a part of a text in the encoding in which the text was read."""

from __future__ import annotations

import codecs
from typing import Any

import httpx
import pytest

from apps.catalogue.tests.helpers import Catalogue
from stratalog import LimitExceeded
from stratalog_catalogue.ingest import IngestFailure, fail
from stratalog_catalogue.queries import read_work
from stratalog_catalogue.redrive import redrive

LATIN_1 = {"transformer": "plain", "id": "id", "complete": False, "encoding": "latin-1"}
XML = "<c><r><id>1</id><title>Café</title></r></c>"
HARVEST = """<OAI-PMH><responseDate>2024-01-02T00:00:00Z</responseDate>
<Identify><granularity>YYYY-MM-DD</granularity></Identify><ListRecords><record><header><identifier>{id}</identifier><datestamp>2024-01-01</datestamp></header>
<metadata><dc xmlns="http://purl.org/dc/elements/1.1/"><title>Café</title></dc></metadata></record></ListRecords>
</OAI-PMH>"""


def reasons(catalogue: Catalogue) -> list[str]:
    return [letter.reason for letter in redrive(catalogue.store, "acme", catalogue.connect)]


def poll_refused_by_the_store(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll while the store refuses every record."""

    def refuse(*_: Any) -> None:
        raise LimitExceeded("too large", limit=1)

    with monkeypatch.context() as patched:
        patched.setattr("stratalog.records.batch.check_metadata", refuse)
        assert catalogue.poll().taken.failed == 1


def title(catalogue: Catalogue) -> str:
    catalogue.scan()
    return read_work(catalogue.records, "s", "1").title


@pytest.mark.parametrize(
    ("form", "text", "settings"),
    [
        ("json", '[{"id":"1","title":"Café"}]', {}),
        ("jsonl", '{"id":"1","title":"Café"}', {}),
        ("xml", XML, {"records": "r"}),
        ("xml", XML.removeprefix("<c>").removesuffix("</c>"), {}),
        ("rfc822", "id: 1\ntitle: Café\n", {}),
        ("csv", "id,title\n1,Café\n", {}),
    ],
    ids=["json", "jsonl", "xml_element", "xml_document", "rfc822", "csv"],
)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_redrive_reads_a_record_in_the_encoding_of_its_byte_order_mark(
    catalogue: Catalogue, form: str, text: str, settings: dict[str, Any], encoding: str
) -> None:
    source = {"format": form, **LATIN_1, **settings}
    catalogue.add("s", **{**source, "id": "isbn"})
    catalogue.write(text.encode(encoding), source="s", name="a")
    assert catalogue.poll().taken.failed == 1
    (catalogue.folder / "s" / "a").unlink()
    catalogue.add("s", **source)
    assert reasons(catalogue) == [""]
    assert title(catalogue) == "Café"


def test_a_record_that_is_not_in_the_encoding_of_its_byte_order_mark_stays_a_letter(catalogue: Catalogue) -> None:
    catalogue.add("s", format="jsonl", **LATIN_1)
    catalogue.write(codecs.BOM_UTF8 + b'{"id":"1","title":"Caf\xe9"}', source="s", name="a")
    assert catalogue.poll().taken.failed == 1
    (reason,) = reasons(catalogue)
    assert reason.startswith("the text is not JSON")


def test_a_redrive_reads_a_csv_row_that_the_store_refused_as_it_was_converted(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.add("s", format="csv", **LATIN_1)
    catalogue.write("id,title\n1,Café\n".encode("latin-1"), source="s", name="a")
    poll_refused_by_the_store(catalogue, monkeypatch)
    assert reasons(catalogue) == [""]
    assert title(catalogue) == "Café"


def test_a_redrive_reads_an_oai_record_without_the_encoding_of_the_source(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    oai = {"adapter": "oai", "location": "https://example.org/oai", "format": "xml", **LATIN_1}
    answer = HARVEST.format(id="1").encode()
    catalogue.connect = lambda: httpx.Client(
        transport=httpx.MockTransport(lambda _: httpx.Response(200, content=iter([answer])))
    )
    catalogue.add("s", **{**oai, "transformer": "dublin-core"})
    poll_refused_by_the_store(catalogue, monkeypatch)
    assert reasons(catalogue) == [""]
    assert title(catalogue) == "Café"


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize(
    ("form", "text"),
    [("jsonl", '{"id":"1","title":"Café"}'), ("csv", "id,title\n1,Café\n")],
    ids=["jsonl", "csv"],
)
def test_a_letter_of_an_earlier_build_without_an_encoding_is_read_as_utf_8_or_in_the_encoding_of_the_source(
    catalogue: Catalogue, form: str, text: str, encoding: str
) -> None:
    catalogue.add("s", format=form, **LATIN_1)
    letter = IngestFailure(id="a#0", time_ms=1, changed_only=True, document=form == "csv")
    fail(catalogue.records, "source/s/a#0~0123456789abcdef", "a record has no id", letter, text.encode(encoding))
    assert reasons(catalogue) == [""]
    assert title(catalogue) == "Café"
