"""Calls to DynamoDB. The client signs each request, checks each reply, and retries safe calls within a time budget."""

from __future__ import annotations

import enum
import hashlib
import hmac
import time
import zlib
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from stratalog.backends.dynamodb_http import ANSWER_SECONDS_MAX, HttpExchange, Reply
from stratalog.clock import Clock
from stratalog.errors import Corrupt, Invalid, LimitExceeded, OutcomeUnknown, StratalogError, Unavailable
from stratalog.ports.meter import Meter
from stratalog.retry import Retry, RetryPolicy

__all__ = [
    "Attributes",
    "CallEffect",
    "Credentials",
    "DynamoAnswer",
    "DynamoClient",
    "DynamoRetryPolicy",
    "DynamoValue",
    "Kind",
    "Reason",
    "Signer",
]

T = TypeVar("T")

THROTTLED = {
    "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingError",
    "ThrottlingException",
}
CONFLICTS = {"TransactionConflict", "TransactionConflictException", "TransactionInProgressException"}
CONDITIONS = {"ConditionalCheckFailed", "ConditionalCheckFailedException"}


class DynamoValue(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An attribute's value in DynamoDB's form: exactly one of text, bytes and number is set."""

    S: str | None = None
    B: bytes | None = None
    N: str | None = None


Attributes = dict[str, DynamoValue]


class Reason(msgspec.Struct, frozen=True):
    """The reason why one write of a transaction failed. ``Code`` is the text ``None`` for a write that did not fail."""

    Code: str = "None"
    Message: str | None = None
    Item: Attributes | None = None


class DynamoRetryPolicy(RetryPolicy, frozen=True, kw_only=True):
    """The time budgets for a call's retries. ``seconds_max`` is the budget after lost and unsent requests.

    ``seconds_max`` is longer than the wait for one reply. So a read whose reply did not come is tried again.

    The budgets are separate. So waits for a throttled table do not use up the time for conflicts, and conflicts do not
    use up the time for a throttled table.
    """

    seconds_max: float = ANSWER_SECONDS_MAX + 1
    wait_seconds_first: float = 0.02
    wait_seconds_max: float = 1.0
    throttled_seconds_max: float = 5.0
    conflicts_seconds_max: float = 3.0

    def seconds_for(self, kind: Kind) -> float:
        """Return the time budget for attempts that end with ``kind``; 0 if another attempt would have the same end."""
        if kind is Kind.THROTTLED:
            return self.throttled_seconds_max
        if kind is Kind.CONFLICTS:
            return self.conflicts_seconds_max
        return self.seconds_max if kind in (Kind.LOST, Kind.UNSENT) else 0


class Credentials(Protocol):
    """The attributes that botocore's credentials have, frozen or not."""

    access_key: str
    secret_key: str
    token: str | None


class CallEffect(enum.Enum):
    """The effect that a call may have although its answer is lost. The effect decides whether the client retries."""

    READ = "no effect: retry"
    WRITE = "possibly written: report an unknown outcome"
    TOKEN = "possibly written, but the service recognises its token for ten minutes: retry"


class Kind(enum.Enum):
    """The outcome of one attempt."""

    DONE = "done"
    CONDITION = "condition"
    REFUSED = "refused"
    THROTTLED = "throttled"
    CONFLICTS = "conflicts"
    LOST = "lost"
    UNSENT = "unsent"


class DynamoAnswer(msgspec.Struct, Generic[T], frozen=True):
    """The outcome of one attempt. A DONE answer has a value.

    If DynamoDB cancels a transaction, the answer has one reason for each write. Any other refusal has one reason.
    """

    kind: Kind
    value: T | None = None
    code: str = ""
    message: str = ""
    reasons: tuple[Reason, ...] = ()


class _Error(msgspec.Struct, frozen=True):
    kind: str = msgspec.field(name="__type", default="")
    message: str = ""
    Message: str = ""
    Item: Attributes | None = None
    CancellationReasons: tuple[Reason, ...] = ()


_error_decoder = msgspec.json.Decoder(_Error)


class DynamoClient:
    """DynamoDB's JSON protocol at one endpoint. Safe for threads.

    Every attempt calls ``credentials``, which raises Unavailable while no credentials are available.
    """

    def __init__(
        self,
        endpoint: HttpExchange,
        region: str,
        credentials: Callable[[], Credentials],
        clock: Clock,
        *,
        retry_policy: DynamoRetryPolicy | None = None,
        meter: Meter | None = None,
    ) -> None:
        self.clock = clock
        self.meter = meter or Meter()
        self._endpoint = endpoint
        self._signer = Signer(endpoint.host, region)
        self._credentials = credentials
        self._retry_policy = retry_policy or DynamoRetryPolicy()

    def call(self, operation: str, request: Any, decoder: msgspec.json.Decoder[T], kind: CallEffect) -> DynamoAnswer[T]:
        """Send ``request``, with retries, and return its answer: DONE, or CONDITION if a condition does not hold.

        Raises Unavailable, Invalid, LimitExceeded: nothing was written. Raises OutcomeUnknown: the write may have taken
        effect. Raises Corrupt: the reply has data of a form that this package does not write.
        """
        body = msgspec.json.encode(request)
        policy = self._retry_policy
        retry = Retry(self.clock, policy)
        lost = False
        while True:
            answer = self._attempt(operation, body, decoder)
            lost = lost or (answer.kind is Kind.LOST and kind is not CallEffect.READ)
            # After a lost attempt, a condition may fail because of that attempt's own write: the outcome is unknown.
            if answer.kind is Kind.DONE or (answer.kind is Kind.CONDITION and not lost):
                return answer
            if (lost and kind is CallEffect.WRITE) or not retry.wait_for(answer.kind, policy.seconds_for(answer.kind)):
                raise _error(operation, answer, lost)

    def close(self) -> None:
        """Close the connections. Closing twice is fine."""
        self._endpoint.close()

    def _attempt(self, operation: str, body: bytes, decoder: msgspec.json.Decoder[T]) -> DynamoAnswer[T]:
        self.meter.add(operation, "requests")
        try:
            request = self._signer.signed(operation, body, self._credentials(), self.clock.wall_ms() // 1000)
            answer = _read(self._endpoint.exchange(request), decoder)
        except OutcomeUnknown as exc:
            answer = DynamoAnswer(Kind.LOST, message=str(exc))
        except Unavailable as exc:
            answer = DynamoAnswer(Kind.UNSENT, message=str(exc))
        if answer.kind not in (Kind.DONE, Kind.CONDITION, Kind.REFUSED):
            self.meter.add(operation, answer.kind.value)
        return answer


class Signer:
    """Signature version 4 for requests of one kind: a POST of JSON to the root of one host.

    The code follows “Create a signed AWS API request” in AWS's documentation. A signer caches the signing key of the
    day.
    """

    def __init__(self, host: str, region: str) -> None:
        self._host = host
        self._region = region
        self._key: tuple[str, str, bytes] = ("", "", b"")

    def signed(self, operation: str, body: bytes, credentials: Credentials, seconds: int) -> bytes:
        """Return the whole request as the bytes to send. ``seconds`` is the time of signing, since the epoch."""
        at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))
        token = credentials.token
        names = "content-type;host;x-amz-date;x-amz-security-token;x-amz-target"
        headers = f"content-type:application/x-amz-json-1.0\nhost:{self._host}\nx-amz-date:{at}\n"
        if token:
            headers += f"x-amz-security-token:{token}\n"
        else:
            names = "content-type;host;x-amz-date;x-amz-target"
        headers += f"x-amz-target:DynamoDB_20120810.{operation}\n"
        canonical = f"POST\n/\n\n{headers}\n{names}\n{hashlib.sha256(body).hexdigest()}"
        scope = f"{at[:8]}/{self._region}/dynamodb/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(self._day_key(at[:8], credentials.secret_key), text.encode(), "sha256").hex()
        head = (
            f"POST / HTTP/1.1\r\n{headers.replace(chr(10), chr(13) + chr(10))}"
            f"authorization:AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, "
            f"SignedHeaders={names}, Signature={signature}\r\ncontent-length:{len(body)}\r\n\r\n"
        )
        return head.encode("latin-1") + body

    def _day_key(self, day: str, secret: str) -> bytes:
        known_day, known_secret, key = self._key
        if (known_day, known_secret) == (day, secret):
            return key
        key = f"AWS4{secret}".encode()
        for part in (day, self._region, "dynamodb", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        self._key = (day, secret, key)
        return key


def _read(reply: Reply, decoder: msgspec.json.Decoder[T]) -> DynamoAnswer[T]:
    """Return the answer in ``reply``: LOST if the reply is incomplete or damaged, or the server failed.

    Raises Corrupt for a complete reply with data of a form that this package does not write.
    """
    checksum = reply.headers.get(b"x-amz-crc32")
    if checksum is not None and checksum != b"%d" % zlib.crc32(reply.body):
        return DynamoAnswer(Kind.LOST, message="the response's checksum is wrong")
    if reply.status >= 500:
        return DynamoAnswer(Kind.LOST, message=f"the service failed with status {reply.status}")
    try:
        return DynamoAnswer(Kind.DONE, decoder.decode(reply.body)) if reply.status == 200 else _refusal(reply)
    except msgspec.ValidationError as exc:
        raise Corrupt("the index holds an item that Stratalog did not write", reason=str(exc)) from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        return DynamoAnswer(Kind.LOST, message=f"the response is incomplete: {exc}")


def _refusal(reply: Reply) -> DynamoAnswer[Any]:
    error = _error_decoder.decode(reply.body)
    code = error.kind.rpartition("#")[2]
    reasons = error.CancellationReasons or (Reason(code, None, error.Item),)
    codes = {reason.Code for reason in reasons} - {"None"}
    return DynamoAnswer(_kind(codes), None, code, error.message or error.Message, reasons)


def _kind(codes: set[str]) -> Kind:
    """Return the kind of a refusal with these codes.

    The kind is CONDITION only if every code is a failed condition. If DynamoDB reports a conflict or a throttle for one
    write, it does not evaluate the conditions of the other writes. But the port must return the item of every failed
    condition, so the client tries again.
    """
    if codes - CONDITIONS - CONFLICTS - THROTTLED or not codes:
        return Kind.REFUSED
    if codes & CONFLICTS:
        return Kind.CONFLICTS
    return Kind.THROTTLED if codes & THROTTLED else Kind.CONDITION


def _error(operation: str, answer: DynamoAnswer[Any], lost: bool) -> StratalogError:
    if lost:
        return OutcomeUnknown("the response to a write was lost", operation=operation, reason=answer.message)
    details = {"operation": operation, "code": answer.code or answer.kind.value, "reason": answer.message}
    if answer.kind is not Kind.REFUSED:
        return Unavailable("the index did not respond in time", **details)
    codes = {answer.code, *(reason.Code for reason in answer.reasons)}
    if codes & {"ValidationException", "ValidationError"}:
        text = " ".join([answer.message, *(reason.Message or "" for reason in answer.reasons)])
        return (LimitExceeded if "size has exceeded" in text else Invalid)("the index refuses the request", **details)
    return Unavailable("the index refuses the request", **details)
