"""Queued pushes: put pushes into the queue, and limit how many pushes of a document wait in the queue.

No queue reports the length of one of its groups. So each process remembers the pushes it sent, and reads the worker's
progress from the document. Messages of a group are settled in order. So an applied message proves that all messages
before it are settled.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from stratalog.clock import Clock, Observation
from stratalog.documents import Document
from stratalog.documents.run import run_batch
from stratalog.documents.state import State
from stratalog.errors import Invalid, LimitExceeded, QueueFull
from stratalog.limits import (
    MESSAGE_BYTES_MAX,
    QUEUED_DOCUMENTS_REMEMBERED_MAX,
    QUEUED_PUSH_SECONDS_MAX,
    QUEUED_PUSHES_MAX,
)
from stratalog.log.admission import UNBOUND, Reservation
from stratalog.log.usage import Amounts
from stratalog.process_fork import close_in_child
from stratalog.protocol.messages import Mutation, check_mutation
from stratalog.protocol.sync import Push, Pushed
from stratalog.store import Store
from stratalog.sync.push import check_push, refusal
from stratalog.worker.messages import group_of, write_message

__all__ = ["QueuedPushes"]

RETRY_SECONDS = 5
# A trial run has no mutators, so it rejects each mutation that a worker would run.
RUNNABLE = frozenset({"rejected"})
OPEN = frozenset({"rejected", "gap", "unknown-client"})
"""Outcomes of a trial run that may change once earlier messages in the queue are applied. Other outcomes are final.

If a push names no origin, and this process has queued no push of its clients, only `RUNNABLE` outcomes may change. A
push without an origin contains all mutations that no pull has confirmed (`formats/sync.md`). So no queued mutation
would fill a gap of the push, or make a client of the push known.
"""


class QueuedPushes:
    """Queues the pushes of one server process. Safe for threads.

    Of the pushes that this process sent, at most ``pushes_max`` wait for one document. At most half of that number
    belong to one owner, unless the owner is empty. A message is at most ``message_bytes_max`` bytes. Larger pushes are
    stored in blobs.
    """

    def __init__(
        self, store: Store, pushes_max: int = QUEUED_PUSHES_MAX, message_bytes_max: int = MESSAGE_BYTES_MAX
    ) -> None:
        self._store = store
        self._pushes_max = pushes_max
        self._message_bytes_max = message_bytes_max
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._sent: OrderedDict[str, _Sent] = OrderedDict()

    def push(self, document: Document, request: Push, owner: str = "", author: str = "") -> Pushed:
        """Queue a push durably for a worker. If its result is already final, return the result without queueing.

        Raises Invalid or LimitExceeded for invalid names and numbers, QueueFull if too many pushes of the document or
        of ``owner`` wait, QuotaExceeded, NotFound, Unavailable: nothing is queued. Raises OutcomeUnknown if the push
        may be queued: push it again unchanged.
        """
        request = check_push(request)
        record, state = document.log.record, document.state()
        sent = self._sent_to(record.prefix)
        waiting = OPEN if request.origin or sent.holds_any(request.mutations) else RUNNABLE
        answer = refusal(document, request) or _final(document, state, request, owner, waiting)
        if answer is not None:
            return answer
        sent.check_room(state, self._pushes_max, owner)
        write = partial(
            write_message, self._store.environment, record, request, owner, author, known=document.rules.mutators
        )
        message = write(bytes_max=self._message_bytes_max)
        with self._reserve(record.organisation, state, request, owner):
            self._send(group_of(record), message, write)
        sent.note(request.mutations, owner)
        return Pushed([], queued=True)

    def _send(self, group: str, message: bytes, write: Callable[..., bytes]) -> None:
        """Send the message. If the queue accepts only smaller messages, put the push into blobs."""
        try:
            self._store.queue.send(group, [message])
        except LimitExceeded:
            self._store.queue.send(group, [write(bytes_max=0)])

    def _reserve(self, organisation: str, state: State, request: Push, owner: str) -> Reservation:
        """Reserve quota for the clients that the push adds. No quota refuses an acknowledged push."""
        firsts = {mutation.client for mutation in request.mutations if mutation.id == 1}
        newcomers = sum(state.client(client) is None for client in firsts)
        if not newcomers:
            return UNBOUND
        amounts = Amounts(clients=newcomers)
        return self._store.environment.reserve(
            organisation, amounts, document_clients=state.count_clients, principal=owner
        )

    def _sent_to(self, prefix: str) -> _Sent:
        """Return the pushes sent for an incarnation. Beyond the limit, forget the least recently used document."""
        with self._lock:
            sent = self._sent.setdefault(prefix, _Sent(self._store.environment.clock))
            self._sent.move_to_end(prefix)
            if len(self._sent) > QUEUED_DOCUMENTS_REMEMBERED_MAX:
                self._sent.popitem(last=False)
        return sent


class _Sent:
    """The pushes of one document that this process sent and that may still wait, oldest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._waiting: deque[_Waiting] = deque()

    def note(self, mutations: Sequence[Mutation], owner: str) -> None:
        """Note a push that was sent, with the last number of each of its clients."""
        last = {mutation.client: mutation.id for mutation in mutations}
        with self._lock:
            self._waiting.append(_Waiting(Observation(self._clock), last, owner))

    def holds_any(self, mutations: Sequence[Mutation]) -> bool:
        """Return whether a push that may still wait has a mutation of one of these clients."""
        clients = {mutation.client for mutation in mutations}
        with self._lock:
            return any(not clients.isdisjoint(push.last) for push in self._waiting)

    def check_room(self, state: State, pushes_max: int, owner: str) -> None:
        """Raise QueueFull if too many pushes wait, of all owners together or of ``owner``.

        ``state`` is the document's latest state, which shows the applied pushes.
        """
        with self._lock:
            while self._waiting and self._is_settled(0, state):
                self._waiting.popleft()
            if self._full(pushes_max, owner) is None:
                return
            newest_first = reversed(range(len(self._waiting)))
            settled = next((position for position in newest_first if self._is_settled(position, state)), -1)
            # The earlier pushes are settled too (applied or dropped), since a group is settled in order.
            for _ in range(settled + 1):
                self._waiting.popleft()
            if (full := self._full(pushes_max, owner)) is not None:
                raise full

    def _full(self, pushes_max: int, owner: str) -> QueueFull | None:
        """Return the error if there is no room, else None. Without an owner only the limit for all owners applies."""
        if len(self._waiting) >= pushes_max:
            text = "too many pushes of the document are queued"
            return QueueFull(text, limit=pushes_max, seconds=RETRY_SECONDS)
        share = max(1, pushes_max // 2)
        if owner and sum(push.owner == owner for push in self._waiting) >= share:
            text = "too many pushes of the principal to the document are queued"
            return QueueFull(text, limit=share, seconds=RETRY_SECONDS, scope="principal")
        return None

    def _is_settled(self, position: int, state: State) -> bool:
        """Return whether the push was applied, or was sent so long ago that it no longer counts as waiting."""
        push = self._waiting[position]
        if push.sent.age_seconds() > QUEUED_PUSH_SECONDS_MAX:
            return True
        return all((known := state.client(client)) is not None and known.id >= id for client, id in push.last.items())


class _Waiting(NamedTuple):
    """A push that was sent: its time, the last number of each client in it, and its owner."""

    sent: Observation
    last: dict[str, int]
    owner: str


def _final(document: Document, state: State, request: Push, owner: str, waiting: frozenset[str]) -> Pushed | None:
    """Return the result of a trial run if no outcome of it is in ``waiting``; otherwise None."""
    try:
        batch = [check_mutation(mutation) for mutation in request.mutations]
    except (Invalid, LimitExceeded):
        return None
    outcomes = run_batch(state, document.stored_values, {}, batch, request.group, owner).outcomes
    return None if any(outcome.status in waiting for outcome in outcomes) else Pushed(outcomes)
