"""The archive of a sealed segment: the segment's items as one body. A reader gets the same items as from the index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from stratalog.codec import encode
from stratalog.errors import Corrupt, Unavailable
from stratalog.keys import entries_partition, number, parse_number
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.bodies import BodyRef, read_body, write_body
from stratalog.log.environment import Environment
from stratalog.log.segments import Segment, segment_changed
from stratalog.ports.index import Item
from stratalog.ports.stored_attributes import StoredVersion

__all__ = [
    "decode_archive",
    "is_gapless",
    "open_archive",
    "pack_archive",
    "prove_archive",
    "read_archive",
    "write_archive",
]


def write_archive(
    environment: Environment, prefix: str, owner: str, segment: Segment, last: int, blob_batch: BlobBatch
) -> BodyRef:
    """Store the entries of a segment that ends at ``last``, read the archive back, and return its reference.

    ``blob_batch`` must not hold or defer blobs, since this function reads them back. Raises Corrupt if an entry is
    missing, Unavailable if the archive does not read back. This function changes no record, so the caller names the
    archive in the segment's record.
    """
    items = _indexed(environment, prefix, segment, last)
    ref = blob_batch.write(f"{owner}/archive", pack_archive(items))
    try:
        read_body(environment.blobs, f"{owner}/archive", ref)
    except Corrupt as exc:
        raise Unavailable(
            "a new archive could not be read back; try again", prefix=prefix, segment=segment.first
        ) from exc
    return ref


def prove_archive(environment: Environment, prefix: str, owner: str, segment: Segment) -> bool:
    """Read an archive back before its entries in the index are freed. Put the archive again, so its blobs are young.

    Without the put, a collection could delete a blob that it listed before a record named the archive. The function
    makes a damaged archive again from the entries. Return True if the archive is intact now, and for a segment without
    an archive, whose versions are forgotten. Return False if the archive is damaged and another process changed the
    segment meanwhile. Raises Corrupt if the archive is damaged and the entries do not give the same archive. After
    False or Corrupt, no entry may be freed.
    """
    if segment.archive is None:
        return True
    folder = f"{owner}/archive"
    try:
        write_body(environment.blobs, folder, read_body(environment.blobs, folder, segment.archive))
        return True
    except Corrupt:
        if segment_changed(environment.index, prefix, segment):
            return False
    try:
        _restore_archive(environment, prefix, owner, segment)
    except Corrupt:
        if segment_changed(environment.index, prefix, segment):
            return False
        raise
    environment.count("archive made anew")
    return True


def pack_archive(items: Iterable[Item]) -> bytes:
    """Return the bytes of an archive of ``items``, which are in order."""
    return encode([(parse_number(item.sort), dict(item.attributes)) for item in items])


def read_archive(environment: Environment, prefix: str, owner: str, segment: Segment) -> list[Item]:
    """Return the items of an archived segment. Raises Corrupt.

    The commit that marks a segment and names the archive may take effect long after it was sent. The collector may have
    deleted the archive by then, because no record named it. So if the archive is damaged or missing, this function
    reads the items from the index, which has them until the segment is freed.
    """
    try:
        return open_archive(environment, prefix, owner, segment)
    except Corrupt:
        if segment.freed:
            raise
        return _indexed(environment, prefix, segment, segment.last)


def open_archive(environment: Environment, prefix: str, owner: str, segment: Segment) -> list[Item]:
    """Return the items of an archived segment, from the archive alone. Raises Corrupt."""
    if segment.archive is None:
        raise Corrupt("a segment has no archive", prefix=prefix, segment=segment.first)
    body = read_body(environment.blobs, f"{owner}/archive", segment.archive)
    try:
        rows = decode_archive(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Corrupt("an archive cannot be decoded", prefix=prefix, segment=segment.first, reason=str(exc)) from exc
    partition = entries_partition(prefix, segment.first)
    return [Item(partition, number(version), attributes) for version, attributes in rows]


def is_gapless(items: Sequence[Item], first: int, last: int) -> bool:
    """Return whether ``items`` are the versions from ``first`` to ``last`` in order.

    ``last`` may come from a damaged record and be huge. So this function first compares the number of items, and does
    not make a list of the expected versions.
    """
    if len(items) != last - first + 1:
        return False
    return all(item.sort == number(version) for version, item in enumerate(items, first))


def _restore_archive(environment: Environment, prefix: str, owner: str, segment: Segment) -> None:
    """Write a damaged archive again from the index. Raises Corrupt if entries are missing or give another archive."""
    blob_batch = BlobBatch(environment, held_bytes_max=0)
    if write_archive(environment, prefix, owner, segment, segment.last, blob_batch) != segment.archive:
        raise Corrupt("the entries differ from their damaged archive", prefix=prefix, segment=segment.first)


def _indexed(environment: Environment, prefix: str, segment: Segment, last: int) -> list[Item]:
    """Return the items of a segment that ends at ``last``, from the index. Raises Corrupt if an item is missing."""
    items = list(environment.index.query(entries_partition(prefix, segment.first), before=number(last + 1)))
    if not is_gapless(items, segment.first, last):
        raise Corrupt("a segment lacks entries", prefix=prefix, segment=segment.first, last=last)
    return items


decode_archive = msgspec.msgpack.Decoder(list[tuple[StoredVersion, dict[str, Any]]]).decode
"""Returns the version and the attributes of each item of an archive. Raises the errors of msgspec."""
