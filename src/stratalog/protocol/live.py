"""The messages of a live connection: hints of new versions, and presence. They never hold content of a document.

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
"""The response header with the address for live connections, where that is not below the document's own path."""

SILENCE_SECONDS_MAX = 60
"""A client disconnects after this long without a message of the server. `Ready` may state another time."""

SUBPROTOCOL = "stratalog.live.1"
"""The WebSocket subprotocol. A client sends its token in `Hello`, or offers ``bearer.<token>`` as a second protocol."""

SUBPROTOCOLS = ("stratalog.live.2", SUBPROTOCOL)
"""The subprotocols that a server supports, newest first. The newest sends `Here` once, and then `HereChanged`."""


class Hello(msgspec.Struct, frozen=True, tag="hello", omit_defaults=True):
    """A client's first message: its token, where one is required. A token is never in a URL, since logs record URLs.

    ``document`` is ``organisation/document``, each escaped, if the address does not name the document.
    """

    token: str = ""
    document: str = ""


class Presence(msgspec.Struct, frozen=True, tag="presence"):
    """The state that other clients see of this client, such as its cursor. The server drops it at the disconnect."""

    state: Any = None


class Ready(msgspec.Struct, frozen=True, tag="ready", omit_defaults=True):
    """A server's first message: from now on the connection gets pokes. ``id`` is the connection's own id in `Here`."""

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
    """The presence of every connection that has sent one. A connection that is missing is gone.

    ``principals`` holds the principals of connections as the server authenticated them. What a client sends as its
    presence may be false.
    """

    present: dict[str, Any]
    principals: dict[str, PresentPrincipal] = {}


class HereChanged(msgspec.Struct, frozen=True, tag="here-changed", omit_defaults=True):
    """The changes since the last `Here` or `HereChanged`; None for a connection that no longer has presence."""

    changed: dict[str, Any]
    principals: dict[str, PresentPrincipal] = {}


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    """A server's sign that the connection is alive. It has no other news."""


class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """The document was deleted. The server closes the connection after this."""


FromClient = Hello | Presence
FromServer = Ready | Poke | Here | HereChanged | Heartbeat | Gone
