"""The adapter of OAI-PMH 2.0: records changed since the last harvest, by resumption tokens; deleted ones too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from stratalog import Invalid, StratalogError, Unavailable
from stratalog.apps.catalogue.feed import fetch
from stratalog.apps.catalogue.folder import Checkpoint, Step
from stratalog.apps.catalogue.sources import Source
from stratalog.apps.catalogue.splitting import Found, Unreadable, time_ms_of
from stratalog.apps.catalogue.xml import Element, local_name, parse_element, text_at, to_bytes
from stratalog.limits import CATALOGUE_PAGES_MAX

if TYPE_CHECKING:
    import httpx

__all__ = ["poll_oai"]

EXPIRED = "badResumptionToken"
NOTHING = "noRecordsMatch"


def poll_oai(source: Source, checkpoint: Checkpoint, connect: Callable[[], httpx.Client]) -> Iterator[Step]:
    """Lists of records since the checkpoint. A token that was stored is gone on with; an expired one begins anew.

    The next harvest is ``from`` the day or second that this one began at, by the server's clock, so that the two
    overlap and nothing falls between them. Raises Unavailable, Invalid.
    """
    harvest = {name: str(checkpoint[name]) for name in ("from", "token", "begun") if checkpoint.get(name)}
    began_anew = False
    with connect() as client:
        for _ in range(CATALOGUE_PAGES_MAX):
            root = parse_element(fetch(client, _url(source, harvest), {}).body)
            error = _error(root)
            if error == EXPIRED and "token" in harvest:
                if began_anew:
                    raise Unavailable("the source's resumption tokens expire at once", source=source.name)
                began_anew = True
                harvest = {name: value for name, value in harvest.items() if name == "from"}
                continue
            answered = text_at(root, "responseDate")
            begun = harvest.get("begun") or _moment(answered, source, root)
            token = text_at(root, "ListRecords.resumptionToken")
            if token and token == harvest.get("token"):
                raise Invalid("a resumption token leads to itself", source=source.name, token=token)
            done = {"from": begun}
            kept = {**harvest, "token": token, "begun": begun} if token else done
            yield Step(_records(root), kept, time_ms_of(answered))
            if not token:
                return
            harvest = kept
    raise Invalid("a harvest has too many pages", source=source.name, limit=CATALOGUE_PAGES_MAX)


def _url(source: Source, harvest: dict[str, str]) -> str:
    if "token" in harvest:
        asked = {"verb": "ListRecords", "resumptionToken": harvest["token"]}
    else:
        named = {"metadataPrefix": source.metadata_prefix, "set": source.set, "from": harvest.get("from", "")}
        asked = {"verb": "ListRecords", **{name: value for name, value in named.items() if value}}
    return f"{source.location}?{urlencode(asked)}"


def _error(root: Element) -> str:
    """The error's code, where it is one that a harvest goes on after. Raises Invalid for any other."""
    code = text_at(root, "error.@code")
    if code not in ("", EXPIRED, NOTHING):
        raise Invalid("the source refused", code=code, reason=text_at(root, "error"))
    return code


def _moment(answered: str, source: Source, root: Element) -> str:
    """When the harvest began, as fine as the datestamps that the source gives."""
    stamps = [text_at(record, "header.datestamp") for record in _listed(root)]
    days = all(len(stamp) == 10 for stamp in stamps) if stamps else False
    return answered[:10] if days else answered


def _listed(root: Element) -> list[Element]:
    lists = [child for child in root if local_name(child) == "ListRecords"]
    return [record for found in lists for record in found if local_name(record) == "record"]


def _records(root: Element) -> Iterator[Found | Unreadable]:
    for place, record in enumerate(_listed(root)):
        body = to_bytes(record)
        id = text_at(record, "header.identifier")
        try:
            if not id:
                raise Invalid("a record has no identifier")
            time_ms = time_ms_of(text_at(record, "header.datestamp"))
            gone = text_at(record, "header.@status") == "deleted"
            yield Found(id=id, body=b"" if gone else body, time_ms=time_ms, deleted=gone)
        except StratalogError as exc:
            yield Unreadable(id=id or f"#{place}", reason=str(exc), body=body)
