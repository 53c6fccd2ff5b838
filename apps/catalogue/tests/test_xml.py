"""Untrusted XML: the limits of tokens, names, depth, elements and records, and the encoding of each record."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

import pytest

from stratalog import Invalid, LimitExceeded
from stratalog_catalogue import xml
from stratalog_catalogue.limits import XML_TOKEN_BYTES_MAX
from stratalog_catalogue.xml import cut_elements, parse_element, text_at
from stratalog_catalogue.xml_bounds import PIECE_BYTES, even_pieces

K = b"x" * 1024
DEFAULTS = b'<!DOCTYPE l [<!ATTLIST r a CDATA "' + K + b'">]><l>' + b"<r/>" * 1000 + b"</l>"
ATTRIBUTES = b" ".join(b"a%d='1'" % position for position in range(1001))


@pytest.mark.parametrize(
    "document",
    [DEFAULTS, b'<!DOCTYPE l SYSTEM "http://127.0.0.1:1/x.dtd" [<!ENTITY a "b">]><l><r/></l>', b"<!DOCTYPE l []><l/>"],
    ids=["defaults of attributes", "external", "empty"],
)
@pytest.mark.parametrize("size", [1, 100_000])
def test_a_document_type_with_an_internal_subset_is_refused_with_its_name(document: bytes, size: int) -> None:
    with pytest.raises(Invalid, match=r"document type.*doctype='l'"):
        list(cut_elements(cut(document[:3000], size), "r"))


@pytest.mark.parametrize(
    "kind", [b"l", b'l SYSTEM "http://127.0.0.1:1/x.dtd"', b'l PUBLIC "-//X" "file:///etc/passwd"']
)
def test_a_document_type_without_an_internal_subset_is_read_and_nothing_is_fetched(kind: bytes) -> None:
    document = b"<!DOCTYPE " + kind + b"><l><r>a</r></l>"
    assert [cut.body for cut in cut_elements([document], "r")] == [b"<r>a</r>"]
    with pytest.raises(Invalid, match="entity"):
        list(cut_elements([document.replace(b">a<", b">&name;<")], "r"))


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (b"<!--", b"--><l/>"),
        (b"<?a ", b"?><l/>"),
        (b"<l><r a='", b"'/></l>"),
        (b"<l><r ", b"/></l>"),
        (b"<l><r/></l>\n<!--", b"-->"),
    ],
    ids=["comment", "instruction", "attribute", "space in a tag", "comment at the end"],
)
def test_a_token_without_an_end_is_refused_at_the_token_limit(start: bytes, end: bytes) -> None:
    fed = 0

    def pieces() -> Iterator[bytes]:
        nonlocal fed
        yield start
        for _ in range(20 * 1024):
            fed += len(K)
            yield b" " * len(K)
        yield end

    with pytest.raises(LimitExceeded, match=rf"too long.*limit={XML_TOKEN_BYTES_MAX}"):
        list(cut_elements(pieces(), "r"))
    assert fed <= XML_TOKEN_BYTES_MAX + 2 * PIECE_BYTES


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (b"<l>" + b"<r>" * 200, "nested too deeply value=101 limit=100"),
        (b"<l><r " + ATTRIBUTES + b"/></l>", "too many attributes value=1001 limit=1000"),
        (b"<l>" + b"".join(b"<n%d/>" % n for n in range(10_001)) + b"</l>", "different names value=10001 limit=10000"),
        (
            b"<l><r xmlns:p='" + K + b"y'/></l>",
            "namespace of XML is too long value=1025 limit=1024",
        ),
        (b"<l><" + K + b"y/></l>", "name in XML is too long value=1025 limit=1024"),
    ],
    ids=["depth", "attributes", "names", "namespace", "name"],
)
def test_each_bound_names_the_value_and_the_limit(document: bytes, text: str) -> None:
    for size in (7, len(document)):
        with pytest.raises(LimitExceeded) as refused:
            list(cut_elements(cut(document, size), "r"))
        assert text in str(refused.value)


def test_the_size_of_a_record_is_bounded_and_the_size_of_a_document_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml, "XML_ELEMENTS_OF_RECORD_MAX", 5)
    monkeypatch.setattr(xml, "CATALOGUE_RECORD_BYTES_MAX", 2 * PIECE_BYTES)
    record, large = b"<r><a/><a/></r>", b"<r>" + b"y" * PIECE_BYTES + b"</r>"
    assert len(list(cut_elements([b"<l>", record * 50, b"<q><a/></q>" * 50, large * 10, b"</l>"], "r"))) == 60
    with pytest.raises(LimitExceeded, match="too many elements value=6 limit=5"):
        list(cut_elements([b"<l><r>", b"<a/>" * 6], "r"))
    long = [b"y" * PIECE_BYTES] * 4
    with pytest.raises(LimitExceeded, match="a record is too long"):
        list(cut_elements([b"<l><r>", *long], "r"))
    # The bytes between records are not kept in memory.
    assert list(cut_elements([b"<l>", *long, b"</l>"], "r")) == []


def test_the_token_limit_does_not_apply_to_text() -> None:
    text = "é" * XML_TOKEN_BYTES_MAX
    assert parse_element(f"<l>{text}</l>".encode()).text == text
    assert parse_element(f"<l><![CDATA[{text}]]></l>".encode()).text == text


def test_pieces_have_the_same_size_however_the_bytes_arrive() -> None:
    body = bytes(range(256)) * 1024
    for size in (1000, PIECE_BYTES, 3 * PIECE_BYTES + 1):
        pieces = list(even_pieces(cut(body, size)))
        assert b"".join(pieces) == body
        assert {len(piece) for piece in pieces[:-1]} == {PIECE_BYTES}


def cut(body: bytes, size: int) -> Iterable[bytes]:
    return (body[start : start + size] for start in range(0, len(body), size))


LIST = "<l><r><t>é</t></r></l>"
RECORD = "<r><t>é</t></r>"


def declared(encoding: str) -> str:
    return f'<?xml version="1.0" encoding="{encoding}"?>{LIST}'


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("is_marked", [True, False], ids=["mark", "no mark"])
def test_a_record_of_a_document_that_declares_utf_16_or_utf_32_keeps_its_bytes_and_is_read_again(
    encoding: str, is_marked: bool, size: int
) -> None:
    mark = "\ufeff" if is_marked else ""
    document = (mark + declared(encoding[:6])).encode(encoding)
    (record,) = cut_elements(cut(document, size), "r", "iso8859-1")
    assert record.body == RECORD.encode(encoding)
    assert text_at(parse_element(record.body, record.encoding), "t") == "é"
    (record,) = cut_elements(cut(document, size), "", "iso8859-1")
    assert record.body == document
    assert text_at(parse_element(record.body, record.encoding), "r.t") == "é"


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize(
    ("document", "body", "text"),
    [
        (declared("utf-8").encode(), RECORD.encode(), "é"),
        (declared("iso-8859-1").encode("iso-8859-1"), RECORD.encode("iso-8859-1"), "é"),
        (codecs.BOM_UTF8 + declared("iso-8859-1").encode(), RECORD.encode(), "é"),
        (codecs.BOM_UTF8 + declared("utf-16").encode(), RECORD.encode(), "é"),
        (LIST.encode("cp1251", "xmlcharrefreplace"), RECORD.encode("cp1251", "xmlcharrefreplace"), "é"),
        (LIST.replace("é", "ж").encode("cp1251"), RECORD.replace("é", "ж").encode("cp1251"), "ж"),
    ],
    ids=["UTF-8 declared", "Latin-1 declared", "mark, Latin-1 declared", "mark, UTF-16 declared", "ASCII", "none"],
)
def test_a_byte_order_mark_overrides_a_declaration_and_each_overrides_the_encoding_of_the_settings(
    document: bytes, body: bytes, text: str, size: int
) -> None:
    (record,) = cut_elements(cut(document, size), "r", "cp1251")
    assert record.body == body
    assert text_at(record.element, "t") == text
    assert text_at(parse_element(record.body, record.encoding), "t") == text


def test_a_record_that_an_earlier_build_converted_from_utf_16_to_utf_8_is_read() -> None:
    assert text_at(parse_element(RECORD.encode(), "utf-16"), "t") == "é"
