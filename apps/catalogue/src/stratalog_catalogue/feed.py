"""The adapter of an HTTP feed: conditional requests, pages, bounded bodies."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterator, Set
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit, urlunsplit

import msgspec

from stratalog import Invalid, LimitExceeded, StratalogError, Unavailable
from stratalog.clock import Clock
from stratalog.codec import is_decimal, sha256
from stratalog_catalogue.content_decoder import ACCEPTED_CODINGS, decoded
from stratalog_catalogue.deadline import Deadline
from stratalog_catalogue.encodings import UTF8, check_encoding, is_utf8, utf8_pieces
from stratalog_catalogue.folder import Checkpoint, Step
from stratalog_catalogue.limits import (
    CATALOGUE_DOCUMENT_BYTES_MAX,
    CATALOGUE_PAGES_MAX,
    CATALOGUE_REDIRECTS_MAX,
)
from stratalog_catalogue.record_splitter import (
    SplitRecord,
    Unreadable,
    decoded_json,
    split,
    time_ms_of,
    value_at,
)
from stratalog_catalogue.sources import Source
from stratalog_catalogue.xml import parse_element, text_at

if TYPE_CHECKING:
    import httpx

__all__ = ["FeedPage", "Get", "fetch", "linked_next", "poll_feed", "shown_url"]

PASSING = {408, 425, 429, 500, 502, 503, 504}
"""The HTTP statuses of temporary failures, after which a retry may succeed."""

DEFAULT_PORTS = {"http": 80, "https": 443}
SECONDS_DIGITS_MAX = 9
_QUOTED = r'"(?:[^"\\]|\\.?)*+(?:"|$)'
"""A quoted text. It ends at its closing quote, or at the end of the header if the quote is missing.

Without the second rule, the expression could read the rest of the header again for each later link.
"""

LINK = re.compile(r"<([^<>]*)>((?:" + _QUOTED + r'|[^",])*+)')
"""A link of a Link header: its target and its parameters. A comma in the target or in quotes does not end the link."""

PARAMETER = re.compile(r';\s*([^\s=;"]+)\s*(?:=\s*(' + _QUOTED + r'|[^;"]*))?')
"""A parameter of a link or of a Content-Type: its name, and its value with or without quotes."""


_Server = tuple[str, str | None, int | None]
"""The scheme, the host and the port of a URL."""

Get = Callable[[str, dict[str, str]], "FeedPage"]
"""A function that requests a URL with headers and returns the answer: `fetch` with a client and its deadline."""


class FeedPage(msgspec.Struct, frozen=True):
    """A server's answer, with a body of bounded size."""

    status: int
    headers: Any
    body: bytes
    url: str
    """The URL that gave the answer, after all redirects, with the user and the password that its server got."""


def poll_feed(
    source: Source, checkpoint: Checkpoint, connect: Callable[[], httpx.Client], clock: Clock
) -> Iterator[Step]:
    """Yield the pages of a feed as steps, or nothing if its first page is unchanged since the checkpoint.

    The checkpoint advances only with the last page, because records may move between pages during the poll. A record
    that is read again is not written again. If the pages are the source's complete state, they are one step. Raises
    Unavailable, Invalid and LimitExceeded. Unavailable also means that a complete state changed during the poll.
    """
    names = checkpoint.keys() & {"etag", "modified"} if "again" not in checkpoint else ()
    validators = {name: str(checkpoint[name]) for name in names}
    with connect() as client:
        get = partial(fetch, client, Deadline(clock))
        first = get(source.location, _conditions(validators))
        if first.status == 304:
            return
        done, time_ms = _validators(first), _time_of(first)
        if source.complete:
            yield Step(_all_pages(source, get, first, done), done, time_ms, True)
            return
        seen: set[str] = set()
        for _, answer, is_last in _pages(source, get, first):
            yield Step(_records(source, answer), done if is_last else dict(checkpoint), time_ms, seen=seen)


def _pages(source: Source, get: Get, first: FeedPage) -> Iterator[tuple[str, FeedPage, bool]]:
    """Yield the requested URL of each page, the page, and whether it is the last page.

    If a page has an invalid link to the next page, the generator first yields the page and then raises the error. So
    the page's records are stored.
    """
    answer, url, seen = first, source.location, {source.location}
    servers = {_server(source.location), _server(first.url)}
    while True:
        try:
            following = _next(source, answer, servers, seen)
        except StratalogError:
            yield url, answer, False
            raise
        yield url, answer, following is None
        if following is None:
            return
        url = following
        seen.add(url)
        answer = get(url, {})


def _all_pages(source: Source, get: Get, first: FeedPage, following: Checkpoint) -> Iterator[SplitRecord | Unreadable]:
    """Yield the records of all pages. Raises Unavailable if a page changed in the meantime.

    After a change, a record may have moved to a page that was read before, and would look deleted. So if there are
    several pages, all pages are requested again. If each page has the same records in both passes, the pages were one
    state of the source between the two passes. Other parts of a page may differ in each response, for example its time.

    The state counts as incomplete if the server refuses a request of the second pass, for example because each link to
    a next page is usable once. The same holds if a page of the second pass is HTML, so that its link to the next page
    cannot be read. Then the generator yields Unreadable, and empties the checkpoint ``following``, so that the next
    poll reads all pages again, even if they are unchanged. The dead letter has the source's URL, since the page's URL
    may be another one in each poll.
    """
    read: list[tuple[str, dict[str, str], tuple[bytes, bool]]] = []
    for url, answer, is_last in _pages(source, get, first):
        # The second pass sends only the entity tag of a page to the server. Its time is in whole seconds, and a page
        # may change twice in a second.
        tags = {name: value for name, value in _validators(answer).items() if name == "etag"}
        digest = hashlib.sha256()
        yield from _hashed(_records(source, answer), digest)
        read.append((url, _conditions(tags), (digest.digest(), is_last)))
    for url, conditions, content in read if len(read) > 1 else ():
        try:
            again = get(url, conditions)
            is_same = again.status == 304 or _content(source, again) == content
        except Invalid as exc:
            reason = f"a page cannot be read a second time, so no record is deleted: {exc}"
            following.clear()
            yield Unreadable(id=shown_url(source.location), reason=reason, document=True)
            return
        if not is_same:
            raise Unavailable("the source changed while its pages were read", url=shown_url(url))


def fetch(client: httpx.Client, deadline: Deadline, url: str, headers: dict[str, str]) -> FeedPage:
    """GET a URL and return the answer. Only a request with conditions, in ``headers``, may be answered by status 304.

    Raises Unavailable if a retry may succeed, Invalid if no retry can succeed, and LimitExceeded for a body that is too
    large.
    """
    import httpx

    shown = shown_url(url)
    try:
        answer = _received(client, deadline, url, headers)
    except httpx.HTTPError as exc:
        # The client's message may quote the URL, and the URL may contain secrets.
        reason = str(exc).replace(url, shown) or type(exc).__name__
        raise Unavailable("the source cannot be reached", url=shown, reason=reason) from exc
    except (httpx.InvalidURL, ValueError) as exc:
        raise Invalid("the URL cannot be requested", url=shown, reason=type(exc).__name__) from exc
    if answer.status in PASSING:
        asked = _retry_after_seconds(answer.headers)
        more = {} if asked is None else {"retry_after_seconds": asked}
        raise Unavailable("the source is temporarily unavailable", url=shown, status=answer.status, **more)
    if answer.status != 200 and not (answer.status == 304 and headers):
        raise Invalid("the source refused the request", url=shown, status=answer.status)
    return answer


def _received(client: httpx.Client, deadline: Deadline, url: str, headers: dict[str, str]) -> FeedPage:
    """Return the answer after all redirects. The client itself would read the body of a redirect without a limit."""
    deadline.start(shown_url(url))
    headers = {"Accept-Encoding": ACCEPTED_CODINGS, **headers}
    request = client.build_request("GET", url, headers=headers, extensions={"trace": deadline.trace})
    user = b""
    for _ in range(CATALOGUE_REDIRECTS_MAX + 1):
        # The URL of a redirect may lack the user and the password. The client still sends them to the same server, and
        # from HTTP to HTTPS of the same host.
        user = request.url.userinfo or (user if "authorization" in request.headers else b"")
        with closing(client.send(request, stream=True, follow_redirects=False)) as response:
            if response.next_request is None:
                body = _body(response, deadline)
                return FeedPage(response.status_code, response.headers, body, str(request.url.copy_with(userinfo=user)))
            request = response.next_request
    raise Unavailable("the source redirects too often", url=shown_url(url), limit=CATALOGUE_REDIRECTS_MAX)


def _body(response: httpx.Response, deadline: Deadline) -> bytes:
    """Return the whole body. Raises LimitExceeded for a body that is too large."""
    body = bytearray()
    for piece in decoded(response.iter_raw(), response.headers.get("content-encoding", "")):
        body += piece
        if len(body) > CATALOGUE_DOCUMENT_BYTES_MAX:
            shown = shown_url(str(response.url))
            raise LimitExceeded("a response is too large", url=shown, limit=CATALOGUE_DOCUMENT_BYTES_MAX)
        deadline.check()
    return bytes(body)


def _retry_after_seconds(headers: Any) -> int | None:
    """Return the seconds of a Retry-After header, or None.

    If the header has a date, the seconds are counted from the Date header of the same response.
    """
    wait = str(headers.get("retry-after", "")).strip()
    if is_decimal(wait) and len(wait) <= SECONDS_DIGITS_MAX:
        return int(wait)
    try:
        return max(0, (time_ms_of(wait) - time_ms_of(headers.get("date", ""))) // 1000)
    except Invalid:
        return None


def shown_url(url: str) -> str:
    """Return a URL for messages and dead letters, without user, password and query: these may be secret."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        address = f"[{host}]" if ":" in host else host
        netloc = f"{address}:{parts.port}" if parts.port else address
    except ValueError:
        return url.partition("?")[0].rpartition("@")[2]
    return urlunsplit((parts.scheme, netloc, parts.path, "…" if parts.query else "", ""))


def _records(source: Source, answer: FeedPage) -> Iterator[SplitRecord | Unreadable]:
    encoded = _encoded_as(source, answer)
    # A redrive of the page's letter knows only the settings and the letter, and not the answer's Content-Type.
    named = "" if source.encoding else encoded.encoding
    for record in split(encoded, [answer.body], shown_url(source.location)):
        is_page = isinstance(record, Unreadable) and record.document and not record.body
        yield msgspec.structs.replace(record, body=answer.body, encoding=named) if is_page else record


def _content(source: Source, answer: FeedPage) -> tuple[bytes, bool]:
    """Return the hash of a page's records, and whether the page is the last.

    Raises Invalid if the page is not readable and the link to the next page would be in its body.
    """
    digest = hashlib.sha256()
    deque(_hashed(_records(source, answer), digest), maxlen=0)
    return digest.digest(), not _named_next(source, answer)


def _hashed(records: Iterator[SplitRecord | Unreadable], digest: hashlib._Hash) -> Iterator[SplitRecord | Unreadable]:
    """Yield the records, and add the hash of each readable body to ``digest``.

    Unreadable bytes are not hashed: an unreadable page may differ in each response, for example in its time. A state
    with unreadable bytes deletes no record.
    """
    for record in records:
        if isinstance(record, SplitRecord):
            digest.update(sha256(record.body))
        yield record


def _encoded_as(source: Source, answer: FeedPage) -> Source:
    """Return the source with the encoding that the answer's Content-Type names, if the settings name no encoding.

    Servers name another encoding also for UTF-8 text. So the answer's encoding counts only for text that is not UTF-8.
    """
    with suppress(Invalid):
        encoding = check_encoding(_parameter(str(answer.headers.get("content-type", "")), "charset"))
        if encoding not in ("", UTF8) and not source.encoding and not is_utf8([answer.body]):
            return msgspec.structs.replace(source, encoding=encoding)
    return source


def _next(source: Source, answer: FeedPage, servers: Set[_Server], seen: Set[str]) -> str | None:
    """Return the next page's URL, or None after the last page.

    A relative link starts from the URL that gave the page. Raises Invalid for a page that was read before, for too many
    pages, and for a page on a server that is neither the source's nor the one to which the source redirects.
    """
    link = _named_next(source, answer)
    if not link:
        return None
    try:
        target = urljoin(answer.url, link)
        server = _server(target)
        # A link does not repeat the user and the password, which its server still needs. No other server gets them.
        netlocs = [urlsplit(url).netloc for url in (target, answer.url, source.location) if _server(url) == server]
        netloc = next((netloc for netloc in netlocs if "@" in netloc), netlocs[0])
        target = urlunsplit(urlsplit(target)._replace(netloc=netloc))
    except ValueError as exc:
        raise Invalid("the next page's URL cannot be read", url=shown_url(answer.url)) from exc
    if server not in servers:
        raise Invalid("a page leads to another server", url=shown_url(target))
    if target in seen or len(seen) >= CATALOGUE_PAGES_MAX:
        raise Invalid("the pages form a circle, or are too many", url=shown_url(target), pages=len(seen))
    return target


def _server(url: str) -> _Server:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme)


def _named_next(source: Source, answer: FeedPage) -> str:
    """Return the link to the next page as the page gives it, or "" for none. Raises Invalid for an unreadable page."""
    encoding = _encoded_as(source, answer).encoding
    if source.next and source.format == "json":
        _, _, text = utf8_pieces([answer.body], encoding)
        return str(value_at(decoded_json(b"".join(text)), source.next) or "")
    if source.next and source.format == "xml":
        return text_at(parse_element(answer.body, encoding), source.next)
    return linked_next(str(answer.headers.get("link", "")))


def linked_next(header: str) -> str:
    """Return the target of the first link with the relation `next` in a Link header, or "" for none."""
    for target, parameters in LINK.findall(header):
        if "next" in _parameter(parameters, "rel").lower().split():
            return str(target).strip()
    return ""


def _parameter(parameters: str, name: str) -> str:
    """Return the value of the first parameter with this name, without quotes, or ""."""
    values = (str(value) for given, value in PARAMETER.findall(parameters) if given.lower() == name)
    return next(values, "").strip().strip('"')


def _conditions(validators: dict[str, str]) -> dict[str, str]:
    names = {"etag": "If-None-Match", "modified": "If-Modified-Since"}
    return {names[name]: value for name, value in validators.items()}


def _validators(answer: FeedPage) -> Checkpoint:
    names = {"etag": "etag", "modified": "last-modified"}
    sent = {name: str(answer.headers[header]) for name, header in names.items() if header in answer.headers}
    # Request headers must be ASCII, so a value that is not ASCII cannot be sent back.
    return {name: value for name, value in sent.items() if value.isascii()}


def _time_of(answer: FeedPage) -> int:
    """Return the feed's time: its Last-Modified or its Date, whichever is earlier. Raises Invalid if neither is valid.

    A Last-Modified after the Date is a fault of the server (RFC 9110, 8.8.2.1). With that time, the ingest would
    discard all changes of the records until then. Without a time, the ingest cannot decide whether the records are
    newer than the stored records.
    """
    times: list[int] = []
    refused: Invalid | None = None
    for header in ("last-modified", "date"):
        if header in answer.headers:
            try:
                times.append(time_ms_of(answer.headers[header]))
            except Invalid as exc:
                refused = exc
    if not times:
        text = "the source's response has no valid Last-Modified or Date, so its age is unknown"
        raise Invalid(text) from refused
    return min(times)
