"""An HTTP service that records each request, and returns canned replies, such as errors that no emulator returns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec

from tests.threads import SECONDS_MAX

__all__ = ["Failing", "Reply", "Request", "failing"]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One reply.

    With ``lost`` the service closes the connection without a reply. A ``late`` reply comes when the service ends.
    """

    status: int = 200
    headers: dict[str, str] = {}
    body: bytes = b""
    lost: bool = False
    late: bool = False


class Request(msgspec.Struct, frozen=True):
    """One request that the service received."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer = Reply | Callable[[bytes], Reply]


class Failing:
    """A running service that gives one of ``replies`` to each request, in order, and then repeats the last reply.

    A reply may be a function of the request's body.
    """

    def __init__(self, url: str, replies: list[Answer]) -> None:
        self.url = url
        self.replies = replies
        self.requests: list[Request] = []
        self.lock = threading.Lock()

    def take(self, request: Request) -> Reply:
        with self.lock:
            self.requests.append(request)
            reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return reply if isinstance(reply, Reply) else reply(request.body)


@contextmanager
def failing(replies: Sequence[Answer]) -> Iterator[Failing]:
    """Run a service with these replies on loopback until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            reply = service.take(Request(self.command, self.path, dict(self.headers), body))
            if reply.late:
                ended.wait(SECONDS_MAX)
            if reply.lost:
                self.close_connection = True
                return
            self.send_response_only(reply.status)
            headers = {"Content-Length": str(len(reply.body)), "Date": formatdate(usegmt=True)}
            for name, value in {**headers, **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    for method in ("DELETE", "GET", "HEAD", "POST", "PUT"):
        setattr(Handler, f"do_{method}", Handler.answer)
    ended = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service = Failing(f"http://127.0.0.1:{server.server_port}", list(replies))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
