"""Records in the world: writers, readers, and those who prune, free and collect behind them.

Every actor is a process of its own with its own handle. What truly became a version is told by the index's journal:
the put of version n + 1 that follows version n. Each body lists the writes it came from, so that one applied twice or
to a stale body shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import ClassVar

from stratalog.codec import sha256
from stratalog.errors import (
    ContentionError,
    Corrupt,
    NotFound,
    OutcomeUnknown,
    StratalogError,
    Unavailable,
    VersionConflict,
)
from stratalog.keys import parse_number, record_partition
from stratalog.log import Settings
from stratalog.log.bodies import BodyRef
from stratalog.ports.index import Put
from stratalog.records import Records, RecordVersion, content, prune
from stratalog.records.content import Content
from stratalog.records.put import Attempts
from stratalog.testing.actors import Turns, choose, dawdle, log_place
from stratalog.testing.checkers import Found, Told, Violation
from stratalog.testing.history import APPEND_COLUMNS, History
from stratalog.testing.mutants import Mutant, replaced
from stratalog.testing.places import Place, Process
from stratalog.testing.scheduler import Scheduler

__all__ = ["MUTANTS", "RecordsWorld", "bodies_of"]

ORGANISATION = "acme"
IDS = ("b1", "b2")
WRITES = 70
PAUSE_SECONDS_MAX = 400
KINDS = ("put", "put", "update", "update", "update", "newer", "expected", "delete", "undelete")


class RecordsWorld:
    """Two records that everybody writes, and everything that may happen to them at once."""

    columns: ClassVar[tuple[str, ...]] = (
        *APPEND_COLUMNS,
        "blobs.put",
        "blobs.get",
        "blobs.delete",
        "no change",
        "contention",
        "not-found",
        "version-conflict",
        "version-forgotten",
        "bodies read",
        "strays",
        "pruned",
        "freed",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        draw = scheduler.random
        self.scheduler = scheduler
        self.place = Place(scheduler)
        self.settings = Settings(
            body_inline_bytes_max=draw.choice((0, 40)), append_seconds_max=draw.choice((1, 10, 100))
        )
        self.histories = {id: History(scheduler) for id in IDS}
        self.seen: list[tuple[RecordVersion, str | None]] = []
        self.numbers: Counter[str] = Counter()
        self.left = Turns()
        writers = draw.randrange(2, 5)
        for place in range(writers):
            self._start(f"writer-{place}", self.write, WRITES // writers, 0.1)
        self._start("reader", self.read, 12, 0.2)
        for place in range(draw.randrange(1, 3)):
            self._start(f"pruner-{place}", self.prune, 10, 0.7)

    def write(self, process: Process, records: Records) -> None:
        """One change of a record, of any kind."""
        id = choose(process.clock, IDS)
        kind = choose(process.clock, KINDS)
        self.numbers[process.name] += 1
        write_id = f"{process.name}.{self.numbers[process.name]}.{kind}"
        sent = self.scheduler.steps
        tell = partial(self.histories[id].append, process.name, write_id, sent)
        try:
            found = self._change(records, id, kind, write_id)
        except OutcomeUnknown:
            tell(Told.UNKNOWN)
        except (ContentionError, NotFound, Unavailable, VersionConflict) as exc:
            self.scheduler.counts.bump(exc.code)
            tell(Told.REFUSED)
        else:
            if found is None or found.write_id != write_id:
                self._no_change(id, sent, found)
                tell(Told.REFUSED)
            else:
                tell(Told.ACKNOWLEDGED, found.version)

    def read(self, process: Process, records: Records) -> None:
        """The latest, some older one, or all of them, by a reader who dawdles."""
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
        """Forget old versions, free what was forgotten long enough ago, collect blobs."""
        id = choose(process.clock, IDS)
        if process.clock.random() < 0.6:
            records.prune(id, keep=1 + int(process.clock.random() * 3))
            self.scheduler.counts.bump("pruned")
        self.scheduler.counts.bump("freed", records.free(id))

    def check(self) -> None:
        """Compare what was answered, and what can be read in the end, with what was committed."""
        honest = Records(log_place(self.place, self.settings), ORGANISATION)
        for id in IDS:
            found = self._found(id)
            self.histories[id].check(found)
            bodies = bodies_of(found)
            for version, body in self.seen:
                if version.id == id:
                    _check_seen(version, body, found, bodies)
            if found:
                self._check_kept(honest, id, found, bodies)

    def _start(self, name: str, turn: Callable[[Process, Records], None], turns: int, pause: float) -> None:
        self.left[name] = turns
        self.place.start(name, partial(self._run, turn, pause))

    def _run(self, turn: Callable[[Process, Records], None], pause: float, process: Process) -> None:
        """One process: its turns, all on one handle."""
        records = Records(log_place(process, self.settings), ORGANISATION)
        while self.left.take(process.name):
            dawdle(process.clock, pause, PAUSE_SECONDS_MAX)
            try:
                turn(process, records)
            except Corrupt as exc:
                raise Violation("dangling", "an actor met what should be there", error=exc) from exc
            except StratalogError as exc:
                self.scheduler.counts.bump(exc.code)

    def _change(self, records: Records, id: str, kind: str, write_id: str) -> RecordVersion | None:
        body = write_id.encode()
        if kind == "update":
            return records.update(id, lambda before: before + b"," + body, create=body, write_id=write_id)
        if kind == "newer":
            return records.put_if_newer(id, body, self.scheduler.now_ms, write_id=write_id)
        if kind == "expected":
            return records.put(id, body, expected=records.stat(id).version, write_id=write_id)
        if kind == "delete":
            return records.delete(id, write_id=write_id)
        if kind == "undelete":
            return records.undelete(id, write_id=write_id)
        return records.put(id, body, write_id=write_id)

    def _no_change(self, id: str, sent: int, found: RecordVersion | None) -> None:
        self.scheduler.counts.bump("no change")
        if found is not None:
            self.histories[id].head(sent, found.version)
            self.seen.append((found, None))

    def _read_all(self, records: Records, id: str) -> None:
        versions = list(records.versions(id))
        numbers = [version.version for version in versions]
        if numbers != sorted(set(numbers)):
            raise Violation("order", "the versions of a record are out of order", versions=numbers)
        self.seen += [(version, None) for version in versions]

    def _found(self, id: str) -> list[Found]:
        """The versions that were committed, each after the one before. Others fell into places freed before."""
        found: list[Found] = []
        for _, writes in self.place.index._journal:
            for write in writes:
                if isinstance(write, Put) and write.item.partition == record_partition(ORGANISATION, id):
                    self._learn(found, write)
        return found

    def _learn(self, found: list[Found], write: Put) -> None:
        if not write.item.sort.isdigit():
            return
        version, write_id = parse_number(write.item.sort), str(write.item.attributes["w"])
        if version == len(found) + 1:
            writer, number, _ = write_id.split(".")
            found.append(Found(version, writer, write_id, int(number)))
        else:
            self.scheduler.counts.bump("strays")

    def _check_kept(self, honest: Records, id: str, found: list[Found], bodies: list[str | None]) -> None:
        """All versions from the first kept to the latest are there, with their bodies."""
        try:
            versions = list(honest.versions(id))
            read = [None if version.deleted else honest.get(id, version.version).body.decode() for version in versions]
        except (Corrupt, NotFound) as exc:
            raise Violation("dangling", "a kept version cannot be read", record=id, error=exc) from exc
        if [version.version for version in versions] != list(range(versions[0].version, len(found) + 1)):
            raise Violation("gapless", "kept versions are missing", record=id, first=versions[0].version)
        for version, body in zip(versions, read, strict=True):
            _check_seen(version, body, found, bodies)


def bodies_of(found: list[Found]) -> list[str | None]:
    """What each version must hold, by the kinds of the writes alone; None for a deletion."""
    bodies: list[str | None] = []
    for entry in found:
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


def _check_seen(version: RecordVersion, body: str | None, found: list[Found], bodies: list[str | None]) -> None:
    """A version that somebody saw is the one committed under its number, and holds what it must."""
    if version.version > len(found) or found[version.version - 1].write_id != version.write_id:
        raise Violation("read", "a reader saw what was never so", version=version)
    if version.deleted != (bodies[version.version - 1] is None):
        raise Violation("read", "a deletion was read as a value, or a value as a deletion", version=version)
    if body is not None and body != bodies[version.version - 1]:
        raise Violation("body", "a version does not hold what was put", version=version, body=body)


def _upload_later(self: Content, body: bytes | None) -> None:
    """The pointer first."""
    if body is not None:
        self._point_to(BodyRef(sha256(body), len(body)))


def _refresh_late(self: Content) -> None:
    """The blob second."""
    if self.bytes is not None and "x" in self._attributes:
        self._place.blobs.put(f"{content.body_prefix(self._name)}/{self.digest.hex()}", self.bytes)


@contextmanager
def _pointer_first() -> Iterator[None]:
    with replaced(Content, "_upload", _upload_later)(), replaced(Content, "refresh", _refresh_late)():
        yield


MUTANTS = (
    Mutant(
        "records: observation rule ignored",
        RecordsWorld,
        replaced(prune, "free_time_reached", lambda clock, marked_ms: True),
        ("acknowledged", "real-time", "read", "body"),
    ),
    Mutant("records: pointer before blob", RecordsWorld, _pointer_first, ("dangling",)),
    Mutant(
        "records: blobs collected while young",
        RecordsWorld,
        replaced(prune, "_older_than_grace", lambda place, stat: True),
        ("dangling",),
    ),
    Mutant(
        "records: doubt forgotten",
        RecordsWorld,
        replaced(Attempts, "_verdict", lambda self, cause: cause),
        ("refused",),
    ),
    Mutant(
        "records: own write not known again",
        RecordsWorld,
        replaced(Attempts, "_landed", lambda self, version: self._doubts.discard(version)),
        ("acknowledged", "once", "refused"),
    ),
)
