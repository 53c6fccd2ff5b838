"""The partition tree without I/O: trees from split points, splits, and checks. A failed check raises ValueError."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from stratalog.errors import Invalid
from stratalog_table.model import ROOT, Partition, Region, Schema
from stratalog_table.row_order import Key, check_edge, encode_key

__all__ = ["check_split", "check_subtrees", "check_tree", "extended", "from_split_points", "root_of", "split"]


def root_of(schema: Schema, id: str = ROOT) -> Partition:
    """Return the only partition of a tree that was never split."""
    return Partition(id, schema.full_region())


def from_split_points(schema: Schema, points: Sequence[Key], new_id: Callable[[], str]) -> list[Partition]:
    """Return a tree whose leaves meet at ``points`` on the first key column.

    Leaves are joined in pairs, layer by layer. An odd last partition moves up to the next layer. Raises Invalid for
    points of another type, out of order or repeated, and if the first point is the least key. Raises LimitExceeded for
    a point that is too long.
    """
    return _grown(root_of(schema), _edges(schema, points), new_id)


def extended(schema: Schema, leaf: Partition, points: Sequence[Key], new_id: Callable[[], str]) -> list[Partition]:
    """Return a leaf in its state after a split at ``points`` on the first key column, then the new partitions below it.

    Raises Invalid for points that are not inside the leaf, and the errors of `from_split_points`.
    """
    edges = _edges(schema, points)
    low, high = leaf.region[0]
    if edges and (edges[0] <= low or (high is not None and edges[-1] >= high)):
        raise Invalid("split points must lie inside the partition", partition=leaf.id)
    return _grown(leaf, edges, new_id)


def split(parent: Partition, edge: str, dimension: int, left: str, right: str) -> list[Partition]:
    """Return a leaf in its state after a split at ``edge``, then its two children."""
    low, high = parent.region[dimension]
    divided = Partition(parent.id, parent.region, parent.parent, (left, right), dimension)
    first = Partition(left, _with(parent.region, dimension, (low, edge)), parent.id)
    return [divided, first, Partition(right, _with(parent.region, dimension, (edge, high)), parent.id)]


def check_split(parent: Partition, children: Sequence[Partition]) -> None:
    """Raise ValueError unless the children, in the parent's order, fill the parent and meet on its dimension."""
    if len(parent.children) != 2 or len(children) != 2:
        raise ValueError(f"Partition {parent.id} should have exactly 2 children, found {len(parent.children)}")
    if not 0 <= parent.dimension < len(parent.region):
        raise ValueError(f"Partition {parent.id} has no dimension {parent.dimension}")
    left, right = children
    if any(len(child.region) != len(parent.region) for child in children):
        raise ValueError(f"Children of partition {parent.id} have another number of key columns")
    _check_bounds(parent, left.region, right.region)


def check_tree(partitions: Iterable[Partition]) -> None:
    """Raise ValueError unless the partitions are one complete tree."""
    known: dict[str, Partition] = {}
    for partition in partitions:
        if partition.id in known:
            raise ValueError(f"Partition {partition.id} is there twice")
        known[partition.id] = partition
    roots = [partition for partition in known.values() if partition.parent is None]
    if len(roots) != 1:
        raise ValueError(f"There should be exactly one root partition, found {len(roots)}")
    check_subtrees(roots, known)


def check_subtrees(tops: Sequence[Partition], known: Mapping[str, Partition]) -> None:
    """Raise ValueError unless the subtrees below ``tops`` are valid and contain every partition of ``known``."""
    waiting, reached = list(tops), len(tops)
    while waiting:
        parent = waiting.pop()
        if not parent.children:
            continue
        children = [_child(parent, id, known) for id in parent.children]
        check_split(parent, children)
        waiting += children
        reached += len(children)
    if reached != len(known):
        raise ValueError(f"Only {reached} of {len(known)} partitions are linked to the root")


def _child(parent: Partition, id: str, known: Mapping[str, Partition]) -> Partition:
    child = known.get(id)
    if child is None:
        raise ValueError(f"Partition {parent.id} has a child that is not there: {id}")
    if child.parent != parent.id:
        raise ValueError(f"Partition {id} has another parent than {parent.id}")
    return child


def _check_bounds(parent: Partition, left: Region, right: Region) -> None:
    dimension = parent.dimension
    for position, (outer, first, second) in enumerate(zip(parent.region, left, right, strict=True)):
        if position != dimension and not outer == first == second:
            raise ValueError(f"Children of partition {parent.id} differ from it on dimension {position}")
    low, high = parent.region[dimension]
    if (right[dimension][0], left[dimension][1]) == (low, high):
        raise ValueError(f"Children of partition {parent.id} are not listed left first")
    if left[dimension][1] is None or left[dimension][1] != right[dimension][0]:
        raise ValueError(f"Children of partition {parent.id} do not meet")
    if left[dimension][0] != low or right[dimension][1] != high:
        raise ValueError(f"Children of partition {parent.id} do not fill it")
    middle = right[dimension][0]
    if not low < middle or (high is not None and not middle < high):
        raise ValueError(f"Children of partition {parent.id} do not meet inside it")


def _grown(top: Partition, edges: Sequence[str], new_id: Callable[[], str]) -> list[Partition]:
    """Return ``top`` in its state after a split at ``edges``, then the partitions below it.

    The leaves are joined in pairs, layer by layer.
    """
    low, high = top.region[0]
    bounds = zip([low, *edges], [*edges, high], strict=True)
    layer = [Partition(new_id(), _with(top.region, 0, pair)) for pair in bounds]
    below: list[Partition] = []
    while len(layer) > 2:
        paired: list[Partition] = []
        for position in range(0, len(layer) - 1, 2):
            paired.append(_joined(new_id(), layer[position], layer[position + 1], below))
        layer = paired + layer[len(paired) * 2 :]
    if len(layer) == 1:
        return [top]
    joined = _joined(top.id, layer[0], layer[1], below)
    grown = Partition(top.id, top.region, top.parent, joined.children, 0)
    return [grown, *reversed(below)]


def _joined(id: str, left: Partition, right: Partition, below: list[Partition]) -> Partition:
    below += [Partition(child.id, child.region, id, child.children, child.dimension) for child in (right, left)]
    region = _with(left.region, 0, (left.region[0][0], right.region[0][1]))
    return Partition(id, region, None, (left.id, right.id), 0)


def _edges(schema: Schema, points: Sequence[Key]) -> list[str]:
    edges = [check_edge(encode_key(schema.keys[0].type, point)) for point in points]
    if any(lower >= upper for lower, upper in pairwise(edges)):
        raise Invalid("split points must be in order, each once")
    if edges and edges[0] == schema.full_region()[0][0]:
        raise Invalid("no row lies below the first split point")
    return edges


def _with(region: Region, dimension: int, bounds: tuple[str, str | None]) -> Region:
    return tuple(bounds if position == dimension else pair for position, pair in enumerate(region))
