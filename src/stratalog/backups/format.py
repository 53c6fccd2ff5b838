"""The format of a backup: its manifest, the rows of its catalogue, and packs of items. See `formats/backup.md`.

The catalogue is a tree with a row for each partition of the index, for each owner of blobs, and for the checkpoint of
each log and record. Content that does not change between two backups has the same bytes and the same hash, so it is
stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from stratalog.codec import encode, sha256
from stratalog.errors import Corrupt, Unsupported
from stratalog.log.bodies import BodyRef
from stratalog.ports.index import Item, item_bytes
from stratalog.struct_types import resolved
from stratalog.tree.nodes import Root

__all__ = [
    "BLOBS_ROW",
    "FORMAT",
    "FORMAT_VERSION",
    "HISTORY_ROW",
    "ITEMS_ROW",
    "PACKS",
    "BackupFailure",
    "BackupManifest",
    "BackupRow",
    "Pack",
    "decode_manifest",
    "decode_row",
    "inline_items",
    "listed_packs",
    "pack_rows",
    "read_pack",
]

FORMAT = "stratalog-backup"
FORMAT_VERSION = 1
PACKS = "!backup/packs"

ITEMS_ROW = "i/"
"""The prefix of a row with the items of an index partition."""

BLOBS_ROW = "b/"
"""The prefix of a row that lists the blobs of an owner. The items have no attributes. The sort key of an item is a
blob's key without the owner.
"""

HISTORY_ROW = "h/"
"""The prefix of a row with the checkpoint line of a log or record, by kind, organisation and name."""

# A row of at most this size contains its items inline, because most partitions of records are one small item.
ROW_INLINE_BYTES_MAX = 2048
# The hash of a sort key decides where a pack ends, so an added or removed item leaves the other packs unchanged.
PACK_ITEMS_MEAN = 256
PACK_BYTES_MAX = 4 * 1024 * 1024


class BackupFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A family, record, segment, item or blob that could not be read, and the reason."""

    what: str
    code: str
    reason: str
    is_complete: bool = False
    """Whether the backup has the part, made anew or as in the earlier backup. If so, only the store lacks the part."""


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """One backup. The manifest is written last, so everything that it refers to is stored."""

    format: str = FORMAT
    format_version: int = FORMAT_VERSION
    id: str
    started_ms: int
    """Every write acknowledged before this time is in the backup, except what ``failures`` names."""

    finished_ms: int
    root: Root
    organisations: int
    logs: int
    records: int
    blobs: int
    """The number of the store's blobs in the backup, without packs and chunks of the catalogue."""

    failures: tuple[BackupFailure, ...] = ()
    more_failures: int = 0
    """How many failures were found after `DAMAGED_PARTS_NAMED_MAX`. A part that was read twice may count twice."""

    base: str = ""
    """The id of the backup that shares rows with this backup; empty for a first backup and for a backup made anew."""


class Pack(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive items of a partition, in order. `last` is the sort key of the last item."""

    last: str
    ref: BodyRef


class BackupRow(msgspec.Struct, frozen=True, array_like=True):
    """A partition in the catalogue: its items, its packs, or a body that lists its packs. Exactly one field is set."""

    items: tuple[tuple[str, dict[str, Any]], ...] | None = None
    packs: tuple[Pack, ...] | None = None
    listed: BodyRef | None = None


Write = Callable[[bytes], BodyRef]
"""Stores a pack and returns the reference to the pack."""


def decode_manifest(body: bytes) -> BackupManifest:
    """Decode a manifest. Raises Corrupt, and Unsupported for another format."""
    try:
        head = msgspec.json.decode(body, type=resolved(_Head))
        if (head.format, head.format_version) != (FORMAT, FORMAT_VERSION):
            raise Unsupported("the backup has an unknown format", format_version=head.format_version)
        return msgspec.json.decode(body, type=resolved(BackupManifest))
    except (msgspec.DecodeError, RecursionError) as exc:
        raise Corrupt("a backup's manifest cannot be decoded", reason=str(exc)) from exc


class _Head(msgspec.Struct):
    format: str = ""
    format_version: int = 0


def pack_rows(items: Iterable[Item], write: Write) -> bytes:
    """Return the row of a partition's items, given in order. Keeps one pack in memory at a time."""
    packs = list[Pack]()
    open_pack = list[tuple[str, dict[str, Any]]]()
    size = 0
    for item in items:
        open_pack.append((item.sort, dict(item.attributes)))
        size += item_bytes(item)
        if size >= PACK_BYTES_MAX or _ends_pack(item.sort):
            packs.append(Pack(item.sort, write(encode(open_pack))))
            open_pack, size = [], 0
    if not packs and size <= ROW_INLINE_BYTES_MAX:
        return encode(BackupRow(items=tuple(open_pack)))
    if open_pack:
        packs.append(Pack(open_pack[-1][0], write(encode(open_pack))))
    row = encode(BackupRow(packs=tuple(packs)))
    return row if len(row) <= ROW_INLINE_BYTES_MAX else encode(BackupRow(listed=write(encode(packs))))


def decode_row(body: bytes) -> BackupRow:
    """Decode a row. Raises Corrupt."""
    row: BackupRow = _decoded(_row_decoder, body)
    return row


def listed_packs(row: BackupRow, read: Callable[[BodyRef], bytes]) -> tuple[Pack, ...]:
    """Return the packs of a row; none if the row contains its items inline. Raises Corrupt."""
    return row.packs or (() if row.listed is None else _decoded(_packs_decoder, read(row.listed)))


def read_pack(partition: str, body: bytes) -> list[Item]:
    """Decode the items of a pack. Raises Corrupt."""
    return [Item(partition, sort, attributes) for sort, attributes in _decoded(_items_decoder, body)]


def inline_items(partition: str, row: BackupRow) -> list[Item]:
    """Return the items that a row contains inline."""
    return [Item(partition, sort, attributes) for sort, attributes in row.items or ()]


def _ends_pack(sort: str) -> bool:
    return sha256(sort.encode())[0] * 256 < 256 * 256 // PACK_ITEMS_MEAN


def _decoded(decoder: msgspec.msgpack.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise Corrupt("a part of a backup cannot be decoded", reason=str(exc)) from exc


_row_decoder = msgspec.msgpack.Decoder(BackupRow)
_packs_decoder = msgspec.msgpack.Decoder(tuple[Pack, ...])
_items_decoder = msgspec.msgpack.Decoder(tuple[tuple[str, dict[str, Any]], ...])
