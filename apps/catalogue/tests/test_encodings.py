"""Encodings of sources: text keeps its bytes."""

from __future__ import annotations

import encodings
import pkgutil
from pathlib import Path

import pytest

import stratalog
from apps.catalogue.tests.helpers import Catalogue
from stratalog import Invalid
from stratalog_catalogue.encodings import check_encoding, encode_text, utf8_pieces
from stratalog_catalogue.redrive import redrive

TEXT = "A\u00e9\u20ac\ufeff\U0001d11e"


def accepted() -> set[str]:
    """Return the encodings of Python that a source may have."""
    names = set()
    for module in pkgutil.iter_modules(encodings.__path__):
        try:
            names.add(check_encoding(module.name))
        except Invalid:
            continue
    return names


def is_text(body: bytes, encoding: str) -> bool:
    try:
        body.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def test_in_each_encoding_that_a_source_may_have_text_keeps_its_bytes() -> None:
    known = accepted()
    assert {"utf-8", "utf-16-le", "iso8859-1", "cp1252", "mac-roman"} <= known
    for encoding in known:
        characters = [bytes([byte]) for byte in range(256) if is_text(bytes([byte]), encoding)]
        body = b"".join(characters) + TEXT.encode(encoding, errors="ignore")
        read_as, mark, pieces = utf8_pieces([body], encoding)
        assert (read_as, mark, encode_text(b"".join(pieces), read_as)) == (encoding, b"", body)


def test_utf_8_with_a_byte_order_mark_is_declared_as_utf_8() -> None:
    assert check_encoding("utf-8-sig") == "utf-8"


def test_text_of_a_source_that_was_added_with_a_byte_order_mark_gets_no_mark() -> None:
    encoding, mark, pieces = utf8_pieces([b"text"], "utf-8-sig")
    assert (mark, encode_text(b"".join(pieces), encoding)) == (b"", b"text")


@pytest.mark.parametrize("name", ["mac-arabic", "mac-farsi"])
def test_an_encoding_in_which_text_would_change_its_bytes_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="text would change its bytes"):
        check_encoding(name)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_a_text_with_zero_bytes_needs_a_declared_encoding(tmp_path: Path, encoding: str) -> None:
    with stratalog.open("memory:") as store:
        catalogue = Catalogue(store, tmp_path)
        settings = {"format": "csv", "transformer": "plain", "id": "id", "complete": False}
        catalogue.add("s", **settings)
        catalogue.write("id,title\n1,Hut\n".encode(encoding), source="s", name="list.csv")
        catalogue.poll()
        (letter,) = catalogue.records.dead_letters()
        assert "needs an encoding" in letter.reason
        catalogue.add("s", encoding=encoding, **settings)
        assert [result.resolved for result in redrive(store, "acme", catalogue.connect)] == [True]
        assert catalogue.ids("source/s/") == ["1"]
