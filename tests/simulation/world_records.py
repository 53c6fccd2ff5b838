"""The world of records: single and batched writers, readers, and processes that prune, free, collect and redact.

Each actor is a separate process with its own handle. The index's journal shows the true versions: the first put of
number n + 1 after version n is version n + 1. Each body lists the ids of the writes that produced it. So the checks see
a write that was applied twice or to a stale body.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from stratalog.errors import (
    ContentionError,
    Corrupt,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Redacted,
    StratalogError,
    Unavailable,
    VersionConflict,
)
from stratalog.keys import parse_number, record_key, record_partition
from stratalog.log import LogSettings
from stratalog.ports.index import Put
from stratalog.records import NewBody, Records, RecordVersion, Stored
from stratalog.records.batch import put_through
from stratalog.records.floor import read_floor
from stratalog.records.verification import verify_record
from stratalog.records.versions import Name
from stratalog.testing.checkers import Answered, LoggedEntry, Violation
from stratalog.testing.faults import Weather
from stratalog.testing.history import APPEND_COLUMNS, History
from stratalog.testing.scheduler import Scheduler
from tests.simulation.actors import Turns, choose, dawdle, log_environment
from tests.simulation.clusters import Cluster, Process
from tests.simulation.hostile import reuse_record, reuse_update
from tests.simulation.pool import SimulatedPool
from tests.simulation.records_truth import first_hash, next_record_hash

__all__ = ["RecordsWorld", "bodies_of"]

ORGANISATION = "acme"
IDS = ("b1", "b2", "b3")
WRITES = 70
BATCHES = 6
BATCH_BODIES_MAX = 6
PAUSE_SECONDS_MAX = 400
KINDS = ("put", "put", "update", "update", "update", "newer", "expected", "delete", "undelete")
TIMED = ("newer", "stale")
BATCH_KINDS = ("many", "many", "many", "newer", "stale", "bad")


class RecordsWorld:
    """A few records that many writers change, and all concurrent operations on these records."""

    columns: ClassVar[tuple[str, ...]] = (
        *APPEND_COLUMNS,
        "blobs.put",
        "blobs.get",
        "blobs.delete",
        "batched",
        "batched in vain",
        "no change",
        "contention",
        "not-found",
        "version-conflict",
        "version-forgotten",
        "bodies read",
        "strays",
        "pruned",
        "freed",
        "redacted",
        "keys reused",
        "honest retries",
    )

    weather: ClassVar[Weather | None] = None
    """The weather of every seed. If None, each seed draws its own weather."""

    def __init__(self, scheduler: Scheduler) -> None:
        draw = scheduler.random
        self.scheduler = scheduler
        self.cluster = Cluster(scheduler, self.weather)
        self.settings = LogSettings(
            body_inline_bytes_max=draw.choice((0, 40)), append_seconds_max=draw.choice((1, 10, 100))
        )
        self.histories = {id: History(scheduler) for id in IDS}
        self.seen: list[tuple[RecordVersion, str | None]] = []
        self.hashes: dict[str, list[bytes]] = {}
        self.salts: dict[object, object] = {}
        self.numbers: Counter[str] = Counter()
        self.left = Turns()
        writers = draw.randrange(2, 5)
        for position in range(writers):
            self._start(f"writer-{position}", self.write, WRITES // writers, 0.1)
        for position in range(draw.randrange(1, 3)):
            self._start(f"batcher-{position}", self.write_batch, BATCHES, 0.3)
        self._start("reader", self.read, 12, 0.2)
        self._start("hostile", self.reuse, 8, 0.2)
        for position in range(draw.randrange(1, 3)):
            self._start(f"pruner-{position}", self.prune, 10, 0.7)
        self._start("redactor", self.redact, 5, 0.7)

    def write(self, process: Process, records: Records) -> None:
        """Make one change of a record, of any kind."""
        id = choose(process.clock, IDS)
        kind = choose(process.clock, KINDS)
        write_id = self._write_id(process, kind)
        sent = self.scheduler.steps
        tell = partial(self.histories[id].append, process.name, write_id, sent)
        try:
            changed = self._change(records, id, kind, write_id)
        except (OutcomeUnknown, Redacted):
            # The write may be committed, and its body may be erased already.
            tell(Answered.UNKNOWN)
        except (ContentionError, NotFound, Unavailable, VersionConflict) as exc:
            self.scheduler.counts.bump(exc.code)
            tell(Answered.REFUSED)
        else:
            if changed is None or changed.write_id != write_id:
                self._no_change(id, sent, changed)
                tell(Answered.REFUSED)
            else:
                self.seen.append((changed, None))
                tell(Answered.ACKNOWLEDGED, changed.version)

    def write_batch(self, process: Process, records: Records) -> None:
        """Put several bodies in one call. Some are stale, and some are invalid."""
        bodies = [self._body(process) for _ in range(1 + int(process.clock.random() * BATCH_BODIES_MAX))]
        sent = self.scheduler.steps
        pool = None if process.index.joint_commits else SimulatedPool(process)
        left = iter(bodies)
        for stored in put_through(pool, records.environment, ORGANISATION, records._heads, bodies):
            body = next(left, None)
            if body is None or body.id != stored.id:
                raise Violation("batch", "a result of a batch belongs to another body", body=body, stored=stored)
            self._tell(process, sent, body, stored)
        if (unanswered := next(left, None)) is not None:
            raise Violation("batch", "a body of a batch got no result", body=unanswered)

    def reuse(self, process: Process, records: Records) -> None:
        """Put records that no other actor writes, and reuse their write ids in honest retries and in hostile calls."""
        pool = None if process.index.joint_commits else SimulatedPool(process)
        puts = partial(put_through, pool, records.environment, ORGANISATION, records._heads)
        write_ids = [self._write_id(process, "own") for _ in range(3)]
        bodies = [NewBody(id=f"own-{write_id}", body=write_id.encode(), write_id=write_id) for write_id in write_ids]
        for body, stored in zip(bodies, list(puts(bodies)), strict=True):
            if stored.new and stored.version is not None:
                reuse_record(self.scheduler, process.clock, records, puts, body, stored.version)
        write_id = self._write_id(process, "own")
        reuse_update(self.scheduler, process.clock, records, f"own-{write_id}", write_id)

    def read(self, process: Process, records: Records) -> None:
        """Read the latest version or an older version, and sometimes all versions."""
        id = choose(process.clock, IDS)
        sent = self.scheduler.steps
        latest = records.stat(id)
        self.histories[id].head(sent, latest.version)
        self.seen.append((latest, None))
        if process.clock.random() < 0.3:
            self._read_all(records, id)
        version = None if process.clock.random() < 0.5 else 1 + int(process.clock.random() * latest.version)
        record = records.get(id, version)
        self.scheduler.counts.bump("bodies read")
        self.seen.append((record.version, record.body.decode()))

    def prune(self, process: Process, records: Records) -> None:
        """Forget old versions, free versions that were forgotten long ago, and collect blobs."""
        id = choose(process.clock, IDS)
        if process.clock.random() < 0.6:
            records.prune(id, retain=1 + int(process.clock.random() * 3))
            self.scheduler.counts.bump("pruned")
        self.scheduler.counts.bump("freed", records.free(id))

    def redact(self, process: Process, records: Records) -> None:
        """Erase the body of some version."""
        id = choose(process.clock, IDS)
        version = 1 + int(process.clock.random() * records.stat(id).version)
        self.scheduler.counts.bump("redacted", records.redact(id, version).redacted)

    def check(self) -> None:
        """Compare the answers, and the versions that are still readable, with the commits."""
        honest = Records(log_environment(self.cluster, self.settings), ORGANISATION)
        for id in IDS:
            entries = self._entries(id)
            self.histories[id].check(entries)
            bodies = bodies_of(entries)
            for version, body in self.seen:
                if version.id == id:
                    self._check_seen(version, body, entries, bodies)
            if entries:
                self._check_preserved(honest, id, entries, bodies)

    def _start(self, name: str, turn: Callable[[Process, Records], None], turns: int, pause: float) -> None:
        self.left[name] = turns
        self.cluster.start(name, partial(self._run, turn, pause), frees=turn in (self.prune, self.redact))

    def _run(self, turn: Callable[[Process, Records], None], pause: float, process: Process) -> None:
        """Run the turns of one process, all on one handle."""
        records = Records(log_environment(process, self.settings), ORGANISATION)
        while self.left.take(process.name):
            dawdle(process.clock, pause, PAUSE_SECONDS_MAX)
            try:
                turn(process, records)
            except Corrupt as exc:
                raise Violation("dangling", "an actor found needed data missing or damaged", error=exc) from exc
            except StratalogError as exc:
                self.scheduler.counts.bump(exc.code)

    def _change(self, records: Records, id: str, kind: str, write_id: str) -> RecordVersion | None:
        body, who = write_id.encode(), write_id.split(".")[0]
        if kind == "update":
            return records.update(
                id, lambda before: before + b"," + body, create=body, write_id=write_id, principal=who
            )
        if kind == "newer":
            return records.put_if_newer(id, body, self.scheduler.now_ms, write_id=write_id, principal=who)
        if kind == "expected":
            expected = records.stat(id).version
            return records.put(id, body, expected=expected, write_id=write_id, principal=who)
        if kind == "delete":
            return records.delete(id, write_id=write_id, principal=who)
        if kind == "undelete":
            return records.undelete(id, write_id=write_id, principal=who)
        return records.put(id, body, write_id=write_id, principal=who)

    def _write_id(self, process: Process, kind: str) -> str:
        self.numbers[process.name] += 1
        return f"{process.name}.{self.numbers[process.name]}.{kind}"

    def _body(self, process: Process) -> NewBody:
        """Return one body of a batch. A body of the kind `bad` is invalid, because it has no source time."""
        kind = choose(process.clock, BATCH_KINDS)
        write_id = self._write_id(process, kind)
        age_ms = int(process.clock.random() * PAUSE_SECONDS_MAX * 1000) if kind == "stale" else 0
        return NewBody(
            id=choose(process.clock, IDS),
            body=write_id.encode(),
            source_time_ms=self.scheduler.now_ms - age_ms if kind in TIMED else None,
            newer_only=kind != "many",
            write_id=write_id,
            principal=process.name,
        )

    def _tell(self, process: Process, sent: int, body: NewBody, stored: Stored) -> None:
        """Check and record a batch's answer for one body. Only an invalid body may be rejected as invalid."""
        write_id = str(body.write_id)
        tell = partial(self.histories[body.id].append, process.name, write_id, sent)
        if isinstance(stored.error, Invalid) != write_id.endswith("bad"):
            raise Violation("batch", "a valid body was refused, or an invalid body was accepted", stored=stored)
        if isinstance(stored.error, OutcomeUnknown | Redacted):
            tell(Answered.UNKNOWN)
        elif stored.new and stored.version is not None:
            self.scheduler.counts.bump("batched")
            self.seen.append((stored.version, None))
            tell(Answered.ACKNOWLEDGED, stored.version.version)
        else:
            if not isinstance(stored.error, ContentionError | Invalid | Unavailable | None):
                raise Violation("batch", "a body of a batch was refused with an unexpected error", stored=stored)
            self.scheduler.counts.bump("batched in vain")
            self._no_change(body.id, sent, stored.version)
            tell(Answered.REFUSED)

    def _no_change(self, id: str, sent: int, version: RecordVersion | None) -> None:
        self.scheduler.counts.bump("no change")
        if version is not None:
            self.histories[id].head(sent, version.version)
            self.seen.append((version, None))

    def _read_all(self, records: Records, id: str) -> None:
        versions = list(records.versions(id))
        numbers = [version.version for version in versions]
        if numbers != sorted(set(numbers)):
            raise Violation("order", "the versions of a record are out of order", versions=numbers)
        self.seen += [(version, None) for version in versions]

    def _entries(self, id: str) -> list[LoggedEntry]:
        """Return the committed versions of a record in order. Other puts in the journal landed at freed positions."""
        entries: list[LoggedEntry] = []
        latest: Put | None = None
        self.hashes[id] = []
        for _, writes in self.cluster.index._journal:
            for write in writes:
                if not isinstance(write, Put) or write.item.partition != record_partition(ORGANISATION, record_key(id)):
                    continue
                if self._learn(entries, write):
                    _check_newer(latest, write)
                    self._check_chain(self.hashes[id], write)
                    latest = write
        return entries

    def _check_chain(self, hashes: list[bytes], write: Put) -> None:
        """Check the hash of the history in a version's item, the salt, which must be new, and the principal."""
        attributes = write.item.attributes
        before = hashes[-1] if hashes else first_hash(attributes)
        hashes.append(next_record_hash(before, len(hashes) + 1, attributes))
        if attributes.get("ch") != hashes[-1]:
            raise Violation("chain", "a version's hash does not follow from the hash before it", version=write.item)
        if self.salts.setdefault(attributes["s"], attributes["w"]) != attributes["w"]:
            raise Violation("chain", "a salt was used twice", version=write.item)
        if attributes.get("p") != str(attributes["w"]).split(".")[0]:
            raise Violation("chain", "a version names the principal of another call", version=write.item)

    def _learn(self, entries: list[LoggedEntry], write: Put) -> bool:
        """Add the version that ``write`` made. Return False if ``write`` made no version."""
        if not write.item.sort.isdigit():
            return False
        version, write_id = parse_number(write.item.sort), str(write.item.attributes["w"])
        if version != len(entries) + 1:
            self.scheduler.counts.bump("strays")
            return False
        writer, number, _ = write_id.split(".")
        entries.append(LoggedEntry(version, writer, write_id, int(number)))
        return True

    def _check_preserved(self, honest: Records, id: str, entries: list[LoggedEntry], bodies: list[str | None]) -> None:
        """Check that all versions from the first retained version on exist, with the right bodies and hashes."""
        try:
            versions = list(honest.versions(id))
            read = [
                None if version.deleted or version.redacted else honest.get(id, version.version).body.decode()
                for version in versions
            ]
        except (Corrupt, NotFound) as exc:
            raise Violation("dangling", "a retained version cannot be read", record=id, error=exc) from exc
        if [version.version for version in versions] != list(range(versions[0].version, len(entries) + 1)):
            raise Violation("gapless", "versions above the floor are missing", record=id, first=versions[0].version)
        for version, body in zip(versions, read, strict=True):
            self._check_seen(version, body, entries, bodies)
        findings = verify_record(log_environment(self.cluster, self.settings), Name(ORGANISATION, id)).findings
        if findings:
            raise Violation("chain", "a record does not verify", record=id, findings=findings)
        floor = read_floor(self.cluster.index, Name(ORGANISATION, id))
        if floor.version > 1 and floor.hash != self.hashes[id][floor.version - 2]:
            raise Violation(
                "chain", "a floor's hash differs from the hash of the version below", record=id, floor=floor
            )

    def _check_seen(
        self, version: RecordVersion, body: str | None, entries: list[LoggedEntry], bodies: list[str | None]
    ) -> None:
        _check_seen(version, body, entries, bodies)
        if version.hash != self.hashes[version.id][version.version - 1]:
            raise Violation("chain", "a version was returned with a wrong hash", version=version)


def bodies_of(entries: list[LoggedEntry]) -> list[str | None]:
    """Return the body that each version must have, computed only from the write ids, or None for a deletion."""
    bodies: list[str | None] = []
    for entry in entries:
        before = bodies[-1] if bodies else None
        kind = entry.write_id.rpartition(".")[2]
        if kind == "delete":
            bodies.append(None)
        elif kind == "undelete":
            bodies.append(bodies[-2])
        elif kind == "update" and before is not None:
            bodies.append(f"{before},{entry.write_id}")
        else:
            bodies.append(entry.write_id)
    return bodies


def _check_newer(latest: Put | None, write: Put) -> None:
    """Check that a write of the kinds `newer` and `stale` has a later source time than the version before."""
    time, before = write.item.attributes.get("t"), latest.item.attributes.get("t") if latest else None
    if str(write.item.attributes["w"]).endswith(TIMED) and before is not None and int(time or 0) <= int(before):
        raise Violation(
            "newer", "a body with an older source time than the latest version was stored", write=write, before=before
        )


def _check_seen(version: RecordVersion, body: str | None, entries: list[LoggedEntry], bodies: list[str | None]) -> None:
    """Check that a version in an answer is the committed version of that number, with the right body."""
    if version.version > len(entries) or entries[version.version - 1].write_id != version.write_id:
        raise Violation("read", "an uncommitted version was read", version=version)
    if version.deleted != (bodies[version.version - 1] is None):
        raise Violation("read", "a deletion was read as a value, or a value was read as a deletion", version=version)
    if body is not None and body != bodies[version.version - 1]:
        raise Violation("body", "a version's body differs from the body that was put", version=version, body=body)
