"""The world of documents: clients whose batches arrive late, twice or out of order, through several processes.

Servers push on behalf of clients, and may crash. Meanwhile other processes take snapshots, archive, forget, fork and
merge, collect a client, follow the log, and read the document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from stratalog.documents import Document, Projection, merge, verify
from stratalog.documents.commits import read_commit
from stratalog.errors import (
    Conflict,
    Corrupt,
    MergeConflict,
    NotFound,
    OutcomeUnknown,
    Unavailable,
    VersionForgotten,
)
from stratalog.log import Entry, LogSettings, create_log, open_log
from stratalog.ports.index import Item, Put, Write
from stratalog.protocol import Mutation, Outcome
from stratalog.testing.checkers import Violation
from stratalog.testing.scheduler import Scheduler
from tests.simulation.actors import Turns, choose, log_environment
from tests.simulation.clusters import Cluster, Process
from tests.simulation.documents_jobs import Fork, Job, group_of
from tests.simulation.documents_truth import Reported, Truth, check_answer, check_merged, check_projected, check_reports
from tests.simulation.faulty import RULES, check_letters, faulty_rules
from tests.simulation.hostile import reuse_number

__all__ = ["DocumentWorld"]

ORGANISATION = "acme"
MAIN = "plan"
PROJECTED = "projected"
Turn = Callable[[Process, Document], None]
BACKGROUND_SNAPSHOTS = 3
BATCH_MAX = 3
LARGE_CHARACTERS = 1500
PAUSE_SECONDS_MAX = 900.0
FURNITURE = [
    Mutation(client="setup", name="put", args={"key": f"{collection}/{position:03}", "value": "small" * 15})
    for collection in ("items", "zoo")
    for position in range(40)
]
"""Enough mutations that the content has several chunks."""

SAMPLED_VERSIONS = 4
SAMPLED_ID = 5
HISTORIES = ("count", "items/1", "copies/0")


class DocumentWorld:
    """One document, its clients, its forks, and the processes that maintain and read it."""

    columns: ClassVar[tuple[str, ...]] = (
        "applied",
        "rejected",
        "seen",
        "gap",
        "collected",
        "conflict",
        "shortages",
        "unexpected exception in a mutator",
        "roll-over",
        "snapshot",
        "archive",
        "freed segment",
        "floor",
        "fork",
        "merges",
        "merged mutations",
        "merges refused",
        "numbers reused",
        "projected",
        "reads",
        "snapshots beside",
        "restarts",
        "lost answer",
        "freeze before",
        "crash after",
        "clocks hours off",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        draw = scheduler.random
        self.scheduler = scheduler
        self.cluster = Cluster(scheduler)
        self.rules = faulty_rules(scheduler)
        self.settings = LogSettings(
            segment_entries_target=draw.choice((3, 5, 8)),
            snapshot_entries_interval=draw.choice((2, 5)),
            body_inline_bytes_max=256,
            append_seconds_max=draw.choice((1, 10, 100)),
        )
        self.jobs = [self._job(f"client-{position}", draw.randrange(8, 14)) for position in range(3)]
        self.forks = [Fork(f"fork-{position}", self._mutations(f"forker-{position}", 4)) for position in range(2)]
        self.reported: list[Reported] = []
        self.seen: dict[int, dict[str, Any]] = {}
        self.collecting = False
        self.left = Turns()
        made = create_log(log_environment(self.cluster, self.settings), ORGANISATION, MAIN, "document")
        Document(made, RULES).apply(FURNITURE)
        for position in range(draw.choice((2, 3))):
            self.cluster.start(f"server-{position}", self.serve, frees=False)
        for name, turn, turns in self._roles():
            self.left[name] = turns
            self.cluster.start(name, partial(self._repeat, turn))
        for fork in self.forks[: draw.randrange(0, 3)]:
            self.cluster.start(fork.name, partial(self.branch, fork), frees=False)

    def serve(self, process: Process) -> None:
        """Push batches of clients, some again or too early. Two servers seldom push for one client at the same time."""
        document = self.open(process)
        process.spawn(f"{process.name}-background", partial(self._take_snapshots, process, document))
        for job in self.jobs:
            job.busy = "" if job.busy == process.name else job.busy
        for _ in range(60):
            open_jobs = [job for job in self.jobs if not job.over]
            if not open_jobs:
                break
            job = choose(process.clock, open_jobs)
            if not job.busy or process.clock.random() < 0.2:
                job.busy = process.name
                self._try(partial(self._push, process, document, job))
                job.busy = ""
            process.clock.sleep(process.clock.random())
        self._count(document)

    def branch(self, fork: Fork, process: Process) -> None:
        """Fork the document, change the copy, and merge the copy. Retry until the merge succeeds or is refused."""
        document = self.open(process)
        process.clock.sleep(5 * process.clock.random())
        while not (fork.merged or fork.refused):
            if not self._try(partial(self._branch, process, document, fork)):
                process.clock.sleep(process.clock.random())
        self._count(document)

    def snapshot(self, process: Process, document: Document) -> None:
        """Take a snapshot of the head or of an older version."""
        head = document.version
        document.snapshot(int(process.clock.random() * (head + 1)) if process.clock.random() < 0.7 else head)

    def archive(self, process: Process, document: Document) -> None:
        """Archive sealed segments, and free segments that were marked long ago."""
        document.archive()
        document.free_segments()

    def forget(self, process: Process, document: Document) -> None:
        """Forget history that the follower has read."""
        followed = self.projection(document, process).checkpoint()
        version = min(followed, document.version - 1 - int(process.clock.random() * 6))
        if version > 0:
            document.forget_below(version)

    def collect(self, process: Process, document: Document) -> None:
        """Mostly collect the world's last client and its group, which leaves a collected marker."""
        job = self.jobs[-1]
        if job.done and process.clock.random() < 0.7:
            self.collecting = True
            document.collect_clients([job.client], [group_of(job.client)])

    def follow(self, process: Process, document: Document) -> None:
        """Project new entries. Two processes run the same projection, as after a failed hand-over."""
        self.projection(document, process).catch_up()

    def read(self, process: Process, document: Document) -> None:
        """Read the whole content of some version. All readers of a version must get the same content."""
        head = document.version
        version = head - int(process.clock.random() * min(head, 6))
        values = document.at(version).to_dict()
        if self.seen.setdefault(version, values) != values:
            raise Violation("state", "two readers of one version got different content", version=version)
        self.scheduler.counts.bump("reads")

    def reuse(self, process: Process, document: Document) -> None:
        """Push another mutation under the last number of a client that has finished."""
        ended = [job for job in self.jobs if job.done == len(job.mutations)]
        if ended:
            job = choose(process.clock, ended)
            reuse_number(self.scheduler, document, job.mutations[-1], group_of(job.client), "all")

    def check(self) -> None:
        """Compare the answers, and the history that is still readable, with the commits."""
        document = self._quiet(self.open_honest(MAIN))
        truth = Truth(self.cluster, document.log.record.prefix, RULES.mutators)
        truth.check_order(group_of)
        check_reports(self.reported, truth)
        check_letters(self.cluster, document.log.record.incarnation, truth)
        for version, values in self.seen.items():
            truth.check_state(version, values)
        self._check_preserved(document, truth)
        check_projected(self.cluster.index.query(PROJECTED), truth)
        for fork in self.forks:
            if fork.merged or fork.refused:
                self._check_fork(document, fork, truth)

    def open(self, process: Process) -> Document:
        """Open the document as a new process does. Retry while the store is unavailable."""
        environment = log_environment(process, self.settings)
        while True:
            try:
                return Document(open_log(environment, ORGANISATION, MAIN), self.rules)
            except Unavailable:
                process.clock.sleep(1)

    def open_honest(self, name: str) -> Document:
        """Open the document or a fork through ports without faults."""
        return Document(open_log(log_environment(self.cluster, self.settings), ORGANISATION, name), RULES)

    def projection(self, document: Document, process: Process) -> Projection:
        """Return a projection that writes a row for each entry under a random key.

        If it projects an entry twice, the entry has two rows, and the checks see them.
        """

        def project(entry: Entry) -> Sequence[Write]:
            self.scheduler.counts.bump("projected")
            once = f"{entry.version:04d} {process.clock.random_bytes(6).hex()}"
            return [Put(Item(PROJECTED, once, {"v": entry.version, "n": len(read_commit(entry).mutations)}))]

        return Projection(document.log, "rows", project)

    def _roles(self) -> Sequence[tuple[str, Turn, int]]:
        """Return the roles other than servers and forks: name, action of each turn, and number of turns."""
        return (
            ("snapshotter", self.snapshot, 4),
            ("archivist", self.archive, 5),
            ("forgetter", self.forget, 3),
            ("collector", self.collect, 1),
            ("follower", self.follow, 8),
            ("other-follower", self.follow, 4),
            ("reader", self.read, 6),
            ("hostile", self.reuse, 6),
        )

    def _take_snapshots(self, process: Process, document: Document) -> None:
        """Take snapshots through the handle that commits, in another thread of the same process."""
        for _ in range(BACKGROUND_SNAPSHOTS):
            process.clock.sleep(5 * process.clock.random())
            if self._try(document.snapshot):
                self.scheduler.counts.bump("snapshots beside")

    def _repeat(self, turn: Turn, process: Process) -> None:
        """Run a role's turns, with short and long pauses."""
        document = self.open(process)
        while self.left.take(process.name):
            long = process.clock.random() < 0.2
            process.clock.sleep((PAUSE_SECONDS_MAX if long else 5.0) * process.clock.random())
            self._try(partial(turn, process, document))
        self._count(document)

    def _try(self, action: Callable[[], Any]) -> bool:
        """Run ``action`` and return whether it succeeded. A fault ends this try, but not the actor.

        Damage and missing history are violations.
        """
        try:
            action()
        except VersionForgotten:
            self.scheduler.counts.bump("tries forgotten")
        except NotFound as exc:
            raise Violation("kept", str(exc)) from exc
        except (Unavailable, OutcomeUnknown, Conflict, MemoryError):
            self.scheduler.counts.bump("tries failed")
        except Corrupt as exc:
            raise damage(exc) from exc
        else:
            return True
        return False

    def _push(self, process: Process, document: Document, job: Job) -> None:
        """Push one batch of a client: the next mutations, answered mutations, or mutations that are too early."""
        chance = process.clock.random()
        first = int(chance * 5 * job.done) if chance < 0.2 else job.done + 2 * (chance > 0.95)
        batch = job.mutations[first : first + 1 + int(process.clock.random() * BATCH_MAX)]
        if batch:
            done = job.done
            for outcome in document.apply(batch, group=group_of(job.client), owner="all"):
                self._learn(job, outcome, done)

    def _learn(self, job: Job, outcome: Outcome, done: int) -> None:
        self.scheduler.counts.bump(outcome.status)
        check_answer(outcome, done, collecting=self.collecting and job is self.jobs[-1])
        if outcome.status in ("applied", "rejected", "seen"):
            self.reported.append(Reported(job.client, outcome.id, outcome.status, outcome.version, outcome.reason))
            job.done = max(job.done, outcome.id)
        job.over = job.done == len(job.mutations) or outcome.status == "collected"

    def _branch(self, process: Process, document: Document, fork: Fork) -> None:
        copy = self._forked(process, document, fork.name)
        while fork.done < len(fork.mutations):
            copy.apply(fork.mutations[fork.done : fork.done + 2])
            fork.done += 2
        try:
            report = merge(copy, document)
        except MergeConflict:
            fork.refused = True
            self.scheduler.counts.bump("merges refused")
            return
        if len(report) != len(fork.mutations):
            raise Violation("merged", "a merge's report is incomplete", fork=fork.name, reported=len(report))
        fork.merged = True
        self.scheduler.counts.bump("merges")
        self.scheduler.counts.bump("merged mutations", sum(mutation.merged_in is not None for mutation in report))

    def _forked(self, process: Process, document: Document, name: str) -> Document:
        try:
            return Document(open_log(document.log.environment, ORGANISATION, name), self.rules)
        except NotFound:
            version = document.version
            at = version - int(process.clock.random() * min(version, 5))
            copy = document.fork(name, at=at)
            self.scheduler.counts.bump("fork")
            return copy

    def _count(self, document: Document) -> None:
        for name, count in document.log.environment.counters.items():
            self.scheduler.counts.bump(name, count)

    def _quiet(self, document: Document) -> Document:
        """Without faults, complete the projection, and repeat the merge of each merged fork."""
        honest = Process(self.cluster, "checker")
        self._try(partial(self.projection(document, honest).catch_up))
        for fork in self.forks:
            if fork.merged:
                self._try(partial(merge, self.open_honest(fork.name), document))
        self._try(partial(self.projection(document, honest).catch_up))
        return document

    def _check_preserved(self, document: Document, truth: Truth) -> None:
        """Check that retained versions are readable and verify, and that samples of their content match ``truth``."""
        fresh = self.open_honest(document.name)
        oldest, head = max(fresh.log.floor(), fresh.log.first), fresh.version
        versions = {oldest, head} | {self.scheduler.random.randint(oldest, head) for _ in range(SAMPLED_VERSIONS)}
        try:
            for version in sorted(versions):
                truth.check_state(version, fresh.at(version).to_dict())
            for _ in fresh.versions(oldest):
                pass
            verify(fresh)
            for key in HISTORIES:
                truth.check_history(fresh, key, oldest)
            for client, id in [origin for origin in truth.committed if origin[1] == SAMPLED_ID]:
                truth.check_applied(fresh, client, id, oldest)
        except NotFound as exc:
            raise Violation("kept", str(exc)) from exc
        except Corrupt as exc:
            raise damage(exc) from exc

    def _check_fork(self, document: Document, fork: Fork, truth: Truth) -> None:
        copy = self.open_honest(fork.name)
        own = Truth(self.cluster, copy.log.record.prefix, RULES.mutators, truth, copy.log.first)
        own.check_order(group_of)
        check_merged(own, truth, refused=fork.refused)
        check_letters(self.cluster, copy.log.record.incarnation, own)
        self._check_preserved(copy, own)

    def _job(self, client: str, count: int) -> Job:
        return Job(client, self._mutations(client, count))

    def _mutations(self, client: str, count: int) -> list[Mutation]:
        return [self._mutation(client, number) for number in range(1, count + 1)]

    def _mutation(self, client: str, number: int) -> Mutation:
        random = self.scheduler.random
        item = f"items/{random.randrange(4)}"
        large = {"id": number, "name": client, "text": random.choice("abc") * LARGE_CHARACTERS}
        name, args = random.choice(
            (
                ("inc", {"key": "count", "by": 1}),
                ("inc", {"key": f"counts/{random.randrange(2)}", "by": number}),
                ("append", {"key": f"orders/{client}", "item": number}),
                ("put", {"key": item, "value": large}),
                ("put", {"key": item, "value": {"id": number}}),
                ("copy", {"of": item, "to": f"copies/{random.randrange(2)}"}),
                ("del", {"key": item}),
                ("inc", {"key": item}),
                ("broken", {"number": number}),
                ("short", {"by": 1}),
                ("poison", {"text": "x" * LARGE_CHARACTERS}),
            )
        )
        return Mutation(client=client, id=number, name=name, args=args)


def damage(exc: Corrupt) -> Violation:
    """Return the violation for damage: "dangling" if data is missing, "rebuilt" if data differs from the log."""
    return Violation("dangling" if "missing" in exc.message else "rebuilt", str(exc))
