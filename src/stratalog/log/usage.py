"""Usage: how much an organisation stores, as it was last measured. The record is derived, and may be deleted.

A measurement counts everything once. Nothing is counted along with commits: they would all write one item.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from stratalog.errors import ConditionFailed, Corrupt
from stratalog.keys import usage_partition
from stratalog.ports.index import Absent, Condition, Index, Item, LessThan, Put

__all__ = [
    "MEASURED_SORT",
    "NOTHING",
    "UNLIMITED",
    "Amounts",
    "Measurement",
    "Quotas",
    "QuotasOf",
    "load_measurement",
    "save_measurement",
]

FORMAT = 1
MEASURED_SORT = "measured"


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """How much of each kind. ``documents`` are logs and forks too, ``clients`` those of all documents together.

    ``stored_bytes`` are those of blobs, as they lie in storage, and of index items, as DynamoDB counts them.
    """

    stored_bytes: int = 0
    documents: int = 0
    records: int = 0
    clients: int = 0

    def plus(self, other: Amounts, sign: int = 1) -> Amounts:
        """Both together; with a ``sign`` of -1 what is left without ``other``."""
        return Amounts(
            stored_bytes=self.stored_bytes + sign * other.stored_bytes,
            documents=self.documents + sign * other.documents,
            records=self.records + sign * other.records,
            clients=self.clients + sign * other.clients,
        )


NOTHING = Amounts()


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """How much an organisation may store. None is no bound. Reads and deletes are never bound."""

    stored_bytes_max: int | None = None
    """Bytes of blobs and index items, history and what waits to be collected included."""

    documents_max: int | None = None
    """Documents, logs and forks."""

    records_max: int | None = None
    """Records. A deleted one has its history and counts on."""

    clients_max: int | None = None
    """Clients of all documents together."""

    document_clients_max: int | None = None
    """Clients of any one document."""


UNLIMITED = Quotas()
QuotasOf = Callable[[str], Quotas]
"""The quotas of an organisation. Asked at each write, so it must not block."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """What an organisation stored between ``began_ms`` and ``ended_ms``."""

    began_ms: int
    ended_ms: int
    amounts: Amounts
    document_clients: int = 0
    """The clients of the document that has most."""

    unreadable: int = 0
    """Documents whose clients could not be counted, since something of them is damaged."""


def load_measurement(index: Index, organisation: str, *, consistent: bool = True) -> Measurement | None:
    """The newest measurement; None where there is none that can be read. Raises Unavailable."""
    try:
        item = index.get(usage_partition(organisation), MEASURED_SORT, consistent=consistent)
        return None if item is None else _measurement(item)
    except Corrupt:
        return None


def save_measurement(index: Index, organisation: str, measurement: Measurement) -> None:
    """Keep it, unless a newer one is kept. Raises what ``commit`` raises."""
    amounts: dict[str, Any] = msgspec.structs.asdict(measurement.amounts)
    others = {"c": measurement.began_ms, "e": measurement.ended_ms}
    others |= {"document_clients": measurement.document_clients, "unreadable": measurement.unreadable}
    put = Put(Item(usage_partition(organisation), MEASURED_SORT, {"f": FORMAT, **others, **amounts}))
    for _ in range(2):
        before = index.get(put.item.partition, put.item.sort)
        condition: Condition | None = Absent() if before is None else LessThan("c", measurement.began_ms)
        if before is not None and not isinstance(before.attributes.get("c"), int):
            condition = None
        try:
            index.commit([msgspec.structs.replace(put, condition=condition)])
        except ConditionFailed:
            continue
        return


def _measurement(item: Item) -> Measurement | None:
    attributes: Any = item.attributes
    if attributes.get("f") != FORMAT:
        return None
    try:
        return Measurement(
            began_ms=attributes["c"],
            ended_ms=attributes["e"],
            amounts=msgspec.convert({name: attributes[name] for name in Amounts.__struct_fields__}, Amounts),
            document_clients=attributes["document_clients"],
            unreadable=attributes["unreadable"],
        )
    except (KeyError, msgspec.ValidationError):
        return None
