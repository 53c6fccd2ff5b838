"""Counts the units that AWS would bill for an entry of a log, with given sizes of segments and snapshots, in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

import msgspec

from stratalog.costs.bill import Units, total
from stratalog.costs.prices import Prices
from stratalog.costs.workload import FREE_SECONDS, Trial
from stratalog.log import Event, Log, LogSettings
from stratalog.log.bodies import BodyRef, read_body, write_body
from stratalog.log.retention import archive_segments, free_segments
from stratalog.log.snapshots import put_snapshot

__all__ = ["LogCost", "cost_of_log"]

SNAPSHOTS_OFF = 10**9
MILLION = 1_000_000


class LogCost(msgspec.Struct, frozen=True):
    """The cost of one entry by part: `append`, and its shares of `roll-over`, `snapshot`, `open`, `archive`, `free`."""

    parts: Mapping[str, Units]

    @property
    def units(self) -> Units:
        """The sum of all parts."""
        return sum(self.parts.values(), Units())

    def dollars(self, prices: Prices) -> float:
        """Return the dollars for a million entries."""
        return total(self.units, prices) * MILLION

    def dollars_by_part(self, prices: Prices) -> dict[str, float]:
        """Return the dollars for a million entries, by part."""
        return {name: total(units, prices) * MILLION for name, units in self.parts.items()}


def cost_of_log(
    segment_entries: int = 10_000,
    snapshot_every: int = 500,
    entry_bytes: int = 200,
    *,
    opens_per_entry: float = 0.01,
    snapshot_bytes: int = 40_000,
    snapshot_blobs: int = 1,
    state_blobs: int = 1,
    archive: bool = True,
    free: bool = True,
    inline_bytes_max: int | None = None,
) -> LogCost:
    """Return the cost of an entry of a real log, measured on a metered store in memory.

    The run appends until at least two segments are full. A snapshot writes the ``snapshot_blobs`` objects that changed,
    with ``snapshot_bytes`` in total. An open reads up to ``state_blobs`` of these objects, and the entries after the
    snapshot. The run opens the log at four ages of the snapshot. With ``archive`` the run copies each sealed segment to
    blobs. With ``archive`` and ``free`` the run then deletes the items of these segments. Entries contain bytes that do
    not compress.
    """
    settings = LogSettings(segment_entries_target=segment_entries, snapshot_entries_interval=SNAPSHOTS_OFF)
    if inline_bytes_max is not None:
        settings = msgspec.structs.replace(settings, body_inline_bytes_max=inline_bytes_max)
    work = _Work(Trial(settings), entry_bytes, snapshot_bytes, snapshot_blobs)
    segments = max(2, -(-2 * snapshot_every // segment_entries))
    entries = segments * segment_entries
    # An open reads the newest snapshot, so no open is measured before the first snapshot.
    ages = [max(1, snapshot_every * eighth // 8) for eighth in (1, 3, 5, 7)]
    opens: list[Units] = []
    for number in range(1, entries + 1):
        work.append(number)
        if number % snapshot_every == 0:
            work.snapshot(number)
        elif number > snapshot_every and number % snapshot_every in ages and len(opens) < len(ages):
            opens.append(work.open(min(state_blobs, snapshot_blobs)))
    work.append(entries + 1)
    if archive:
        work.add("archive", lambda: archive_segments(work.log))
    if archive and free:
        work.trial.clock.sleep(FREE_SECONDS)
        work.add("free", lambda: free_segments(work.log))
    parts = {name: units.times(1 / entries) for name, units in work.parts.items()}
    extra = work.roll_overs.times(1 / segments)
    parts["roll-over"] = (extra + work.plain.times(-1)).times(1 / segment_entries)
    parts["append"] = work.plain
    if opens and opens_per_entry:
        parts["open"] = sum(opens, Units()).times(opens_per_entry / len(opens))
    return LogCost(parts)


class _Work:
    """A log under measurement, and the billed units of each kind of work on it."""

    def __init__(self, trial: Trial, entry_bytes: int, snapshot_bytes: int, snapshot_blobs: int) -> None:
        self.trial = trial
        self.log: Log = trial.store.create_log("acme", "sheet")
        self.parts: dict[str, Units] = {}
        self.plain = Units()
        self.roll_overs = Units()
        self._entry_bytes = entry_bytes
        self._blob_bytes = snapshot_bytes // snapshot_blobs
        self._blobs = snapshot_blobs
        self._rolled = 0

    def add(self, part: str, work: Callable[[], object]) -> None:
        self.parts[part] = self.parts.get(part, Units()) + self.trial.spent(work)

    def append(self, number: int) -> None:
        """Append one entry, and record its units unless it is the log's first entry.

        `roll_overs` has the units of all appends that began a segment. `plain` has the units of the last append that
        began none.
        """
        event = Event("set", _bytes(self._entry_bytes, number))
        if number == 1:
            self.log.append(event)
            return
        counters = self.log.environment.counters
        spent = self.trial.spent(lambda: self.log.append(event))
        if counters["roll-over"] > self._rolled:
            self._rolled = counters["roll-over"]
            self.roll_overs += spent
        else:
            self.plain = spent

    def snapshot(self, number: int) -> None:
        """Put the blobs of a snapshot, then its record, which refers to them."""
        environment, record = self.log.environment, self.log.record

        def take() -> None:
            refs = [
                write_body(environment.blobs, f"{record.owner}/state", _bytes(self._blob_bytes, number * 1000 + blob))
                for blob in range(self._blobs)
            ]
            put_snapshot(environment, record, number, self.log.hash_at(number), msgspec.msgpack.encode(refs), None)

        self.add("snapshot", take)

    def open(self, state_blobs: int) -> Units:
        """Return the billed units of another process that loads the newest state."""
        store, environment, owner = self.trial.reopened(), self.log.environment, self.log.record.owner

        def load() -> None:
            log = store.log("acme", "sheet")
            head = log.head()
            snapshot = log.snapshot_at(head.version)
            refs = msgspec.msgpack.decode(snapshot.body, type=list[BodyRef]) if snapshot else []
            for ref in refs[:state_blobs]:
                read_body(environment.blobs, f"{owner}/state", ref)
            assert list(log.read(snapshot.version if snapshot else 0, head=head))

        return self.trial.spent(load)


def _bytes(size: int, number: int) -> bytes:
    return hashlib.shake_256(b"%d" % number).digest(size)
