"""Push and pull over HTTP, in Stratalog's own protocol and in Replicache's protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import msgspec
from litestar import Request, Response, Router
from litestar.params import JSONBody

from stratalog.documents import Document
from stratalog.errors import NotFound, OutcomeUnknown, StratalogError
from stratalog.limits import PULL_START_BYTES_MAX
from stratalog.protocol.sync import Pull, Pulled, Push, Pushed
from stratalog.server.bodies import JSON, PLAIN, accepted, encode_body, encoded
from stratalog.server.bodies import Answer as Encoded
from stratalog.server.byte_budgets import bytes_of
from stratalog.server.error_responses import PROBLEMS, response
from stratalog.server.parameters import PREFIX, Name
from stratalog.server.patch_streams import stream_pull
from stratalog.server.push_parts import PARTS, RawPush, RawReplicachePush, check_count, parts_of
from stratalog.server.query_parameters import ANY_QUERY
from stratalog.server.security import Principal
from stratalog.server.service import Served, Service, posting_async
from stratalog.sync.pull import open_pull
from stratalog.sync.push import denies_commit
from stratalog.sync.replicache import ReplicacheAnswer, answer_push, doubles, open_replicache_pull, read_push

__all__ = ["SYNC"]

Asked = Request[Principal, Any, Any]


@posting_async(
    "/push",
    opt={"action": "write", PARTS: RawPush},
    responses={**PROBLEMS, 202: response(Pushed, "queued; a worker will apply the mutations")},
    summary="Apply mutations",
)
async def push_mutations(
    service: Served, request: Asked, organisation: Name, document: Name, data: JSONBody[Push]
) -> Response[Pushed]:
    """The server applies the mutations in order. The response has each mutation's outcome, unless the push is queued.

    If the response is lost, repeat the push: no mutation is applied twice.
    """
    pushed = await _pushed(service, request.user, organisation, document, data)
    return Encoded(pushed, status_code=202 if pushed.queued else 200)


@posting_async("/pull", opt={"action": "read"}, summary="The changes since a cookie")
async def pull_news(
    service: Served, request: Asked, organisation: Name, document: Name, data: JSONBody[Pull]
) -> Response[Pulled]:
    """Returns the changed keys and the last mutation numbers of the group's clients, all of one version.

    A client whose number has not increased is left out, unless the response has the full state. The server streams a
    large patch. If the store fails during the stream, the response ends early.
    """
    who = request.user

    def run() -> Response[Pulled]:
        may_write = partial(service.may, who, "write", organisation, document)
        bytes_of(request.scope).cover_answer(PULL_START_BYTES_MAX)
        opened = open_pull(
            service.document(organisation, document), data, who.id, may_write, start_bytes_max=PULL_START_BYTES_MAX
        )
        if opened.rest is None:
            return encoded(request, opened.start)
        kind = accepted(request.headers.get("accept", ""))
        fields = {name: getattr(opened.start, name) for name in Pulled.__struct_fields__}
        return stream_pull(request, opened, fields, kind, partial(encode_body, kind=kind))

    return await service.run(run)


@posting_async(
    "/replicache/push",
    opt={"action": "write", ANY_QUERY: True, PLAIN: True, PARTS: RawReplicachePush},
    summary="Push from a Replicache client, protocol version 1",
)
async def replicache_push(
    service: Served, request: Asked, organisation: Name, document: Name, data: JSONBody[dict[str, Any]]
) -> Response[dict[str, Any]]:
    """Answers 200 and an empty object if this push or an earlier push applied, rejected or queued every mutation."""
    wanted = read_push(data)
    if isinstance(wanted, ReplicacheAnswer):
        return _answer(wanted)
    return _answer(answer_push(await _pushed(service, request.user, organisation, document, wanted, doubles)))


@posting_async(
    "/replicache/pull",
    opt={"action": "read", ANY_QUERY: True, PLAIN: True},
    summary="Pull from a Replicache client, protocol version 1",
)
async def replicache_pull(
    service: Served, request: Asked, organisation: Name, document: Name, data: JSONBody[dict[str, Any]]
) -> Response[dict[str, Any]]:
    """Returns the patch since the request's cookie. The server streams a large patch."""
    who = request.user

    def run() -> Response[dict[str, Any]]:
        may_write = partial(service.may, who, "write", organisation, document)
        bytes_of(request.scope).cover_answer(PULL_START_BYTES_MAX)
        answer, opened = open_replicache_pull(
            service.document(organisation, document), data, who.id, may_write, start_bytes_max=PULL_START_BYTES_MAX
        )
        if opened is None or opened.rest is None:
            answered = _answer(answer)
            bytes_of(request.scope).settle_answer(len(answered.content))
            return answered
        return stream_pull(request, opened, answer.body, JSON, msgspec.json.encode)

    return await service.run(run)


async def _pushed(
    service: Service,
    who: Principal,
    organisation: str,
    document: str,
    data: Push,
    read: Callable[[Any], Any] = lambda arguments: arguments,
) -> Pushed:
    check_count(len(data.mutations))
    author = who.author or next((mutation.client for mutation in data.mutations), "")

    def push_to(opened: Document) -> Pushed:
        parts = count()

        def apply(part: Push) -> Pushed:
            number = next(parts)
            try:
                return service.push(opened, part, who.id, author)
            except StratalogError as exc:
                if number and denies_commit(exc):
                    raise OutcomeUnknown(f"the first parts of the push were accepted, but {exc.message}") from exc
                raise

        # Do not use a loop: its variable would keep one part in memory while the next part is decoded.
        return _joined(map(apply, parts_of(data, read)))

    def run() -> Pushed:
        held = service.held_document(organisation, document) if data.mutations else None
        if held is not None and data.origin in ("", held.origin):
            # Do not check for a deletion here: a check would cost a read for each push. If the document was deleted,
            # the commit raises NotFound, and the code below opens the document that has the name now.
            with suppress(NotFound):
                return push_to(held)
        return push_to(service.document(organisation, document))

    pushed = await service.in_turn(organisation, document, run)
    service.note_outcomes(organisation, document, pushed.outcomes)
    return pushed


def _joined(parts: Iterable[Pushed]) -> Pushed:
    """Join the results of a push's parts. If any part is queued, the result has no outcomes, and is queued."""
    pushed = list(parts)
    if any(part.queued for part in pushed):
        return Pushed([], queued=True)
    return Pushed([outcome for part in pushed for outcome in part.outcomes])


def _answer(answer: ReplicacheAnswer) -> Response[dict[str, Any]]:
    body: Any = msgspec.json.encode(answer.body)
    return Response(body, status_code=answer.status, media_type=JSON)


SYNC = Router(
    PREFIX + "/documents/{document:str}",
    route_handlers=[push_mutations, pull_news, replicache_push, replicache_pull],
    tags=["sync"],
)
