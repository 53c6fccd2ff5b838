"""Family members: the item of each log in its family, with the log's depth.

A log that is not a fork has depth 0. A fork is deeper than its parent. So a reader that sorts the members by depth
reads the references of a log before those of its forks.
"""

from __future__ import annotations

import msgspec

from stratalog.keys import family_partition
from stratalog.log.names import NameRecord
from stratalog.ports.index import Item, Put
from stratalog.ports.stored_attributes import Count, read_attributes

__all__ = ["StoredMember", "depth_of", "member_put", "minimal_depths"]


class StoredMember(msgspec.Struct, frozen=True, gc=False):
    """The attributes of a member of a family."""

    d: Count


def member_put(owner: str, prefix: str, depth: int) -> Put:
    """Return the write that adds the log ``prefix`` to the family ``owner``."""
    return Put(Item(family_partition(owner), prefix, {"d": depth}))


def depth_of(member: Item) -> int:
    """Return the depth of a member of a family. Raises Corrupt."""
    return read_attributes(member, StoredMember, "a member of a family").d


def minimal_depths(record: NameRecord) -> list[tuple[str, int]]:
    """Return the ancestors of a log, then the log: the prefix of each, and the least depth that its ancestors require.

    The result depends on the lineage alone, not on the stored members. No stored depth is lower. A fork that forgot its
    ancestors keeps its depth, so this fork and its own forks may be deeper than required.
    """
    prefixes = [*(parent.prefix for parent in record.lineage), record.prefix]
    return [(prefix, depth) for depth, prefix in enumerate(prefixes, 0 if prefixes[0] == record.owner else 1)]
