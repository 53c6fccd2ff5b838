"""A server on loopback, in a thread of this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from stratalog.extras import needs_extra

with needs_extra("server", "a server for tests"):
    import uvicorn

__all__ = ["LoopbackServer", "serve_on_loopback"]

DEFAULTS: dict[str, Any] = {"log_level": "warning", "ws": "websockets-sansio", "timeout_graceful_shutdown": 1}


class LoopbackServer:
    """A running server. ``url`` has no slash at its end."""

    def __init__(self, url: str) -> None:
        self.url = url

    def document_url(self, organisation: str = "acme", document: str = "plan") -> str:
        """Return the URL of a document, for `stratalog.client.connect`."""
        return f"{self.url}/v1/organisations/{quote(organisation, safe='')}/documents/{quote(document, safe='')}"


@contextmanager
def serve_on_loopback(app: Any, port: int = 0, **options: Any) -> Iterator[LoopbackServer]:
    """Serve an ASGI application on 127.0.0.1 until the end of the block. Port 0 means any free port.

    ``options`` are options of uvicorn. The end of the block waits until the server has shut down.
    """
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.listen()
        server = uvicorn.Server(uvicorn.Config(app, **(DEFAULTS | options)))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield LoopbackServer(f"http://127.0.0.1:{listening.getsockname()[1]}")
        finally:
            server.should_exit = True
            thread.join()
