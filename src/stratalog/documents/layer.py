"""Layer: a tree and the changes of later versions. Immutable and shared between threads."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping

from stratalog.documents.fold import GONE
from stratalog.protocol.keys import collection_of
from stratalog.tree.chunks import Chunks
from stratalog.tree.lookup import count, leaf_of, scan
from stratalog.tree.nodes import Leaf, Root, Slot

__all__ = ["UNKNOWN", "Layer"]

UNKNOWN = Slot(GONE, 0)
RUN_MIN = 64
RUN_GROWTH = 8
KNOWN_MAX = 1024
NEAR_MAX = 32


class Layer:
    """One tree and later changes. Adding changes makes another layer and leaves this layer unchanged.

    The changes are stored in runs, the newest run first. Each run has the changes of consecutive versions. A run is at
    least `RUN_GROWTH` times as large as the next newer run. So there are few runs, and each run copies a change only a
    bounded number of times. On average a commit costs about the same after a million changes as after a hundred. So a
    late snapshot hardly delays commits.
    """

    __slots__ = ("_known", "_near", "_root", "_runs")

    def __init__(
        self,
        root: Root,
        runs: tuple[_Run, ...] = (),
        known: dict[str, Slot | None] | None = None,
        near: _Near | None = None,
    ) -> None:
        self._root = root
        self._runs = runs
        self._known = {} if known is None else known
        self._near = near or _Near()

    def changed(self, changes: Mapping[str, Slot]) -> Layer:
        """Return the layer after ``changes``. The caller must not modify ``changes`` afterwards."""
        if not changes:
            return self
        return Layer(self._root, _with_run(self._runs, changes), self._known, self._near)

    def over(self, root: Root, after: int) -> Layer:
        """Return a layer of another tree, with only the changes by versions above ``after``."""
        return Layer(root).changed(self.changes(after))

    def changes(self, after: int = 0) -> dict[str, Slot]:
        """Return the changes by versions above ``after``. A deleted key has the value `GONE`."""
        changes: dict[str, Slot] = {}
        for run in reversed(self._runs):
            changes.update(run.slots)
        return {key: slot for key, slot in changes.items() if slot.version > after} if after else changes

    def get(self, chunks: Chunks, key: str) -> Slot | None:
        """Return the slot of ``key``; None if it is absent."""
        for run in self._runs:
            if (slot := run.slots.get(key)) is not None:
                return slot if slot.value else None
        return self._in_tree(chunks, key) if self._root.count else None

    def scan(self, chunks: Chunks, prefix: str, after: str | None = None) -> Iterator[tuple[str, Slot]]:
        """Yield keys that start with ``prefix`` and come after ``after``, in order, with their slots."""
        rows = [run.rows(age, prefix, after) for age, run in enumerate(self._runs)]
        below = ((key, len(rows), slot) for key, slot in scan(chunks, self._root, prefix=prefix, after=after))
        last = None
        for key, _, slot in heapq.merge(*rows, below):
            # Of rows with one key, the row of the newest run comes first. Only this row counts; it may be a deletion.
            if key != last and slot.value:
                yield key, slot
            last = key

    def count(self, chunks: Chunks, prefix: str = "") -> int:
        """Return how many keys start with ``prefix``. Reads two nodes per tree level, and looks up each change."""
        total = count(chunks, self._root, prefix=prefix) if self._root.count else 0
        for key, slot in self.changes().items():
            if key.startswith(prefix):
                stood = bool(self._root.count) and self._in_tree(chunks, key) is not None
                total += bool(slot.value) - stood
        return total

    def unread(self, keys: Iterable[str]) -> tuple[Root, list[str]]:
        """Return the tree, and those of ``keys`` whose lookup will read the tree."""
        known = (*(run.slots for run in self._runs), self._known)
        return self._root, [key for key in keys if not any(key in slots for slots in known)]

    def _in_tree(self, chunks: Chunks, key: str) -> Slot | None:
        """Return the tree's slot of ``key``. All layers of the tree remember it, since reads often repeat a key."""
        known = self._known.get(key, UNKNOWN)
        if known is not UNKNOWN:
            return known
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        slot = self._known[key] = self._near.get(chunks, self._root, key)
        return slot


class _Run:
    """Changes of consecutive versions. Its keys are sorted at the first scan, for all layers that share it."""

    __slots__ = ("_keys", "slots")

    def __init__(self, slots: Mapping[str, Slot]) -> None:
        self.slots = slots
        self._keys: list[str] | None = None

    def rows(self, age: int, prefix: str, after: str | None) -> Iterator[tuple[str, int, Slot]]:
        """Yield the changes of keys that start with ``prefix`` and come after ``after``, in order, with ``age``."""
        if self._keys is None:
            self._keys = sorted(self.slots)
        start = bisect_left(self._keys, prefix)
        if after is not None:
            start = max(start, bisect_right(self._keys, after))
        for position in range(start, len(self._keys)):
            key = self._keys[position]
            if not key.startswith(prefix):
                return
            yield key, age, self.slots[key]


def _with_run(runs: tuple[_Run, ...], changes: Mapping[str, Slot]) -> tuple[_Run, ...]:
    """Return the runs with ``changes`` as the newest run. It absorbs each next run that is small or not much larger."""
    absorbed = 0
    for run in runs:
        if len(run.slots) >= RUN_MIN and len(run.slots) >= RUN_GROWTH * len(changes):
            break
        changes = {**run.slots, **changes}
        absorbed += 1
    return (_Run(changes), *runs[absorbed:])


class _Near:
    """The leaf last read in each collection, since keys are often read in their order."""

    __slots__ = ("_leaves",)

    def __init__(self) -> None:
        self._leaves: dict[str, tuple[str, Leaf]] = {}

    def get(self, chunks: Chunks, root: Root, key: str) -> Slot | None:
        """Return the tree's slot of ``key``."""
        collection = collection_of(key)
        near = self._leaves.get(collection)
        if near is not None and near[0] < key <= near[1].keys[-1]:
            return near[1].slot(key)
        near = leaf_of(chunks, root, key)
        if near is None:
            return None
        if len(self._leaves) >= NEAR_MAX:
            self._leaves.clear()
        if near[1].keys:
            self._leaves[collection] = near
        return near[1].slot(key)
