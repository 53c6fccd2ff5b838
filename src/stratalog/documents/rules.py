"""Rules: an application's settings for its documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stratalog.arguments import CheckedStruct, check_class
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Mutators

__all__ = ["Rules"]


class Rules(CheckedStruct, frozen=True):
    """The settings of an application: its mutators, the item fields that are kept inline as metadata, and the versions
    that it needs.
    """

    mutators: Mutators = BUILT_IN_MUTATORS
    metadata_fields: tuple[str, ...] = ("id", "name")
    oldest_needed: Callable[[Any], int] | None = None
    """A function that returns the oldest version of a `Document` that the application still needs. It may be called for
    any document of the store. Maintenance and `Document.forget_below` forget no version from this one on."""

    def permitted_floor(self, document: Any, version: int) -> int:
        """Return the highest floor of ``document`` up to ``version`` that the application permits."""
        if self.oldest_needed is None:
            return version
        needed = self.oldest_needed(document)
        check_class(int, **{"the result of oldest_needed": needed})
        return min(version, needed)
