"""HTTP calls that need little CPU of the caller, so that one core can run hundreds of callers."""

from __future__ import annotations

import asyncio
import socket
from typing import Self

__all__ = ["HttpCaller", "head_of", "open_socket"]

SECONDS_MAX = 60
IDLE_SECONDS_MAX = 1
"""The caller reuses no connection that was idle for longer. The server closes idle connections after five seconds."""


class HttpCaller:
    """A caller that reuses one connection. The caller sends each request once, and never repeats a failed request."""

    def __init__(self, port: int, source: str = "127.0.0.1") -> None:
        self._port = port
        self._source = source
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._idle_since = 0.0

    async def call(
        self, method: str, path: str, body: bytes = b"", token: str = "", **headers: str
    ) -> tuple[int, bytes]:
        """Send a request. Return the status and body of its response.

        A failed connection raises OSError. A response that takes more than `SECONDS_MAX` raises TimeoutError. An early
        end of the connection, or a malformed response, raises EOFError, ValueError, IndexError or
        asyncio.LimitOverrunError.
        """
        request = head_of(method, path, len(body), token, **headers) + body
        self._drop_idle()
        try:
            async with asyncio.timeout(SECONDS_MAX):
                answer = await self._answer_of(request)
        except BaseException:
            self.close()
            raise
        self._idle_since = asyncio.get_running_loop().time()
        return answer

    def _drop_idle(self) -> None:
        """Close the connection if the server has closed it, or could close it at the moment of the next request."""
        if self._streams is None:
            return
        idle_seconds = asyncio.get_running_loop().time() - self._idle_since
        if self._streams[0].at_eof() or idle_seconds > IDLE_SECONDS_MAX:
            self.close()

    async def _answer_of(self, request: bytes) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await open_streams(self._port, self._source)
        reader, writer = self._streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next((int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")), None)
        body = b""
        if length is not None:
            body = await reader.readexactly(length)
        elif b"transfer-encoding: chunked" in lines:
            body = await _read_chunks(reader)
        if b"connection: close" in lines:
            self.close()
        return int(head.split(b" ", 2)[1]), body

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


async def open_streams(port: int, source: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect from the local address ``source``."""
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0), limit=1 << 20)


async def open_socket(port: int, source: str, receive_bytes: int | None = None) -> socket.socket:
    """Return a connected non-blocking socket with a receive buffer of ``receive_bytes``."""
    caller = socket.socket()
    try:
        caller.setblocking(False)
        if receive_bytes is not None:
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        caller.bind((source, 0))
        await asyncio.get_running_loop().sock_connect(caller, ("127.0.0.1", port))
    except BaseException:
        caller.close()
        raise
    return caller


def head_of(method: str, path: str, length: int, token: str = "", **headers: str) -> bytes:
    """Return the head of a request. Underscores in ``headers`` become hyphens."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {length}"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    pieces = []
    while size := int(await reader.readline(), 16):
        pieces.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(pieces)
