"""What is said on a live connection: hints that something is new, and who is here. Never any content of a document.

A poke may be lost or come twice; pull is the truth. Every message is one JSON object with a ``type``.
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
"""The header of an answer that tells where live connections go, where that is not beside the document's own path."""

SILENCE_SECONDS_MAX = 60
"""How long a server is silent at most, unless its `Ready` says otherwise; a client then hangs up."""

SUBPROTOCOL = "stratalog.live.1"
"""The WebSocket subprotocol. A client that cannot speak first offers ``bearer.<token>`` beside it."""

SUBPROTOCOLS = ("stratalog.live.2", SUBPROTOCOL)
"""Those that a server knows, the newest first. In the second one `Here` comes once, and then `HereChanged`."""


class Hello(msgspec.Struct, frozen=True, tag="hello", omit_defaults=True):
    """A client's first message: its token, where one is asked for. Tokens are never in a URL, which logs keep.

    ``document`` is ``organisation/document``, each escaped, at an address that does not name it.
    """

    token: str = ""
    document: str = ""


class Presence(msgspec.Struct, frozen=True, tag="presence"):
    """What the others should see of this client, such as its cursor. Small; kept only while it is connected."""

    state: Any = None


class Ready(msgspec.Struct, frozen=True, tag="ready", omit_defaults=True):
    """A server's first message: the connection listens from here on. ``id`` is its own among those who are here."""

    id: str
    version: int
    silence_seconds: int = SILENCE_SECONDS_MAX


class Poke(msgspec.Struct, frozen=True, tag="poke"):
    """There is something new; ``version`` is the newest one the server knew of."""

    version: int


class PresentPrincipal(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whom a connection speaks for, as the server knows it."""

    id: str
    name: str = ""


class Here(msgspec.Struct, frozen=True, tag="here", omit_defaults=True):
    """Everybody who says something of themselves, by connection: those gone are no longer among them.

    ``principals`` holds those of connections whose principal is known. What a client says of itself may be untrue.
    """

    present: dict[str, Any]
    principals: dict[str, PresentPrincipal] = {}


class HereChanged(msgspec.Struct, frozen=True, tag="here-changed", omit_defaults=True):
    """What changed since the last `Here` or `HereChanged`: None for a connection that shows nothing any more."""

    changed: dict[str, Any]
    principals: dict[str, PresentPrincipal] = {}


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    """Nothing new; the connection lives."""


class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """The document was deleted. The server closes after this."""


FromClient = Hello | Presence
FromServer = Ready | Poke | Here | HereChanged | Heartbeat | Gone
