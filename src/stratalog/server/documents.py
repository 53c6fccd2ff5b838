"""Documents over HTTP: the routes that create, show, delete, fork, replay and merge a document."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, post
from litestar.params import JSONBody

from stratalog.documents import Document, merge, replay
from stratalog.documents.replay import Replayed
from stratalog.errors import Conflict
from stratalog.limits import VERSION_MAX
from stratalog.log.directory import Listing
from stratalog.server.bodies import Answer
from stratalog.server.errors import PROBLEMS, response
from stratalog.server.parameters import PREFIX, Count, Name, Text
from stratalog.server.row_pages import answer_page, page_of
from stratalog.server.security import Principal
from stratalog.server.service import Served, Service, deleting, putting, reading

__all__ = ["DOCUMENTS", "ORGANISATIONS"]


class DocumentInfo(msgspec.Struct, frozen=True):
    """A document as it is now. ``first`` is the version it was forked from, or 0; ``floor`` the oldest one kept."""

    organisation: str
    document: str
    incarnation: str
    version: int
    first: int
    floor: int


class Listed(msgspec.Struct, frozen=True):
    """A page of an organisation's documents and logs; ``next`` is what to ask for after it, None at the end."""

    items: list[Listing]
    next: str | None


class Fork(msgspec.Struct, frozen=True):
    """What to call the fork, and the version to start from; the newest where none is said."""

    name: str
    at: Annotated[int, msgspec.Meta(ge=0, le=VERSION_MAX)] | None = None


class Target(msgspec.Struct, frozen=True):
    """The document, of the same organisation, on which a fork's mutations are run."""

    document: str


class Report(msgspec.Struct, frozen=True):
    """Mutation by mutation, what came out differently."""

    mutations: list[Replayed]


@reading("/", opt={"action": "list"}, summary="The documents and logs of an organisation")
def list_all(
    service: Served,
    request: Request[Principal, Any, Any],
    organisation: Name,
    after: Text = "",
    limit: Count = 100,
) -> Response[Listed]:
    """In order of the ids' UTF-8."""
    page = page_of(request, service.store.list(organisation, after=after), limit, lambda listing: listing)
    following = page.last.id if page.last and page.has_more else None
    return answer_page(request, Listed, items=page.rows, next=following)


@putting(
    "/",
    opt={"action": "create"},
    status_code=201,
    responses={**PROBLEMS, 200: response(DocumentInfo, "it was there already")},
    summary="Make a document, and its organisation with it",
)
def create(service: Served, organisation: Name, document: Name) -> Response[DocumentInfo]:
    """Asking again is fine: 201 where it was made, 200 where the organisation has it."""
    with suppress(Conflict):
        return Answer(_info(service.store.create(organisation, document)), status_code=201)
    return Answer(_info(service.document(organisation, document)), status_code=200)


@reading("/", opt={"action": "read"}, summary="A document as it is now")
def show(service: Served, organisation: Name, document: Name) -> DocumentInfo:
    """Its newest version, and which versions are kept."""
    return _info(service.document(organisation, document))


@deleting("/", opt={"action": "delete"}, summary="Delete a document")
def remove(service: Served, organisation: Name, document: Name) -> None:
    """Its name may be used again; that is another incarnation. Its forks keep what they need of it."""
    service.store.delete(service.document(organisation, document))


@post(
    "/fork",
    pool="writes",
    opt={"action": "read"},
    status_code=201,
    responses=PROBLEMS,
    summary="A new document from a version",
)
async def fork(
    service: Served, request: Request[Principal, Any, Any], organisation: Name, document: Name, data: JSONBody[Fork]
) -> DocumentInfo:
    """In the same organisation; nothing is copied."""
    await service.permit(request.user, "create", organisation, data.name)
    return await service.run(lambda: _info(service.document(organisation, document).fork(data.name, at=data.at)))


@post(
    "/replay",
    pool="reads",
    opt={"action": "read"},
    status_code=200,
    responses=PROBLEMS,
    summary="What a merge would do",
)
async def replay_fork(
    service: Served, request: Request[Principal, Any, Any], organisation: Name, document: Name, data: JSONBody[Target]
) -> Report:
    """Runs the fork's own mutations on the target and writes nothing."""
    await service.permit(request.user, "read", organisation, data.document)
    return await service.run(lambda: Report(replay(*_pair(service, organisation, document, data)).mutations))


@post(
    "/merge",
    pool="reads",
    opt={"action": "read"},
    status_code=200,
    responses=PROBLEMS,
    summary="Commit this fork's mutations there",
)
async def merge_fork(
    service: Served, request: Request[Principal, Any, Any], organisation: Name, document: Name, data: JSONBody[Target]
) -> Report:
    """Asking again changes nothing twice."""
    await service.permit(request.user, "write", organisation, data.document)
    with await service.reserve_bytes(organisation):
        report = await service.in_turn(
            organisation, data.document, lambda: Report(merge(*_pair(service, organisation, document, data)).mutations)
        )
    service.hub.poke(
        organisation, data.document, max((mutation.merged_in or 0 for mutation in report.mutations), default=0)
    )
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
