"""What the world of documents remembers of its clients and forks, whatever processes come and go."""

from __future__ import annotations

import msgspec

from stratalog.protocol import Mutation

__all__ = ["Fork", "Job", "group_of"]


class Job(msgspec.Struct):
    """A client as the world knows it, whatever processes come and go: its mutations, and how many have an answer."""

    client: str
    mutations: list[Mutation]
    done: int = 0
    over: bool = False
    busy: str = ""


class Fork(msgspec.Struct):
    """A fork on its way: its mutations, how many are applied, whether its merge was answered, and how."""

    name: str
    mutations: list[Mutation]
    done: int = 0
    merged: bool = False
    refused: bool = False


def group_of(client: str) -> str:
    """The group a client is bound to; replays and forkers have none."""
    return f"group of {client}" if client.startswith("client-") else ""
