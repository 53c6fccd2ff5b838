"""A minimal client that keeps the cookie, the content and the last mutation ids from the answers to its pulls."""

from __future__ import annotations

import sys
from typing import Any

from stratalog.documents import Document
from stratalog.protocol import Mutation
from stratalog.protocol.sync import Clear, Cookie, DeleteKey, Pull, Pulled, Push, Pushed
from stratalog.sync.pull import always, pull
from stratalog.sync.push import push
from stratalog.sync.replicache import ReplicacheAnswer, answer_push, open_replicache_pull, read_push


class Follower:
    """A client that pulls for one group and applies each patch."""

    def __init__(self, group: str = "g", owner: str = "") -> None:
        self.group = group
        self.owner = owner
        self.cookie: Cookie | None = None
        self.content: dict[str, Any] = {}
        self.last: dict[str, int] = {}

    def pull(self, document: Document) -> Pulled:
        """Pull, apply the answer and return the answer."""
        pulled = pull(document, Pull(self.group, self.cookie), self.owner)
        self.take(pulled)
        return pulled

    def take(self, pulled: Pulled) -> None:
        """Apply the answer to a pull."""
        for operation in pulled.patch:
            if isinstance(operation, Clear):
                self.content.clear()
            elif isinstance(operation, DeleteKey):
                self.content.pop(operation.key, None)
            else:
                self.content[operation.key] = operation.value
        self.last.update(pulled.last)
        self.cookie = pulled.cookie

    def push(self, document: Document, *mutations: Mutation) -> Pushed:
        """Push mutations of the group."""
        return push(document, Push(self.group, list(mutations)), self.owner)


def push_replicache(document: Document, body: Any, owner: str = "") -> ReplicacheAnswer:
    """Push a Replicache request body, and return the answer of the push endpoint."""
    request = read_push(body)
    return request if isinstance(request, ReplicacheAnswer) else answer_push(push(document, request, owner))


def pull_replicache(document: Document, body: Any, owner: str = "") -> ReplicacheAnswer:
    """Pull in Replicache's protocol, with the whole patch in the answer."""
    return open_replicache_pull(document, body, owner, always, start_bytes_max=sys.maxsize)[0]
