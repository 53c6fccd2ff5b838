"""The blobs of a commit: the index stores small ones in the same commit where it can; the others are put first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from stratalog.errors import OutcomeUnknown, Unavailable
from stratalog.limits import BLOB_SLICE_BYTES
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index, Write

__all__ = ["commit_with_blobs", "put_all", "put_first", "put_together"]

# This many blobs are put in parallel, if there are more than a usual commit has: a single put mostly waits.
TOGETHER = 16
TOGETHER_MIN = 64


def commit_with_blobs(index: Index, blobs: Blobs, writes: Sequence[Write], bodies: Mapping[str, bytes]) -> None:
    """Commit ``writes``; no blob of ``bodies`` becomes durable later than they do.

    Raises like `Index.commit`, with the same state after each error. A blob that was put first may be an orphan then.
    """
    try:
        taken = put_first(index, blobs, bodies)
    except OutcomeUnknown as exc:
        raise Unavailable("a blob of an unsent commit could not be put") from exc
    index.commit(writes, taken)


def put_first(index: Index, blobs: Blobs, bodies: Mapping[str, bytes]) -> dict[str, bytes]:
    """Put, durably, the blobs that ``index`` does not store, and return the others for `Index.commit`.

    Raises like `Blobs.put`.
    """
    limit = index.blob_bytes_max
    if not limit:
        put_together(blobs, bodies)
        return {}
    put_together(blobs, {key: body for key, body in bodies.items() if len(body) > limit})
    return {key: body for key, body in bodies.items() if len(body) <= limit}


def put_all(index: Index, blobs: Blobs, bodies: Mapping[str, bytes]) -> None:
    """Put many blobs ahead of the commit that names them, durably on return. Raises like `Blobs.put`.

    The blobs that ``index`` stores are written in slices of `BLOB_SLICE_BYTES`, so other commits wait for one slice
    only.
    """
    for part in _slices(put_first(index, blobs, bodies)):
        index.commit((), part)


def put_together(blobs: Blobs, bodies: Mapping[str, bytes]) -> None:
    """Put many blobs, durably on return. They wait for the disk or the network in parallel. Raises like `put`."""
    if len(bodies) < TOGETHER_MIN:
        for key, body in bodies.items():
            blobs.put(key, body)
        return
    with ThreadPoolExecutor(TOGETHER, thread_name_prefix="stratalog-blobs") as pool:
        for _ in pool.map(blobs.put, bodies, bodies.values()):
            pass


def _slices(bodies: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    part: dict[str, bytes] = {}
    size = 0
    for key, body in bodies.items():
        if part and size + len(body) > BLOB_SLICE_BYTES:
            yield part
            part, size = {}, 0
        part[key] = body
        size += len(body)
    if part:
        yield part
