"""A document in memory, and a transport to it. A test chooses the requests that the transport loses or delays."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import msgspec

from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.client.transport import Stop, Unreached
from stratalog.documents import Document, Rules
from stratalog.errors import OutcomeUnknown, StratalogError
from stratalog.log import Environment, create_log, open_log
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Mutators
from stratalog.protocol.sync import Pull, Pulled, Push, Pushed
from stratalog.sync.pull import pull
from stratalog.sync.push import push
from stratalog.testing.clock import ManualClock

STALE_MAX = 3
Answer = TypeVar("Answer")
Message = TypeVar("Message")


def memory_environment(seed: int = 0) -> Environment:
    """Return an environment in memory. The seed determines the incarnations of its logs."""
    clock = ManualClock(seed=seed)
    return Environment(index=MemoryIndex(), blobs=MemoryBlobs(clock), clock=clock)


def new_document(environment: Environment | None = None, mutators: Mutators = BUILT_IN_MUTATORS) -> Document:
    """Create an empty document in memory."""
    log = create_log(environment or memory_environment(), "acme", "plan", "document")
    return Document(log, Rules(mutators=mutators))


def opened_again(document: Document) -> Document:
    """Open the document again, as another process does."""
    log = open_log(document.log.environment, document.organisation, document.name)
    return Document(log, document.rules)


class InProcess:
    """A transport that encodes and decodes each message, and calls the functions of its servers in turn.

    ``faults`` has one word for each of the next requests. An empty word means no fault.

    - unreached: the client gets no connection.
    - lost-request, lost-answer: the request or its answer is lost. The client gets the same error for both faults.
    - twice: the server gets the request twice, and the client gets the second answer.
    - late: `deliver_late` delivers the request, and the client gets no answer.
    - stale: a pull gets the answer to an earlier pull.
    """

    def __init__(self, *servers: Document, owner: str = "") -> None:
        self.servers = servers
        self.owner = owner
        self.faults: list[str] = []
        self.pushes: list[Push] = []
        self.pulls: list[Pull] = []
        self._late: list[Callable[[], object]] = []
        self._answers: list[Pulled] = []

    def push(self, request: Push) -> Pushed:
        self.pushes.append(request)
        return self._deliver(lambda: self.serve_push(request))

    def pull(self, request: Pull) -> Pulled:
        self.pulls.append(request)
        if self._answers and self.faults[:1] == ["stale"]:
            self.faults.pop(0)
            return self._answers[-min(len(self._answers), STALE_MAX)]
        answer = self._deliver(lambda: self.serve_pull(request))
        self._answers.append(answer)
        return answer

    def listen(self, on_poke: Callable[[], None]) -> Stop:
        return lambda: None

    def close(self) -> None:
        pass

    def serve_push(self, request: Push) -> Pushed:
        """Return the server's answer to a push."""
        return through_bytes(push(self._server(), through_bytes(request), owner=self.owner))

    def serve_pull(self, request: Pull) -> Pulled:
        """Return the server's answer to a pull."""
        return through_bytes(pull(self._server(), through_bytes(request), owner=self.owner))

    def deliver_late(self) -> None:
        """Deliver the late requests in order. Drop their answers and errors."""
        while self._late:
            with suppress(StratalogError):
                self._late.pop(0)()

    def _server(self) -> Document:
        return self.servers[(len(self.pushes) + len(self.pulls)) % len(self.servers)]

    def _deliver(self, serve: Callable[[], Answer]) -> Answer:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "unreached":
            raise Unreached("no connection")
        if fault == "lost-request":
            raise OutcomeUnknown("the request was lost")
        if fault == "late":
            self._late.append(serve)
            raise OutcomeUnknown("the request is still on its way")
        answer = serve()
        if fault == "lost-answer":
            raise OutcomeUnknown("the answer was lost")
        return serve() if fault == "twice" else answer


def through_bytes(message: Message) -> Message:
    """Encode a message, decode it as the other side does, and return the result."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message))
