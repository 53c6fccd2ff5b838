"""Feeds over real HTTP: a poll fetches only changes, follows pages, and retries or reports failures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from apps.catalogue.tests.feeds import Feed, Repository, serving
from apps.catalogue.tests.helpers import Catalogue
from stratalog import Invalid
from stratalog_catalogue import feed as feeds
from stratalog_catalogue import oai
from stratalog_catalogue.polls import poll
from stratalog_catalogue.queries import read_work
from stratalog_catalogue.redrive import redrive


def book(n: int, title: str = "", day: int = 1) -> dict[str, object]:
    return {"id": n, "title": title or f"book {n}", "changed": f"2024-01-{day:02d}T00:00:00Z"}


@pytest.fixture(autouse=True)
def _no_waits(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue.store.environment.clock, "sleep", lambda seconds: None)


@pytest.fixture
def feed(catalogue: Catalogue) -> Iterator[Feed]:
    made = Feed()
    made.books = [book(n) for n in range(8)]
    with serving(made):
        catalogue.add("books", **settings_of(made))
        yield made


def settings_of(feed: Feed) -> dict[str, Any]:
    return {
        "adapter": "http",
        "location": feed.url,
        "format": "json",
        "transformer": "plain",
        "records": "items",
        "id": "id",
        "time": "changed",
        "next": "next",
        "complete": False,
    }


@pytest.fixture
def repository(catalogue: Catalogue) -> Iterator[Repository]:
    made = Repository()
    made.records = {f"oai:x:{n}": (f"2024-01-{n + 1:02d}T00:00:00Z", f"work {n}") for n in range(7)}
    with serving(made):
        add_archive(catalogue, made)
        yield made


def add_archive(catalogue: Catalogue, repository: Repository, **settings: Any) -> None:
    usual = {"adapter": "oai", "format": "xml", "transformer": "dublin-core", "complete": False}
    catalogue.add("archive", location=repository.url, **{**usual, **settings})


def test_all_pages_of_a_feed_are_ingested_and_an_unchanged_feed_is_not_fetched_again(
    catalogue: Catalogue, feed: Feed
) -> None:
    assert catalogue.poll().taken.new == 8
    feed.asked.clear()
    assert catalogue.poll().taken.read == 0
    assert [headers.get("If-None-Match") for _, headers in feed.asked] == ['"1"']


def test_a_poll_of_a_changed_feed_stores_only_newer_records(catalogue: Catalogue, feed: Feed) -> None:
    catalogue.poll()
    feed.books[2], feed.etag = book(2, "second edition", day=2), '"2"'
    feed.books[3] = book(3, "stale", day=1)
    taken = catalogue.poll().taken
    assert (taken.read, taken.new, taken.same) == (8, 1, 7)
    assert catalogue.records.stat("source/books/2").version == 2


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_temporary_server_error_is_retried(catalogue: Catalogue, feed: Feed, status: int) -> None:
    feed.broken = [status, status]
    assert (catalogue.poll().taken.new, len(feed.asked)) == (8, 5)


def test_a_lasting_server_error_is_reported_and_the_next_poll_starts_again(catalogue: Catalogue, feed: Feed) -> None:
    feed.broken = [500] * 4
    polled = catalogue.poll()
    assert ("temporarily unavailable" in polled.reason, polled.taken.read) == (True, 0)
    assert catalogue.poll().taken.new == 8
    assert catalogue.records.failure("polls/books") is None


def test_a_refused_request_is_not_retried(catalogue: Catalogue, feed: Feed) -> None:
    feed.broken = [404]
    assert "refused" in catalogue.poll().reason
    assert len(feed.asked) == 1


def test_a_feed_that_fails_between_pages_is_read_again_and_stores_no_record_twice(
    catalogue: Catalogue, feed: Feed
) -> None:
    real = feed.answer
    feed.answer = lambda path, headers: (404, {}, b"") if "from=6" in path else real(path, headers)  # type: ignore[method-assign]
    assert catalogue.poll().taken.new == 6
    feed.answer = real  # type: ignore[method-assign]
    taken = catalogue.poll().taken
    assert (taken.read, taken.new) == (8, 2)


@pytest.mark.parametrize(
    ("target", "parameters"),
    [
        ("/feed?ids=1,2;&from=3", 'rel="next"'),
        ("/feed?from=3", 'rel="next last"'),
        ("/feed?from=3", 'title="a, b; rel=prev"; REL = Next'),
        ("/feed?from=3", "rel=next; rel=prev"),
    ],
    ids=["a comma and a semicolon in the URL", "two relations", "a comma in a title, capitals", "a second rel"],
)
def test_the_next_page_of_a_link_header_is_found_however_it_is_written(
    catalogue: Catalogue, feed: Feed, target: str, parameters: str
) -> None:
    del feed.books[6:]
    header = f'</feed?a=b,c;d>; rel="prev", <{target}>; {parameters}, </feed?from=9>; rel="last"; title="rel=next"'
    real = feed.answer

    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        status, given, body = real(path, headers)
        return status, given if "from" in path else {**given, "Link": header}, body

    feed.answer = answer  # type: ignore[method-assign]
    catalogue.add("books", **{**settings_of(feed), "complete": True, "next": ""})
    assert (catalogue.poll().taken.new, [path for path, _ in feed.asked[1:2]]) == (6, [target])


def test_a_feed_of_complete_states_deletes_records_that_no_page_contains(catalogue: Catalogue, feed: Feed) -> None:
    catalogue.add("books", **{**settings_of(feed), "complete": True})
    assert catalogue.poll().taken.new == 8
    del feed.books[4]
    feed.etag = '"2"'
    taken = catalogue.poll().taken
    assert (taken.same, taken.deleted) == (7, 1)
    assert catalogue.records.stat("source/books/4").deleted


def test_a_complete_state_that_fails_between_pages_deletes_nothing(catalogue: Catalogue, feed: Feed) -> None:
    catalogue.add("books", **{**settings_of(feed), "complete": True})
    catalogue.poll()
    feed.etag = '"2"'
    real = feed.answer
    feed.answer = lambda path, headers: (404, {}, b"") if "from=6" in path else real(path, headers)  # type: ignore[method-assign]
    polled = catalogue.poll()
    assert ("refused" in polled.reason, polled.taken.deleted) == (True, 0)
    assert len(catalogue.ids("source/books/")) == 8


def test_a_complete_state_that_changes_during_the_poll_is_read_again_and_deletes_nothing(
    catalogue: Catalogue, feed: Feed
) -> None:
    catalogue.add("books", **{**settings_of(feed), "complete": True})
    catalogue.poll()
    feed.etag = '"2"'
    real = feed.answer

    def shifting(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        answer = real(path, headers)
        if "from=3" in path and feed.etag == '"2"':
            feed.books.append(feed.books.pop(0))
            feed.etag = '"3"'
        return answer

    feed.answer = shifting  # type: ignore[method-assign]
    feed.asked.clear()
    polled = catalogue.poll()
    assert (polled.reason, polled.taken.deleted) == ("", 0)
    assert len(catalogue.ids("source/books/")) == 8
    assert [path for path, _ in feed.asked].count("/feed?from=6") == 3
    assert [headers.get("If-None-Match") for _, headers in feed.asked][-3:] == ['"3"'] * 3


def test_a_complete_state_of_which_only_a_later_page_changes_during_the_poll_deletes_no_present_record(
    catalogue: Catalogue, feed: Feed
) -> None:
    catalogue.add("books", **{**settings_of(feed), "complete": True})
    catalogue.poll()
    real, is_changed = feed.answer, False

    def shifting(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        nonlocal is_changed
        if "from=6" in path and not is_changed:
            # The second page was read without book 6, and the third page will be.
            del feed.books[4]
            is_changed = True
        status, given, body = real(path, {})
        return status, {**given, "ETag": f'"{hash(body)}"'}, body

    feed.answer = shifting  # type: ignore[method-assign]
    polled = catalogue.poll()
    assert (polled.reason, polled.taken.deleted) == ("", 1)
    assert catalogue.ids("source/books/") == [str(n) for n in range(8) if n != 4]


def test_a_complete_state_whose_responses_contain_their_time_deletes_what_it_lacks(
    catalogue: Catalogue, feed: Feed
) -> None:
    del feed.books[5:]
    catalogue.add("books", **{**settings_of(feed), "complete": True})
    real, times = feed.answer, count()

    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        return 200, {}, real(path, {})[2].replace(b"{", b'{"time": %d, ' % next(times), 1)

    feed.answer = answer  # type: ignore[method-assign]
    assert (catalogue.poll().reason, len(catalogue.ids("source/books/"))) == ("", 5)
    del feed.books[1]
    assert catalogue.poll().taken.deleted == 1


@pytest.mark.parametrize("unreadable", [b'{"time": %d}', b'{"items": [{"time": %d}]}'], ids=["page", "record"])
def test_an_unreadable_part_of_a_complete_state_may_differ_in_each_response(
    catalogue: Catalogue, feed: Feed, unreadable: bytes
) -> None:
    catalogue.add("books", **{**settings_of(feed), "complete": True})
    real, times = feed.answer, count()
    feed.answer = lambda path, given: (  # type: ignore[method-assign]
        (200, {}, unreadable % next(times)) if "from" in path else real(path, {})
    )
    polled = catalogue.poll()
    assert (polled.reason, polled.taken.new, polled.taken.failed) == ("", 3, 1)
    assert len([*catalogue.records.dead_letters()]) == 1


def test_a_complete_state_that_gets_another_page_during_the_poll_deletes_no_present_record(
    catalogue: Catalogue, feed: Feed
) -> None:
    catalogue.add("books", **{**settings_of(feed), "complete": True})
    catalogue.poll()
    returned, real = feed.books[6:], feed.answer
    del feed.books[6:]

    def growing(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        given = real(path, {})
        if "from=3" in path:
            feed.books[6:] = returned
        return 200, {}, given[2]

    feed.answer = growing  # type: ignore[method-assign]
    polled = catalogue.poll()
    assert (polled.reason, polled.taken.deleted, len(catalogue.ids("source/books/"))) == ("", 0, 8)


def test_a_complete_state_whose_pages_can_be_read_only_once_is_stored_and_deletes_nothing(
    catalogue: Catalogue, feed: Feed
) -> None:
    catalogue.add("books", **{**settings_of(feed), "complete": True})
    real = feed.answer
    used: set[str] = set()

    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if path in used:
            return 410, {}, b""
        used.update({path} if "from" in path else ())
        status, given, body = real(path, headers)
        return status, given, body.replace(b"/feed?", b"/once/%d?" % len(used))

    feed.answer = answer  # type: ignore[method-assign]
    for new in (8, 1):
        polled = catalogue.poll()
        assert (polled.reason, polled.taken.new, polled.taken.deleted, polled.taken.failed) == ("", new, 0, 1)
        feed.books[4:5], feed.etag = [book(8)], '"2"'
    assert len(catalogue.ids("source/books/")) == 9
    (letter,) = catalogue.records.dead_letters()
    assert "a page cannot be read a second time" in letter.reason
    assert [redriven.resolved for redriven in redrive(catalogue.store, "acme", catalogue.connect)] == [False]
    feed.answer = real  # type: ignore[method-assign]
    assert [redriven.resolved for redriven in redrive(catalogue.store, "acme", catalogue.connect)] == [True]
    assert len(catalogue.ids("source/books/")) == 8


def test_a_complete_state_of_which_a_page_was_once_refused_deletes_at_the_next_poll(
    catalogue: Catalogue, feed: Feed
) -> None:
    del feed.books[5:]
    catalogue.add("books", **{**settings_of(feed), "complete": True})
    catalogue.poll()
    del feed.books[1]
    feed.etag = '"2"'
    real = feed.answer
    refused = iter([False, True])

    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        return (403, {}, b"") if "from" in path and next(refused, False) else real(path, headers)

    feed.answer = answer  # type: ignore[method-assign]
    polls = [catalogue.poll().taken for _ in range(3)]
    assert [(taken.read, taken.failed, taken.deleted) for taken in polls] == [(5, 1, 0), (4, 0, 1), (0, 0, 0)]


def test_a_complete_feed_is_read_again_after_the_redrive_of_its_record(catalogue: Catalogue, feed: Feed) -> None:
    settings = {**settings_of(feed), "complete": True}
    catalogue.add("books", **settings)
    catalogue.poll()
    feed.books[:2], feed.etag = [{"id": 0, "changed": "yesterday"}], '"2"'
    assert (catalogue.poll().taken.failed, len(catalogue.ids("source/books/"))) == (1, 8)
    catalogue.add("books", **{**settings, "time": ""})
    assert [letter.resolved for letter in redrive(catalogue.store, "acme", catalogue.connect)] == [True]
    assert (catalogue.poll().taken.deleted, catalogue.poll().taken.read) == (1, 0)


def test_two_changes_of_a_feed_with_one_modification_time_are_both_stored(catalogue: Catalogue, feed: Feed) -> None:
    catalogue.add("books", **{**settings_of(feed), "time": ""})
    texts = [b"first", b"second", b"second"]

    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        body = b'{"items":[{"id":1,"title":"%s"},{"id":1,"title":"a copy"}]}' % texts.pop(0)
        return 200, {"Last-Modified": "Thu, 01 Jan 1970 00:00:01 GMT"}, body

    feed.answer = answer  # type: ignore[method-assign]
    assert [catalogue.poll().taken.new for _ in range(3)] == [1, 1, 0]
    assert b"second" in catalogue.records.get("source/books/1").body


def test_two_records_of_one_id_on_two_pages_make_no_version_at_each_poll(catalogue: Catalogue, feed: Feed) -> None:
    catalogue.add("books", **{**settings_of(feed), "time": ""})

    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if "from" in path:
            return 200, {}, b'{"items":[{"id":1,"title":"a copy"}]}'
        return 200, {}, b'{"items":[{"id":1,"title":"the first"}],"next":"/feed?from=1"}'

    feed.answer = answer  # type: ignore[method-assign]
    assert [catalogue.poll().taken.new for _ in range(3)] == [1, 0, 0]
    (dry,) = poll(catalogue.store, "acme", catalogue.connect, dry_run=True)
    assert (dry.taken.same, b"the first" in catalogue.records.get("source/books/1").body) == (2, True)


def test_two_records_of_one_id_on_two_pages_of_a_harvest_make_no_version_at_each_harvest(
    catalogue: Catalogue, repository: Repository
) -> None:
    real = repository.answer

    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        status, given, body = real(path, headers)
        return status, given, body.replace(b"<identifier>oai:x:3<", b"<identifier>oai:x:0<").replace(b"-04T", b"-01T")

    repository.answer = answer  # type: ignore[method-assign]
    catalogue.poll()
    for _ in range(2):
        catalogue.records.delete("catalogue/checkpoint/archive")
        assert catalogue.poll().taken.new == 0
    assert catalogue.records.stat("source/archive/oai:x:0").version == 1


def test_a_redrive_of_an_earlier_response_replaces_no_later_content_of_the_same_time(
    catalogue: Catalogue, feed: Feed
) -> None:
    settings = {**settings_of(feed), "format": "xml", "records": "book", "time": "", "next": ""}
    catalogue.add("books", **settings)
    texts = [b"<l><book><id>1</id>old</book><book>", b"<l><book><id>1</id>new</book></l>"]
    headers = {"Last-Modified": "Thu, 01 Jan 1970 00:00:01 GMT"}
    feed.answer = lambda path, given: (200, headers, texts.pop(0))  # type: ignore[method-assign]
    assert [catalogue.poll().taken.new for _ in range(2)] == [1, 1]
    (redriven,) = redrive(catalogue.store, "acme", catalogue.connect)
    assert not redriven.resolved
    assert b"new" in catalogue.records.get("source/books/1").body


def test_a_modification_time_in_the_future_does_not_hide_later_changes(catalogue: Catalogue, feed: Feed) -> None:
    catalogue.add("books", **{**settings_of(feed), "time": ""})
    times = ["Thu, 01 Feb 2034 00:00:00 GMT", "Fri, 02 Feb 2024 00:00:00 GMT"]

    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        body = b'{"items":[{"id":1,"left":%d}]}' % len(times)
        return 200, {"Last-Modified": times.pop(0)}, body

    feed.answer = answer  # type: ignore[method-assign]
    assert [catalogue.poll().taken.new for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("target", ["/v2/feed", "http://localhost:{port}/v2/feed"], ids=["same server", "another"])
def test_the_next_page_is_found_from_the_address_to_which_the_source_redirects(
    catalogue: Catalogue, feed: Feed, target: str
) -> None:
    target = target.format(port=urlsplit(feed.url).port)
    real = feed.answer

    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if not path.startswith("/v2/"):
            return 302, {"Location": target}, b"moved"
        status, given, body = real(path, headers)
        following = f"{target}?" if ":" in target else "feed?"
        return status, given, body.replace(b"/feed?", following.encode())

    feed.answer = answer  # type: ignore[method-assign]
    polled = catalogue.poll()
    assert (polled.reason, polled.taken.new) == ("", 8)


def test_a_link_without_the_user_and_the_password_of_the_source_is_followed_with_them(
    catalogue: Catalogue, feed: Feed
) -> None:
    real, url = feed.answer, feed.url

    def answer(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if "Authorization" not in headers:
            return 401, {}, b""
        status, given, body = real(path, headers)
        return status, given, body.replace(b'"/feed?', f'"{url}?'.encode())

    feed.answer = answer  # type: ignore[method-assign]
    catalogue.add("books", **{**settings_of(feed), "location": url.replace("//", "//user:secret@")})
    polled = catalogue.poll()
    assert (polled.reason, polled.taken.new) == ("", 8)


def test_a_poll_waits_for_the_retry_after_seconds_up_to_a_limit(
    catalogue: Catalogue, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(catalogue.store.environment.clock, "sleep", waits.append)
    feed.broken, feed.retry = [503, 503], "17"
    assert catalogue.poll().taken.new == 8
    feed.broken, feed.retry, feed.etag = [503], "100000", '"2"'
    catalogue.poll()
    assert waits == [17.0, 17.0, 300.0]


def test_next_pages_on_another_server_or_in_a_cycle_are_refused(catalogue: Catalogue, feed: Feed) -> None:
    for target, reason in (("http://elsewhere.example/feed", "another server"), ("/feed", "circle")):
        body = b'{"items": [], "next": "%s"}' % target.encode()
        feed.answer = lambda path, headers, body=body: (200, {}, body)  # type: ignore[method-assign,misc]
        assert reason in catalogue.poll().reason


def test_the_records_of_a_page_with_an_invalid_link_are_stored_also_in_a_complete_state(
    catalogue: Catalogue, feed: Feed
) -> None:
    catalogue.add("books", **{**settings_of(feed), "complete": True})
    body = b'{"items": [{"id": "a", "changed": 2024}], "next": "http://elsewhere.example/feed"}'
    feed.answer = lambda path, headers: (200, {}, body)  # type: ignore[method-assign]
    assert "another server" in catalogue.poll().reason
    assert catalogue.ids("source/books/") == ["a"]


def test_too_many_pages_and_too_large_responses_are_refused(
    catalogue: Catalogue, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "CATALOGUE_PAGES_MAX", 2)
    assert "too many" in catalogue.poll().reason
    monkeypatch.setattr(feeds, "CATALOGUE_DOCUMENT_BYTES_MAX", 10)
    assert "a response is too large" in catalogue.poll().reason


def test_a_harvest_of_too_many_pages_is_refused(
    catalogue: Catalogue, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oai, "CATALOGUE_PAGES_MAX", 2)
    assert "too many pages" in catalogue.poll().reason


def test_a_harvest_reads_all_pages_and_the_next_harvest_only_changed_records(
    catalogue: Catalogue, repository: Repository
) -> None:
    assert catalogue.poll().taken.new == 7
    assert [sorted(query) for query in repository.asked] == [
        ["verb"],
        ["metadataPrefix", "verb"],
        ["resumptionToken", "verb"],
        ["resumptionToken", "verb"],
    ]
    repository.records["oai:x:3"] = ("2024-02-01T00:00:00Z", "work 3, again")
    repository.now = "2024-02-02T00:00:00Z"
    assert (catalogue.poll().taken.new, repository.asked[-1]["from"]) == (1, "2024-02-01T00:00:00Z")
    catalogue.scan()
    assert read_work(catalogue.records, "archive", "oai:x:3").title == "work 3, again"


def test_a_deletion_by_the_repository_is_applied_and_a_stale_deletion_is_ignored(
    catalogue: Catalogue, repository: Repository
) -> None:
    catalogue.poll()
    repository.records["oai:x:1"] = ("2024-02-01T00:00:00Z", None)
    assert catalogue.poll().taken.deleted == 1
    assert catalogue.records.stat("source/archive/oai:x:1").deleted
    repository.records = {"oai:x:2": ("2024-01-01T00:00:00Z", None)}
    catalogue.records.delete("catalogue/checkpoint/archive")
    stale = catalogue.poll()
    assert (stale.reason, stale.taken.read, stale.taken.deleted) == ("", 1, 0)
    assert not catalogue.records.stat("source/archive/oai:x:2").deleted


def test_a_failed_harvest_resumes_with_its_token(catalogue: Catalogue, repository: Repository) -> None:
    repository.broken = [200, 200, 404]
    assert (catalogue.poll().taken.new, "refused" in catalogue.poll().reason) == (3, False)
    assert "resumptionToken" in repository.asked[3]
    assert len(catalogue.ids("source/archive/")) == 7


def test_an_expired_token_restarts_the_harvest(catalogue: Catalogue, repository: Repository) -> None:
    repository.broken = [200, 200, 404]
    catalogue.poll()
    repository.expired = {"|3"}
    catalogue.poll()
    assert [sorted(query) for query in repository.asked[3:5]] == [
        ["resumptionToken", "verb"],
        ["metadataPrefix", "verb"],
    ]


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize(
    "content",
    [
        '<error code="badResumptionToken">out of order</error>',
        "<error>out of order</error>",
        '<error code="noRecordsMatch"/><error code="badArgument">out of order</error>',
        "",
    ],
    ids=["token", "no code", "second error", "no list"],
)
def test_an_answer_without_a_list_of_records_fails_and_moves_no_checkpoint(
    catalogue: Catalogue, repository: Repository, content: str, complete: bool
) -> None:
    add_archive(catalogue, repository, complete=complete)
    real = repository.answer

    def broken(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        return real(path, headers) if "verb=Identify" in path else repository.document(content)

    repository.answer = broken  # type: ignore[method-assign]
    assert ("out of order" if content else "no list") in catalogue.poll().reason
    repository.answer = real  # type: ignore[method-assign]
    # The failed harvest did not move the checkpoint, so this poll reads all records.
    assert catalogue.poll().taken.new == 7
    assert "from" not in repository.asked[-3]


def test_a_repository_with_day_granularity_is_queried_in_days(catalogue: Catalogue, repository: Repository) -> None:
    repository.granularity = "YYYY-MM-DD"
    repository.records = {"oai:x:1": ("2024-02-01", "one")}
    assert [catalogue.poll().taken.read for _ in range(2)] == [1, 1]
    assert repository.asked[-1]["from"] == "2024-02-01"
    repository.records = {}
    assert [catalogue.poll().reason for _ in range(2)] == ["", ""]


@pytest.mark.parametrize("granularity", ["YYYY-MM-DD", "YYYY-MM-DDThh:mm:ssZ"])
@pytest.mark.parametrize(("since", "until"), [("2024-01-02", "2024-01-04"), ("2024-01-02", "2024-01-04T00:00:00Z")])
def test_only_records_within_the_time_window_are_harvested(
    catalogue: Catalogue, repository: Repository, granularity: str, since: str, until: str
) -> None:
    repository.granularity = granularity
    repository.records = {
        name: (stamp[: len(granularity)], title) for name, (stamp, title) in repository.records.items()
    }
    add_archive(catalogue, repository, since=since, until=until)
    assert catalogue.poll().taken.new == 3
    assert catalogue.ids("source/archive/") == [f"oai:x:{n}" for n in (1, 2, 3)]
    again = catalogue.poll()
    assert (again.reason, again.taken.new, repository.asked[-1]["from"]) == ("", 0, until[: len(granularity)])


def test_each_change_of_a_record_is_stored_even_if_the_repository_gives_only_dates(
    catalogue: Catalogue, repository: Repository
) -> None:
    repository.granularity = "YYYY-MM-DD"
    outcomes = []
    for title in ("one", "two", "two", None, "three"):
        repository.records = {"oai:x:1": ("2024-02-01", title)}
        (predicted,) = poll(catalogue.store, "acme", catalogue.connect, dry_run=True)
        taken = catalogue.poll().taken
        assert predicted.taken == taken
        outcomes.append((taken.new, taken.deleted))
    assert outcomes == [(1, 0), (1, 0), (0, 0), (0, 1), (1, 0)]
    assert b"three" in catalogue.records.get("source/archive/oai:x:1").body


def test_a_redacted_record_is_not_stored_again_by_the_harvest_of_the_same_day(
    catalogue: Catalogue, repository: Repository
) -> None:
    repository.granularity = "YYYY-MM-DD"
    repository.records = {"oai:x:1": ("2024-02-01", "one")}
    catalogue.poll()
    catalogue.records.redact("source/archive/oai:x:1", 1)
    again = catalogue.poll()
    assert (again.reason, again.taken.read, again.taken.new) == ("", 1, 0)


@pytest.mark.parametrize(
    "now", ["2024-02-01T00:00:00.25Z", "2024-02-01T01:00:00+01:00", "2024-02-01T00:00:00", "2024-02-01T00:00:00Z"]
)
@pytest.mark.parametrize("granularity", ["YYYY-MM-DD", "YYYY-MM-DDThh:mm:ssZ"])
def test_a_harvest_begins_at_a_time_in_the_protocol_s_format_however_the_server_writes_its_time(
    catalogue: Catalogue, repository: Repository, now: str, granularity: str
) -> None:
    repository.granularity, repository.now = granularity, now
    catalogue.poll()
    assert catalogue.poll().reason == ""
    assert repository.asked[-1]["from"] == "2024-02-01T00:00:00Z"[: 20 if "h" in granularity else 10]


def test_resumption_tokens_that_form_a_circle_end_the_harvest(
    catalogue: Catalogue, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oai, "CATALOGUE_PAGES_MAX", 20)
    real = repository.answer
    following = {"": "a", "a": "b", "b": "c", "c": "a"}

    def circling(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if "verb=Identify" in path:
            return real(path, headers)
        asked = parse_qs(urlsplit(path).query).get("resumptionToken", [""])[0]
        token = following[asked]
        return repository.document(f"<ListRecords><resumptionToken>{token}</resumptionToken></ListRecords>")

    repository.answer = circling  # type: ignore[method-assign]
    assert "circle" in catalogue.poll().reason


def test_a_changed_set_is_harvested_from_its_beginning(catalogue: Catalogue, repository: Repository) -> None:
    catalogue.poll()
    add_archive(catalogue, repository, set="maps")
    repository.asked.clear()
    assert catalogue.poll().taken.same == 7
    assert (repository.asked[1]["set"], "from" in repository.asked[1]) == ("maps", False)


def test_a_complete_harvest_deletes_records_that_the_repository_no_longer_lists(
    catalogue: Catalogue, repository: Repository
) -> None:
    add_archive(catalogue, repository, complete=True)
    catalogue.poll()
    del repository.records["oai:x:5"]
    taken = catalogue.poll().taken
    assert (taken.read, taken.deleted) == (6, 1)
    assert catalogue.records.stat("source/archive/oai:x:5").deleted


def test_a_server_that_is_not_an_oai_pmh_repository_is_reported(catalogue: Catalogue, repository: Repository) -> None:
    repository.answer = lambda path, headers: (200, {}, b"<html/>")  # type: ignore[method-assign]
    assert "OAI-PMH" in catalogue.poll().reason


def test_an_invalid_start_of_a_time_window_is_refused(catalogue: Catalogue, repository: Repository) -> None:
    with pytest.raises(Invalid):
        add_archive(catalogue, repository, since="yesterday")
