"""Benchmarks of documents with a million keys and with large items: open, lookup, commit, diff and edit."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from bench.figures import Measured
from bench.measure import median_ms
from bench.payload import fact, item_key, large_item
from bench.workplace import DOCUMENT, ORGANISATION, Workplace, reopened
from stratalog import Document, Mutation
from stratalog.codec import compress, encode
from stratalog.ports.index import NO_BLOBS, Index, Put, Write, item_bytes
from stratalog.store import open_store

__all__ = ["MEASURES"]

SEED = 7
ITEM_BYTES = 50_000
DIFFERENT_KEYS = 10


def open_million(work: Workplace) -> Measured:
    folder = work.million

    def open_it() -> None:
        with open_store(folder) as store:
            store.document(ORGANISATION, DOCUMENT).state()

    return Measured(median_ms(work.scale.rounds, open_it))


def lookup_million(work: Workplace) -> Measured:
    chance = random.Random(SEED)
    with open_store(work.million) as store:
        documents = iter([_opened(reopened(store)) for _ in range(work.scale.rounds)])
        return Measured(median_ms(work.scale.rounds, lambda: next(documents).at(1).get(_some_key(work, chance))))


def commit_million(work: Workplace) -> Measured:
    chance = random.Random(SEED)
    with open_store(work.million) as store:
        document = reopened(store)
        document.mutate("put", {"key": _some_key(work, chance), "value": fact(-1)})
        return Measured(document.chunks.reads)


def diff_million(work: Workplace) -> Measured:
    chance = random.Random(SEED)
    with open_store(work.million) as store:
        document = reopened(store)
        before = document.version
        changes = [{"key": _some_key(work, chance), "value": fact(-number)} for number in range(DIFFERENT_KEYS)]
        document.apply([Mutation(client="bench", name="put", args=args) for args in changes])
        after = document.snapshot()
        return Measured(median_ms(work.scale.rounds, lambda: list(reopened(store).diff(before, after))))


def edit(work: Workplace) -> Measured:
    chance = random.Random(SEED)
    folder = work.fresh()
    with open_store(folder) as store:
        document = store.create(ORGANISATION, DOCUMENT)
        for number in range(work.scale.items):
            document.mutate("put", {"key": item_key(number), "value": large_item(chance, ITEM_BYTES)})
        edited = large_item(chance, ITEM_BYTES)
        files = {path for path in folder.rglob("*") if path.is_file()}
        store.environment.index = counting = _Counting(store.environment.index)
        document.mutate("put", {"key": item_key(work.scale.items // 2), "value": edited})
        blobs = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path not in files)
    return Measured(counting.bytes_written + blobs, 1.1 * len(compress(encode(edited))) + 2048)


MEASURES: dict[str, Callable[[Workplace], Measured]] = {
    "open-million": open_million,
    "lookup-million": lookup_million,
    "commit-million": commit_million,
    "diff-million": diff_million,
    "edit": edit,
}


class _Counting:
    """An index that counts the bytes put into it."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.joint_commits = index.joint_commits
        self.blob_bytes_max = index.blob_bytes_max
        self.bytes_written = 0
        self.get, self.query, self.turn, self.close = index.get, index.query, index.turn, index.close

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        self._index.commit(writes, blobs)
        self.bytes_written += sum(len(compress(body)) for body in blobs.values())
        self.bytes_written += sum(item_bytes(write.item) for write in writes if isinstance(write, Put))


def _some_key(work: Workplace, chance: random.Random) -> str:
    return item_key(chance.randrange(work.scale.keys))


def _opened(document: Document) -> Document:
    document.state()
    return document
