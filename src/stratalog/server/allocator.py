"""Allocator: how the server's process gives memory back that it has used."""

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
    """Have large blocks go back to the system as soon as they are free. Answers whether the C library can do it.

    glibc stops doing so after the first large block that is freed, and has up to eight heaps for each core. A heap only
    shrinks from its end. So a process that had bodies of 16 MiB on a few threads would keep them for ever.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    options = {M_MMAP_THRESHOLD: MAPPED_BYTES_MIN, M_TRIM_THRESHOLD: FREE_BYTES_MAX, M_ARENA_MAX: ARENAS_MAX}
    taken = [mallopt(name, value) == 1 for name, value in options.items()]
    return all(taken)
