"""Allocator: settings of the C library that return freed memory to the system."""

from __future__ import annotations

import ctypes

__all__ = ["give_memory_back"]

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8
MAPPED_BYTES_MIN = 256 * 1024
FREE_BYTES_MAX = 1024 * 1024
ARENAS_MAX = 2


def give_memory_back() -> bool:
    """Set the C library to return large blocks to the system as soon as they are freed.

    Returns whether the library accepted all settings. By default glibc stops returning large blocks after the first
    large block is freed, and keeps up to eight heaps for each core. A heap shrinks only from its end. So a process that
    handled bodies of 16 MiB on a few threads would never return their memory.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    options = {M_MMAP_THRESHOLD: MAPPED_BYTES_MIN, M_TRIM_THRESHOLD: FREE_BYTES_MAX, M_ARENA_MAX: ARENAS_MAX}
    taken = [mallopt(name, value) == 1 for name, value in options.items()]
    return all(taken)
