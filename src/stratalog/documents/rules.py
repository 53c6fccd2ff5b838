"""Rules: an application's settings for its documents."""

from __future__ import annotations

from stratalog.arguments import CheckedStruct
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Mutators

__all__ = ["Rules"]


class Rules(CheckedStruct, frozen=True):
    """The settings of an application: its mutators, and the item fields that are kept inline as metadata."""

    mutators: Mutators = BUILT_IN_MUTATORS
    metadata_fields: tuple[str, ...] = ("id", "name")
