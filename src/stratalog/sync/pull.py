"""Pull: what is new since a cookie, all of it read from one version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stratalog.codec import decode
from stratalog.documents import Document
from stratalog.documents.changes import Changes, Member, changes_since, member_of, members, rejections
from stratalog.documents.state import State
from stratalog.errors import Collected, Forbidden, Invalid, NotFound
from stratalog.limits import INTEGER_MAX, REJECTIONS_SHOWN_VERSIONS
from stratalog.protocol.messages import check_identity
from stratalog.protocol.sync import Clear, Cookie, DeleteKey, Operation, Pull, Pulled, PutKey, Rejection

__all__ = ["pull"]


def pull(document: Document, request: Pull, owner: str = "") -> Pulled:
    """What is new at the head since the request's cookie, and how far the group's clients have got there.

    A cookie of another incarnation, or of a version that is forgotten or not there, is answered with the whole state.
    The answer is for a client whose state is still that of the cookie it asked with.

    Raises Invalid for a group or cookie that cannot be; Collected where the group's clients were collected; Forbidden
    where a client of which it would tell belongs to another owner; NotFound, Unavailable, Corrupt.
    """
    check_identity(request.group, "group")
    if request.cookie is not None:
        _check_cookie(request.cookie)
    state = document.state()
    if state.group_collected(request.group):
        raise Collected("the group's clients were collected", group=request.group)
    since = _usable(document, state, request.cookie)
    if since is None:
        return _complete(document, state, request, owner)
    if since.version == state.version:
        return Pulled(since, {}, [])
    try:
        changes = changes_since(document.log, state, since.version)
        return _news(document, state, changes, request.group, since, owner)
    except NotFound:
        return _complete(document, state, request, owner)


def _check_cookie(cookie: Cookie) -> None:
    check_identity(cookie.incarnation, "incarnation", empty=True)
    for number in (cookie.order, cookie.version):
        if type(number) is not int or not 0 <= number <= INTEGER_MAX:
            raise Invalid("a cookie's number lies outside its range", value=number, limit=INTEGER_MAX)


def _usable(document: Document, state: State, cookie: Cookie | None) -> Cookie | None:
    """The cookie, where it speaks of a version that this document has and can still be compared with."""
    log = document.log
    if cookie is None or cookie.incarnation != log.record.incarnation:
        return None
    return cookie if max(log.first, state.floor) <= cookie.version <= state.version else None


def _complete(document: Document, state: State, request: Pull, owner: str) -> Pulled:
    """Everything, under an order that no client of the request's cookie has passed."""
    last = _last_ids(members(state, request.group), owner)
    patch: list[Operation] = [Clear()]
    patch += (PutKey(key, decode(document.values.load(slot.value))) for key, slot in state.scan())
    return Pulled(_fresh_cookie(document, state, request.cookie), last, patch)


def _news(document: Document, state: State, changes: Changes, group: str, since: Cookie, owner: str) -> Pulled:
    last = _last_ids(_of_group(state, changes.clients, group), owner)
    return Pulled(
        _cookie(since.order + state.version - since.version, document, state),
        last,
        [_operation(document, state, key) for key in sorted(changes.keys)],
        _rejected(document, state, since.version, set(last)),
    )


def _of_group(state: State, clients: Iterable[str], group: str) -> Iterator[Member]:
    candidates = (member_of(state, client) for client in sorted(clients))
    return (member for member in candidates if member is not None and member.group == group)


def _last_ids(group_members: Iterable[Member], owner: str) -> dict[str, int]:
    last = {}
    for member in group_members:
        if member.owner != owner:
            raise Forbidden("the group belongs to another principal", group=member.group)
        last[member.client] = member.id
    return last


def _operation(document: Document, state: State, key: str) -> Operation:
    slot = state.slot(key)
    return DeleteKey(key) if slot is None else PutKey(key, decode(document.values.load(slot.value)))


def _rejected(document: Document, state: State, since: int, clients: set[str]) -> list[Rejection]:
    """The rejections of these clients since; none where that is too long ago."""
    if not clients or state.version - since > REJECTIONS_SHOWN_VERSIONS:
        return []
    rejected = rejections(document.log, since, state.version, clients)
    return [Rejection(mutation.client, mutation.id, mutation.reason or "") for mutation in rejected]


def _fresh_cookie(document: Document, state: State, cookie: Cookie | None) -> Cookie:
    if cookie is None:
        return _cookie(state.version, document, state)
    if cookie.incarnation == document.log.record.incarnation and cookie.version <= state.version:
        return _cookie(cookie.order + state.version - cookie.version, document, state)
    return _cookie(max(state.version, cookie.order + 1), document, state)


def _cookie(order: int, document: Document, state: State) -> Cookie:
    if order > INTEGER_MAX:
        raise Invalid("a cookie's order leaves its range", value=order, limit=INTEGER_MAX)
    return Cookie(order, document.log.record.incarnation, state.version)
