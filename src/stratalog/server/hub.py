"""Hub: who listens to which document in this process, and what tells them that something is new.

Own commits poke at once. Those of other processes are found by looking at the heads of the documents that have
listeners, which is one small read each. What waits for a listener is bounded: a newer hint takes the older one's place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
from litestar.concurrency import sync_to_thread

from stratalog.clock import new_id
from stratalog.codec import Value, encode
from stratalog.errors import Forbidden, LimitExceeded, NotFound, StratalogError
from stratalog.limits import PRESENCE_BYTES_MAX, PRESENCE_CONNECTIONS_MAX
from stratalog.log import Log
from stratalog.protocol.live import FromServer, Gone, Heartbeat, Here, Poke, Ready
from stratalog.server.application import ServerLimits
from stratalog.server.errors import Refused
from stratalog.server.metrics import Metrics
from stratalog.store import Store

__all__ = ["Hub", "Listener", "Poked"]

Name = tuple[str, str]
Poked = Callable[[str, str, int], None]
"""Is told of each commit made here: organisation, name and version."""

_log = logging.getLogger("stratalog.server")
WATCH_SHARE_MAX = 0.25
"""How much of the time may go into looking at heads; with very many documents the pauses grow."""


class Listener:
    """One live connection. What it has not been given yet is at most one of each kind of message."""

    def __init__(self, room: _Room, id: str, heartbeat_seconds: float) -> None:
        self.id = id
        self._room = room
        self._heartbeat_seconds = heartbeat_seconds
        self._wake = anyio.Event()
        self._ended = False
        self._waiting: dict[type[Any], FromServer] = {Ready: Ready(id, room.version)}
        if room.present:
            self._waiting[Here] = Here(dict(room.present))
        self._wake.set()

    def give(self, message: FromServer) -> None:
        """Have the message sent, in place of an older one of its kind that was not."""
        self._waiting[type(message)] = message
        self._wake.set()

    def end(self) -> None:
        """Give nothing more: the server stops."""
        self._ended = True
        self._wake.set()

    async def next(self) -> list[FromServer]:
        """What is new, waiting for it; a heartbeat where nothing is for a while. Empty at the end."""
        with anyio.move_on_after(self._heartbeat_seconds):
            await self._wake.wait()
        self._wake = anyio.Event()
        messages, self._waiting = list(self._waiting.values()), {}
        return [] if self._ended else messages or [Heartbeat()]

    def show(self, state: Value) -> None:
        """Tell the others of this client; None tells nothing any more. Raises LimitExceeded."""
        self._room.show(self, state)


class Hub:
    """Joins connections to documents. Used from the event loop only.

    ``poked`` passes commits made here on to connections that are held elsewhere.
    """

    def __init__(self, store: Store, limits: ServerLimits, metrics: Metrics, poked: Poked | None = None) -> None:
        self._store = store
        self._limits = limits
        self._metrics = metrics
        self._rooms: dict[Name, _Room] = {}
        self._count = 0
        self._clock = store.environment.clock
        self._poked = poked

    async def join(self, organisation: str, name: str) -> Listener:
        """Listen from now on: what is committed after this is poked. Raises NotFound, Refused."""
        self.check_room()
        self._count += 1
        try:
            log = await sync_to_thread(self._store.log, organisation, name)
            version = await sync_to_thread(lambda: log.head().version)
        except BaseException:
            self._count -= 1
            raise
        room = self._rooms.get((organisation, name))
        if room is None or room.log.record.incarnation != log.record.incarnation:
            if room is not None:
                room.give(Gone())
            room = self._rooms[organisation, name] = _Room(log, version)
        listener = Listener(room, new_id(self._clock), self._limits.live_heartbeat_seconds)
        room.listeners.add(listener)
        self._metrics.listeners.inc()
        return listener

    def check_room(self) -> None:
        """Raise Refused where there are as many live connections as there may be."""
        if self._count >= self._limits.live_connections_max:
            limit = self._limits.live_connections_max
            raise Refused(503, "unavailable", "too many live connections", limit=limit)

    def leave(self, listener: Listener) -> None:
        """Listen no more."""
        room = listener._room
        room.listeners.discard(listener)
        room.show(listener, None)
        self._count -= 1
        self._metrics.listeners.dec()
        name = (room.log.record.organisation, room.log.record.name)
        if not room.listeners and self._rooms.get(name) is room:
            del self._rooms[name]

    def poke(self, organisation: str, name: str, version: int) -> None:
        """A commit made here: tell those who listen, unless they know."""
        if self._poked is not None:
            self._poked(organisation, name, version)
        self._announce(organisation, name, version)

    def _announce(self, organisation: str, name: str, version: int) -> None:
        room = self._rooms.get((organisation, name))
        if room is not None and version > room.version:
            room.version = version
            room.give(Poke(version))
            self._metrics.pokes.inc(len(room.listeners))

    def close(self) -> None:
        """End every live connection, since a server that stops waits for them."""
        for room in self._rooms.values():
            for listener in room.listeners:
                listener.end()

    async def watch(self) -> None:
        """Look at the heads of documents with listeners, for ever."""
        while True:
            began_ms = self._clock.boot_ms()
            try:
                await self._poll()
            except Exception:  # noqa: BLE001 - it is logged, and a fault must not end the watch for everybody
                _log.exception("the heads of documents with listeners could not be read")
            spent = (self._clock.boot_ms() - began_ms) / 1000
            await anyio.sleep(max(self._limits.live_poll_seconds, spent / WATCH_SHARE_MAX))

    async def _poll(self) -> None:
        rooms = dict(self._rooms)
        if rooms:
            heads = await sync_to_thread(_heads, {name: room.log for name, room in rooms.items()})
            for name, version in heads.items():
                self._note(name, rooms[name], version)

    def _note(self, name: Name, room: _Room, version: int | None) -> None:
        if version is not None:
            self._announce(*name, version)
            return
        room.give(Gone())
        if self._rooms.get(name) is room:
            del self._rooms[name]


class _Room:
    """The listeners of one document, and who of them shows what."""

    def __init__(self, log: Log, version: int) -> None:
        self.log = log
        self.version = version
        self.listeners: set[Listener] = set()
        self.present: dict[str, Value] = {}

    def give(self, message: FromServer) -> None:
        for listener in self.listeners:
            listener.give(message)

    def show(self, listener: Listener, state: Value) -> None:
        if state is None:
            if self.present.pop(listener.id, None) is None:
                return
        else:
            self._check(listener, state)
            self.present[listener.id] = state
        self.give(Here(dict(self.present)))

    def _check(self, listener: Listener, state: Value) -> None:
        size = len(encode(state))
        if size > PRESENCE_BYTES_MAX:
            raise LimitExceeded("what is shown of a client is too large", value=size, limit=PRESENCE_BYTES_MAX)
        if listener.id not in self.present and len(self.present) >= PRESENCE_CONNECTIONS_MAX:
            raise Forbidden("too many show themselves in the document", limit=PRESENCE_CONNECTIONS_MAX)


def _heads(logs: dict[Name, Log]) -> dict[Name, int | None]:
    """The newest version of each; None for a log that is gone. One that cannot be read now is left out."""
    heads: dict[Name, int | None] = {}
    for name, log in logs.items():
        try:
            heads[name] = log.head().version
        except NotFound:
            heads[name] = None
        except StratalogError:
            continue
    return heads
