"""The saved progress of a collection. Another run or another process resumes from it.

One item of the index holds the whole progress, or names a blob that holds it. So a reader never mixes two states. The
item only saves work, and does not exclude a second run: two runs may overwrite each other's progress. If the progress
is too large for the item, it is a blob of the owner being collected. The blob is garbage when no item names it any
more.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stratalog.codec import ZSTD, compress, unpack_item
from stratalog.errors import Corrupt, LimitExceeded, Unsupported
from stratalog.keys import collecting_partition, unescape
from stratalog.limits import BODY_INLINE_BYTES_MAX
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.bodies import decode_body_ref, read_body
from stratalog.log.environment import Environment
from stratalog.log.listed_items import get_listed
from stratalog.maintenance.marks import Reached
from stratalog.ports.index import Attribute, Delete, Item, Put

__all__ = ["Candidate", "CollectionProgress", "drop_work", "load_work", "save_work"]

FORMAT = 1
STORED_BYTES_MAX = 1024 * 1024 * 1024
COLLECTING = "collecting"


class Candidate(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A blob as it was listed before the marking began."""

    stamp: str
    modified_ms: int
    stored_bytes: int


class CollectionProgress(msgspec.Struct):
    """The current batch of a collection: the unmarked blobs of one owner with keys after ``after``, up to ``upto``."""

    after: str = ""
    owner: str = ""
    """Empty between two batches."""

    upto: str = ""
    young: int = 0
    retained: int = 0
    listed: int = 0
    """The number of candidates before any was marked."""

    failures: int = 0
    is_marked: bool = False
    candidates: dict[str, Candidate] = {}
    reached: Reached = msgspec.field(default_factory=Reached)
    seen: set[bytes] = set()

    def mark(self, key: str) -> None:
        """Retain the blob with this key, which is relative to the owner."""
        self.candidates.pop(key, None)


def load_work(environment: Environment, scope: str) -> tuple[CollectionProgress, bool]:
    """Return the saved progress of a scope, and whether any is saved.

    If the progress cannot be read, its batch starts again. Raises Unavailable.
    """
    listed = get_listed(environment.index, _partition(scope), scope)
    if listed.item is None:
        return CollectionProgress(), bool(listed.fault)
    attributes: Any = listed.item.attributes
    try:
        return _decode(_stored(environment, attributes)), True
    except (Corrupt, KeyError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, LimitExceeded, Unsupported):
        return CollectionProgress(after=str(attributes.get("a", ""))), True


def save_work(environment: Environment, scope: str, work: CollectionProgress) -> None:
    """Replace the saved progress of a scope. Raises the errors of the ports."""
    attributes: dict[str, Attribute] = {"f": FORMAT, "a": work.after, "c": environment.clock.wall_ms()}
    body = msgspec.msgpack.encode(work)
    blob_batch = BlobBatch(environment)
    if len(packed := compress(body)) <= BODY_INLINE_BYTES_MAX:
        attributes[ZSTD.tag] = packed
    else:
        attributes["o"] = work.owner
        attributes["x"] = msgspec.msgpack.encode(blob_batch.write(f"{work.owner}/{COLLECTING}", body))
    environment.index.commit([Put(Item(_partition(scope), scope, attributes))], blob_batch.blobs)


def drop_work(environment: Environment, scope: str) -> None:
    """Delete the saved progress of a finished collection. Raises the errors of ``commit``."""
    environment.index.commit([Delete(_partition(scope), scope)])


def _stored(environment: Environment, attributes: Any) -> bytes:
    if attributes["f"] != FORMAT:
        raise Corrupt("a collection's progress has an unknown format", format=attributes["f"])
    body = unpack_item(attributes, STORED_BYTES_MAX, COLLECTING)
    if body is None:
        body = read_body(environment.blobs, f"{attributes['o']}/{COLLECTING}", decode_body_ref(attributes["x"]))
    return body


def _partition(scope: str) -> str:
    return collecting_partition(unescape(scope.partition("/")[0]))


_decode = msgspec.msgpack.Decoder(CollectionProgress).decode
