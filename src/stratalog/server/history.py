"""Looking at documents over HTTP: the six queries, and the history behind them."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request, Response, Router

from stratalog.documents.history import Difference, KeyChange
from stratalog.documents.history import Version as DocumentVersion
from stratalog.documents.values import as_reference, value_size
from stratalog.documents.view import View
from stratalog.errors import LimitExceeded, NotFound
from stratalog.limits import PAGE_BYTES_MAX, PAGE_STATES_MAX
from stratalog.server.bodies import encoded
from stratalog.server.parameters import PREFIX, After, At, Client, Count, Flag, Key, Name, Number, Text, Version
from stratalog.server.security import Principal
from stratalog.server.service import Served, reading

__all__ = ["HISTORY"]

Asked = Request[Principal, Any, Any]
_MISSING = object()


class StatePage(msgspec.Struct, frozen=True):
    """Keys and values of one version. ``next`` is the key to ask for more after, at this version; None at the end."""

    version: int
    content: dict[str, Any]
    next: str | None


class ItemAt(msgspec.Struct, frozen=True):
    """An item without its body. ``blob`` is the hash under which its encoded value can be got, where it is one blob."""

    key: str
    version: int
    size: int
    metadata: dict[str, Any]
    blob: str | None


class ItemPage(msgspec.Struct, frozen=True):
    """Items of one version."""

    version: int
    items: list[ItemAt]
    next: str | None


class ValueAt(msgspec.Struct, frozen=True):
    """One value at one version."""

    version: int
    key: str
    value: Any


class VersionState(msgspec.Struct, frozen=True):
    """A version with its mutations, and its whole state where that was asked for."""

    version: DocumentVersion
    state: dict[str, Any] | None


class VersionPage(msgspec.Struct, frozen=True):
    """Versions in order; ``next`` is what to ask for after it, None at the end."""

    versions: list[VersionState]
    next: int | None


class DifferencePage(msgspec.Struct, frozen=True):
    """The keys that two versions hold differently."""

    differences: list[Difference]
    next: str | None


class ChangePage(msgspec.Struct, frozen=True):
    """The changes of one key, newest first; ``next`` is the version to ask for ``at`` the next page."""

    changes: list[KeyChange]
    next: int | None


class MutationState(msgspec.Struct, frozen=True):
    """Whether a mutation was committed, and in which version; None where it was not."""

    client: str
    id: int
    version: int | None


class LastMutation(msgspec.Struct, frozen=True):
    """The number of a client's newest committed mutation; 0 for a client nobody has seen."""

    client: str
    last: int


class Digest(msgspec.Struct, frozen=True):
    """What replicas compare: equal for equal keys and values, whatever their history."""

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
    """At a version, the newest if none is said, by pages of so many keys and so many bytes."""
    view = service.document(organisation, document).at(at)
    content: dict[str, Any] = {}
    size, last = 0, None
    for info in view.list(prefix, after=after):
        size += info.size
        if len(content) == limit or (content and size > PAGE_BYTES_MAX):
            return encoded(request, StatePage(view.version, content, last))
        content[info.key], last = view.get(info.key), info.key
    return encoded(request, StatePage(view.version, content, None))


@reading("/items", opt={"action": "read"}, summary="Query 2: items with their metadata, without bodies")
def items(
    service: Served,
    organisation: Name,
    document: Name,
    at: At = None,
    prefix: Text = "",
    after: After = None,
    limit: Count = 1000,
) -> ItemPage:
    """In order of key; no body is opened."""
    opened = service.document(organisation, document)
    current = opened.state(at)
    page: list[ItemAt] = []
    for key, slot in current.scan(prefix, after):
        if len(page) == limit:
            return ItemPage(current.version, page, page[-1].key)
        metadata = opened.values.metadata(slot.value)
        page.append(ItemAt(key, slot.version, value_size(slot.value), metadata, _blob(slot.value)))
    return ItemPage(current.version, page, None)


@reading("/item", opt={"action": "read"}, summary="Query 3: one item")
def item(service: Served, organisation: Name, document: Name, key: Key, at: At = None) -> ValueAt:
    """At a version, the newest if none is said."""
    view = service.document(organisation, document).at(at)
    value = view.get(key, _MISSING)
    if value is _MISSING:
        raise NotFound("no such key", document=document, key=key, version=view.version)
    return ValueAt(view.version, key, value)


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
    """Those kept, in order. With ``states`` each comes with the whole state after it, a few a page."""
    opened = service.document(organisation, document)
    versions_max = min(limit, PAGE_STATES_MAX) if states else limit
    page: list[VersionState] = []
    for version in opened.versions(after, upto):
        if len(page) == versions_max:
            return encoded(request, VersionPage(page, page[-1].version.version))
        page.append(VersionState(version, _complete_state(opened.at(version.version)) if states else None))
    return encoded(request, VersionPage(page, None))


@reading("/mutation", opt={"action": "read"}, summary="Query 5: was this mutation applied, and in which version")
def mutation(
    service: Served,
    organisation: Name,
    document: Name,
    client: Client,
    id: Number,
) -> MutationState:
    """A rejected one was committed too; its version has the reason."""
    return MutationState(client, id, service.document(organisation, document).applied_in(client, id))


@reading("/client", opt={"action": "read"}, summary="Query 6: a client's latest mutation")
def latest_mutation(service: Served, organisation: Name, document: Name, client: Client) -> LastMutation:
    """The number to go on from."""
    return LastMutation(client, service.document(organisation, document).last_mutation(client))


@reading("/digest", opt={"action": "read"}, summary="The content digest of a version")
def digest(service: Served, organisation: Name, document: Name, at: At = None) -> Digest:
    """Of the newest, if none is said."""
    view = service.document(organisation, document).at(at)
    return Digest(view.version, view.content_digest())


@reading("/diff", opt={"action": "read"}, summary="What differs between two versions")
def diff(
    service: Served,
    organisation: Name,
    document: Name,
    source: Version,
    target: Version,
    after: Text = "",
    limit: Count = 1000,
) -> DifferencePage:
    """In order of key; costs what differs."""
    page: list[Difference] = []
    for difference in service.document(organisation, document).diff(source, target):
        if difference.key <= after:
            continue
        if len(page) == limit:
            return DifferencePage(page, page[-1].key)
        page.append(difference)
    return DifferencePage(page, None)


@reading("/history", opt={"action": "read"}, summary="The changes of one key")
def history(
    service: Served, organisation: Name, document: Name, key: Key, at: At = None, limit: Count = 100
) -> ChangePage:
    """Newest first; each with the mutations that made it."""
    page: list[KeyChange] = []
    for change in service.document(organisation, document).history(key, at=at):
        if len(page) == limit:
            return ChangePage(page, change.version)
        page.append(change)
    return ChangePage(page, None)


def _complete_state(view: View) -> dict[str, Any]:
    """The whole state, where it fits a page. Raises LimitExceeded."""
    size = 0
    for info in view.list():
        size += info.size
        if size > PAGE_BYTES_MAX:
            raise LimitExceeded("a whole state is too large; ask for it by pages", limit=PAGE_BYTES_MAX)
    return view.to_dict()


def _blob(stored: bytes) -> str | None:
    reference = as_reference(stored)
    return reference.body.address.hex() if reference and reference.body.digest is None else None


HISTORY = Router(
    PREFIX + "/documents/{document:str}",
    route_handlers=[state, items, item, versions, mutation, latest_mutation, digest, diff, history],
    tags=["documents"],
)
