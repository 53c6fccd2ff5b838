"""The messages of a live connection: hints of new versions, and presence. No message contains content of a document.

A poke may be lost or come twice. Only a pull is authoritative. Every message is one JSON object with a ``type``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stratalog.codec import Value, encode
from stratalog.errors import Invalid, LimitExceeded
from stratalog.limits import PRESENCE_BYTES_MAX

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
    "check_presence",
]

ADDRESS_HEADER = "stratalog-live"
"""The response header with the address for live connections. A server sends this header only if the address is not
``…/live`` below the document's own path."""

SILENCE_SECONDS_MAX = 60
"""After this many seconds without a message from the server, a client disconnects. `Ready` may state another number."""

SUBPROTOCOL = "stratalog.live.1"
"""The oldest WebSocket subprotocol. A client sends its token in `Hello`, or offers ``bearer.<token>`` as a second
subprotocol. The functions on Lambda read the token only from `Hello`."""

SUBPROTOCOLS = ("stratalog.live.2", SUBPROTOCOL)
"""The subprotocols that a server supports, newest first. The functions on Lambda support only `SUBPROTOCOL`. With the
newest subprotocol, a server sends `HereChanged`. The server then sends `Here` only to a client that is new or missed a
message of presence."""


class Hello(msgspec.Struct, frozen=True, tag="hello", omit_defaults=True):
    """A client's first message, with the client's token if the server needs a token.

    A token is never in a URL, since logs record URLs.

    ``document`` is ``organisation/document``, with both names percent-encoded. A client must send ``document`` if the
    address names no document.
    """

    token: str = ""
    document: str = ""


class Presence(msgspec.Struct, frozen=True, tag="presence"):
    """The state that other clients see of this client, such as its cursor.

    The server drops the state when the client disconnects. None removes the state.
    """

    state: Any = None


class Ready(msgspec.Struct, frozen=True, tag="ready", omit_defaults=True):
    """A server's first message: from now on the connection gets pokes. ``id`` is the connection's own id in `Here`."""

    id: str
    version: int
    silence_seconds: int = SILENCE_SECONDS_MAX


class Poke(msgspec.Struct, frozen=True, tag="poke"):
    """A hint that there is a new version. ``version`` is the newest version that the server has read."""

    version: int


class PresentPrincipal(msgspec.Struct, frozen=True, omit_defaults=True):
    """The principal of a connection, as the server authenticated it."""

    id: str
    name: str = ""


class Here(msgspec.Struct, frozen=True, tag="here", omit_defaults=True):
    """The presence of the document's connections. A connection that is not in ``present`` has no presence.

    A server shows a limited number of connections for a document, and for one principal in the document. It ignores the
    presence of further connections.

    ``principals`` contains the known principals of these connections, as the server authenticated them. A client can
    send a false presence, but not a false principal.
    """

    present: dict[str, Any]
    principals: dict[str, PresentPrincipal] = {}


class HereChanged(msgspec.Struct, frozen=True, tag="here-changed", omit_defaults=True):
    """The changes since the last `Here` or `HereChanged`.

    In ``changed``, a connection that no longer has presence has the value None.
    """

    changed: dict[str, Any]
    principals: dict[str, PresentPrincipal] = {}


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    """A message that has no fields and only shows that the connection is alive."""


class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """The document was deleted. The server closes the connection after this message."""


FromClient = Hello | Presence
FromServer = Ready | Poke | Here | HereChanged | Heartbeat | Gone


def check_presence(state: Value) -> None:
    """Raise LimitExceeded for a connection's state that is too large, and Invalid for an integer beyond 64 bits."""
    try:
        size = len(encode(state))
    except OverflowError as exc:
        raise Invalid("the presence of a client holds an integer beyond 64 bits") from exc
    if size > PRESENCE_BYTES_MAX:
        raise LimitExceeded("the presence of a client is too large", value=size, limit=PRESENCE_BYTES_MAX)
