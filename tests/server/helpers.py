"""A client reduced to what it must know: the state and last ids of its cookie, by the patches it was sent."""

from __future__ import annotations

from typing import Any

from stratalog.documents import Document
from stratalog.protocol import Mutation
from stratalog.protocol.sync import Clear, Cookie, DeleteKey, Pull, Pulled, Push, Pushed
from stratalog.sync.pull import pull
from stratalog.sync.push import push
from stratalog.sync.replicache import ReplicacheAnswer, answer_push, read_push


class Follower:
    """Pulls for one group, and keeps what it is sent."""

    def __init__(self, group: str = "g", owner: str = "") -> None:
        self.group = group
        self.owner = owner
        self.cookie: Cookie | None = None
        self.content: dict[str, Any] = {}
        self.last: dict[str, int] = {}

    def pull(self, document: Document) -> Pulled:
        """Pull and take over what came."""
        pulled = pull(document, Pull(self.group, self.cookie), self.owner)
        self.take(pulled)
        return pulled

    def take(self, pulled: Pulled) -> None:
        """Take over an answer."""
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
        """Push for the group."""
        return push(document, Push(self.group, list(mutations)), self.owner)


def push_replicache(document: Document, body: Any, owner: str = "") -> ReplicacheAnswer:
    """A push as Replicache's endpoint takes and answers it."""
    request = read_push(body)
    return request if isinstance(request, ReplicacheAnswer) else answer_push(push(document, request, owner))
