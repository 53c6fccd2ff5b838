"""A deployment on this machine: a gateway, functions in processes of their own, and the event source of the queue.

What the template says of the wiring is read from it; what it says of the store is the emulators'.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from stratalog.aws.processor import END_SECONDS
from stratalog.client import HttpTransport
from stratalog.protocol.sync import Pull, Pulled, Push, Pushed
from stratalog.store import Store
from tests.aws.event_source import EventSource
from tests.aws.functions import Fate, Function
from tests.aws.gateway import Gateway
from tests.client.helpers import InProcess
from tests.cloud.sqs_service import Service, ToldClock
from tests.processes import ROOT

__all__ = ["ORGANISATION", "Deployed", "Mishaps", "ThroughGateway"]

ORGANISATION = "acme"
BATCH_SIZE = 10
VISIBILITY_SECONDS = 180
# Before it has begun, amid its work, and after it, whether its container was warm or not.
KILL_SECONDS = (0.0, 0.01, 0.03, 0.5, 0.005)


class Mishaps:
    """What befalls calls of functions, by chance."""

    def __init__(self, seed: int, rate: float = 0.0) -> None:
        self._chance = random.Random(seed)
        self._count = 0
        self.rate = rate

    def fate(self) -> Fate:
        """Killed in the middle, answered in vain, or with little time left."""
        if self._chance.random() >= self.rate:
            return Fate()
        self._count += 1
        kind, turn = self._count % 3, self._count // 3
        if kind == 0:
            return Fate(drops_answer=True)
        if kind == 1:
            return Fate(kill_seconds=KILL_SECONDS[turn % len(KILL_SECONDS)])
        return Fate(remaining_seconds=self._chance.uniform(0, 2 * END_SECONDS))

    def happens(self) -> bool:
        """Whether something else goes wrong."""
        return self._chance.random() < self.rate


class Deployed:
    """The functions, behind a gateway, and the queue's event source; use it in a ``with`` statement."""

    def __init__(self, url: str, store: Store, sqs: Service) -> None:
        self.store = store
        self.mishaps = {"api": Mishaps(0), "processor": Mishaps(0), "sockets": Mishaps(0)}
        self.time = ToldClock(sqs.time)
        self._url = url
        self._sqs = sqs
        self._ending = ExitStack()

    def __enter__(self) -> Deployed:
        self.gateway = self._ending.enter_context(Gateway())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.close()

    def serve(self, **environment: str) -> None:
        """Have functions, with these variables besides."""
        self.api = self.gateway.api = self.function("api", **environment)
        self.sockets = self.gateway.sockets = self.function("sockets", **environment)
        self.processor = self.function("processor", **environment)
        self.source = self.event_source(self.processor)

    def function(self, name: str, *, warm: bool = True, **environment: str) -> Function:
        """A function of the package, told of this deployment."""
        told = {
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "STRATALOG_STORE": self._url,
            "STRATALOG_SOCKETS": self.gateway.sockets_url,
            **environment,
        }
        made = Function(f"stratalog.aws.{name}.handler", told, warm=warm, fate=lambda: self.mishaps[name].fate())
        self._ending.callback(made.close)
        return made

    def event_source(self, function: Function) -> EventSource:
        """The wiring of the queue to a function."""
        queue: Any = self.store.queue
        attributes = {"VisibilityTimeout": str(VISIBILITY_SECONDS)}
        self._sqs.client.set_queue_attributes(QueueUrl=queue._url, Attributes=attributes)
        happens = lambda: self.mishaps["processor"].happens()  # noqa: E731
        return EventSource(
            self._sqs.client, queue._url, function.call, batch_size=BATCH_SIZE, delivers_again=happens, keeps=happens
        )

    def work_through(self) -> None:
        """Take batches until the queue has nothing more to give, now or later."""
        idle = 0
        while idle < 2:
            idle = 0 if self.source.poll() else idle + 1
            if idle:
                self.time.sleep(VISIBILITY_SECONDS)

    def document_url(self, document: str) -> str:
        """Its URL at the gateway."""
        return f"{self.gateway.url}/v1/organisations/{ORGANISATION}/documents/{document}"


class ThroughGateway(InProcess):
    """Sends each request through the gateway; while it waits for a pull, the queue's batches are taken through."""

    def __init__(self, deployed: Deployed, document: str, chance: random.Random) -> None:
        super().__init__()
        self._deployed = deployed
        self._chance = chance
        self._way = HttpTransport(deployed.document_url(document))

    def serve_push(self, request: Push) -> Pushed:
        return self._way.push(request)

    def serve_pull(self, request: Pull) -> Pulled:
        self._deployed.source.poll()
        self._deployed.time.sleep(self._chance.random() * VISIBILITY_SECONDS)
        return self._way.pull(request)

    def hang_up(self) -> None:
        """Let go of the connection; `close` is the client's, which is restarted now and then."""
        self._way.close()
