"""Listeners: the live connections of API Gateway, stored in the index, and the messages to these connections.

All messages are hints. A client that misses a message pulls by itself within a minute. `Listeners` removes a connection
that disconnects. If the disconnect event is lost, `Listeners` removes the connection when the next message finds it
closed, or with the first message to the document after the connection has expired.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

import msgspec

from stratalog.clock import Observation
from stratalog.codec import Value, decode, encode
from stratalog.errors import ConditionFailed, Corrupt, Forbidden, StratalogError
from stratalog.keys import NAME_SORT, connection_partition, escape, listeners_partition, unescape
from stratalog.limits import GATEWAY_CONNECTION_SECONDS_MAX, GATEWAY_SHOWN_MAX
from stratalog.log import Environment
from stratalog.ports.index import Absent, Attribute, Condition, Delete, Equals, Item, Put
from stratalog.protocol.live import FromServer, Here, check_presence

__all__ = ["ANNOUNCE_SECONDS_MAX", "Connections", "GatewayListener", "Listeners"]

ANNOUNCE_SECONDS_MAX = 3.0
"""After this time `Listeners` sends no further messages, so that the caller of a commit gets the response in time."""

THREADS = 16
GONE = frozenset({"410", "GoneException"})
Name = tuple[str, str]
_log = logging.getLogger("stratalog.aws")


class Connections:
    """The connections of a WebSocket API, by the URL of its stage. Thread-safe."""

    def __init__(self, url: str) -> None:
        self._url = url

    def post(self, id: str, message: FromServer) -> bool:
        """Send a message. Return False if the connection is closed. Raises Unavailable, OutcomeUnknown."""
        return self._request(
            partial(self._client.post_to_connection, ConnectionId=id, Data=msgspec.json.encode(message))
        )

    def close(self, id: str) -> bool:
        """Close a connection. Return False if it is closed already. Raises Unavailable, OutcomeUnknown."""
        return self._request(partial(self._client.delete_connection, ConnectionId=id))

    def _request(self, call: Any) -> bool:
        from stratalog.backends.boto import RequestRefused, once
        from stratalog.backends.service_request import Retryable

        try:
            once("API Gateway", call, writes=True)
        except Retryable as exc:
            raise exc.error from exc
        except RequestRefused as exc:
            if exc.reason not in GONE:
                raise
            return False
        return True

    @cached_property
    def _client(self) -> Any:
        """The client of the management API, made on first use because its model is slow to load."""
        from stratalog.backends.boto import aws_client
        from stratalog.backends.service_request import RequestPolicy

        return aws_client("apigatewaymanagementapi", None, self._url, RequestPolicy(request_seconds_max=3))


class GatewayListener(msgspec.Struct, frozen=True):
    """A listening connection, its expiry time, and the state that it shows to the listeners."""

    id: str
    expires_ms: int
    state: Value = None


class Listeners:
    """The listeners of each document, stored in the index."""

    def __init__(self, environment: Environment, connections: Connections) -> None:
        self.connections = connections
        self._index = environment.index
        self._clock = environment.clock

    def join(self, id: str, organisation: str, name: str, expires_ms: int | None) -> None:
        """Add a connection to the listeners of a document. Raises Forbidden if the connection was added before.

        ``expires_ms`` is the expiry time of the connection's principal, or None. The connection expires at this time,
        but at the latest after `GATEWAY_CONNECTION_SECONDS_MAX`.
        """
        latest_ms = self._clock.wall_ms() + GATEWAY_CONNECTION_SECONDS_MAX * 1000
        try:
            self._index.commit(
                [Put(Item(connection_partition(id), NAME_SORT, {"o": organisation, "d": name}), Absent())]
            )
        except ConditionFailed as exc:
            raise Forbidden("a connection may send hello only once") from exc
        self._put((organisation, name), GatewayListener(id, min(latest_ms, expires_ms or latest_ms)))

    def leave(self, id: str) -> None:
        """Remove a connection. If it showed a state, send the other listeners the states that remain.

        Raises the errors of the index.
        """
        name = self.name_of(id)
        if name is None:
            return
        was = self._index.get(listeners_partition(*name), escape(id))
        self._forget(name, id)
        if was is not None and "s" in was.attributes:
            self._send_shown(name)

    def show(self, id: str, state: Value) -> None:
        """Show a connection's state to the listeners of its document, or no state for None.

        If too many connections show a state, a new one stays open, and its state is not shown. Connections that begin
        at the same time can exceed the limit. Raises Forbidden before hello, and the errors of `check_presence`.
        """
        check_presence(state)
        name = self.name_of(id)
        item = self._index.get(listeners_partition(*name), escape(id)) if name else None
        if name is None or item is None:
            raise Forbidden("a connection must send hello first")
        known = _listener(item)
        if state is not None and known.state is None:
            shown = sum(listener.state is not None for listener in self._all(name, True))
            # Do not close the connection: its client would connect again at once, and show its state again.
            if shown >= GATEWAY_SHOWN_MAX:
                return
        with suppress(ConditionFailed):  # the connection has left meanwhile
            self._put(name, msgspec.structs.replace(known, state=state), Equals("e", known.expires_ms))
        self._send_shown(name)

    def here(self, organisation: str, name: str) -> Here:
        """Return the states that the connections of a document show."""
        listeners = list(self._all((organisation, name), True))
        self._end_expired((organisation, name), listeners, Observation(self._clock))
        return _shown(self._living(listeners))

    def name_of(self, id: str) -> Name | None:
        """Return organisation and name of the document that a connection listens to, or None."""
        item = self._index.get(connection_partition(id), NAME_SORT)
        return None if item is None else (str(item.attributes["o"]), str(item.attributes["d"]))

    def announce(self, organisation: str, name: str, message: FromServer, begun: Observation | None = None) -> None:
        """Send a message to all reachable listeners, and remove the closed listeners. Raises no StratalogError.

        A caller of several announcements passes the same ``begun`` to all calls. So together the calls take at most the
        time of one announcement.
        """
        try:
            # An eventually consistent read costs half as much. It may miss a listener that has just joined, and that
            # pulls anyway.
            self._notify((organisation, name), message, begun or Observation(self._clock), consistent=False)
        except StratalogError as exc:
            _log.warning("the listeners of %s/%s were not notified: %s", organisation, name, exc)

    def _send_shown(self, name: Name) -> None:
        self._notify(name, None, Observation(self._clock), consistent=True)

    def _notify(self, name: Name, message: FromServer | None, begun: Observation, *, consistent: bool) -> None:
        """Send a message to the listeners, or for None the states that they show. Then close expired connections.

        The method begins no request later than `ANNOUNCE_SECONDS_MAX` after ``begun``.
        """
        if _is_over(begun):
            return
        listeners = list(self._all(name, consistent))
        living = self._living(listeners)
        self._send(name, _shown(living) if message is None else message, living, begun)
        self._end_expired(name, listeners, begun)

    def _send(self, name: Name, message: FromServer, living: list[GatewayListener], begun: Observation) -> None:
        """Send a message to the listeners. If a closed listener showed a state, send the new states to the others."""
        send = partial(self._send_to, name, message, begun)
        if len(living) < 2:
            stays = [send(listener) for listener in living]
        else:
            with ThreadPoolExecutor(min(THREADS, len(living))) as threads:
                stays = list(threads.map(send, living))
        left = [listener for listener, stay in zip(living, stays, strict=True) if stay]
        if _shown(left) != _shown(living):
            self._send(name, _shown(left), left, begun)

    def _send_to(self, name: Name, message: FromServer, begun: Observation, listener: GatewayListener) -> bool:
        """Send a message to one listener. If the connection is closed, remove the listener and return False."""
        if _is_over(begun):
            return True
        try:
            if self.connections.post(listener.id, message):
                return True
            self._forget(name, listener.id)
            return False
        except StratalogError as exc:
            _log.info("a listener of %s/%s was not notified: %s", *name, exc)
            return True

    def _living(self, listeners: list[GatewayListener]) -> list[GatewayListener]:
        now_ms = self._clock.wall_ms()
        return [listener for listener in listeners if listener.expires_ms > now_ms]

    def _end_expired(self, name: Name, listeners: list[GatewayListener], begun: Observation) -> None:
        """Close expired connections, until `ANNOUNCE_SECONDS_MAX` after ``begun``. The next call closes the others."""
        now_ms = self._clock.wall_ms()
        for listener in listeners:
            if listener.expires_ms <= now_ms and not _is_over(begun):
                self._end(name, listener)

    def _end(self, name: Name, listener: GatewayListener) -> None:
        """Close and remove an expired connection. After a failure, the next message to the document tries again."""
        try:
            self.connections.close(listener.id)
            self._forget(name, listener.id)
        except StratalogError as exc:
            _log.info("a connection of a listener of %s/%s was not closed: %s", *name, exc)

    def _all(self, name: Name, consistent: bool) -> Iterator[GatewayListener]:
        for item in self._index.query(listeners_partition(*name), consistent=consistent):
            yield _listener(item)

    def _put(self, name: Name, listener: GatewayListener, condition: Condition | None = None) -> None:
        attributes: dict[str, Attribute] = {"e": listener.expires_ms}
        if listener.state is not None:
            attributes["s"] = encode(listener.state)
        self._index.commit([Put(Item(listeners_partition(*name), escape(listener.id), attributes), condition)])

    def _forget(self, name: Name, id: str) -> None:
        self._index.commit([Delete(listeners_partition(*name), escape(id))])
        self._index.commit([Delete(connection_partition(id), NAME_SORT)])


def _is_over(begun: Observation) -> bool:
    return begun.age_seconds() > ANNOUNCE_SECONDS_MAX


def _listener(item: Item) -> GatewayListener:
    expires_ms, state = item.attributes.get("e"), item.attributes.get("s")
    if not isinstance(expires_ms, int) or not isinstance(state, bytes | None):
        raise Corrupt("an item is not a listener", sort=item.sort)
    return GatewayListener(unescape(item.sort), expires_ms, None if state is None else decode(state))


def _shown(listeners: list[GatewayListener]) -> Here:
    return Here({listener.id: listener.state for listener in listeners if listener.state is not None})
