"""HTTP servers on loopback for tests of the adapters: a feed with pages and an ETag, and an OAI-PMH repository."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

PAGE = 3


class Feed:
    """A feed of books that records its requests. While ``broken`` has statuses, each response has the next status."""

    def __init__(self) -> None:
        self.books: list[dict[str, Any]] = []
        self.etag = '"1"'
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.broken: list[int] = []
        self.retry = ""
        self.url = ""

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        self.asked.append((path, headers))
        if self.broken:
            return self.broken.pop(0), {"Retry-After": self.retry} if self.retry else {}, b""
        if headers.get("If-None-Match") == self.etag:
            return 304, {"ETag": self.etag}, b""
        start = int(parse_qs(urlsplit(path).query).get("from", ["0"])[0])
        page: dict[str, Any] = {"items": self.books[start : start + PAGE]}
        if start + PAGE < len(self.books):
            page["next"] = f"/feed?from={start + PAGE}"
        return 200, {"ETag": self.etag, "Content-Type": "application/json"}, msgspec.json.encode(page)


class Repository:
    """An OAI-PMH repository that answers in pages with resumption tokens, and records its requests.

    ``records`` has the datestamp and title of each identifier. A deleted record has no title.
    """

    def __init__(self) -> None:
        self.records: dict[str, tuple[str, str | None]] = {}
        self.now = "2024-02-01T00:00:00Z"
        self.granularity = "YYYY-MM-DDThh:mm:ssZ"
        self.asked: list[dict[str, str]] = []
        self.expired: set[str] = set()
        self.broken: list[int] = []
        self.url = ""

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        query = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
        self.asked.append(query)
        if self.broken and (status := self.broken.pop(0)) != 200:
            return status, {}, b""
        if query["verb"] == "Identify":
            return self.document(f"<Identify><granularity>{self.granularity}</granularity></Identify>")
        fine = len(self.granularity)
        moments = [query[name] for name in ("from", "until") if name in query]
        if any(len(moment) > fine for moment in moments) or len({len(moment) for moment in moments}) > 1:
            return self.document('<error code="badArgument">moments of another granularity</error>')
        token = query.get("resumptionToken", "")
        since, _, start = token.partition("|") if token else (query.get("from", ""), "", "0")
        until = query.get("until", "9")
        if token in self.expired:
            self.expired.discard(token)
            return self.document('<error code="badResumptionToken">too old</error>')
        records = [
            item
            for item in sorted(self.records.items())
            if since <= item[1][0][:fine] and item[1][0][: len(until)] <= until
        ]
        if not records:
            return self.document('<error code="noRecordsMatch"/>')
        shown = records[int(start) : int(start) + PAGE]
        more = int(start) + PAGE < len(records)
        tail = f"<resumptionToken>{since}|{int(start) + PAGE}</resumptionToken>" if more else "<resumptionToken/>"
        return self.document(f"<ListRecords>{''.join(self._record(*item) for item in shown)}{tail}</ListRecords>")

    def _record(self, identifier: str, state: tuple[str, str | None]) -> str:
        stamp, title = state
        gone = ' status="deleted"' if title is None else ""
        head = f"<header{gone}><identifier>{identifier}</identifier><datestamp>{stamp}</datestamp></header>"
        dc = 'xmlns:dc="http://purl.org/dc/elements/1.1/"'
        body = "" if title is None else f"<metadata><x {dc}><dc:title>{title}</dc:title></x></metadata>"
        return f"<record>{head}{body}</record>"

    def document(self, content: str) -> tuple[int, dict[str, str], bytes]:
        namespace = 'xmlns="http://www.openarchives.org/OAI/2.0/"'
        text = f"<OAI-PMH {namespace}><responseDate>{self.now}</responseDate>{content}</OAI-PMH>"
        return 200, {"Content-Type": "text/xml"}, text.encode()


@contextmanager
def serving(source: Feed | Repository) -> Iterator[None]:
    """Serve the source on a loopback port, and set the URL of the source."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = source.answer(self.path, dict(self.headers.items()))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def date_time_string(self, timestamp: float | None = None) -> str:
            return datetime(2024, 2, 1, tzinfo=UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")

        def log_message(self, *arguments: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    source.url = f"http://127.0.0.1:{server.server_port}/feed"
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
