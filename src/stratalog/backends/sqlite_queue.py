"""The queue in the SQLite file.

Each group has a row with the time when the group is ready. So a poll that finds no group ready reads no messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import apsw

from stratalog.backends.message_ids import last_number, message_id
from stratalog.backends.sqlite_file import SqliteFile
from stratalog.backends.sqlite_read_only import ReadOnlyFile
from stratalog.clock import Clock, new_id
from stratalog.limits import VISIBILITY_SECONDS_MAX
from stratalog.ports.queue import DeadMessage, Message, check_receive, check_send, hidden_seconds

__all__ = ["SqliteQueue"]

# A group that is hidden for longer was hidden before the clock was set back.
HIDDEN_MS_MAX = VISIBILITY_SECONDS_MAX * 1000

SEND = "INSERT INTO messages(name, body) VALUES (?, ?)"
SEND_GROUP = "INSERT OR IGNORE INTO message_groups SELECT ?1, 0, min(id) FROM messages WHERE name = ?1"

READY = (
    "SELECT 1 FROM message_groups WHERE visible_ms <= ?"
    " UNION ALL SELECT 1 FROM message_groups WHERE visible_ms > ? LIMIT 1"
)
NEVER_HIDDEN = "SELECT name FROM message_groups WHERE visible_ms = 0 ORDER BY first LIMIT ?"
VISIBLE_AGAIN = "SELECT name FROM message_groups WHERE visible_ms BETWEEN 1 AND ? ORDER BY visible_ms LIMIT ?"
STUCK = "SELECT name FROM message_groups WHERE visible_ms > ? LIMIT ?"
OLDEST = "SELECT id FROM messages WHERE name = ? ORDER BY id LIMIT ?"
GIVE = (
    "UPDATE messages SET receives = receives + 1, receipt = ?2, hidden_until_ms = ?3 WHERE id = ?1"
    " RETURNING id, name, body, receives, receipt"
)

# The comparison with 0 repeats the condition of the partial index. SQLite uses the index only if the query states this
# condition.
EXPIRED = "FROM messages WHERE name = ?1 AND hidden_until_ms <= ?2 AND hidden_until_ms > 0 AND receives >= ?3"
MOVE_ASIDE = f"INSERT INTO dead_letters SELECT id, name, receives, ?2, body {EXPIRED}"
DELETE_EXPIRED = f"DELETE {EXPIRED}"
LAST_HIDDEN = (
    "SELECT hidden_until_ms FROM messages WHERE name = ? AND hidden_until_ms > 0 ORDER BY hidden_until_ms DESC LIMIT 1"
)
ACKNOWLEDGE = "DELETE FROM messages WHERE id = ?1 AND receipt = ?2 AND hidden_until_ms > ?3 RETURNING name"
RELEASE = (
    "UPDATE messages SET hidden_until_ms = ?3 + ?4 WHERE id = ?1 AND receipt = ?2 AND hidden_until_ms > ?3"
    " RETURNING name"
)
SET_GROUP = "REPLACE INTO message_groups VALUES (?, ?, ?)"
DELETE_GROUP = "DELETE FROM message_groups WHERE name = ?"
DEAD_LETTERS = "SELECT id, name, body, receives, dead_ms FROM dead_letters WHERE id > ? ORDER BY id LIMIT 10"

HAS_MESSAGES = "SELECT EXISTS (SELECT 1 FROM messages) OR EXISTS (SELECT 1 FROM dead_letters)"


class SqliteQueue:
    """A queue in the table ``messages``. A receive returns the oldest messages of the groups that are ready.

    The cost of a poll does not grow with the queue. A poll that finds no group ready takes no write lock.

    The queue measures visibility by the wall clock, since several processes share the file and the machine may restart
    while messages are in flight. If the clock is set back by an hour, messages in flight are hidden for an hour longer.
    If it is set back by more than the longest visibility timeout, or set forward, the queue delivers messages in flight
    again early. All these effects keep the promise *at least once*.
    """

    def __init__(self, file: SqliteFile | ReadOnlyFile, clock: Clock, receives_max: int) -> None:
        self._file = file
        self._clock = clock
        self._receives_max = receives_max

    def send(self, group: str, bodies: Sequence[bytes]) -> None:
        check_send(group, bodies)
        self._file.write(partial(_send, group, bodies))

    def receive(self, limit: int = 10, *, visibility_seconds: float = 30) -> list[Message]:
        check_receive(limit, visibility_seconds)
        now = self._clock.wall_ms()
        if not self._file.read(READY, (now, now + HIDDEN_MS_MAX)):  # a read: an idle poll takes no write lock
            return []
        return self._file.write(partial(self._receive, limit, now, now + int(visibility_seconds * 1000)))

    def acknowledge(self, message: Message) -> bool:
        return self._settle(ACKNOWLEDGE, message)

    def release(self, message: Message, *, after_seconds: float = 0) -> bool:
        return self._settle(RELEASE, message, int(hidden_seconds(after_seconds) * 1000))

    def dead_letters(self, *, after: str = "") -> Iterator[DeadMessage]:
        last = last_number(after)
        while rows := self._file.read(DEAD_LETTERS, (last,)):
            yield from (DeadMessage(message_id(number), *rest) for number, *rest in rows)
            last = rows[-1][0]

    def oldest_ms(self) -> int:
        now_ms = self._clock.wall_ms()
        ((has_messages,),) = self._file.read(HAS_MESSAGES, ())
        return 0 if has_messages else now_ms

    def close(self) -> None:
        self._file.close()

    def _settle(self, statement: str, message: Message, *more: int) -> bool:
        parameters = (int(message.id), message.receipt, self._clock.wall_ms(), *more)
        return self._file.write(partial(_settle, statement, parameters))

    def _receive(self, limit: int, now: int, hidden_until_ms: int, connection: apsw.Connection) -> list[Message]:
        """Receive up to ``limit`` messages inside a transaction.

        Read up to ``limit`` groups whose delivered messages are visible again, first the group that became visible
        first. Also read up to ``limit`` groups whose messages were never delivered, in the order of their oldest
        messages. These groups are enough, since each group has at least one message. If all messages of these groups
        become dead letters, read the next groups.
        """
        while True:
            again = _names(connection, VISIBLE_AGAIN, (now, limit))
            for name in again:
                self._move_aside(name, now, connection)
            again += _names(connection, STUCK, (now + HIDDEN_MS_MAX, limit))
            names = again + _names(connection, NEVER_HIDDEN, (limit,))
            ids = [id for name in names for (id,) in connection.execute(OLDEST, (name, limit))]
            if ids or not names:
                return self._give(sorted(ids)[:limit], hidden_until_ms, connection)

    def _give(self, ids: Sequence[int], hidden_until_ms: int, connection: apsw.Connection) -> list[Message]:
        rows: list[Any] = [
            row for id in ids for row in connection.execute(GIVE, (id, new_id(self._clock), hidden_until_ms))
        ]
        for name in {row[1] for row in rows}:
            _refresh_group(name, connection)
        return [Message(message_id(number), *rest) for number, *rest in rows]

    def _move_aside(self, name: str, now: int, connection: apsw.Connection) -> None:
        parameters = (name, now, self._receives_max)
        connection.execute(MOVE_ASIDE, parameters)
        if connection.changes():
            connection.execute(DELETE_EXPIRED, parameters)
            _refresh_group(name, connection)


def _send(group: str, bodies: Sequence[bytes], connection: apsw.Connection) -> None:
    connection.executemany(SEND, [(group, body) for body in bodies])
    connection.execute(SEND_GROUP, (group,))


def _settle(statement: str, parameters: tuple[Any, ...], connection: apsw.Connection) -> bool:
    names = _names(connection, statement, parameters)
    for name in names:
        _refresh_group(name, connection)
    return bool(names)


def _refresh_group(name: str, connection: apsw.Connection) -> None:
    """Update or delete the row of the group. Call this after each change of the group's delivered messages."""
    oldest = connection.execute(OLDEST, (name, 1)).fetchall()
    hidden = connection.execute(LAST_HIDDEN, (name,)).fetchall()
    if not oldest:
        connection.execute(DELETE_GROUP, (name,))
        return
    visible_ms = hidden[0][0] if hidden else 0
    connection.execute(SET_GROUP, (name, visible_ms, oldest[0][0]))


def _names(connection: apsw.Connection, statement: str, parameters: tuple[Any, ...]) -> list[str]:
    return [name for (name,) in connection.execute(statement, parameters)]
