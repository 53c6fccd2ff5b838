"""A caller's request to change a record. A write id is bound to the request, not to the resulting body."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from stratalog.ports.index import Attribute, Item
from stratalog.records.content import RecordBody
from stratalog.records.versions import TOMBSTONE

__all__ = ["Operation", "RecordRequest", "same_request"]

Operation = Literal["put", "newer", "update", "delete", "undelete"]
"""``put`` is `Records.put`, ``newer`` is `Records.put_if_newer`; `Records.put_many` uses one of these two."""

# A put, the most common operation, has no attribute. A deletion is recognised by its tombstone.
_STORED_AS: Mapping[Operation, dict[str, Attribute]] = {
    "put": {},
    "newer": {"o": "n"},
    "update": {"o": "u"},
    "delete": {"k": TOMBSTONE},
    "undelete": {"o": "r"},
}
_ASKED_WITH_CONTENT = ("put", "newer")


class RecordRequest(msgspec.Struct, frozen=True):
    """One call as requested: the operation, and for a put its body, metadata and source time.

    An update or an undeletion derives its body from the previous version, so a retry may produce another body.
    """

    operation: Operation
    given: Mapping[str, Attribute] = {}
    """The attributes that store the metadata and the source time."""

    content: RecordBody | None = None
    principal: str = ""
    """The id of the principal that makes the request."""

    as_good: Callable[[Item], bool] | None = None
    """Returns whether the caller's comparison accepts the body of an existing version; None without a comparison."""

    def attributes(self) -> dict[str, Attribute]:
        """Return the attribute that records the operation, at most one."""
        return dict(_STORED_AS[self.operation])


def same_request(stored: Item, asked: RecordRequest) -> bool:
    """Return whether ``stored`` is a version that the same principal requested by the same request.

    The time of the version and the expected version are not compared.
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
