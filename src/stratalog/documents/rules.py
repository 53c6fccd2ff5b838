"""Rules: what an application decides about its documents."""

from __future__ import annotations

import msgspec

from stratalog.arguments import check_fields
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Mutators

__all__ = ["Rules"]


class Rules(msgspec.Struct, frozen=True):
    """The settings of an application: its mutators, and the item fields that are kept inline as metadata."""

    mutators: Mutators = BUILT_IN_MUTATORS
    metadata_fields: tuple[str, ...] = ("id", "name")

    __post_init__ = check_fields
