"""What a client and a server say to each other about one document: push, pull, and the cookie that orders pulls.

A push carries mutations in order; a pull answers, from one version, what changed since the cookie and how far each
client of the group has got. `formats/sync.md` describes the bytes and the rules.
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
"""The header in which a request says its path once more, still escaped, for a gateway that unescapes it."""


class Cookie(msgspec.Struct, frozen=True):
    """Where a client's canonical state stands: at which version of which history."""

    order: int
    """Grows with each answer, also where the document is another, or went back to an older backup."""

    origin: str
    """Where the document's history begins. Its clients' numbers belong to it: a fork begins another."""

    version: int
    hash: str = ""
    """Names the history up to the version, in hexadecimal."""

    group: str = ""
    """The group that it was given to."""

    last: dict[str, int] = {}
    """The numbers that the group's clients were told, at most `COOKIE_CLIENTS_MAX`. A restored server may have less."""


class PutKey(msgspec.Struct, frozen=True, tag="put", tag_field="op"):
    """Set a key."""

    key: str
    value: Any


class DeleteKey(msgspec.Struct, frozen=True, tag="del", tag_field="op"):
    """Remove a key; removing none is fine."""

    key: str


class Clear(msgspec.Struct, frozen=True, tag="clear", tag_field="op"):
    """Remove every key: what follows is the whole state."""


Operation = PutKey | DeleteKey | Clear


class Push(msgspec.Struct, frozen=True):
    """Mutations of one group's clients, those of a client in the order of their ids. Sent again until confirmed."""

    group: str
    mutations: list[Mutation]

    origin: str = ""
    """That of the cookie the client holds, if any: what was meant for a deleted document does not touch its heir."""


class Pushed(msgspec.Struct, frozen=True):
    """What became of each mutation, in the push's order; ``queued`` where a worker will apply them later."""

    outcomes: list[Outcome]
    queued: bool = False


class Pull(msgspec.Struct, frozen=True):
    """A group asks what is new since ``cookie``; None asks for everything."""

    group: str
    cookie: Cookie | None = None


class Rejection(msgspec.Struct, frozen=True):
    """A mutation of the group that was committed without effect, and why."""

    client: str
    id: int
    reason: str


class Pulled(msgspec.Struct, frozen=True):
    """State and last mutation ids of one version, as changes since the cookie.

    ``last`` holds the clients of the group whose last mutation id moved. A mutation at or below it that is not among
    ``rejected`` was applied, or was rejected so long ago that the reason has to be asked for.
    """

    cookie: Cookie
    last: dict[str, int]
    patch: list[Operation]
    rejected: list[Rejection] = []
    lost: dict[str, list[tuple[int, int]]] = {}
    """Client → ranges (above, up to) of mutations that were confirmed, and that went with branches the server lost."""
