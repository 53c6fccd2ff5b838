"""Prefetch: the chunks that several lookups will read, loaded into the cache level by level.

A lookup of a key reads one chunk for each level, one after the other. In a hosted store each read is a round trip. A
prefetch of many keys loads their chunks of one level together, up to `BlobSource.gets_max` at the same time. So the
keys share the round trips of each level. A prefetch only fills the cache: without it a lookup gets the same answer and
raises the same errors.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from stratalog.errors import StratalogError
from stratalog.tree.chunks import Chunks
from stratalog.tree.nodes import Inner, Node, Root

__all__ = ["KEYS_TOGETHER", "prefetch"]

# The leaves of this many keys usually fill less than a third of the cache, so a prefetch drops no chunk that it loaded.
KEYS_TOGETHER = 256


def prefetch(chunks: Chunks, wanted: Iterable[tuple[Root, Collection[str]]]) -> None:
    """Load the chunks on the paths to keys of several trees. ``wanted`` has each tree with its keys.

    Does nothing if ``chunks`` loads one chunk at a time, as from the disk of this machine.
    """
    if not chunks.loads_together:
        return
    nodes: dict[bytes, Node] = {}
    paths: dict[bytes, list[str]] = {}
    for root, keys in wanted:
        if root.count and keys:
            paths.setdefault(root.address, []).extend(keys)
            if root.inline is not None:
                with suppress(StratalogError):
                    nodes[root.address] = chunks.top(root)
    while paths:
        nodes |= chunks.load_together(paths.keys() - nodes.keys())
        paths, nodes = _below(nodes, paths), {}


def _below(nodes: Mapping[bytes, Node], paths: Mapping[bytes, list[str]]) -> dict[bytes, list[str]]:
    """Return the addresses of the children of ``nodes`` on the paths, each with the keys that it may contain."""
    below: dict[bytes, list[str]] = {}
    for address, keys in paths.items():
        node = nodes.get(address)
        if isinstance(node, Inner):
            for key in keys:
                position = bisect_left(node.keys, key)
                if position < len(node.keys):
                    below.setdefault(node.addresses[position], []).append(key)
    return below
