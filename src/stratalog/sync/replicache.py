"""Push and pull in the Replicache protocol, version 1: an unmodified Replicache client syncs a document.

The client treats only status 200 as success, and never repeats a push after a 200. So the server sends 200 only if the
whole push was committed, now or earlier, or is durably queued. Instructions to the client, such as ClientStateNotFound,
also have status 200, with an ``error`` in the body.
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeVar

import msgspec

from stratalog.documents import Document
from stratalog.errors import Collected, Invalid
from stratalog.limits import INTEGER_MAX, JSON_DEPTH_MAX
from stratalog.protocol.messages import Mutation, Outcome
from stratalog.protocol.sync import Clear, Cookie, Pull, Pulled, Push, Pushed
from stratalog.struct_types import resolved
from stratalog.sync.pull import MayWrite, OpenPull, open_pull

__all__ = [
    "ReplicacheAnswer",
    "answer_pull",
    "answer_push",
    "client_state_not_found",
    "doubles",
    "open_replicache_pull",
    "read_pull",
    "read_push",
]

VERSION = 1
DOUBLE_MAX = 10**308
UNAPPLIED = frozenset({"gap", "mismatch", "unknown-client"})

Shape = TypeVar("Shape")


class ReplicacheAnswer(msgspec.Struct, frozen=True):
    """The response: an HTTP status, and a body that msgspec writes as JSON. Bytes in the body become base64 text."""

    status: int
    body: dict[str, Any]


class _Mutation(msgspec.Struct, frozen=True):
    client: str = msgspec.field(name="clientID")
    id: int
    name: str
    args: Any = None


class _Push(msgspec.Struct, frozen=True):
    group: str = msgspec.field(name="clientGroupID")
    mutations: list[_Mutation]


class _Pull(msgspec.Struct, frozen=True):
    group: str = msgspec.field(name="clientGroupID")
    cookie: Any = None


def open_replicache_pull(
    document: Document, body: Any, owner: str, may_write: MayWrite, *, start_bytes_max: int
) -> tuple[ReplicacheAnswer, OpenPull | None]:
    """Return the response to a pull with the decoded JSON ``body``, and the open pull with the rest of its patch.

    The open pull is None if the response has no patch. Otherwise the response's body has the start of the patch, with
    at most ``start_bytes_max`` bytes of values. Raises `pull`'s errors except Collected.
    """
    request = read_pull(body)
    if isinstance(request, ReplicacheAnswer):
        return request, None
    try:
        opened = open_pull(document, request, owner, may_write, start_bytes_max=start_bytes_max)
    except Collected:
        return client_state_not_found(), None
    if _is_foreign(request, opened.start):
        return client_state_not_found(), None
    return answer_pull(opened.start), opened


def read_push(body: Any) -> Push | ReplicacheAnswer:
    """Return the push in ``body``, or the response to a push of an unsupported version. Raises Invalid."""
    if _version(body, "pushVersion") != VERSION:
        return _version_not_supported("push")
    read = _converted(body, _Push)
    mutations = [
        Mutation(client=mutation.client, id=mutation.id, name=mutation.name, args=doubles(mutation.args))
        for mutation in read.mutations
    ]
    return Push(read.group, mutations)


def read_pull(body: Any) -> Pull | ReplicacheAnswer:
    """Return the pull in ``body``, or the response to a pull of an unsupported version. Raises Invalid."""
    if _version(body, "pullVersion") != VERSION:
        return _version_not_supported("pull")
    read = _converted(body, _Pull)
    return Pull(read.group, _cookie(read.cookie))


def answer_push(pushed: Pushed) -> ReplicacheAnswer:
    """Return the response to a push with these outcomes."""
    statuses = {outcome.status for outcome in pushed.outcomes}
    if "wrong-group" in statuses:
        return ReplicacheAnswer(403, {"code": "forbidden", "message": "a client or its group is bound to others"})
    if "collected" in statuses:
        return client_state_not_found()
    # After a restore the client's next pull adds an unknown client to the document again. ClientStateNotFound would
    # make the client drop its mutations.
    if unapplied := [outcome for outcome in pushed.outcomes if outcome.status in UNAPPLIED]:
        return ReplicacheAnswer(409, {"code": "conflict", "message": _why(unapplied[0])})
    return ReplicacheAnswer(200, {})


def answer_pull(pulled: Pulled) -> ReplicacheAnswer:
    """Return the response for a pull. The protocol cannot express why a mutation was rejected."""
    return ReplicacheAnswer(200, {"cookie": pulled.cookie, "lastMutationIDChanges": pulled.last, "patch": pulled.patch})


def client_state_not_found() -> ReplicacheAnswer:
    """Return the response after which a client begins again as a new group.

    The client keeps its cookie in the new group. So the reason for this response must lie in the group, not in the
    cookie: otherwise the new group would get the same response.
    """
    return ReplicacheAnswer(200, {"error": "ClientStateNotFound"})


def _is_foreign(request: Pull, pulled: Pulled) -> bool:
    """Return whether the response is the whole state, and the document has no client that the cookie names.

    In this case no client of the cookie's group could push again.
    """
    cookie = request.cookie
    if cookie is None or cookie.group != request.group or not cookie.last:
        return False
    return pulled.patch[:1] == [Clear()] and not cookie.last.keys() & pulled.last.keys()


def _version_not_supported(kind: Literal["push", "pull"]) -> ReplicacheAnswer:
    return ReplicacheAnswer(200, {"error": "VersionNotSupported", "versionType": kind})


def _version(body: Any, name: str) -> Any:
    if not isinstance(body, dict):
        raise Invalid("a request's body must be an object")
    return body.get(name)


def _converted(body: Any, shape: type[Shape]) -> Shape:
    try:
        return msgspec.convert(body, resolved(shape))
    except msgspec.ValidationError as exc:
        raise Invalid("the request's body has the wrong shape", reason=str(exc)) from exc


def _cookie(cookie: Any) -> Cookie | None:
    """Return the cookie of a request.

    If the cookie comes from another server, return a cookie that has only its order: the order of the next cookie must
    be higher.
    """
    if cookie is None:
        return None
    try:
        return msgspec.convert(cookie, resolved(Cookie))
    except msgspec.ValidationError:
        order: Any = cookie.get("order") if isinstance(cookie, dict) else cookie
    if type(order) not in (int, float) or not abs(order) < INTEGER_MAX:
        raise Invalid("a cookie of another server must have a numeric order", value=repr(order))
    return Cookie(max(0, math.floor(order)), origin="", version=0)


def doubles(value: Any, depth: int = JSON_DEPTH_MAX) -> Any:
    """Return ``value`` with integers from 2^53 to `DOUBLE_MAX`, of either sign, as the doubles that JavaScript had.

    Values nested more than ``depth`` levels deep stay as they are.
    """
    if type(value) is int and INTEGER_MAX < abs(value) <= DOUBLE_MAX:
        return float(value)
    if depth and isinstance(value, list):
        return [doubles(item, depth - 1) for item in value]
    if depth and isinstance(value, dict):
        return {name: doubles(item, depth - 1) for name, item in value.items()}
    return value


def _why(outcome: Outcome) -> str:
    if outcome.status == "unknown-client":
        return f"the client is unknown here; a pull comes first: client={outcome.client} id={outcome.id}"
    if outcome.status == "gap":
        return f"a mutation comes too early: client={outcome.client} id={outcome.id} expected={outcome.expected}"
    return f"another mutation was committed under the number: client={outcome.client} id={outcome.id}"
