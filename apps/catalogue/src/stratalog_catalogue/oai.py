"""The adapter of OAI-PMH 2.0: records changed or deleted since the last harvest, in pages by resumption token."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from stratalog import Invalid, StratalogError, Unavailable
from stratalog.clock import Clock
from stratalog_catalogue.deadline import Deadline
from stratalog_catalogue.encodings import UTF8
from stratalog_catalogue.feed import Get, fetch, shown_url
from stratalog_catalogue.folder import Checkpoint, Step
from stratalog_catalogue.limits import CATALOGUE_PAGES_MAX
from stratalog_catalogue.record_splitter import SplitRecord, Unreadable, time_ms_of
from stratalog_catalogue.sources import Source
from stratalog_catalogue.xml import Element, cut_elements, local_name, parse_element, readable_xml, text_at

if TYPE_CHECKING:
    import httpx

__all__ = ["poll_oai"]

DAY_CHARACTERS = len("YYYY-MM-DD")
EXPIRED = "badResumptionToken"
NOTHING = "noRecordsMatch"


class _Page(msgspec.Struct, frozen=True):
    """One answer, the checkpoint to store after its records, and the server's time of the answer."""

    body: bytes
    checkpoint: Checkpoint
    time_ms: int


def poll_oai(
    source: Source, checkpoint: Checkpoint, connect: Callable[[], httpx.Client], clock: Clock
) -> Iterator[Step]:
    """Yield each page of records that changed since the checkpoint, as a step.

    A stored token resumes its harvest. If the token has expired, the harvest starts again. The next harvest starts
    ``from`` the day or second at which this harvest began, by the server's clock. So consecutive harvests overlap, and
    no record is missed between them. A source with complete states is harvested from its beginning each time, in one
    step. Raises Unavailable, Invalid and LimitExceeded.
    """
    with connect() as client:
        get = partial(fetch, client, Deadline(clock))
        if source.complete:
            pages = _pages(source, {}, get)
            first = next(pages)
            records = (record for page in chain([first], pages) for record in _records(page.body))
            yield Step(records, {}, first.time_ms, True)
            return
        harvest = {name: str(checkpoint[name]) for name in ("from", "token", "begun") if checkpoint.get(name)}
        seen: set[str] = set()
        for page in _pages(source, harvest, get):
            yield Step(_records(page.body), page.checkpoint, page.time_ms, seen=seen)


def _pages(source: Source, harvest: dict[str, str], get: Get) -> Iterator[_Page]:
    """Yield the answers of a harvest from its checkpoint on.

    A new harvest first asks the server for its time, and for the granularity of its times.
    """
    if "token" not in harvest:
        harvest = {**harvest, "begun": _moment(parse_element(get(_url(source, verb="Identify"), {}).body))}
    began_anew = False
    seen: set[str] = set()
    for _ in range(CATALOGUE_PAGES_MAX):
        body = get(_asked(source, harvest), {}).body
        root = _root(source, body)
        if _has_expired(root, harvest):
            if began_anew:
                raise Unavailable("the source's resumption tokens expire at once", source=source.name)
            began_anew = True
            harvest = {name: value for name, value in harvest.items() if name != "token"}
            seen.clear()
            continue
        seen.add(harvest.get("token", ""))
        token = text_at(root, "ListRecords.resumptionToken")
        if token and token in seen:
            raise Invalid("the resumption tokens form a circle", url=shown_url(source.location), pages=len(seen))
        following = {**harvest, "token": token} if token else {"from": _earlier(harvest["begun"], source.until)}
        yield _Page(body, following, time_ms_of(text_at(root, "responseDate")))
        if not token:
            return
        harvest = following
    raise Invalid("the harvest has too many pages", source=source.name, limit=CATALOGUE_PAGES_MAX)


def _asked(source: Source, harvest: dict[str, str]) -> str:
    """Return the URL of the next page: with the token alone, as the protocol requires, or with the selection."""
    if "token" in harvest:
        return _url(source, verb="ListRecords", resumptionToken=harvest["token"])
    since, until = harvest.get("from", "") or source.since, source.until
    fine = min([len(moment) for moment in (since, until, harvest["begun"]) if moment])
    window = {name: moment[:fine] for name, moment in (("from", since), ("until", until)) if moment}
    return _url(source, verb="ListRecords", metadataPrefix=source.metadata_prefix, set=source.set, **window)


def _url(source: Source, **asked: str) -> str:
    base, mark, query = source.location.partition("?")
    own = [query] if mark and query else []
    return f"{base}?{'&'.join([*own, urlencode({name: value for name, value in asked.items() if value})])}"


def _moment(identified: Element) -> str:
    """Return the server's time in its granularity. Raises Invalid if the answer is not from an OAI-PMH repository."""
    granularity = text_at(identified, "Identify.granularity")
    answered = text_at(identified, "responseDate")
    if not granularity or not answered:
        raise Invalid("the response is not OAI-PMH", reason=text_at(identified, "error"))
    # Some servers write the time with an offset or a fraction. The protocol does not allow such a time as `from`.
    moment = datetime.fromtimestamp(time_ms_of(answered) // 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")[: DAY_CHARACTERS if len(granularity) <= DAY_CHARACTERS else None]


def _earlier(begun: str, until: str) -> str:
    """Return the start of the next harvest: the start of this harvest, but not after ``until``."""
    return min(begun, until) if until else begun


def _has_expired(root: Element, harvest: dict[str, str]) -> bool:
    """Return whether an answer says that the harvest's token has expired.

    The error `noRecordsMatch` means an empty harvest. Raises Invalid for any other error, and for an answer with
    neither a list nor an error. A request without a token cannot have an expired token.
    """
    errors = [child for child in root if local_name(child) == "error"]
    permitted = (NOTHING, EXPIRED) if "token" in harvest else (NOTHING,)
    for error in errors:
        code = error.get("code", "")
        if code not in permitted:
            raise Invalid("the source refused the request", code=code, reason=error.text or "")
    if not errors and all(local_name(child) != "ListRecords" for child in root):
        raise Invalid("a response has no list of records")
    return any(error.get("code") == EXPIRED for error in errors)


def _root(source: Source, body: bytes) -> Element:
    """Return an answer's tree.

    Characters that XML forbids are replaced, so that only a record with such a character is unreadable.
    """
    try:
        return parse_element(readable_xml(body))
    except StratalogError as exc:
        text = "a response is not XML, so the next page is unknown"
        raise Invalid(text, url=shown_url(source.location), reason=str(exc)) from exc


def _records(body: bytes) -> Iterator[SplitRecord | Unreadable]:
    readable = readable_xml(body)
    exact = readable == body
    # The offsets of the cut records begin after the byte order mark.
    body = body.removeprefix(codecs.BOM_UTF8)
    for position, cut in enumerate(cut_elements([readable], "record")):
        record = cut.element
        id = text_at(record, "header.identifier")
        # The source's encoding does not apply to OAI-PMH, so a letter always names the encoding.
        encoding = cut.encoding or UTF8
        metadata = {"namespaces": cut.namespaces} if cut.namespaces else {}
        original = cut.body if exact else body[cut.start : cut.start + len(cut.body)]
        try:
            if original != cut.body:
                raise Invalid("a record has a character that XML does not allow")
            if not id:
                raise Invalid("a record has no identifier")
            time_ms = time_ms_of(text_at(record, "header.datestamp"))
            gone = text_at(record, "header.@status") == "deleted"
            left = b"" if gone else original
            yield SplitRecord(id=id, body=left, time_ms=time_ms, deleted=gone, encoding=encoding, metadata=metadata)
        except StratalogError as exc:
            yield Unreadable(
                id=id or f"#{position}", reason=str(exc), body=original, encoding=encoding, metadata=metadata
            )
