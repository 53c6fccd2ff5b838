"""A deployment on this machine: a gateway, functions in their own processes, and the event source of the queue.

The services are emulators. This module does not use the template of `deploy/aws`. The module `tests.aws.template`
deploys the template.
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
from tests.cloud.sqs_service import ForwardingClock, Service
from tests.processes import ROOT

__all__ = ["ORGANISATION", "Deployed", "Mishaps", "ThroughGateway"]

ORGANISATION = "acme"
BATCH_SIZE = 10
VISIBILITY_SECONDS = 180
# Times after which a fault kills a call: before, during or after its work, in a warm container or a new container.
KILL_SECONDS = (0.0, 0.01, 0.03, 0.5, 0.005)


class Mishaps:
    """Random faults of a function's calls. Each call has a fault with probability ``rate``."""

    def __init__(self, seed: int, rate: float = 0.0) -> None:
        self._chance = random.Random(seed)
        self._count = 0
        self.rate = rate

    def fate(self) -> Fate:
        """Return the fate of the next call: no fault, a kill, a lost answer, or little time left."""
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
        """Return whether a fault of the event source happens. The probability is ``rate``."""
        return self._chance.random() < self.rate


class Deployed:
    """A gateway, the functions behind it, and the queue's event source. Use a `Deployed` in a ``with`` statement."""

    def __init__(self, url: str, store: Store, sqs: Service) -> None:
        self.store = store
        self.mishaps = {"api": Mishaps(0), "processor": Mishaps(0), "sockets": Mishaps(0)}
        self.time = ForwardingClock(sqs.time)
        self._url = url
        self._sqs = sqs
        self._ending = ExitStack()

    def __enter__(self) -> Deployed:
        self.gateway = self._ending.enter_context(Gateway())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.close()

    def serve(self, **environment: str) -> None:
        """Create the functions and the event source, with further environment variables for the functions."""
        self.api = self.gateway.api = self.function("api", **environment)
        self.sockets = self.gateway.sockets = self.function("sockets", **environment)
        self.processor = self.function("processor", **environment)
        self.source = self.event_source(self.processor)

    def function(self, name: str, *, warm: bool = True, **environment: str) -> Function:
        """Create a function of `stratalog.aws` with the environment of this deployment."""
        event = {
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "STRATALOG_STORE": self._url,
            "STRATALOG_SOCKETS": self.gateway.sockets_url,
            **environment,
        }
        made = Function(f"stratalog.aws.{name}.handler", event, warm=warm, fate=lambda: self.mishaps[name].fate())
        self._ending.callback(made.close)
        return made

    def event_source(self, function: Function) -> EventSource:
        """Create an event source from the queue to a function."""
        queue: Any = self.store.queue
        attributes = {"VisibilityTimeout": str(VISIBILITY_SECONDS)}
        self._sqs.client.set_queue_attributes(QueueUrl=queue._url, Attributes=attributes)
        happens = lambda: self.mishaps["processor"].happens()  # noqa: E731
        return EventSource(
            self._sqs.client,
            queue._url,
            function.call,
            batch_size=BATCH_SIZE,
            delivers_again=happens,
            duplicates=happens,
        )

    def document_url(self, document: str) -> str:
        """Return the URL of a document at the gateway."""
        return f"{self.gateway.url}/v1/organisations/{ORGANISATION}/documents/{document}"


class ThroughGateway(InProcess):
    """A transport that sends requests through the gateway, and processes the queue's next batch before each pull."""

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
        """Close the connection. `close` leaves the connection open, because clients call `close` at each restart."""
        self._way.close()
