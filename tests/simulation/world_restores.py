"""The world of restores: entries that are committed together with their snapshots, while other processes forget.

It is the world of the log with two more actors. A restorer prepares a snapshot and appends an entry with it. If the
append fails, the restorer tries again a few times. A collector deletes unreferenced blobs. The entry of a restore says
nothing about its state, so a restore without its snapshot is lost.

A seed has freezes or crashes, not both; see `world_collect`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar

import msgspec

from stratalog.errors import Corrupt, StratalogError
from stratalog.log import Entry, Log, plan
from stratalog.log.names import name_check
from stratalog.log.pending_entry import PendingEntry
from stratalog.log.prepared_snapshot import PreparedSnapshot
from stratalog.maintenance.collection import collect_family
from stratalog.ports.index import Check, Equals, Write
from stratalog.testing.checkers import Violation
from stratalog.testing.faults import FAULT_RATES, draw_weather
from stratalog.testing.history import APPEND_COLUMNS
from stratalog.testing.scheduler import Scheduler
from tests.simulation.actors import Role, dawdle
from tests.simulation.clusters import Cluster, Process
from tests.simulation.log_truth import Truth
from tests.simulation.mutants import Mutant, Planting, replaced
from tests.simulation.world_log import LogWorld

__all__ = ["MUTANTS", "RestoresWorld"]

TRIES_MAX = 4
STATE_AGE_SECONDS_MAX = 3600.0
FREEZE_RATE = 0.01
OWN_PART = b"state of "


class RestoresWorld(LogWorld):
    """Appenders, restorers, snapshotters, forkers, retention and a collector. Each restore has its own state."""

    columns: ClassVar[tuple[str, ...]] = (
        *APPEND_COLUMNS,
        "restores",
        "restores checked",
        "roll-over",
        "archive",
        "freed segment",
        "snapshot",
        "fork",
        "floor",
        "collected blobs",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        self.states: dict[str, list[bytes]] = {}
        """The state that belongs to each write id of a restorer."""

        super().__init__(scheduler)

    def restore(self, process: Process, log: Log) -> None:
        """Prepare a state, and append an entry with it. After a failed try, append again with the same state."""
        self.numbers["states"] += 1
        number = self.numbers["states"]
        parts = [b"shared by a few states %d" % (number // 4), OWN_PART + b"%d" % number]
        prepared = log.prepare_snapshot(parts)
        for _ in range(TRIES_MAX):
            dawdle(process.clock, 0.2, STATE_AGE_SECONDS_MAX)
            head = log.head().version
            self.states[f"{process.name}.{self.numbers[process.name] + 1}"] = parts
            if self._append(process, log, expected=head, snapshot=prepared):
                self.scheduler.counts.bump("restores")
                return

    def collect(self, process: Process, log: Log) -> None:
        """Collect the unreferenced blobs of the log and its forks."""
        report = collect_family(log.environment, log.record.owner)
        self.scheduler.counts.bump("collected blobs", len(report.garbage))

    def _cluster(self, scheduler: Scheduler) -> Cluster:
        weather, freezes = draw_weather(scheduler.random), scheduler.random.random() < 0.5
        rates = dict.fromkeys((rate for rate in FAULT_RATES if rate.startswith("crash" if freezes else "freeze")), 0.0)
        if freezes:
            rates |= {"freeze_before": FREEZE_RATE, "freeze_after": FREEZE_RATE}
        return Cluster(scheduler, msgspec.structs.replace(weather, **rates))

    def _roles(self) -> list[Role]:
        return [
            Role("appender", self.append, 10, 0.1, frees=False),
            *(Role(f"restorer-{position}", self.restore, 8, 0.1, frees=False) for position in range(2)),
            Role("reader", self.read, 4, 0.2, frees=False),
            Role("snapshotter", self.snapshot, 4, 0.2, frees=False),
            Role("forker", self.fork, 3, 0.1, frees=False),
            Role("archivist", self.archive, 8, 0.7),
            Role("forgetter", self.forget, 8, 0.3),
            Role("collector", self.collect, 12, 0.7),
        ]

    def _check_log(self, log: Log, truth: Truth) -> None:
        """Also check that each kept restore of the log has its own state, and that no other entry has such a state."""
        super()._check_log(log, truth)
        for entry in log.read(max(log.floor(), log.first)):
            self._check_state(log, entry)

    def _check_state(self, log: Log, entry: Entry) -> None:
        wanted = self.states.get(entry.write_id)
        snapshot = log.app_snapshot(entry.version)
        if snapshot is None or snapshot.version != entry.version:
            if wanted is not None:
                raise Violation("restore", "a restore has no snapshot", log=log.record.name, version=entry.version)
            return
        try:
            parts = list(log.read_snapshot(snapshot))
        except Corrupt as exc:
            raise Violation("dangling", "a snapshot cannot be read", version=entry.version, error=exc) from exc
        if wanted is None and not parts[1].startswith(OWN_PART):
            return
        if parts != wanted:
            raise Violation("restore", "a snapshot has the state of another entry", version=entry.version, parts=parts)
        self.scheduler.counts.bump("restores checked")


def _append_then_save(self: Log, events: Any, *, snapshot: PreparedSnapshot | None = None, **arguments: Any) -> Entry:
    """Save the snapshot by a second commit after the append."""
    entry = _append(self, events, **arguments)
    if snapshot is not None:
        with suppress(StratalogError):
            self.save_snapshot(entry.version, snapshot._parts)
    return entry


def _check_incarnation(name: Any) -> Check:
    """Check only that the log is not deleted."""
    check = name_check(name)
    return Check(check.partition, check.sort, Equals("i", name.incarnation))


def _writes_unchecked(self: PreparedSnapshot, *arguments: Any) -> list[Write]:
    return _writes(self, *arguments)[-1:]


_append = Log.append
_writes = PreparedSnapshot.writes


def _mutant(name: str, planting: Planting, *caught_by: str) -> Mutant:
    return Mutant(f"restores: {name}", RestoresWorld, planting, caught_by)


MUTANTS = (
    _mutant("snapshot saved after the entry", replaced(Log, "append", _append_then_save), "restore"),
    _mutant("segment of the entry not checked", replaced(plan, "name_check", _check_incarnation), "restore"),
    _mutant("shared snapshot not checked", replaced(PreparedSnapshot, "writes", _writes_unchecked), "dangling"),
    _mutant("old parts not put again", replaced(PendingEntry, "refresh", lambda self: False), "dangling"),
)
