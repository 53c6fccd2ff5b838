"""Hub: the listeners of each document in this process, and the messages that report news to them.

A handler of this process calls `Hub.poke` after a push, an append or a merge, which pokes the listeners at once. The
hub finds all other commits by polling. A poll reads the head of each document or log that has listeners, with one small
read for each. If the store has announcements, `Hub.poke` of another process sends a hint with the document's name.
After a hint, the hub soon reads the head of the document. At most one message of each kind waits for a listener. A
newer message replaces an older message, except a message of presence: see `Listener.offer`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import anyio

from stratalog.clock import new_id
from stratalog.codec import Value
from stratalog.errors import NotFound, StratalogError
from stratalog.limits import PRESENCE_BYTES_PER_SECOND
from stratalog.log import Log
from stratalog.protocol.live import FromServer, Gone, Heartbeat, Here, HereChanged, Poke, PresentPrincipal, Ready
from stratalog.server.application import ServerLimits
from stratalog.server.metrics import Metrics
from stratalog.server.pools import Pools
from stratalog.server.presence import Frame, PresenceBoard
from stratalog.server.security import ANONYMOUS, Principal
from stratalog.server.siblings import ConnectionPresence, Ended, PresenceRequest, Siblings
from stratalog.store import Store

__all__ = ["Hub", "Listener", "Poked"]

Name = tuple[str, str]
Poked = Callable[[str, str, int], None]
"""A callback with the arguments of each call of `Hub.poke`: organisation, name and version."""

_log = logging.getLogger("stratalog.server")
WATCH_SHARE_MAX = 0.25
"""The hub reads heads for at most this share of the time. With many documents, the pauses between polls are longer."""


class Listener:
    """One live connection. At most one message of each kind waits to be sent."""

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
        """Queue a message. The message replaces an unsent message of its kind."""
        self._waiting[type(frame.message)] = frame
        self._wake.set()

    def offer(self, frame: Frame) -> bool:
        """Queue a message of presence, or return False while an earlier presence message is unsent.

        See `PresenceListener`.
        """
        # `HereChanged` is a difference: replacing an unsent message would lose its changes.
        if Here in self._waiting or HereChanged in self._waiting:
            return False
        self.give(frame)
        return True

    def end(self) -> None:
        """End the listener, because the server stops. From then on `next` returns an empty list."""
        self._ended = True
        self._wake.set()

    async def next(self, seconds: float | None = None) -> list[Frame]:
        """Wait for messages and return them.

        Returns a heartbeat if no message arrives in time, and an empty list after `end`.

        ``seconds`` limits the wait. The default is the interval of heartbeats.
        """
        with anyio.move_on_after(self._heartbeat_seconds if seconds is None else seconds):
            await self._wake.wait()
        self._wake = anyio.Event()
        frames, self._waiting = list(self._waiting.values()), {}
        if self.needs_all:
            # The listener has just joined, or it missed a presence message while an earlier message was unsent.
            self._hub.move(self._room)
        return [] if self._ended else frames or [Frame(Heartbeat())]

    def show(self, state: Value) -> None:
        """Show ``state`` of this client to the document's listeners, this client included.

        A ``state`` of None withdraws the client's state. Raises LimitExceeded and Invalid.
        """
        self._hub.show(self, state)


class Hub:
    """The live connections of one process, by document. Used from the event loop only.

    `poke` calls ``poked``, which may notify connections of other processes. With ``siblings`` the listeners of a
    document also see the presence of connections to the other processes of this server.
    """

    def __init__(
        self,
        store: Store,
        limits: ServerLimits,
        metrics: Metrics,
        pools: Pools,
        poked: Poked | None = None,
        siblings: Siblings | None = None,
    ) -> None:
        self._siblings = siblings
        if siblings is not None:
            siblings.presence = self._take_presence
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
        self._hinted: set[Name] = set()
        self._hint = anyio.Event()

    async def join(
        self, organisation: str, name: str, principal: Principal = ANONYMOUS, *, takes_changes: bool = False
    ) -> Listener:
        """Add a listener to a document and return it. Later commits poke the listener.

        Raises NotFound, Refused if no thread is free in time, and the errors of reading the head.

        ``takes_changes`` is true for a client that supports the second subprotocol, which has `HereChanged`.
        """
        room = await self._room(organisation, name)
        id, seconds = new_id(self._clock), self._limits.live_heartbeat_seconds
        listener = Listener(self, room, id, seconds, principal, takes_changes)
        room.listeners.add(listener)
        if listener.needs_all:
            self.move(room)
        self._metrics.listeners.inc()
        return listener

    async def _room(self, organisation: str, name: str) -> _Room:
        """Return the room of the document that has the name now. Raises NotFound."""
        while True:
            known = self._rooms.get((organisation, name))
            log, version = await self._pools.run(lambda: _log_and_version(self._store, organisation, name))
            room = self._rooms.get((organisation, name))
            if room is not None and room.log.record.incarnation == log.record.incarnation:
                return room
            if room is not known and room is not None:
                # During the read another caller made a room of another incarnation, perhaps of a newer incarnation.
                # Read again.
                continue
            if room is not None:
                room.give(Gone())
            room = self._rooms[organisation, name] = _Room(log, version)
            # A hint that came after the read found no room and was ignored. So read the head once more.
            self._take_hint((organisation, name))
            if self._siblings is not None:
                self._siblings.send(PresenceRequest(organisation, name))
            return room

    def leave(self, listener: Listener) -> None:
        """Remove a listener, and withdraw its presence."""
        room = listener._room
        room.listeners.discard(listener)
        self.show(listener, None)
        self._metrics.listeners.dec()
        name = (room.log.record.organisation, room.log.record.name)
        if not room.listeners:
            self._moved.pop(room, None)
            # The room of another incarnation of the document may have replaced this room.
            if self._rooms.get(name) is room:
                del self._rooms[name]

    def show(self, listener: Listener, state: Value) -> None:
        """Show ``state`` of a listener to its document's listeners, this listener included.

        A ``state`` of None withdraws the listener's state. Raises LimitExceeded and Invalid.
        """
        room = listener._room
        if room.presence.show(listener.id, listener.principal, state):
            self.move(room)
            self._send_presence(room, listener, state)

    def _take_presence(self, line: PresenceRequest | ConnectionPresence | Ended) -> None:
        """Act on a message about presence from another process of this server."""
        if isinstance(line, Ended):
            for each in self._rooms.values():
                for id in [id for id, process in each.elsewhere.items() if process == line.process]:
                    self._show_elsewhere(each, line.process, id, ANONYMOUS, None)
            return
        room = self._rooms.get((line.organisation, line.name))
        if room is None:
            return
        if isinstance(line, PresenceRequest):
            for listener in room.listeners:
                state = room.presence.state_of(listener.id)
                if state is not None:
                    self._send_presence(room, listener, state)
        elif room.log.record.incarnation == line.incarnation:
            principal = Principal(id=line.principal.id, name=line.principal.name)
            self._show_elsewhere(room, line.process, line.id, principal, line.state)

    def _send_presence(self, room: _Room, listener: Listener, state: Value) -> None:
        """Send a listener's state to the other processes of this server. None withdraws the listener's state."""
        if self._siblings is not None:
            record, who = room.log.record, listener.principal
            names = (record.organisation, record.name, record.incarnation)
            principal = PresentPrincipal(who.id, who.name)
            self._siblings.send(ConnectionPresence(self._siblings.process, *names, listener.id, state, principal))

    def _show_elsewhere(self, room: _Room, process: int, id: str, principal: Principal, state: Value) -> None:
        """Show this process's listeners the state of a connection of another process. None withdraws the state."""
        if state is None:
            room.elsewhere.pop(id, None)
        else:
            room.elsewhere[id] = process
        if room.presence.show(id, principal, state):
            self.move(room)

    def move(self, room: _Room) -> None:
        """Schedule a presence message for a document's listeners, for the end of the document's pause."""
        self._moved[room] = None
        if self._moved_event is not None:
            self._moved_event.set()

    def poke(self, organisation: str, name: str, version: int) -> None:
        """Report a committed version to ``poked``, to other processes, and to listeners that do not have it yet.

        Other processes get a hint only if the store has announcements.
        """
        if self._poked is not None:
            self._poked(organisation, name, version)
        if self._store.announcements is not None:
            self._store.announcements.announce(organisation, name)
        self._announce(organisation, name, version)

    def _announce(self, organisation: str, name: str, version: int) -> None:
        room = self._rooms.get((organisation, name))
        if room is not None and version > room.version:
            room.version = version
            room.give(Poke(version))
            self._metrics.pokes.inc(len(room.listeners))

    def close(self) -> None:
        """End every live connection, because a stopping server waits until all connections have ended."""
        for room in self._rooms.values():
            for listener in room.listeners:
                listener.end()

    async def watch(self) -> None:
        """Poll the heads of documents with listeners and send presence, until cancelled."""
        if self._store.announcements is not None:
            loop = asyncio.get_running_loop()

            def pass_on(organisation: str, name: str) -> None:
                # If the loop is closed, the server has stopped and has no listeners.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._take_hint, (organisation, name))

            self._store.announcements.listen(pass_on)
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch_presence)
            await self._watch_heads()

    def _take_hint(self, name: Name) -> None:
        if name in self._rooms:
            self._hinted.add(name)
            self._hint.set()

    async def _watch_heads(self) -> None:
        """Read all heads periodically. Read a head about which another process sent a hint as soon as possible."""
        all_due = anyio.current_time()
        while True:
            began = anyio.current_time()
            hinted, self._hinted, self._hint = self._hinted, set(), anyio.Event()
            if reads_all := began >= all_due:
                all_due = began + self._limits.live_poll_seconds
            try:
                await self._poll(None if reads_all else hinted)
            except Exception:  # noqa: BLE001 - the fault is logged, and must not end the watch for everybody
                _log.exception("the heads of documents with listeners could not be read")
            await anyio.sleep((anyio.current_time() - began) / WATCH_SHARE_MAX)
            with anyio.move_on_after(max(0.0, all_due - anyio.current_time())):
                await self._hint.wait()

    async def _watch_presence(self) -> None:
        while True:
            self._moved_event = anyio.Event()
            while (seconds := self.broadcast_presence()) is not None:
                await anyio.sleep(seconds)
            await self._moved_event.wait()

    def broadcast_presence(self) -> float | None:
        """Send presence to the listeners of each document in `_moved` whose pause is over.

        After each document, all documents wait until the bytes sent fit `PRESENCE_BYTES_PER_SECOND`.

        Returns the seconds until the next document is due, or None if no document has unsent presence.
        """
        now_ms = self._clock.boot_ms()
        for room in sorted(self._moved, key=lambda moved: moved.presence.due_ms):
            due_ms = max(room.presence.due_ms, self._presence_due_ms)
            if due_ms > now_ms:
                return (due_ms - now_ms) / 1000
            del self._moved[room]
            size = room.presence.broadcast(room.listeners, now_ms)
            self._metrics.presence_bytes.inc(size)
            self._presence_due_ms = now_ms + 1000 * size / PRESENCE_BYTES_PER_SECOND
        return None

    async def _poll(self, names: Collection[Name] | None = None) -> None:
        """Read the heads of the documents ``names``, or of all documents with listeners, and act on the results."""
        rooms = {name: (room, room.version) for name, room in self._rooms.items() if names is None or name in names}
        if rooms:
            heads = await self._pools.polling.run(lambda: _heads({name: room.log for name, (room, _) in rooms.items()}))
            for name, version in heads.items():
                self._note(name, *rooms[name], version)

    def _note(self, name: Name, room: _Room, announced: int, version: int | None) -> None:
        """Act on the newest version of a room's log. ``version`` is None for a deleted log.

        ``announced`` was the version of the room before the hub read ``version``.
        """
        # The room of another incarnation of the document may have replaced this room during the read.
        is_present = self._rooms.get(name) is room
        if version is None:
            room.give(Gone())
            if is_present:
                del self._rooms[name]
        elif is_present:
            if version < announced:
                # The room's version came from a late announcement of a commit of an earlier incarnation.
                room.version = 0
            self._announce(*name, version)


class _Room:
    """The listeners of one document, and the presence that they show."""

    def __init__(self, log: Log, version: int) -> None:
        self.log = log
        self.version = version
        self.listeners: set[Listener] = set()
        self.presence = PresenceBoard()
        self.elsewhere: dict[str, int] = {}
        """The ids of connections of other processes that show a state, each with the number of its process."""

    def give(self, message: FromServer) -> None:
        frame = Frame(message)
        for listener in self.listeners:
            listener.give(frame)


def _log_and_version(store: Store, organisation: str, name: str) -> tuple[Log, int]:
    """Return the log with this name, and its newest version. Raises NotFound."""
    log = store.log(organisation, name)
    return log, log.head().version


def _heads(logs: dict[Name, Log]) -> dict[Name, int | None]:
    """Return the newest version of each log, or None for a deleted log. Omit each log that cannot be read now."""
    heads: dict[Name, int | None] = {}
    for name, log in logs.items():
        try:
            heads[name] = log.head().version
        except NotFound:
            heads[name] = None
        except StratalogError:
            continue
    return heads
