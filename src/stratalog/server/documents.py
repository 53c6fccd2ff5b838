"""Documents over HTTP: the routes that create, show, delete, fork, replay and merge a document."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router
from litestar.params import JSONBody

from stratalog.documents import Document, merge, replay
from stratalog.documents.replay import Replayed
from stratalog.errors import Conflict
from stratalog.limits import VERSION_MAX
from stratalog.log.directory import Listing
from stratalog.server.bodies import Answer
from stratalog.server.byte_budgets import bytes_of
from stratalog.server.error_responses import PROBLEMS, response
from stratalog.server.parameters import PREFIX, Count, Name, Text
from stratalog.server.row_pages import DamagedRows, answer_page, page_of
from stratalog.server.security import Principal
from stratalog.server.service import Served, Service, deleting, posting_async, putting, reading

__all__ = ["DOCUMENTS", "ORGANISATIONS"]


class DocumentInfo(msgspec.Struct, frozen=True):
    """The present state of a document.

    ``first`` is the version at which the document was forked from another document, or 0 if the document is no fork.
    ``floor`` is the oldest version that the server keeps, or 0 if it keeps all versions.
    """

    organisation: str
    document: str
    incarnation: str
    version: int
    first: int
    floor: int


class Listed(msgspec.Struct, frozen=True):
    """A page of an organisation's documents and logs.

    To read the next page, pass ``next`` as ``after``. ``next`` is None at the end. ``damaged`` has the ids of
    damaged lines of the list that were read for this page, at most 100, and ``more_damaged`` is
    the number of the others. These lines are not in ``items``.
    """

    items: list[Listing]
    next: str | None
    damaged: list[str]
    more_damaged: int


class Fork(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name of the fork, and the version at which to fork. The default of ``at`` is the newest version."""

    name: str
    at: Annotated[int, msgspec.Meta(ge=0, le=VERSION_MAX)] | None = None


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The document on which the server runs a fork's mutations. Both are in the same organisation."""

    document: str


class Report(msgspec.Struct, frozen=True):
    """The fork's own mutations, each with its results in the fork and on the target."""

    mutations: list[Replayed]


@reading("/", opt={"action": "list"}, summary="The documents and logs of an organisation")
def list_all(
    service: Served, request: Request[Principal, Any, Any], organisation: Name, after: Text = "", limit: Count = 100
) -> Response[Listed]:
    """The items are ordered by the UTF-8 bytes of their ids."""
    damaged = DamagedRows()
    rows = service.store.list(organisation, after=after, damaged=damaged.add)
    page = page_of(request, rows, limit, lambda listing: listing)
    following = page.last.id if page.last and page.has_more else None
    return answer_page(request, Listed, items=page.rows, next=following, damaged=damaged.ids, more_damaged=damaged.more)


@putting(
    "/",
    opt={"action": "create"},
    status_code=201,
    responses={**PROBLEMS, 200: response(DocumentInfo, "the document already exists")},
    summary="Create a document, and its organisation if it is new",
)
def create(service: Served, organisation: Name, document: Name) -> Response[DocumentInfo]:
    """Answers 201 if the document was created and 200 if it already exists, so a request may be repeated."""
    with suppress(Conflict):
        return Answer(_info(service.store.create(organisation, document)), status_code=201)
    return Answer(_info(service.document(organisation, document)), status_code=200)


@reading("/", opt={"action": "read"}, summary="Show a document")
def show(service: Served, organisation: Name, document: Name) -> DocumentInfo:
    """The response has the newest version and the oldest version that is kept."""
    return _info(service.document(organisation, document))


@deleting("/", opt={"action": "delete"}, summary="Delete a document")
def remove(service: Served, organisation: Name, document: Name) -> None:
    """A later document may have the same name. The store keeps the versions that forks need."""
    service.store.delete(service.document(organisation, document))


@posting_async("/fork", pool="writes", opt={"action": "read"}, status_code=201, summary="Fork a document at a version")
async def fork(
    service: Served, request: Request[Principal, Any, Any], organisation: Name, document: Name, data: JSONBody[Fork]
) -> DocumentInfo:
    """The fork is in the same organisation. The fork shares the history up to the version, so nothing is copied."""
    await service.permit(request.user, "create", organisation, data.name)
    return await service.run(lambda: _info(service.document(organisation, document).fork(data.name, at=data.at)))


@posting_async("/replay", opt={"action": "read"}, summary="Show the result of a merge")
async def replay_fork(
    service: Served, request: Request[Principal, Any, Any], organisation: Name, document: Name, data: JSONBody[Target]
) -> Report:
    """Runs the fork's own mutations on the target and writes nothing."""
    bytes_of(request.scope).may_have_written = False
    await service.permit(request.user, "read", organisation, data.document)
    return await service.run(lambda: Report(replay(*_pair(service, organisation, document, data)).mutations))


@posting_async("/merge", opt={"action": "read"}, summary="Commit the fork's own mutations on the target")
async def merge_fork(
    service: Served, request: Request[Principal, Any, Any], organisation: Name, document: Name, data: JSONBody[Target]
) -> Report:
    """A merge may be repeated: no mutation is merged twice."""
    await service.permit(request.user, "write", organisation, data.document)
    with await service.reserve_bytes(organisation):
        report = await service.in_turn(
            organisation, data.document, lambda: Report(merge(*_pair(service, organisation, document, data)).mutations)
        )
    service.poke_newest(organisation, data.document, (mutation.merged_in for mutation in report.mutations))
    return report


def _info(document: Document) -> DocumentInfo:
    record = document.log.record
    version, floor = document.version, document.log.floor()
    return DocumentInfo(record.organisation, record.name, record.incarnation, version, document.log.first, floor)


def _pair(service: Service, organisation: str, document: str, target: Target) -> tuple[Document, Document]:
    return service.document(organisation, document), service.document(organisation, target.document)


ORGANISATIONS = Router(PREFIX, route_handlers=[list_all], tags=["organisations"])
DOCUMENTS = Router(
    PREFIX + "/documents/{document:str}",
    route_handlers=[create, show, remove, fork, replay_fork, merge_fork],
    tags=["documents"],
)
