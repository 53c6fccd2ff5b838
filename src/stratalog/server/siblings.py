"""Siblings: the messages between the processes of one server. These processes share one listening socket.

Each process has a stream to the supervisor (`processes.py`), which passes every line of one process to all other
processes. A line is one JSON object with a ``type``. A process reports a commit by a hint, and presence by the states
of single connections.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from stratalog.limits import SIBLING_LINE_BYTES_MAX, SIBLING_METRICS_SECONDS_MAX
from stratalog.ports.announcements import Heard
from stratalog.protocol.live import PresentPrincipal
from stratalog.server.handovers import Mailboxes

__all__ = [
    "Committed",
    "ConnectionPresence",
    "Ended",
    "Line",
    "MetricsRequest",
    "MetricsResponse",
    "PresenceRequest",
    "Siblings",
    "Started",
]


class Started(msgspec.Struct, frozen=True, tag="started"):
    """The process has started: it is about to accept the connections that wait at the socket."""

    process: int


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The supervisor reports that a process has ended. The presence of the process's connections ends too."""

    process: int


class Committed(msgspec.Struct, frozen=True, tag="committed"):
    """A hint that a log has new entries."""

    organisation: str
    name: str


class PresenceRequest(msgspec.Struct, frozen=True, tag="presence-request"):
    """A process has its first listener of a document, and needs the presence of the connections of other processes."""

    organisation: str
    name: str


class ConnectionPresence(msgspec.Struct, frozen=True, tag="connection-presence"):
    """The presence of one connection. A ``state`` of None withdraws the presence."""

    process: int
    organisation: str
    name: str
    incarnation: str
    id: str
    state: Any
    principal: PresentPrincipal


class MetricsRequest(msgspec.Struct, frozen=True, tag="metrics-request"):
    """A process needs the metrics of all other processes."""

    process: int
    number: int


class MetricsResponse(msgspec.Struct, frozen=True, tag="metrics-response"):
    """The metrics of one process, in Prometheus's text format, for the process ``to``."""

    process: int
    to: int
    number: int
    text: str


Line = Started | Ended | Committed | PresenceRequest | ConnectionPresence | MetricsRequest | MetricsResponse
_decode = msgspec.json.Decoder(Line).decode


_log = logging.getLogger("stratalog.server")


async def _no_metrics() -> str:
    return ""


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[Line]:
    """Yield the lines of a stream until its end. Drop each line that is too long, or that is not a message."""
    is_rest = False
    while True:
        try:
            text = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as exc:
            await reader.readexactly(exc.consumed)
            is_rest = True
            continue
        except asyncio.IncompleteReadError:
            return
        try:
            line = None if is_rest else _decode(text)
        except (msgspec.DecodeError, RecursionError):
            line = None
        is_rest = False
        if line is not None:
            yield line
        else:
            _log.error("a message from another process is too long or malformed, and is dropped")


class _PendingMetrics:
    """The responses to a request for metrics so far."""

    def __init__(self, texts: dict[int, str]) -> None:
        self.texts = texts
        self.complete = asyncio.Event()


class Siblings:
    """The other processes of this process's server. Used from the event loop, except for `announce`.

    This class also implements the store's announcements. A hint reaches only the other processes of this server.
    """

    def __init__(
        self, connection: socket.socket, process: int, processes: int, mailboxes: Mailboxes | None = None
    ) -> None:
        self.process = process
        """The number of this process, from 0 to ``processes`` - 1."""

        self.running = set(range(processes))
        """The numbers of the processes that run, as far as this process knows."""

        self.mailboxes = mailboxes
        """The mailboxes for handovers of connections. None if there are no handovers."""

        self._processes = processes
        self.presence: Callable[[PresenceRequest | ConnectionPresence | Ended], None] = lambda line: None
        """Called for each line about presence."""

        self.metrics: Callable[[], Awaitable[str]] = _no_metrics
        """Returns the metrics of this process, in Prometheus's text format."""

        self._connection = connection
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._heard: Heard = lambda organisation, name: None
        self._requests: dict[int, _PendingMetrics] = {}
        self._responding: set[asyncio.Task[None]] = set()
        self._number = 0

    async def run(self) -> None:
        """Read the lines of the other processes until cancelled.

        If the supervisor ends, end this process by SIGTERM.
        """
        self._loop = asyncio.get_running_loop()
        reader, self._writer = await asyncio.open_unix_connection(sock=self._connection, limit=SIBLING_LINE_BYTES_MAX)
        self.send(Started(self.process))
        try:
            with suppress(ConnectionError):
                async for line in _lines(reader):
                    self._take(line)
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            self._writer.close()
            self._writer = None

    def send(self, line: Line) -> bool:
        """Send a line to all other processes. Return False, and send nothing, if the line is too long.

        A line is lost if `run` has not begun, or has ended.
        """
        text = msgspec.json.encode(line) + b"\n"
        if len(text) > SIBLING_LINE_BYTES_MAX:
            kind, size = type(line).__name__, len(text)
            _log.error("a message to the other processes is too long, and is dropped: type=%s size=%d", kind, size)
            return False
        if self._writer is not None:
            self._writer.write(text)
        return True

    async def all_metrics(self) -> Mapping[int, str]:
        """Return the metrics of every process that answers in time, by the number of the process."""
        self._number += 1
        number = self._number
        request = self._requests[number] = _PendingMetrics({self.process: await self.metrics()})
        self.send(MetricsRequest(self.process, number))
        try:
            # A process that restarts during the request does not answer.
            with suppress(TimeoutError):
                async with asyncio.timeout(SIBLING_METRICS_SECONDS_MAX):
                    await request.complete.wait()
            return request.texts
        finally:
            del self._requests[number]

    def announce(self, organisation: str, name: str) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.send, Committed(organisation, name))

    def listen(self, heard: Heard) -> None:
        self._heard = heard

    def close(self) -> None:
        self._heard = lambda organisation, name: None

    async def _respond(self, request: MetricsRequest) -> None:
        response = MetricsResponse(self.process, request.process, request.number, await self.metrics())
        if not self.send(response):
            # Without a response, the other process would wait until its timeout.
            self.send(msgspec.structs.replace(response, text=""))

    def _take(self, line: Line) -> None:
        match line:
            case Committed():
                self._heard(line.organisation, line.name)
            case MetricsRequest():
                responding = asyncio.get_running_loop().create_task(self._respond(line))
                # The event loop keeps only a weak reference to a task.
                self._responding.add(responding)
                responding.add_done_callback(self._responding.discard)
            case MetricsResponse():
                request = self._requests.get(line.number)
                if line.to == self.process and request is not None:
                    request.texts[line.process] = line.text
                    if len(request.texts) == self._processes:
                        request.complete.set()
            case PresenceRequest() | ConnectionPresence():
                self.presence(line)
            case Ended():
                self.running.discard(line.process)
                self.presence(line)
            case Started():
                self.running.add(line.process)
