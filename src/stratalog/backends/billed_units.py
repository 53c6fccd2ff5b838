"""Billed units of DynamoDB, S3 and SQS. The backends on AWS and the wrappers that only count share these rules."""

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
# An allowance for the message attributes, which SQS counts too: their names and types, and a number.
QUEUE_NAMES_BYTES = 64


def write_units(item_bytes: int, *, transaction: bool = False) -> int:
    """Return the write units that DynamoDB bills for an item: one unit for each started KB, two in a transaction.

    For an overwrite pass the larger of the old and the new size. A failed condition is billed like a success.
    """
    units = max(1, -(-item_bytes // WRITE_UNIT_BYTES))
    return 2 * units if transaction else units


def read_units(read_bytes: int, *, consistent: bool) -> float:
    """Return the read units that DynamoDB bills for one get or one page of a query.

    A consistent read costs one unit for each started 4 KB, an eventually consistent read half of that. ``read_bytes``
    is the size of all items of the page. A read without a result costs as much as a read of 4 KB.
    """
    units = max(1, -(-read_bytes // READ_UNIT_BYTES))
    return units if consistent else units / 2


def commit_operation(writes: Sequence[Write]) -> str:
    """Return DynamoDB's name for a commit of these writes. For a lone check, `DynamoIndex` sends a read instead."""
    if len(writes) > 1:
        return "TransactWriteItems"
    return "PutItem" if isinstance(writes[0], Put) else "DeleteItem"


def commit_units(writes: Sequence[Write], standing: Mapping[int, Item | None]) -> int:
    """Return the write units of a commit. The size of a write is the larger size of its item and of the stored item.

    ``standing`` maps the position of a write to the item that is stored at its key. Checks are billed like writes.
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
    """Count a commit that succeeded, or whose condition failed (``wasted``), in write units.

    The units are the result of `commit_units`, or ``reported`` if ``reported`` is larger.
    """
    operation, units = commit_operation(writes), max(reported, commit_units(writes, standing))
    meter.add(operation, "write units", units)
    if wasted:
        meter.add(operation, "wasted write units", units)


def count_read(meter: Meter, operation: str, items: Iterable[Item], *, consistent: bool) -> None:
    """Count the read units of one get or one page of a query."""
    meter.add(operation, "read units", read_units(sum(map(item_bytes, items)), consistent=consistent))


def message_bytes(group: str, body_bytes: int) -> int:
    """Return the size of a message as SQS counts it: the body in base64, the group's name, and `QUEUE_NAMES_BYTES`."""
    return 4 * -(-body_bytes // 3) + len(group.encode()) + QUEUE_NAMES_BYTES


def billed_requests(payload_bytes: int) -> int:
    """Return how many requests SQS bills for a request of ``payload_bytes``: one for each started 64 KB.

    ``payload_bytes`` is the total of the messages that the request sends or returns.
    """
    return max(1, -(-payload_bytes // QUEUE_REQUEST_BYTES))
