"""Who asks, and what they may: principals, tokens, and the question put to an application's own rules."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from stratalog.codec import sha256
from stratalog.errors import Forbidden
from stratalog.limits import AUTHOR_BYTES_MAX, TOKEN_BYTES_MAX
from stratalog.server.errors import Refused
from stratalog.server.shares import Holder
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
"""What may be asked of `authorize`. Documents and logs share the first five; records have their own two.

``usage`` is what an organisation stores, and its quotas."""

READING: frozenset[str] = frozenset({"list", "read", "read-record", "usage", "metrics"})
T = TypeVar("T")


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who a request speaks for. Clients are bound to ``id`` at first sight; ``name`` is the author in the history."""

    id: str
    name: str = ""
    read_only: bool = False
    expires_ms: int | None = None
    """When a live connection ends, because the token it came with does."""

    claims: Mapping[str, Any] = {}
    """What else is known, for `authorize` to look at."""

    @property
    def author(self) -> str:
        """What the history says of who it was: the name, else the id, as far as it may be long."""
        return (self.name or self.id).encode(errors="ignore")[:AUTHOR_BYTES_MAX].decode(errors="ignore")


ANONYMOUS = Principal(id="")
"""Everybody, where no authentication is set up; the server is then for its own machine only."""

Authenticate = Callable[[str], Principal | Awaitable[Principal | None] | None]
"""The principal behind a token; None for one that is not good.

A plain function is called on a thread, since it may block. One that says ``blocks = False`` is called at once.
"""

Authorize = Callable[[Principal, Action, str, str], bool | Awaitable[bool]]
"""Whether a principal may do an action to (organisation, name). The name is empty where a list is asked for.

Both are empty where it is asked which organisations have a name: the answer holds only those that he may ``read``.
"""


class StaticTokens:
    """Tokens that are known beforehand, for small setups. Only their hashes are kept."""

    blocks: ClassVar = False

    def __init__(self, tokens: Mapping[str, Principal]) -> None:
        self._principals = {sha256(token.encode()): principal for token, principal in tokens.items() if token}

    def __call__(self, token: str) -> Principal | None:
        """The token's principal. Looked up by hash, so that how long it takes says nothing about the token."""
        return self._principals.get(sha256(token.encode()))


def bearer_token(header: str) -> str:
    """The token in an Authorization header. Raises Refused where there is none, or one of another kind."""
    kind, _, token = header.partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise Refused(401, "unauthenticated", "a bearer token is asked for")
    return token.strip()


async def identify(
    authenticate: Authenticate | None, token: Callable[[], str], pool: Pool, caller: Holder | None = None
) -> Principal:
    """The principal behind the token that ``token`` finds, asked on the pool for an address. Raises Refused."""
    if authenticate is None:
        return ANONYMOUS
    text = token()
    if len(text) > TOKEN_BYTES_MAX:
        raise Refused(401, "unauthenticated", "the token is too long", limit=TOKEN_BYTES_MAX)
    principal = await _settled(pool, caller, authenticate, text)
    if principal is None or not principal.id:
        raise Refused(401, "unauthenticated", "invalid token")
    return principal


def is_expired(principal: Principal, now_ms: int) -> bool:
    """Whether the token that the principal came with has come to its end."""
    return principal.expires_ms is not None and now_ms >= principal.expires_ms


async def permit(
    authorize: Authorize | None, principal: Principal, action: Action, organisation: str, name: str, pool: Pool
) -> None:
    """Return where the principal may do this, asked on the pool. Raises Forbidden, Refused."""
    if principal.read_only and action not in READING:
        raise Forbidden("the token is for reading only", action=action)
    if authorize is None:
        return
    caller: Holder | None = ("principal", principal.id) if principal.id else None
    if not await _settled(pool, caller, authorize, principal, action, organisation, name):
        raise Forbidden("the principal may not do this", action=action, organisation=organisation, name=name)


async def _settled(pool: Pool, caller: Holder | None, function: Callable[..., T | Awaitable[T]], *arguments: Any) -> T:
    """What an application's function answers, be it a coroutine or a plain one, which may block."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)  # type: ignore[no-any-return]
    if getattr(function, "blocks", True):
        answer = await pool.run(partial(function, *arguments), caller=caller)
    else:
        answer = function(*arguments)
    return await answer if inspect.isawaitable(answer) else answer
