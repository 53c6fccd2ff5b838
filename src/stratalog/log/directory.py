"""The directory: the list of every log and record of an organisation. The commit that creates a log or record adds it.

The lines of an organisation's logs are in one partition, so one paged read lists them. An organisation may have many
millions of records, which many writers create at once. So the lines of records are spread over shards, and the listing
merges the shards.

Names belong to an organisation. The partition `!names/NAME` has one line for each organisation that has a log of that
name. The commit that writes such a line also writes the name record of the log, and its condition protects both.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import chain

import msgspec

from stratalog.codec import sha256
from stratalog.errors import Corrupt
from stratalog.keys import ORGANISATIONS_PARTITION, directory_partition, id_sort, names_partition
from stratalog.log.environment import Environment
from stratalog.log.listed_items import (
    Damaged,
    ListedItem,
    decoded,
    get_listed,
    ignore,
    keys_of,
    list_items,
    raise_damage,
)
from stratalog.ports.index import Attribute, Delete, Index, Item, Put
from stratalog.ports.stored_attributes import Time, read_attributes

__all__ = [
    "LOGS",
    "RECORDS",
    "Listing",
    "NameHolder",
    "StoredLine",
    "StoredNameLine",
    "directory_delete",
    "directory_put",
    "is_listed",
    "line_partition",
    "list_directory",
    "list_ids",
    "list_lines",
    "list_organisations",
    "name_delete",
    "name_line_put",
    "organisation_missing",
    "organisation_put",
    "organisations_of",
]

LOGS = "logs"
RECORDS = "records"
SHARDS = {LOGS: 1, RECORDS: 16}
LAST_CHARACTER = "\U0010ffff"


class Listing(msgspec.Struct, frozen=True):
    """One line of the directory."""

    id: str
    kind: str
    created_ms: int


class StoredLine(msgspec.Struct, frozen=True, gc=False):
    """The attributes of a line of a directory."""

    k: str
    c: Time


class StoredNameLine(msgspec.Struct, frozen=True, gc=False):
    """The attributes of a line of a name."""

    k: str


def directory_put(organisation: str, shelf: str, id: str, kind: str, created_ms: int) -> Put:
    """Return the write that adds ``id`` to a shelf: the list of logs (`LOGS`) or of records (`RECORDS`)."""
    attributes: dict[str, Attribute] = {"k": kind, "c": created_ms}
    return Put(Item(line_partition(organisation, shelf, id), id_sort(id), attributes))


def directory_delete(organisation: str, shelf: str, id: str) -> Delete:
    """Return the write that removes ``id`` from its shelf."""
    return Delete(line_partition(organisation, shelf, id), id_sort(id))


def list_directory(
    index: Index,
    organisation: str,
    shelf: str,
    *,
    after: str = "",
    prefix: str = "",
    damaged: Damaged = raise_damage,
) -> Iterator[Listing]:
    """Yield the lines of a shelf whose ids follow ``after`` and begin with ``prefix``.

    The lines come in UTF-8 order of the ids, by pages. ``damaged`` is called with the error of each damaged line.
    """
    lines = list_lines(index, organisation, shelf, after=after, prefix=prefix)
    return decoded(lines, _listing, damaged, organisation=organisation, shelf=shelf)


def _listing(item: Item) -> Listing:
    line = read_attributes(item, StoredLine, "a line of a directory")
    return Listing(item.sort, line.k, line.c)


def is_listed(index: Index, organisation: str, shelf: str, id: str) -> bool:
    """Return whether a shelf has a line of ``id``. A damaged line lists its log or record too."""
    try:
        return index.get(line_partition(organisation, shelf, id), id_sort(id)) is not None
    except Corrupt:
        return True


def list_ids(
    index: Index, organisation: str, shelf: str, *, after: str = "", damaged: Damaged = ignore
) -> Iterator[str]:
    """Yield the ids of a shelf that follow ``after``, also those of damaged lines, in UTF-8 order, by pages.

    ``damaged`` is called with the error of each line whose key is damaged: its id is unknown.
    """
    lines = list_lines(index, organisation, shelf, after=after)
    return keys_of(lines, damaged, organisation=organisation, shelf=shelf)


def list_lines(
    index: Index, organisation: str, shelf: str, *, after: str = "", prefix: str = ""
) -> Iterator[ListedItem]:
    """Yield the lines of a shelf whose ids follow ``after`` and begin with ``prefix``, also damaged ones.

    The lines come in UTF-8 order of the ids, by pages. A line with a damaged sort key follows the line that it follows
    in its shard.
    """
    start = max(id_sort(text, what) if text else "" for text, what in ((after, "after"), (prefix, "prefix")))
    shards = [
        list_items(index, directory_partition(organisation, shelf, shard), after=start or None, before=_end(prefix))
        for shard in range(SHARDS[shelf])
    ]
    # The queries exclude their start, but the prefix itself may be an id.
    own = (get_listed(index, line_partition(organisation, shelf, text), text) for text in [prefix] if text > after)
    is_there = (listed for listed in own if listed.item is not None or listed.fault)
    return chain(is_there, heapq.merge(*shards, key=lambda listed: listed.bound))


def organisation_put(organisation: str) -> Put:
    """Return the write that adds an organisation to the store's list. A repeated write is harmless."""
    return Put(Item(ORGANISATIONS_PARTITION, id_sort(organisation, "organisation"), {}))


def organisation_missing(environment: Environment, organisation: str) -> list[Put]:
    """Return the write that adds the organisation to the store's list.

    Return no write if the list has the organisation: this process remembers it, or a cheap read finds it. An
    organisation is never removed from the list. If each creation wrote the organisation's item, concurrent creators
    would contend for the item.
    """
    put = organisation_put(organisation)
    if environment.entered_organisations.knows(organisation):
        return []
    if environment.index.get(put.item.partition, put.item.sort, consistent=False) is None:
        return [put]
    environment.entered_organisations.learn(organisation)
    return []


def list_organisations(index: Index, damaged: Damaged = ignore) -> Iterator[str]:
    """Yield the organisations that have ever stored something, in UTF-8 order of the ids.

    ``damaged`` is called with the error of each damaged key, which is the id of no organisation.
    """
    return keys_of(list_items(index, ORGANISATIONS_PARTITION), damaged, partition=ORGANISATIONS_PARTITION)


class NameHolder(msgspec.Struct, frozen=True):
    """An organisation that has a log of some name, and the kind of that log."""

    organisation: str
    kind: str


def name_line_put(organisation: str, log: str, kind: str) -> Put:
    """Return the write that records that ``organisation`` has a log named ``log``. Commit this with the name record."""
    return Put(Item(names_partition(log), id_sort(organisation, "organisation"), {"k": kind}))


def name_delete(organisation: str, log: str) -> Delete:
    """Return the write that removes the line of `name_line_put`. Commit this write with the name record."""
    return Delete(names_partition(log), id_sort(organisation, "organisation"))


def organisations_of(index: Index, log: str, damaged: Damaged = raise_damage) -> Iterator[NameHolder]:
    """Yield the organisations that have a log of the name, in UTF-8 order of the ids, by pages.

    ``damaged`` is called with the error of each damaged line. A tenant must not see other tenants, so the caller must
    filter the result before it answers a tenant.
    """
    partition = names_partition(log)
    return decoded(list_items(index, partition), _holder, damaged, partition=partition)


def _holder(item: Item) -> NameHolder:
    return NameHolder(item.sort, read_attributes(item, StoredNameLine, "a line of a name").k)


def _end(prefix: str) -> str | None:
    """Return the smallest text after all ids that begin with ``prefix``; None if there is no upper bound."""
    start = prefix.rstrip(LAST_CHARACTER)
    if not start:
        return None
    # Skip the surrogates, which no id can contain.
    following = ord(start[-1]) + 1
    return start[:-1] + chr(0xE000 if following == 0xD800 else following)


def line_partition(organisation: str, shelf: str, id: str) -> str:
    """Return the partition of a shelf that has the line of ``id``: for records, one of several shards."""
    return directory_partition(organisation, shelf, sha256(id.encode())[0] % SHARDS[shelf])
