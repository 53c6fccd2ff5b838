"""Descriptors: the process's limit of open files and sockets, and the share of this limit that connections may use."""

from __future__ import annotations

import resource
from contextlib import suppress

from stratalog.limits import DESCRIPTORS_RESERVED

__all__ = ["connections_within", "raise_descriptor_limit"]


def raise_descriptor_limit() -> int:
    """Raise the process's soft limit of descriptors to its hard limit, and return the new soft limit.

    If the system refuses, as macOS does for an infinite hard limit, the soft limit stays as it is.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def connections_within(descriptors: int, wanted: int) -> int:
    """Return how many of the ``wanted`` connections fit into ``descriptors``.

    `DESCRIPTORS_RESERVED` descriptors are reserved for the store's files, for engines and for other services. A process
    with very few descriptors still uses a quarter of its descriptors for connections.
    """
    if descriptors == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(descriptors - DESCRIPTORS_RESERVED, descriptors // 4))
