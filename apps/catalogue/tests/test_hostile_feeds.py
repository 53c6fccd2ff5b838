"""A hostile answer of a feed or repository becomes a dead letter, affects one page or record, and reveals no secret."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any

import pytest

from apps.catalogue.tests.feeds import Feed, Repository, serving
from apps.catalogue.tests.helpers import Catalogue
from apps.catalogue.tests.test_feeds import settings_of
from stratalog_catalogue.feed import shown_url
from stratalog_catalogue.queries import read_work

BOOKS = b'{"items":[{"id":1,"changed":"2024"}]'


@pytest.fixture(autouse=True)
def waits(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr(catalogue.store.environment.clock, "sleep", slept.append)
    return slept


@pytest.fixture
def feed(catalogue: Catalogue) -> Iterator[Feed]:
    made = Feed()
    with serving(made):
        catalogue.add("books", **{**settings_of(made), "location": made.url + "?key=secret"})
        yield made


@pytest.fixture
def repository(catalogue: Catalogue) -> Iterator[Repository]:
    made = Repository()
    made.records = {f"oai:x:{n}": (f"2024-01-{n + 1:02d}T00:00:00Z", f"work {n}") for n in range(7)}
    with serving(made):
        add_archive(catalogue, made.url)
        yield made


def add_archive(catalogue: Catalogue, url: str) -> None:
    catalogue.add("archive", adapter="oai", format="xml", transformer="dublin-core", complete=False, location=url)


def letters(catalogue: Catalogue) -> list[bytes]:
    ids = (letter.id for letter in catalogue.records.dead_letters() if letter.size)
    return [b"".join(catalogue.records.open_dead_letter(id)) for id in ids]


@pytest.mark.parametrize(
    "page",
    [
        b"<html>maintenance</html>",
        b"",
        BOOKS,
        b"[" * 50_000,
        BOOKS + b',"x":"\xff',
        bytes(100),
        b'{"items":"none","next":"/feed?from=3"',
    ],
    ids=["HTML", "empty", "cut off", "deep", "Latin-1", "zeros", "with a next page"],
)
def test_an_unreadable_page_becomes_a_dead_letter_and_is_read_again(
    catalogue: Catalogue, feed: Feed, page: bytes
) -> None:
    feed.answer = lambda path, headers: (200, {"ETag": "1"}, page)  # type: ignore[method-assign]
    for _ in range(2):
        outcome = catalogue.poll()
        assert (outcome.taken.failed, "not JSON" in outcome.reason) == (1, True)
    assert (letters(catalogue) == [page]) is bool(page)
    for letter in catalogue.records.dead_letters():
        assert "secret" not in f"{letter.id} {letter.reason} {letter.pointer} {outcome.reason}"


@pytest.mark.parametrize(
    "link",
    ["http://[", "//elsewhere.example/x", "http://127.0.0.1:99999/", "/feed?key=secret", "\ud7ff:"],
)
def test_records_before_an_invalid_next_page_are_stored(catalogue: Catalogue, feed: Feed, link: str) -> None:
    body = BOOKS + b',"next":"' + link.encode() + b'"}'
    feed.answer = lambda path, headers: (200, {}, body)  # type: ignore[method-assign]
    outcome = catalogue.poll()
    assert (catalogue.ids("source/books/"), bool(outcome.reason)) == (["1"], True)
    assert "secret" not in outcome.reason


@pytest.mark.parametrize("headers", [{"ETag": "\xe9"}, {"Last-Modified": "yesterday"}], ids=["ETag", "Last-Modified"])
def test_invalid_cache_headers_do_not_fail_a_poll(catalogue: Catalogue, feed: Feed, headers: dict[str, str]) -> None:
    feed.answer = lambda path, given: (200, headers, BOOKS + b"}")  # type: ignore[method-assign]
    assert [catalogue.poll().reason for _ in range(2)] == ["", ""]
    assert catalogue.ids("source/books/") == ["1"]


@pytest.mark.parametrize("bad", [b"\x0b", b"&#x1b;", b"\xff", b"\xed\xa0\x80", b"\xef\xbf\xbf"])
def test_a_bad_character_in_a_harvest_fails_only_its_record(
    catalogue: Catalogue, repository: Repository, bad: bytes
) -> None:
    real = repository.answer

    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        status, given, body = real(path, headers)
        return status, given, body.replace(b"work 4", b"w\xc3\xa9rk " + bad)

    repository.answer = answer  # type: ignore[method-assign]
    outcome = catalogue.poll()
    assert (outcome.reason, outcome.taken.new, outcome.taken.failed) == ("", 6, 1)
    (letter,) = letters(catalogue)
    assert bad in letter
    assert (letter[:8], letter[-9:]) == (b"<record>", b"</record>")


def test_a_harvest_with_a_byte_order_mark_is_read_as_utf_8_whatever_it_declares(
    catalogue: Catalogue, repository: Repository
) -> None:
    real = repository.answer

    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        status, given, body = real(path, headers)
        declaration = b'<?xml version="1.0" encoding="iso-8859-1"?>'
        body = body.replace(b"work 3", b"w\xc3\xa9rk 3").replace(b"work 4", b"work \x0b")
        return status, given, codecs.BOM_UTF8 + declaration + body

    repository.answer = answer  # type: ignore[method-assign]
    outcome = catalogue.poll()
    assert (outcome.reason, outcome.taken.new, outcome.taken.failed) == ("", 6, 1)
    (letter,) = letters(catalogue)
    assert (letter[:8], letter[-9:]) == (b"<record>", b"</record>")
    catalogue.scan()
    assert read_work(catalogue.records, "archive", "oai:x:3").title == "wérk 3"


def test_a_harvested_record_has_the_bytes_of_the_response(catalogue: Catalogue, repository: Repository) -> None:
    catalogue.poll()
    record = catalogue.records.get("source/archive/oai:x:0")
    _, _, body = repository.answer("/?verb=ListRecords&metadataPrefix=oai_dc", {})
    assert record.body in body
    assert b"<dc:title>" in record.body
    assert record.version.metadata["namespaces"] == {"xmlns": "http://www.openarchives.org/OAI/2.0/"}
    catalogue.scan()


def test_a_repository_is_requested_with_the_query_of_its_url(catalogue: Catalogue, repository: Repository) -> None:
    add_archive(catalogue, repository.url + "?db=maps")
    assert catalogue.poll().taken.new == 7
    assert {query["db"] for query in repository.asked} == {"maps"}


def test_tries_are_counted_separately_for_each_page_of_a_harvest(catalogue: Catalogue, repository: Repository) -> None:
    repository.broken = [503, 503, 503, 200, 200, 503, 503, 503, 200, 503, 503, 503, 200]
    outcome = catalogue.poll()
    assert (outcome.reason, outcome.taken.new) == ("", 7)


def test_a_poll_waits_until_the_date_in_the_retry_after_header(
    catalogue: Catalogue, feed: Feed, waits: list[float]
) -> None:
    feed.broken, feed.retry = [503], "Thu, 01 Feb 2024 00:01:30 GMT"
    catalogue.poll()
    assert waits == [90]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@x.org:81/a?token=1#f", "https://x.org:81/a?…"),
        ("http://[::1]/a", "http://[::1]/a"),
        ("http://u:p@[/a?token=1", "[/a"),
    ],
)
def test_a_url_is_shown_without_credentials_query_and_fragment(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_an_unreachable_server_is_reported_without_credentials_and_query(catalogue: Catalogue) -> None:
    settings: dict[str, Any] = {**settings_of(Feed()), "location": "http://u:pa55word@127.0.0.1:1/feed?key=secret"}
    catalogue.add("away", **settings)
    outcome = catalogue.poll()
    assert "127.0.0.1:1/feed" in outcome.reason
    assert [text for text in ("secret", "pa55word", "u:") if text in outcome.reason] == []
