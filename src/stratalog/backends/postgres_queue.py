"""The queue in PostgreSQL.

Each group with messages has a row with the time from which its messages can be received. A transaction that changes the
messages of a group first locks this row. So the messages have the order in which their senders committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stratalog.backends.message_ids import last_number, message_id
from stratalog.backends.postgres_connections import Connection, PostgresConnections
from stratalog.clock import Clock, new_id
from stratalog.errors import Closed
from stratalog.limits import GRACE_SECONDS, VISIBILITY_SECONDS_MAX
from stratalog.ports.queue import DeadMessage, Message, check_receive, check_send, hidden_seconds

__all__ = ["PostgresQueue"]

LOCK_TO_SEND = """
INSERT INTO message_groups VALUES (%s, 0, 0) ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING first"""
SEND = "INSERT INTO messages(name, body) SELECT %s, unnest(%b::bytea[]) RETURNING id"
SET_FIRST = "UPDATE message_groups SET first = %s WHERE name = %s"

# All programs hide messages until a time that is at most `HIDDEN_MS_MAX` after the server's. A later time is from a
# server whose clock was wrong, or from an older program.
AHEAD_MS_MAX = GRACE_SECONDS * 1000
HIDDEN_MS_MAX = AHEAD_MS_MAX + VISIBILITY_SECONDS_MAX * 1000
SERVER_MS = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"
HIDDEN_TOO_LONG = f"visible_ms > {SERVER_MS} + {HIDDEN_MS_MAX}"
READY = f"""
SELECT {SERVER_MS} FROM message_groups WHERE visible_ms <= %s
UNION ALL SELECT {SERVER_MS} FROM message_groups WHERE {HIDDEN_TOO_LONG} LIMIT 1"""
# `SKIP LOCKED` skips a group that another transaction has locked, for example the transaction of another receiver.
NEVER_HIDDEN = """
SELECT name FROM message_groups WHERE visible_ms = 0 ORDER BY first LIMIT %s FOR UPDATE SKIP LOCKED"""
VISIBLE_AGAIN = """
SELECT name FROM message_groups WHERE visible_ms BETWEEN 1 AND %s ORDER BY visible_ms LIMIT %s FOR UPDATE SKIP LOCKED"""
STUCK = f"SELECT name FROM message_groups WHERE {HIDDEN_TOO_LONG} LIMIT %s FOR UPDATE SKIP LOCKED"
# With `name = …`, PostgreSQL may read the messages of all groups in order of id until it finds one of this group.
OLDEST = "SELECT id FROM messages WHERE name BETWEEN %(name)s AND %(name)s ORDER BY name, id LIMIT %(limit)s"
GIVE = """
UPDATE messages SET receives = receives + 1, receipt = %s, hidden_until_ms = %s WHERE id = %s
RETURNING id, name, body, receives, receipt"""

# The comparison with 0 repeats the condition of the partial index.
EXPIRED = "FROM messages WHERE name = %s AND hidden_until_ms <= %s AND hidden_until_ms > 0 AND receives >= %s"
MOVE_ASIDE = f"""
WITH expired AS (DELETE {EXPIRED} RETURNING id, name, receives, body)
INSERT INTO dead_letters SELECT id, name, receives, %s, body FROM expired"""
LAST_HIDDEN = "SELECT max(hidden_until_ms) FROM messages WHERE name = %s AND hidden_until_ms > 0"
LOCK_GROUP = f"SELECT {SERVER_MS} FROM message_groups WHERE name = %s FOR UPDATE"
ACKNOWLEDGE = "DELETE FROM messages WHERE id = %s AND receipt = %s AND hidden_until_ms > %s"
RELEASE = "UPDATE messages SET hidden_until_ms = %s WHERE id = %s AND receipt = %s AND hidden_until_ms > %s"
SET_GROUP = "UPDATE message_groups SET visible_ms = %s, first = %s WHERE name = %s"
DELETE_GROUP = "DELETE FROM message_groups WHERE name = %s"
DEAD_LETTERS = "SELECT id, name, body, receives, dead_ms FROM dead_letters WHERE id > %s ORDER BY id LIMIT 10"

HAS_MESSAGES = "SELECT EXISTS (SELECT FROM messages) OR EXISTS (SELECT FROM dead_letters)"


class PostgresQueue:
    """A queue in the table ``messages``. A receive returns the oldest messages of the groups that are ready.

    The receivers measure visibility by their wall clocks. A receiver whose clock is behind hides its messages for a
    shorter time. The queue then delivers these messages again early, which keeps the promise *at least once*. A
    receiver whose clock is ahead counts as at most `GRACE_SECONDS` ahead of the server. Otherwise the messages of a
    receiver that ends would stay hidden until its time comes, and with them all later messages of their groups.
    """

    def __init__(self, connections: PostgresConnections, clock: Clock, receives_max: int) -> None:
        self._connections = connections
        self._clock = clock
        self._receives_max = receives_max
        self._closed = False

    def send(self, group: str, bodies: Sequence[bytes]) -> None:
        check_send(group, bodies)
        self._check_open()
        name = group.encode()

        def work(connection: Connection) -> None:
            (first,) = connection.execute(LOCK_TO_SEND, (name,)).fetchall()[0]
            ids = [id for (id,) in connection.execute(SEND, (name, list(bodies)))]
            if not first:
                connection.execute(SET_FIRST, (min(ids), name))

        self._connections.transact(work)

    def receive(self, limit: int = 10, *, visibility_seconds: float = 30) -> list[Message]:
        check_receive(limit, visibility_seconds)
        self._check_open()
        ready = self._connections.read(READY, (self._clock.wall_ms(),))
        if not ready:  # an idle poll writes nothing
            return []
        now = self._now_ms(*ready[0])
        hidden_until_ms = now + int(visibility_seconds * 1000)
        return self._connections.transact(lambda connection: self._receive(connection, limit, now, hidden_until_ms))

    def acknowledge(self, message: Message) -> bool:
        return self._settle(message, ACKNOWLEDGE)

    def release(self, message: Message, *, after_seconds: float = 0) -> bool:
        return self._settle(message, RELEASE, int(hidden_seconds(after_seconds) * 1000))

    def dead_letters(self, *, after: str = "") -> Iterator[DeadMessage]:
        last = last_number(after)
        self._check_open()
        while rows := self._connections.read(DEAD_LETTERS, (last,)):
            for id, name, *rest in rows:
                yield DeadMessage(message_id(id), name.decode(), *rest)
            last = rows[-1][0]

    def oldest_ms(self) -> int:
        self._check_open()
        now_ms = self._clock.wall_ms()
        ((has_messages,),) = self._connections.read(HAS_MESSAGES, ())
        return 0 if has_messages else now_ms

    def close(self) -> None:
        """Refuse later calls. The index of the store closes the connections."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the queue is closed")

    def _now_ms(self, server_ms: int) -> int:
        """Return the time of this process's clock, but at most `AHEAD_MS_MAX` after the server's time."""
        return min(self._clock.wall_ms(), server_ms + AHEAD_MS_MAX)

    def _settle(self, message: Message, statement: str, *after_ms: int) -> bool:
        self._check_open()
        name = message.group.encode()

        def work(connection: Connection) -> bool:
            locked = connection.execute(LOCK_GROUP, (name,)).fetchall()
            if not locked:  # a group without messages
                return False
            now = self._now_ms(*locked[0])
            until = [now + ms for ms in after_ms]
            if not connection.execute(statement, (*until, int(message.id), message.receipt, now)).rowcount:
                return False
            _refresh_group(connection, name)
            return True

        return self._connections.transact(work)

    def _receive(self, connection: Connection, limit: int, now: int, hidden_until_ms: int) -> list[Message]:
        """Receive up to ``limit`` messages inside a transaction.

        Read up to ``limit`` groups whose delivered messages are visible again, first the group that became visible
        first. Also read up to ``limit`` groups whose messages were never delivered, in the order of their oldest
        messages. These groups are enough, since each group has at least one message. If all messages of these groups
        become dead letters, read the next groups.
        """
        while True:
            again = _names(connection, VISIBLE_AGAIN, (now, limit))
            for name in again:
                self._move_aside(connection, name, now)
            again += _names(connection, STUCK, (limit,))
            names = again + _names(connection, NEVER_HIDDEN, (limit,))
            ids = [id for name in names for id in _oldest(connection, name, limit)]
            if ids or not names:
                return self._give(connection, sorted(ids)[:limit], hidden_until_ms)

    def _give(self, connection: Connection, ids: Sequence[int], hidden_until_ms: int) -> list[Message]:
        cursor = connection.cursor(binary=True)
        rows: list[Any] = [
            row for id in ids for row in cursor.execute(GIVE, (new_id(self._clock), hidden_until_ms, id)).fetchall()
        ]
        for name in {row[1] for row in rows}:
            _refresh_group(connection, name)
        return [Message(message_id(id), name.decode(), *rest) for id, name, *rest in rows]

    def _move_aside(self, connection: Connection, name: bytes, now: int) -> None:
        if connection.execute(MOVE_ASIDE, (name, now, self._receives_max, now)).rowcount:
            _refresh_group(connection, name)


def _refresh_group(connection: Connection, name: bytes) -> None:
    """Update or delete the row of the group. Call this after each change of the group's delivered messages."""
    oldest = _oldest(connection, name, 1)
    if not oldest:
        connection.execute(DELETE_GROUP, (name,))
        return
    ((hidden,),) = connection.execute(LAST_HIDDEN, (name,)).fetchall()
    connection.execute(SET_GROUP, (hidden or 0, oldest[0], name))


def _oldest(connection: Connection, name: bytes, limit: int) -> list[int]:
    return [id for (id,) in connection.execute(OLDEST, {"name": name, "limit": limit})]


def _names(connection: Connection, statement: str, parameters: tuple[Any, ...]) -> list[bytes]:
    return [name for (name,) in connection.cursor(binary=True).execute(statement, parameters).fetchall()]
