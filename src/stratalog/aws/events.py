"""The headers of API Gateway's events, as the server's application expects them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["asgi_headers", "headers_of"]


def headers_of(event: Mapping[str, Any]) -> dict[str, str]:
    """Return the event's headers by lower-case names."""
    return {name.lower(): value for name, value in event.get("headers", {}).items()}


def asgi_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return the headers as bytes. A client may send any characters, for example in a cookie."""
    return [(_bytes_of(name), _bytes_of(value)) for name, value in headers.items()]


def _bytes_of(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode(errors="replace")
