"""Addresses: the network addresses of peers and callers, read from text."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

__all__ = ["Address", "network_of", "parse_address"]

ADDRESSES_REMEMBERED_MAX = 1024
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@lru_cache(ADDRESSES_REMEMBERED_MAX)
def parse_address(text: str) -> Address | None:
    """Return the address, or None if ``text`` is no address. An IPv4-mapped IPv6 address becomes the IPv4 address."""
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(parsed, "ipv4_mapped", None)
    return parsed if mapped is None else mapped


@lru_cache(ADDRESSES_REMEMBERED_MAX)
def network_of(text: str) -> str:
    """Return the /64 network of an IPv6 address, or the IPv4 address of an IPv4-mapped address, or else ``text``."""
    parsed = parse_address(text)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False).network_address)
    return text if parsed is None else str(parsed)
