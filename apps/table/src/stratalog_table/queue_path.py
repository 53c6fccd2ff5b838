"""Committing through the queue: a transaction is durable when it is sent, and a worker commits it to the newest state.

Messages of one table are applied in order by whichever worker has them; those that wait together become one entry,
whoever sent them. A transaction that fails is a committed rejection and stops nobody. Such a worker is
`stratalog work stratalog_table.application:app`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec

from stratalog import OutcomeUnknown, Unavailable
from stratalog.clock import Observation, new_id
from stratalog.errors import LimitExceeded
from stratalog.process_fork import close_in_child
from stratalog.retry import Retry, RetryPolicy
from stratalog.worker import Carried, QueuedPush, QueuedPushes
from stratalog_table.table import Table
from stratalog_table.transaction_group import REQUESTS_MAX, TRANSIENT, CommittedTransaction, Request, committed_with

__all__ = ["TableQueue", "Ticket"]

GROUP = "queue"
"""All senders are of one group, so that what they send can be joined. Collecting it would end them all."""

TRIES_MAX = 5
POLL_POLICY = RetryPolicy(wait_seconds_first=0.01, wait_seconds_max=1)


class Ticket(msgspec.Struct, frozen=True):
    """Names a transaction that was sent."""

    client: str
    id: int


class TableQueue:
    """One sender of a table's transactions. Safe to share between threads; ``client`` names no other sender."""

    def __init__(self, table: Table, client: str = "") -> None:
        self._table = table
        self._clock = table.store.environment.clock
        self._client = client or f"queue/{new_id(self._clock)}"
        self._number = table.document.last_mutation(self._client)
        self._queued_pushes = QueuedPushes(table.store)
        self._lock = threading.Lock()
        close_in_child(self, "_lock")

    def send(self, requests: Sequence[Request]) -> list[Ticket]:
        """Queue transactions, durably, as one message.

        Raises Unavailable where the queue cannot be reached or too much waits in it, and LimitExceeded: nothing is
        queued. Raises OutcomeUnknown where it cannot be told; nothing more can be sent then.
        """
        if not 0 < len(requests) <= REQUESTS_MAX:
            raise LimitExceeded("a message has too many transactions", value=len(requests), limit=REQUESTS_MAX)
        with self._lock:
            carried = [
                Carried(self._client, self._number + position, request.name, request.args)
                for position, request in enumerate(requests, 1)
            ]
            self._push(QueuedPush(GROUP, self._table.document.origin, "", "", carried))
            self._number += len(carried)
        return [Ticket(mutation.client, mutation.id) for mutation in carried]

    def outcome(self, ticket: Ticket) -> CommittedTransaction | None:
        """What became of a transaction; None while it waits. Raises VersionForgotten: committed, but not kept."""
        return committed_with(self._table.document, ticket.client, ticket.id).get(ticket.id)

    def wait(self, ticket: Ticket, seconds: float) -> CommittedTransaction:
        """What became of a transaction, once a worker has committed it. Raises Unavailable after ``seconds``."""
        begun, retry = Observation(self._clock), Retry(self._clock, POLL_POLICY)
        while (outcome := self.outcome(ticket)) is None:
            if begun.age_seconds() > seconds:
                raise Unavailable("no worker has committed the transaction yet", client=ticket.client, id=ticket.id)
            self._clock.sleep(retry.next_seconds())
        return outcome

    def _push(self, queued: QueuedPush) -> None:
        """Push until it is known to be queued: sent twice, it is applied once."""
        for attempt in range(1, TRIES_MAX + 1):
            try:
                self._queued_pushes.push(self._table.document, queued.push(), queued.owner, queued.author)
                return
            except TRANSIENT as exc:
                if attempt == TRIES_MAX or not isinstance(exc, OutcomeUnknown):
                    raise
