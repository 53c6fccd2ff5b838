"""Clients of boto3 without retries, and one mapping of boto3's errors to Stratalog's, for all backends on boto3.

boto3's own retries are off, since they hide that an earlier try may have taken effect. `SqsQueue` and `S3Versions`
retry by `send_request`. The functions that find or create buckets and queues do not retry.

The functions import boto3 when they first use it. Most processes of AWS Lambda functions never need boto3, and its
import delays the start of a process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from traceback import walk_tb
from typing import Any, TypeVar

from stratalog.backends.service_request import RequestPolicy, Retryable
from stratalog.errors import OutcomeUnknown, Unavailable

__all__ = ["THROTTLES", "RequestRefused", "aws_client", "field_of", "once"]

T = TypeVar("T")

CONNECTIONS_MAX = 64
NOT_IMPLEMENTED = 501
# Error codes after which nothing was done and a later try may succeed. Their HTTP status varies.
THROTTLES = frozenset(
    {
        "ConditionalRequestConflict",
        "KmsThrottled",
        "OperationAborted",
        "OverLimit",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestTimeout",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)


class RequestRefused(Unavailable):
    """The service refused the request, or boto3 could not send the request. Another try would not help.

    ``reason`` is the service's error code, without the prefix that names the service. If boto3 could not send the
    request, ``reason`` is the class name of boto3's exception.
    """

    def __init__(self, message: str, reason: str, explanation: str) -> None:
        super().__init__(message, reason=reason, explanation=explanation)
        self.reason = reason
        self.explanation = explanation


def aws_client(service: str, session: Any, endpoint: str, policy: RequestPolicy) -> Any:
    """Return a boto3 client that tries each request once. The client is safe for threads.

    ``endpoint`` is the URL of a compatible service. If it is empty, boto3 uses the endpoint that AWS's configuration
    names, or else Amazon's own.
    """
    import boto3  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]

    session = session or boto3.Session()
    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=policy.connect_seconds_max,
        read_timeout=policy.request_seconds_max,
        max_pool_connections=CONNECTIONS_MAX,
        tcp_keepalive=True,
        s3={"addressing_style": "path" if endpoint else "auto"},
    )
    region = session.region_name or "us-east-1"
    return session.client(service, region_name=region, endpoint_url=endpoint or None, config=config)


def field_of(service: str, part: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return a field of a response, which must have the type ``kind``. Raises Unavailable for a bad response."""
    value = part.get(name)
    if not isinstance(value, kind):
        raise Unavailable(f"the response is not one of {service}", field=name)
    return value


def _is_of_parser(exc: ValueError) -> bool:
    """Return whether boto3 raised ``exc`` while it read a response, for a number or a time that is none."""
    modules = (frame.f_globals.get("__name__") for frame, _ in walk_tb(exc.__traceback__))
    return "botocore.parsers" in modules


def once(service: str, call: Callable[[], T], *, writes: bool, field: str = "") -> T:
    """Make one request and return its response, which must have a value in ``field``, if that is given.

    Raises Retryable if another try may succeed, else RequestRefused. The error in Retryable is OutcomeUnknown if the
    request is a write and may have taken effect. Otherwise the error in Retryable is Unavailable. A ValueError that
    comes from no response is raised unchanged.
    """
    from botocore import exceptions  # type: ignore[import-untyped]
    from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]

    not_sent = (exceptions.ConnectTimeoutError, exceptions.EndpointConnectionError, exceptions.ProxyConnectionError)
    lost = (exceptions.HTTPClientError, exceptions.IncompleteReadError, ResponseParserError)
    unknown = OutcomeUnknown if writes else Unavailable
    try:
        answer: Any = call()
        # boto3 reads a body of another form as a response without fields. A proxy may have sent it.
        if field and answer.get(field) in (None, "", {}):
            raise Retryable(unknown(f"the response is not one of {service}", field=field))
        return answer  # type: ignore[no-any-return]
    except exceptions.ClientError as exc:
        code = str(exc.response["Error"].get("Code", "")).rpartition(".")[2]
        explanation = str(exc.response["Error"].get("Message", ""))
        if code in THROTTLES:
            raise Retryable(Unavailable(f"{service} is too busy", reason=code)) from exc
        status = exc.response["ResponseMetadata"]["HTTPStatusCode"]
        if status >= 500 and status != NOT_IMPLEMENTED:
            raise Retryable(unknown(f"{service} failed", reason=code, explanation=explanation)) from exc
        raise RequestRefused(f"{service} refused {exc.operation_name}", code, explanation) from exc
    except not_sent as exc:
        raise Retryable(Unavailable(f"{service} cannot be reached", reason=str(exc))) from exc
    except lost as exc:
        raise Retryable(unknown(f"the response of {service} was lost", reason=str(exc))) from exc
    except ValueError as exc:
        if not _is_of_parser(exc):
            raise  # the caller has a defect, as with a key that is no Unicode text: another try would not help
        raise Retryable(unknown(f"the response is not one of {service}", reason=str(exc))) from exc
    except exceptions.BotoCoreError as exc:
        raise RequestRefused(f"the request to {service} cannot be sent", type(exc).__name__, str(exc)) from exc
