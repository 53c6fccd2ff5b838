"""Descriptors: how many files and sockets the process may have open, and how many of them are for connections."""

from __future__ import annotations

import resource
from contextlib import suppress

from stratalog.limits import DESCRIPTORS_RESERVED

__all__ = ["connections_within", "raise_descriptor_limit"]


def raise_descriptor_limit() -> int:
    """Raise the process's soft limit of descriptors to its hard one; the soft limit after that.

    Where the system refuses, as macOS does for a hard limit of infinity, the soft limit stays.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def connections_within(descriptors: int, wanted: int) -> int:
    """How many of the ``wanted`` connections fit into so many descriptors, beside the files of the store.

    A process with very few descriptors gives a quarter of them to connections.
    """
    if descriptors == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(descriptors - DESCRIPTORS_RESERVED, descriptors // 4))
