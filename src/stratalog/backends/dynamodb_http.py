"""An HTTP/1.1 client for one endpoint. It reuses connections, and reads each whole reply into memory.

The client uses no library: for a put, boto3 takes about eight times the CPU time. See docs/decisions/0002-libraries.md.
"""

from __future__ import annotations

import os
import re
import select
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

import msgspec

from stratalog.errors import OutcomeUnknown, Unavailable
from stratalog.urls import split_http_url

__all__ = ["Endpoint", "HttpExchange", "Reply"]

CONNECT_SECONDS_MAX = 3.0
ANSWER_SECONDS_MAX = 5.0
LINE_BYTES_MAX = 16 * 1024
HEADERS_MAX = 100
HASH_NAME = re.compile(r"[0-9a-f]{8}\.0")
BODY_BYTES_MAX = 32 * 1024 * 1024


class Reply(msgspec.Struct, frozen=True, gc=False):
    """A complete response. Header names are in lower case."""

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes


class HttpExchange(Protocol):
    """A client of one endpoint. It sends a request and reads the reply."""

    host: str

    def exchange(self, request: bytes) -> Reply:
        """Send ``request`` at most once and return the reply.

        Raises Unavailable: nothing was sent. Raises OutcomeUnknown: the request may have been sent, and no complete
        reply came.
        """
        ...

    def close(self) -> None:
        """Close idle connections. A connection in use is closed when its exchange ends."""
        ...


class Endpoint:
    """The server behind an ``http`` or ``https`` URL. Safe for threads: two exchanges never use a connection at once.

    A forked child that inherits this object opens new connections. The constructor raises Invalid for a URL of another
    scheme or without a host.
    """

    def __init__(
        self, url: str, *, connect_seconds: float = CONNECT_SECONDS_MAX, answer_seconds: float = ANSWER_SECONDS_MAX
    ) -> None:
        parts = split_http_url(url)
        self.host = parts.netloc
        self._address = (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
        self._tls = (_roots_on_demand() or ssl.create_default_context()) if parts.scheme == "https" else None
        self._has_all_roots = False
        self._connect_seconds = connect_seconds
        self._answer_seconds = answer_seconds
        self._idle: deque[_Connection] = deque()
        self._process = os.getpid()
        self._closed = False

    def exchange(self, request: bytes) -> Reply:
        reused = self._idle_connection()
        connection = reused or self._connect()
        try:
            reply = connection.exchange(request)
        except BaseException:
            connection.close()  # otherwise the next exchange would read the rest of this reply
            if reused:
                # A firewall, or a change of the network, may have dropped all idle connections without a sign.
                self._drop_idle()
            raise
        if self._closed or reply.headers.get(b"connection", b"").lower() == b"close":
            connection.close()
        else:
            self._idle.append(connection)
            if self._closed:  # tested after the append too, since `close` may have emptied the list just before
                self._drop_idle()
        return reply

    def close(self) -> None:
        self._closed = True
        self._drop_idle()

    def _idle_connection(self) -> _Connection | None:
        """Return the idle connection that was used last and is still open, or None.

        The connection that was used last is reused first. So after a burst of requests the server closes the
        connections that stay idle.
        """
        # A forked child must not share its parent's streams: the replies to the two processes would mix.
        if self._process != os.getpid():
            self._drop_idle()
            self._process = os.getpid()
        with suppress(IndexError):
            while True:
                connection = self._idle.pop()
                if connection.is_open():
                    return connection
                connection.close()
        return None

    def _connect(self) -> _Connection:
        try:
            plain = socket.create_connection(self._address, self._connect_seconds)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = self._tls.wrap_socket(plain, server_hostname=self._address[0]) if self._tls else plain
            stream.settimeout(self._answer_seconds)
        except OSError as exc:
            if isinstance(exc, ssl.SSLCertVerificationError) and not self._has_all_roots:
                self._tls, self._has_all_roots = ssl.create_default_context(), True
                return self._connect()
            raise Unavailable("the endpoint cannot be reached", endpoint=self.host, reason=str(exc)) from exc
        return _Connection(stream)

    def _drop_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


def _roots_on_demand() -> ssl.SSLContext | None:
    """Return a context that reads a root certificate from OpenSSL's folder when the verification of a chain needs it.

    Return None if OpenSSL has no folder with a file that is named by a certificate's hash. A read of all root
    certificates takes some 25 ms, a fifth of the CPU time of a function's cold start. OpenSSL's file of root
    certificates may have more certificates than the folder. So `Endpoint` reads all certificates if it cannot verify a
    chain.
    """
    folder = ssl.get_default_verify_paths().capath
    with suppress(OSError):  # a folder that this process may not list
        if folder is not None and any(map(HASH_NAME.fullmatch, os.listdir(folder))):
            return ssl.create_default_context(capath=folder)
    return None


class _Connection:
    """One connection, used by one thread at a time."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._answers = stream.makefile("rb")
        self._poll = select.poll()
        self._poll.register(stream, select.POLLIN)

    def is_open(self) -> bool:
        """Return whether an idle connection can be used. If readable, the server has closed it or sent stray bytes."""
        return not self._poll.poll(0)

    def exchange(self, request: bytes) -> Reply:
        try:
            self._stream.sendall(request)
            return self._read()
        except (OSError, ValueError) as exc:
            raise OutcomeUnknown("the response of the service was lost", reason=str(exc) or type(exc).__name__) from exc

    def close(self) -> None:
        with suppress(OSError):
            self._answers.close()
        self._stream.close()

    def _read(self) -> Reply:
        version, status, *_ = self._line().split(b" ", 2)
        if not version.startswith(b"HTTP/1."):
            raise ValueError("the response is not HTTP")
        headers: dict[bytes, bytes] = {}
        while line := self._line():
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
            if len(headers) > HEADERS_MAX:
                raise ValueError("the response has too many headers")
        return Reply(int(status), headers, self._body(headers))

    def _line(self) -> bytes:
        line = self._answers.readline(LINE_BYTES_MAX)
        if not line.endswith(b"\r\n"):
            raise ValueError("the response was cut short")
        return line[:-2]

    def _body(self, headers: Mapping[bytes, bytes]) -> bytes:
        if b"content-length" in headers:
            return self._exactly(int(headers[b"content-length"]))
        if headers.get(b"transfer-encoding", b"").lower() != b"chunked":
            raise ValueError("the response has no valid length")
        body = b""
        while size := int(self._line().partition(b";")[0], 16):
            body += self._exactly(size + 2)[:-2]
            if len(body) > BODY_BYTES_MAX:
                raise ValueError("the response is too long")
        while self._line():
            pass
        return body

    def _exactly(self, size: int) -> bytes:
        if not 0 <= size <= BODY_BYTES_MAX:
            raise ValueError("the response is too long")
        body = self._answers.read(size)
        if len(body) < size:
            raise ValueError("the response was cut short")
        return body
