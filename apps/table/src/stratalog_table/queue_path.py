"""Transactions through the queue: a transaction is durable once it is sent, and a worker commits it later.

A worker applies the messages of one table in order, to the newest state. The worker can commit several waiting messages
as one entry, even if several senders sent them. It commits a failed transaction as a rejection, and continues with the
next transaction. The command `stratalog work stratalog_table.application:app` runs the worker.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import count

import msgspec

from stratalog import Outcome, OutcomeUnknown, StratalogError, Unavailable
from stratalog.clock import Observation, new_id
from stratalog.errors import Conflict, LimitExceeded
from stratalog.process_fork import close_in_child
from stratalog.retry import Retry, RetryPolicy
from stratalog.worker import Carried, QueuedPush, QueuedPushes
from stratalog_table.limits import PUSH_TRIES_MAX, TRANSACTIONS_PER_CALL_MAX
from stratalog_table.table import Table
from stratalog_table.transaction_group import TRANSIENT, CommittedTransaction, Request, committed_with

__all__ = ["TableQueue", "Ticket"]

GROUP = "queue"
"""The first client group of senders. Senders share a group, because only pushes of one group can share an entry.

Maintenance may collect an idle group, and the table then refuses the group for ever. So new senders use the next group:
``queue-2``, ``queue-3`` and so on. If a message of the collected group still waits, the worker drops it.
"""

POLL_POLICY = RetryPolicy(wait_seconds_first=0.01, wait_seconds_max=1)


class Ticket(msgspec.Struct, frozen=True):
    """The name of a sent transaction: the sender's client and a number."""

    client: str
    id: int


class TableQueue:
    """One sender of a table's transactions. Threads may share it. No other sender may have the same ``client``."""

    def __init__(self, table: Table, client: str = "") -> None:
        self._table = table
        self._clock = table.store.environment.clock
        self._client = client or f"queue/{new_id(self._clock)}"
        state = table.document.state()
        newest, bound = state.client(self._client), state.binding(self._client)
        self._number = newest.id if newest else 0
        # A sender that continues an earlier sender's client stays in the client's group.
        self._group = bound[0] if bound and bound[0].startswith(f"{GROUP}-") else GROUP
        self._queued_pushes = QueuedPushes(table.store)
        self._lock = threading.Lock()
        close_in_child(self, "_lock")

    def send(self, requests: Sequence[Request]) -> list[Ticket]:
        """Queue transactions as one durable message, and return a ticket for each transaction.

        An empty sequence queues nothing. Raises LimitExceeded for too many transactions or a message that is too large,
        and Unavailable if the queue cannot be reached or is too long. Raises Conflict if the table refuses the sender's
        client, for example because another sender used the same client, or because maintenance collected the idle
        client. The caller must then create a sender with another client. After these errors nothing is queued.

        Raises OutcomeUnknown if any attempt may have queued the message. The caller must then send nothing more with
        this sender, because the next message would have the same numbers as the message in doubt.
        """
        if not requests:
            return []
        if len(requests) > TRANSACTIONS_PER_CALL_MAX:
            raise LimitExceeded(
                "a message has too many transactions", value=len(requests), limit=TRANSACTIONS_PER_CALL_MAX
            )
        with self._lock:
            carried = [
                Carried(self._client, self._number + position, request.name, request.args)
                for position, request in enumerate(requests, 1)
            ]
            self._push_in_group(carried)
            self._number += len(carried)
        return [Ticket(mutation.client, mutation.id) for mutation in carried]

    def outcome(self, ticket: Ticket) -> CommittedTransaction | None:
        """Return the outcome of a transaction, or None while it waits in the queue.

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

    def _push_in_group(self, carried: list[Carried]) -> None:
        """Push a message in the sender's group. If that group was collected, a new sender uses the next group."""
        for number in count(2):
            try:
                self._push(QueuedPush(self._group, self._table.document.origin, "", "", carried))
                return
            except Conflict as exc:
                if self._number or exc.details.get("status") != "collected":
                    raise
                self._group = f"{GROUP}-{number}"

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
