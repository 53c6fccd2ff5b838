"""The world of the log: appenders, readers, and processes that archive, free, forget, fork, delete and sweep.

Each actor is a separate process with its own handles and its own faulty ports. The index's journal records the commits
(`log_truth`). The actors record the answers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from typing import ClassVar

from stratalog.errors import (
    ContentionError,
    Corrupt,
    NotFound,
    OutcomeUnknown,
    StratalogError,
    Unavailable,
    VersionConflict,
    VersionForgotten,
)
from stratalog.log import Entry, Environment, Event, Log, LogSettings, create_log, delete_log, fork_log, open_log
from stratalog.log.directory import LOGS, NameHolder, list_directory, organisations_of
from stratalog.log.names import Parent, read_name
from stratalog.log.prepared_snapshot import PreparedSnapshot
from stratalog.log.retention import archive_segments, free_segments, raise_floor
from stratalog.log.sweep import sweep_deleted
from stratalog.testing.checkers import Answered, Violation, check_gapless
from stratalog.testing.history import APPEND_COLUMNS, History
from stratalog.testing.scheduler import Scheduler
from tests.simulation.actors import Role, Turns, choose, dawdle, log_environment
from tests.simulation.clusters import Cluster, Process
from tests.simulation.hostile import reuse_append
from tests.simulation.log_outcomes import Change, check_changes
from tests.simulation.log_truth import Answer, Truth, check_answers

__all__ = ["LogWorld", "check_content", "content"]

ORGANISATION = "acme"
OTHER = "globex"
MAIN = "plan"
APPENDS = 60
FOUNDER_TURNS = 16
PAUSE_SECONDS_MAX = 700


class LogWorld:
    """One log and its forks, with small segments, and all concurrent operations on them."""

    columns: ClassVar[tuple[str, ...]] = (
        *APPEND_COLUMNS,
        "blobs.put",
        "blobs.get",
        "version-conflict",
        "not found",
        "forgotten",
        "reads",
        "strays",
        "read first",
        "roll-over",
        "archive",
        "freed segment",
        "snapshot",
        "creation",
        "namesake",
        "fork",
        "floor",
        "deletion",
        "swept log",
        "keys reused",
        "honest retries",
        "clocks hours off",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        draw = scheduler.random
        self.scheduler = scheduler
        self.cluster = self._cluster(scheduler)
        self.settings = LogSettings(
            segment_entries_target=draw.choice((1, 2, 4, 8)),
            body_inline_bytes_max=64,
            append_seconds_max=draw.choice((0.2, 0.2, 20)),
        )
        self.histories: dict[str, History] = defaultdict(partial(History, scheduler))
        self.answers: list[Answer] = []
        self.seen: dict[tuple[str, int], str] = {}
        self.lineages: dict[str, tuple[Parent, ...]] = {}
        self.counters: list[Counter[str]] = []
        self.numbers: Counter[str] = Counter()
        self.left = Turns()
        self.changes: list[Change] = []
        self._create(log_environment(self.cluster, self.settings), ORGANISATION, MAIN, draw.choice(("log", "model")))
        for role in self._roles():
            self.left[role.name] = role.turns
            self.cluster.start(role.name, partial(self._run, role), frees=role.frees, marks=role.marks)

    def check(self) -> None:
        """Compare the answers, and the history that is still readable, with the commits."""
        truth = Truth(writes for _, writes in self.cluster.index._journal)
        self._count(truth)
        for prefix, log in truth.logs.items():
            self.histories[prefix].check(log.entries, log.first - 1)
        check_answers(self.answers, truth)
        check_changes(self.changes, truth)
        for (prefix, version), write_id in self.seen.items():
            if truth.write_ids(prefix, self.lineages.get(prefix, ())).get(version) != write_id:
                raise Violation("read", "an uncommitted version was read", log=prefix, version=version, read=write_id)
        honest = log_environment(self.cluster, self.settings)
        for organisation in (ORGANISATION, OTHER):
            for listing in list_directory(self.cluster.index, organisation, LOGS):
                self._check_log(open_log(honest, organisation, listing.id), truth)
        self._check_names(truth)

    def append(self, process: Process, log: Log) -> None:
        """Append one entry. The head in the handle may be outdated."""
        self._append(process, log)
        if process.clock.random() < 0.1:
            self._head(log)

    def read(self, process: Process, log: Log) -> None:
        """Read a part of the log or a fork, or all of it, with pauses."""
        self._read(process, self._any_log(process, log))

    def reuse(self, process: Process, log: Log) -> None:
        """Reuse write ids in honest retries or for other events."""
        reuse_append(self.scheduler, process.clock, log, self.histories[log.record.prefix].appends, content)

    def archive(self, process: Process, log: Log) -> None:
        """Archive, free segments that were marked long ago, and sweep deleted logs."""
        for target in (log, self._any_log(process, log)):
            archive_segments(target, None if process.clock.random() < 0.7 else target.head().version // 2)
            free_segments(target)
        sweep_deleted(log.environment, ORGANISATION)

    def free(self, process: Process, log: Log) -> None:
        """Free segments that were marked long ago, and sweep deleted logs."""
        free_segments(self._any_log(process, log))
        sweep_deleted(log.environment, ORGANISATION)

    def snapshot(self, process: Process, log: Log) -> None:
        """Save a snapshot of the head. A log with state needs a snapshot to seal a segment and to forget history."""
        version = log.head().version
        if version:
            log.save_snapshot(version, [b"state", f"of {version}".encode()])

    def fork(self, process: Process, log: Log) -> None:
        """Fork the log or a fork, then append to the new fork and read it."""
        source = self._any_log(process, log)
        at = int(process.clock.random() * (source.head().version + 1))
        name = f"fork-{self.left[process.name]}"
        change = self._change("fork", ORGANISATION, name, source=source.record.prefix)
        change.value = at
        forked = change.run(lambda: fork_log(source, name, at))
        change.prefix = forked.record.prefix
        self.scheduler.counts.bump("fork")
        self._append(process, forked)
        self._append(process, forked)
        self._read(process, forked)

    def forget(self, process: Process, log: Log) -> None:
        """Raise the floor of the log or a fork to a random version up to the head."""
        target = self._any_log(process, log)
        version = int(process.clock.random() ** 0.5 * (target.head().version + 1))
        change = self._change("floor", ORGANISATION, target.record.name, target.record.prefix)
        change.value = change.run(lambda: raise_floor(target, version))

    def delete(self, process: Process, log: Log) -> None:
        """Delete the log or a fork, and create the main log again if it was deleted."""
        self._delete(self._any_log(process, log))
        self._create(log.environment, ORGANISATION, MAIN, log.record.kind)

    def establish(self, process: Process, log: Log) -> None:
        """Create a log under a contested name, or delete the log that has the name."""
        name = f"found-{int(2 * process.clock.random())}"
        try:
            self._delete(open_log(log.environment, ORGANISATION, name))
        except NotFound:
            self._create(log.environment, ORGANISATION, name, log.record.kind)

    def namesake(self, process: Process, log: Log) -> None:
        """Append to another organisation's log of the same name.

        Create this log if it is missing, and sometimes delete it.
        """
        environment = log.environment
        try:
            theirs = open_log(environment, OTHER, MAIN)
        except NotFound:
            theirs = self._create(environment, OTHER, MAIN, log.record.kind)
        self.scheduler.counts.bump("namesake")
        self._append(process, theirs)
        if process.clock.random() < 0.4:
            self._delete(theirs)
        sweep_deleted(environment, OTHER)

    def _cluster(self, scheduler: Scheduler) -> Cluster:
        return Cluster(scheduler)

    def _roles(self) -> list[Role]:
        draw = self.scheduler.random.random
        appenders = 2 + int(draw() * 3)
        roles = [
            Role(f"appender-{position}", self.append, APPENDS // appenders, 0.06, frees=False)
            for position in range(appenders)
        ]
        roles += [
            Role("reader", self.read, 8, 0.2, frees=False),
            Role("hostile", self.reuse, 6, 0.3, frees=False),
            Role("archivist", self.archive, 6, 0.7),
        ]
        rare = [
            (0.5, [Role("snapshotter", self.snapshot, 6, 0.2, frees=False)]),
            (0.5, [Role("forker", self.fork, 6, 0.05, frees=False), Role("forgetter", self.forget, 6, 0.05)]),
            (0.3, [Role("deleter", self.delete, 2, 0.8)]),
            (0.4, [Role(f"namesake-{position}", self.namesake, 4, 0.2) for position in range(2)]),
        ]
        if self.cluster.weather.far_skew_ms_max:
            roles.append(Role("laggard", self.free, 10, 0.3, marks=False))
        if draw() < 0.12:
            roles += [Role(f"founder-{position}", self.establish, FOUNDER_TURNS, 0.1) for position in range(2)]
        return roles + [role for chance, some in rare if draw() < chance for role in some]

    def _run(self, role: Role, process: Process) -> None:
        """Run the turns of one process. The process keeps its handle until a call raises NotFound."""
        environment = log_environment(process, self.settings)
        self.counters.append(environment.counters)
        log: Log | None = None
        while self.left.take(role.name):
            dawdle(process.clock, role.pause, PAUSE_SECONDS_MAX)
            try:
                log = log or open_log(environment, ORGANISATION, MAIN)
                role.turn(process, log)
            except Corrupt as exc:
                raise Violation("dangling", "an actor found needed data missing or damaged", error=exc) from exc
            except NotFound as exc:
                self.scheduler.counts.bump("forgotten" if isinstance(exc, VersionForgotten) else "not found")
                log = None
            except StratalogError as exc:
                self.scheduler.counts.bump(f"turn ended by {exc.code}")

    def _change(self, kind: str, organisation: str, name: str, prefix: str = "", source: str = "") -> Change:
        self.changes.append(Change(kind, (organisation, name), self._moment, prefix, source))
        return self.changes[-1]

    def _create(self, environment: Environment, organisation: str, name: str, kind: str) -> Log:
        change = self._change("create", organisation, name)
        created = change.run(lambda: create_log(environment, organisation, name, kind))
        change.prefix = created.record.prefix
        return created

    def _delete(self, log: Log) -> None:
        record = log.record
        change = self._change("delete", record.organisation, record.name, record.prefix)
        change.run(lambda: delete_log(log))

    def _append(
        self, process: Process, log: Log, expected: int | None = None, snapshot: PreparedSnapshot | None = None
    ) -> bool:
        """Append an entry, with a snapshot if there is one. Return whether the append was acknowledged."""
        prefix = log.record.prefix
        self.numbers[process.name] += 1
        write_id = f"{process.name}.{self.numbers[process.name]}"
        expected = self._expected(process, log) if snapshot is None else expected
        sent = self._moment()
        tell = partial(self.histories[prefix].append, process.name, write_id, self.scheduler.steps)
        try:
            entry = log.append(content(write_id), expected=expected, write_id=write_id, snapshot=snapshot)
        except (NotFound, VersionConflict) as exc:
            tell(Answered.REFUSED)
            self.scheduler.counts.bump(exc.code)
            self.answers.append(Answer(prefix, sent, self._moment(), exc.details.get("actual", -1)))
            if isinstance(exc, NotFound):
                raise
        except (ContentionError, Unavailable):
            tell(Answered.REFUSED)
        except OutcomeUnknown:
            tell(Answered.UNKNOWN)
        else:
            tell(Answered.ACKNOWLEDGED, entry.version)
            return True
        return False

    def _expected(self, process: Process, log: Log) -> int | None:
        """Return the expected version: mostly None, or the newest acknowledged version or the handle's known head."""
        if process.clock.random() < 0.7:
            return None
        if process.clock.random() < 0.5:
            return max((append.version for append in self.histories[log.record.prefix].appends), default=0)
        known = log.known_head()
        return known.version if known else int(process.clock.random() * 5)

    def _head(self, log: Log) -> int:
        prefix, steps, sent = log.record.prefix, self.scheduler.steps, self._moment()
        try:
            version = log.head().version
        except NotFound:
            self.answers.append(Answer(prefix, sent, self._moment(), -1))
            raise
        self.answers.append(Answer(prefix, sent, self._moment(), version))
        self.histories[prefix].head(steps, version)
        return version

    def _read(self, process: Process, log: Log) -> None:
        """Read from a random version on. The entries must have no gap, and must agree with all earlier reads."""
        prefix = log.record.prefix
        self.lineages[prefix] = log.record.lineage or self.lineages.get(prefix, ())
        head = self._head(log)
        after = 0 if process.clock.random() < 0.5 else int(process.clock.random() * (head + 1))
        last, created_ms = after, 0
        for entry in log.read(after):
            last += 1
            if entry.version != last or entry.created_ms < created_ms:
                raise Violation("gapless", "entries are not in order of version and time", entry=entry, expected=last)
            created_ms = entry.created_ms
            check_content(entry)
            if self.seen.setdefault((prefix, last), entry.write_id) != entry.write_id:
                raise Violation("history-changed", "an entry changed between two reads", entry=entry)
            dawdle(process.clock, 0.03, PAUSE_SECONDS_MAX)
        if last < head:
            raise Violation("gapless", "a read ended before the head", last=last, head=head)
        self.scheduler.counts.bump("reads")

    def _any_log(self, process: Process, log: Log) -> Log:
        """Return mostly the log itself, and sometimes any log of the organisation, such as a fork."""
        if process.clock.random() < 0.6:
            return log
        names = [listing.id for listing in list_directory(log.environment.index, ORGANISATION, LOGS)]
        name = choose(process.clock, names) if names else MAIN
        return log if name == MAIN else open_log(log.environment, ORGANISATION, name)

    def _check_log(self, log: Log, truth: Truth) -> None:
        """Check that an existing log is readable from its floor on, even if ancestors were deleted or raised floors."""
        record = log.record
        floors = [truth.logs[parent.prefix].floor for parent in record.lineage]
        for parent, floor in zip(record.lineage, floors, strict=True):
            if floor > parent.version:
                raise Violation("fork", "a version that a fork needs was forgotten", log=record.name, floor=floor)
        start = max([record.floor, *floors])
        try:
            entries = list(log.read(start))
        except (Corrupt, NotFound) as exc:
            raise Violation("dangling", "an existing log cannot be read", log=record.name, error=exc) from exc
        check_gapless([entry.version for entry in entries], start)
        standing = truth.write_ids(record.prefix, record.lineage)
        for entry in entries:
            check_content(entry)
            if standing.pop(entry.version, "") != entry.write_id:
                raise Violation("read", "an entry differs from the committed entry of its version", entry=entry)
        if standing and max(standing) > start:
            raise Violation(
                "acknowledged", "the log's last entries are missing", log=record.name, missing=max(standing)
            )

    def _check_names(self, truth: Truth) -> None:
        """Check that directories, and the lists of a name's organisations, contain exactly the existing logs."""
        index = self.cluster.index
        names = {(prefix.partition("/")[0], prefix.partition("/")[2].partition("@")[0]) for prefix in truth.logs}
        living = {name: record for name in names if (record := read_name(index, *name)) and not record.deleted_ms}
        for log in {log for _, log in names}:
            wanted = [NameHolder(of, record.kind) for (of, own), record in sorted(living.items()) if own == log]
            if list(organisations_of(index, log)) != wanted:
                raise Violation("names", "the list of a name's organisations is wrong", log=log, wanted=wanted)
        for organisation in (ORGANISATION, OTHER):
            listed = {(organisation, line.id) for line in list_directory(index, organisation, LOGS)}
            if listed != {name for name in living if name[0] == organisation}:
                raise Violation(
                    "names", "a directory does not list exactly the existing logs", organisation=organisation
                )

    def _count(self, truth: Truth) -> None:
        self.scheduler.counts.bump("strays", truth.strays)
        for counters in self.counters:
            for name, count in counters.items():
                self.scheduler.counts.bump("log conflicts" if name == "conflict" else name, count)

    def _moment(self) -> int:
        """Return the number of commits that have taken effect."""
        return len(self.cluster.index._journal)


def content(write_id: str) -> Event:
    """Return the event of a write. One event in four is too large to be stored inside its entry."""
    number = int(write_id.rpartition(".")[2])
    return Event("note", {"id": write_id, "pad": write_id * (number % 4 // 3 * 20)})


def check_content(entry: Entry) -> None:
    """Check that an entry contains the events that were written under its write id."""
    if entry.events != (content(entry.write_id),):
        raise Violation("content", "an entry contains the events of another write", entry=entry)
