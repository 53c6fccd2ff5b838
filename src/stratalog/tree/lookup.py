"""Tree reads: one key, a range of keys, or the number of keys with a prefix."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from stratalog.tree.chunks import Chunks
from stratalog.tree.nodes import Leaf, Node, Root, Slot

__all__ = ["count", "get", "leaf_of", "scan"]


def get(chunks: Chunks, root: Root, key: str) -> Slot | None:
    """Return the slot of ``key``, or None. Reads one node per level."""
    leaf = leaf_of(chunks, root, key)
    return leaf[1].slot(key) if leaf else None


def leaf_of(chunks: Chunks, root: Root, key: str) -> tuple[str, Leaf] | None:
    """Return the only leaf that can contain ``key``, and a key below all of the leaf's keys.

    Return None if ``key`` is above every key of the tree.
    """
    node, before = chunks.top(root), ""
    while not isinstance(node, Leaf):
        position = bisect_left(node.keys, key)
        if position == len(node.keys):
            return None
        before = node.keys[position - 1] if position else before
        node = chunks.child(node, position)
    return before, node


def scan(
    chunks: Chunks,
    root: Root,
    *,
    prefix: str = "",
    after: str | None = None,
    before: str | None = None,
    reverse: bool = False,
) -> Iterator[tuple[str, Slot]]:
    """Yield the keys that start with ``prefix`` and are strictly between ``after`` and ``before``, with their slots.

    Keys ascend, or descend with ``reverse``. A leaf is read only when the iteration reaches it. Every leaf that is read
    has a key of the range, except perhaps the leaf at the upper end of the range.
    """
    span = _Span(prefix, after, before)
    for leaf in _leaves(chunks, chunks.top(root), span, reverse):
        for position in _walk(span.start(leaf.keys), span.stop(leaf.keys), reverse):
            yield leaf.keys[position], Slot(leaf.values[position], leaf.versions[position])


def count(chunks: Chunks, root: Root, *, prefix: str = "") -> int:
    """Return how many keys start with ``prefix``. Reads at most two nodes per level."""
    end = _end_of(prefix)
    stop = root.count if end is None else _rank(chunks, root, end)
    return stop - _rank(chunks, root, prefix)


class _Span:
    """A range of keys. `start` and `stop` return its bounds as positions in a node's keys."""

    def __init__(self, prefix: str, after: str | None, before: str | None) -> None:
        self._prefix = prefix
        self._after = after
        self._before = min((end for end in (before, _end_of(prefix)) if end is not None), default=None)

    def start(self, keys: tuple[str, ...]) -> int:
        first = bisect_left(keys, self._prefix)
        return first if self._after is None else max(first, bisect_right(keys, self._after))

    def stop(self, keys: tuple[str, ...]) -> int:
        return len(keys) if self._before is None else bisect_left(keys, self._before)


def _leaves(chunks: Chunks, node: Node, span: _Span, reverse: bool) -> Iterator[Leaf]:
    if isinstance(node, Leaf):
        yield node
        return
    # `span.stop` counts the children whose last key is below the range's end. The next child may begin below that end.
    stop = min(len(node.keys), span.stop(node.keys) + 1)
    for position in _walk(span.start(node.keys), stop, reverse):
        yield from _leaves(chunks, chunks.child(node, position), span, reverse)


def _walk(start: int, stop: int, reverse: bool) -> range:
    return range(stop - 1, start - 1, -1) if reverse else range(start, stop)


def _rank(chunks: Chunks, root: Root, key: str) -> int:
    """Return how many keys are less than ``key``."""
    node = chunks.top(root)
    rank = 0
    while not isinstance(node, Leaf):
        position = bisect_left(node.keys, key)
        rank += sum(node.counts[:position])
        if position == len(node.keys):
            return rank
        node = chunks.child(node, position)
    return rank + bisect_left(node.keys, key)


def _end_of(prefix: str) -> str | None:
    """Return the smallest text above every text that starts with ``prefix``; None if no text is above.

    The text may contain a lone surrogate, which UTF-8 cannot encode, so use it only in comparisons.
    """
    stem = prefix.rstrip(chr(sys.maxunicode))
    return stem[:-1] + chr(ord(stem[-1]) + 1) if stem else None
