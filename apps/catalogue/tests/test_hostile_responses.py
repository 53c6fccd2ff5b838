"""Responses of a hostile or broken server: a poll stays bounded, and a part of a response never counts as all of it."""

from __future__ import annotations

import gzip
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from apps.catalogue.tests.feeds import Feed, serving
from apps.catalogue.tests.helpers import Catalogue, catalogue_in
from apps.catalogue.tests.test_feeds import settings_of
from stratalog import Invalid, Unavailable
from stratalog.testing.clock import ManualClock
from stratalog_catalogue.content_decoder import PIECE_BYTES, decoded
from stratalog_catalogue.deadline import Deadline
from stratalog_catalogue.feed import fetch, linked_next, poll_feed
from stratalog_catalogue.limits import CATALOGUE_RESPONSE_SECONDS_MAX
from stratalog_catalogue.redrive import redrive
from stratalog_catalogue.sources import Source
from tests import http_calls

LINE = b'{"id": %d}\n'
BASIC_AUTHORIZATION = "Basic dXNlcjpzZWNyZXQ="
"""The header of the user `user` with the password `secret`."""


@pytest.fixture
def feed(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> Iterator[Feed]:
    monkeypatch.setattr(catalogue.store.environment.clock, "sleep", lambda seconds: None)
    made = Feed()
    with serving(made):
        settings = {**settings_of(made), "format": "jsonl", "records": "", "next": "", "time": "", "complete": True}
        catalogue.add("books", **settings)
        yield made


def interrupted(body: bytes) -> bytes:
    """Return the beginning of a compressed body. It decodes to all of the body, and lacks the end of the stream."""
    compressor = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return compressor.compress(body) + compressor.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize(
    ("status", "headers", "body", "reason"),
    [
        (304, {}, b"", "refused the request"),
        (200, {"Content-Encoding": "gzip"}, interrupted(LINE % 1), "cut off"),
        (200, {"Content-Encoding": "deflate"}, zlib.compress(LINE % 1)[:-4], "cut off"),
        (200, {"Content-Encoding": "gzip"}, LINE % 1, "not in its content coding"),
        (200, {"Content-Encoding": "br"}, LINE % 1, "not supported"),
    ],
    ids=["not modified", "cut gzip", "cut deflate", "no gzip", "unknown coding"],
)
def test_a_poll_with_a_later_page_that_cannot_be_read_deletes_no_record(
    catalogue: Catalogue, feed: Feed, status: int, headers: dict[str, str], body: bytes, reason: str
) -> None:
    pages = [(200, {"Link": "</feed?2>; rel=next"}, LINE % 0), (200, {}, LINE % 1 + LINE % 2)]
    feed.answer = lambda path, given: pages["2" in path]  # type: ignore[method-assign]
    assert catalogue.poll().taken.new == 3
    pages[1] = (status, headers, body)
    outcome = catalogue.poll()
    assert (reason in outcome.reason, outcome.taken.deleted) == (True, 0)
    assert catalogue.ids("source/books/") == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("coding", "body", "size"),
    [
        ("gzip", gzip.compress(bytes(3 * PIECE_BYTES)), 3 * PIECE_BYTES),
        ("gzip", gzip.compress(bytes(PIECE_BYTES)) + gzip.compress(bytes(2 * PIECE_BYTES)), 3 * PIECE_BYTES),
        ("deflate", zlib.compress(bytes(3 * PIECE_BYTES)), 3 * PIECE_BYTES),
        *(("deflate", zlib.compress(bytes(PIECE_BYTES + n), 1, -zlib.MAX_WBITS), PIECE_BYTES + n) for n in range(40)),
    ],
)
def test_a_compressed_response_is_decoded_in_pieces_of_bounded_size(coding: str, body: bytes, size: int) -> None:
    pieces = [*decoded([b"", body[:9], body[9:]], coding)]
    assert max(map(len, pieces)) <= PIECE_BYTES
    assert b"".join(pieces) == bytes(size)


@pytest.mark.parametrize(
    "rest",
    [bytes(20), b"\r\n", b"\x1f", b"\r\n" + gzip.compress(b"x")],
    ids=["zeros", "line break", "half a beginning", "line break before a member"],
)
@pytest.mark.parametrize("piece", [1, 1000])
def test_bytes_after_compressed_content_are_ignored(rest: bytes, piece: int) -> None:
    body = gzip.compress(b"one") + gzip.compress(b"two") + rest
    pieces = [*decoded([body[at : at + piece] for at in range(0, len(body), piece)], "gzip")]
    assert b"".join(pieces) == b"onetwo"
    assert len(pieces) >= len(body) / piece  # the caller checks its time limit at each piece


@pytest.mark.parametrize("window", [zlib.MAX_WBITS, -zlib.MAX_WBITS], ids=["zlib", "raw"])
@pytest.mark.parametrize("piece", [1, 1000])
def test_bytes_after_deflated_content_are_ignored_also_if_they_look_like_gzip(window: int, piece: int) -> None:
    body = zlib.compress(b"one", 1, window) + b"\x1f\x8b"
    assert b"".join(decoded([body[at : at + piece] for at in range(0, len(body), piece)], "deflate")) == b"one"


def received(handle: Callable[[httpx.Request], httpx.Response], clock: ManualClock | None = None) -> bytes:
    """Return the body of the response that a server gives by ``handle``."""
    with httpx.Client(transport=httpx.MockTransport(handle)) as client:
        return fetch(client, Deadline(clock or ManualClock()), "http://a.example/feed", {}).body


def test_the_body_of_a_redirect_is_not_read() -> None:
    def endless() -> Iterator[bytes]:
        raise AssertionError("the body of the redirect was read")
        yield b""

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/feed":
            return httpx.Response(302, headers={"Location": "/other"}, content=endless())
        return httpx.Response(200, content=iter([b"here"]))

    assert received(handle) == b"here"


def test_redirects_in_a_circle_end() -> None:
    with pytest.raises(Exception, match="redirects too often"):
        received(lambda request: httpx.Response(302, headers={"Location": request.url.path}))


def test_a_response_that_takes_too_long_is_given_up() -> None:
    clock = ManualClock()

    def slow() -> Iterator[bytes]:
        for _ in range(100):
            clock.sleep(CATALOGUE_RESPONSE_SECONDS_MAX / 10)
            yield b" "

    with pytest.raises(Exception, match="takes too long"):
        received(lambda request: httpx.Response(200, content=slow()), clock)


@pytest.mark.parametrize("piece", [b"x", b"HTTP/1.1 100 Continue\r\n\r\n"], ids=["a byte", "an informational response"])
def test_a_response_whose_headers_take_too_long_is_given_up(piece: bytes) -> None:
    clock = ManualClock()

    def serve(listener: socket.socket) -> None:
        with listener.accept()[0] as connection, suppress(OSError):
            connection.recv(10_000)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst")
            connection.recv(10_000)
            for _ in range(20):
                connection.sendall(piece)
                clock.sleep(CATALOGUE_RESPONSE_SECONDS_MAX)

    with socket.create_server(("127.0.0.1", 0)) as listener, http_calls.Client(verify=False) as client:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        url, deadline = f"http://127.0.0.1:{listener.getsockname()[1]}/", Deadline(clock)
        assert fetch(client, deadline, url, {}).body == b"first"
        clock.sleep(2 * CATALOGUE_RESPONSE_SECONDS_MAX)
        with pytest.raises(Unavailable, match="takes too long"):
            fetch(client, deadline, url, {})
        server.join()


def test_a_reader_of_a_connection_may_name_its_arguments_as_that_of_a_socks_proxy_does() -> None:
    class Stream:
        def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            return b"x" * max_bytes

    stream, deadline = Stream(), Deadline(ManualClock())
    deadline.start("http://127.0.0.1/")
    deadline.trace("connection.connect_tcp.complete", {"return_value": stream})
    assert stream.read(max_bytes=2) == b"xx"


def test_a_redirect_to_another_server_carries_no_credentials() -> None:
    asked: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if len(asked) == 1:
            return httpx.Response(302, headers={"Location": "http://b.example/feed"})
        return httpx.Response(200, content=iter([b""]))

    with httpx.Client(transport=httpx.MockTransport(handle)) as client:
        fetch(client, Deadline(ManualClock()), "http://user:secret@a.example/feed", {})
    assert ["authorization" in request.headers for request in asked] == [True, False]


@pytest.mark.parametrize(
    "site",
    [
        {
            "http://a.example/": "http://a.example/1",
            "http://a.example/1": "<http://a.example/2>",
            "http://a.example/2": "",
        },
        {"http://a.example/": "https://a.example/1", "https://a.example/1": "</2>", "https://a.example/2": ""},
        {
            "http://a.example/": "http://b.example/1",
            "http://b.example/1": "<http://a.example/2>",
            "http://a.example/2": "",
        },
        {"http://a.example/": "<http://a.example:80/2>", "http://a.example/2": ""},
        {
            "http://a.example/": "http://other:password@b.example/1",
            "http://b.example/1": "http://b.example/2",
            "http://b.example/2": "</3>",
            "http://b.example/3": "",
        },
    ],
    ids=[
        "redirect without the user",
        "redirect to HTTPS",
        "link back to the source",
        "link with the port",
        "two users",
    ],
)
def test_each_page_on_the_source_s_server_gets_the_source_s_user_and_a_page_on_another_server_does_not(
    site: dict[str, str],
) -> None:
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url.copy_with(userinfo=b"")))
        given = request.headers.get("authorization")
        assert (given == BASIC_AUTHORIZATION) == (request.url.host == "a.example")
        target = site[asked[-1]]
        if target.startswith("http"):
            return httpx.Response(302, headers={"Location": target})
        headers = {"Date": "Thu, 01 Jan 1970 00:00:01 GMT", "Link": f"{target}; rel=next"}
        return httpx.Response(200, headers=headers, content=iter([b""]))

    source = Source(name="books", adapter="http", location="http://user:secret@a.example/", format="json")
    steps = poll_feed(source, {}, lambda: httpx.Client(transport=httpx.MockTransport(handle)), ManualClock())
    assert (len([*steps]), asked) == (sum(not target.startswith("http") for target in site.values()), [*site])


@pytest.mark.parametrize(
    ("charset", "declared", "encoding", "read_as"),
    [
        ("ISO-8859-1", "", "latin-1", "iso8859-1"),
        ("ISO-8859-1", "", "utf-8", ""),
        ("ISO-8859-1", "cp1252", "latin-1", "cp1252"),
        ("x-unknown", "", "utf-8", ""),
        ('"utf-8', "", "utf-8", ""),
    ],
    ids=["by the server", "wrong", "by the settings", "unknown", "cut off"],
)
def test_a_page_that_is_not_utf_8_has_the_charset_of_its_response_unless_the_settings_name_another_encoding(
    charset: str, declared: str, encoding: str, read_as: str
) -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        text = '{"items": [{"id": "\u00e9"}], "next": "%s"}' % ("/2" if request.url.path == "/" else "")
        headers = {"Date": "Thu, 01 Jan 1970 00:00:01 GMT", "Content-Type": f"application/json; charset={charset}"}
        return httpx.Response(200, headers=headers, content=iter([text.encode(encoding)]))

    settings = {"format": "json", "records": "items", "next": "next", "encoding": declared}
    source = Source(name="books", adapter="http", location="http://a.example/", **settings)  # type: ignore[arg-type]
    steps = poll_feed(source, {}, lambda: httpx.Client(transport=httpx.MockTransport(handle)), ManualClock())
    read = [record for step in steps for record in step.records]
    assert [(record.id, record.encoding) for record in read] == [("\u00e9", read_as)] * 2


@pytest.mark.parametrize(
    ("declared", "corrected", "id"), [("", "", "\u00e9"), ("", "cp1251", "\u0439"), ("cp1252", "cp1251", "\u0439")]
)
def test_the_letter_of_a_page_that_is_not_utf_8_is_read_with_the_charset_of_its_response_unless_the_settings_name_one(
    tmp_path: Path, declared: str, corrected: str, id: str
) -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        headers = {"Date": "Thu, 01 Jan 1970 00:00:01 GMT", "Content-Type": "application/json; charset=latin-1"}
        return httpx.Response(200, headers=headers, content=iter(['{"list": [{"id": "\u00e9"}]}'.encode("latin-1")]))

    catalogue = catalogue_in(tmp_path)
    catalogue.connect = lambda: httpx.Client(transport=httpx.MockTransport(handle))
    settings = {"adapter": "http", "location": "http://a.example", "format": "json", "id": "id", "transformer": "plain"}
    catalogue.add("books", **settings, records="items", encoding=declared)
    assert catalogue.poll().taken.failed == 1
    catalogue.add("books", **settings, records="list", encoding=corrected)
    assert [letter.resolved for letter in redrive(catalogue.store, "acme", catalogue.connect)] == [True]
    assert catalogue.ids("source/books/") == [id]


def test_a_quotation_mark_without_end_in_a_link_header_quotes_the_rest_of_the_header() -> None:
    # If each link after the mark were searched for the end of the quotation, the time would be quadratic.
    assert linked_next('<a>; rel=prev; title="b\\", <c>; rel=next') == ""
    assert linked_next('<a>; title="\\"b", <c>; rel=next') == "c"
    assert linked_next('<a>; rel=next; title="\\') == "a"


def test_content_that_is_compressed_twice_is_refused() -> None:
    with pytest.raises(Invalid):
        next(decoded([gzip.compress(gzip.compress(b"x"))], "gzip, gzip"))
