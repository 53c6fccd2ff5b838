"""The differences between two trees, found without reading the chunks that they share."""

from __future__ import annotations

from collections.abc import Iterator

from stratalog.tree.chunks import Chunks
from stratalog.tree.nodes import Inner, Leaf, Node, Root, Slot

__all__ = ["diff"]


def diff(chunks: Chunks, source: Root, target: Root) -> Iterator[tuple[str, Slot | None, Slot | None]]:
    """Yield, in order, each key whose slot differs, with its slots in ``source`` and ``target``; None if absent.

    Two slots differ even if only their versions differ. The result is lazy. With rare exceptions, the function does
    not read a chunk that both trees contain, so the cost depends on the size of the change. The ends of chunks may
    differ between the trees, and so may the heights of the trees.
    """
    if source.address == target.address:
        return
    old, new = _Walk(chunks, chunks.top(source)), _Walk(chunks, chunks.top(target))
    while old.is_open() and new.is_open():
        if old.level != new.level:
            (old if old.level > new.level else new).descend()
        elif old.level == 0:
            yield from _compare_slots(old, new)
        elif old.address() == new.address():
            old.advance()
            new.advance()
        else:
            old.descend()
            new.descend()
    yield from ((key, slot, None) for key, slot in old.rest())
    yield from ((key, None, slot) for key, slot in new.rest())


def _compare_slots(old: _Walk, new: _Walk) -> Iterator[tuple[str, Slot | None, Slot | None]]:
    """Compare the current slots of both walks. Advance the walk with the lesser key; for equal keys advance both."""
    old_key, new_key = old.key(), new.key()
    if old_key < new_key:
        yield old_key, old.slot(), None
        old.advance()
    elif new_key < old_key:
        yield new_key, None, new.slot()
        new.advance()
    else:
        if (before := old.slot()) != (after := new.slot()):
            yield old_key, before, after
        old.advance()
        new.advance()


class _Walk:
    """A position in a tree, at any level: before a slot (level 0), or before a chunk that is not read yet."""

    def __init__(self, chunks: Chunks, top: Node) -> None:
        self._chunks = chunks
        self._path: list[tuple[Inner, int]] = []
        self._node = top
        self._position = 0
        self.level = top.level

    def is_open(self) -> bool:
        return self._position < len(self._node.keys)

    def key(self) -> str:
        return self._node.keys[self._position]

    def slot(self) -> Slot:
        assert isinstance(self._node, Leaf)
        return Slot(self._node.values[self._position], self._node.versions[self._position])

    def address(self) -> bytes:
        assert isinstance(self._node, Inner)
        return self._node.addresses[self._position]

    def advance(self) -> None:
        """Move past the slot or chunk. After the last row of a node, move up."""
        self._position += 1
        while self._position == len(self._node.keys) and self._path:
            self._node, position = self._path.pop()
            self._position = position + 1
        self.level = self._node.level

    def descend(self) -> None:
        """Read the chunk and move before its first row."""
        assert isinstance(self._node, Inner)
        self._path.append((self._node, self._position))
        self._node = self._chunks.child(self._node, self._position)
        self._position = 0
        self.level = self._node.level

    def rest(self) -> Iterator[tuple[str, Slot]]:
        while self.is_open():
            if self.level:
                self.descend()
            else:
                yield self.key(), self.slot()
                self.advance()
