"""The adapter of an HTTP feed: conditional requests, pages, bounded bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import msgspec

from stratalog import Invalid, LimitExceeded, Unavailable
from stratalog_catalogue.folder import Checkpoint, Step
from stratalog_catalogue.limits import CATALOGUE_DOCUMENT_BYTES_MAX, CATALOGUE_PAGES_MAX
from stratalog_catalogue.record_splitter import SplitRecord, Unreadable, split, time_ms_of, value_at
from stratalog_catalogue.sources import Source
from stratalog_catalogue.xml import parse_element, text_at

if TYPE_CHECKING:
    import httpx

__all__ = ["FeedPage", "fetch", "poll_feed"]

PASSING = {408, 425, 429, 500, 502, 503, 504}
"""Statuses that another try may not meet."""


class FeedPage(msgspec.Struct, frozen=True):
    """What a server answered, within bounds."""

    status: int
    headers: Any
    body: bytes


def poll_feed(source: Source, checkpoint: Checkpoint, connect: Callable[[], httpx.Client]) -> Iterator[Step]:
    """The pages of a feed, unless its first one is still the one that the checkpoint names.

    The checkpoint moves on with the last page only: pages may shift while they are read, and what is read again is
    not written again. Where the pages are the source's whole state they are one step, and one that shifted while it was
    read is Unavailable. Raises Unavailable, Invalid, LimitExceeded.
    """
    validators: dict[str, str] = {name: str(checkpoint[name]) for name in ("etag", "modified") if name in checkpoint}
    with connect() as client:
        first = fetch(client, source.location, _conditions(validators))
        if first.status == 304:
            return
        done, time_ms = _validators(first), _time_of(first)
        if source.complete:
            yield Step(_all_pages(source, client, first), done, time_ms, True)
            return
        for answer, is_last in _pages(source, client, first):
            yield Step(_records(source, answer), done if is_last else dict(checkpoint), time_ms)


def _pages(source: Source, client: httpx.Client, first: FeedPage) -> Iterator[tuple[FeedPage, bool]]:
    """Each page, and whether it is the last."""
    answer, url, seen = first, source.location, {source.location}
    while following := _next(source, url, answer, seen):
        yield answer, False
        url = following
        seen.add(url)
        answer = fetch(client, url, {})
    yield answer, True


def _all_pages(source: Source, client: httpx.Client, first: FeedPage) -> Iterator[SplitRecord | Unreadable]:
    """The records of all pages. A record that moved to a page that was read already would look deleted."""
    several = False
    for answer, is_last in _pages(source, client, first):
        several = several or not is_last
        yield from _records(source, answer)
    if several:
        again = fetch(client, source.location, _conditions(_validators(first)))
        if again.status != 304 and again.body != first.body:
            raise Unavailable("the source changed while its pages were read", url=source.location)


def fetch(client: httpx.Client, url: str, headers: dict[str, str]) -> FeedPage:
    """GET, with a body of bounded size. Raises Unavailable where another try may do, Invalid where none will."""
    import httpx

    try:
        with client.stream("GET", url, headers=headers, follow_redirects=True) as response:
            body = bytearray()
            for piece in response.iter_bytes():
                body += piece
                if len(body) > CATALOGUE_DOCUMENT_BYTES_MAX:
                    raise LimitExceeded("an answer is too large", url=url, limit=CATALOGUE_DOCUMENT_BYTES_MAX)
    except httpx.HTTPError as exc:
        raise Unavailable("the source cannot be reached", url=url, reason=str(exc) or type(exc).__name__) from exc
    if response.status_code in PASSING:
        wait = response.headers.get("retry-after", "")
        asked = {"retry_after_seconds": int(wait)} if wait.isdecimal() else {}
        raise Unavailable("the source cannot answer now", url=url, status=response.status_code, **asked)
    if response.status_code not in (200, 304):
        raise Invalid("the source refused", url=url, status=response.status_code)
    return FeedPage(response.status_code, response.headers, bytes(body))


def _records(source: Source, answer: FeedPage) -> Iterator[SplitRecord | Unreadable]:
    return split(source, [answer.body], source.location)


def _next(source: Source, url: str, answer: FeedPage, seen: set[str]) -> str | None:
    """The next page's URL; one that was read already, or of another server, is refused."""
    link = _named_next(source, answer)
    if not link:
        return None
    target = urljoin(url, link)
    if urlsplit(target)[:2] != urlsplit(source.location)[:2]:
        raise Invalid("a page leads to another server", url=target)
    if target in seen or len(seen) >= CATALOGUE_PAGES_MAX:
        raise Invalid("pages lead in a circle, or are too many", url=target, pages=len(seen))
    return target


def _named_next(source: Source, answer: FeedPage) -> str:
    if source.next and source.format == "json":
        try:
            return str(value_at(msgspec.json.decode(answer.body), source.next) or "")
        except msgspec.DecodeError:
            return ""
    if source.next and source.format == "xml":
        try:
            return text_at(parse_element(answer.body), source.next)
        except Invalid:
            return ""
    for link in str(answer.headers.get("link", "")).split(","):
        target, *parameters = link.split(";")
        if any(parameter.strip().replace('"', "") == "rel=next" for parameter in parameters):
            return target.strip(" <>")
    return ""


def _conditions(validators: dict[str, str]) -> dict[str, str]:
    names = {"etag": "If-None-Match", "modified": "If-Modified-Since"}
    return {names[name]: value for name, value in validators.items()}


def _validators(answer: FeedPage) -> Checkpoint:
    names = {"etag": "etag", "modified": "last-modified"}
    return {name: answer.headers[header] for name, header in names.items() if header in answer.headers}


def _time_of(answer: FeedPage) -> int:
    """The feed's own time: when it last changed, else when it answered."""
    for header in ("last-modified", "date"):
        if header in answer.headers:
            return time_ms_of(answer.headers[header])
    raise Invalid("the source's answer has neither Last-Modified nor Date, so nothing says what is newer")
