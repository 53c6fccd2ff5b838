"""Responses in the form that Lambda passes to a gateway: one JSON object of at most 6 MB with the body in base64.

The handler compresses a body that would be too large, if the client accepts zstd or gzip. The handler sends every other
body uncompressed, like the server. If a body contains a secret and also text that an attacker chose, the compressed
length of the body can reveal the secret.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import zstandard

from stratalog.errors import LimitExceeded, StratalogError
from stratalog.limits import FUNCTION_ANSWER_BYTES_MAX, FUNCTION_UNPACKED_BYTES_MAX
from stratalog.protocol.live import ADDRESS_HEADER
from stratalog.server.errors import encoded_problem, status_of
from stratalog.server.pages import OWN_CONNECTIONS

__all__ = ["GatewayAnswer", "packing_of"]

TOO_LARGE = "the response is too large for a function: request a smaller range or a lower limit, or use a server"
TOO_LARGE_PLAIN = f"{TOO_LARGE}; or accept zstd or gzip"
GZIP_WINDOW = 31  # makes zlib write the gzip format
# The headers that describe the body. An error that replaces the body must not keep them.
OF_THE_BODY = frozenset({b"content-type", b"content-length", b"content-range", b"accept-ranges", b"etag"})
Headers = Sequence[tuple[bytes, bytes]]
_PACKERS: Mapping[str, Callable[[], Any]] = {
    "zstd": lambda: zstandard.ZstdCompressor().compressobj(),
    "gzip": lambda: zlib.compressobj(wbits=GZIP_WINDOW),
}
_NONE_OF_IT = re.compile(r"\s*q\s*=\s*0(\.0*)?\s*")


class GatewayAnswer:
    """A response that is being built: first set status and headers, then `add` each piece of the body, then `end`."""

    def __init__(self, packing: str = "") -> None:
        """``packing`` is the coding for a body that would be too large: zstd, gzip, or empty for none."""
        self.status = 500
        self.headers: Headers = ()
        self._body = bytearray()
        self._size = 0
        self._packing = packing
        self._packer: Any = None

    def add(self, piece: bytes) -> None:
        """Append a piece of the body. After LimitExceeded, call `refuse`."""
        self._size += len(piece)
        self._body += piece if self._packer is None else self._packer.compress(piece)
        if (
            self._packer is None
            and len(self._body) > FUNCTION_ANSWER_BYTES_MAX
            and self._packing
            and self._is_packable()
        ):
            self._packer = _PACKERS[self._packing]()
            self._body[:] = self._packer.compress(self._body)
        self._check()

    def end(self) -> None:
        """Finish the body after its last piece. After LimitExceeded, call `refuse`."""
        if self._packer is None:
            return
        self._body += self._packer.flush()
        self._check()
        packed = [(b"content-encoding", self._packing.encode()), (b"vary", b"accept-encoding")]
        self.headers = [*_of_packed(self.headers), *packed]

    def refuse(self, error: StratalogError) -> None:
        """Replace the response by an error. Headers that do not describe the body, such as CORS, stay."""
        self.status = status_of(error)
        remaining = [(name, value) for name, value in self.headers if name.lower() not in OF_THE_BODY]
        headers, body = encoded_problem(error)
        self.headers = [*remaining, *((name.encode(), value.encode()) for name, value in headers.items())]
        self._body[:] = body

    def event(self, live_address: str) -> dict[str, Any]:
        """Return the response in the gateway's form: each header once, and cookies in a list of their own."""
        headers: dict[str, str] = {ADDRESS_HEADER: live_address} if live_address else {}
        cookies: list[str] = []
        for raw_name, raw_value in self.headers:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            if name == "set-cookie":
                cookies.append(value)
            elif name == "content-security-policy" and live_address:
                # Behind a gateway, live hints come from another host, so allow the page to connect to that host too.
                headers[name] = value.replace(OWN_CONNECTIONS, f"{OWN_CONNECTIONS} {_origin(live_address)}")
            elif name != "content-length":
                headers[name] = f"{headers[name]}, {value}" if name in headers else value
        answer = {"statusCode": self.status, "headers": headers, "isBase64Encoded": True}
        return {**answer, "body": b64encode(self._body).decode(), **({"cookies": cookies} if cookies else {})}

    def _is_packable(self) -> bool:
        """Return whether the body may be compressed: it is not a range of bytes, and not compressed already."""
        names = {name.lower() for name, _ in self.headers}
        return self.status == 200 and not names & {b"content-range", b"content-encoding"}

    def _check(self) -> None:
        for size, limit in ((len(self._body), FUNCTION_ANSWER_BYTES_MAX), (self._size, FUNCTION_UNPACKED_BYTES_MAX)):
            if size > limit:
                may_shrink = not self._packing and self._is_packable()
                raise LimitExceeded(TOO_LARGE_PLAIN if may_shrink else TOO_LARGE, value=size, limit=limit)


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


def packing_of(headers: Mapping[str, str]) -> str:
    """Return the coding that a request's headers (by lower-case names) accept: zstd, gzip, or empty for none."""
    offered = (coding.partition(";") for coding in headers.get("accept-encoding", "").lower().split(","))
    weights = {name.strip(): weight for name, _, weight in offered}
    return next((name for name in _PACKERS if _is_accepted(weights.get(name, weights.get("*")))), "")


def _is_accepted(weight: str | None) -> bool:
    return weight is not None and not _NONE_OF_IT.fullmatch(weight)


def _of_packed(headers: Headers) -> Headers:
    """Return the headers for the compressed body: its entity tag is weak, and `Accept-Ranges` is left out."""
    remaining = [(name.lower(), value) for name, value in headers if name.lower() != b"accept-ranges"]
    weak = [
        (name, b"W/" + value if not value.startswith(b"W/") else value) for name, value in remaining if name == b"etag"
    ]
    return [*(header for header in remaining if header[0] != b"etag"), *weak]
