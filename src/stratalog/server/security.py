"""Security: principals, tokens, and the calls of an application's own rules of authentication and authorisation."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import msgspec

from stratalog.codec import sha256
from stratalog.errors import Forbidden
from stratalog.limits import AUTHOR_BYTES_MAX, TOKEN_BYTES_MAX
from stratalog.server.errors import Refused
from stratalog.server.shares import Holder

if TYPE_CHECKING:
    from stratalog.server.thread_pool import Pool

__all__ = [
    "ANONYMOUS",
    "Action",
    "Authenticate",
    "Authorize",
    "Principal",
    "StaticTokens",
    "bearer_token",
    "identify",
    "is_expired",
    "permit",
]

Action = Literal["list", "read", "write", "create", "delete", "read-record", "write-record", "usage", "metrics"]
"""The actions that `authorize` decides. The first five apply to documents and logs, the next two to records.

``usage`` reads the stored amounts of an organisation and its quotas. ``metrics`` reads the server's metrics."""

READING: frozenset[str] = frozenset({"list", "read", "read-record", "usage", "metrics"})
T = TypeVar("T")


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The party that makes a request.

    The first mutation of a client binds the client to ``id``. ``name`` is the author in the history.
    """

    id: str
    name: str = ""
    read_only: bool = False
    expires_ms: int | None = None
    """The time at which the token expires. Its live connections then end.

    None for a token that does not expire."""

    claims: Mapping[str, Any] = {}
    """Further facts about the principal, for `authorize`."""

    @property
    def author(self) -> str:
        """The author in the history: the name, or else the id, cut to `AUTHOR_BYTES_MAX`."""
        return (self.name or self.id).encode(errors="ignore")[:AUTHOR_BYTES_MAX].decode(errors="ignore")


ANONYMOUS = Principal(id="")
"""The principal of every caller of a server without authentication, and of every caller of an open path."""

Authenticate = Callable[[str], Principal | Awaitable[Principal | None] | None]
"""Returns the principal of a token, or None for an invalid token.

A synchronous function may block. So the server calls it on a thread, unless its attribute ``blocks`` is False.
"""

Authorize = Callable[[Principal, Action, str, str], bool | Awaitable[bool]]
"""Returns whether a principal may do an action on (organisation, name). The name is empty for lists and ``usage``.

Organisation and name are empty for ``metrics``, and for the list of organisations that have a given name. This list
contains only organisations in which the principal may ``read`` the document or log of this name.
"""


class StaticTokens:
    """An `Authenticate` with a fixed table of tokens, for small setups. Stores only the tokens' hashes."""

    blocks: ClassVar = False

    def __init__(self, tokens: Mapping[str, Principal]) -> None:
        self._principals = {sha256(token.encode()): principal for token, principal in tokens.items() if token}

    def __call__(self, token: str) -> Principal | None:
        """Return the token's principal. The lookup is by hash, so its duration reveals nothing about the token."""
        return self._principals.get(sha256(token.encode()))


def bearer_token(header: str) -> str:
    """Return the token of an Authorization header. Raises Refused for a missing token or another scheme."""
    kind, _, token = header.partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise Refused(401, "unauthenticated", "a bearer token is required")
    return token.strip()


async def identify(
    authenticate: Authenticate | None, token: str, pool: Pool, caller: Holder | None = None
) -> Principal:
    """Return the principal of ``token``. Raises Refused for an invalid token or a full ``pool``.

    A synchronous ``authenticate`` runs on ``pool``, for ``caller``. Without ``authenticate`` every caller is anonymous.
    """
    if authenticate is None:
        return ANONYMOUS
    if len(token) > TOKEN_BYTES_MAX:
        raise Refused(401, "unauthenticated", "the token is too long", limit=TOKEN_BYTES_MAX)
    principal = await _settled(pool, caller, authenticate, token)
    if principal is None or not principal.id:
        raise Refused(401, "unauthenticated", "invalid token")
    return principal


def is_expired(principal: Principal, now_ms: int) -> bool:
    """Whether the principal's token has expired."""
    return principal.expires_ms is not None and now_ms >= principal.expires_ms


async def permit(
    authorize: Authorize | None, principal: Principal, action: Action, organisation: str, name: str, pool: Pool
) -> None:
    """Raise Forbidden unless the principal may do the action.

    A synchronous ``authorize`` runs on ``pool``. Raises Refused when the pool is full.
    """
    if principal.read_only and action not in READING:
        raise Forbidden("the token is read-only", action=action)
    if authorize is None:
        return
    caller: Holder | None = ("principal", principal.id) if principal.id else None
    if not await _settled(pool, caller, authorize, principal, action, organisation, name):
        raise Forbidden("the principal may not do this", action=action, organisation=organisation, name=name)


async def _settled(pool: Pool, caller: Holder | None, function: Callable[..., T | Awaitable[T]], *arguments: Any) -> T:
    """Return the result of an application's function, which may be a coroutine function or a synchronous function."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)  # type: ignore[no-any-return]
    if getattr(function, "blocks", True):
        answer = await pool.run(partial(function, *arguments), caller=caller)
    else:
        answer = function(*arguments)
    # A synchronous function may still return an awaitable, as an async `__call__` does.
    return await answer if inspect.isawaitable(answer) else answer
