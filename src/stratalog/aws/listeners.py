"""Listeners: the live connections that API Gateway holds, kept in the index, and how they are told of something new.

All of it is hints. A listener that is missed pulls by itself within a minute; one that is gone is forgotten when it is
told next, or at its time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any

import msgspec

from stratalog.codec import Value, decode, encode
from stratalog.errors import Corrupt, Forbidden, LimitExceeded, StratalogError
from stratalog.keys import NAME_SORT, connection_partition, escape, listeners_partition, unescape
from stratalog.limits import PRESENCE_BYTES_MAX
from stratalog.log import Place
from stratalog.ports.index import Attribute, Delete, Item, Put
from stratalog.protocol.live import FromServer, Here

__all__ = ["CONNECTION_SECONDS_MAX", "SHOWN_MAX", "Connections", "Listener", "Listeners"]

CONNECTION_SECONDS_MAX = 2 * 3600 + 300
"""API Gateway ends a connection after two hours; this lets clocks differ."""

SHOWN_MAX = 100
"""How many connections of a document show themselves: a message to a WebSocket is at most 128 KB there."""

THREADS = 16
GONE = frozenset({"410", "GoneException"})
Name = tuple[str, str]
_log = logging.getLogger("stratalog.aws")


class Connections:
    """The WebSocket API's own connections, by its stage's URL. Thread-safe."""

    def __init__(self, url: str) -> None:
        self._url = url

    def post(self, id: str, message: FromServer) -> bool:
        """Send a message. False where the connection is gone. Raises Unavailable, OutcomeUnknown."""
        return self._ask(partial(self._client.post_to_connection, ConnectionId=id, Data=msgspec.json.encode(message)))

    def close(self, id: str) -> bool:
        """End a connection. False where it is gone already. Raises Unavailable, OutcomeUnknown."""
        return self._ask(partial(self._client.delete_connection, ConnectionId=id))

    def _ask(self, call: Any) -> bool:
        from stratalog.backends.attempts import Again
        from stratalog.backends.boto import Refused, once

        try:
            once("API Gateway", call, writes=True)
        except Again as exc:
            raise exc.error from exc
        except Refused as exc:
            if exc.reason not in GONE:
                raise
            return False
        return True

    @cached_property
    def _client(self) -> Any:
        """Made where somebody listens, since its model takes a while to load."""
        from stratalog.backends.attempts import Budget
        from stratalog.backends.boto import aws_client

        return aws_client("apigatewaymanagementapi", None, self._url, Budget(request_seconds_max=3))


class Listener(msgspec.Struct, frozen=True):
    """A connection that listens, until when, and what it shows of itself."""

    id: str
    expires_ms: int
    state: Value = None


class Listeners:
    """Who listens to which document."""

    def __init__(self, place: Place, connections: Connections) -> None:
        self.connections = connections
        self._index = place.index
        self._clock = place.clock

    def join(self, id: str, organisation: str, name: str, expires_ms: int | None) -> None:
        """Tell the connection of what is new from now on, until it expires. Raises what ``commit`` raises."""
        most = self._clock.wall_ms() + CONNECTION_SECONDS_MAX * 1000
        self._index.commit([Put(Item(connection_partition(id), NAME_SORT, {"o": organisation, "d": name}))])
        self._put((organisation, name), Listener(id, min(most, expires_ms or most)))

    def leave(self, id: str) -> None:
        """Forget the connection, and tell the others where it showed something. Raises what ``commit`` raises."""
        name = self.name_of(id)
        if name is None:
            return
        was = self._index.get(listeners_partition(*name), escape(id))
        self._forget(name, id)
        if was is not None and "s" in was.attributes:
            self._tell_shown(name)

    def show(self, id: str, state: Value) -> None:
        """Show this of the connection to the others; None takes it back. Raises LimitExceeded, Forbidden."""
        size = len(encode(state))
        if size > PRESENCE_BYTES_MAX:
            raise LimitExceeded("what is shown of a client is too large", value=size, limit=PRESENCE_BYTES_MAX)
        name = self.name_of(id)
        known = {one.id: one for one in self._all(name)} if name else {}
        if name is None or id not in known:
            raise Forbidden("a connection must say hello first")
        shown = [one.id for one in known.values() if one.state is not None and one.id != id]
        if state is not None and len(shown) >= SHOWN_MAX:
            raise Forbidden("too many show themselves in the document", limit=SHOWN_MAX)
        self._put(name, msgspec.structs.replace(known[id], state=state))
        self._tell_shown(name)

    def here(self, organisation: str, name: str) -> Here:
        """What each connection of the document shows."""
        return _shown(self._living((organisation, name)))

    def name_of(self, id: str) -> Name | None:
        """Organisation and name that a connection listens to."""
        item = self._index.get(connection_partition(id), NAME_SORT)
        return None if item is None else (str(item.attributes["o"]), str(item.attributes["d"]))

    def tell(self, organisation: str, name: str, message: FromServer) -> None:
        """Tell all who listen, as far as they can be reached; forget who is gone. Raises nothing: it is a hint."""
        try:
            self._tell((organisation, name), message, self._living((organisation, name)))
        except StratalogError as exc:
            _log.warning("those who listen to %s/%s were not told: %s", organisation, name, exc)

    def _tell_shown(self, name: Name) -> None:
        living = self._living(name)
        self._tell(name, _shown(living), living)

    def _tell(self, name: Name, message: FromServer, living: list[Listener]) -> None:
        if len(living) < 2:
            for one in living:
                self._tell_one(name, message, one)
            return
        with ThreadPoolExecutor(min(THREADS, len(living))) as threads:
            list(threads.map(partial(self._tell_one, name, message), living))

    def _tell_one(self, name: Name, message: FromServer, listener: Listener) -> None:
        try:
            if not self.connections.post(listener.id, message):
                self._forget(name, listener.id)
        except StratalogError as exc:
            _log.info("a listener of %s/%s was not told: %s", *name, exc)

    def _living(self, name: Name) -> list[Listener]:
        """Those who are still told; the others' time is over, and their connections are ended."""
        now_ms = self._clock.wall_ms()
        found = list(self._all(name))
        for one in found:
            if one.expires_ms <= now_ms:
                self.connections.close(one.id)
                self._forget(name, one.id)
        return [one for one in found if one.expires_ms > now_ms]

    def _all(self, name: Name) -> Iterator[Listener]:
        """Read at half the price of a consistent read: one who joined this moment pulls by itself."""
        for item in self._index.query(listeners_partition(*name), consistent=False):
            yield _listener(item)

    def _put(self, name: Name, listener: Listener) -> None:
        attributes: dict[str, Attribute] = {"e": listener.expires_ms}
        if listener.state is not None:
            attributes["s"] = encode(listener.state)
        self._index.commit([Put(Item(listeners_partition(*name), escape(listener.id), attributes))])

    def _forget(self, name: Name, id: str) -> None:
        self._index.commit([Delete(listeners_partition(*name), escape(id))])
        self._index.commit([Delete(connection_partition(id), NAME_SORT)])


def _listener(item: Item) -> Listener:
    expires_ms, state = item.attributes.get("e"), item.attributes.get("s")
    if not isinstance(expires_ms, int) or not isinstance(state, bytes | None):
        raise Corrupt("an item is no listener", sort=item.sort)
    return Listener(unescape(item.sort), expires_ms, None if state is None else decode(state))


def _shown(listeners: list[Listener]) -> Here:
    return Here({one.id: one.state for one in listeners if one.state is not None})
