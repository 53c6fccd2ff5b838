"""The errors of Stratalog: few kinds, each named by what the caller does next.

::

    StratalogError
    ├── Conflict            somebody else was first: read again, then decide
    │   ├── ConditionFailed     an index condition did not hold; carries the items behind it
    │   ├── HistoryChanged      the store holds another history than the handle has seen: open it again
    │   ├── VersionConflict     the log is not at the version the caller expected
    │   ├── KeyReused           the write id stands for something else: take a new one
    │   ├── MergeConflict       a fork's mutations do not come out on the target as they must: replay says which
    │   └── ContentionError     the time budget for trying again is used up; nothing was written
    ├── NotFound            there is no such thing
    │   ├── VersionForgotten    there was, but retention has raised the floor above it
    │   ├── Redacted            the version stands, but its body was erased on purpose
    │   └── Collected           the group's clients were forgotten: begin as a new group
    ├── Forbidden           who asks may not; asking as somebody else might help
    ├── Invalid             the input breaks a rule; trying again will not help
    │   ├── RedactionRefused    something still needs the version; the message says what to do
    │   ├── ReservedName        only the store itself may use the name
    │   └── Unsupported         written by a newer Stratalog: upgrade this one
    ├── LimitExceeded       the input is larger than a named limit
    ├── QuotaExceeded       the organisation stores as much as it may: delete something, or ask for more
    ├── Unavailable         nothing was written; try again later
    │   ├── QueueFull           too many messages wait; nothing was queued
    │   └── StorageFull         nothing was written; there is no room for it
    ├── OutcomeUnknown      it may or may not have been written: read back before trying again
    ├── Corrupt             stored bytes are not what was written
    └── Closed              the store was closed

A message is in lower case and ends in ``key=value`` details, which are also in ``details``. ``code`` is the kind's
name on the wire; codes are only ever added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

__all__ = [
    "BY_CODE",
    "Closed",
    "Collected",
    "ConditionFailed",
    "Conflict",
    "ContentionError",
    "Corrupt",
    "Forbidden",
    "HistoryChanged",
    "Invalid",
    "KeyReused",
    "LimitExceeded",
    "MergeConflict",
    "NotFound",
    "OutcomeUnknown",
    "QueueFull",
    "QuotaExceeded",
    "Redacted",
    "RedactionRefused",
    "ReservedName",
    "StorageFull",
    "StratalogError",
    "Unavailable",
    "Unsupported",
    "VersionConflict",
    "VersionForgotten",
]


class StratalogError(Exception):
    """The root of every error this package raises on purpose."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, **details: Any) -> None:
        self.message = message
        self.details = details
        super().__init__(" ".join([message, *(f"{name}={_short(value)}" for name, value in details.items())]))

    def copy(self) -> StratalogError:
        """The same error for another thread: an exception that two threads raise would mix their tracebacks."""
        copied = type(self).__new__(type(self), *self.args)
        copied.__dict__.update(self.__dict__)
        copied.__cause__, copied.__context__ = self.__cause__, self.__context__
        return copied


class Conflict(StratalogError):
    """Somebody else was first. Nothing was written."""

    code = "conflict"


class ConditionFailed(Conflict):
    """A condition of an index commit did not hold, so none of its writes took place.

    ``items`` maps the position of each write whose condition failed to the item that stands there, or to None.
    """

    code = "condition-failed"

    def __init__(self, items: Mapping[int, Any]) -> None:
        super().__init__("a condition of the commit does not hold", writes=sorted(items))
        self.items = items


class HistoryChanged(Conflict):
    """The store was put back, or taken over by a copy, beneath an open handle. Nothing was written; open it again."""

    code = "history-changed"


class VersionConflict(Conflict):
    """The log is not at the version the caller expected. Certain: it was read from a fresh head."""

    code = "version-conflict"


class KeyReused(Conflict):
    """The write id was used before, for something else or by another principal. This call wrote nothing.

    ``log`` or ``record``, ``version`` and ``write_id`` in the details name what it stands for. A new write id helps.
    """

    code = "key-reused"


class MergeConflict(Conflict):
    """A merge would drop or reject what stands in the fork, or the fork is not the one that was merged before.

    Nothing was written, or, in a merge of many batches, nothing after the batches that were. Certain: it was judged on
    a fresh state.
    """

    code = "merge-conflict"


class ContentionError(Conflict):
    """Others kept being first until the time budget was used up. Nothing was written."""

    code = "contention"


class NotFound(StratalogError):
    """There is no such thing. Certain: it was read from a fresh head."""

    code = "not-found"


class VersionForgotten(NotFound):
    """The version existed, but retention has raised the floor above it."""

    code = "version-forgotten"


class Redacted(NotFound):
    """The version stands and its hash is verified, but its body was erased on purpose. Nobody can bring it back."""

    code = "redacted"


class Collected(NotFound):
    """The group's clients were collected. Certain: it was read from a fresh head. They begin again as another group."""

    code = "collected"


class Forbidden(StratalogError):
    """Who asks may not. Nothing was written, and nothing is told."""

    code = "forbidden"


class Invalid(StratalogError):
    """The input breaks a rule, named in the message. Nothing was written."""

    code = "invalid"


class RedactionRefused(Invalid):
    """Something still needs the version, and the message says what to do first. Nothing was written."""

    code = "redaction-refused"


class ReservedName(Invalid):
    """Only the store itself may use the name. Nothing was written."""

    code = "reserved-name"


class Unsupported(Invalid):
    """The stored format is newer than this program knows. Nothing was read or written."""

    code = "unsupported"


class LimitExceeded(StratalogError):
    """The input is larger than a named limit; ``limit`` and ``value`` are in the details. Nothing was written."""

    code = "limit-exceeded"


class QuotaExceeded(StratalogError):
    """The organisation would store more than its quota; reads and deletes go on. Nothing was written.

    ``quota``, ``limit``, ``value`` (what it would come to) and ``scope`` are in the details. What is deleted gives room
    once the organisation is measured again.
    """

    code = "quota-exceeded"


class Unavailable(StratalogError):
    """The backend could not take the request. Nothing was written; try again later."""

    code = "unavailable"


class QueueFull(Unavailable):
    """Too many messages of one group wait in the queue. Nothing was queued; try again after ``seconds``."""

    code = "queue-full"


class StorageFull(Unavailable):
    """There is no room left on the device. Nothing was written."""

    code = "storage-full"


class OutcomeUnknown(StratalogError):
    """The answer to a write was lost. It may have been written: read back by write id before trying again."""

    code = "outcome-unknown"


class Corrupt(StratalogError):
    """Stored bytes are not what was written: a hash differs, an entry is missing, a file is cut short."""

    code = "corrupt"


class Closed(StratalogError):
    """The store was closed before the call."""

    code = "closed"


BY_CODE: Mapping[str, type[StratalogError]] = {
    kind.code: kind
    for kind in (
        Collected,
        Conflict,
        ContentionError,
        Corrupt,
        Forbidden,
        HistoryChanged,
        Invalid,
        KeyReused,
        LimitExceeded,
        MergeConflict,
        NotFound,
        OutcomeUnknown,
        QueueFull,
        QuotaExceeded,
        Redacted,
        RedactionRefused,
        ReservedName,
        StorageFull,
        Unavailable,
        Unsupported,
        VersionConflict,
        VersionForgotten,
    )
}
"""The kinds that a server tells its clients of, by their names on the wire."""


def _short(value: object) -> str:
    """``value`` on one line, at most about 80 characters long."""
    text = repr(value) if isinstance(value, str | bytes) else str(value)
    return text if len(text) <= 80 else f"{text[:60]}…({len(text)} characters)"
