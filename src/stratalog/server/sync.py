"""Push and pull over HTTP, in our own words and in Replicache's."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from litestar import Request, Response, Router, post
from litestar.params import JSONBody

from stratalog.errors import LimitExceeded
from stratalog.limits import MUTATIONS_PER_PUSH_MAX
from stratalog.protocol.sync import Pull, Pulled, Push, Pushed
from stratalog.server.bodies import JSON, PLAIN, encoded
from stratalog.server.bodies import Answer as Encoded
from stratalog.server.errors import PROBLEMS, response
from stratalog.server.parameters import PREFIX, Name
from stratalog.server.security import Principal
from stratalog.server.service import Served, Service
from stratalog.sync.pull import pull
from stratalog.sync.replicache import ReplicacheAnswer, answer_push, pull_replicache, read_push

__all__ = ["SYNC"]

Asked = Request[Principal, Any, Any]


@post(
    "/push",
    opt={"action": "write"},
    status_code=200,
    responses={**PROBLEMS, 202: response(Pushed, "a worker will apply them")},
    summary="Apply mutations",
)
async def push_mutations(
    service: Served, request: Asked, organisation: Name, document: Name, data: JSONBody[Push]
) -> Response[Pushed]:
    """In order; what became of each. Where an answer is lost, push the same again: nothing is applied twice."""
    pushed = await _pushed(service, request.user, organisation, document, data)
    return Encoded(pushed, status_code=202 if pushed.queued else 200)


@post("/pull", opt={"action": "read"}, status_code=200, responses=PROBLEMS, summary="What is new since a cookie")
async def pull_news(
    service: Served, request: Asked, organisation: Name, document: Name, data: JSONBody[Pull]
) -> Response[Pulled]:
    """Changes of the state, and how far each client of the group has got, from one version."""
    who = request.user

    def run() -> Response[Pulled]:
        may_write = partial(service.may, who, "write", organisation, document)
        return encoded(request, pull(service.document(organisation, document), data, who.id, may_write))

    return await service.run(run)


@post(
    "/replicache/push",
    opt={"action": "write", PLAIN: True},
    status_code=200,
    responses=PROBLEMS,
    summary="A push of Replicache's client, protocol version 1",
)
async def replicache_push(
    service: Served, request: Asked, organisation: Name, document: Name, data: JSONBody[dict[str, Any]]
) -> Response[dict[str, Any]]:
    """200 where all of it was applied, now or before."""
    wanted = read_push(data)
    if isinstance(wanted, ReplicacheAnswer):
        return _answer(wanted)
    return _answer(answer_push(await _pushed(service, request.user, organisation, document, wanted)))


@post(
    "/replicache/pull",
    opt={"action": "read", PLAIN: True},
    status_code=200,
    responses=PROBLEMS,
    summary="A pull of Replicache's client, protocol version 1",
)
async def replicache_pull(
    service: Served, request: Asked, organisation: Name, document: Name, data: JSONBody[dict[str, Any]]
) -> Response[dict[str, Any]]:
    """The patch since the request's cookie."""
    who = request.user

    def run() -> ReplicacheAnswer:
        may_write = partial(service.may, who, "write", organisation, document)
        return pull_replicache(service.document(organisation, document), data, who.id, may_write)

    return _answer(await service.run(run))


async def _pushed(service: Service, who: Principal, organisation: str, document: str, data: Push) -> Pushed:
    if len(data.mutations) > MUTATIONS_PER_PUSH_MAX:
        limit = MUTATIONS_PER_PUSH_MAX
        raise LimitExceeded("a push has too many mutations", value=len(data.mutations), limit=limit)
    author = who.author or next((mutation.client for mutation in data.mutations), "")

    def run() -> Pushed:
        return service.push(service.document(organisation, document), data, who.id, author)

    pushed = await service.workers.in_turn((organisation, document), run)
    service.note_outcomes(organisation, document, pushed.outcomes)
    return pushed


def _answer(answer: ReplicacheAnswer) -> Response[dict[str, Any]]:
    body: Any = msgspec.json.encode(answer.body)
    return Response(body, status_code=answer.status, media_type=JSON)


SYNC = Router(
    PREFIX + "/documents/{document:str}",
    route_handlers=[push_mutations, pull_news, replicache_push, replicache_pull],
    tags=["sync"],
)
