"""Answers, as Lambda hands them to a gateway: one piece of at most 6 MB as JSON, where a body is base64.

A body that would be too large goes compressed to who takes zstd or gzip. Every other goes as it is, like all answers of
a server: where a secret stands beside text of somebody else's choice, a compressed length tells of the secret.
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

TOO_LARGE = "the answer is too large for a function: ask for less at once, by a range or a limit, or ask a server"
TOO_LARGE_PLAIN = f"{TOO_LARGE}; or accept zstd or gzip"
GZIP_WINDOW = 31  # zlib's word for gzip's frame
# What an answer says of its body, which another body must not inherit.
OF_THE_BODY = frozenset({b"content-type", b"content-length", b"content-range", b"accept-ranges", b"etag"})
Headers = Sequence[tuple[bytes, bytes]]
_PACKERS: Mapping[str, Callable[[], Any]] = {
    "zstd": lambda: zstandard.ZstdCompressor().compressobj(),
    "gzip": lambda: zlib.compressobj(wbits=GZIP_WINDOW),
}
_NONE_OF_IT = re.compile(r"\s*q\s*=\s*0(\.0*)?\s*")


class GatewayAnswer:
    """One answer, in the making: its head first, then its body piece by piece, then its end."""

    def __init__(self, packing: str = "") -> None:
        """A body that would be too large is compressed by ``packing``; by nothing where it is empty."""
        self.status = 500
        self.headers: Headers = ()
        self._body = bytearray()
        self._size = 0
        self._packing = packing
        self._packer: Any = None

    def add(self, piece: bytes) -> None:
        """A piece of the body. Raises LimitExceeded."""
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
        """No piece comes any more. Raises LimitExceeded."""
        if self._packer is None:
            return
        self._body += self._packer.flush()
        self._check()
        packed = [(b"content-encoding", self._packing.encode()), (b"vary", b"accept-encoding")]
        self.headers = [*_of_packed(self.headers), *packed]

    def refuse(self, error: StratalogError) -> None:
        """Answer this instead; what else the headers say, such as CORS, stands."""
        self.status = status_of(error)
        remaining = [(name, value) for name, value in self.headers if name.lower() not in OF_THE_BODY]
        headers, body = encoded_problem(error)
        self.headers = [*remaining, *((name.encode(), value.encode()) for name, value in headers.items())]
        self._body[:] = body

    def event(self, live_address: str) -> dict[str, Any]:
        """The answer as the gateway takes it: each header once, cookies apart."""
        headers: dict[str, str] = {ADDRESS_HEADER: live_address} if live_address else {}
        cookies: list[str] = []
        for raw_name, raw_value in self.headers:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            if name == "set-cookie":
                cookies.append(value)
            elif name == "content-security-policy" and live_address:
                # Hints come from another host here.
                headers[name] = value.replace(OWN_CONNECTIONS, f"{OWN_CONNECTIONS} {_origin(live_address)}")
            elif name != "content-length":
                headers[name] = f"{headers[name]}, {value}" if name in headers else value
        answer = {"statusCode": self.status, "headers": headers, "isBase64Encoded": True}
        return {**answer, "body": b64encode(self._body).decode(), **({"cookies": cookies} if cookies else {})}

    def _is_packable(self) -> bool:
        """Whether it is a body as it is: no part of one, whose place counts its bytes, and none packed already."""
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
    """How a body may be compressed for who asks with these headers, by lower-case names; empty for not at all."""
    offered = (coding.partition(";") for coding in headers.get("accept-encoding", "").lower().split(","))
    weights = {name.strip(): weight for name, _, weight in offered}
    return next((name for name in _PACKERS if _is_accepted(weights.get(name, weights.get("*")))), "")


def _is_accepted(weight: str | None) -> bool:
    return weight is not None and not _NONE_OF_IT.fullmatch(weight)


def _of_packed(headers: Headers) -> Headers:
    """What still holds of the same body compressed: its tag no longer for each byte, and ranges would count others."""
    remaining = [(name.lower(), value) for name, value in headers if name.lower() != b"accept-ranges"]
    weak = [
        (name, b"W/" + value if not value.startswith(b"W/") else value) for name, value in remaining if name == b"etag"
    ]
    return [*(header for header in remaining if header[0] != b"etag"), *weak]
