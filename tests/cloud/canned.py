"""An endpoint that answers from a list: for what no emulator does, and to see every request."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.dynamodb_client import DynamoClient
from stratalog.backends.dynamodb_http import Reply
from stratalog.testing.clock import ManualClock
from tests.cloud.helpers import GivenCredentials

HOST = "dynamodb.eu-west-1.amazonaws.com"


class CannedEndpoint:
    """Answers with ``replies`` in turn, an exception by raising it; the last one is repeated."""

    host = HOST

    def __init__(self, replies: Sequence[Reply | Exception]) -> None:
        self._replies = list(replies)
        self.sent: list[tuple[str, Any]] = []

    def exchange(self, request: bytes) -> Reply:
        head, _, body = request.partition(b"\r\n\r\n")
        operation = head.partition(b"x-amz-target:DynamoDB_20120810.")[2].partition(b"\r\n")[0].decode()
        self.sent.append((operation, msgspec.json.decode(body)))
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def close(self) -> None:
        """Nothing to let go of."""


def canned_client(*replies: Reply | Exception, clock: ManualClock | None = None) -> tuple[DynamoClient, CannedEndpoint]:
    """A client whose service answers with ``replies``, on a clock that moves only when something sleeps."""
    endpoint = CannedEndpoint(replies)
    return DynamoClient(endpoint, "eu-west-1", GivenCredentials, clock or ManualClock()), endpoint


def canned_index(*replies: Reply | Exception, clock: ManualClock | None = None) -> tuple[DynamoIndex, CannedEndpoint]:
    """The same with an index on it."""
    client, endpoint = canned_client(*replies, clock=clock)
    return DynamoIndex(client, "table"), endpoint


def done(value: Any = None) -> Reply:
    """What DynamoDB says when all went well."""
    return _reply(200, msgspec.json.encode(value if value is not None else {}))


def refused(code: str, *, status: int = 400, **more: Any) -> Reply:
    """What it says when not."""
    return _reply(status, msgspec.json.encode({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", **more}))


def cancelled(*reasons: Any) -> Reply:
    """A transaction that was cancelled: a code for each write, or a code with the item that stands there."""
    told = [reason if isinstance(reason, dict) else {"Code": reason} for reason in reasons]
    return refused("TransactionCanceledException", CancellationReasons=told, Message="Transaction cancelled")


def damaged(reply: Reply) -> Reply:
    """The same with a bit of its body turned over, which only its checksum tells."""
    return Reply(reply.status, reply.headers, bytes([reply.body[0] ^ 1]) + reply.body[1:])


def truncated(reply: Reply) -> Reply:
    """The same without its end, and no checksum."""
    return Reply(reply.status, {}, reply.body[:-3])


def _reply(status: int, body: bytes) -> Reply:
    return Reply(status, {b"x-amz-crc32": b"%d" % zlib.crc32(body)}, body)
