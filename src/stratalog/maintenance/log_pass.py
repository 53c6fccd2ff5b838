"""Maintenance of one log: snapshot, expiry of clients, floor, archives and freed segments, as the policy says.

Each operation is safe at any time, in several processes at once, and when it is interrupted. A dry run makes the same
decisions and writes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from stratalog.clock import Clock
from stratalog.documents import Document, Rules
from stratalog.documents.snapshot_schedule import is_snapshot_due
from stratalog.errors import Corrupt, Redacted
from stratalog.log import Log
from stratalog.log.callbacks import Stop
from stratalog.log.marks import is_mark_ahead
from stratalog.log.retention import archive_segments, free_segments, is_due, pinned_floor, raise_floor
from stratalog.log.segments import Segment, list_segments
from stratalog.log.snapshots import newest_snapshot
from stratalog.maintenance.policy import RetentionPolicy

__all__ = ["archive_bound", "floor_bound", "maintain_log"]

DAY_MS = 86_400_000


def maintain_log(
    log: Log,
    rules: Rules,
    retention: RetentionPolicy,
    done: Counter[str],
    *,
    snapshots: bool = True,
    expire_clients_days: float | None = None,
    dry_run: bool = False,
    stop: Stop,
) -> None:
    """Do the due maintenance of a log, and count each step in ``done``, by its name, once it is done.

    The names are fields of `MaintenanceReport`. A dry run counts the steps that a run would do. ``stop`` is called
    before each part of a step, except before the snapshot. If the result is True, the step ends. Raises the errors of
    the operations; the completed steps stay done and counted. Damage that stops one step stops no later step; the
    first damage is raised after the last step.
    """
    damages: list[Corrupt] = []
    document = Document(log, rules) if log.record.kind == "document" else None
    if document is not None and snapshots:
        with _continue_after(damages):
            if _is_snapshot_due(log):
                if not dry_run:
                    document.snapshot()
                done["snapshots"] += 1
    if document is not None and expire_clients_days is not None:
        before_ms = log.environment.clock.wall_ms() - int(expire_clients_days * DAY_MS)
        report = partial(_count, done, "expired_clients")
        with _continue_after(damages):
            document.expire_clients(before_ms, stop=stop, dry_run=dry_run, report=report)
    segments = list(list_segments(log.environment.index, log.record.prefix))
    floor = 0
    with _continue_after(damages):
        floor = floor_bound(log, segments, retention, document)
        if floor and not stop():
            _raise(log, document, floor, done, dry_run=dry_run)
    bound = archive_bound(log.environment.clock, segments, retention)
    if bound and not stop():
        report = partial(_count, done, "archived_segments")
        if dry_run:
            report(_archivable(segments, bound, floor))
        else:
            with _continue_after(damages):
                archive_segments(log, bound, stop, report)
    clock, present = log.environment.clock, [segment for segment in segments if not segment.freed]
    if dry_run:
        done["freed_segments"] += sum(is_due(clock, segment) for segment in present)
    elif any(is_due(clock, segment) or is_mark_ahead(clock, segment.marked_ms) for segment in present):
        report = partial(_count, done, "freed_segments")
        with _continue_after(damages):
            _ = document.free_segments(stop, report) if document else free_segments(log, stop, report)
    if damages:
        raise damages[0]


def floor_bound(
    log: Log, segments: Sequence[Segment], retention: RetentionPolicy, document: Document | None = None
) -> int:
    """Return the version that the floor may rise to; 0 if the floor stays.

    The policy's bound is the end of a segment, because only whole segments are forgotten. A pin may lower the bound,
    and so may the application of ``document``, the log's document (`Rules.oldest_needed`). In a log with app snapshots
    the bound falls to the newest app snapshot at or below it.
    """
    bounds = []
    if retention.retain_segments is not None:
        bounds.append(len(segments) - retention.retain_segments)
    if retention.retain_days is not None:
        bounds.append(_ended_before(log.environment.clock, segments, retention.retain_days))
    position = min(bounds, default=0)
    if position <= 0:
        return 0
    lowest = max(log.record.floor, log.first - 1)
    floor = pinned_floor(log.environment.index, log.record.prefix, segments[position].first - 1)
    if document is not None and floor > lowest:
        floor = document.rules.permitted_floor(document, floor)
    floor = _provable(log, floor) if floor > lowest else 0
    return floor if floor > lowest else 0


def archive_bound(clock: Clock, segments: Sequence[Segment], retention: RetentionPolicy) -> int:
    """Return the version up to which sealed segments are to be archived; 0 if no segment is to be archived."""
    if retention.archive_days is None:
        return 0
    position = _ended_before(clock, segments, retention.archive_days)
    return segments[position].first - 1 if position else 0


def _ended_before(clock: Clock, segments: Sequence[Segment], days: float) -> int:
    """Return how many segments ended at least ``days`` ago. A segment ends when the next segment is created."""
    ended = [segment.created_ms <= clock.wall_ms() - days * DAY_MS for segment in segments[1:]]
    return ended.index(False) if False in ended else len(ended)


def _provable(log: Log, floor: int) -> int:
    """Return the floor that a log's snapshots allow.

    If a log with app snapshots forgets versions, the versions that it keeps must begin with an app snapshot. So the
    floor is the newest app snapshot at or below ``floor``, or 0 if there is none. A document takes a base snapshot when
    its floor rises. If a redacted version leaves no state of ``floor``, the document's floor is the newest snapshot at
    or below ``floor``. A log without snapshots needs no base.
    """
    is_document = log.record.kind == "document"
    if _has_state(log, floor) if is_document else log.snapshot_at(log.head().version) is None:
        return floor
    base = newest_snapshot(log.environment.index, log.record.prefix, floor)
    return base.version if base else 0


def _has_state(log: Log, version: int) -> bool:
    """Return whether the document's state of a version can be computed: no redacted version is in the way."""
    if log.record.redacted:
        try:
            Document(log).at(version)
        except Redacted:
            return False
    return True


def _is_snapshot_due(log: Log) -> bool:
    """Return whether a snapshot is due. A writer takes a due snapshot, but may fail or crash before."""
    head = log.head()
    newest = log.snapshot_at(head.version)
    return is_snapshot_due(log, head.version, newest.version if newest else 0)


@contextmanager
def _continue_after(damages: list[Corrupt]) -> Iterator[None]:
    """Keep the damage that the block raises, and continue after the block."""
    try:
        yield
    except Corrupt as exc:
        damages.append(exc)


def _raise(log: Log, document: Document | None, floor: int, done: Counter[str], *, dry_run: bool) -> None:
    """Raise the floor, and count it. Raises Corrupt if the base that replaces the forgotten versions is damaged."""
    before = 0 if dry_run else log.floor()
    try:
        if document is not None and not dry_run:
            document.forget_below(floor)
        elif not dry_run:
            raise_floor(log, floor)
    except Corrupt:
        done["floors"] += log.floor() > before  # the floor of a log may have risen to an older snapshot
        raise
    done["floors"] += 1


def _count(done: Counter[str], name: str, count: int) -> None:
    done[name] += count


def _archivable(segments: Sequence[Segment], upto: int, floor: int) -> int:
    """Return the number of segments that an archiving up to ``upto`` would archive."""
    lasts = [segment.first - 1 for segment in segments[1:]]
    pairs = zip(segments, lasts, strict=False)
    return sum(1 for segment, last in pairs if floor < last <= upto and not segment.marked_ms)
