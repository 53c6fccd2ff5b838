"""The directory: every log and record of an organisation, entered in the commit that creates it.

An organisation's logs are one partition, so that listing them is one paged read. Its records, which may be many
millions and are created by many writers at once, are spread over shards and merged when listed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

import msgspec

from stratalog.codec import sha256
from stratalog.errors import NotFound
from stratalog.keys import HOME_SORT, ORGANISATIONS_PARTITION, directory_partition, escape, log_home_partition, unescape
from stratalog.ports.index import Attribute, Delete, Index, Item, Put

__all__ = [
    "LOGS",
    "RECORDS",
    "Listing",
    "directory_delete",
    "directory_put",
    "home_item",
    "home_of",
    "list_directory",
    "list_organisations",
    "organisation_missing",
    "organisation_put",
]

LOGS = "logs"
RECORDS = "records"
SHARDS = {LOGS: 1, RECORDS: 16}


class Listing(msgspec.Struct, frozen=True):
    """One line of the directory."""

    id: str
    kind: str
    created_ms: int


def directory_put(organisation: str, shelf: str, id: str, kind: str, created_ms: int) -> Put:
    """The write that enters ``id`` in a shelf (`LOGS` or `RECORDS`)."""
    attributes: dict[str, Attribute] = {"k": kind, "c": created_ms}
    return Put(Item(_partition(organisation, shelf, id), escape(id), attributes))


def directory_delete(organisation: str, shelf: str, id: str) -> Delete:
    """The write that takes ``id`` out."""
    return Delete(_partition(organisation, shelf, id), escape(id))


def list_directory(
    index: Index, organisation: str, shelf: str, *, after: str = "", prefix: str = ""
) -> Iterator[Listing]:
    """The lines of a shelf in order of escaped id, after the id ``after``, that begin with ``prefix``, by pages."""
    start, end = _bounds(prefix)
    start = max(filter(None, (start, escape(after) if after else None)), default=None)
    shards = [
        index.query(directory_partition(organisation, shelf, shard), after=start, before=end)
        for shard in range(SHARDS[shelf])
    ]
    for item in heapq.merge(*shards, key=lambda item: item.sort):
        attributes: Any = item.attributes
        yield Listing(unescape(item.sort), attributes["k"], attributes["c"])


def organisation_put(organisation: str) -> Put:
    """The write that enters an organisation in the store's list; entering it again is fine."""
    return Put(Item(ORGANISATIONS_PARTITION, escape(organisation, "organisation"), {}))


def organisation_missing(index: Index, organisation: str) -> list[Put]:
    """The same where it is not entered yet, as far as a cheap read knows; else nothing."""
    put = organisation_put(organisation)
    known = index.get(put.item.partition, put.item.sort, consistent=False)
    return [put] if known is None else []


def list_organisations(index: Index) -> Iterator[str]:
    """The organisations that ever created something, in order of escaped id."""
    for item in index.query(ORGANISATIONS_PARTITION):
        yield unescape(item.sort)


def home_item(organisation: str, log: str) -> Item:
    """The item that says which organisation a log belongs to; ids of logs are unique in the store."""
    return Item(log_home_partition(log), HOME_SORT, {"o": organisation})


def home_of(index: Index, log: str) -> str:
    """The organisation that owns the log's id. Raises NotFound."""
    item = index.get(log_home_partition(log), HOME_SORT)
    if item is None:
        raise NotFound("no such log", log=log)
    return str(item.attributes["o"])


def _bounds(prefix: str) -> tuple[str | None, str | None]:
    """What all escaped ids that begin with ``prefix``, and no others, lie between: ``~`` sorts after all they hold."""
    if not prefix:
        return None, None
    escaped = escape(prefix, "prefix")
    return f"{escaped[:-1]}{chr(ord(escaped[-1]) - 1)}~", f"{escaped}~"


def _partition(organisation: str, shelf: str, id: str) -> str:
    return directory_partition(organisation, shelf, sha256(id.encode())[0] % SHARDS[shelf])
