"""A document in memory and transports to it that lose, repeat and delay what they are told to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.client.transport import Stop, Unreached
from stratalog.documents import Document, Rules
from stratalog.errors import OutcomeUnknown
from stratalog.log import Place, create_log
from stratalog.protocol.mutators import STOCK, Mutators
from stratalog.protocol.sync import Pull, Pulled, Push, Pushed
from stratalog.server.pull import pull
from stratalog.server.push import push
from stratalog.testing.clock import ManualClock

Answer = TypeVar("Answer")
Message = TypeVar("Message")


def memory_place() -> Place:
    """A place of nothing but memory."""
    clock = ManualClock()
    return Place(index=MemoryIndex(), blobs=MemoryBlobs(clock), clock=clock)


def new_document(place: Place | None = None, mutators: Mutators = STOCK) -> Document:
    """An empty document in memory."""
    log = create_log(place or memory_place(), "acme", "plan", "document")
    return Document(log, Rules(mutators=mutators))


class InProcess:
    """Calls the server's functions, by way of the bytes that a socket would carry.

    ``faults`` holds what happens to the next requests, one word each: "lost-request", "lost-answer", "twice",
    "unreached"; a request that finds none goes well.
    """

    def __init__(self, document: Document, owner: str = "") -> None:
        self.document = document
        self.owner = owner
        self.faults: list[str] = []
        self.pushes: list[Push] = []
        self.pulls: list[Pull] = []

    def push(self, request: Push) -> Pushed:
        self.pushes.append(request)
        return self._deliver(lambda: self._push(request))

    def pull(self, request: Pull) -> Pulled:
        self.pulls.append(request)
        return self._deliver(lambda: self._pull(request))

    def listen(self, on_poke: Callable[[], None]) -> Stop:
        return lambda: None

    def close(self) -> None:
        pass

    def _push(self, request: Push) -> Pushed:
        answer = push(self.document, through_bytes(request), owner=self.owner)
        return through_bytes(answer)

    def _pull(self, request: Pull) -> Pulled:
        return through_bytes(pull(self.document, through_bytes(request), owner=self.owner))

    def _deliver(self, deliver: Callable[[], Answer]) -> Answer:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "unreached":
            raise Unreached("no connection")
        if fault == "lost-request":
            raise OutcomeUnknown("the request was lost")
        answer = deliver()
        if fault == "lost-answer":
            raise OutcomeUnknown("the answer was lost")
        return deliver() if fault == "twice" else answer


def through_bytes(message: Message) -> Message:
    """The message as the other side decodes it."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message))
