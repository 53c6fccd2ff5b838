"""Billed units of DynamoDB, S3 and SQS. A backend that asks the service and one that only counts use the same rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stratalog.ports.index import Item, Put, Write, item_bytes
from stratalog.ports.meter import Meter

__all__ = [
    "LIST_KEYS",
    "QUERY_PAGE_BYTES",
    "billed_requests",
    "commit_operation",
    "commit_units",
    "count_commit",
    "count_read",
    "message_bytes",
    "read_units",
    "write_units",
]

WRITE_UNIT_BYTES = 1024
READ_UNIT_BYTES = 4096
QUERY_PAGE_BYTES = 1024 * 1024
LIST_KEYS = 1000
QUEUE_REQUEST_BYTES = 64 * 1024
# What SQS counts of a message besides: names, types and the number of an attribute.
QUEUE_NAMES_BYTES = 64


def write_units(item_bytes: int, *, transaction: bool = False) -> int:
    """What DynamoDB bills for writing an item of this size: one unit for each KB begun, twice that in a transaction.

    An overwrite counts by the larger of both items, and a failed condition like a success.
    """
    units = max(1, -(-item_bytes // WRITE_UNIT_BYTES))
    return 2 * units if transaction else units


def read_units(read_bytes: int, *, consistent: bool) -> float:
    """What DynamoDB bills for one get, or for one page of a query: a unit for each 4 KB begun, half if not consistent.

    A page's items are added up first; reading nothing costs as much as reading a little.
    """
    units = max(1, -(-read_bytes // READ_UNIT_BYTES))
    return units if consistent else units / 2


def commit_operation(writes: Sequence[Write]) -> str:
    """What DynamoDB calls a commit of these writes. A check alone is a read, and has no name here."""
    if len(writes) > 1:
        return "TransactWriteItems"
    return "PutItem" if isinstance(writes[0], Put) else "DeleteItem"


def commit_units(writes: Sequence[Write], standing: Mapping[int, Item | None]) -> int:
    """What a commit is billed: each write by the larger of its item and the known item under its key.

    ``standing`` holds the items behind the writes by their place. Checks are billed like writes.
    """
    total = 0
    for position, write in enumerate(writes):
        items = [write.item if isinstance(write, Put) else None, standing.get(position)]
        size = max(item_bytes(item) if item else 0 for item in items)
        total += write_units(size, transaction=len(writes) > 1)
    return total


def count_commit(
    meter: Meter,
    writes: Sequence[Write],
    standing: Mapping[int, Item | None],
    *,
    reported: float = 0,
    wasted: bool = False,
) -> None:
    """Count a commit that was made, or whose condition failed: by the rules, or ``reported`` if it is more."""
    operation, units = commit_operation(writes), max(reported, commit_units(writes, standing))
    meter.add(operation, "write units", units)
    if wasted:
        meter.add(operation, "wasted write units", units)


def count_read(meter: Meter, operation: str, items: Iterable[Item], *, consistent: bool) -> None:
    """Count one get, or one page of a query."""
    meter.add(operation, "read units", read_units(sum(map(item_bytes, items)), consistent=consistent))


def message_bytes(group: str, body_bytes: int) -> int:
    """The size of a message as SQS counts it: the body as base64, the name of the group, names of attributes."""
    return 4 * -(-body_bytes // 3) + len(group.encode()) + QUEUE_NAMES_BYTES


def billed_requests(payload_bytes: int) -> int:
    """As how many requests SQS bills one that sends or brings so much, a batch as a whole: one for each 64 KB begun."""
    return max(1, -(-payload_bytes // QUEUE_REQUEST_BYTES))
