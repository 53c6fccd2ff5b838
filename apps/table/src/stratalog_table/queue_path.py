"""Transactions through the queue: a transaction is durable once it is sent, and a worker commits it later.

A worker applies the messages of one table in order, to the newest state. The worker can commit several waiting messages
as one entry, even if several senders sent them. It commits a failed transaction as a rejection, and continues with the
next transaction. The command `stratalog work stratalog_table.application:app` runs the worker.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec

from stratalog import Outcome, OutcomeUnknown, StratalogError, Unavailable
from stratalog.clock import Observation, is_interval_over, new_id
from stratalog.errors import Conflict, LimitExceeded
from stratalog.process_fork import close_in_child
from stratalog.retry import Retry, RetryPolicy
from stratalog.worker import Carried, QueuedPush, QueuedPushes, weekly_group
from stratalog_table.limits import LATE_SECONDS_MAX, PUSH_TRIES_MAX, TRANSACTIONS_PER_CALL_MAX
from stratalog_table.retention import DAY_MS
from stratalog_table.table import Table
from stratalog_table.transaction_group import TRANSIENT, CommittedTransaction, Request, committed_with

__all__ = ["TableQueue", "Ticket"]

GROUPS = "queue"
"""The series of the weekly groups of senders (`stratalog.protocol.weekly_groups`).

All senders of a week share a group, because only pushes of one group can share an entry. Maintenance forgets the idle
group only when none of its messages can wait.
"""

WEEK_MS = 7 * DAY_MS
POLL_POLICY = RetryPolicy(wait_seconds_first=0.01, wait_seconds_max=1)


class Ticket(msgspec.Struct, frozen=True):
    """The name of a sent transaction: the sender's client and a number."""

    client: str
    id: int


class TableQueue:
    """One sender of a table's transactions. Threads may share it.

    The sender uses a new client in each week of the log's time, and after each message that was not sent, or that is in
    doubt.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._clock = table.store.environment.clock
        self._group = self._client = ""
        self._number = 0
        self._queued_pushes = QueuedPushes(table.store)
        self._lock = threading.Lock()
        close_in_child(self, "_lock")

    def send(self, requests: Sequence[Request]) -> list[Ticket]:
        """Queue transactions as one durable message, and return a ticket for each transaction.

        An empty sequence queues nothing. Raises LimitExceeded for too many transactions or a message that is too large,
        and Unavailable if the queue cannot be reached or is too long. Raises Conflict if the table refuses the sender's
        client. After these errors nothing is queued.

        Raises OutcomeUnknown if any attempt may have queued the message, or if the table's newest version became more
        than a week later during the call, and no worker committed the message within `LATE_SECONDS_MAX`. In the second
        case the transactions may have no effect, even if they are queued.
        """
        if not requests:
            return []
        if len(requests) > TRANSACTIONS_PER_CALL_MAX:
            raise LimitExceeded(
                "a message has too many transactions", value=len(requests), limit=TRANSACTIONS_PER_CALL_MAX
            )
        with self._lock:
            self._begin_week()
            carried = [
                Carried(self._client, self._number + position, request.name, request.args)
                for position, request in enumerate(requests, 1)
            ]
            tickets = [Ticket(mutation.client, mutation.id) for mutation in carried]
            try:
                self._push(QueuedPush(self._group, self._table.document.origin, "", "", carried))
                self._check_in_time(tickets[-1])
            except BaseException:
                # The next message must not reuse numbers in doubt. A KeyboardInterrupt leaves them in doubt too.
                self._group = ""
                raise
            self._number += len(carried)
        return tickets

    def outcome(self, ticket: Ticket) -> CommittedTransaction | None:
        """Return the outcome of a transaction. Return None while the transaction waits in the queue.

        Also return None if a worker passed over the transaction because its message is a dead letter, and after
        maintenance has forgotten the ticket's client, which was idle for at least 30 days.

        Raises VersionForgotten if the log has forgotten the version that contains the transaction.
        """
        return committed_with(self._table.document, ticket.client, ticket.id).get(ticket.id)

    def wait(self, ticket: Ticket, seconds: float) -> CommittedTransaction:
        """Wait until a worker commits the transaction, and return the outcome. Raises Unavailable after ``seconds``."""
        begun, retry = Observation(self._clock), Retry(self._clock, POLL_POLICY)
        while (outcome := self.outcome(ticket)) is None:
            if begun.age_seconds() > seconds:
                raise Unavailable("no worker has committed the transaction yet", client=ticket.client, id=ticket.id)
            self._clock.sleep(retry.next_seconds())
        return outcome

    def _begin_week(self) -> None:
        """Take a new client if the sender has no client of the week of the newest version."""
        group = weekly_group(GROUPS, self._recent_ms())
        if group != self._group:
            self._group, self._client, self._number = group, f"queue/{new_id(self._clock)}", 0

    def _check_in_time(self, newest: Ticket) -> None:
        """Raise OutcomeUnknown if the message may have been queued so late that its group may be forgotten before.

        A committed message was in time. On a table without commits for weeks, the message itself may be the first one.
        """
        try:
            if weekly_group(GROUPS, self._log_ms() - WEEK_MS) > self._group:
                self.wait(newest, LATE_SECONDS_MAX)
        except StratalogError as exc:
            raise OutcomeUnknown("a message of transactions may be queued too late", client=self._client) from exc

    def _recent_ms(self) -> int:
        """Return the time of a version that was the newest. Read the log if the known version is a day old.

        A sender may use the group of an earlier week, since `_check_in_time` reads the log. But the version after the
        newest one of an idle table may be weeks later.
        """
        known = self._table.document.log.known_head()
        if known is None or is_interval_over(self._clock, known.created_ms, DAY_MS):
            return self._log_ms()
        return known.created_ms

    def _log_ms(self) -> int:
        """Return the time of the table's newest version. Unlike the sender's clock, it is never wrong or set back."""
        return self._table.document.log.head().created_ms

    def _push(self, queued: QueuedPush) -> None:
        """Push a message. Repeat the push while the outcome is unknown, up to `PUSH_TRIES_MAX` attempts in all.

        If the queue contains the message twice, the worker applies it once. After an attempt in doubt, the failure of a
        later attempt does not show whether the message is queued. So the method then raises OutcomeUnknown.
        """
        in_doubt = False
        for attempt in range(1, PUSH_TRIES_MAX + 1):
            try:
                pushed = self._queued_pushes.push(self._table.document, queued.push(), queued.owner, queued.author)
                _check_accepted(pushed.outcomes)
                return
            except StratalogError as exc:
                in_doubt = in_doubt or isinstance(exc, OutcomeUnknown)
                if not in_doubt:
                    raise
                if attempt == PUSH_TRIES_MAX or not isinstance(exc, TRANSIENT):
                    raise OutcomeUnknown("a message of transactions may be queued", client=self._client) from exc


def _check_accepted(outcomes: Sequence[Outcome]) -> None:
    """Raise Conflict if an outcome is not ``seen``, that is, committed earlier. A queued push has no outcomes yet."""
    refused = next((outcome for outcome in outcomes if outcome.status != "seen"), None)
    if refused is not None:
        raise Conflict(
            "the table refuses the sender's client", client=refused.client, id=refused.id, status=refused.status
        )
