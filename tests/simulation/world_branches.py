"""The world of branches: an operator restores backups and splits off copies, and devices continue at any server.

A cluster is an index and a queue with the processes that use them. All clusters share the blobs. A restore ends all
processes of a cluster, and starts processes of a new cluster on an earlier state of the index. A split keeps the first
cluster, and starts another cluster on a copy of an earlier state of the index. Requests and answers in flight survive a
restore and a split. Queued messages may survive a restore. The checks compare every state of a device with the history
of the cluster that answered.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import ClassVar

import msgspec

from stratalog.codec import decode, encode
from stratalog.documents import Document, Rules
from stratalog.documents.commits import RESUME
from stratalog.errors import Conflict, Forbidden, NotFound, OutcomeUnknown, QueueFull, Unavailable
from stratalog.log import LogSettings, create_log, open_log
from stratalog.protocol import BUILT_IN_MUTATORS
from stratalog.protocol.sync import Clear, Pull, Pulled, Push, Pushed
from stratalog.store import Store
from stratalog.sync.pull import pull
from stratalog.sync.push import push
from stratalog.testing.checkers import Violation
from stratalog.testing.network import Network
from stratalog.testing.scheduler import Scheduler
from stratalog.worker.queued_pushes import QueuedPushes
from stratalog.worker.worker import Worker, WorkerSettings
from tests.simulation.actors import Turns, log_environment
from tests.simulation.clusters import Cluster, Process
from tests.simulation.travellers import Traveller
from tests.simulation.world_queue import QueueTruth, send_heartbeats

__all__ = ["BranchesWorld"]

ORGANISATION = "acme"
MAIN = "plan"
SITES_MAX = 3
SERVERS = 2
WORKERS = 2
ROUNDS_MAX = 4
IDLE_SECONDS_MAX = 600.0
TRANSIENT = (Unavailable, OutcomeUnknown, Conflict, QueueFull)
WORKING = WorkerSettings(idle_seconds_max=IDLE_SECONDS_MAX)


class Request(msgspec.Struct, frozen=True):
    """A message in flight. Any server of the site may receive the message."""

    device: Traveller
    message: Push | Pull


class Site:
    """An address, with the cluster whose servers now answer at this address, and the network to this cluster.

    With ``queued``, the servers queue pushes.
    """

    def __init__(self, cluster: Cluster, network: Network[Request], *, queued: bool) -> None:
        self.cluster = cluster
        self.network = network
        self.queued = queued


class BranchesWorld:
    """A document, its devices, and an operator who restores backups and splits copies."""

    columns: ClassVar[tuple[str, ...]] = (
        "restores",
        "splits",
        "moves",
        "queued",
        "applied",
        "seen",
        "gap",
        "unknown-client",
        "resumptions",
        "mutations lost",
        "whole states",
        "patches",
        "nothing new",
        "stale answers",
        "floor",
        "snapshot",
        "restarts",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        draw = scheduler.random
        self.scheduler = scheduler
        self.settings = LogSettings(
            segment_entries_target=draw.choice((2, 8)),
            snapshot_entries_interval=draw.choice((1, 3, 6)),
            body_inline_bytes_max=256,
            append_seconds_max=draw.choice((1, 10)),
        )
        cluster = Cluster(scheduler)
        create_log(log_environment(cluster, self.settings), ORGANISATION, MAIN, "document")
        self.clusters = [cluster]
        """Every cluster that ever existed."""

        self.sites = [Site(cluster, Network(scheduler), queued=draw.random() < 0.5)]
        self.devices = [Traveller(f"device-{n}", MAIN, draw, self.sites[0]) for n in range(draw.choice((1, 2, 3)))]
        self.scripts = Turns({device.name: draw.randrange(5, 12) for device in self.devices})
        self.events = draw.choice((1, 1, 2, 3))
        self._open(self.sites[0])
        for device in self.devices:
            scheduler.spawn(device.name, partial(self.live, device))
        scheduler.spawn("operator", self.operate)

    def live(self, device: Traveller) -> None:
        """Run a device: make changes, send messages, and process answers, until every change is sent and confirmed."""
        clock, draw, pause = self.clusters[0].clock, self.scheduler.random, 0.5
        while self.scripts[device.name] or device.pending:
            if clock.random() < 0.5 and self.scripts.take(device.name):
                device.make()
            if len(self.sites) > 1 and self.scheduler.stormy and draw.random() < 0.1:
                device.site = draw.choice(self.sites)
                self.scheduler.counts.bump("moves")
            message = device.push() if device.pending and draw.random() < 0.5 else device.pull()
            device.site.network.send(Request(device, message))
            clock.sleep(pause * (0.5 + clock.random()))
            pause = 0.5 if self._receive(device) else min(2 * pause, IDLE_SECONDS_MAX)
        self.scripts.pop(device.name)

    def operate(self) -> None:
        """Restore an older backup, or split off a copy, a few times."""
        clock, draw = self.clusters[0].clock, self.scheduler.random
        for _ in range(self.events):
            clock.sleep(30 * clock.random())
            site = draw.choice(self.sites)
            commits = len(site.cluster.index._journal)
            branch = site.cluster.branch(
                max(1, commits - int(commits * draw.random() ** 2)), shares_queue=draw.random() < 0.5
            )
            self.clusters.append(branch)
            if len(self.sites) < SITES_MAX and draw.random() < 0.4:
                branch.queue = type(branch.queue)(branch.clock)
                self.sites.append(Site(branch, Network(self.scheduler), queued=site.queued))
                self._open(self.sites[-1])
                self.scheduler.counts.bump("splits")
            else:
                site.cluster.stop()
                site.cluster = branch
                self._open(site)
                self.scheduler.counts.bump("restores")

    def serve(self, site: Site, process: Process) -> None:
        """Run a server: answer requests as the network delivers them. The store keeps the document cached."""
        store = Store(log_environment(process, self.settings), process.queue)
        pushing = QueuedPushes(store).push if site.queued else push
        pause = 0.1
        while self.scripts:
            request = site.network.receive(process.clock)
            if request is None:
                process.clock.sleep(pause)
                pause = min(2 * pause, IDLE_SECONDS_MAX)
                continue
            self._answer(process, store, pushing, request)
            pause = 0.1

    def work(self, process: Process) -> None:
        """Run a worker of the queue, and the thread that sends its heartbeats."""
        store = Store(log_environment(process, self.settings), process.queue, Rules(BUILT_IN_MUTATORS))
        worker = Worker(store, WORKING)
        process.spawn(f"{process.name}/beat", partial(send_heartbeats, process, worker), background=True)
        idle = 0.1
        while self.scripts:
            if worker.step():
                idle = 0.1
            else:
                process.clock.sleep(idle)
                idle = min(2 * idle, IDLE_SECONDS_MAX)

    def maintain(self, process: Process) -> None:
        """Take a snapshot, and sometimes forget all but the newest versions."""
        for _ in range(2):
            process.clock.sleep(30 * process.clock.random())
            with suppress(NotFound, *TRANSIENT):
                document = Document(open_log(log_environment(process, self.settings), ORGANISATION, MAIN))
                document.snapshot()
                self.scheduler.counts.bump("snapshot")
                if process.clock.random() < 0.3 and document.version > 3:
                    document.forget_below(document.version - 2)
                    self.scheduler.counts.bump("floor")

    def check(self) -> None:
        """Compare the devices' states with the clusters' histories. Check that no change was lost silently."""
        for device in self.devices:
            self._end(device)
        histories = {id(cluster): self._history(cluster) for cluster in self.clusters}
        for history in histories.values():
            history.check_order(lambda client: client)
            resumptions = (entry for entry in history.entries.values() if entry.events[0].type == RESUME)
            self.scheduler.counts.bump("resumptions", len(list(resumptions)))
        for device in self.devices:
            device.check_seen(histories)
            check_nothing_vanished(device, histories[id(device.site.cluster)])
            self.scheduler.counts.bump("mutations lost", len(device.lost))

    def _open(self, site: Site) -> None:
        cluster, number = site.cluster, len(self.clusters)
        for server in range(SERVERS):
            cluster.start(f"server-{number}-{server}", partial(self.serve, site))
        cluster.start(f"keeper-{number}", self.maintain)
        for worker in range(WORKERS if site.queued else 0):
            cluster.start(f"worker-{number}-{worker}", self.work)

    def _answer(self, process: Process, store: Store, pushing: Callable[..., Pushed], request: Request) -> None:
        """Send the server's answer, with the server's cluster, to the device. After a transient error send nothing."""
        device, message, cluster = request.device, request.message, process.cluster
        try:
            document = store.document(ORGANISATION, MAIN)
            if isinstance(message, Push):
                answer: Pushed | Pulled = pushing(document, message, device.owner)
            else:
                answer = pull(document, message, device.owner)
        except TRANSIENT:
            return self.scheduler.counts.bump("tries failed")
        except Forbidden as exc:
            raise Violation("owner", "a device was forbidden access to its own group", device=device.name) from exc
        device.site.network.answer(lambda: device.arrived.append((cluster, message, answer)))
        return None

    def _receive(self, device: Traveller) -> bool:
        """Process the answers in random order. Return whether any answer had an outcome or moved the cookie."""
        before, final = device.cookie, False
        arrived, device.arrived = device.arrived, []
        self.scheduler.random.shuffle(arrived)
        for cluster, message, answer in arrived:
            device.cluster = cluster
            if isinstance(message, Push):
                device.learn(message, answer)
                for outcome in answer.outcomes:
                    self.scheduler.counts.bump(outcome.status)
                final = final or bool(answer.outcomes)
                self.scheduler.counts.bump("queued", answer.queued)
            elif device.take(message, answer):
                is_full = any(isinstance(operation, Clear) for operation in answer.patch)
                kind = "nothing new" if answer.cookie == message.cookie else "whole states" if is_full else "patches"
                self.scheduler.counts.bump(kind)
            else:
                self.scheduler.counts.bump("stale answers")
        return final or device.cookie != before

    def _end(self, device: Traveller) -> None:
        """Synchronise the device with its site, without faults. Then compare the device's content with the document."""
        cluster = device.cluster = device.site.cluster
        document = Document(open_log(log_environment(cluster, self.settings), ORGANISATION, MAIN))
        for _ in range(ROUNDS_MAX):
            device.take(device.pull(), pull(document, device.pull(), device.owner))
            if not device.pending:
                break
            device.learn(device.push(), push(document, device.push(), device.owner))
        if device.pending:
            raise Violation("progress", "a device's pending mutations are never confirmed", device=device.name)
        if device.content != {key: encode(value) for key, value in document.scan()}:
            raise Violation("converged", "a device's content differs from the document at the end", device=device.name)

    def _history(self, cluster: Cluster) -> History:
        return History(cluster, open_log(log_environment(cluster, self.settings), ORGANISATION, MAIN).record.prefix)


class History(QueueTruth):
    """A `QueueTruth` with the version of each change by a device. Raises Violation if a change was committed twice."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        super().__init__(cluster, prefix, BUILT_IN_MUTATORS)
        self.changes: dict[str, int] = {}
        for version, recorded in self.committed.values():
            change = decode(recorded.args)["value"]
            if change in self.changes:
                raise Violation("once", "a change was committed twice", change=change, version=version)
            self.changes[change] = version


def check_nothing_vanished(device: Traveller, history: History) -> None:
    """Check that the history of the device's present cluster has each change that no answer named as lost."""
    missing = sorted(device.made - history.changes.keys() - device.lost.keys())
    if missing:
        raise Violation("vanished", "a change was lost without a report", device=device.name, changes=missing)
