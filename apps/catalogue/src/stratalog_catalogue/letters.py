"""Lists of dead letters that continue after a damaged letter. `dead-letters` and `redrive` name the damaged letters."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from stratalog import Corrupt, DeadLetter, Records

__all__ = ["ignore_damage", "letters_with"]


def ignore_damage(error: Corrupt) -> None:
    """Leave out a damaged letter. It must not stop a poll or a scan, which cannot repair it."""


def letters_with(records: Records, prefix: str) -> Iterator[DeadLetter]:
    """Yield the dead letters whose ids begin with the prefix, except damaged letters."""
    letters = records.dead_letters(prefix, damaged=ignore_damage)
    return takewhile(lambda letter: letter.id.startswith(prefix), letters)
