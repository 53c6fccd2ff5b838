"""An endpoint that records each request, and returns canned replies, such as errors that no emulator returns."""

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
    """Returns ``replies`` one by one, and then repeats the last reply. Raises a reply that is an exception."""

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
        """Do nothing, since there is no connection."""


def canned_client(*replies: Reply | Exception, clock: ManualClock | None = None) -> tuple[DynamoClient, CannedEndpoint]:
    """Return a client whose service gives ``replies``, and the endpoint. The default clock moves only during sleeps."""
    endpoint = CannedEndpoint(replies)
    return DynamoClient(endpoint, "eu-west-1", GivenCredentials, clock or ManualClock()), endpoint


def canned_index(*replies: Reply | Exception, clock: ManualClock | None = None) -> tuple[DynamoIndex, CannedEndpoint]:
    """Return an index whose service gives ``replies``, and the endpoint."""
    client, endpoint = canned_client(*replies, clock=clock)
    return DynamoIndex(client, "table"), endpoint


def done(value: Any = None) -> Reply:
    """Return DynamoDB's reply to a request that succeeded."""
    return _reply(200, msgspec.json.encode(value if value is not None else {}))


def refused(code: str, *, status: int = 400, **more: Any) -> Reply:
    """Return DynamoDB's reply to a request that failed with ``code``."""
    return _reply(status, msgspec.json.encode({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", **more}))


def cancelled(*reasons: Any) -> Reply:
    """Return the reply to a cancelled transaction. Each write has a reason: a code, or a code with the stored item."""
    described = [reason if isinstance(reason, dict) else {"Code": reason} for reason in reasons]
    return refused("TransactionCanceledException", CancellationReasons=described, Message="Transaction cancelled")


def damaged(reply: Reply) -> Reply:
    """Return the reply with one bit of its body flipped. Only the checksum shows the damage."""
    return Reply(reply.status, reply.headers, bytes([reply.body[0] ^ 1]) + reply.body[1:])


def truncated(reply: Reply) -> Reply:
    """Return the reply without the end of its body and without a checksum."""
    return Reply(reply.status, {}, reply.body[:-3])


def _reply(status: int, body: bytes) -> Reply:
    return Reply(status, {b"x-amz-crc32": b"%d" % zlib.crc32(body)}, body)
