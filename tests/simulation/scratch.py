"""Folders for the worlds that work on real files, in memory where the machine has a folder there."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable

__all__ = ["scratch_folder"]

IN_MEMORY = "/dev/shm"


def scratch_folder(world: object, name: str) -> tuple[str, Callable[[], object]]:
    """A new empty folder and what removes it: a call, or the end of ``world``.

    The simulated disk decides what a crash leaves. So the machine's own disk shows nothing here and only costs time.
    """
    parent = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    folder = tempfile.mkdtemp(prefix=f"stratalog-{name}-", dir=parent)
    return folder, weakref.finalize(world, shutil.rmtree, folder, ignore_errors=True)
