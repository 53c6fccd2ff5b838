"""The speed of a tree of 1,000,000 keys with blobs in memory: ``python bench/tree.py [keys]``."""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from stratalog.backends.memory import MemoryBlobs
from stratalog.clock import SystemClock
from stratalog.codec import encode
from stratalog.tree.chunks import Chunks
from stratalog.tree.diff import diff
from stratalog.tree.lookup import get, scan
from stratalog.tree.nodes import Root, Slot
from stratalog.tree.update import build, update

KEYS = 1_000_000
SEED = 7
TRIES = 20

Answer = TypeVar("Answer")


def main(keys: int) -> None:
    blobs = MemoryBlobs(SystemClock())
    writer = fresh(blobs)
    chance = random.Random(SEED)
    root, seconds = timed(lambda: build(writer, ((name(n), slot(n, 1)) for n in range(keys))))
    show("build", seconds * 1000, f"{writer.writes} chunks of about {writer.bytes_written // writer.writes} bytes")

    wanted = [name(chance.randrange(keys)) for _ in range(1000)]
    cold_ms = [timed(lambda key=key: get(fresh(blobs), root, key))[1] * 1000 for key in wanted]
    show("lookup, cold", statistics.median(cold_ms), f"worst {max(cold_ms):.3f} ms")
    warm = fresh(blobs)
    _, seconds = timed(lambda: [get(warm, root, wanted[0]) for _ in range(10_000)])
    show("lookup, warm", seconds / 10, "")
    _, seconds = timed(lambda: sum(1 for _ in scan(fresh(blobs), root)))
    show("scan of all, cold", seconds * 1000, f"{keys / seconds / 1e6:.2f} million keys/s")

    changes = [
        change(blobs, root, {name(chance.randrange(keys)): slot(-1, 2) for _ in range(10)}) for _ in range(TRIES)
    ]
    updates, diffs, summaries, more = zip(*changes, strict=True)
    show("update of 10 keys, cold", statistics.median(updates), summaries[-1])
    show("diff of 10 keys, cold", statistics.median(diffs), more[-1])


def change(blobs: MemoryBlobs, root: Root, patch: dict[str, Slot]) -> tuple[float, float, str, str]:
    """Return the milliseconds of an update and of a diff after it, then two texts with their reads and writes."""
    changing, comparing = fresh(blobs), fresh(blobs)
    changed, update_seconds = timed(lambda: update(changing, root, patch))
    differences, diff_seconds = timed(lambda: list(diff(comparing, root, changed)))
    assert len(differences) == len(patch)
    note = f"{changing.reads} reads, {changing.writes} writes"
    return update_seconds * 1000, diff_seconds * 1000, note, f"{comparing.reads} reads"


def name(number: int) -> str:
    return f"cells/{number:012d}"


def slot(number: int, version: int) -> Slot:
    return Slot(encode({"value": number, "text": "about forty bytes of text in a cell"}), version)


def fresh(blobs: MemoryBlobs) -> Chunks:
    return Chunks(blobs, "bench/tree@1")


def timed(call: Callable[[], Answer]) -> tuple[Answer, float]:
    start = time.perf_counter()
    answer = call()
    return answer, time.perf_counter() - start


def show(what: str, milliseconds: float, note: str) -> None:
    print(f"{what:<26}{milliseconds:>12.3f} ms   {note}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else KEYS)
