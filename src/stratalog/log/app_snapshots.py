"""App snapshots: an application's state at a version as a list of parts. Each part is a blob that versions share.

App snapshots are for applications that use the log directly and whose state is not a map from keys to values. The
application cuts its state into parts so that a small change leaves most parts unchanged. A part of the newest older
snapshot is not written again. Two rules apply to every snapshot. The parts are durable no later than the snapshot's
record. A snapshot that shares parts of an older snapshot is committed only while the older snapshot exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from stratalog.codec import encode, sha256
from stratalog.errors import (
    ConditionFailed,
    Corrupt,
    Invalid,
    LimitExceeded,
    NotFound,
    Unavailable,
    VersionForgotten,
)
from stratalog.limits import BLOB_SLICE_BYTES, BODY_INLINE_BYTES_MAX, BODY_PART_BYTES
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.bodies import BodyRef, read_body, read_body_back
from stratalog.log.environment import Environment
from stratalog.log.names import NameRecord
from stratalog.log.snapshots import Snapshot, newest_snapshot, put_snapshot
from stratalog.ports.blobs import Blobs
from stratalog.ports.read_back import BlobDamage, BlobReading, read_blob_back

__all__ = [
    "AppSnapshot",
    "Manifest",
    "app_snapshot_addresses",
    "app_snapshot_at",
    "check_parts",
    "manifest_in",
    "manifest_of",
    "read_app_snapshot",
    "read_app_snapshot_back",
    "save_app_snapshot",
    "shared_parts",
    "write_parts",
]

ADDRESS_BYTES = 32


class Manifest(msgspec.Struct, frozen=True, array_like=True):
    """The body of an app snapshot's record: the hashes of the parts in order, inline or in a separate body."""

    kind: Literal["app-snapshot"]
    format: Literal[1]
    inline: bytes | None
    body: BodyRef | None


class AppSnapshot(msgspec.Struct, frozen=True):
    """An app snapshot: its version, its time, and the snapshot record that names its parts."""

    version: int
    created_ms: int
    snapshot: Snapshot


def save_app_snapshot(
    environment: Environment,
    record: NameRecord,
    base: Snapshot | None,
    version: int,
    hash: bytes,
    parts: Sequence[bytes],
) -> bool:
    """Save the state of ``version`` and return True; return False if a snapshot of that version exists.

    ``base`` is the newest snapshot at or below ``version``. Raises LimitExceeded if there is no part or a part is too
    large, VersionForgotten if the floor rose above ``version`` meanwhile, and the errors of the ports.
    """
    check_parts(parts)
    if base is not None and (base.version, base.prefix) == (version, record.prefix):
        return False
    while True:
        blob_batch = BlobBatch(environment, BLOB_SLICE_BYTES)
        try:
            shared = shared_parts(environment.blobs, record.owner, base)
        except Corrupt:
            if base is None or _exists(environment, base):
                raise
            base, shared = None, set()
        body = encode(write_parts(record.owner, blob_batch, parts, shared))
        try:
            with blob_batch.sending():
                return put_snapshot(environment, record, version, hash, body, base, blob_batch.blobs)
        except ConditionFailed:
            if base is None:
                raise
            # The collector may delete the parts of the missing base, so write every part again.
            base = None
            environment.count("snapshot whose base was gone")


def app_snapshot_at(snapshot: Snapshot | None) -> AppSnapshot | None:
    """Return the app snapshot that a snapshot record names. Raises Invalid for a snapshot of another kind."""
    if snapshot is None:
        return None
    if manifest_of(snapshot) is None:
        raise Invalid("the snapshot is not an app snapshot", version=snapshot.version)
    return AppSnapshot(snapshot.version, snapshot.created_ms, snapshot)


def read_app_snapshot(
    environment: Environment, owner: str, app_snapshot: AppSnapshot, floor: Callable[[], int]
) -> Iterator[bytes]:
    """Yield the parts in order, each verified. Raises Corrupt for a part that is missing or damaged.

    Raises VersionForgotten if the snapshot is deleted and below the floor that ``floor`` returns. Raises Unavailable if
    a redaction has deleted it.
    """
    try:
        for address in app_snapshot_addresses(environment.blobs, owner, app_snapshot.snapshot):
            yield _part(environment.blobs, owner, app_snapshot.version, address)
    except Corrupt as exc:
        # The collector may have deleted the parts of a snapshot that was deleted during the read.
        version = app_snapshot.version
        if _exists(environment, app_snapshot.snapshot):
            raise
        if version < floor():
            raise VersionForgotten("the app snapshot was forgotten while it was read", version=version) from exc
        raise Unavailable("the app snapshot was deleted while it was read; read again", version=version) from exc


def read_app_snapshot_back(blobs: Blobs, owner: str, snapshot: Snapshot) -> Iterator[BlobReading]:
    """Read every blob of an app snapshot from storage: the list of its parts, then each part.

    The function yields damage instead of raising an error, and continues with the next part. If the list of parts is
    damaged, the function ends after the list. It yields nothing for a snapshot of another kind. Raises Unavailable.
    """
    manifest = manifest_of(snapshot)
    if manifest is None:
        return
    is_listed = True
    if manifest.body is not None:
        for reading in read_body_back(blobs, _prefix(owner), manifest.body):
            is_listed = is_listed and reading.damage is None
            yield reading
    if not is_listed:
        return
    try:
        addresses = app_snapshot_addresses(blobs, owner, snapshot)
    except Corrupt as exc:
        yield BlobReading("", 0, BlobDamage("", False, exc.message))
        return
    for address in addresses:
        key = f"{_prefix(owner)}/{address.hex()}"
        part = read_blob_back(blobs, key)
        yield BlobReading(key, 0, part) if isinstance(part, BlobDamage) else BlobReading(key, len(part))


def app_snapshot_addresses(blobs: Blobs, owner: str, snapshot: Snapshot) -> list[bytes]:
    """Return the hashes of the parts of an app snapshot, in order; none for another snapshot. Raises Corrupt."""
    manifest = manifest_of(snapshot)
    if manifest is None:
        return []
    listed = manifest.inline
    if listed is None:
        if manifest.body is None:
            raise Corrupt("an app snapshot has no list of parts", version=snapshot.version)
        listed = read_body(blobs, _prefix(owner), manifest.body)
    return [listed[at : at + ADDRESS_BYTES] for at in range(0, len(listed), ADDRESS_BYTES)]


def manifest_of(snapshot: Snapshot) -> Manifest | None:
    """Return the manifest in a snapshot record; None for a snapshot of another kind, or if the body does not decode."""
    return manifest_in(snapshot.body)


def manifest_in(body: bytes) -> Manifest | None:
    """Return the manifest that is the body of a snapshot record; None if the body is another one."""
    try:
        return _decode_manifest(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def check_parts(parts: Sequence[bytes]) -> None:
    """Raise LimitExceeded if there is no part, or a part is too large."""
    if not parts or max(map(len, parts)) > BODY_PART_BYTES:
        raise LimitExceeded("an app snapshot has no part, or a part that is too large", limit=BODY_PART_BYTES)


def write_parts(owner: str, blob_batch: BlobBatch, parts: Sequence[bytes], shared: set[bytes]) -> Manifest:
    """Write the parts whose hashes are not in ``shared``, add their hashes to it, and return the manifest."""
    addresses = [sha256(part) for part in parts]
    for address, part in zip(addresses, parts, strict=True):
        if address not in shared:
            blob_batch.write(_prefix(owner), part)
            shared.add(address)
    listed = b"".join(addresses)
    if len(listed) <= BODY_INLINE_BYTES_MAX:
        return Manifest("app-snapshot", 1, listed, None)
    return Manifest("app-snapshot", 1, None, blob_batch.write(_prefix(owner), listed))


def _part(blobs: Blobs, owner: str, version: int, address: bytes) -> bytes:
    try:
        return blobs.get(f"{_prefix(owner)}/{address.hex()}")
    except NotFound as exc:
        raise Corrupt("a part of an app snapshot is missing", version=version, part=address.hex()) from exc


def _exists(environment: Environment, snapshot: Snapshot) -> bool:
    return newest_snapshot(environment.index, snapshot.prefix, snapshot.version) == snapshot


def shared_parts(blobs: Blobs, owner: str, base: Snapshot | None) -> set[bytes]:
    """Return the hashes of the base's parts, which a new snapshot can share. Raises Corrupt."""
    return set(app_snapshot_addresses(blobs, owner, base)) if base is not None else set()


def _prefix(owner: str) -> str:
    return f"{owner}/app-snapshots"


_decode_manifest = msgspec.msgpack.Decoder(Manifest).decode
