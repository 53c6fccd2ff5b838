"""The world of waiting pushes: large pushes wait in the queue for weeks, while a collector deletes blobs.

Each push is too large for a message, so its message has a claim check. Servers send some messages long after they put
the claim check, crash between the two, and try again with another claim check. Workers receive messages only now and
then. Some messages become dead letters. The queue knows the oldest time of its messages, as the queues of SQLite and
PostgreSQL do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from stratalog.backends.memory import MemoryQueue
from stratalog.clock import Clock
from stratalog.documents import Document
from stratalog.errors import Conflict, Corrupt, NotFound, OutcomeUnknown, Unavailable
from stratalog.limits import CLAIM_CHECK_SECONDS_MIN
from stratalog.log import LogSettings, create_log, open_log
from stratalog.maintenance import collection as collection_module
from stratalog.maintenance.collection import _Collection, collect
from stratalog.ports.queue import DeadMessage, Message
from stratalog.protocol.messages import Mutation
from stratalog.protocol.sync import Push
from stratalog.store import Store
from stratalog.testing.checkers import Violation
from stratalog.testing.scheduler import Counts, Scheduler
from stratalog.worker.messages import group_of, open_push, read_message, write_message
from stratalog.worker.worker import Worker, WorkerSettings
from tests.simulation.actors import Turns, log_environment
from tests.simulation.clusters import Cluster, Process
from tests.simulation.mutants import Mutant, replaced

__all__ = ["MUTANTS", "WaitingWorld"]

ORGANISATION = "acme"
NAME = "plan"
SETTINGS = LogSettings(snapshot_entries_interval=6)
DAY_SECONDS = 86_400
LARGE = "large" * 100
MESSAGE_BYTES_MAX = 1
"""Every push is larger, so each message has a claim check."""
PUSHES = {"server-a": 4, "server-b": 4}
# A server's clock may be hours off, and a call may take minutes.
LATE_SECONDS_MAX = CLAIM_CHECK_SECONDS_MIN - DAY_SECONDS / 2
LATE_RATE = 0.4
PUSH_PAUSE_DAYS_MAX = 12
WORK_PAUSE_DAYS_MAX = 45
COLLECT_PAUSE_DAYS_MAX = 6
STOP_RATE = 0.05
LOST_RATE = 0.3
"""The share of deliveries that a worker never settles. So some messages become dead letters."""
RECEIVES_MAX = 3
LONG_WAIT_MS = 28 * DAY_SECONDS * 1000
FAILURES = (Unavailable, OutcomeUnknown, Conflict, NotFound)


class WaitingWorld:
    """Two servers that push once per client, a worker, and a collector, over one document."""

    columns: ClassVar[tuple[str, ...]] = (
        "pushes",
        "sent late",
        "settled",
        "settled after 28 days",
        "dead letters",
        "collections",
        "collections stopped",
        "collected blobs",
        "restarts",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.cluster = Cluster(scheduler)
        self.queue = DatedQueue(self.cluster.clock, scheduler.counts)
        self.cluster.queue = self.queue
        self.left = Turns(PUSHES)
        self.clients: dict[str, str] = {}
        """The client of each message, by the message's token. Includes messages whose send failed."""
        self.record = create_log(log_environment(self.cluster, SETTINGS), ORGANISATION, NAME, "document").record
        for name in PUSHES:
            self.cluster.start(name, self.push, frees=False)
        self.cluster.start("worker", self.work)
        self.cluster.start("collector", self.collect, background=True)

    def push(self, process: Process) -> None:
        """Push until every client of this server has sent its push. A push of a crashed process is repeated."""
        environment = log_environment(process, SETTINGS)
        while left := self.left[process.name]:
            client = f"{process.name}-{left}"
            process.clock.sleep(PUSH_PAUSE_DAYS_MAX * DAY_SECONDS * process.clock.random() ** 3)
            if self._try(partial(self._send, process, environment, client)):
                self.left.take(process.name)

    def work(self, process: Process) -> None:
        """Settle all messages that the queue delivers, then sleep for days."""
        while any(self.left.values()) or self.queue.sent_ms:
            store = Store(log_environment(process, SETTINGS), process.queue)
            worker = Worker(store, WorkerSettings(receives_max=RECEIVES_MAX), self._note_failure)
            process.clock.sleep(WORK_PAUSE_DAYS_MAX * DAY_SECONDS * process.clock.random())
            while self._try(partial(self._work, process, worker)):
                pass

    def collect(self, process: Process) -> None:
        """Collect the organisation every few days."""
        while True:
            process.clock.sleep(COLLECT_PAUSE_DAYS_MAX * DAY_SECONDS * process.clock.random())
            self._try(lambda: self._collect(process, lambda: process.clock.random() < STOP_RATE))

    def check(self) -> None:
        """Check that each push took effect or is a readable dead letter.

        If there is no dead letter, also check that a collection leaves no claim check.
        """
        document = Document(open_log(log_environment(self.cluster, SETTINGS), ORGANISATION, NAME))
        state = document.state()
        lost = {client for client in self.clients.values() if state.client(client) is None}
        letters = list(self.queue.dead_letters())
        self.scheduler.counts.bump("dead letters", len(letters))
        for letter in letters:
            self._check_letter(letter, lost)
        for client in lost:
            raise Violation("effect", "a push was sent and is neither applied nor a dead letter", client=client)
        self.scheduler.now_ms += 2 * CLAIM_CHECK_SECONDS_MIN * 1000
        if not letters:
            for _ in range(2):  # the first run may resume a collection that has passed the claim check
                self._collect(self.cluster, lambda: False)
            for stat in self.cluster.blobs.list(f"{ORGANISATION}/queue/"):
                raise Violation("garbage", "a claim check without a message remains", key=stat.key)

    def _send(self, process: Process, environment: Any, client: str) -> bool:
        push = Push(
            client, [Mutation(client=client, id=1, name="put", args={"key": f"items/{client}", "value": LARGE})]
        )
        message = write_message(environment, self.record, push, "", "", MESSAGE_BYTES_MAX)
        if is_late := process.clock.random() < LATE_RATE:
            process.clock.sleep(LATE_SECONDS_MAX * process.clock.random())
        self.clients[read_message(message).token] = client
        process.queue.send(group_of(self.record), [message])
        self.scheduler.counts.bump("pushes")
        self.scheduler.counts.bump("sent late", is_late)
        return True

    def _work(self, process: Process, worker: Worker) -> bool:
        if process.clock.random() < LOST_RATE:
            return bool(process.queue.receive(1))
        return worker.step()

    def _collect(self, ends: Cluster | Process, stop: Callable[[], bool]) -> bool:
        report = collect(log_environment(ends, SETTINGS), ORGANISATION, stop=stop, queue=lambda: ends.queue)
        self.scheduler.counts.bump("collections")
        self.scheduler.counts.bump("collections stopped", not report.is_finished)
        self.scheduler.counts.bump("collected blobs", len(report.garbage))
        for failure in report.failures:
            if failure.code in (Corrupt.code, NotFound.code):
                raise Violation("nothing dangling", failure.reason)
        return True

    def _check_letter(self, letter: DeadMessage, lost: set[str]) -> None:
        """Check that a redrive can read a dead letter, unless its push was applied: then the claim check is removed."""
        envelope = read_message(letter.body)
        if (client := self.clients[envelope.token]) in lost:
            try:
                open_push(self.cluster.blobs, envelope)
            except Corrupt as exc:
                raise Violation("letters", "the push of a dead letter cannot be read", reason=str(exc)) from exc
            lost.remove(client)

    def _try(self, action: Callable[[], bool]) -> bool:
        try:
            return action()
        except FAILURES:
            self.scheduler.counts.bump("tries failed")
        return False

    def _note_failure(self, message: Message, reason: str) -> None:
        self.scheduler.fail(Violation("failure", "a worker failed unexpectedly", reason=reason))


class DatedQueue(MemoryQueue):
    """A queue in memory that knows when each of its messages and dead letters was sent."""

    def __init__(self, clock: Clock, counts: Counts) -> None:
        super().__init__(clock, receives_max=RECEIVES_MAX)
        self._counts = counts
        self.sent_ms: dict[bytes, int] = {}
        """The time of each message that waits, by its body, which is unique."""
        self._letters_ms: list[int] = []

    def send(self, group: str, bodies: Sequence[bytes]) -> None:
        super().send(group, bodies)
        self.sent_ms.update(dict.fromkeys(bodies, self._clock.wall_ms()))

    def receive(self, limit: int = 10, *, visibility_seconds: float = 30) -> list[Message]:
        given = super().receive(limit, visibility_seconds=visibility_seconds)
        for letter in self.dead_letters():
            if (sent_ms := self.sent_ms.pop(letter.body, None)) is not None:
                self._letters_ms.append(sent_ms)
        return given

    def acknowledge(self, message: Message) -> bool:
        has_removed = super().acknowledge(message)
        if has_removed:
            waited_ms = self._clock.wall_ms() - self.sent_ms.pop(message.body)
            self._counts.bump("settled")
            self._counts.bump("settled after 28 days", waited_ms > LONG_WAIT_MS)
        return has_removed

    def oldest_ms(self) -> int:
        return min([*self.sent_ms.values(), *self._letters_ms], default=self._clock.wall_ms())


def _mutant(name: str, owner: Any, attribute: str, replacement: Any, *caught_by: str) -> Mutant:
    return Mutant(f"waiting: {name}", WaitingWorld, replaced(owner, attribute, replacement), caught_by)


def _by_age(self: _Collection, work: Any, parts: list[str]) -> None:
    """Ignore the queue: assume that every message is at most 28 days old."""
    self._mark_younger(work, LONG_WAIT_MS / 1000)


def _newest_ms(self: DatedQueue) -> int:
    return max([*self.sent_ms.values(), *self._letters_ms], default=self._clock.wall_ms())


def _waiting_ms(self: DatedQueue) -> int:
    return min(self.sent_ms.values(), default=self._clock.wall_ms())


MUTANTS = (
    _mutant("the collector ignores the queue", _Collection, "_mark_queued", _by_age, "effect", "letters"),
    _mutant("no time for late sends", collection_module, "CLAIM_CHECK_SECONDS_MIN", 0, "effect", "letters"),
    _mutant("the queue names its newest message", DatedQueue, "oldest_ms", _newest_ms, "effect", "letters"),
    _mutant("the queue forgets its dead letters", DatedQueue, "oldest_ms", _waiting_ms, "letters"),
    _mutant("claim checks stay", collection_module, "CLAIM_CHECK_SECONDS_MIN", 10**9, "garbage"),
)
