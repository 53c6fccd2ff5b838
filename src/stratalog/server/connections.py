"""Connections: uvicorn's protocols, with deadlines and limits that uvicorn lacks.

A `Connection` wraps the transport of a socket while the socket is open. The wrapper stays when the HTTP connection
becomes a WebSocket. The `Connection` counts the bytes written. `OpenConnections` aborts the connection when its caller
misses a deadline.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import h11
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from stratalog.clock import Clock
from stratalog.limits import ANSWER_PIECE_BYTES, DROPS_PER_TURN_MAX, LIVE_CLOSE_SECONDS_MAX, PRINCIPAL_SOCKETS_SHARE
from stratalog.server.application import ServerLimits
from stratalog.server.connection_shares import SOCKET
from stratalog.server.deadlines import AnswerProgress
from stratalog.server.handovers import Handovers, Offer
from stratalog.server.metrics import Metrics
from stratalog.server.shares import Allocation, Budget, HolderKind
from stratalog.server.turns import TurnSelector

__all__ = ["Connection", "HttpProtocol", "OpenConnections", "WebSocketProtocol", "in_pieces"]

CLOSING = (b"connection", b"close")
UNREAD_SECONDS = 1.0
"""If an idle connection has unread bytes at its deadline, the server checks the connection again after this time."""


class OpenConnections:
    """The open sockets of all callers. Used from the event loop only.

    ``budget`` limits the number of sockets. A connection begins with an allocation of this budget, and releases the
    allocation at its end. If callers have shares, the connection first counts for its address, unless the address is a
    trusted proxy. After the authentication of a request, the connection counts for the principal. So the share of an
    address limits sockets without an authenticated request, for example sockets that have sent half a request head. The
    share of a principal, `PRINCIPAL_SOCKETS_SHARE`, limits sockets that are idle, or that the caller does not close
    after a refused live connection. If the share is used up, the server refuses the request, and the socket keeps
    counting for its address.

    ``turns`` is the selector of the event loop. In one turn of the loop, this selector reports few sockets of one
    holder.
    """

    def __init__(
        self, limits: ServerLimits, connections_max: int, metrics: Metrics, clock: Clock, *, is_shared: bool = False
    ) -> None:
        self.limits = limits
        self.turns = TurnSelector(clock)
        shares: dict[HolderKind, int] = {
            "address": max(1, int(connections_max * limits.address_share_max)),
            "principal": max(1, int(connections_max * PRINCIPAL_SOCKETS_SHARE)),
        }
        self.budget = Budget("connections", connections_max, shares if is_shared else {})
        self._metrics = metrics
        self._open: set[Connection] = set()

    def begin(self, transport: asyncio.Transport, allocation: Allocation, now: float) -> Connection:
        """Register an accepted socket, and return its connection."""
        connection = Connection(self, transport, allocation, now)
        self._open.add(connection)
        self.turns.watch(connection.descriptor, allocation)
        self._metrics.connections.inc()
        return connection

    def end(self, connection: Connection) -> None:
        """Unregister a closed socket, and release its allocation."""
        self._open.discard(connection)
        self.turns.forget(connection.descriptor)
        self._metrics.connections.dec()
        connection.allocation.release()

    async def drop_overdue(self, now: float) -> None:
        """Abort each connection whose caller has missed a deadline by ``now``. The caller gets no error response."""
        dropped = 0
        for connection in list(self._open):
            reason = connection.missed_deadline(now)
            if reason is not None:
                self._metrics.connections_dropped.labels(reason).inc()
                connection.abort()
                dropped += 1
                # Connections that began together miss their deadlines together. Let other tasks run in between.
                if dropped % DROPS_PER_TURN_MAX == 0:
                    await asyncio.sleep(0)


class Connection:
    """A wrapper of one socket's transport, for the socket's protocol.

    All other attributes come from the wrapped transport.
    """

    def __init__(
        self, connections: OpenConnections, transport: asyncio.Transport, allocation: Allocation, now: float
    ) -> None:
        self.allocation = allocation
        self.descriptor: int = transport.get_extra_info("socket").fileno()
        self.head_began: float | None = now
        """The time at which the wait for a request's head began, in seconds of the event loop's clock, or None."""
        self.was_taken_back = False
        """Whether an offer ended and the connection stayed. The other process may still have a copy of the socket."""
        self._connections = connections
        self._transport = transport
        self._written_bytes = 0
        self._progress = AnswerProgress(connections.limits)

    def write(self, data: bytes) -> None:
        """Write bytes to the transport, and count them."""
        self._written_bytes += len(data)
        self._transport.write(data)

    def missed_deadline(self, now: float) -> str | None:
        """Return the deadline that the caller has missed at ``now``: ``head``, ``answer`` or None."""
        if self.head_began is not None and now - self.head_began >= self._connections.limits.request_head_seconds_max:
            return "head"
        waiting = self._transport.get_write_buffer_size()
        return "answer" if self._progress.is_overdue(now, self._written_bytes - waiting, waiting) else None

    def has_unread_bytes(self) -> bool:
        """Return whether the system has received bytes of the caller that the event loop has not read yet."""
        try:
            with self._transport.get_extra_info("socket").dup() as duplicate:
                return bool(duplicate.recv(1, socket.MSG_PEEK))
        except OSError:  # no bytes wait, or the connection has ended
            return False

    def abort(self) -> None:
        """Close the socket at once. Bytes in the write buffer are lost."""
        # The transport reports its end later. Clear the deadline, or `drop_overdue` would count the connection twice.
        self.head_began = None
        self._transport.abort()

    def end(self) -> None:
        """Report to `OpenConnections` that the socket was closed."""
        if self.was_taken_back:
            # While a stopped process has a copy, closing the socket does not end the connection for the caller.
            with suppress(OSError):
                self._transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self._connections.end(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class HttpProtocol(H11Protocol):
    """One connection with HTTP/1.1.

    ``received`` are the bytes that another process has read from the connection. ``handovers`` may move the connection
    to another process before a push.
    """

    def __init__(
        self,
        connections: OpenConnections,
        allocation: Allocation,
        received: bytes = b"",
        handovers: Handovers | None = None,
        **of_uvicorn: Any,
    ) -> None:
        super().__init__(**of_uvicorn)
        self._received = received
        self._handovers = handovers
        self._offer: Offer | None = None
        self._connections = connections
        self._allocation = allocation
        self._is_unread = False
        self._is_stopping = False

    def connection_made(self, transport: Any) -> None:
        self._connection = self._connections.begin(transport, self._allocation, self.loop.time())
        self.app = _on_socket(self.app, self._allocation)
        super().connection_made(self._connection)  # type: ignore[arg-type]
        if self._received:
            # The transport begins to read after this call, so these bytes are first. They are not offered again: two
            # processes with different views of the running processes would pass them to and fro.
            received, self._received = self._received, b""
            self._interpret(received)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._offer is not None:
            self._offer.end()
            self._connection.was_taken_back = not self._offer.is_moved
        self._connection.end()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._is_offered(data):
            self._interpret(data)

    def _is_offered(self, data: bytes) -> bool:
        """Offer the connection to another process if ``data`` begins a request that should run there."""
        # Only between two requests this process has no other bytes of the connection in its memory.
        is_between = self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]
        if self._handovers is None or not is_between or self._connection.get_write_buffer_size() or self._is_stopping:
            return False

        def decided(is_moved: bool) -> None:
            self._offer = None
            self._connection.was_taken_back = not is_moved
            if is_moved:
                self._connection.abort()
            else:
                self.transport.resume_reading()
                self._interpret(data)

        self._offer = self._handovers.offer(data, self._connection.descriptor, decided)
        if self._offer is None:
            return False
        self.transport.pause_reading()
        self._unset_keepalive_if_required()
        return True

    def _interpret(self, data: bytes) -> None:
        # The first bytes after an idle time begin the head of the next request.
        if self._connection.head_began is None and not self._is_answering():
            self._connection.head_began = self.loop.time()
        super().data_received(data)
        if self._is_answering():
            self._connection.head_began = None
        if self._is_stopping and not self.transport.is_closing():
            # The protocol is a `WebSocketProtocol` if these bytes asked for a WebSocket.
            protocol: Any = self.transport.get_protocol()
            protocol.shutdown()

    def shutdown(self) -> None:
        """Close the connection after the running request, or after a request that waits unread."""
        self._is_stopping = True
        # After a response that was cut short, h11 would raise an error, which would end the stop of the server.
        if self.transport.is_closing():
            return
        if self._is_answering():
            # Without this header a proxy would send its next request on this connection, and get no answer.
            # `_interpret` calls this method again for each piece of an upload, so the cycle's own list must not grow.
            self.cycle.default_headers = [*self.server_state.default_headers, CLOSING]
            super().shutdown()
        elif self._offer is None and not (self.conn.their_state is h11.IDLE and self._connection.has_unread_bytes()):
            super().shutdown()

    def on_response_complete(self) -> None:
        # Do not begin the next pipelined request before the caller reads this response. Otherwise the server would run
        # each further request and keep its response in memory. `resume_writing` begins the next request.
        if self.flow.write_paused and not self.transport.is_closing():
            self._is_unread = True
            return
        # If the response ended before the body of the request did, the rest of the body gets the deadline of a head.
        is_cut = self.conn.their_state is h11.SEND_BODY
        self._connection.head_began = self.loop.time() if is_cut else None
        super().on_response_complete()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._is_unread:
            self._is_unread = False
            self.on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Close the idle connection, unless bytes of its next request wait unread.

        Such bytes wait if this process was stopped, or if it reads other connections first.
        """
        if self._connection.has_unread_bytes():
            self.timeout_keep_alive_task = self.loop.call_later(UNREAD_SECONDS, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """One connection that became a WebSocket."""

    transport: Any

    def __init__(self, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self.close_timeout = LIVE_CLOSE_SECONDS_MAX

    def connection_made(self, transport: Any) -> None:
        self._connection: Connection = transport
        self._connection.head_began = None
        self.app = _on_socket(self.app, self._connection.allocation)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.end()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # The first call has the complete head.
        if not self.handshake_initiated:
            self._refuse_head()
            return
        # The protocol answers each ping with a pong. The pongs for a caller that pings and does not read would fill the
        # memory, so stop reading from that caller.
        if not self.writable.is_set():
            self.transport.pause_reading()

    def _refuse_head(self) -> None:
        """Answer a head that h11 accepts and websockets refuses, such as a head of 129 headers, and close the socket.

        websockets reports no event for such a head, so uvicorn would neither answer nor end the connection.
        """
        answer = b"".join(self.conn.data_to_send())
        if not answer:
            text = "a WebSocket handshake has no body, and its headers must be valid\n"
            answer = self.conn.reject(HTTPStatus.BAD_REQUEST, text).serialize()
        self.transport.write(answer)
        self.transport.close()

    def resume_writing(self) -> None:
        super().resume_writing()
        # The protocol also pauses reading until the application has taken a message. Only the protocol may end this
        # pause.
        if not self.read_paused:
            self.transport.resume_reading()


def _on_socket(app: Any, allocation: Allocation) -> Any:
    """Wrap an application so that each scope has the allocation of its socket under the key `SOCKET`."""

    async def call(scope: Any, receive: Any, send: Any) -> None:
        scope[SOCKET] = allocation
        await app(scope, receive, send)

    return call


def in_pieces(app: ASGIApp) -> ASGIApp:
    """Wrap an application so that it sends large bodies in pieces of `ANSWER_PIECE_BYTES`.

    uvicorn waits for a slow reader only between messages. So one large message would stay in memory as a whole.
    """

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_pieces(message: Message) -> None:
            if message["type"] != "http.response.body" or len(message["body"]) <= ANSWER_PIECE_BYTES:
                return await send(message)
            body, more_body = message["body"], message.get("more_body", False)
            for start in range(0, len(body), ANSWER_PIECE_BYTES):
                end = start + ANSWER_PIECE_BYTES
                more = more_body or end < len(body)
                await send({"type": "http.response.body", "body": body[start:end], "more_body": more})
            return None

        await app(scope, receive, send_pieces if scope["type"] == ScopeType.HTTP else send)

    return call
