"""The clients and forks of the world of documents. These objects outlive the simulated processes."""

from __future__ import annotations

import msgspec

from stratalog.protocol import Mutation

__all__ = ["Fork", "Job", "group_of"]


class Job(msgspec.Struct):
    """A client that outlives processes: its mutations, and the number of answered mutations."""

    client: str
    mutations: list[Mutation]
    done: int = 0
    over: bool = False
    busy: str = ""


class Fork(msgspec.Struct):
    """A fork in progress: its mutations, the number of applied mutations, and the answer to its merge, if any."""

    name: str
    mutations: list[Mutation]
    done: int = 0
    merged: bool = False
    refused: bool = False


def group_of(client: str) -> str:
    """Return the group that a client is bound to. Replays and forkers have no group."""
    return f"group of {client}" if client.startswith("client-") else ""
