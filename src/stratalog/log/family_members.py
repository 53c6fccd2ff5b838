"""Family members: the item of each log in its family, with the log's depth.

A log that forks no other log has depth 0. A fork is deeper than its parent. So a reader that sorts the members by depth
reads the references of a log before those of its forks.
"""

from __future__ import annotations

from stratalog.keys import family_partition
from stratalog.ports.index import Item, Put, required

__all__ = ["depth_of", "member_put"]


def member_put(owner: str, prefix: str, depth: int) -> Put:
    """Return the write that adds the log ``prefix`` to the family ``owner``."""
    return Put(Item(family_partition(owner), prefix, {"d": depth}))


def depth_of(member: Item) -> int:
    """Return the depth of a member of a family. Raises Corrupt if the item lacks it."""
    return int(required(member, "d"))
