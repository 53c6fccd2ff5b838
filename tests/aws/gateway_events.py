"""Turns real requests and SQS messages into the events with which AWS calls functions.

The events follow AWS's developer guides. The event of an HTTP request has payload format 2.0. As in a real HTTP API,
the event's path is unescaped, and ends before an escaped question mark.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote

from stratalog.clock import Clock, new_id

__all__ = ["http_event", "queue_event", "socket_event"]

ACCOUNT = "123456789012"
TEXTS = ("text/", "application/json", "application/javascript", "application/xml")
Headers = Sequence[tuple[bytes, bytes]]


def http_event(scope: Mapping[str, Any], body: bytes, clock: Clock) -> dict[str, Any]:
    """Return the event of an HTTP request with this ASGI scope."""
    headers = _joined(scope["headers"])
    cookies = headers.pop("cookie", "")
    path = unquote(scope["raw_path"].decode()).partition("?")[0]
    query = scope["query_string"].decode()
    is_text = headers.get("content-type", "").startswith(TEXTS) and "content-encoding" not in headers
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": headers,
        "requestContext": {
            **_common(scope, clock),
            "routeKey": "$default",
            "stage": "$default",
            "http": {
                "method": scope["method"],
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": scope["client"][0],
                "userAgent": headers.get("user-agent", ""),
            },
            "time": datetime.fromtimestamp(clock.wall_ms() / 1000, UTC).strftime("%d/%b/%Y:%H:%M:%S %z"),
            "timeEpoch": clock.wall_ms(),
        },
        "isBase64Encoded": bool(body) and not is_text,
    }
    if query:
        event["queryStringParameters"] = _together(parse_qsl(query, keep_blank_values=True))
    if cookies:
        event["cookies"] = cookies.split("; ")
    if body:
        event["body"] = body.decode() if is_text else b64encode(body).decode()
    return event


def socket_event(
    scope: Mapping[str, Any], kind: str, connection: str, clock: Clock, body: str | None = None
) -> dict[str, Any]:
    """Return the event of a WebSocket. ``kind`` is CONNECT, MESSAGE or DISCONNECT."""
    now_ms = clock.wall_ms()
    context = {
        **_common(scope, clock),
        "routeKey": {"CONNECT": "$connect", "MESSAGE": "$default", "DISCONNECT": "$disconnect"}[kind],
        "eventType": kind,
        "extendedRequestId": new_id(clock),
        "requestTime": datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%d/%b/%Y:%H:%M:%S %z"),
        "messageDirection": "IN",
        "stage": "live",
        "connectedAt": now_ms,
        "requestTimeEpoch": now_ms,
        "identity": {"sourceIp": scope["client"][0]},
        "connectionId": connection,
    }
    event: dict[str, Any] = {"requestContext": context, "isBase64Encoded": False}
    if kind == "MESSAGE":
        context["messageId"] = new_id(clock)
        event["body"] = body
    else:
        headers = _joined(scope["headers"])
        event |= {"headers": headers, "multiValueHeaders": {name: [value] for name, value in headers.items()}}
    if kind == "DISCONNECT":
        context |= {"disconnectStatusCode": 1000, "disconnectReason": ""}
    return event


def queue_event(messages: Sequence[Mapping[str, Any]], queue: str) -> dict[str, Any]:
    """Return the event of a batch with these messages of an SQS response."""
    return {"Records": [_record(message, queue) for message in messages]}


def _record(message: Mapping[str, Any], queue: str) -> dict[str, Any]:
    attributes = {
        name: {
            "stringValue": value["StringValue"],
            "stringListValues": [],
            "binaryListValues": [],
            "dataType": value["DataType"],
        }
        for name, value in message.get("MessageAttributes", {}).items()
    }
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": dict(message["Attributes"]),
        "messageAttributes": attributes,
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}",
        "awsRegion": "us-east-1",
    }


def _common(scope: Mapping[str, Any], clock: Clock) -> dict[str, Any]:
    host = _joined(scope["headers"]).get("host", "")
    return {
        "accountId": ACCOUNT,
        "apiId": "gateway000",
        "domainName": host,
        "domainPrefix": host.partition(".")[0],
        "requestId": new_id(clock),
    }


def _joined(headers: Headers) -> dict[str, str]:
    return _together([(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers])


def _together(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Join the values of each repeated name with commas."""
    joined: dict[str, str] = {}
    for name, value in pairs:
        joined[name] = f"{joined[name]},{value}" if name in joined else value
    return joined
