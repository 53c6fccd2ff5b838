"""A prefetch loads the chunks that lookups will read, those of one level at the same time."""

from __future__ import annotations

import random
import threading
from threading import Barrier

import pytest

from stratalog.backends.memory import MemoryBlobs
from stratalog.cache import ByteCache
from stratalog.clock import SystemClock
from stratalog.errors import Corrupt, NotFound, Unavailable
from stratalog.ports.blob_source import BlobSource
from stratalog.tree.chunks import Chunks
from stratalog.tree.lookup import get
from stratalog.tree.nodes import Root, Slot, decode_node
from stratalog.tree.prefetch import KEYS_TOGETHER, prefetch
from stratalog.tree.update import build, update
from tests.threads import SECONDS_MAX
from tests.tree.helpers import OWNER, items, slot

KEYS = 20_000
SEED = 5
FAR_APART = ["item/00000001", "item/00019000"]


class WatchedBlobs(MemoryBlobs):
    """Records the thread and the key of each get. After ``gets_left`` more gets, every get fails."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.threads: list[str] = []
        self.keys: list[str] = []
        self.gets_left = 10**9

    def get(self, key: str) -> bytes:
        self.threads.append(threading.current_thread().name)
        self.keys.append(key)
        self.gets_left -= 1
        if self.gets_left < 0:
            raise Unavailable("simulated")
        return super().get(key)

    @property
    def own_gets(self) -> int:
        """The number of gets by the thread of the test."""
        return self.threads.count(threading.current_thread().name)


@pytest.fixture
def blobs() -> WatchedBlobs:
    return WatchedBlobs()


@pytest.fixture
def root(blobs: WatchedBlobs) -> Root:
    return build(Chunks(blobs, OWNER), items(KEYS))


def some_keys(many: int) -> list[str]:
    return [f"item/{number:08d}" for number in random.Random(SEED).sample(range(KEYS), many)]


def together(blobs: WatchedBlobs, gets_max: int = 16) -> Chunks:
    return Chunks(blobs, OWNER, source=BlobSource(blobs, gets_max))


def test_lookups_after_a_prefetch_read_nothing(blobs: WatchedBlobs, root: Root) -> None:
    chunks, alone = together(blobs), Chunks(blobs, OWNER)
    keys = [*some_keys(40), "item/absent", "zzz"]
    prefetch(chunks, [(root, keys)])
    reads = chunks.reads
    assert [get(chunks, root, key) for key in keys] == [get(alone, root, key) for key in keys]
    assert chunks.reads == reads == alone.reads


def test_the_chunks_of_a_level_are_read_at_the_same_time(
    blobs: WatchedBlobs, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, get_blob = Barrier(2), WatchedBlobs.get

    def meet(self: WatchedBlobs, key: str) -> bytes:
        both.wait(SECONDS_MAX)
        return get_blob(self, key)

    monkeypatch.setattr(WatchedBlobs, "get", meet)
    prefetch(together(blobs), [(root, FAR_APART)])
    assert not both.broken


def test_keys_of_several_trees_are_read_together(blobs: WatchedBlobs, root: Root) -> None:
    other = update(Chunks(blobs, OWNER), root, {FAR_APART[0]: slot("other")})
    chunks = together(blobs)
    blobs.threads.clear()
    prefetch(chunks, [(other, FAR_APART[:1]), (root, FAR_APART[1:])])
    assert (blobs.own_gets, len(blobs.threads)) == (0, 4)


def test_a_prefetch_that_may_make_one_get_at_a_time_reads_nothing(blobs: WatchedBlobs, root: Root) -> None:
    chunks = together(blobs, gets_max=1)
    prefetch(chunks, [(root, some_keys(20))])
    assert chunks.reads == 0


def test_chunks_in_a_cache_of_this_machine_are_read_without_a_thread(blobs: WatchedBlobs, root: Root) -> None:
    chunks = Chunks(blobs, OWNER, source=BlobSource(blobs, 16, lambda key: True))
    blobs.threads.clear()
    prefetch(chunks, [(root, some_keys(20))])
    assert blobs.own_gets == len(blobs.threads) > 20


@pytest.mark.parametrize("error", [NotFound, Corrupt])
def test_a_damaged_chunk_fails_only_the_lookup_that_needs_it(
    blobs: WatchedBlobs, root: Root, error: type[Exception]
) -> None:
    keys = some_keys(20)
    leaf = _blob_of(blobs, root, keys[0])
    if error is NotFound:
        del blobs._bodies[leaf]
    else:
        blobs._bodies[leaf] = b"damaged"
    chunks = together(blobs)
    prefetch(chunks, [(root, keys)])
    assert get(chunks, root, keys[1]) is not None
    with pytest.raises(error):
        get(chunks, root, keys[0])


def test_a_damaged_inline_chunk_fails_no_prefetch(blobs: WatchedBlobs) -> None:
    chunks = together(blobs)
    small = build(chunks, items(3))
    damaged = Root(small.address, small.digest, small.count, b"damaged")
    prefetch(chunks, [(damaged, ["item/00000001"])])
    with pytest.raises(Corrupt):
        get(chunks, damaged, "item/00000001")


@pytest.mark.parametrize("gets_left", [0, 1])
def test_a_prefetch_from_an_unavailable_store_ends_after_one_round_of_gets(
    blobs: WatchedBlobs, root: Root, gets_left: int
) -> None:
    blobs.gets_left = gets_left
    prefetch(together(blobs, gets_max=2), [(root, some_keys(200))])
    assert 1 <= len(blobs.keys) <= gets_left + 2
    levels = {decode_node(MemoryBlobs.get(blobs, key)).level for key in blobs.keys}
    assert levels == {Chunks(blobs, OWNER).top(root).level - 1}, "chunks below the failed level were read"


def test_chunks_in_memory_start_no_thread(blobs: WatchedBlobs, root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks, keys = together(blobs), some_keys(20)
    prefetch(chunks, [(root, keys)])
    monkeypatch.delattr("stratalog.tree.chunks.ThreadPoolExecutor")
    prefetch(chunks, [(root, keys)])


def test_without_a_free_thread_the_chunks_are_read_one_by_one(
    blobs: WatchedBlobs, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    chunks, keys = together(blobs), some_keys(20)
    prefetch(chunks, [(root, keys)])
    assert all(get(chunks, root, key) for key in keys)


def test_an_update_of_many_keys_reads_its_chunks_together(blobs: WatchedBlobs, root: Root) -> None:
    patch: dict[str, Slot | None] = {key: slot("new", 2) for key in some_keys(2 * KEYS_TOGETHER + 10)}
    alone, chunks = Chunks(blobs, OWNER), together(blobs)
    expected = update(alone, root, patch)
    blobs.threads.clear()
    assert update(chunks, root, patch) == expected
    assert chunks.reads == alone.reads
    # This thread itself reads only a chunk that is alone in its prefetch, or that follows a rewritten chunk.
    assert blobs.own_gets <= 3


def test_an_update_with_a_small_cache_reads_few_chunks_twice(blobs: WatchedBlobs, root: Root) -> None:
    patch: dict[str, Slot | None] = {key: slot("new", 2) for key in some_keys(KEYS // 4)}
    chunks = Chunks(blobs, OWNER, ByteCache(1 << 20), BlobSource(blobs, 16))
    alone = Chunks(blobs, OWNER, ByteCache(1 << 20))
    assert update(chunks, root, patch) == update(alone, root, patch)
    assert chunks.reads <= 1.1 * alone.reads


def _blob_of(blobs: WatchedBlobs, root: Root, key: str) -> str:
    """Return the key of the blob with the leaf that contains ``key``."""
    chunks = Chunks(blobs, OWNER)
    node = chunks.top(root)
    while node.level:
        position = next(position for position, last in enumerate(node.keys) if key <= last)
        address = node.addresses[position]  # type: ignore[union-attr]
        node = chunks.load(address)
    return chunks.key(address)
