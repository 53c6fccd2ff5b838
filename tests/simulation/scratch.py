"""Folders for the worlds that work on real files: in memory, if the machine has a file system in memory."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable

__all__ = ["scratch_folder"]

IN_MEMORY = "/dev/shm"


def scratch_folder(world: object, name: str) -> tuple[str, Callable[[], object]]:
    """Return a new empty folder, and a function that removes the folder.

    Python also removes the folder when it frees ``world``. The simulation decides which data survive a crash. Files on
    the machine's own disk would only make the tests slower.
    """
    parent = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    folder = tempfile.mkdtemp(prefix=f"stratalog-{name}-", dir=parent)
    return folder, weakref.finalize(world, shutil.rmtree, folder, ignore_errors=True)
