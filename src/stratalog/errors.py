"""The errors of Stratalog. Each line of the tree has the name of an error, and its meaning or the caller's next step.

::

    StratalogError
    ├── Conflict            another writer has committed first, or the name is in use: read again, then decide
    │   ├── ConditionFailed     an index condition did not hold; ``items`` has the stored items
    │   ├── HistoryChanged      the stored history is not the one that the handle or projection has seen: make a new one
    │   ├── VersionConflict     the log or record is not at the version that the caller expected
    │   ├── KeyReused           the write id belongs to another request: use a new write id
    │   ├── MergeConflict       the target would reject mutations that the fork applied; a replay lists them
    │   └── ContentionError     the time budget for retries is used up; nothing was written
    ├── NotFound            the named document, version, record or other object does not exist
    │   ├── VersionForgotten    the version existed, but retention has forgotten it
    │   ├── Redacted            the call needs the body of a version that was erased on purpose
    │   └── Collected           the store has forgotten the clients of this client group: begin as a new client group
    ├── Forbidden           the principal lacks permission; another principal may have it
    ├── Invalid             the input breaks a rule; a retry will not help
    │   ├── RedactionRefused    a fork, a state or a base still needs the version; the message names the next step
    │   ├── ReservedName        only the store itself may use the name
    │   └── Unsupported         a newer Stratalog wrote the data, or this program cannot process the data
    ├── LimitExceeded       the input is larger than a named limit
    ├── QuotaExceeded       the organisation has used up a quota: delete something, or ask for more
    ├── Unavailable         nothing was written; try again later
    │   ├── QueueFull           too many pushes of a document or a principal wait; nothing was queued
    │   └── StorageFull         nothing was written; the device has no room
    ├── OutcomeUnknown      the write may or may not be stored: look for it before trying again
    ├── Corrupt             stored bytes differ from the written bytes
    └── Closed              the store, port or client was closed, or was opened before a fork of this process

“Nothing was written” is true of one commit. A call of several commits, for example a merge, a copy or a redaction, may
have done earlier steps. The call's docstring then says so.

An object of a wrong class in place of a handle or of settings, such as a text in place of a document, is a fault of
the calling code: it raises Python's TypeError. A wrong id, version, time or body raises Invalid.

A message begins in lower case, except for names, and ends in ``key=value`` details, which are also in ``details``.
``code`` is the error's name in messages between programs. New codes may be added. An existing code never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

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
    """The base class of all errors in the tree above."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, **details: Any) -> None:
        self.message = message
        self.details = details
        super().__init__(" ".join([message, *(f"{name}={_short(value)}" for name, value in details.items())]))

    def copy(self) -> Self:
        """Return a copy for another thread. If two threads raised one exception, their tracebacks would mix."""
        copied = type(self).__new__(type(self), *self.args)
        copied.__dict__.update(self.__dict__)
        copied.__cause__, copied.__context__ = self.__cause__, self.__context__
        return copied


class Conflict(StratalogError):
    """Another writer has committed first, or stored data contradicts the call, for example because a name is in use.

    Nothing was written.
    """

    code = "conflict"


class ConditionFailed(Conflict):
    """A condition of an index commit did not hold, so no write of the commit took place.

    The keys of ``items`` are the positions of the writes whose conditions failed. Each value is the stored item, or
    None if no item is stored.
    """

    code = "condition-failed"

    def __init__(self, items: Mapping[int, Any]) -> None:
        super().__init__("a condition of the commit does not hold", writes=sorted(items))
        self.items = items


class HistoryChanged(Conflict):
    """The stored history is not the history that the handle or projection has seen. Nothing was written.

    The store was restored, or replaced by a copy. Make a new handle, or rebuild the projection.
    """

    code = "history-changed"


class VersionConflict(Conflict):
    """The log or record is not at the version that the caller expected.

    The error is certain: the call has read the newest version.
    """

    code = "version-conflict"


class KeyReused(Conflict):
    """The write id was used before, for another request or by another principal. This call wrote nothing.

    The details name the earlier write: ``log`` or ``record``, ``version`` and ``write_id``. Use a new write id.
    """

    code = "key-reused"


class MergeConflict(Conflict):
    """A merge would drop or reject mutations of the fork, or the fork has lost mutations that were merged before.

    The merge wrote nothing, except its batches before the conflict. The error is certain: the merge has read a fresh
    state.
    """

    code = "merge-conflict"


class ContentionError(Conflict):
    """Other writers committed first at each try, until the time budget was used up. Nothing was written."""

    code = "contention"


class NotFound(StratalogError):
    """The named object, for example a document, does not exist. The error is certain: the call has read the store."""

    code = "not-found"


class VersionForgotten(NotFound):
    """The version existed, but retention has raised the floor above it.

    For the entry of the version at the floor: retention has freed the entry, or may free it soon.
    """

    code = "version-forgotten"


class Redacted(NotFound):
    """The call needs the body of a version that was erased on purpose and cannot be restored. Its hash stays."""

    code = "redacted"


class Collected(NotFound):
    """The store has forgotten the clients of this client group. The error is certain.

    The clients must begin again as another client group.
    """

    code = "collected"


class Forbidden(StratalogError):
    """The principal lacks permission. Nothing was written, and the error reveals no stored data."""

    code = "forbidden"


class Invalid(StratalogError):
    """The input breaks a rule. The message names the rule. Nothing was written."""

    code = "invalid"


class RedactionRefused(Invalid):
    """A fork, a state or a base still needs the version. The message names the next step. The entry is unchanged."""

    code = "redaction-refused"


class ReservedName(Invalid):
    """Only the store itself may use the name. Nothing was written."""

    code = "reserved-name"


class Unsupported(Invalid):
    """A newer Stratalog wrote the data, or this program cannot process the data. Nothing was written.

    For example, the program lacks a mutator of the data, or the data are an export with a redacted version.
    """

    code = "unsupported"


class LimitExceeded(StratalogError):
    """The input is larger than a named limit. Nothing was written.

    The details have ``limit`` if the call knows the limit, and ``value`` if it has measured the input.
    """

    code = "limit-exceeded"


class QuotaExceeded(StratalogError):
    """With this write the organisation would exceed a quota. Nothing was written; reads and deletes still work.

    ``quota``, ``limit``, ``value`` (the total with this write) and ``scope`` are in the details. A delete makes room
    once the organisation's usage is measured again.
    """

    code = "quota-exceeded"


class Unavailable(StratalogError):
    """The backend could not execute the request. Nothing was written; try again later."""

    code = "unavailable"


class QueueFull(Unavailable):
    """Too many pushes of one document, or of one principal to it, wait in the queue. Nothing was queued.

    The details have ``seconds``, the time to wait before another try.
    """

    code = "queue-full"


class StorageFull(Unavailable):
    """The device, or a quota of the file system, has no room left. Nothing was written."""

    code = "storage-full"


class OutcomeUnknown(StratalogError):
    """The answer to a write was lost, so the write may be stored. Look for its write id before trying again."""

    code = "outcome-unknown"


class Corrupt(StratalogError):
    """Stored bytes differ from the written bytes: a hash differs, an entry is missing, a file is cut short."""

    code = "corrupt"


class Closed(StratalogError):
    """The store, port or client was closed before the call, or was opened before this process was forked."""

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
"""The errors that a server sends to its clients, by their codes."""


def _short(value: object) -> str:
    """Return ``value`` on one line, at most about 80 characters long."""
    try:
        text = repr(value) if isinstance(value, str | bytes) else str(value)
    except ValueError:
        return "a number of too many digits"  # Python does not convert an int of over 4,300 digits
    return text if len(text) <= 80 else f"{text[:60]}…({len(text)} characters)"
