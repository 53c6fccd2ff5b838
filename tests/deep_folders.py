"""A path below many missing folders."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["below_missing_folders"]

LEVELS = 1100


@contextmanager
def below_missing_folders(folder: Path) -> Iterator[Path]:
    """Yield a path below more missing folders than Python's limit of recursion, and remove the folders afterwards.

    Neither pytest nor `shutil.rmtree` could remove them, since both call themselves for each folder.
    """
    top = str(folder)
    yield folder.joinpath(*["d"] * LEVELS, "below")
    path = os.path.join(top, *["d"] * LEVELS)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    if path != top:
        shutil.rmtree(path)
        os.removedirs(os.path.dirname(path))
    folder.mkdir(exist_ok=True)
