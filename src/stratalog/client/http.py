"""The transport over HTTP: MessagePack bodies, the server's typed errors, pokes over a WebSocket."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

import httpx
import msgspec

from stratalog.client.live import PokeListener, ServerAddress
from stratalog.client.transport import Stop, Unreached
from stratalog.clock import Clock, SystemClock
from stratalog.codec import is_decimal
from stratalog.errors import (
    BY_CODE,
    Corrupt,
    Forbidden,
    Invalid,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    StratalogError,
)
from stratalog.protocol.live import ADDRESS_HEADER
from stratalog.protocol.sync import PATH_HEADER, Pull, Pulled, Push, Pushed
from stratalog.struct_types import resolved
from stratalog.urls import split_http_url

__all__ = ["HttpTransport", "document_of"]

MSGPACK = "application/msgpack"
CONNECT_SECONDS_MAX = 5.0
SILENCE_SECONDS_MAX = 30.0
# The system accepts a body into its buffers at once. So the silence before the response includes the time that a slow
# network needs for the body.
UPLOAD_BYTES_PER_SECOND_MIN = 4096
UPLOAD_SECONDS_MAX = 300.0
RETRY_AFTER_SECONDS_MAX = 300.0
_KINDS: Mapping[int, type[StratalogError]] = {404: NotFound, 408: OutcomeUnknown, 413: LimitExceeded}
Answer = TypeVar("Answer", Pushed, Pulled)


class HttpTransport:
    """A document on a server, by its URL: ``http://host/v1/organisations/{organisation}/documents/{document}``.

    The transport calls ``token`` for the bearer token before each request and each live connection, so the token may
    change. With ``create`` the transport creates a missing document before the first request. Raises Invalid for
    another kind of URL.
    """

    def __init__(
        self, url: str, *, token: Callable[[], str] | None = None, create: bool = False, clock: Clock | None = None
    ) -> None:
        self._document = document_of(url)
        self._url = url.rstrip("/")
        self._application_token = token or (lambda: "")
        self._create = create
        self._clock = clock or SystemClock()
        self._http = httpx.Client()
        self._live = ServerAddress("ws" + self._url.removeprefix("http") + "/live")

    def push(self, push: Push) -> Pushed:
        """See `Transport.push`. Also raises Corrupt if the answer cannot be decoded."""
        return self._request("push", push, Pushed)

    def pull(self, pull: Pull) -> Pulled:
        """See `Transport.pull`. Also raises Corrupt if the answer cannot be decoded."""
        return self._request("pull", pull, Pulled)

    def listen(self, on_poke: Callable[[], None]) -> Stop:
        """See `Transport.listen`."""
        listener = PokeListener(lambda: self._live, self._token, on_poke, self._clock)
        threading.Thread(target=listener.run, name="stratalog-pokes", daemon=True).start()
        return listener.stop

    def close(self) -> None:
        """See `Transport.close`."""
        self._http.close()

    def _token(self) -> str:
        """Return the application's token, without white space around it, as at the end of a file.

        Raises Invalid for a token that no header can contain. The error does not show the token.
        """
        token = self._application_token()
        if not isinstance(token, str) or not (token := token.strip()).isascii() or not token.isprintable():
            raise Invalid("a token must be printable ASCII text")
        return token

    def _request(self, verb: str, question: Push | Pull, kind: type[Answer]) -> Answer:
        if self._create:
            self._send("PUT", self._url, None)
            self._create = False
        response = self._send("POST", f"{self._url}/{verb}", msgspec.msgpack.encode(question))
        try:
            return msgspec.msgpack.decode(response.content, type=resolved(kind))
        except (msgspec.DecodeError, ValueError, RecursionError) as exc:
            raise Corrupt("the server's response cannot be decoded", reason=str(exc)) from exc

    def _send(self, method: str, url: str, body: bytes | None) -> httpx.Response:
        headers = {"Accept": MSGPACK, "Content-Type": MSGPACK}
        if token := self._token():
            headers["Authorization"] = f"Bearer {token}"
        if "%" in (path := urlsplit(url).path):  # a gateway may unescape the path, but not the header
            headers[PATH_HEADER] = path
        try:
            timeout = httpx.Timeout(_silence_seconds_max(body or b""), connect=CONNECT_SECONDS_MAX)
            response = self._http.request(method, url, content=body, headers=headers, timeout=timeout)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as exc:
            raise Unreached("the server cannot be reached", url=url, reason=str(exc)) from exc
        except (httpx.HTTPError, RuntimeError) as exc:
            raise OutcomeUnknown("the connection broke before the response arrived", url=url, reason=str(exc)) from exc
        if not response.is_success:
            raise error_of(response)
        self._heed(response.headers.get(ADDRESS_HEADER, ""))
        return response

    def _heed(self, address: str) -> None:
        """Use the server's ``address`` for live updates, from the next live connection on.

        The client sends its token to that address, so under an ``https`` URL it accepts only an address with TLS.
        """
        schemes = ("wss://",) if self._url.startswith("https:") else ("wss://", "ws://")
        if address.startswith(schemes):
            self._live = ServerAddress(address, self._document)


def document_of(url: str) -> str:
    """Return ``organisation/document`` of a document's URL, percent-encoded. Raises Invalid for another URL."""
    parts = split_http_url(url)
    segments = parts.path.rstrip("/").split("/")
    if parts.query or parts.fragment:
        raise Invalid("a document's URL has no query and no fragment", url=url)
    if len(segments) < 4 or (segments[-4], segments[-2]) != ("organisations", "documents"):
        raise Invalid("a document's URL must end in /organisations/{organisation}/documents/{document}", value=url)
    return "/".join(quote(unquote(segments[position]), safe="") for position in (-3, -1))


def error_of(response: httpx.Response) -> StratalogError:
    """Return the typed error for an unsuccessful response.

    The ``code`` in the server's own error body gives the kind of error. A response without a known code may come from a
    proxy. Its status of 500 or above, or 408, gives OutcomeUnknown, since the server may have executed the request. Its
    status of 404 gives NotFound, 413 gives LimitExceeded, and any other status gives Invalid. With any body, 429 gives
    Unreached and 401 gives Forbidden.
    """
    status, details = response.status_code, {"status": response.status_code, **_retry_after(response)}
    problem = _problem(response)
    message = str(problem.get("message") or f"the server answered {status}")
    details |= {name: problem[name] for name in ("limit", "value") if problem.get(name) is not None}
    if status == 429:
        return Unreached(message, **details)
    if status == 401:
        return Forbidden(message, **details)
    kind = BY_CODE.get(str(problem.get("code")))
    if kind is None:
        kind = OutcomeUnknown if status >= 500 else _KINDS.get(status, Invalid)
    return kind(message, **details)


def _silence_seconds_max(body: bytes) -> float:
    return SILENCE_SECONDS_MAX + min(UPLOAD_SECONDS_MAX, len(body) / UPLOAD_BYTES_PER_SECOND_MIN)


def _problem(response: httpx.Response) -> dict[str, Any]:
    kind = response.headers.get("content-type", "").partition(";")[0]
    try:
        body = msgspec.msgpack.decode(response.content) if kind == MSGPACK else msgspec.json.decode(response.content)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _retry_after(response: httpx.Response) -> dict[str, float]:
    """Return the seconds in a ``Retry-After`` header, at most `RETRY_AFTER_SECONDS_MAX`, as error details.

    A date in the header is ignored, since the clocks of client and server may differ.
    """
    text = response.headers.get("retry-after", "")
    return {"retry_after_seconds": min(float(text), RETRY_AFTER_SECONDS_MAX)} if is_decimal(text) else {}
