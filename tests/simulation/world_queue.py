"""The world of the queue: servers queue the pushes of devices, and workers apply these pushes over a faulty queue.

The queue delivers some messages twice, visibility timeouts expire, and acknowledgements get lost. Workers freeze and
crash. Some mutations (poison) crash every worker that runs them. In some seeds an actor deletes a document, and creates
another document under the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

import msgspec

from stratalog.codec import encode
from stratalog.documents import Document, Rules
from stratalog.documents.commits import Commit, Recorded
from stratalog.documents.rejections import read_rejection
from stratalog.errors import Conflict, NotFound, OutcomeUnknown, QueueFull, StratalogError, Unavailable
from stratalog.keys import REJECTED_PARTITION
from stratalog.limits import MESSAGE_BYTES_MAX
from stratalog.log import LogSettings, create_log, delete_log, open_log
from stratalog.log.names import NameRecord, read_name
from stratalog.ports.queue import DeadMessage, Message, Queue
from stratalog.protocol import BUILT_IN_MUTATORS, Draft, Rejected
from stratalog.store import Store
from stratalog.sync.pull import pull
from stratalog.testing.checkers import Violation
from stratalog.testing.faults import FAULTS
from stratalog.testing.scheduler import Scheduler
from stratalog.worker.execution import WORKER_REJECTION
from stratalog.worker.messages import QueuedPush, open_push, read_message
from stratalog.worker.queued_pushes import QueuedPushes
from stratalog.worker.settlement import Settlement, Settler
from stratalog.worker.worker import Worker, WorkerSettings
from tests.simulation.actors import Turns, log_environment
from tests.simulation.clusters import Cluster, Process
from tests.simulation.devices import Device, check_heirs, check_owners
from tests.simulation.documents_truth import Truth

__all__ = ["QueueTruth", "QueueWorld", "send_heartbeats"]

ORGANISATION = "acme"
MAIN = "plan"
OTHER = "other"
POISON = "poison"
WORKERS = 2
IDLE_SECONDS_MAX = 60.0
HEARTBEAT_SECONDS = 8.0
DRAIN_ROUNDS_MAX = 100
TRANSIENT = (Unavailable, OutcomeUnknown, Conflict)
WORKING = WorkerSettings(idle_seconds_max=IDLE_SECONDS_MAX)
FAULTS_SPARED = 2
"""A message with one poisonous mutation must survive this many faults without becoming a dead letter."""


class QueueWorld:
    """Two documents, the devices that push to them through the queue, and the workers that apply the pushes."""

    columns: ClassVar[tuple[str, ...]] = (
        "queued",
        "queue full",
        "known before",
        "claim checks",
        "applied",
        "rejected",
        "seen",
        "gap",
        "messages",
        "coalesced",
        "of another incarnation",
        "port errors",
        "visibility ended",
        "poisoned",
        "rejected by a worker",
        "made anew",
        "begun again",
        "restarts",
        *FAULTS,
    )

    def __init__(self, scheduler: Scheduler) -> None:
        draw = scheduler.random
        self.scheduler = scheduler
        self.cluster = Cluster(scheduler)
        self.watch = Watch(self.cluster.queue, self)
        self.cluster.queue = self.watch  # type: ignore[assignment]
        self.settings = LogSettings(snapshot_entries_interval=draw.choice((1, 3, 6)), body_inline_bytes_max=256)
        self.pushes_max = draw.choice((2, 100))
        self.message_bytes_max = draw.choice((200, MESSAGE_BYTES_MAX))
        self.records: dict[str, NameRecord] = {}
        self.violations: list[Violation] = []
        for name in (MAIN, OTHER):
            self._make(name)
        self.devices = [Device(f"device-{position}", MAIN, draw) for position in range(draw.choice((1, 2)))]
        self.devices.append(Device("device-other", OTHER, draw))
        self.scripts = Turns({device.name: draw.randrange(3, 7) for device in self.devices})
        self.poisons = Turns({device.name: draw.choice((0, 0, 1)) for device in self.devices})
        for device in self.devices:
            self.cluster.start(device.name, partial(self.live, device))
        for number in range(WORKERS):
            self.cluster.start(f"worker-{number}", self.work)
        if draw.random() < 0.5:
            scheduler.spawn("maker", self.maker)

    def live(self, device: Device, process: Process) -> None:
        """Run a device and its server: change, push and pull until every mutation is sent and confirmed."""
        store = Store(log_environment(process, self.settings), process.queue)
        backlog = QueuedPushes(store, self.pushes_max, self.message_bytes_max)
        clock, pause = process.clock, 0.5
        while self.scripts.get(device.name) or device.pending:
            if device.cookie and clock.random() < 0.5 and self.scripts.take(device.name):
                device.mutate(*self._intent(device))
            action = self._push if device.pending and clock.random() < 0.4 else self._pull
            news = self._attempt(partial(action, device, backlog, store))
            clock.sleep(pause * (0.5 + clock.random()))
            pause = 0.5 if news else min(2 * pause, IDLE_SECONDS_MAX)
        self.scripts.pop(device.name, None)

    def work(self, process: Process) -> None:
        """Run a worker, and a second actor that sends the worker's heartbeats."""

        def poison(draft: Draft, args: Any) -> None:
            self.scheduler.counts.bump("poisoned")
            process.crash()

        rules = Rules({**BUILT_IN_MUTATORS, POISON: poison})
        store = Store(log_environment(process, self.settings), process.queue, rules)
        worker = Worker(store, WORKING, self._note_failure)
        worker._settler = _Judged(store, self.judge)
        process.spawn(f"{process.name}/beat", partial(send_heartbeats, process, worker), background=True)
        idle = 0.1
        try:
            while self.scripts:
                if worker.step():
                    idle = 0.1
                else:
                    process.clock.sleep(idle)
                    idle = min(2 * idle, IDLE_SECONDS_MAX)
            worker.stop()
            worker.run()
        finally:
            self._count(worker)

    def maker(self) -> None:
        """After a random time, delete the document `MAIN`, and immediately create another document under its name."""
        self.cluster.clock.sleep(60 * self.cluster.clock.random())
        delete_log(Document(open_log(log_environment(self.cluster, self.settings), ORGANISATION, MAIN)).log)
        self._make(MAIN)
        self.scheduler.counts.bump("made anew")

    def settled(self, message: Message) -> None:
        """Check that a document contains the mutations of an acknowledged message.

        A mutation may be missing if an earlier mutation of its client is missing too. Skip the check if the document
        was deleted or replaced since.
        """
        envelope = read_message(message.body)
        record = read_name(self.cluster.index, ORGANISATION, envelope.document)
        if record is None or record.deleted_ms or record.incarnation != envelope.incarnation:
            return
        state = Document(
            open_log(log_environment(self.cluster, self.settings), ORGANISATION, envelope.document)
        ).state()
        for mutation in self.watch.pushes[envelope.token].mutations:
            client = state.client(mutation.client)
            if mutation.id == (client.id if client else 0) + 1:
                self._violated(
                    "settled", "an acknowledged message was not applied", client=mutation.client, id=mutation.id
                )

    def judge(self, settled: Settlement) -> None:
        """Check that a worker reports no outcomes, or those of exactly the message's mutations, in the same order."""
        push = self.watch.pushes[settled.envelope.token]
        reported = [(outcome.client, outcome.id) for outcome in settled.outcomes]
        if reported and reported != [(outcome.client, outcome.id) for outcome in push.mutations]:
            self._violated("outcomes", "a message got the outcomes of another message", push=push, reported=reported)

    def moved_aside(self, letters: Sequence[DeadMessage]) -> None:
        """Check that faults explain a dead letter. Without faults, a worker rejects poison before the last delivery."""
        if sum(self.scheduler.counts.get(fault) for fault in FAULTS) <= FAULTS_SPARED:
            self._violated("moved aside", "a message became a dead letter after too few faults", letter=letters[-1].id)

    def check(self) -> None:
        """Apply all remaining messages.

        Then check each log, and compare the devices' states and outcomes with the logs.
        """
        self._drain()
        for violation in self.violations:
            raise violation
        for device in self.devices:
            self._check_end(device)
        truths = {record.origin: QueueTruth(self.cluster, record.prefix, MUTATORS) for _, record in self._known()}
        groups = {client: group for device in self.devices for client, group in device.groups.items()}
        for truth in truths.values():
            truth.check_order(lambda client: groups.get(client, client))
            check_owners(truth, groups)
            self._check_rejected(truth)
        check_heirs(list(truths.values()))
        for device in self.devices:
            device.check(truths)

    def _intent(self, device: Device) -> tuple[str, dict[str, Any]]:
        draw = self.scheduler.random
        if draw.random() < 0.3 and self.poisons.take(device.name):
            return POISON, {}
        if draw.random() < 0.5:
            return "inc", {"key": "count", "by": draw.choice((1, 2, "x"))}
        return "put", {"key": draw.choice(("items/1", "zoo/1")), "value": draw.choice((1, "large" * 100))}

    def _attempt(self, action: Any) -> bool:
        """Run the action. Return whether the action changed the device. After an expected error return False."""
        try:
            return bool(action())
        except QueueFull:
            self.scheduler.counts.bump("queue full")
        except (NotFound, *TRANSIENT):
            self.scheduler.counts.bump("tries failed")
        return False

    def _push(self, device: Device, backlog: QueuedPushes, store: Store) -> bool:
        """Push the pending mutations. Pull instead if the document's origin is not the origin that the device pulled.

        The first device names the origin in its pushes, and sometimes leaves out its first mutation. The other devices
        always send all mutations, and name no origin. For such a push, only the incarnation in the queued message keeps
        a worker from applying the push to a new document of the same name.
        """
        document = store.document(ORGANISATION, device.document)
        if device.cookie is None or device.cookie.origin != document.origin:
            return self._pull(device, backlog, store)
        is_named = device.name == "device-0"
        request = device.push(is_named and self.scheduler.random.random() < 0.1)
        sent = request if is_named else msgspec.structs.replace(request, origin="")
        pushed = backlog.push(document, sent, device.owner)
        self.scheduler.counts.bump("queued" if pushed.queued else "known before")
        device.learn(request, pushed)
        return not pushed.queued

    def _pull(self, device: Device, backlog: QueuedPushes, store: Store) -> bool:
        before, life = device.cookie, device.life
        request = device.pull()
        device.take(request, pull(store.document(ORGANISATION, device.document), request, device.owner))
        self.scheduler.counts.bump("begun again", device.life != life)
        return device.cookie != before

    def _note_failure(self, message: Message, reason: str) -> None:
        if not reason.startswith("NotRun"):
            self._violated("failure", "a worker failed unexpectedly", reason=reason)

    def _violated(self, checker: str, text: str, **details: Any) -> None:
        """Record a violation and end the run. A worker would catch a raised violation as an error of a message."""
        self.violations.append(Violation(checker, text, **details))
        self.scheduler.fail(self.violations[0])

    def _make(self, name: str) -> None:
        record = create_log(log_environment(self.cluster, self.settings), ORGANISATION, name, "document").record
        self.records[record.incarnation] = record

    def _known(self) -> Sequence[tuple[str, NameRecord]]:
        return list(self.records.items())

    def _count(self, worker: Worker) -> None:
        for name, count in worker.counts.items():
            self.scheduler.counts.bump(name, count)

    def _drain(self) -> None:
        """Apply the remaining messages with a worker that rejects poisonous mutations instead of crashing."""
        store = Store(log_environment(self.cluster, self.settings), self.cluster.queue, Rules(MUTATORS))
        for _ in range(DRAIN_ROUNDS_MAX):
            worker = Worker(store, WORKING, self._note_failure)
            worker.run(drain=True)
            if self.watch.is_empty():
                return
            self.cluster.clock.sleep(WORKING.visibility_seconds)
        raise Violation("drained", "messages remain that no worker receives")

    def _check_end(self, device: Device) -> None:
        """Check that the device has the document's content after two pulls.

        The first pull may move the device to another incarnation.
        """
        document = Document(open_log(log_environment(self.cluster, self.settings), ORGANISATION, device.document))
        for _ in range(2):
            device.take(device.pull(), pull(document, device.pull(), device.owner))
        if device.content != {key: encode(value) for key, value in document.scan()}:
            raise Violation("converged", "a device's content differs from the document at the end", device=device.name)

    def _check_rejected(self, truth: QueueTruth) -> None:
        """Check that each rejection by a worker has a dead letter.

        Without crashes or freezes, workers may reject only poison.
        """
        crashes = sum(self.scheduler.counts.get(fault) for fault in FAULTS if fault.startswith(("crash", "freeze")))
        rejections = map(read_rejection, self.cluster.index.query(REJECTED_PARTITION))
        letters = {(letter.client, letter.id) for letter in rejections}
        for recorded in truth.rejected:
            self.scheduler.counts.bump("rejected by a worker")
            if (recorded.client, recorded.id) not in letters:
                raise Violation("letters", "a mutation rejected by a worker has no dead letter", mutation=recorded)
            if recorded.name != POISON and not crashes:
                raise Violation("innocent", "a harmless mutation was rejected", mutation=recorded)


class _Judged(Settler):
    """A worker's settler that passes each settlement to ``judge``."""

    def __init__(self, store: Store, judge: Callable[[Settlement], None]) -> None:
        super().__init__(store, WORKING.receives_max)
        self._judge = judge

    def settle_some(self, messages: Sequence[Message]) -> list[Settlement]:
        settled = super().settle_some(messages)
        for settlement in settled:
            self._judge(settlement)
        return settled


class Watch:
    """The queue below the injected faults.

    Records sent pushes, and calls the world for acknowledged messages and dead letters.
    """

    def __init__(self, queue: Any, world: QueueWorld) -> None:
        self._queue: Queue = queue
        self._held: dict[str, Any] = queue._groups
        self._world = world
        self._moved = 0
        self.pushes: dict[str, QueuedPush] = {}

    def is_empty(self) -> bool:
        return not self._held

    def send(self, group: str, bodies: Sequence[bytes]) -> None:
        self._queue.send(group, bodies)
        for body in bodies:
            envelope = read_message(body)
            self._world.scheduler.counts.bump("claim checks", envelope.claim_check is not None)
            self.pushes[envelope.token] = open_push(self._world.cluster.blobs, envelope)

    def receive(self, limit: int = 10, *, visibility_seconds: float = 30) -> list[Message]:
        given = self._queue.receive(limit, visibility_seconds=visibility_seconds)
        letters = list(self._queue.dead_letters())
        if len(letters) > self._moved:
            self._moved = len(letters)
            self._world.moved_aside(letters)
        return given

    def acknowledge(self, message: Message) -> bool:
        done = self._queue.acknowledge(message)
        if done:
            self._world.settled(message)
        return done

    def release(self, message: Message, *, after_seconds: float = 0) -> bool:
        return self._queue.release(message, after_seconds=after_seconds)

    def dead_letters(self, *, after: str = "") -> Any:
        return self._queue.dead_letters(after=after)

    def close(self) -> None:
        self._queue.close()


class QueueTruth(Truth):
    """A `Truth` that accepts each rejection by a worker, even if the mutator would succeed."""

    def __init__(self, cluster: Cluster, prefix: str, mutators: Any) -> None:
        self.rejected: list[Recorded] = []
        super().__init__(cluster, prefix, mutators)

    def _run(self, draft: Draft, mutation: Recorded, commit: Commit) -> bool:
        if (mutation.reason or "").startswith(WORKER_REJECTION):
            self.rejected.append(mutation)
            return True
        return super()._run(draft, mutation, commit)


def send_heartbeats(process: Process, worker: Worker) -> None:
    """Send a worker's heartbeats until its process ends."""
    while True:
        process.clock.sleep(HEARTBEAT_SECONDS)
        with suppress(StratalogError):
            worker.heartbeat()


def reject_poison(draft: Draft, args: Any) -> None:
    """Reject the mutation. The checks and the last worker use this mutator for poison, because they must not crash."""
    raise Rejected("poison")


MUTATORS = {**BUILT_IN_MUTATORS, POISON: reject_poison}
