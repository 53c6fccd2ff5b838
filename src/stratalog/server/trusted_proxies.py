"""Trusted proxies: the peers whose `X-Forwarded-For` names the caller. The server ignores this header of other peers.

Each proxy appends its caller's address at the right of the header. So the server reads the addresses from the right, as
long as it trusts the proxy that appended the address. The server does not read `Forwarded` (RFC 7239). A proxy that
writes one of the two headers forwards the other header as its caller wrote it. See `docs/decisions/0047-*`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from litestar.types import Scope

from stratalog.errors import Invalid
from stratalog.server.addresses import Address, parse_address

__all__ = ["TrustedProxies"]

ADDRESS_BYTES_MAX = 64
_HEADER = b"x-forwarded-for"


class TrustedProxies:
    """The addresses and networks of trusted proxies.

    Raises Invalid for text that is neither an address nor a network.
    """

    def __init__(self, proxies: Iterable[str]) -> None:
        self._networks = [_network(proxy) for proxy in proxies]

    def restore_caller(self, scope: Scope) -> None:
        """Replace a trusted proxy in the ASGI scope's ``client`` by the caller's address, with port 0."""
        client = scope.get("client")
        if not self._networks or client is None:
            return
        caller = self.caller_of(client[0], [value for name, value in scope["headers"] if name == _HEADER])
        if caller != client[0]:
            scope["client"] = (caller, 0)

    def caller_of(self, peer: str, headers: Iterable[bytes]) -> str:
        """Return the rightmost address that is no trusted proxy, or the leftmost address if all are trusted.

        ``headers`` are the values of `X-Forwarded-For` in order. If an entry is no address, the result is the proxy
        that added the entry.
        """
        parsed, caller = parse_address(peer), peer
        entries = b",".join(headers).split(b",")
        while entries and parsed is not None and self._is_trusted(parsed):
            parsed = parse_address(_host(entries.pop()))
            caller = caller if parsed is None else str(parsed)
        return caller

    def trusts(self, peer: str) -> bool:
        """Whether this address is one of the proxies."""
        parsed = parse_address(peer)
        return parsed is not None and self._is_trusted(parsed)

    def _is_trusted(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as exc:
        raise Invalid("a trusted proxy must be an address or a network", value=text, reason=str(exc)) from exc


def _host(entry: bytes) -> str:
    """Return an entry without the port that some proxies add: `192.0.2.1:80`, `[2001:db8::1]:80`.

    Returns an empty text for an entry that is longer than `ADDRESS_BYTES_MAX`.
    """
    text = entry.strip().decode("latin-1")
    if len(text) > ADDRESS_BYTES_MAX:
        return ""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text
