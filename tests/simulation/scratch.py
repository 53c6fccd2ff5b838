"""Folders for the worlds that work on real files: in memory, if the machine has a folder there."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable

__all__ = ["scratch_folder"]

IN_MEMORY = "/dev/shm"


def scratch_folder(world: object, name: str) -> tuple[str, Callable[[], object]]:
    """Return a new empty folder and a function that removes it. The end of ``world`` removes it too.

    The simulated disk decides the state after a crash. Files on the machine's own disk would test no more, only slower.
    """
    parent = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    folder = tempfile.mkdtemp(prefix=f"stratalog-{name}-", dir=parent)
    return folder, weakref.finalize(world, shutil.rmtree, folder, ignore_errors=True)
