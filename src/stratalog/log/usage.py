"""Usage: the storage of an organisation at the last measurement. The stored result is derived data: it may be deleted.

A measurement counts the whole storage again. No counter is kept: every commit would have to write the same counter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from stratalog.arguments import CheckedStruct
from stratalog.errors import ConditionFailed, Corrupt
from stratalog.keys import usage_partition
from stratalog.limits import USAGE_CLOCKS_SECONDS_MAX
from stratalog.log.listed_items import get_listed
from stratalog.ports.index import Absent, Condition, Equals, Index, Item, LessThan, Put
from stratalog.ports.stored_attributes import Count, Time, read_attributes

__all__ = [
    "MEASURED_SORT",
    "NOTHING",
    "UNLIMITED",
    "Amounts",
    "Measurement",
    "Quotas",
    "QuotasOf",
    "is_from_wrong_clock",
    "load_measurement",
    "save_measurement",
]

FORMAT = 1
MEASURED_SORT = "measured"


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts of storage. ``documents`` includes logs and forks. ``clients`` counts the clients of all documents.

    ``stored_bytes`` are the bytes of blobs, compressed as they are stored, and of index items, as DynamoDB counts them.
    """

    stored_bytes: int = 0
    documents: int = 0
    records: int = 0
    clients: int = 0

    def plus(self, other: Amounts, sign: int = 1) -> Amounts:
        """Return the sum of both amounts; with a ``sign`` of -1 return the difference."""
        return Amounts(
            stored_bytes=self.stored_bytes + sign * other.stored_bytes,
            documents=self.documents + sign * other.documents,
            records=self.records + sign * other.records,
            clients=self.clients + sign * other.clients,
        )


NOTHING = Amounts()


class Quotas(CheckedStruct, frozen=True, kw_only=True):
    """The amounts that an organisation may store. None means no limit. Reads and deletes are never limited."""

    stored_bytes_max: int | None = None
    """The bytes of blobs and index items, including history and garbage that is not collected yet."""

    documents_max: int | None = None
    """Documents, logs and forks."""

    records_max: int | None = None
    """Records. A deleted record still counts, since its history is stored."""

    clients_max: int | None = None
    """The clients of all documents together."""

    document_clients_max: int | None = None
    """The clients of each single document."""


UNLIMITED = Quotas()
QuotasOf = Callable[[str], Quotas]
"""Returns the quotas of an organisation. Each write that needs quota calls this function, so it must not block."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts of an organisation's whole storage. The measurement took from ``began_ms`` to ``ended_ms``."""

    began_ms: int
    ended_ms: int
    amounts: Amounts
    document_clients: int = 0
    """The number of clients of the document that has the most clients."""

    unreadable: int = 0
    """The number of damaged logs that were not counted, plus that of documents whose clients were not counted."""


class StoredMeasurement(msgspec.Struct, frozen=True):
    """The attributes of a stored measurement, without its format."""

    c: Time
    e: Time
    stored_bytes: Count
    documents: Count
    records: Count
    clients: Count
    document_clients: Count
    unreadable: Count


def load_measurement(index: Index, organisation: str, *, consistent: bool = True) -> Measurement | None:
    """Return the newest measurement; None if there is none, or if it is damaged. Raises Unavailable."""
    try:
        item = index.get(usage_partition(organisation), MEASURED_SORT, consistent=consistent)
        return None if item is None else _measurement(item)
    except Corrupt:
        return None


def save_measurement(index: Index, organisation: str, measurement: Measurement) -> None:
    """Store the measurement, unless a stored measurement began at the same time or later. Raises the index's errors.

    A measurement from a wrong clock is replaced even if it began later. Otherwise no measurement could be stored until
    that time. If other processes store a measurement twice meanwhile, this measurement is dropped.
    """
    amounts: dict[str, Any] = msgspec.structs.asdict(measurement.amounts)
    others = {"c": measurement.began_ms, "e": measurement.ended_ms}
    others |= {"document_clients": measurement.document_clients, "unreadable": measurement.unreadable}
    put = Put(Item(usage_partition(organisation), MEASURED_SORT, {"f": FORMAT, **others, **amounts}))
    for _ in range(2):
        listed = get_listed(index, put.item.partition, put.item.sort)
        before = listed.item
        began_ms = before.attributes.get("c") if before else None
        condition: Condition | None = Absent() if before is None else LessThan("c", measurement.began_ms)
        if listed.fault or (before is not None and not isinstance(began_ms, int)):
            condition = None
        elif isinstance(began_ms, int) and is_from_wrong_clock(began_ms, measurement.ended_ms):
            condition = Equals("c", began_ms)
        try:
            index.commit([msgspec.structs.replace(put, condition=condition)])
        except ConditionFailed:
            continue
        return


def is_from_wrong_clock(began_ms: int, now_ms: int) -> bool:
    """Return whether a measurement began further in the future than the clocks of two processes may differ."""
    return began_ms > now_ms + USAGE_CLOCKS_SECONDS_MAX * 1000


def _measurement(item: Item) -> Measurement | None:
    """Return the measurement in an item; None if the item has another format. Raises Corrupt."""
    if item.attributes.get("f") != FORMAT:
        return None
    stored = read_attributes(item, StoredMeasurement, "a measurement of usage")
    return Measurement(
        began_ms=stored.c,
        ended_ms=stored.e,
        amounts=Amounts(**{name: getattr(stored, name) for name in Amounts.__struct_fields__}),
        document_clients=stored.document_clients,
        unreadable=stored.unreadable,
    )
