"""Index: an ordered table of small items with conditional, atomic commits.

A writer that has read an outdated state is stopped by the conditions of its commit, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from stratalog.errors import Corrupt, Invalid, LimitExceeded
from stratalog.limits import (
    COMMIT_BLOB_BYTES_MAX,
    COMMIT_BYTES_MAX,
    COMMIT_WRITES_MAX,
    ITEM_BYTES_MAX,
    PARTITION_BYTES_MAX,
    SORT_BYTES_MAX,
)
from stratalog.ports.blobs import check_put

__all__ = [
    "NO_BLOBS",
    "Absent",
    "Attribute",
    "Check",
    "Condition",
    "Delete",
    "Equals",
    "Index",
    "Item",
    "LessThan",
    "Put",
    "Write",
    "check_blobs",
    "check_commit",
    "holds",
    "item_bytes",
    "no_turn",
    "required",
    "small_bytes",
]

Attribute = str | int | bytes
"""Text, bytes, or an integer from -2^63 to 2^64 - 1, as MessagePack encodes it."""


class Item(msgspec.Struct, frozen=True, gc=False):
    """One item: (partition, sort) is its key. Attribute names are short, since every item stores them."""

    partition: str
    sort: str
    attributes: Mapping[str, Attribute]


class Absent(msgspec.Struct, frozen=True):
    """The condition that no item exists at the key."""


class Equals(msgspec.Struct, frozen=True, gc=False):
    """The condition that the item at the key exists and has an attribute with this name and value."""

    name: str
    value: Attribute


class LessThan(msgspec.Struct, frozen=True, gc=False):
    """The condition that the item at the key has an attribute of this name, whose value is less than ``value``.

    The condition does not hold if the two values have different types.
    """

    name: str
    value: Attribute


Condition = Absent | Equals | LessThan


class Put(msgspec.Struct, frozen=True, gc=False):
    """Store ``item``. Replace the item at the same key, if there is one."""

    item: Item
    condition: Condition | None = None


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Remove the item at the key, if it exists."""

    partition: str
    sort: str
    condition: Condition | None = None


class Check(msgspec.Struct, frozen=True, gc=False):
    """Write nothing, but let the commit succeed only if the condition holds."""

    partition: str
    sort: str
    condition: Condition


Write = Put | Delete | Check

NO_BLOBS: Mapping[str, bytes] = MappingProxyType({})


class Index(Protocol):
    """The contract. Safe to call from many threads; several processes may share one database.

    *Order*: commits are strictly serializable. They take effect one after another, in an order that agrees with real
    time. *Atomicity*: either all writes of a commit take effect, or no write. *Limits*: `PARTITION_BYTES_MAX` and
    `SORT_BYTES_MAX` of a key, `ITEM_BYTES_MAX`, `COMMIT_WRITES_MAX`, `COMMIT_BYTES_MAX` and `COMMIT_BLOB_BYTES_MAX`.
    Two writes of one commit may not name the same key.
    """

    joint_commits: bool
    """Whether one commit of several puts costs no more than a separate commit for each put.

    True for a backend whose commits are local transactions. False for a hosted service, which charges twice the price
    for a transaction.
    """

    blob_bytes_max: int
    """The largest blob that `commit` stores, in bytes. If 0, `commit` stores no blob; see `put_first`."""

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        """Return the item at the key, or None. A read that is not consistent may return a slightly older state.

        Raises Unavailable, Closed, Corrupt.
        """
        ...

    def query(
        self,
        partition: str,
        *,
        after: str | None = None,
        before: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
        consistent: bool = True,
    ) -> Iterator[Item]:
        """Yield items of one partition with ``after`` < sort < ``before``, in order of sort or reversed, lazily.

        Pages are read at different moments, so a query may see half of a commit that happens between two pages. A
        caller that must not see half a commit limits the query to a range whose items no commit changes any more.

        Raises Unavailable, Closed, Corrupt, also while iterating.
        """
        ...

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        """Do either all writes or no write. On return the writes are durable, and every consistent read sees them.

        ``blobs`` are stored in the same transaction, as `Blobs.put` stores them: the age of a stored blob restarts.
        A reader that sees a write of the commit finds its blobs. A blob has at most `blob_bytes_max` bytes, and all
        blobs together have at most `COMMIT_BLOB_BYTES_MAX`. A commit may consist of blobs alone.

        Raises ConditionFailed: nothing was written. The error contains the item at the key of each failed condition, as
        stored at the time of the commit.
        Raises Unavailable, LimitExceeded, Invalid, Closed, or Corrupt for a damaged item: nothing was written.
        Raises OutcomeUnknown: all writes took effect, or none did. A commit without effect may still take effect later.
        """
        ...

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        """Make other writers of ``partition`` wait until the end of the block. A turn makes lost races rarer.

        A writer that lost a race reads and commits inside the block, so it does not lose to the same busy writer again.
        The block's value is True if the index makes other writers wait, or has made the caller wait at the start.
        Otherwise the value is False, and the caller backs off.

        A turn does not exclude other writers: a condition of a commit inside the block may still fail. An index that
        makes other writers wait waits at most `TURN_WAIT_MS_MAX` for the turn. The other writers wait for the end of
        the block, at most for the same time. A nested turn is harmless. Raises Closed.
        """
        ...

    def close(self) -> None:
        """Release files and connections. Later calls raise Closed. Closing twice is harmless."""
        ...


INTEGER_SURPLUS = 12

_INTEGERS = range(-(2**63), 2**64)
_KINDS = frozenset((bytes, str, int))
_NO_TURN = nullcontext(False)


def no_turn() -> AbstractContextManager[bool]:
    """Return the result of `Index.turn` on a backend that never makes writers wait."""
    return _NO_TURN


def holds(condition: Condition | None, item: Item | None) -> bool:
    """Return whether ``condition`` holds for the item at the key. This is the reference implementation for backends."""
    if condition is None:
        return True
    if isinstance(condition, Absent):
        return item is None
    if item is None:
        return False
    value = item.attributes.get(condition.name)
    if type(value) is not type(condition.value):
        return False
    return value == condition.value if isinstance(condition, Equals) else value < condition.value  # type: ignore[operator]


def required(item: Item, name: str) -> Any:
    """Return an attribute that every item of its kind has. Raises Corrupt if the item lacks the attribute."""
    try:
        return item.attributes[name]
    except KeyError as exc:
        raise Corrupt("an item lacks an attribute", partition=item.partition, sort=item.sort, attribute=name) from exc


def item_bytes(item: Item) -> int:
    """Return an upper bound of the item's size as DynamoDB counts it.

    The size of a key or text is its number of UTF-8 bytes. Names of attributes are ASCII, so a character is a byte. A
    number has one byte for each two digits, two more bytes, and one more byte if the number is negative. DynamoDB drops
    trailing zeros, so its own count may be smaller.

    Raises Invalid if a value is no `Attribute`.
    """
    size = _text_bytes(item.partition + item.sort) + 2
    for name, value in item.attributes.items():
        # Test the types in the order of their frequency. This loop runs for every entry.
        if isinstance(value, bytes):
            size += len(name) + len(value)
        elif isinstance(value, str):
            size += len(name) + (len(value) if value.isascii() else len(value.encode()))
        else:
            _check_attribute(name, value)
            size += len(name) + len(str(abs(value))) // 2 + 2 + (value < 0)
    return size


def _text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def check_commit(
    writes: Sequence[Write],
    blobs: Mapping[str, bytes] = NO_BLOBS,
    blob_bytes_max: int = 0,
    encoded: Sequence[bytes] | None = None,
) -> None:
    """Raise LimitExceeded or Invalid for a commit over the port's limits. Every backend checks this before it commits.

    If the backend has already encoded the attributes of each write's item as a MessagePack map, ``encoded`` contains
    these maps. The sizes of the maps can prove that a small commit is within the limits. This check takes a third of
    the time of `item_bytes`, and most commits are small.
    """
    if blobs:
        check_blobs(blobs, blob_bytes_max)
    if not (writes or blobs) or len(writes) > COMMIT_WRITES_MAX:
        raise LimitExceeded("a commit has too few or too many writes", value=len(writes), limit=COMMIT_WRITES_MAX)
    if encoded is None or not _are_small(writes, encoded):
        total = sum(_checked_bytes(write.item) for write in writes if isinstance(write, Put))
        if total > COMMIT_BYTES_MAX:
            raise LimitExceeded("a commit is too large", value=total, limit=COMMIT_BYTES_MAX)
    if len(writes) > 1 and len(set(map(_key, writes))) < len(writes):
        raise Invalid("two writes of one commit name the same key")
    for write in writes:
        condition = write.condition
        if type(condition) is Equals or type(condition) is LessThan:
            _check_attribute(condition.name, condition.value)


def check_blobs(blobs: Mapping[str, bytes], blob_bytes_max: int) -> None:
    """Raise LimitExceeded or Invalid for blobs that a commit may not store; a part of `check_commit`."""
    total = sum(map(len, blobs.values()))
    if total > COMMIT_BLOB_BYTES_MAX:
        raise LimitExceeded("a commit's blobs are too large together", value=total, limit=COMMIT_BLOB_BYTES_MAX)
    for key, body in blobs.items():
        check_put(key, body)
        if len(body) > blob_bytes_max or not blob_bytes_max:
            raise LimitExceeded("a blob is too large for a commit", value=len(body), limit=blob_bytes_max, key=key)


def small_bytes(item: Item, encoded: bytes) -> int:
    """Return an upper bound of `item_bytes`; 0 if the item needs the full check of `check_commit`.

    The MessagePack form of names, texts and bytes has at least the size that `item_bytes` counts. The MessagePack form
    of an integer may be smaller by up to `INTEGER_SURPLUS` bytes.
    """
    attributes = item.attributes
    key = item.partition + item.sort
    size = len(key) + len(encoded) + INTEGER_SURPLUS * (len(attributes) + 1)
    if size > ITEM_BYTES_MAX or len(key) > SORT_BYTES_MAX or not (item.partition and item.sort and key.isascii()):
        return 0
    return size if _KINDS.issuperset(map(type, attributes.values())) else 0


def _are_small(writes: Sequence[Write], encoded: Sequence[bytes]) -> bool:
    """Return whether the puts are certainly within all limits. False means that the full check is needed."""
    total = 0
    for write, body in zip(writes, encoded, strict=True):
        if type(write) is Put:
            size = small_bytes(write.item, body)
            if not size:
                return False
            total += size
    return total <= ITEM_BYTES_MAX


def _check_attribute(name: str, value: Attribute) -> None:
    """Raise Invalid for a value that is no `Attribute`. The value of a condition must be an `Attribute` too."""
    if not (type(value) is str or type(value) is bytes or (type(value) is int and value in _INTEGERS)):
        text = "an attribute must be text, bytes or an integer of 64 bits"
        raise Invalid(text, name=name, kind=type(value).__name__)


def _checked_bytes(item: Item) -> int:
    size = item_bytes(item)
    if size > SORT_BYTES_MAX or not item.partition or not item.sort:  # otherwise the key is short enough
        _check_key(item)
    if size > ITEM_BYTES_MAX:
        raise LimitExceeded("an item is too large", value=size, limit=ITEM_BYTES_MAX, partition=item.partition)
    return size


def _check_key(item: Item) -> None:
    if not 0 < len(item.partition.encode()) <= PARTITION_BYTES_MAX:
        raise _misfit("partition", item.partition, PARTITION_BYTES_MAX)
    if not 0 < len(item.sort.encode()) <= SORT_BYTES_MAX:
        raise _misfit("sort", item.sort, SORT_BYTES_MAX)


def _misfit(what: str, text: str, limit: int) -> LimitExceeded:
    return LimitExceeded(f"an item's {what} is empty or too long", value=len(text.encode()), limit=limit)


def _key(write: Write) -> tuple[str, str]:
    key = write.item if type(write) is Put else write
    return key.partition, key.sort  # type: ignore[union-attr]
