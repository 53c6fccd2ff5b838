"""Branches: a reader may come from a history that the log no longer has, as after a restore from an older backup."""

from __future__ import annotations

import msgspec

from stratalog import Log
from stratalog.errors import VersionConflict

__all__ = ["ANYWHERE", "Standing", "VersionLost", "check_standing"]


class VersionLost(VersionConflict):
    """The history does not have the version that the reader stands at, or has another. Load again."""

    code = "version-lost"


class Standing(msgspec.Struct, frozen=True):
    """Where a reader stands. ``hash`` is its entry's, in hexadecimal; empty where it is not known."""

    version: int = 0
    hash: str = ""


ANYWHERE = Standing()
"""Where a reader stands who does not say so."""


def check_standing(log: Log, head: int, reader: Standing) -> None:
    """Raise VersionLost where the log, whose newest version is ``head``, is not the one that the reader has seen.

    Raises VersionForgotten for a version with a hash below the floor. One read at most.
    """
    if reader.version > head or (reader.hash and log.hash_at(reader.version).hex() != reader.hash):
        raise VersionLost("the sheet went back to an older state; load it again", version=reader.version, head=head)
