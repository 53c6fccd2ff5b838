"""The messages of a live connection: hints of new versions, and presence. Never any content of a document.

A poke may be lost or come twice; only a pull is authoritative. Every message is one JSON object with a ``type``.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "ADDRESS_HEADER",
    "SILENCE_SECONDS_MAX",
    "SUBPROTOCOL",
    "SUBPROTOCOLS",
    "FromClient",
    "FromServer",
    "Gone",
    "Heartbeat",
    "Hello",
    "Here",
    "HereChanged",
    "Poke",
    "Presence",
    "PresentPrincipal",
    "Ready",
]

ADDRESS_HEADER = "stratalog-live"
"""The response header with the address for live connections, where it differs from the document's own path."""

SILENCE_SECONDS_MAX = 60
"""The longest silence of a server, unless its `Ready` states another; after it a client disconnects."""

SUBPROTOCOL = "stratalog.live.1"
"""The WebSocket subprotocol. A client that cannot send the first message offers ``bearer.<token>`` with it."""

SUBPROTOCOLS = ("stratalog.live.2", SUBPROTOCOL)
"""The subprotocols that a server supports, newest first. In the newest `Here` comes once, then `HereChanged`."""


class Hello(msgspec.Struct, frozen=True, tag="hello", omit_defaults=True):
    """A client's first message: its token, where one is required. Tokens are never in a URL, which logs record.

    ``document`` is ``organisation/document``, each escaped, at an address that does not name it.
    """

    token: str = ""
    document: str = ""


class Presence(msgspec.Struct, frozen=True, tag="presence"):
    """The state that other clients see of this client, such as its cursor. Small; kept only while it is connected."""

    state: Any = None


class Ready(msgspec.Struct, frozen=True, tag="ready", omit_defaults=True):
    """A server's first message: from here on the connection gets pokes. ``id`` is its own id in `Here`."""

    id: str
    version: int
    silence_seconds: int = SILENCE_SECONDS_MAX


class Poke(msgspec.Struct, frozen=True, tag="poke"):
    """A hint that there is a new version; ``version`` is the newest one that the server knew."""

    version: int


class PresentPrincipal(msgspec.Struct, frozen=True, omit_defaults=True):
    """The principal of a connection, as the server knows it."""

    id: str
    name: str = ""


class Here(msgspec.Struct, frozen=True, tag="here", omit_defaults=True):
    """The presence of every connection that has sent one. Connections missing from it are gone.

    ``principals`` holds the known principals of connections. A client's own presence may be untrue.
    """

    present: dict[str, Any]
    principals: dict[str, PresentPrincipal] = {}


class HereChanged(msgspec.Struct, frozen=True, tag="here-changed", omit_defaults=True):
    """The changes since the last `Here` or `HereChanged`; None for a connection without presence from now on."""

    changed: dict[str, Any]
    principals: dict[str, PresentPrincipal] = {}


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    """Nothing new; the connection is alive."""


class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """The document was deleted. The server closes the connection after this."""


FromClient = Hello | Presence
FromServer = Ready | Poke | Here | HereChanged | Heartbeat | Gone
