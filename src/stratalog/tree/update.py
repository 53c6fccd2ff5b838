"""Tree writes: a batch of changes to a tree, or a whole tree from a sorted stream."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from stratalog.errors import Invalid
from stratalog.tree.chunks import Chunks
from stratalog.tree.nodes import (
    CHUNK_ROWS_MAX,
    EMPTY,
    Chunk,
    Inner,
    Node,
    Root,
    Row,
    Slot,
    check_slots,
    chunk_of,
    ending,
    ends_chunk,
    root_of,
    row_of,
    rows_of,
    seal,
)
from stratalog.tree.prefetch import KEYS_TOGETHER, prefetch

__all__ = ["Write", "build", "no_pause", "update"]

Edits: TypeAlias = dict[str, Row | None]
"""Keys of one level, in order, each with its new row, or None if the row is removed."""

Write: TypeAlias = Callable[[Collection[Chunk]], None]
"""Takes the new chunks, to store them, to keep them for a commit, or to drop them if only the root is wanted."""


def build(chunks: Chunks, items: Iterable[tuple[str, Slot]]) -> Root:
    """Return the tree of ``items``, which must be in strictly ascending order of key.

    At most two chunks of each level are in memory. Raises Invalid for items out of order, and LimitExceeded.
    """
    tower = _Tower(0, chunks.write)
    last = None
    for key, slot in items:
        if last is not None and key <= last:
            raise Invalid("the items of a tree must be in ascending order", key=key, last=last)
        tower.add(0, row_of(key, slot))
        last = key
    chunk = tower.finish()
    if chunk is None:
        return EMPTY
    root = root_of(chunk)
    if root.inline is None:
        chunks.write(chunk)
    return root


def no_pause() -> None:
    """Continue at once."""


def update(
    chunks: Chunks,
    root: Root,
    patch: Mapping[str, Slot | None],
    write: Write | None = None,
    pause: Callable[[], None] = no_pause,
) -> Root:
    """Return the tree ``root`` with ``patch`` applied: a slot replaces or adds a key, and None removes the key.

    Reads and writes only the chunks on the path to a changed key. If the end of a chunk moves, the function also reads
    and writes the next chunks, up to the next unchanged end. For a patch without effect the function returns ``root``
    and writes nothing. ``write`` gets all new chunks, except an inline topmost chunk. None means `Chunks.write_all`,
    which stores the chunks durably before the function returns.
    The function calls ``pause`` after each rewritten chunk, so that a background thread can let other threads run.

    Raises Invalid and LimitExceeded before anything is written.
    """
    edits = _edits(patch)
    top = chunks.top(root)
    fresh: dict[bytes, Chunk] = {}
    made: list[Chunk] = []
    for level in range(top.level + 1):
        gone, made = _rewrite(_Cursor(chunks, root, level), level, edits, pause)
        edits, changed = _compare(gone, made)
        if not edits:
            return root
        fresh |= {chunk.address: chunk for chunk in changed}
    return _crown(chunks, top.level, made, fresh, write or chunks.write_all)


def _edits(patch: Mapping[str, Slot | None]) -> Edits:
    keys = sorted(patch)
    check_slots(patch)
    return {key: None if (slot := patch[key]) is None else (key, slot.value, slot.version) for key in keys}


def _rewrite(cursor: _Cursor, level: int, edits: Edits, pause: Callable[[], None]) -> tuple[list[Node], list[Chunk]]:
    """Return the nodes of ``level`` that the edits touch, and the chunks that replace them.

    The rule for the end of a chunk does not depend on earlier chunks. So the rewrite begins at the start of a touched
    chunk, and stops as soon as a new chunk ends where an old chunk ended.
    """
    keys = list(edits)
    ahead = 0
    left = iter(edits.items())
    gone: list[Node] = []
    made: list[Chunk] = []
    done = 0
    while done < len(keys):
        if done >= ahead:
            ahead = done + KEYS_TOGETHER
            cursor.prefetch(keys[done:ahead])
        cursor.seek(keys[done])
        rows: list[Row] = []
        going = True
        while going:
            gone.append(cursor.node)
            stop = len(keys) if cursor.is_last() else bisect_right(keys, cursor.node.keys[-1], done)
            rows = _cut(level, rows, *_merge(cursor.node, dict(islice(left, stop - done))), made)
            done = stop
            pause()
            going = bool(rows) and cursor.advance()
        if rows:
            assert cursor.is_last(), "only the last chunk of a level ends without a boundary"
            made.append(seal(level, rows))
    return gone, made


def _merge(node: Node, edits: Edits) -> tuple[list[Row], list[int]]:
    """Return the node's rows with the edits applied, and the positions after which a key's hash ends a chunk.

    In an existing node only the last key can end a chunk, so only this key and the new keys are tested.
    """
    old = [row for row in rows_of(node) if row[0] not in edits]
    new = [row for row in edits.values() if row is not None]
    rows = sorted(old + new) if old else new
    return rows, sorted(bisect_left(rows, row) + 1 for row in ending(old[-1:] + new, node.level))


def _cut(level: int, rows: list[Row], more: list[Row], ends: Iterable[int], made: list[Chunk]) -> list[Row]:
    """Cut ``rows`` and ``more`` into chunks, and append the chunks to ``made``. Return the remaining rows.

    ``ends`` are the positions in ``more`` after which a chunk must end.
    """
    start, before = 0, len(rows)
    rows = rows + more
    for end in ends:
        start = _count_off(level, rows, start, before + end - 1, made)
        made.append(seal(level, rows[start : before + end]))
        start = before + end
    return rows[_count_off(level, rows, start, len(rows), made) :]


def _count_off(level: int, rows: list[Row], start: int, stop: int, made: list[Chunk]) -> int:
    """Append the full chunks of ``rows[start:stop]`` to ``made``; return the position where the next chunk begins."""
    while stop - start >= CHUNK_ROWS_MAX:
        made.append(seal(level, rows[start : start + CHUNK_ROWS_MAX]))
        start += CHUNK_ROWS_MAX
    return start


def _compare(gone: Iterable[Node], made: Iterable[Chunk]) -> tuple[Edits, list[Chunk]]:
    """Return the edits of the level above, and the chunks that did not exist before."""
    before = {node.keys[-1]: node for node in gone if node.keys}
    edits: Edits = dict.fromkeys(before)
    changed = []
    for chunk in made:
        key = chunk.node.keys[-1]
        if before.get(key) == chunk.node:
            del edits[key]
        else:
            edits[key] = chunk.row
            changed.append(chunk)
    return dict(sorted(edits.items())), changed


def _crown(chunks: Chunks, level: int, made: Iterable[Chunk], fresh: dict[bytes, Chunk], write: Write) -> Root:
    """Return the root above ``made``, the chunks of ``level``. Store the ``fresh`` chunks that belong to the tree."""
    tower = _Tower(level, lambda chunk: fresh.update({chunk.address: chunk}))
    for chunk in made:
        tower.push(level, chunk)
    top = tower.finish()
    if top is None:
        return EMPTY
    fresh[top.address] = top
    root = root_of(_collapse(chunks, top, fresh))
    if root.inline is not None:
        fresh.pop(root.address, None)
    write(fresh.values())
    return root


def _collapse(chunks: Chunks, top: Chunk, fresh: dict[bytes, Chunk]) -> Chunk:
    """Return the first chunk from ``top`` down that is a leaf or has more than one row.

    This is the topmost chunk of the smallest tree. `build` returns a tree with the same topmost chunk for the same
    content.
    """
    while isinstance(top.node, Inner) and len(top.node.keys) == 1:
        del fresh[top.address]
        address = top.node.addresses[0]
        if address not in fresh:
            return _collapse_old(chunks, chunks.child(top.node, 0))
        top = fresh[address]
    return top


def _collapse_old(chunks: Chunks, node: Node) -> Chunk:
    while isinstance(node, Inner) and len(node.keys) == 1:
        node = chunks.child(node, 0)
    return chunk_of(node)


class _Tower:
    """Builds a tree. Each level has one unfinished chunk. A finished chunk adds a row to the level above.

    The first chunk of a level is not written until a second chunk follows. A chunk that is alone on its level is the
    topmost chunk of the tree.
    """

    def __init__(self, level: int, write: Callable[[Chunk], None]) -> None:
        self._level = level
        self._write = write
        self._rows: dict[int, list[Row]] = {}
        self._held: dict[int, Chunk | None] = {}

    def add(self, level: int, row: Row) -> None:
        rows = self._rows.setdefault(level, [])
        rows.append(row)
        if ends_chunk(row[0], level, len(rows)):
            self._rows[level] = []
            self.push(level, seal(level, rows))

    def push(self, level: int, chunk: Chunk) -> None:
        """Add a finished chunk of ``level``. Hold the first chunk until the second; write each later chunk at once.

        Each written chunk adds a row to the level above.
        """
        if level not in self._held:
            self._held[level] = chunk
            return
        held, self._held[level] = self._held[level], None
        for part in (held, chunk):
            if part is not None:
                self._write(part)
                self.add(level + 1, part.row)

    def finish(self) -> Chunk | None:
        """Finish every open chunk. Return the topmost chunk, which is not written yet; None for an empty tree."""
        level = self._level
        while level in self._rows or level in self._held:
            if rows := self._rows.pop(level, None):
                self.push(level, seal(level, rows))
            if held := self._held.get(level):
                return held
            level += 1
        return None


class _Cursor:
    """A position among the nodes of one level, which only moves forward."""

    def __init__(self, chunks: Chunks, root: Root, level: int) -> None:
        self._chunks = chunks
        self._root = root
        self._level = level
        self._path: list[tuple[Inner, int]] = []
        self._top = chunks.top(root)
        self.node = self._top

    def prefetch(self, keys: Sequence[str]) -> None:
        """Load the leaves that contain ``keys``, and the chunks above them.

        A cursor of a higher level loads nothing, since the cursor of the leaves has loaded the higher levels.
        """
        if self._level == 0:
            prefetch(self._chunks, [(self._root, keys)])

    def seek(self, key: str) -> None:
        """Move to the only node that can contain ``key``; for a key above all keys, move to the last node."""
        while self._path and self._path[-1][0].keys[-1] < key:
            self._path.pop()
        node: Node = self._path.pop()[0] if self._path else self._top
        self._descend(node, key)

    def advance(self) -> bool:
        """Move to the next node. At the last node return False and do not move."""
        if self.is_last():
            return False
        node, position = self._path.pop()
        while position + 1 == len(node.keys):
            node, position = self._path.pop()
        self._path.append((node, position + 1))
        self._descend(self._chunks.child(node, position + 1), "")
        return True

    def is_last(self) -> bool:
        return all(position + 1 == len(node.keys) for node, position in self._path)

    def _descend(self, node: Node, key: str) -> None:
        while isinstance(node, Inner) and node.level > self._level:
            position = min(bisect_left(node.keys, key), len(node.keys) - 1)
            self._path.append((node, position))
            node = self._chunks.child(node, position)
        self.node = node
