"""What a caller asked of a record. A write id is bound to that, and to nothing that was derived from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from stratalog.ports.index import Attribute, Item
from stratalog.records.content import RecordBody
from stratalog.records.versions import TOMBSTONE

__all__ = ["Operation", "RecordRequest", "same_request"]

Operation = Literal["put", "newer", "update", "delete", "undelete"]
"""``put`` is `Records.put`, ``newer`` is `Records.put_if_newer`; `Records.put_many` does one or the other."""

# A put is the commonest and needs no attribute. A deletion is known by its tombstone.
_STORED_AS: Mapping[Operation, dict[str, Attribute]] = {
    "put": {},
    "newer": {"o": "n"},
    "update": {"o": "u"},
    "delete": {"k": TOMBSTONE},
    "undelete": {"o": "r"},
}
_ASKED_WITH_CONTENT = ("put", "newer")


class RecordRequest(msgspec.Struct, frozen=True):
    """One call as it was asked: the operation, and for a put its body, metadata and source time.

    What an update or an undeletion stores follows from the version before, so a retry may compute another body.
    """

    operation: Operation
    given: Mapping[str, Attribute] = {}
    """The attributes that keep the metadata and the source time."""

    content: RecordBody | None = None
    principal: str = ""
    """The id of whoever asks."""

    as_good: Callable[[Item], bool] | None = None
    """Whether a version's body is as good as this one, where the caller can tell."""

    def attributes(self) -> dict[str, Attribute]:
        """What tells a version's operation: at most one attribute."""
        return dict(_STORED_AS[self.operation])


def same_request(stored: Item, asked: RecordRequest) -> bool:
    """Whether ``stored`` is the version that ``asked`` asks for, of its principal.

    Neither the time nor the expected version counts.
    """
    if stored.attributes.get("p", "") != asked.principal:
        return False
    operation = {name: value for name, value in stored.attributes.items() if name in ("o", "k")}
    if operation != asked.attributes():
        return False
    return asked.operation not in _ASKED_WITH_CONTENT or _same_content(stored, asked)


def _same_content(stored: Item, asked: RecordRequest) -> bool:
    if any(stored.attributes.get(name) != asked.given.get(name) for name in ("t", "u")):
        return False
    if asked.content is not None and asked.content.digest == stored.attributes["h"]:
        return True
    return asked.as_good is not None and asked.as_good(stored)
