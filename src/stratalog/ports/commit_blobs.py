"""Storage of a commit's blobs.

An index with `blob_bytes_max` above 0 stores small blobs in the commit itself. Other blobs are put before the commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from stratalog.errors import OutcomeUnknown, Unavailable
from stratalog.limits import BLOB_SLICE_BYTES
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index, Write

__all__ = ["commit_with_blobs", "put_all", "put_first", "put_together"]

# The number of threads that put blobs in parallel. A put mostly waits for the storage.
TOGETHER = 16
# `put_together` starts threads only for this number of blobs or more. Most commits have fewer blobs.
TOGETHER_MIN = 64


def commit_with_blobs(index: Index, blobs: Blobs, writes: Sequence[Write], bodies: Mapping[str, bytes]) -> None:
    """Commit ``writes``. Every blob of ``bodies`` becomes durable before the commit or with it.

    Raises the errors of `Index.commit`, with the same state after each error. Blobs that were put before an error may
    remain as orphans.
    """
    try:
        taken = put_first(index, blobs, bodies)
    except OutcomeUnknown as exc:
        # Only the put of the blob is in doubt. The commit was not sent, so no write of the commit took effect.
        raise Unavailable("a blob of an unsent commit could not be put") from exc
    index.commit(writes, taken)


def put_first(index: Index, blobs: Blobs, bodies: Mapping[str, bytes]) -> dict[str, bytes]:
    """Put the blobs that ``index`` cannot store; return the remaining blobs for `Index.commit`.

    The blobs that were put are durable on return. Raises the errors of `Blobs.put`.
    """
    limit = index.blob_bytes_max
    if not limit:
        put_together(blobs, bodies)
        return {}
    put_together(blobs, {key: body for key, body in bodies.items() if len(body) > limit})
    return {key: body for key, body in bodies.items() if len(body) <= limit}


def put_all(index: Index, blobs: Blobs, bodies: Mapping[str, bytes]) -> None:
    """Put many blobs before the commit that names them. All blobs are durable on return. Raises the errors of `put`.

    Blobs that ``index`` can store are committed in slices of `BLOB_SLICE_BYTES`, so that another commit waits for at
    most one slice.
    """
    for part in _slices(put_first(index, blobs, bodies)):
        index.commit((), part)


def put_together(blobs: Blobs, bodies: Mapping[str, bytes]) -> None:
    """Put blobs. All blobs are durable on return. From `TOGETHER_MIN` blobs on, threads put the blobs in parallel.

    Raises the errors of `Blobs.put`.
    """
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
