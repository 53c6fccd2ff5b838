"""The world of sync: devices push to several servers and pull from them over a faulty network.

The network loses, repeats and delays messages. Meanwhile other processes take snapshots, archive, forget, collect a
group, and fork the document. One process deletes the document and creates another document under its name. An attacker
pulls and pushes for the devices' groups. The checks compare every state that a device ever had with the log.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import msgspec

from stratalog.codec import encode
from stratalog.documents import Document
from stratalog.errors import (
    Collected,
    Conflict,
    Corrupt,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    ReservedName,
    Unavailable,
)
from stratalog.log import LogSettings, create_log, delete_log, open_log
from stratalog.log.names import NameRecord
from stratalog.protocol import BUILT_IN_MUTATORS, Mutation
from stratalog.protocol.sync import Clear, Pull, Pulled, Push, Pushed
from stratalog.sync.pull import pull
from stratalog.sync.push import push
from stratalog.testing.checkers import Violation
from stratalog.testing.network import Network
from stratalog.testing.scheduler import Scheduler
from tests.simulation.actors import Turns, choose, log_environment
from tests.simulation.clusters import Cluster, Process
from tests.simulation.devices import Device, check_heirs, check_owners
from tests.simulation.documents_truth import Truth
from tests.simulation.hostile import check_refused_name, push_as_the_store

__all__ = ["SyncWorld"]

ORGANISATION = "acme"
MAIN = "plan"
COPY = "copy"
MALLORY = "mallory"
IDLE_SECONDS_MAX = 600.0
IDLE_SERVER_SECONDS_MAX = 3.0
TRANSIENT = (Unavailable, OutcomeUnknown, Conflict)


class Request(msgspec.Struct, frozen=True):
    """A message in flight. Any server may receive the message."""

    device: Device
    document: str
    owner: str
    message: Push | Pull


class SyncWorld:
    """A document, its successors of the same name, a fork, devices that synchronise, and maintenance."""

    columns: ClassVar[tuple[str, ...]] = (
        "pushes",
        "applied",
        "rejected",
        "seen",
        "gap",
        "unknown-client",
        "collected",
        "whole states",
        "patches",
        "nothing new",
        "rejections told",
        "stale answers",
        *Network.columns,
        "begun again",
        "reloads",
        "made anew",
        "moved to the fork",
        "refused",
        "names refused",
        "floor",
        "snapshot",
        "restarts",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        draw = scheduler.random
        self.scheduler = scheduler
        self.cluster = Cluster(scheduler)
        self.settings = LogSettings(
            segment_entries_target=draw.choice((2, 4, 8)),
            snapshot_entries_interval=draw.choice((1, 3, 6)),
            body_inline_bytes_max=256,
            append_seconds_max=draw.choice((1, 10)),
        )
        self.records: dict[str, NameRecord] = {}
        self.network = Network[Request](scheduler)
        self.devices = [Device(f"device-{position}", MAIN, draw) for position in range(draw.choice((2, 3, 4)))]
        self.scripts = Turns({device.name: draw.randrange(4, 9) for device in self.devices})
        self.turns = Turns({"keeper": 8, "collector": 1, "mallory": 6, "maker": draw.choice((0, 1, 2)), "forker": 1})
        self._know(Document(create_log(log_environment(self.cluster, self.settings), ORGANISATION, MAIN, "document")))
        for position in range(2):
            self.cluster.start(f"server-{position}", self.serve, frees=False)
        for device in self.devices:
            scheduler.spawn(device.name, partial(self.live, device))
        for name in self.turns:
            self.cluster.start(name, getattr(self, name))

    def live(self, device: Device) -> None:
        """Run a device: make changes, send messages, process answers, until every mutation is sent and confirmed."""
        clock, pause = self.cluster.clock, 0.5
        while self.scripts[device.name] or device.pending:
            if device.cookie and clock.random() < 0.5 and self.scripts.take(device.name):
                device.mutate(*self._intent())
            self._send(device)
            clock.sleep(pause * (0.5 + clock.random()))
            pause = 0.5 if self._receive(device) else min(2 * pause, IDLE_SECONDS_MAX)
            if clock.random() < 0.1 * self.scheduler.stormy:
                device.reload()
                self.scheduler.counts.bump("reloads")
        self.scripts.pop(device.name)

    def serve(self, process: Process) -> None:
        """Run a server: answer requests as the network delivers them. Keep opened documents for later requests."""
        documents: dict[str, Document] = {}
        pause = 0.1
        while self.scripts:
            request = self.network.receive(process.clock)
            if request is None:
                process.clock.sleep(pause)
                pause = min(2 * pause, IDLE_SERVER_SECONDS_MAX)
                continue
            self._reply(request, self._answer(process, documents, request))
            pause = 0.1
        for document in documents.values():
            self._count(document)

    def keeper(self, process: Process) -> None:
        """Take snapshots, archive, and forget all but the newest versions."""
        while self.turns.take("keeper"):
            process.clock.sleep(10 * process.clock.random())
            self._attempt(process, MAIN, choose(process.clock, (snapshot, archive, forget)))

    def collector(self, process: Process) -> None:
        """Collect the first device's present group."""
        while self.turns.take("collector"):
            process.clock.sleep(10 * process.clock.random())
            self._attempt(process, MAIN, partial(collect, self.devices[0]))

    def mallory(self, process: Process) -> None:
        """Attack: pull for the devices' groups, push as their clients or as a guest, and push under a reserved name."""
        while self.turns.take("mallory"):
            process.clock.sleep(5 * process.clock.random())
            device = choose(process.clock, self.devices)
            cookie = device.cookie if process.clock.random() < 0.5 else None
            messages: list[Push | Pull] = [Pull(device.group, cookie), push_as_the_store(process.clock, MALLORY)]
            if device.last:
                guest = Mutation(client=f"{MALLORY}/{process.clock.random()}", id=1, name="inc", args={"key": "count"})
                messages += [device.push(), msgspec.structs.replace(device.push(), mutations=[guest])]
            self.network.deliver(Request(device, device.document, MALLORY, choose(process.clock, messages)))

    def maker(self, process: Process) -> None:
        """Delete the document, and create another document under its name."""
        process.clock.sleep(15 * process.clock.random())
        while self.turns["maker"]:
            process.clock.sleep(10 * process.clock.random())
            self._attempt(process, MAIN, lambda document: delete_log(document.log))
            while not self._made(process):
                process.clock.sleep(1)
            self.turns.take("maker")
        over = False
        while not over:
            # A deletion may land late and delete the new document. So check again until the devices have ended.
            over = not self.scripts
            process.clock.sleep(IDLE_SECONDS_MAX)
            if not self._exists(process, MAIN):
                over = self._made(process) and over

    def forker(self, process: Process) -> None:
        """Fork the document, and move the last device with its state to the fork."""
        if self.turns.take("forker"):
            process.clock.sleep(10 * process.clock.random())
            self._attempt(process, MAIN, lambda document: document.fork(COPY))
        if self._exists(process, COPY):
            self.devices[-1].document = COPY
            self.scheduler.counts.bump("moved to the fork")

    def check(self) -> None:
        """Check the states and answers of the devices against the log of each document."""
        for device in self.devices:
            self._check_end(device)
        truths = self._truths()
        groups = {client: group for device in self.devices for client, group in device.groups.items()}
        for truth in truths.values():
            truth.check_order(lambda client: groups.get(client, client))
            check_owners(truth, groups)
        check_heirs(list(truths.values()))
        for device in self.devices:
            device.check(truths)

    def _intent(self) -> tuple[str, dict[str, Any]]:
        draw = self.scheduler.random
        key = draw.choice(("count", "items/1", "items/2", "zoo/1"))
        if key == "count":
            return "inc", {"key": key, "by": draw.choice((1, 2, "x"))}
        value = draw.choice((draw.randrange(100), "large" * 300))
        return draw.choice((("put", {"key": key, "value": value}), ("del", {"key": key})))

    def _send(self, device: Device) -> None:
        """Push the pending mutations, sometimes without the first mutation, or pull."""
        draw = self.scheduler.random
        if device.pending and draw.random() < 0.5:
            self.scheduler.counts.bump("pushes")
            message: Push | Pull = device.push(draw.random() < 0.2)
        else:
            message = device.pull()
        self.network.send(Request(device, device.document, device.owner, message))

    def _answer(self, process: Process, documents: dict[str, Document], request: Request) -> Any:
        """Return the server's answer, or None after an error that the client should retry."""
        try:
            document = self._opened(process, documents, request.document)
            if isinstance(request.message, Push):
                return push(document, request.message, request.owner)
            return check_news(request.message, pull(document, request.message, request.owner))
        except (Forbidden, Collected, ReservedName) as exc:
            return exc
        except NotFound:
            documents.pop(request.document, None)
        except TRANSIENT:
            self.scheduler.counts.bump("tries failed")
        except Corrupt as exc:
            raise Violation("kept", str(exc)) from exc
        return None

    def _reply(self, request: Request, answer: Any) -> None:
        if request.owner == MALLORY:
            self._check_foreign(request, answer)
        elif answer is not None:
            inbox = request.device.inbox
            self.network.answer(lambda: inbox.append((request.message, answer)))

    def _check_foreign(self, request: Request, answer: Any) -> None:
        """Check that the attacker got no news of the group, committed nothing, and used no reserved name."""
        if request.message.group == MALLORY:
            return check_refused_name(self.scheduler, answer)
        if isinstance(answer, Pulled) and (answer.last or answer.rejected):
            raise Violation(
                "owner",
                "an attacker got the last ids or rejections of a group",
                group=request.message.group,
                answer=answer,
            )
        if isinstance(answer, Pushed) and {outcome.status for outcome in answer.outcomes} & {"applied", "rejected"}:
            raise Violation("owner", "an attacker's push was committed", group=request.message.group, answer=answer)
        self.scheduler.counts.bump("refused", isinstance(answer, Forbidden))
        return None

    def _receive(self, device: Device) -> bool:
        """Process the answers in random order. Return whether there was any answer."""
        inbox, device.inbox = device.inbox, []
        self.scheduler.random.shuffle(inbox)
        for message, answer in inbox:
            if message.group != device.group:
                self.scheduler.counts.bump("stale answers")
            elif isinstance(answer, Collected):
                self._begin_again(device)
            elif isinstance(answer, Forbidden):
                raise Violation("owner", "a device was forbidden access to its own group", device=device.name)
            elif isinstance(message, Push):
                self._learn(device, message, answer)
            else:
                self._take(device, message, answer)
        return bool(inbox)

    def _learn(self, device: Device, message: Push, answer: Pushed) -> None:
        life = device.life
        device.learn(message, answer)
        for outcome in answer.outcomes:
            self.scheduler.counts.bump(outcome.status)
        self.scheduler.counts.bump("begun again", device.life != life)

    def _take(self, device: Device, message: Pull, answer: Pulled) -> None:
        if not device.take(message, answer):
            self.scheduler.counts.bump("stale answers")
            return
        is_full = bool(answer.patch) and isinstance(answer.patch[0], Clear)
        kind = "nothing new" if answer.cookie == message.cookie else "whole states" if is_full else "patches"
        self.scheduler.counts.bump(kind)
        self.scheduler.counts.bump("rejections told", len(answer.rejected))

    def _begin_again(self, device: Device) -> None:
        device.begin_again()
        self.scheduler.counts.bump("begun again")

    def _attempt(self, process: Process, name: str, action: Callable[[Document], Any]) -> bool:
        """Try ``action`` on the document of that name. Return False after a fault or if no such document exists."""
        try:
            document = Document(open_log(log_environment(process, self.settings), ORGANISATION, name))
            self._know(document)
            action(document)
            self._count(document)
        except (NotFound, *TRANSIENT):
            self.scheduler.counts.bump("tries failed")
            return False
        return True

    def _made(self, process: Process) -> bool:
        """Create the document if it does not exist. Return whether the process could then open it."""
        try:
            create_log(log_environment(process, self.settings), ORGANISATION, MAIN, "document")
            self.scheduler.counts.bump("made anew")
        except (NotFound, *TRANSIENT):
            self.scheduler.counts.bump("tries failed")
        return self._attempt(process, MAIN, lambda document: None)

    def _exists(self, process: Process, name: str) -> bool:
        """Return whether a document of that name exists. Retry after faults."""
        while True:
            try:
                open_log(log_environment(process, self.settings), ORGANISATION, name)
            except NotFound:
                return False
            except TRANSIENT:
                process.clock.sleep(1)
            else:
                return True

    def _opened(self, process: Process, documents: dict[str, Document], name: str) -> Document:
        if name not in documents:
            documents[name] = Document(open_log(log_environment(process, self.settings), ORGANISATION, name))
            self._know(documents[name])
        return documents[name]

    def _know(self, document: Document) -> None:
        """Record an incarnation, so that the final check includes it even after its deletion."""
        self.records.setdefault(document.origin, document.log.record)

    def _count(self, document: Document) -> None:
        for name, count in document.log.environment.counters.items():
            self.scheduler.counts.bump(name, count)

    def _truths(self) -> dict[str, Truth]:
        truths: dict[str, Truth] = {}
        prefixes: dict[str, Truth] = {}
        for origin, record in sorted(self.records.items(), key=lambda pair: len(pair[1].lineage)):
            parent = record.lineage[-1] if record.lineage else None
            above = prefixes[parent.prefix] if parent else None
            truth = Truth(self.cluster, record.prefix, BUILT_IN_MUTATORS, above, parent.version if parent else 0)
            truths[origin] = prefixes[record.prefix] = truth
        return truths

    def _check_end(self, device: Device) -> None:
        """Check that the device has the document's content after a pull, or after two pulls for a collected group."""
        document = Document(open_log(log_environment(self.cluster, self.settings), ORGANISATION, device.document))
        self._know(document)
        try:
            device.take(device.pull(), pull(document, device.pull(), device.owner))
        except Collected:
            device.begin_again()
            device.take(device.pull(), pull(document, device.pull(), device.owner))
        except Forbidden as exc:
            raise Violation("owner", "a device was forbidden access to its own group", device=device.name) from exc
        if device.content != {key: encode(value) for key, value in document.scan()}:
            raise Violation("converged", "a device's content differs from the document at the end", device=device.name)


def archive(document: Document) -> None:
    """Archive sealed segments, and free segments that were marked long ago."""
    document.archive()
    document.free_segments()


def collect(device: Device, document: Document) -> None:
    """Collect the device's present group."""
    document.collect_clients(device.clients, [device.group])


def snapshot(document: Document) -> None:
    """Take a snapshot of the head."""
    document.snapshot()


def forget(document: Document) -> None:
    """Forget all but the newest versions."""
    if document.version > 2:
        document.forget_below(document.version - 1)


def check_news(request: Pull, pulled: Pulled) -> Pulled:
    """Check that an answer with changes has a new cookie. A client ignores an answer with its present cookie."""
    if pulled.cookie == request.cookie and (pulled.patch or pulled.last or pulled.rejected):
        raise Violation("cookie", "an answer with changes has the cookie of its request", answer=pulled)
    return pulled
