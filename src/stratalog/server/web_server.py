"""Web server: serves the application on a listening socket until a signal. See `docs/decisions/0041-*`."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn
from litestar import Litestar

from stratalog.limits import (
    ANSWER_UNSENT_BYTES_MAX,
    DESCRIPTORS_RESERVED,
    LIVE_MESSAGE_BYTES_MAX,
    REQUEST_HEAD_BYTES_MAX,
)
from stratalog.server.acceptor import Acceptor
from stratalog.server.allocator import give_memory_back
from stratalog.server.connections import HttpProtocol, OpenConnections, WebSocketProtocol, in_pieces
from stratalog.server.handovers import Handovers
from stratalog.server.log_throttle import LogThrottle
from stratalog.server.service import Service
from stratalog.server.shares import Allocation
from stratalog.server.trusted_proxies import TrustedProxies

__all__ = ["WebServer", "connections_within", "serve"]

SHUTDOWN_SECONDS = 5
DEADLINE_CHECK_SECONDS_MAX = 1.0
THREAD_SWITCH_SECONDS = 0.0005
"""The interpreter's switch interval. A request changes threads several times. At each change the request waits up to
one interval for every computing thread. With Python's default of 5 ms a few computing threads delay a request by a
quarter of a second."""

COLLECTION_THRESHOLDS = (500, 5, 400)
"""Python's garbage collector examines generation 0 after 500 net allocations, generation 1 after 3,500, and all objects
after at least 1.4 million. No thread runs Python code during an examination, so every examination must be short. With
the default thresholds, Python examines all objects after 93,000 allocations. These examinations repeatedly stopped a
loaded server for a tenth of a second."""

_log = logging.getLogger("stratalog.server")


def serve(app: Litestar, listening: socket.socket) -> None:
    """Serve until a signal. Then close ``listening`` and finish running requests. Call this in the main thread."""
    give_memory_back()
    server = WebServer(app, listening, _connections_max(app.state.service.application.limits.connections_max))
    # Uvicorn raises the signal again after its own end. The default handler would end the process before the store
    # closes. This handler raises KeyboardInterrupt instead.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt), _tuned_process(app):
            server.run()
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _tuned_process(app: Litestar) -> Iterator[None]:
    """Tune the interpreter until the end of the block, so that requests wait less. Builds the OpenAPI schema first."""
    # Litestar builds the schema on first use, which takes a quarter of a second.
    app.plugins.get("OpenAPIPlugin").provide_openapi_schema()
    before = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    # The objects of the start-up exist as long as the process. So later collections need not examine these objects.
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before[1])
        sys.setswitchinterval(before[0])


class WebServer(uvicorn.Server):
    """Uvicorn with Stratalog's own accept loop, connection deadlines and log throttle."""

    def __init__(self, app: Litestar, listening: socket.socket, connections_max: int) -> None:
        self._service: Service = app.state.service
        limits = self._service.application.limits
        super().__init__(
            uvicorn.Config(
                in_pieces(app),
                access_log=False,
                h11_max_incomplete_event_size=REQUEST_HEAD_BYTES_MAX,
                http=HttpProtocol,
                lifespan="on",
                log_level="warning",
                loop="asyncio",
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                timeout_keep_alive=limits.connection_idle_seconds_max,
                ws=WebSocketProtocol,
                ws_per_message_deflate=False,
                ws_max_size=2 * LIVE_MESSAGE_BYTES_MAX,
            )
        )
        self._listening = listening
        _bound_unsent(listening)
        self._service.connections.bound(connections_max)
        is_shared = self._service.authentication.is_asked
        metrics, clock = self._service.metrics, self._service.store.environment.clock
        self.connections = OpenConnections(limits, connections_max, metrics, clock, is_shared=is_shared)
        proxies = TrustedProxies(self._service.application.trusted_proxies)
        self._acceptor = Acceptor(listening, self._protocol, self.connections, metrics, proxies)
        self._handovers = self._with_siblings()
        self._throttle = LogThrottle(clock)
        shortest_seconds = min(limits.request_head_seconds_max, limits.answer_silence_seconds_max)
        self._check_seconds = min(DEADLINE_CHECK_SECONDS_MAX, shortest_seconds / 4)
        self._running: list[asyncio.Task[None]] = []

    def run(self, sockets: Any = None) -> None:
        """Serve until a signal or `should_exit`, on an event loop with the selector of the connections."""
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(self.connections.turns)) as runner:
            runner.run(self.serve())

    async def serve(self, sockets: Any = None) -> None:
        """Serve until a signal or `should_exit`."""
        with self._throttle.applied():
            await super().serve(sockets=[])

    async def startup(self, sockets: Any = None) -> None:
        """Start the application, and then accept connections."""
        await super().startup(sockets=[])
        if self.started:
            loop = asyncio.get_running_loop()
            if self._handovers is not None:
                self._handovers.receive(self._acceptor.adopt)
            self._running = [loop.create_task(self._acceptor.accept()), loop.create_task(self._check())]

    async def shutdown(self, sockets: Any = None) -> None:
        """Close the listening socket, end live connections, and finish running requests within `SHUTDOWN_SECONDS`."""
        accepting, checking = self._running
        # Before the first wait: a connection that is adopted during a wait would not know that the server stops.
        if self._handovers is not None:
            self._handovers.close()
        accepting.cancel()
        await asyncio.wait([accepting])
        await self._acceptor.set_up()
        # Otherwise the system would queue new connections, and reset them when this process ends. A proxy sends a
        # request to another server if its connection is refused, but not if it is reset.
        self._listening.close()
        # End live connections first: uvicorn waits for responses, and a stream of events never ends by itself.
        self._service.hub.close()
        # Deadlines apply until the last request has ended.
        await super().shutdown(sockets=[])
        if not self.lifespan.shutdown_event.is_set():
            # After a second Ctrl+C, uvicorn leaves the application running. The end of the event loop would cancel the
            # application, and write a traceback. Do not test uvicorn's flag `force_exit` here: the second Ctrl+C may
            # have set it while uvicorn was already ending the application.
            await self.lifespan.shutdown()
        checking.cancel()

    async def _check(self) -> None:
        """Drop overdue connections and report omitted log lines, periodically and for ever."""
        loop, was_late = asyncio.get_running_loop(), False
        while True:
            began = loop.time()
            await asyncio.sleep(self._check_seconds)
            # If this process was stopped, requests of callers wait unread. Read them first: drop no connection before
            # the next check, even if that one is late too.
            is_late = not was_late and loop.time() - began >= 2 * self._check_seconds
            if not is_late:
                await self.connections.drop_overdue(loop.time())
            was_late = is_late
            self._throttle.report()

    def _with_siblings(self) -> Handovers | None:
        """Return the handovers to and from other processes. Return None if this process is alone, or queues pushes."""
        siblings = self._service.siblings
        if siblings is None or siblings.mailboxes is None or not self._service.applies_pushes:
            return None
        is_contended, metrics = self._service.store.is_contended, self._service.metrics
        return Handovers(siblings.process, siblings.running, siblings.mailboxes, is_contended, metrics)

    def _protocol(self, allocation: Allocation, received: bytes) -> HttpProtocol:
        return HttpProtocol(
            self.connections,
            allocation,
            received,
            self._handovers,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )


def _connections_max(wanted: int) -> int:
    """Raise the process's soft limit of descriptors to its hard limit. Return the ``wanted`` limit of connections.

    If the descriptors allow fewer connections, log a warning and return fewer.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The system may refuse, as macOS does for an infinite hard limit. Then the soft limit stays as it is.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    fitting = connections_within(descriptors, wanted)
    if fitting < wanted:
        _log.warning("at most %d connections, not %d: the process may open %d files", fitting, wanted, descriptors)
    return fitting


def connections_within(descriptors: int, wanted: int) -> int:
    """Return how many of the ``wanted`` connections fit into ``descriptors``.

    `DESCRIPTORS_RESERVED` descriptors are reserved for the store's files, for engines and for other services. A process
    with very few descriptors still uses a quarter of its descriptors for connections.
    """
    if descriptors == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(descriptors - DESCRIPTORS_RESERVED, descriptors // 4))


def _bound_unsent(listening: socket.socket) -> None:
    """Bound the unsent bytes of a response that the system buffers. Each accepted connection inherits the option.

    Without this bound the system buffers megabytes for a caller that reads nothing, and the server counts these bytes
    as read.
    """
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None:
        listening.setsockopt(socket.IPPROTO_TCP, option, ANSWER_UNSENT_BYTES_MAX)
