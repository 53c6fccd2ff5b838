"""Decisions about the next version of a record, given the latest version. Each kind of change has its own decision.

A decision returns a draft of the next version, or raises an error. If there is nothing to write, the decision returns
an existing item, which is the result of the call.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stratalog.errors import (
    Corrupt,
    KeyReused,
    NotFound,
    OutcomeUnknown,
    Redacted,
    Unavailable,
    VersionConflict,
    VersionForgotten,
)
from stratalog.keys import check_version, parse_number
from stratalog.log.environment import Environment
from stratalog.ports.index import Attribute, Item
from stratalog.records.chain import CHAIN_ATTRIBUTES
from stratalog.records.content import RecordBody, stream_version
from stratalog.records.floor import floor_check, read_floor
from stratalog.records.history import check_superseded, item_at
from stratalog.records.put import Decide, Heads, RecordAppend, RecordDraft
from stratalog.records.requests import RecordRequest, same_request
from stratalog.records.versions import TOMBSTONE, Name, latest_item

__all__ = ["Contents", "RecordCall", "Wanted", "next_deletion", "next_newer", "next_put", "next_revival", "next_update"]

Contents = list[RecordBody]


class RecordCall(msgspec.Struct, frozen=True):
    """One call that changes a record. ``named`` means that the caller chose the write id and may use it again."""

    environment: Environment
    name: Name
    write_id: str
    named: bool
    request: RecordRequest

    def asking(
        self,
        given: dict[str, Attribute],
        content: RecordBody,
        equal: Callable[[bytes, bytes], bool] | None = None,
    ) -> RecordCall:
        """Return the same call, whose request also has the content of a put."""

        def as_good(item: Item) -> bool:
            return equal is not None and equal(_body(self, item), content.bytes or b"")

        asked = msgspec.structs.replace(self.request, given=given, content=content, as_good=as_good if equal else None)
        return msgspec.structs.replace(self, request=asked)

    def append(self, heads: Heads, decide: Decide, *, fresh: bool = False) -> RecordAppend:
        """Return the append of the version that ``decide`` returns."""
        return RecordAppend(
            self.environment,
            self.name,
            heads,
            self.write_id,
            decide,
            self.wrote,
            principal=self.request.principal,
            fresh=fresh,
        )

    def attributes(self) -> dict[str, Attribute]:
        """Return the attributes by which the version records the call."""
        who: dict[str, Attribute] = {"p": self.request.principal} if self.request.principal else {}
        return {"w": self.write_id, **who, **self.request.attributes()}

    def wrote(self, item: Item | None) -> bool:
        """Return whether ``item`` is the version that this call wrote, now or earlier. Raises KeyReused, Redacted."""
        if item is None or item.attributes.get("w") != self.write_id:
            return False
        if "d" in item.attributes and item.attributes.get("p", "") == self.request.principal:
            raise Redacted("the write id belongs to a redacted version", record=self.name.id)
        if same_request(item, self.request):
            return True
        raise KeyReused(
            "the write id was used for another write",
            record=self.name.id,
            version=parse_number(item.sort),
            write_id=self.write_id,
        )


class Wanted(msgspec.Struct, frozen=True):
    """The content that a put is to store, and the test whether an existing version makes the put unnecessary."""

    given: dict[str, Attribute]
    metadata_given: bool
    content: RecordBody
    equal: Callable[[bytes, bytes], bool] | None

    def is_stored_in(self, call: RecordCall, item: Item) -> bool:
        """Return whether ``item`` has the given metadata and source time, if any, and the same or an ``equal`` body."""
        if _deleted(item) or ("t" in self.given and self.given["t"] != item.attributes.get("t")):
            return False
        if self.metadata_given and self.given.get("u") != item.attributes.get("u"):
            return False
        if self.content.digest == item.attributes["h"]:
            return True
        return self.equal is not None and self.equal(_body(call, item), self.content.bytes or b"")


def next_put(call: RecordCall, wanted: Wanted, expected: int | None) -> Decide:
    """Decide a put: store the body, unless the latest version already has it.

    With ``expected`` the new version must follow version ``expected``. If a version with the same change already
    follows ``expected``, the result is that version.
    """

    def decide(latest: Item | None) -> RecordDraft | Item:
        if latest is not None and call.wrote(latest):
            return latest
        if expected is not None and expected != _version(latest):
            return _followed(call, expected, _version(latest), lambda item: wanted.is_stored_in(call, item))
        if latest is not None and wanted.is_stored_in(call, latest):
            return latest
        return _draft(call, wanted.given, wanted.content)

    return decide


def next_newer(
    call: RecordCall, given: dict[str, Attribute], content: RecordBody, source_time_ms: int, changed_only: bool = False
) -> Decide:
    """Decide a put that must be newer: store the body, unless the latest version's source time is the same or later.

    With ``changed_only`` the decision also returns a latest version that has the same bytes.
    """

    def decide(latest: Item | None) -> RecordDraft | Item:
        if latest is not None:
            stored = latest.attributes.get("t")
            if call.wrote(latest) or (stored is not None and int(stored) >= source_time_ms):
                return latest
            if changed_only and not _deleted(latest) and content.digest == latest.attributes["h"]:
                return latest
        return _draft(call, given, content)

    return decide


def next_update(call: RecordCall, function: Callable[[bytes], bytes], create: bytes | None, made: Contents) -> Decide:
    """Decide an update: store the result of ``function`` for the latest body, or ``create`` if there is no body.

    The decision appends each content that it makes to ``made``.
    """

    def decide(latest: Item | None) -> RecordDraft | Item:
        if latest is not None and call.wrote(latest):
            return latest
        if latest is None or _deleted(latest):
            if create is None:
                reason = "record not found; give the first body of a new record as create="
                raise NotFound(reason, record=call.name.id, version=_version(latest))
            return _draft(call, {}, _content(call, made, create))
        content = _content(call, made, function(_body(call, latest)))
        if content.digest == latest.attributes["h"]:
            return latest
        times_and_metadata = {name: latest.attributes[name] for name in ("t", "u") if name in latest.attributes}
        return _draft(call, times_and_metadata, content)

    return decide


def next_deletion(call: RecordCall, given: dict[str, Attribute], expected: int | None) -> Decide:
    """Decide a deletion: store a deleted version, unless the latest version is deleted.

    The deleted version has the source time of ``given``, or else the source time of the latest version.
    """

    def decide(latest: Item | None) -> RecordDraft | Item:
        if latest is None:
            raise NotFound("record not found", record=call.name.id)
        if expected is not None and expected != _version(latest) and not call.wrote(latest):
            return _followed(call, expected, _version(latest), _deleted)
        if call.wrote(latest) or _deleted(latest):
            return latest
        time = {"t": latest.attributes["t"]} if "t" in latest.attributes else {}
        return RecordDraft({**call.attributes(), "n": 0, "h": b"", **time, **given})

    return decide


def next_revival(call: RecordCall) -> Decide:
    """Decide an undeletion: if the latest version is a deletion, store the version before it again.

    The new version refers to the blob of the old version. If the old version is freed, a collector may delete the blob.
    So the commit fails if the floor has changed since the decision read it.
    """

    def decide(latest: Item | None) -> RecordDraft | Item:
        if latest is None:
            raise NotFound("record not found", record=call.name.id)
        if call.wrote(latest) or not _deleted(latest):
            return latest
        floor = read_floor(call.environment.index, call.name)
        try:
            before = item_at(call.environment, call.name, _version(latest) - 1)
        except VersionForgotten as exc:
            newest = latest_item(call.environment.index, call.name.partition)
            if _version(newest) == _version(latest):
                raise
            raise Unavailable("the deletion was superseded during the undeletion", record=call.name.id) from exc
        if before is None:
            raise Corrupt("a version of a record is missing", record=call.name.id, version=_version(latest) - 1)
        if "d" in before.attributes:
            raise Redacted("the version before the deletion is redacted", record=call.name.id, version=_version(before))
        not_copied = (*CHAIN_ATTRIBUTES, "o")
        attributes = {name: value for name, value in before.attributes.items() if name not in not_copied}
        return RecordDraft({**attributes, **call.attributes()}, (floor_check(call.name, floor),))

    return decide


def _draft(call: RecordCall, given: dict[str, Attribute], content: RecordBody) -> RecordDraft:
    attributes = {**call.attributes(), **given, **content.attributes()}
    guards = tuple(content.guards())
    return RecordDraft(attributes, guards, content.lost_pin if guards else None, content.refresh, content.blobs)


def _followed(call: RecordCall, expected: int, actual: int, same: Callable[[Item], bool]) -> Item:
    """Return the version that follows ``expected`` if it already has this change. Raises VersionConflict.

    Raises OutcomeUnknown if that version is forgotten and the caller chose the write id: an earlier attempt of this
    call may have written the version.
    """
    if 0 <= check_version(expected) < actual:
        try:
            item = item_at(call.environment, call.name, expected + 1)
        except VersionForgotten as exc:
            if call.named:
                raise OutcomeUnknown("the expected version's successor is forgotten", record=call.name.id) from exc
        else:
            if item is not None and (call.wrote(item) or same(item)):
                return item
    raise VersionConflict(
        "the record is not at the expected version", record=call.name.id, expected=expected, actual=actual
    )


def _content(call: RecordCall, made: Contents, body: bytes) -> RecordBody:
    """Return the content of ``body``; reuse the last content in ``made`` if its bytes are equal."""
    if not made or made[-1].bytes != body:
        made.append(RecordBody(call.environment, call.name, body))
    return made[-1]


def _body(call: RecordCall, item: Item) -> bytes:
    try:
        return b"".join(stream_version(call.environment, call.name, item))
    except VersionForgotten as exc:
        check_superseded(call.environment, call.name, parse_number(item.sort))
        raise Unavailable("the latest version was superseded while it was read", record=call.name.id) from exc


def _version(item: Item | None) -> int:
    return parse_number(item.sort) if item else 0


def _deleted(item: Item) -> bool:
    return item.attributes.get("k") == TOMBSTONE
