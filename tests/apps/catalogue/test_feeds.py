"""Feeds over real HTTP: only what changed is fetched, pages are followed, trouble passes or is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stratalog.apps.catalogue.reading import read_work
from tests.apps.catalogue.feeds import Feed, Repository, serving
from tests.apps.catalogue.helpers import Catalogue


def book(n: int, title: str = "", day: int = 1) -> dict[str, object]:
    return {"id": n, "title": title or f"book {n}", "changed": f"2024-01-{day:02d}T00:00:00Z"}


@pytest.fixture(autouse=True)
def _no_waits(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue.store.place.clock, "sleep", lambda seconds: None)


@pytest.fixture
def feed(catalogue: Catalogue) -> Iterator[Feed]:
    made = Feed()
    made.books = [book(n) for n in range(8)]
    with serving(made):
        catalogue.add(
            "books", adapter="http", location=made.url, format="json", transformer="plain", records="items", id="id",
            time="changed", next="next", whole=False,
        )  # fmt: skip
        yield made


@pytest.fixture
def repository(catalogue: Catalogue) -> Iterator[Repository]:
    made = Repository()
    made.records = {f"oai:x:{n}": (f"2024-01-{n + 1:02d}T00:00:00Z", f"work {n}") for n in range(7)}
    with serving(made):
        settings = {"format": "xml", "transformer": "dublin-core", "whole": False}
        catalogue.add("archive", adapter="oai", location=made.url, **settings)
        yield made


def test_all_pages_of_a_feed_are_taken_and_an_unchanged_one_is_not_fetched_again(
    catalogue: Catalogue, feed: Feed
) -> None:
    assert catalogue.poll().taken.new == 8
    feed.asked.clear()
    assert catalogue.poll().taken.read == 0
    assert [headers.get("If-None-Match") for _, headers in feed.asked] == ['"1"']


def test_a_changed_feed_gives_what_is_newer(catalogue: Catalogue, feed: Feed) -> None:
    catalogue.poll()
    feed.books[2], feed.etag = book(2, "second edition", day=2), '"2"'
    feed.books[3] = book(3, "stale", day=1)
    taken = catalogue.poll().taken
    assert (taken.read, taken.new, taken.same) == (8, 1, 7)
    assert catalogue.records.stat("source/books/2").version == 2


@pytest.mark.parametrize("status", [500, 503, 429])
def test_passing_trouble_is_tried_again(catalogue: Catalogue, feed: Feed, status: int) -> None:
    feed.broken = [status, status]
    assert (catalogue.poll().taken.new, len(feed.asked)) == (8, 5)


def test_lasting_trouble_is_told_and_the_next_poll_begins_where_this_one_did(catalogue: Catalogue, feed: Feed) -> None:
    feed.broken = [500] * 4
    polled = catalogue.poll()
    assert ("cannot answer" in polled.reason, polled.taken.read) == (True, 0)
    assert catalogue.poll().taken.new == 8
    assert catalogue.records.failure("polls/books") is None


def test_a_refusal_is_not_tried_again(catalogue: Catalogue, feed: Feed) -> None:
    feed.broken = [404]
    assert "refused" in catalogue.poll().reason
    assert len(feed.asked) == 1


def test_a_feed_that_breaks_off_between_pages_is_read_anew_and_nothing_twice(catalogue: Catalogue, feed: Feed) -> None:
    real = feed.answer
    feed.answer = lambda path, headers: (404, {}, b"") if "from=6" in path else real(path, headers)  # type: ignore[method-assign]
    assert catalogue.poll().taken.new == 6
    feed.answer = real  # type: ignore[method-assign]
    taken = catalogue.poll().taken
    assert (taken.read, taken.new) == (8, 2)


def test_pages_that_lead_elsewhere_or_in_a_circle_are_refused(catalogue: Catalogue, feed: Feed) -> None:
    for target in ("http://elsewhere.example/feed", "/feed"):
        body = b'{"items": [], "next": "%s"}' % target.encode()
        feed.answer = lambda path, headers, body=body: (200, {}, body)  # type: ignore[method-assign,misc]
        assert any(word in catalogue.poll().reason for word in ("another server", "circle"))


def test_a_harvest_takes_all_pages_and_the_next_one_only_what_changed(
    catalogue: Catalogue, repository: Repository
) -> None:
    assert catalogue.poll().taken.new == 7
    assert [sorted(query) for query in repository.asked] == [["metadataPrefix", "verb"]] + [
        ["resumptionToken", "verb"]
    ] * 2
    repository.records["oai:x:3"] = ("2024-02-01T00:00:00Z", "work 3, again")
    repository.now = "2024-02-02T00:00:00Z"
    assert (catalogue.poll().taken.new, repository.asked[-1]["from"]) == (1, "2024-02-01T00:00:00Z")
    catalogue.scan()
    assert read_work(catalogue.records, "archive", "oai:x:3").title == "work 3, again"


def test_a_record_that_the_repository_deleted_is_deleted_and_a_stale_deletion_is_not_heeded(
    catalogue: Catalogue, repository: Repository
) -> None:
    catalogue.poll()
    repository.records["oai:x:1"] = ("2024-02-01T00:00:00Z", None)
    assert catalogue.poll().taken.deleted == 1
    assert catalogue.records.stat("source/archive/oai:x:1").deleted
    repository.records = {"oai:x:2": ("2024-01-01T00:00:00Z", None)}
    catalogue.records.delete("catalogue/checkpoint/archive")
    assert catalogue.poll().taken.deleted == 0


def test_a_harvest_goes_on_with_its_token_after_a_crash(catalogue: Catalogue, repository: Repository) -> None:
    repository.broken = [200, 404]
    assert (catalogue.poll().taken.new, "refused" in catalogue.poll().reason) == (3, False)
    assert "resumptionToken" in repository.asked[2]
    assert len(catalogue.ids("source/archive/")) == 7


def test_an_expired_token_begins_the_harvest_anew(catalogue: Catalogue, repository: Repository) -> None:
    repository.broken = [200, 404]
    catalogue.poll()
    repository.expired = {"|3"}
    catalogue.poll()
    assert [sorted(query) for query in repository.asked[2:4]] == [
        ["resumptionToken", "verb"],
        ["metadataPrefix", "verb"],
    ]
