"""`update` stores the chunks of a tree concurrently.

`update` returns once all chunks are stored, or raises an error.
"""

from __future__ import annotations

from itertools import count
from threading import Barrier

import pytest

from stratalog.backends.memory import MemoryBlobs
from stratalog.errors import Unavailable
from stratalog.ports.commit_blobs import TOGETHER_MIN
from stratalog.tree.lookup import scan
from stratalog.tree.nodes import EMPTY, Slot
from stratalog.tree.update import build, update
from tests.threads import SECONDS_MAX
from tests.tree.helpers import cold, new_chunks


def test_all_chunks_are_stored_when_update_returns() -> None:
    together, alone = new_chunks(), new_chunks()
    patch = {f"key-{number:06}": Slot(b"\x01", 1) for number in range(TOGETHER_MIN * 100)}
    root = update(together, EMPTY, patch)
    assert root == build(alone, sorted(patch.items()))
    assert together.writes == alone.writes > TOGETHER_MIN
    assert dict(scan(cold(together), root)) == patch


def test_an_update_fails_if_any_of_its_chunks_cannot_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = new_chunks()
    put, calls = MemoryBlobs.put, count(1)

    def fail_once(self: MemoryBlobs, key: str, body: bytes) -> None:
        if next(calls) == TOGETHER_MIN:
            raise Unavailable("no blobs just now")
        put(self, key, body)

    monkeypatch.setattr(MemoryBlobs, "put", fail_once)
    with pytest.raises(Unavailable):
        update(chunks, EMPTY, {f"key-{number:06}": Slot(b"\x01", 1) for number in range(20_000)})


def test_the_chunks_of_a_tree_are_stored_concurrently(monkeypatch: pytest.MonkeyPatch) -> None:
    put, calls, both = MemoryBlobs.put, count(1), Barrier(2)

    def meet(self: MemoryBlobs, key: str, body: bytes) -> None:
        if next(calls) <= both.parties:
            both.wait(SECONDS_MAX)
        put(self, key, body)

    monkeypatch.setattr(MemoryBlobs, "put", meet)
    update(new_chunks(), EMPTY, {f"key-{number:06}": Slot(b"\x01", 1) for number in range(20_000)})
    assert not both.broken
