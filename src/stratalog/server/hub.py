"""Hub: who listens to which document in this process, and what tells them that something is new.

Own commits poke at once. Those of other processes are found by looking at the heads of the documents that have
listeners, which is one small read each. What waits for a listener is bounded: a newer hint takes the older one's place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio

from stratalog.clock import new_id
from stratalog.codec import Value
from stratalog.errors import NotFound, StratalogError
from stratalog.limits import PRESENCE_BYTES_PER_SECOND
from stratalog.log import Log
from stratalog.protocol.live import FromServer, Gone, Heartbeat, Here, HereChanged, Poke, Ready
from stratalog.server.application import ServerLimits
from stratalog.server.metrics import Metrics
from stratalog.server.pools import Pools
from stratalog.server.presence import Frame, PresenceBoard
from stratalog.server.security import ANONYMOUS, Principal
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

    def __init__(
        self, hub: Hub, room: _Room, id: str, heartbeat_seconds: float, principal: Principal, takes_changes: bool
    ) -> None:
        self.id = id
        self.principal = principal
        self.takes_changes = takes_changes
        self.needs_all = bool(room.presence)
        self._hub = hub
        self._room = room
        self._heartbeat_seconds = heartbeat_seconds
        self._wake = anyio.Event()
        self._ended = False
        self._waiting: dict[type[Any], Frame] = {Ready: Frame(Ready(id, room.version))}
        self._wake.set()

    def give(self, frame: Frame) -> None:
        """Have the message sent, in place of an older one of its kind that was not."""
        self._waiting[type(frame.message)] = frame
        self._wake.set()

    def offer(self, frame: Frame) -> bool:
        """See `PresenceListener`."""
        if Here in self._waiting or HereChanged in self._waiting:
            return False
        self.give(frame)
        return True

    def end(self) -> None:
        """Give nothing more: the server stops."""
        self._ended = True
        self._wake.set()

    async def next(self, seconds: float | None = None) -> list[Frame]:
        """What is new, waiting for it; a heartbeat where nothing is for a while. Empty at the end.

        ``seconds`` is how long to wait, where that is less than a heartbeat's time.
        """
        with anyio.move_on_after(self._heartbeat_seconds if seconds is None else seconds):
            await self._wake.wait()
        self._wake = anyio.Event()
        frames, self._waiting = list(self._waiting.values()), {}
        if self.needs_all:
            # It could not be given what others showed meanwhile, and now it can.
            self._hub.move(self._room)
        return [] if self._ended else frames or [Frame(Heartbeat())]

    def show(self, state: Value) -> None:
        """Tell the others of this client; None tells nothing any more. Raises LimitExceeded."""
        self._hub.show(self, state)


class Hub:
    """Joins connections to documents. Used from the event loop only.

    ``poked`` passes commits made here on to connections that are held elsewhere.
    """

    def __init__(
        self, store: Store, limits: ServerLimits, metrics: Metrics, pools: Pools, poked: Poked | None = None
    ) -> None:
        self._store = store
        self._pools = pools
        self._limits = limits
        self._metrics = metrics
        self._rooms: dict[Name, _Room] = {}
        self._clock = store.environment.clock
        self._poked = poked
        self._moved: dict[_Room, None] = {}
        self._moved_event: anyio.Event | None = None
        self._presence_due_ms = 0.0

    async def join(
        self, organisation: str, name: str, principal: Principal = ANONYMOUS, *, takes_changes: bool = False
    ) -> Listener:
        """Listen from now on: what is committed after this is poked. Raises NotFound.

        ``takes_changes`` of one that knows the second subprotocol.
        """
        log = await self._pools.run(lambda: self._store.log(organisation, name))
        version = await self._pools.run(lambda: log.head().version)
        room = self._rooms.get((organisation, name))
        if room is None or room.log.record.incarnation != log.record.incarnation:
            if room is not None:
                room.give(Gone())
            room = self._rooms[organisation, name] = _Room(log, version)
        id, seconds = new_id(self._clock), self._limits.live_heartbeat_seconds
        listener = Listener(self, room, id, seconds, principal, takes_changes)
        room.listeners.add(listener)
        if listener.needs_all:
            self.move(room)
        self._metrics.listeners.inc()
        return listener

    def leave(self, listener: Listener) -> None:
        """Listen no more."""
        room = listener._room
        room.listeners.discard(listener)
        self.show(listener, None)
        self._metrics.listeners.dec()
        name = (room.log.record.organisation, room.log.record.name)
        if not room.listeners:
            self._moved.pop(room, None)
            if self._rooms.get(name) is room:
                del self._rooms[name]

    def show(self, listener: Listener, state: Value) -> None:
        """Show this of a listener to the others of its document; None takes it back. Raises LimitExceeded."""
        room = listener._room
        if room.presence.show(listener.id, listener.principal, state):
            self.move(room)

    def move(self, room: _Room) -> None:
        """Have the listeners of a document told who is here, when its time comes."""
        self._moved[room] = None
        if self._moved_event is not None:
            self._moved_event.set()

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
        """Look at the heads of documents with listeners, and tell who is here, for ever."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch_presence)
            await self._watch_heads()

    async def _watch_heads(self) -> None:
        while True:
            began_ms = self._clock.boot_ms()
            try:
                await self._poll()
            except Exception:  # noqa: BLE001 - it is logged, and a fault must not end the watch for everybody
                _log.exception("the heads of documents with listeners could not be read")
            spent = (self._clock.boot_ms() - began_ms) / 1000
            await anyio.sleep(max(self._limits.live_poll_seconds, spent / WATCH_SHARE_MAX))

    async def _watch_presence(self) -> None:
        while True:
            self._moved_event = anyio.Event()
            while (seconds := self.tell_presence()) is not None:
                await anyio.sleep(seconds)
            await self._moved_event.wait()

    def tell_presence(self) -> float | None:
        """Tell who is here where that has changed and its time has come. Seconds until the next; None for no next."""
        now_ms = self._clock.boot_ms()
        for room in sorted(self._moved, key=lambda moved: moved.presence.due_ms):
            due_ms = max(room.presence.due_ms, self._presence_due_ms)
            if due_ms > now_ms:
                return (due_ms - now_ms) / 1000
            del self._moved[room]
            size = room.presence.tell(room.listeners, now_ms)
            self._metrics.presence_bytes.inc(size)
            self._presence_due_ms = now_ms + 1000 * size / PRESENCE_BYTES_PER_SECOND
        return None

    async def _poll(self) -> None:
        rooms = dict(self._rooms)
        if rooms:
            heads = await self._pools.polling.run(lambda: _heads({name: room.log for name, room in rooms.items()}))
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
        self.presence = PresenceBoard()

    def give(self, message: FromServer) -> None:
        frame = Frame(message)
        for listener in self.listeners:
            listener.give(frame)


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
