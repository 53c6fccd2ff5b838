"""Queries of documents over HTTP: six numbered queries, digest, version at a time, differences, history of a key."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request, Response, Router

from stratalog.codec import decode
from stratalog.documents import Document
from stratalog.documents.history import Difference, KeyChange, Unread
from stratalog.documents.history import Version as DocumentVersion
from stratalog.documents.values import as_reference, value_size
from stratalog.errors import LimitExceeded, NotFound
from stratalog.limits import PAGE_STATES_MAX
from stratalog.protocol.keys import check_key
from stratalog.server.bodies import encoded
from stratalog.server.byte_budgets import bytes_of
from stratalog.server.logs import NewestVersion
from stratalog.server.parameters import PREFIX, After, At, Client, Count, Flag, Key, Name, Number, Text, Time, Version
from stratalog.server.row_pages import answer_page, page_bytes_max, page_of
from stratalog.server.security import Principal
from stratalog.server.service import Served, reading
from stratalog.tree.nodes import Slot

__all__ = ["HISTORY"]

Asked = Request[Principal, Any, Any]


class StatePage(msgspec.Struct, frozen=True):
    """Keys and values of one version. ``next`` is None at the end.

    To read the next page, pass ``next`` as ``after``, and ``version`` as ``at``.
    """

    version: int
    content: dict[str, Any]
    next: str | None


class ItemAt(msgspec.Struct, frozen=True):
    """An item without its body. If one blob contains the whole encoded value, ``blob`` is the hash of this blob."""

    key: str
    version: int
    size: int
    metadata: dict[str, Any]
    blob: str | None


class ItemPage(msgspec.Struct, frozen=True):
    """Items of one version. To read the next page, pass ``next`` as ``after``, and ``version`` as ``at``."""

    version: int
    items: list[ItemAt]
    next: str | None


class ValueAt(msgspec.Struct, frozen=True):
    """One value at one version."""

    version: int
    key: str
    value: Any


class VersionState(msgspec.Struct, frozen=True):
    """A version with its mutations, and its whole state if ``states`` was requested."""

    version: DocumentVersion
    state: dict[str, Any] | None


class VersionPage(msgspec.Struct, frozen=True):
    """Versions in order. To read the next page, pass ``next`` as ``after``. ``next`` is None at the end."""

    versions: list[VersionState]
    next: int | None


class DifferencePage(msgspec.Struct, frozen=True):
    """The keys whose values differ between two versions. To read the next page, pass ``next`` as ``after``."""

    differences: list[Difference]
    next: str | None


class ChangePage(msgspec.Struct, frozen=True):
    """The changes of one key, newest first. ``next`` is None at the end.

    To read the next page, pass ``next`` as ``at``.
    """

    changes: list[KeyChange]
    next: int | None


class MutationState(msgspec.Struct, frozen=True):
    """The version that committed a mutation, or None if no version did or the client is forgotten."""

    client: str
    id: int
    version: int | None


class LastMutation(msgspec.Struct, frozen=True):
    """The number of a client's last mutation, or a higher number set by `Document.resume`; 0 for an unknown client."""

    client: str
    last: int


class Digest(msgspec.Struct, frozen=True):
    """The digest by which replicas compare states. A digest depends only on the keys and values of a state."""

    version: int
    digest: str


@reading("/state", opt={"action": "read"}, summary="Query 1: the whole state")
def state(
    service: Served,
    request: Asked,
    organisation: Name,
    document: Name,
    at: At = None,
    prefix: Text = "",
    after: After = None,
    limit: Count = 1000,
) -> Response[StatePage]:
    """The default of ``at`` is the newest version. The server limits the keys and the bytes of a page."""
    opened = service.document(organisation, document)
    current = opened.state(at)
    keys: list[str] = []

    def value(row: tuple[str, Slot]) -> Any:
        keys.append(row[0])
        return decode(current.value(row[1], opened.stored_values))

    page = page_of(request, current.scan(prefix, after), limit, value, _row_bytes)
    content = dict(zip(keys, page.rows, strict=False))
    following = page.last[0] if page.last and page.has_more else None
    return answer_page(request, StatePage, version=current.version, content=content, next=following)


@reading("/items", opt={"action": "read"}, summary="Query 2: items with their metadata, without bodies")
def items(
    service: Served,
    request: Asked,
    organisation: Name,
    document: Name,
    at: At = None,
    prefix: Text = "",
    after: After = None,
    limit: Count = 1000,
) -> Response[ItemPage]:
    """The items are ordered by key. The server reads no body."""
    opened = service.document(organisation, document)
    current = opened.state(at)

    def shown(row: tuple[str, Slot]) -> ItemAt:
        key, slot = row
        metadata = opened.stored_values.metadata(slot.value)
        return ItemAt(key, slot.version, value_size(slot.value), metadata, _blob(slot.value))

    page = page_of(request, current.scan(prefix, after), limit, shown)
    following = page.last[0] if page.last and page.has_more else None
    return answer_page(request, ItemPage, version=current.version, items=page.rows, next=following)


@reading("/item", opt={"action": "read"}, summary="Query 3: one item")
def item(
    service: Served, request: Asked, organisation: Name, document: Name, key: Key, at: At = None
) -> Response[ValueAt]:
    """The default of ``at`` is the newest version."""
    opened = service.document(organisation, document)
    current = opened.state(at)
    slot = current.slot(check_key(key))
    if slot is None:
        raise NotFound("key not found", document=document, key=key, version=current.version)
    taken, size = bytes_of(request.scope), value_size(slot.value)
    taken.cover_answer(size)
    with taken.room_for_row(size):
        return encoded(request, ValueAt(current.version, key, decode(current.value(slot, opened.stored_values))))


@reading("/versions", opt={"action": "read"}, summary="Query 4: versions with their mutations and state")
def versions(
    service: Served,
    request: Asked,
    organisation: Name,
    document: Name,
    after: At = None,
    upto: At = None,
    states: Flag = False,
    limit: Count = 100,
) -> Response[VersionPage]:
    """Lists the versions that are not forgotten, in order.

    With ``states``, pages contain whole states and fewer versions. A state that is larger than a page is an error.
    """
    opened = service.document(organisation, document)
    versions_max = min(limit, PAGE_STATES_MAX) if states else limit
    bytes_max = page_bytes_max(request)

    def shown(row: Unread[DocumentVersion]) -> VersionState:
        state = _complete_state(opened, row.position, bytes_max) if states else None
        return VersionState(row.load(), state)

    def size(row: Unread[DocumentVersion]) -> int:
        return row.size + (_state_bytes(opened, row.position, bytes_max) if states else 0)

    page = page_of(request, opened.unread_versions(after, upto), versions_max, shown, size)
    following = page.last.position if page.last and page.has_more else None
    return answer_page(request, VersionPage, versions=page.rows, next=following)


@reading("/mutation", opt={"action": "read"}, summary="Query 5: the version that committed a mutation, if any")
def mutation(service: Served, organisation: Name, document: Name, client: Client, id: Number) -> MutationState:
    """The log commits rejected mutations too. The version of a rejected mutation contains the reason."""
    return MutationState(client, id, service.document(organisation, document).applied_in(client, id))


@reading("/client", opt={"action": "read"}, summary="Query 6: a client's latest mutation")
def latest_mutation(service: Served, organisation: Name, document: Name, client: Client) -> LastMutation:
    """The client must give the number ``last`` + 1 to its next mutation."""
    return LastMutation(client, service.document(organisation, document).last_mutation(client))


@reading("/digest", opt={"action": "read"}, summary="The content digest of a version")
def digest(service: Served, organisation: Name, document: Name, at: At = None) -> Digest:
    """The default of ``at`` is the newest version."""
    view = service.document(organisation, document).at(at)
    return Digest(view.version, view.content_digest())


@reading("/version", opt={"action": "read"}, summary="The newest version at a time")
def version_at(service: Served, organisation: Name, document: Name, time_ms: Time) -> NewestVersion:
    """To read the state at that time, pass the version as ``at``."""
    return NewestVersion(service.document(organisation, document).log.version_at(time_ms))


@reading("/diff", opt={"action": "read"}, summary="The differences between two versions")
def diff(
    service: Served,
    request: Asked,
    organisation: Name,
    document: Name,
    source: Version,
    target: Version,
    after: Text = "",
    limit: Count = 1000,
) -> Response[DifferencePage]:
    """The differences are ordered by key. The cost grows with their number, not with the size of the document."""
    differences = service.document(organisation, document).unread_diff(source, target, after=after)
    page = page_of(request, differences, limit, lambda row: row.load(), lambda row: row.size)
    following = page.last.position if page.last and page.has_more else None
    return answer_page(request, DifferencePage, differences=page.rows, next=following)


@reading("/history", opt={"action": "read"}, summary="The changes of one key")
def history(
    service: Served, request: Asked, organisation: Name, document: Name, key: Key, at: At = None, limit: Count = 100
) -> Response[ChangePage]:
    """The newest change comes first. Each change lists the mutations that caused the change."""
    changes = service.document(organisation, document).unread_history(key, at=at)
    page = page_of(request, changes, limit, lambda row: row.load(), lambda row: row.size)
    following = page.following.position if page.following else None
    return answer_page(request, ChangePage, changes=page.rows, next=following)


def _row_bytes(row: tuple[str, Slot]) -> int:
    return len(row[0]) + value_size(row[1].value)


def _state_bytes(document: Document, version: int, bytes_max: int) -> int:
    """Return the size of a whole state in bytes, without reading bodies.

    The count stops once it exceeds ``bytes_max``. So a result above ``bytes_max`` is not the full size of the state.
    """
    size = 0
    for row in document.state(version).scan():
        size += _row_bytes(row)
        if size > bytes_max:
            break
    return size


def _complete_state(document: Document, version: int, bytes_max: int) -> dict[str, Any]:
    """Return the whole state. Raises LimitExceeded if the state is larger than ``bytes_max``."""
    size = _state_bytes(document, version, bytes_max)
    if size > bytes_max:
        raise LimitExceeded("a whole state is too large; read it in pages from /state", value=size, limit=bytes_max)
    return document.at(version).to_dict()


def _blob(stored: bytes) -> str | None:
    reference = as_reference(stored)
    return reference.body.address.hex() if reference and reference.body.digest is None else None


HISTORY = Router(
    PREFIX + "/documents/{document:str}",
    route_handlers=[state, items, item, versions, mutation, latest_mutation, digest, version_at, diff, history],
    tags=["documents"],
)
