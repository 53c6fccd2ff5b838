"""Names over HTTP: the organisations in which the caller may read a document or log of a given name."""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec
from litestar import Request, get

from stratalog.errors import Forbidden
from stratalog.limits import NAME_HOLDERS_MAX
from stratalog.log.directory import NameHolder
from stratalog.server.error_responses import PROBLEMS
from stratalog.server.parameters import Name
from stratalog.server.row_pages import DamagedRows
from stratalog.server.security import Principal
from stratalog.server.service import Served, Service

__all__ = ["list_holders"]


class NameHolders(msgspec.Struct, frozen=True):
    """The organisations in which the caller may read a document or log of the requested name.

    ``complete`` is false if more than `NAME_HOLDERS_MAX` organisations have a document or log of this name, whether or
    not the caller may read them. The server then examines only the first `NAME_HOLDERS_MAX`. ``complete`` is also false
    if a line of this list is damaged.
    """

    items: list[NameHolder]
    complete: bool


@get(
    "/v1/names/{name:str}",
    pool="reads",
    opt={"action": "list"},
    responses=PROBLEMS,
    tags=["organisations"],
    summary="The organisations in which the caller may read a document or log of a given name",
)
async def list_holders(service: Served, request: Request[Principal, Any, Any], name: Name) -> NameHolders:
    """Organisations whose document or log of this name the caller may read, ordered by the UTF-8 bytes of the ids.

    The server asks the application whether the caller may `list`, with an empty organisation and name. A document or
    log that the caller may not `read` is left out.
    """
    damaged = DamagedRows()
    listed = service.store.organisations_of(name, damaged=damaged.add)
    holders = await service.run(lambda: list(islice(listed, NAME_HOLDERS_MAX + 1)))
    items = [holder for holder in holders[:NAME_HOLDERS_MAX] if await _may_read(service, request.user, holder, name)]
    return NameHolders(items, len(holders) <= NAME_HOLDERS_MAX and not damaged.ids)


async def _may_read(service: Service, principal: Principal, holder: NameHolder, name: str) -> bool:
    try:
        await service.permit(principal, "read", holder.organisation, name)
    except Forbidden:
        return False
    return True
