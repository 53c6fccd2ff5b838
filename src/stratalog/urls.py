"""Splits URLs. A malformed URL raises Invalid, unlike in `urllib.parse`, which raises ValueError."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from stratalog.codec import escaped
from stratalog.errors import Invalid

__all__ = ["split_http_url", "split_url"]


def split_url(url: str, shown: str = "") -> SplitResult:
    """Return the parts of a URL. Raises Invalid; the error has ``shown``, or else the URL.

    The function does not check the port, since a URL of PostgreSQL may name several hosts with ports.
    """
    try:
        url.encode()
        return urlsplit(url)
    except ValueError as exc:
        raise _malformed(shown or url) from exc


def split_http_url(url: str) -> SplitResult:
    """Return the parts of a URL with the scheme http or https, a host, and a valid port or none. Raises Invalid."""
    parts = split_url(url)
    try:
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError as exc:
        raise _malformed(url) from exc
    if parts.scheme not in ("http", "https") or not has_host:
        raise Invalid("the URL must begin with http or https, and have a host", url=url)
    return parts


def _malformed(url: str) -> Invalid:
    return Invalid("the URL is malformed", url=escaped(url))
