"""The applications for benchmarks of servers: Stratalog without a rate limit, and a minimal ASGI application."""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

import uvicorn

from stratalog.server.application import Application, ServerLimits

__all__ = ["app", "echo"]

UNBOUNDED = 10**9

app = Application(limits=ServerLimits(rate_requests_per_second=UNBOUNDED, rate_requests_burst=UNBOUNDED))


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answer a request with its own body, the minimum work of an ASGI application."""
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    """Serve `echo` by uvicorn, without an access log, and print the URL."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(json.dumps({"url": f"http://127.0.0.1:{listening.getsockname()[1]}"}), flush=True)
        config = uvicorn.Config(echo, access_log=False, lifespan="off", log_level="warning", server_header=False)
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    sys.exit(main())
