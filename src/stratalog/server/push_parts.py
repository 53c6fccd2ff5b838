"""Push parts: split a large push into parts. The server decodes and applies one part after the other.

Decoded values may take many times the memory of the push's bytes. So the server decodes only the names and numbers of a
large push at once, and the arguments one part at a time. The server checks the whole push before it applies the first
part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from stratalog.errors import LimitExceeded
from stratalog.limits import MUTATIONS_PER_BATCH_MAX, MUTATIONS_PER_PUSH_MAX, PUSH_PART_DECODED_BYTES
from stratalog.protocol.messages import Mutation, Undecodable
from stratalog.protocol.sync import Push
from stratalog.sync.push import check_push

__all__ = ["PARTS", "RawArguments", "RawPush", "RawReplicachePush", "check_count", "parts_of"]

PARTS = "parts"
"""The handler option with the struct to which a large push is decoded."""


class RawArguments:
    """A mutation's arguments, still encoded. ``decoded_bytes`` bounds the memory of the decoded arguments."""

    __slots__ = ("_decode", "_raw", "decoded_bytes")

    def __init__(self, raw: msgspec.Raw, decoded_bytes: int, decode: Callable[[msgspec.Raw], Any]) -> None:
        self._raw = raw
        self._decode = decode
        self.decoded_bytes = decoded_bytes

    def decode(self) -> Any:
        """Return the decoded arguments."""
        return self._decode(self._raw)


Open = Callable[[msgspec.Raw], RawArguments | Undecodable | None]
"""Checks encoded arguments. Returns `Undecodable` for arguments that cannot be decoded, and None for no arguments.

Raises LimitExceeded.
"""


class _RawMutation(msgspec.Struct, frozen=True, gc=False):
    client: str
    name: str
    args: msgspec.Raw = msgspec.Raw()
    id: int = 0
    origin: tuple[str, int] | None = None


class RawPush(msgspec.Struct, frozen=True):
    """A push whose arguments are not decoded."""

    group: str
    mutations: list[_RawMutation]
    origin: str = ""

    def opened(self, open_arguments: Open) -> Push:
        """Return the push with checked, still encoded arguments. Raises Invalid, LimitExceeded."""
        check_count(len(self.mutations))
        return Push(
            self.group,
            [
                Mutation(client=raw.client, name=raw.name, args=open_arguments(raw.args), id=raw.id, origin=raw.origin)
                for raw in self.mutations
            ],
            self.origin,
        )


class _RawReplicacheMutation(msgspec.Struct, frozen=True, gc=False, rename={"client": "clientID"}):
    client: str
    id: int
    name: str
    args: msgspec.Raw = msgspec.Raw()


class RawReplicachePush(msgspec.Struct, frozen=True, rename={"version": "pushVersion", "group": "clientGroupID"}):
    """A push of Replicache's protocol whose arguments are not decoded."""

    version: int
    group: str
    mutations: list[_RawReplicacheMutation]

    def opened(self, open_arguments: Open) -> dict[str, Any]:
        """Return the body with checked, still encoded arguments. Raises Invalid, LimitExceeded."""
        check_count(len(self.mutations))
        mutations = [
            {"clientID": raw.client, "id": raw.id, "name": raw.name, "args": open_arguments(raw.args)}
            for raw in self.mutations
        ]
        return {"pushVersion": self.version, "clientGroupID": self.group, "mutations": mutations}


def check_count(count: int) -> None:
    """Raise LimitExceeded for a push of too many mutations."""
    if count > MUTATIONS_PER_PUSH_MAX:
        raise LimitExceeded("a push has too many mutations", value=count, limit=MUTATIONS_PER_PUSH_MAX)


def parts_of(push: Push, read: Callable[[Any], Any] = lambda value: value) -> Iterator[Push]:
    """Yield the push in parts, to be applied in order. Each part is decoded only when the caller takes it.

    A part has at most `MUTATIONS_PER_BATCH_MAX` mutations. A part of several mutations decodes to at most
    `PUSH_PART_DECODED_BYTES`. A push without `RawArguments` is one part and is not checked here. ``read`` converts
    decoded arguments to the mutation's arguments. Raises the errors of `check_push` for a wrong name or number anywhere
    in the push, before the first part.
    """
    if not any(isinstance(mutation.args, RawArguments) for mutation in push.mutations):
        yield push
        return
    # Check the whole push first. Otherwise the server could refuse a later part after it applied the earlier parts.
    check_push(push)
    part: list[Mutation] = []
    size = 0
    for mutation in push.mutations:
        added = mutation.args.decoded_bytes if isinstance(mutation.args, RawArguments) else 0
        if part and (size + added > PUSH_PART_DECODED_BYTES or len(part) == MUTATIONS_PER_BATCH_MAX):
            yield msgspec.structs.replace(push, mutations=part)
            part, size = [], 0
        part.append(_decoded(mutation, read))
        size += added
    yield msgspec.structs.replace(push, mutations=part)


def _decoded(mutation: Mutation, read: Callable[[Any], Any]) -> Mutation:
    if not isinstance(mutation.args, RawArguments):
        return mutation
    return msgspec.structs.replace(mutation, args=read(mutation.args.decode()))
