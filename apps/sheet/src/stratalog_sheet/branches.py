"""Branches: the check for readers whose history the log has lost, for example after a restore from an older backup."""

from __future__ import annotations

import msgspec

from stratalog import Log
from stratalog.errors import VersionConflict

__all__ = ["ANYWHERE", "Standing", "VersionLost", "check_standing"]


class VersionLost(VersionConflict):
    """The log lost the reader's version, or has another entry at that version. The reader must load the sheet again."""

    code = "version-lost"


class Standing(msgspec.Struct, frozen=True):
    """A reader's version. ``hash`` is the hash of its entry in hexadecimal; empty if the reader states no hash."""

    version: int = 0
    hash: str = ""


ANYWHERE = Standing()
"""The version of a reader that states no version. `check_standing` accepts this version for every log."""


def check_standing(log: Log, head: int, reader: Standing) -> None:
    """Raise VersionLost if the log no longer has the history that the reader has seen.

    ``head`` is the log's newest version. Raises VersionForgotten if the reader states a hash of a version below the
    floor.
    """
    if reader.version > head or (reader.hash and log.hash_at(reader.version).hex() != reader.hash):
        raise VersionLost("the sheet was restored to an older state; load it again", version=reader.version, head=head)
