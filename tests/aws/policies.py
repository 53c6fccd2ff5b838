"""Simulates IAM roles. A proxy in front of an emulator passes only the requests that a role's statements allow.

Like IAM, the proxy checks the action and resource of each request, and DynamoDB's leading keys. The proxy supports only
the kinds of requests that our functions send.
"""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

__all__ = ["LEADING_KEYS", "Asked", "Role", "needs"]

ACCOUNT = "000000000000"
REGION = "us-east-1"
ITEM_ACTIONS = {
    "Put": "PutItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Update": "UpdateItem",
}
LEADING_KEYS = "dynamodb:LeadingKeys"
SIGNED_FOR = re.compile("Credential=[^/]*/[0-9]*/[^/]*/(?P<service>[^/]*)/aws4_request")


class Asked(msgspec.Struct, frozen=True):
    """One permission that a request needs."""

    action: str
    resource: str
    leading_key: str | None = None


class Role:
    """A proxy to the services at ``url`` for a role with the policy ``statements``.

    The proxy records the needed and the denied permissions. Each connection has its own thread.
    """

    def __init__(self, url: str, statements: Sequence[Mapping[str, Any]]) -> None:
        self.statements = statements
        self._lock = threading.Lock()
        self._asked: set[Asked] = set()
        self._denied: set[Asked] = set()
        self.upstream = urlsplit(url).netloc
        role = self

        class Way(_Way):
            role_of = role

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Way)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Role:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def asked(self) -> frozenset[Asked]:
        """The permissions that requests have needed so far."""
        with self._lock:
            return frozenset(self._asked)

    @property
    def denied(self) -> frozenset[Asked]:
        """The permissions that the role has refused so far."""
        with self._lock:
            return frozenset(self._denied)

    @property
    def actions(self) -> set[str]:
        """The actions of all permissions that requests needed."""
        return {request.action for request in self.asked}

    def allows(self, asked: Asked) -> bool:
        """Return whether a statement allows the permission."""
        return any(_matches(statement, asked) for statement in self.statements)

    def take(self, needed: Sequence[Asked]) -> bool:
        """Record the permissions that a request needs. Return whether the role allows all of them."""
        refused = {request for request in needed if not self.allows(request)}
        with self._lock:
            self._asked |= set(needed)
            self._denied |= refused
        return bool(needed) and not refused


def _matches(statement: Mapping[str, Any], asked: Asked) -> bool:
    if not _any(statement["Action"], asked.action) or not _any(statement["Resource"], asked.resource):
        return False
    condition = statement.get("Condition")
    if condition is None:
        return True
    patterns = condition["ForAllValues:StringLike"][LEADING_KEYS]
    return asked.leading_key is not None and _any(patterns, asked.leading_key)


def _any(patterns: str | Sequence[str], text: str) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in ([patterns] if isinstance(patterns, str) else patterns))


class _Way(BaseHTTPRequestHandler):
    """A connection to the proxy."""

    role_of: Role
    protocol_version = "HTTP/1.1"

    def do(self) -> None:
        """Forward a request, or refuse the request with AWS's error for a denied access."""
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        needed = list(needs(self.command, self.path, self.headers, body))
        if not self.role_of.take(needed):
            refusal = json.dumps({"__type": "AccessDeniedException", "message": f"not allowed: {needed}"}).encode()
            self._answer(403, [("Content-Type", "application/json")], refusal)
            return
        upstream = http.client.HTTPConnection(self.role_of.upstream, timeout=30)
        try:
            upstream.request(self.command, self.path, body, dict(self.headers.items()))
            answer = upstream.getresponse()
            self._answer(answer.status, answer.getheaders(), answer.read())
        finally:
            upstream.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do  # noqa: N815 - the names are http.server's

    def _answer(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection") or self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name is http.server's
        pass


def needs(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Iterator[Asked]:
    """Yield the permissions that a request needs.

    The header x-amz-target names the service; without it, the path or the signature does. A request to an unknown
    service needs a permission that none of our roles has.
    """
    signed = SIGNED_FOR.search(headers.get("authorization", ""))
    service, _, operation = headers.get("x-amz-target", "").partition(".")
    if service.startswith("DynamoDB"):
        yield from _table_needs(operation, json.loads(body))
    elif service == "AmazonSQS":
        request = json.loads(body)
        name = request.get("QueueName") or request["QueueUrl"].rpartition("/")[2]
        yield Asked(f"sqs:{operation.removesuffix('Batch')}", _arn("sqs", name))
    elif "/@connections/" in path:
        stage, _, connection = path.removeprefix("/_aws/execute-api/").partition("/@connections/")
        yield Asked("execute-api:ManageConnections", _arn("execute-api", f"{stage}/{method}/@connections/{connection}"))
    elif signed and signed["service"] == "s3" and not service:
        yield _bucket_need(method, path)
    else:
        named = service or (signed["service"] if signed else "unsigned")
        yield Asked(f"unknown service {named}:{operation or method}", path)


def _table_needs(operation: str, request: Mapping[str, Any]) -> Iterator[Asked]:
    if operation == "TransactWriteItems":
        for item in request["TransactItems"]:
            ((kind, write),) = item.items()
            yield from _table_needs(ITEM_ACTIONS[kind], write)
        return
    item = request.get("Item") or request.get("Key") or {}
    leading_key = item["P"]["S"] if item else None
    yield Asked(f"dynamodb:{operation}", _arn("dynamodb", f"table/{request['TableName']}"), leading_key)


def _bucket_need(method: str, path: str) -> Asked:
    parts = urlsplit(path)
    query = parse_qs(parts.query, keep_blank_values=True)
    bucket, _, key = unquote(parts.path).removeprefix("/").partition("/")
    if not key and method not in ("GET", "HEAD"):
        return Asked(f"s3:{method} of a bucket", f"arn:aws:s3:::{bucket}")
    if not key:
        listings = {"versions": "ListBucketVersions", "versioning": "GetBucketVersioning"}
        action = next((action for name, action in listings.items() if name in query), "ListBucket")
        return Asked(f"s3:{action}", f"arn:aws:s3:::{bucket}")
    actions = {
        "GET": "GetObject",
        "HEAD": "GetObject",
        "PUT": "PutObject",
        "POST": "PutObject",
        "DELETE": "DeleteObject",
    }
    version = "Version" if "versionId" in query else ""
    return Asked(f"s3:{actions.get(method, f'{method} of an object')}{version}", f"arn:aws:s3:::{bucket}/{key}")


def _arn(service: str, name: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{name}"
