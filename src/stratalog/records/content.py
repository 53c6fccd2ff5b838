"""The body of a put while it is stored, and of a version while it is read.

A small body is stored in the item. If the index accepts blobs in a commit, a blob of limited size is committed with the
item. A larger body is uploaded before the item that points to it. All tries of the put share one upload, unless the
uploaded blob is too old by then. Until the item exists, two rules protect the body from the collector:

- A body of one blob is held in memory. `RecordBody` puts the blob again if the last put is more than half of the grace
  period ago (docs/concepts/collecting.md).
- The upload of a body of several blobs may take hours. A *pin* (`uploads.py`) marks this upload as running. The commit
  that stores the pointer deletes the pin, on condition that the pin still exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain

from stratalog.clock import Observation, new_id
from stratalog.codec import PLAIN, ZSTD, encode, sha256
from stratalog.errors import (
    Corrupt,
    Invalid,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    Redacted,
    StratalogError,
    Unavailable,
    VersionForgotten,
)
from stratalog.keys import number, parse_number, record_owner
from stratalog.limits import BODY_PART_BYTES, GRACE_SECONDS, RECORD_BYTES_MAX, RECORD_UPLOAD_SECONDS_MAX
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.bodies import BodyRef, stream_body, write_body
from stratalog.log.commit import commit_once
from stratalog.log.directory import organisation_missing
from stratalog.log.entries import inline_body
from stratalog.log.environment import Environment
from stratalog.ports.blobs_wrapper import BlobsWrapper
from stratalog.ports.index import NO_BLOBS, Attribute, Item, Write
from stratalog.records.floor import read_floor
from stratalog.records.uploads import pin_put, unpin
from stratalog.records.versions import Name, decode_ref, inline_content

__all__ = ["RecordBody", "body_prefix", "stream_item", "stream_version"]

UPLOADS_MAX = 3
INLINE_RATIO_MAX = 16
"""A body larger than this multiple of the inline limit becomes a blob, without an attempt to compress it first."""


class RecordBody:
    """A body and its place in storage. ``size``, if given, must be the exact size in bytes."""

    def __init__(
        self,
        environment: Environment,
        name: Name,
        body: bytes | bytearray | memoryview | Iterable[bytes],
        size: int | None = None,
    ) -> None:
        self._environment = environment
        self._name = name
        self._size = size
        self._seen = Observation(environment.clock)
        self._pin = ""
        self._attributes: dict[str, Attribute] = {}
        self.blobs: Mapping[str, bytes] = NO_BLOBS
        """Blobs that the item's commit must include."""

        self.bytes: bytes | None = None
        """The whole body if it is held in memory, else None."""

        if isinstance(body, bytes | bytearray | memoryview):
            self._hold_bytes(bytes(body))
        elif isinstance(body, str) or not isinstance(body, Iterable):
            raise _no_body(body)
        else:
            self._take(_pieces(body))

    @property
    def digest(self) -> bytes:
        """The SHA-256 of the whole body."""
        return bytes(self._attributes["h"])  # type: ignore[arg-type]

    def attributes(self) -> dict[str, Attribute]:
        """Return the item's attributes for the body. Raises Unavailable.

        If the body is one blob, and its last put is more than half of the grace period ago, put the blob again first.
        """
        if not self._attributes.keys() & {PLAIN.tag, ZSTD.tag, "x"} and self.bytes is not None:
            self._inline_or_upload(self.bytes)
        # After a long upload, the blob may already be too old again.
        for _ in range(UPLOADS_MAX):
            if not self._ages():
                return self._attributes
            self._upload(self.bytes)
        raise Unavailable("storing a body took too long", record=self._name.id, size=self._attributes["n"])

    def guards(self) -> list[Write]:
        """Return further writes for the item's commit: the conditional deletion of the pin."""
        return [unpin(self._name, self._pin)] if self._pin else []

    def lost_pin(self) -> StratalogError:
        """Return the error for a commit whose guard failed: another process removed the expired pin."""
        return LimitExceeded(
            "an upload took too long and was aborted", record=self._name.id, limit=RECORD_UPLOAD_SECONDS_MAX
        )

    def refresh(self) -> None:
        """Put the blob again if a collector may have found it without a reference. Raises Unavailable.

        Call this method as soon as the item may exist.
        """
        if self._ages():
            self._upload(self.bytes)

    def restore(self, item: Item) -> None:
        """Restore the body of ``item``, the result of the put, if its stored body is damaged or lost.

        Only a body with the same bytes as this body can be restored. If this put has uploaded the body itself, there is
        nothing to restore. Otherwise the stored body is read back, once per observation window. Raises Unavailable.
        """
        if self.bytes is None or "x" in self._attributes or "x" not in item.attributes:
            return
        if item.attributes["h"] == self.digest:
            write_body(MissingBlobs(self._environment), body_prefix(self._name), self.bytes)

    def settle(self) -> None:
        """Note that the item's commit succeeded and deleted the pin."""
        self._pin = ""

    def release(self) -> None:
        """Delete the pin, since no item will point to the body. The collector need not wait until the pin expires."""
        if self._pin:
            with suppress(StratalogError):
                self._environment.index.commit(self.guards())

    def _hold_bytes(self, body: bytes) -> None:
        _check_size(self._size, len(body), True)
        self.bytes = body
        self._attributes = {"n": len(body), "h": sha256(body)}

    def _take(self, pieces: Iterator[bytes]) -> None:
        """Hold the body in memory if it is at most one part long; upload a longer body while its pieces arrive."""
        start = bytearray()
        for piece in pieces:
            start += piece
            if len(start) > BODY_PART_BYTES:
                self._stream(chain((bytes(start),), pieces))
                return
        self._hold_bytes(bytes(start))

    def _stream(self, pieces: Iterator[bytes]) -> None:
        self._set_pin()
        try:
            ref = write_body(RetryingBlobs(self._environment), body_prefix(self._name), _counted(pieces, self._size))
        except BaseException:
            self.release()
            raise
        self._point_to(ref)

    def _inline_or_upload(self, body: bytes) -> None:
        inline_max = self._environment.settings.body_inline_bytes_max
        if len(body) <= inline_max * INLINE_RATIO_MAX:
            attribute, stored = inline_body(body)
            if len(stored) <= inline_max:
                self._attributes[attribute] = stored
                return
        if len(body) > BODY_PART_BYTES:
            self._set_pin()
        self._upload(body)

    def _upload(self, body: bytes | None) -> None:
        if body is not None:
            self._seen = Observation(self._environment.clock)
            blob_batch = BlobBatch(self._environment, blobs=RetryingBlobs(self._environment))
            self._point_to(blob_batch.write(body_prefix(self._name), body))
            self.blobs = blob_batch.blobs

    def _point_to(self, ref: BodyRef) -> None:
        self._attributes = {"n": ref.size, "h": ref.digest or ref.address, "x": encode(ref)}

    def _ages(self) -> bool:
        late = self._seen.age_seconds() > GRACE_SECONDS / 2
        put_ahead = "x" in self._attributes and not self.blobs
        return late and put_ahead and self.bytes is not None and not self._pin

    def _set_pin(self) -> None:
        pin = new_id(self._environment.clock)
        entering = organisation_missing(self._environment, self._name.organisation)
        commit_once(
            self._environment, [pin_put(self._name, pin, self._environment.clock.wall_ms()), *entering], lambda: False
        )
        self._pin = pin


def body_prefix(name: Name) -> str:
    """Return the prefix of the keys of a record's blobs."""
    return f"{record_owner(name.organisation, name.key)}/bodies"


def stream_version(environment: Environment, name: Name, item: Item) -> Iterator[bytes]:
    """Return the parts of a version's body; see `stream_item`. Raises Redacted at once."""
    if "d" in item.attributes:
        raise Redacted("the version is redacted", record=name.id, version=parse_number(item.sort))
    return stream_item(environment, name, item)


def stream_item(environment: Environment, name: Name, item: Item) -> Iterator[bytes]:
    """Yield the body that an item holds or points to, in verified parts.

    Raises Corrupt, also for a missing blob. Raises VersionForgotten or Redacted if the version was freed or redacted
    while its body was read. For the body of a failure, raises NotFound if the failures were resolved or a later failure
    replaced the body.
    """
    if "x" not in item.attributes:
        yield inline_content(item)
        return
    try:
        yield from stream_body(environment.blobs, body_prefix(name), decode_ref(item.attributes["x"]))
    except Corrupt as exc:
        if item.partition != name.partition:
            _require_failure(environment, name, item, exc)
            raise  # the item is a failure, not a version: the floor does not apply
        # Read the floor only after the read of the body has failed: the floor may have risen during that read.
        floor = read_floor(environment.index, name).version
        if item.sort < number(floor):
            raise VersionForgotten("the version was forgotten while it was read", record=name.id, floor=floor) from exc
        present = environment.index.get(item.partition, item.sort)
        if present is not None and "d" in present.attributes:
            version = parse_number(item.sort)
            raise Redacted("the version was redacted while it was read", record=name.id, version=version) from exc
        raise


def _require_failure(environment: Environment, name: Name, item: Item, cause: Corrupt) -> None:
    """Raise NotFound if the stored failure of the record no longer refers to the body of ``item``."""
    present = environment.index.get(item.partition, item.sort)
    if present is None:
        raise NotFound("the record's failures were resolved while the body was read", record=name.id) from cause
    if present.attributes.get("x") != item.attributes["x"]:
        raise NotFound("a later failure of the record replaced the body while it was read", record=name.id) from cause


def _pieces(body: Iterable[bytes]) -> Iterator[bytes]:
    # A file is read in pieces of limited size. Its own iterator yields lines, and a line may be as long as the file.
    read = getattr(body, "read", None)
    pieces: Iterable[bytes] = iter(partial(read, BODY_PART_BYTES), b"") if callable(read) else body
    for piece in pieces:
        if not isinstance(piece, bytes | bytearray | memoryview):
            raise _no_body(piece)
        yield piece


def _no_body(value: object) -> Invalid:
    return Invalid("a body must be bytes, an open binary file, or pieces of bytes", type=type(value).__name__)


def _counted(pieces: Iterator[bytes], size: int | None) -> Iterator[bytes]:
    """Yield ``pieces``.

    Raise an error if they have more bytes than announced or allowed, or at the end fewer than announced.
    """
    count = 0
    for piece in pieces:
        count += len(piece)
        _check_size(size, count, False)
        yield piece
    _check_size(size, count, True)


def _check_size(size: int | None, count: int, ended: bool) -> None:
    if size is not None and (count > size or (ended and count < size)):
        raise Invalid("a body does not have the given size", value=count, size=size)
    if count > RECORD_BYTES_MAX:
        raise LimitExceeded("a record's body is too large", value=count, limit=RECORD_BYTES_MAX)


class MissingBlobs:
    """Blobs of an existing version. A put writes a blob only if the stored blob is damaged or lost."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def put(self, key: str, body: bytes) -> None:
        reads, seen = self._environment.reads, Observation(self._environment.clock)
        if reads.find(key, "") is not None:
            return
        try:
            self._environment.blobs.get(key)
        except (NotFound, Corrupt):
            RetryingBlobs(self._environment).put(key, body)
            self._environment.count("body restored")
        reads.note(key, "", seen)


class RetryingBlobs(BlobsWrapper):
    """Blobs whose puts are retried for a while. Repeating a put is always safe."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment.blobs)
        self._environment = environment

    def put(self, key: str, body: bytes) -> None:
        retry = self._environment.retry()
        while True:
            try:
                self._blobs.put(key, body)
                return
            except (Unavailable, OutcomeUnknown) as exc:
                if retry.wait(exc):
                    continue
                if isinstance(exc, Unavailable):
                    raise
                raise Unavailable("a body could not be stored", key=key) from exc
