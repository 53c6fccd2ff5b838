"""The stored data of a client: canonical state, cookie, pending mutations, newest confirmed mutations, and failures.

Each call makes its changes in one transaction, so after a crash at any moment the client resumes.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any

import apsw
import msgspec

from stratalog.client.file import ClientFile
from stratalog.client.push_decision import COMMITTED, NEVER, OPEN, REFUSED, Waiting
from stratalog.clock import Clock, new_id
from stratalog.codec import canonical, decode, encode
from stratalog.errors import Corrupt, Invalid, LimitExceeded
from stratalog.limits import PENDING_MUTATIONS_MAX, REJECTIONS_SHOWN_VERSIONS
from stratalog.protocol.rebase import Intent
from stratalog.protocol.sync import Clear, Cookie, Operation, Pulled, PutKey
from stratalog.struct_types import resolved

__all__ = ["Local", "MutationFailure", "SettledMutation"]

FAILURES_MAX = 1000
CONFIRMED_MAX = 1000
CONFIRMED_BYTES_MAX = 16 * 1024 * 1024
DROP_CONFIRMED = """
DELETE FROM confirmed WHERE sequence IN (
    SELECT sequence FROM (
        SELECT sequence, sum(length(args)) OVER (ORDER BY sequence DESC) AS bytes FROM confirmed
    ) WHERE bytes > ?
)
"""
PENDING = "SELECT sequence, id, name, args, sent, answer, reason FROM pending"


class MutationFailure(msgspec.Struct, frozen=True):
    """A mutation without effect, or with an unknown effect. Its arguments let the application react.

    ``status`` is one of

    - "rejected": the mutation was committed without effect, or the server never accepts it;
    - "unknown": the mutation may have been applied. The client had to change its id after the answer was lost or came
      from another document, or the mutation was committed and no pull shows whether it was rejected;
    - "lost": the mutation was confirmed, but the server has since gone back to an older backup or another copy.
    """

    sequence: int
    name: str
    args: Any
    status: str
    reason: str


class SettledMutation(msgspec.Struct, frozen=True):
    """The final status of a mutation: "applied", "rejected", "unknown" or "lost"."""

    sequence: int
    status: str
    reason: str | None = None


class Local:
    """The content of a client's file. The caller holds the client's lock.

    A new file gets the name ``document``. Raises Invalid if an existing file has another document's name.
    """

    def __init__(self, file: ClientFile, clock: Clock, document: str = "") -> None:
        self._file = file
        self._clock = clock
        with file.transaction() as connection:
            if self._fact("client") is None:
                _set(connection, "document", document)
                self._become_new(connection)
            # Send queued mutations again: the file does not record when they were queued, and the queue may have lost
            # them.
            connection.execute("UPDATE pending SET answer = '' WHERE answer = 'queued'")
        if self._fact("document") != document:
            raise Invalid("the file belongs to another document", document=self._fact("document"), asked=document)

    @property
    def client(self) -> str:
        """The client id, which `reset`, `refuse` and `apply` may change."""
        return str(self._fact("client"))

    @property
    def group(self) -> str:
        """The current group. The group contains only this client, and changes with the client id."""
        return str(self._fact("group"))

    @property
    def cookie(self) -> Cookie | None:
        """The cookie of the canonical state; None before the first pull."""
        fact = self._fact("cookie")
        try:
            return None if fact is None else msgspec.convert(fact, resolved(Cookie))
        except msgspec.ValidationError as exc:
            raise Corrupt("the cookie in the file is damaged", reason=str(exc)) from exc

    # The canonical state: the functions that a Draft calls

    def load(self, key: str) -> bytes | None:
        """Return the encoded value of ``key``, or None."""
        value: bytes | None = self._file.first("SELECT value FROM items WHERE key = ?", key)
        return value

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys that start with ``prefix``, in order."""
        for (key,) in self._file.read("SELECT key FROM items WHERE key >= ? ORDER BY key", prefix):
            if not key.startswith(prefix):
                return
            yield key

    # Pending mutations

    def add(self, intent: Intent) -> Waiting:
        """Store a mutation under the next number. The mutation is durable on return.

        Raises LimitExceeded, and stores nothing, if `PENDING_MUTATIONS_MAX` mutations are pending.
        """
        if self.count() >= PENDING_MUTATIONS_MAX:
            raise LimitExceeded("too many mutations are pending", limit=PENDING_MUTATIONS_MAX)
        with self._file.transaction() as connection:
            number = self._next()
            connection.execute(
                "INSERT INTO pending(id, name, args) VALUES (?, ?, ?)", (number, intent.name, intent.args)
            )
            _set(connection, "next", number + 1)
            return Waiting(connection.last_insert_rowid(), number, intent.name, intent.args)

    def pending(self) -> list[Waiting]:
        """Return all pending mutations, in order."""
        return [Waiting(*row) for row in self._file.read(f"{PENDING} ORDER BY sequence")]

    def count(self) -> int:
        """Return the number of pending mutations."""
        return int(self._file.first("SELECT count(*) FROM pending"))

    def oldest(self) -> Waiting | None:
        """Return the oldest pending mutation, or None."""
        return next((Waiting(*row) for row in self._file.read(f"{PENDING} ORDER BY sequence LIMIT 1")), None)

    def has_unsent(self) -> bool:
        """Return whether any pending mutation was never sent under its present number."""
        return self._file.first("SELECT 1 FROM pending WHERE sent = ?", NEVER) is not None

    def batch(self, count_max: int, bytes_target: int) -> list[Waiting]:
        """Return the next mutations to send, from the oldest unanswered mutation on, within both limits.

        ``bytes_target`` limits their encoded size; the first may be larger. Returns ``[]`` if all are answered.
        """
        start = self._file.first("SELECT min(sequence) FROM pending WHERE answer = ''")
        rows = self._file.read(f"{PENDING} WHERE sequence >= ? ORDER BY sequence LIMIT ?", start, count_max)
        batch: list[Waiting] = []
        client, size = self.client, 0
        for waiting in (Waiting(*row) for row in rows):
            size += len(msgspec.msgpack.encode(waiting.mutation(client)))
            if batch and size > bytes_target:
                break
            batch.append(waiting)
        return batch

    def note_sending(self, batch: Sequence[Waiting]) -> None:
        """Mark a batch as sent. Call this method before the push, since the push may commit each mutation."""
        self._set_sent(batch, OPEN)

    def note_refused(self, batch: Sequence[Waiting]) -> None:
        """Note that the push of a batch committed nothing.

        ``batch`` contains the mutations as the caller read them before `note_sending`. A mutation that was `OPEN`
        before the push stays `OPEN`, since an earlier push may have committed it.
        """
        self._set_sent(batch, REFUSED)

    def note_committed(self, committed: Sequence[tuple[int, str, str | None]]) -> None:
        """Store the server's answers: (sequence, status, reason) of each mutation.

        The mutations stay pending until a pull confirms them.
        """
        if committed:
            with self._file.transaction() as connection:
                connection.executemany(
                    "UPDATE pending SET answer = ?, reason = ? WHERE sequence = ?",
                    [(status, reason, sequence) for sequence, status, reason in committed],
                )

    def note_queued(self, batch: Sequence[Waiting]) -> None:
        """Note that the server has queued these mutations, for a worker to commit."""
        with self._file.transaction() as connection:
            connection.executemany(
                "UPDATE pending SET answer = 'queued' WHERE sequence = ?", [(waiting.sequence,) for waiting in batch]
            )

    def resend_from(self, id: int) -> None:
        """Forget the answers to the mutations from number ``id`` on, so that they are sent again."""
        with self._file.transaction() as connection:
            connection.execute("UPDATE pending SET answer = '', reason = NULL WHERE id >= ?", (id,))

    def resend_queued(self) -> None:
        """Mark all queued mutations to be sent again: after a long time the queue may have lost them."""
        with self._file.transaction() as connection:
            connection.execute("UPDATE pending SET answer = '' WHERE answer = 'queued'")

    def refuse(self, waiting: Waiting, reason: str) -> list[SettledMutation]:
        """Settle a mutation as rejected, since the server never accepts it, and continue as another client.

        The server never commits this mutation's number, so the later mutations need new numbers, as after `reset`.
        """
        with self._file.transaction() as connection:
            settled = [self._settle(connection, waiting, "rejected", reason)]
            return settled + self._reset(connection, range(waiting.sequence, _END))

    def reset(self, uncommitted: Container[int]) -> list[SettledMutation]:
        """Continue under a new client id and group, since the server refuses the current id or group.

        The pending mutations that are certainly not committed get the numbers 1, 2, 3 … under the new id. A mutation is
        certainly not committed if it was never sent, if all its pushes committed nothing, or if its sequence is in
        ``uncommitted``. This method settles the mutations that were answered as committed. All other mutations may be
        committed: the client does not send them again, and this method settles them as unknown. Returns the settled
        mutations.
        """
        with self._file.transaction() as connection:
            return self._reset(connection, uncommitted)

    def failures(self) -> list[MutationFailure]:
        """Return the newest `FAILURES_MAX` failures, oldest first."""
        rows = self._file.read("SELECT sequence, name, args, status, reason FROM failures ORDER BY sequence")
        return [MutationFailure(row[0], row[1], decode(row[2]), row[3], row[4]) for row in rows]

    # Pulls

    def apply(self, asked: Cookie | None, pulled: Pulled) -> list[SettledMutation]:
        """Apply a pull that was requested with the cookie ``asked``, and return the mutations that it settles.

        Nothing changes if ``asked`` is no longer the state's cookie, or if the pull's order is lower than the order of
        ``asked``. Raises Corrupt, and changes nothing, if a pull has another origin but not the whole state.
        """
        if self.cookie != asked or (asked is not None and pulled.cookie.order < asked.order):
            return []
        elsewhere = asked is not None and pulled.cookie.origin != asked.origin
        if elsewhere and not _is_complete(pulled):
            raise Corrupt("the server's response is from another document, but lacks the full state")
        with self._file.transaction() as connection:
            _write(connection, pulled.patch)
            _set(connection, "cookie", msgspec.to_builtins(pulled.cookie))
            if elsewhere and self.client not in pulled.last:
                # The pull comes from another document. That document may be a copy with this client's effects but
                # without its last number. So the client must not send that document a mutation that may be committed.
                # It may also lack a mutation that the former document confirmed: such a mutation becomes unknown.
                connection.execute("UPDATE pending SET answer = '' WHERE answer IN ('applied', 'seen')")
                return self._reset(connection, ())
            lost = self._lose(connection, pulled)
            return lost + self._confirm(connection, pulled, asked is not None and _reports_rejections(asked, pulled))

    def _lose(self, connection: apsw.Connection, pulled: Pulled) -> list[SettledMutation]:
        """Settle confirmed mutations that the server lost. The file has only the newest confirmed mutations."""
        settled = []
        for above, upto in pulled.lost.get(self.client, ()):
            rows = connection.execute(
                "DELETE FROM confirmed WHERE id > ? AND id <= ? RETURNING sequence, id, name, args", (above, upto)
            )
            settled += [self._fail(connection, Waiting(*row), "lost", LOST) for row in sorted(rows)]
        return settled

    def _confirm(self, connection: apsw.Connection, pulled: Pulled, rejections_reported: bool) -> list[SettledMutation]:
        last = pulled.last.get(self.client, 0)
        confirmed = [waiting for waiting in self.pending() if waiting.id <= last]
        if last >= self._next() or any(waiting.sent == NEVER for waiting in confirmed):
            # Another client commits under this id. One of the two clients' files is a copy of the other file.
            return self._reset(connection, ())
        reasons = {rejection.id: rejection.reason for rejection in pulled.rejected if rejection.client == self.client}
        settled = [
            self._settle_confirmed(connection, waiting, reasons.get(waiting.id), rejections_reported)
            for waiting in confirmed
        ]
        # The pull was sent after the pushes of its cycle. A mutation that the pull does not confirm is not in the
        # document, even if the answer to a push confirmed the mutation. So the client sends it again.
        connection.execute("UPDATE pending SET answer = '', reason = NULL WHERE answer <> 'queued'")
        return settled

    def _settle_confirmed(
        self, connection: apsw.Connection, waiting: Waiting, reason: str | None, rejections_reported: bool
    ) -> SettledMutation:
        """Settle a committed mutation. With ``rejections_reported``, no ``reason`` means that it was applied."""
        if reason is not None or waiting.answer == "rejected":
            return self._settle(connection, waiting, "rejected", reason or waiting.reason)
        if rejections_reported or waiting.answer == "applied":
            return self._settle(connection, waiting, "applied")
        return self._settle(connection, waiting, "unknown", UNREPORTED)

    def _settle(
        self, connection: apsw.Connection, waiting: Waiting, status: str, reason: str | None = None
    ) -> SettledMutation:
        connection.execute("DELETE FROM pending WHERE sequence = ?", (waiting.sequence,))
        if status != "applied":
            return self._fail(connection, waiting, status, reason)
        self._remember(connection, waiting)
        return SettledMutation(waiting.sequence, status, reason)

    def _remember(self, connection: apsw.Connection, waiting: Waiting) -> None:
        """Store a confirmed mutation, in case the server goes back to a history without it.

        The file keeps the newest `CONFIRMED_MAX` mutations, or fewer if their arguments are large.
        """
        row = (waiting.sequence, waiting.id, waiting.name, waiting.args)
        connection.execute("INSERT INTO confirmed VALUES (?, ?, ?, ?)", row)
        connection.execute("DELETE FROM confirmed WHERE id <= ?", (waiting.id - CONFIRMED_MAX,))
        # Only large arguments start this deletion. If small arguments follow them, the total may reach twice the limit.
        if len(waiting.args) > CONFIRMED_BYTES_MAX // CONFIRMED_MAX:
            connection.execute(DROP_CONFIRMED, (CONFIRMED_BYTES_MAX,))

    def _fail(self, connection: apsw.Connection, waiting: Waiting, status: str, reason: str | None) -> SettledMutation:
        connection.execute(
            "INSERT INTO failures VALUES (?, ?, ?, ?, ?)",
            (waiting.sequence, waiting.name, waiting.args, status, reason),
        )
        connection.execute(
            "DELETE FROM failures WHERE sequence <="
            " (SELECT sequence FROM failures ORDER BY sequence DESC LIMIT 1 OFFSET ?)",
            (FAILURES_MAX,),
        )
        return SettledMutation(waiting.sequence, status, reason)

    def _reset(self, connection: apsw.Connection, uncommitted: Container[int]) -> list[SettledMutation]:
        settled = []
        self._become_new(connection)
        for waiting in self.pending():
            if waiting.sequence in uncommitted or waiting.sent != OPEN:
                self._renumber(connection, waiting)
            elif waiting.answer in COMMITTED:
                settled.append(self._settle_confirmed(connection, waiting, None, rejections_reported=False))
            else:
                settled.append(self._settle(connection, waiting, "unknown", UNKNOWN))
        connection.execute("DELETE FROM confirmed")  # their numbers belong to the former client id
        return settled

    def _become_new(self, connection: apsw.Connection) -> None:
        _set(connection, "client", new_id(self._clock))
        _set(connection, "group", new_id(self._clock))
        _set(connection, "next", 1)

    def _renumber(self, connection: apsw.Connection, waiting: Waiting) -> None:
        number = self._next()
        connection.execute(
            "UPDATE pending SET id = ?, sent = 0, answer = '', reason = NULL WHERE sequence = ?",
            (number, waiting.sequence),
        )
        _set(connection, "next", number + 1)

    def _set_sent(self, batch: Sequence[Waiting], sent: int) -> None:
        changed = [(sent, waiting.sequence) for waiting in batch if waiting.sent != OPEN]
        if changed:
            with self._file.transaction() as connection:
                connection.executemany("UPDATE pending SET sent = ? WHERE sequence = ?", changed)

    def _next(self) -> int:
        return int(self._fact("next"))

    def _fact(self, name: str) -> Any:
        value = self._file.first("SELECT value FROM facts WHERE name = ?", name)
        return None if value is None else decode(value)


UNKNOWN = "the answer was lost or came from another document; the mutation may have been applied"
LOST = "the server has gone back to a history without this confirmed mutation"
UNREPORTED = "the mutation was committed, but the server no longer reports whether it was rejected"
_END = 2**62


def _set(connection: apsw.Connection, name: str, value: Any) -> None:
    connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, encode(value)))


def _write(connection: apsw.Connection, patch: Sequence[Operation]) -> None:
    for operation in patch:
        if isinstance(operation, PutKey):
            value = encode(canonical(operation.value))
            connection.execute("INSERT OR REPLACE INTO items VALUES (?, ?)", (operation.key, value))
        elif isinstance(operation, Clear):
            connection.execute("DELETE FROM items")
        else:
            connection.execute("DELETE FROM items WHERE key = ?", (operation.key,))


def _reports_rejections(asked: Cookie, pulled: Pulled) -> bool:
    """Return whether ``pulled`` reports every rejection since ``asked``.

    A pull of the whole state reports no rejections. A pull over more than `REJECTIONS_SHOWN_VERSIONS` versions reports
    none either.
    """
    passed = pulled.cookie.version - asked.version
    return not _is_complete(pulled) and passed <= REJECTIONS_SHOWN_VERSIONS


def _is_complete(pulled: Pulled) -> bool:
    return any(isinstance(operation, Clear) for operation in pulled.patch)
