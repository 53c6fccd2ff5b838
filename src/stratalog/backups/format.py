"""What a backup is made of: the manifest, the rows of its catalogue, and packs of items. `formats/backup.md` says more.

The catalogue is a tree: a row for each partition of the index and for each owner of blobs. What does not change between
two backups has the same bytes, so the same hash, and is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from stratalog.codec import encode, sha256
from stratalog.errors import Corrupt, Unsupported
from stratalog.log.bodies import BodyRef
from stratalog.ports.index import Item, item_bytes
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
"""Before a partition of the index: its items."""

BLOBS_ROW = "b/"
"""Before an owner: the names of its blobs below it, as sorts of items with `n`, the size."""

HISTORY_ROW = "h/"
"""Before a kind, an organisation and a name: the checkpoint line of a log or record."""

# A row holds its items itself up to this size: most partitions of records are one small item.
ROW_INLINE_BYTES_MAX = 2048
# A pack ends where the hash of a sort says so, so that what is added or removed leaves the other packs as they were.
PACK_ITEMS_MEAN = 256
PACK_BYTES_MAX = 4 * 1024 * 1024


class BackupFailure(msgspec.Struct, frozen=True):
    """What is not in a backup, and why."""

    what: str
    code: str
    reason: str


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """One backup. It is written last, so everything that it names is stored."""

    format: str = FORMAT
    format_version: int = FORMAT_VERSION
    id: str
    started_ms: int
    """All that was acknowledged before is in the backup."""

    finished_ms: int
    root: Root
    organisations: int
    logs: int
    records: int
    blobs: int
    """How many blobs of the store it needs, packs and catalogue not counted."""

    failures: tuple[BackupFailure, ...] = ()
    base: str = ""
    """The backup that it shares rows with; empty for the first."""


class Pack(msgspec.Struct, frozen=True, array_like=True):
    """Some of a partition's items in order, up to the sort `last`."""

    last: str
    ref: BodyRef


class BackupRow(msgspec.Struct, frozen=True, array_like=True):
    """A partition in the catalogue: the items, or their packs, or a body that lists the packs."""

    items: tuple[tuple[str, dict[str, Any]], ...] | None = None
    packs: tuple[Pack, ...] | None = None
    listed: BodyRef | None = None


Write = Callable[[bytes], BodyRef]
"""Stores a pack and answers where it lies."""


def decode_manifest(body: bytes) -> BackupManifest:
    """The manifest behind a manifest's bytes. Raises Unsupported, Corrupt."""
    try:
        head = msgspec.json.decode(body, type=_Head)
        if (head.format, head.format_version) != (FORMAT, FORMAT_VERSION):
            raise Unsupported("a backup's format is not known here", format_version=head.format_version)
        return msgspec.json.decode(body, type=BackupManifest)
    except msgspec.DecodeError as exc:
        raise Corrupt("a backup's manifest does not decode", reason=str(exc)) from exc


class _Head(msgspec.Struct):
    format: str = ""
    format_version: int = 0


def pack_rows(items: Iterable[Item], write: Write) -> bytes:
    """The row of a partition's items, which come in order. Holds one pack in memory at a time."""
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
        return _encode_row(BackupRow(items=tuple(open_pack)))
    if open_pack:
        packs.append(Pack(open_pack[-1][0], write(encode(open_pack))))
    row = _encode_row(BackupRow(packs=tuple(packs)))
    return row if len(row) <= ROW_INLINE_BYTES_MAX else _encode_row(BackupRow(listed=write(encode(packs))))


def _encode_row(row: BackupRow) -> bytes:
    return encode(row)


def decode_row(body: bytes) -> BackupRow:
    """The row behind its bytes. Raises Corrupt."""
    row: BackupRow = _decoded(_row_decoder, body)
    return row


def listed_packs(row: BackupRow, read: Callable[[BodyRef], bytes]) -> tuple[Pack, ...]:
    """The packs of a row that has any. Raises Corrupt."""
    return row.packs or (() if row.listed is None else _decoded(_packs_decoder, read(row.listed)))


def read_pack(partition: str, body: bytes) -> list[Item]:
    """The items of a pack. Raises Corrupt."""
    return [Item(partition, sort, attributes) for sort, attributes in _decoded(_items_decoder, body)]


def inline_items(partition: str, row: BackupRow) -> list[Item]:
    """The items that a row holds itself."""
    return [Item(partition, sort, attributes) for sort, attributes in row.items or ()]


def _ends_pack(sort: str) -> bool:
    return sha256(sort.encode())[0] * 256 < 256 * 256 // PACK_ITEMS_MEAN


def _decoded(decoder: msgspec.msgpack.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as exc:
        raise Corrupt("a part of a backup does not decode", reason=str(exc)) from exc


_row_decoder = msgspec.msgpack.Decoder(BackupRow)
_packs_decoder = msgspec.msgpack.Decoder(tuple[Pack, ...])
_items_decoder = msgspec.msgpack.Decoder(tuple[tuple[str, dict[str, Any]], ...])
