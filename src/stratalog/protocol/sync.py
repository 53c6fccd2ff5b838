"""The messages of a client and a server about one document: push, pull, and the cookie that orders pulls.

A push contains mutations in order. A pull returns, from one version, the changes since the cookie and the last mutation
numbers of the group's clients. `formats/sync.md` describes the bytes and the rules.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stratalog.protocol.messages import Mutation, Outcome

__all__ = [
    "PATH_HEADER",
    "Clear",
    "Cookie",
    "DeleteKey",
    "Operation",
    "Pull",
    "Pulled",
    "Push",
    "Pushed",
    "PutKey",
    "Rejection",
]

PATH_HEADER = "stratalog-path"
"""The header in which a client repeats the escaped path of a request, because some gateways unescape the path."""


class Cookie(msgspec.Struct, frozen=True):
    """The position of a client's canonical state: a version of a history."""

    order: int
    """A number that grows with each response that changes the cookie, even after a restore or for another document."""

    origin: str
    """The log's origin; for a fork, the hash at its fork point. Clients' numbers are valid within one origin."""

    version: int
    hash: str = ""
    """The hash that names the history up to the version, in hexadecimal."""

    group: str = ""
    """The group that received this cookie."""

    last: dict[str, int] = {}
    """The last mutation numbers that the server reported, for at most `COOKIE_CLIENTS_MAX` clients of the group.

    A restored server may have lower numbers. The server raises its numbers to the numbers in the cookie.
    """


class PutKey(msgspec.Struct, frozen=True, tag="put", tag_field="op"):
    """Set a key."""

    key: str
    value: Any


class DeleteKey(msgspec.Struct, frozen=True, tag="del", tag_field="op"):
    """Remove a key, if it exists."""

    key: str


class Clear(msgspec.Struct, frozen=True, tag="clear", tag_field="op"):
    """Remove every key: the operations after this operation give the whole state."""


Operation = PutKey | DeleteKey | Clear


class Push(msgspec.Struct, frozen=True):
    """Mutations of one group's clients, in order of id for each client.

    A client repeats the mutations until a pull confirms them.
    """

    group: str
    mutations: list[Mutation]

    origin: str = ""
    """The origin in the client's cookie, or empty. With an origin, a push for a deleted document cannot change a newer
    document of the same name."""


class Pushed(msgspec.Struct, frozen=True):
    """The outcome of each mutation, in the push's order. ``queued`` means that a worker will apply the push later."""

    outcomes: list[Outcome]
    queued: bool = False


class Pull(msgspec.Struct, frozen=True):
    """A group's request for the changes since ``cookie``. A cookie of None requests the full state."""

    group: str
    cookie: Cookie | None = None


class Rejection(msgspec.Struct, frozen=True):
    """A mutation of the group that was committed without effect, and the reason."""

    client: str
    id: int
    reason: str


class Pulled(msgspec.Struct, frozen=True):
    """The state and the last mutation numbers at one version, as changes since the cookie.

    ``last`` contains the clients of the group whose last mutation number increased, or all clients of the group if
    ``patch`` has the full state. A client whose number is lower than a number reported earlier is left out. Each
    mutation up to its client's number in ``last`` was applied or rejected here, or was confirmed on a branch that the
    server has lost; see ``lost``. ``rejected`` has the rejections since the cookie.
    ``rejected`` is empty if ``patch`` has the full state, or if more than `REJECTIONS_SHOWN_VERSIONS` versions were
    committed since the cookie.
    """

    cookie: Cookie
    last: dict[str, int]
    patch: list[Operation]
    rejected: list[Rejection] = []
    lost: dict[str, list[tuple[int, int]]] = {}
    """For each client, ranges (above, up to) of mutations that were confirmed on a branch that the server has lost."""
