"""Maintenance of one log: the snapshot that is due, the floor and the archive of its policy, and what may be freed.

Each is decided from what was read now and done by an operation that is safe at any time, by several at once, and when
it is broken off. What is decided is the same in a dry run, which does nothing of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stratalog.clock import Clock
from stratalog.documents import Document, Rules
from stratalog.documents.snapshot_schedule import is_snapshot_due
from stratalog.log import Log
from stratalog.log.retention import Stop, archive_segments, free_segments, is_due, pinned_floor, raise_floor
from stratalog.log.segments import Segment, list_segments
from stratalog.log.snapshots import newest_snapshot
from stratalog.maintenance.policy import RetentionPolicy

__all__ = ["archive_bound", "floor_bound", "maintain_log"]

DAY_MS = 86_400_000


def maintain_log(
    log: Log,
    rules: Rules,
    retention: RetentionPolicy,
    *,
    snapshots: bool = True,
    expire_clients_days: float | None = None,
    dry_run: bool = False,
    stop: Stop,
) -> Counter[str]:
    """Do what is due for a log; how often each thing was done. Raises what the operations raise."""
    done: Counter[str] = Counter()
    document = Document(log, rules) if log.record.kind == "document" else None
    if document is not None and snapshots and _is_snapshot_due(log):
        done["snapshots"] += 1
        if not dry_run:
            document.snapshot()
    if document is not None and expire_clients_days is not None:
        before_ms = log.environment.clock.wall_ms() - int(expire_clients_days * DAY_MS)
        done["expired_clients"] += document.expire_clients(before_ms, stop=stop, dry_run=dry_run)
    segments = list(list_segments(log.environment.index, log.record.prefix))
    floor = floor_bound(log, segments, retention)
    if floor and not stop():
        done["floors"] += 1
        if not dry_run:
            _raise(log, document, floor)
    bound = archive_bound(log.environment.clock, segments, retention)
    if bound and not stop():
        done["archived_segments"] += _archive(log, segments, bound, floor, dry_run, stop)
    if dry_run:
        done["freed_segments"] += sum(is_due(log.environment.clock, segment) for segment in segments)
    elif any(is_due(log.environment.clock, segment) for segment in segments):
        done["freed_segments"] += document.free_segments(stop) if document else free_segments(log, stop)
    return done


def floor_bound(log: Log, segments: Sequence[Segment], retention: RetentionPolicy) -> int:
    """The version that the floor may rise to; 0 where it stays. The end of a segment, since those go as a whole."""
    bounds = []
    if retention.retain_segments is not None:
        bounds.append(len(segments) - retention.retain_segments)
    if retention.retain_days is not None:
        bounds.append(_ended_before(log.environment.clock, segments, retention.retain_days))
    position = min(bounds, default=0)
    if position <= 0:
        return 0
    floor = _provable(log, pinned_floor(log.environment.index, log.record.prefix, segments[position].first - 1))
    return floor if floor > max(log.record.floor, log.first - 1) else 0


def archive_bound(clock: Clock, segments: Sequence[Segment], retention: RetentionPolicy) -> int:
    """The version up to which sealed segments are to be archived; 0 where none are."""
    if retention.archive_days is None:
        return 0
    position = _ended_before(clock, segments, retention.archive_days)
    return segments[position].first - 1 if position else 0


def _ended_before(clock: Clock, segments: Sequence[Segment], days: float) -> int:
    """How many segments ended so many days ago. A segment ends where the next one is created."""
    ended = [segment.created_ms <= clock.wall_ms() - days * DAY_MS for segment in segments[1:]]
    return ended.index(False) if False in ended else len(ended)


def _provable(log: Log, floor: int) -> int:
    """The floor for a log that is no document: one that keeps states begins with the newest of its own at or below."""
    if log.record.kind == "document" or log.snapshot_at(log.head().version) is None:
        return floor
    base = newest_snapshot(log.environment.index, log.record.prefix, floor)
    return base.version if base else 0


def _is_snapshot_due(log: Log) -> bool:
    """Whoever should have made it, and failed or was lost."""
    head = log.head()
    newest = log.snapshot_at(head.version)
    return is_snapshot_due(log, head.version, newest.version if newest else 0)


def _raise(log: Log, document: Document | None, floor: int) -> None:
    """Raises Corrupt where what takes the place of the forgotten versions does not read back."""
    if document is None:
        raise_floor(log, floor)
    else:
        document.forget_below(floor)


def _archive(log: Log, segments: Sequence[Segment], upto: int, floor: int, dry_run: bool, stop: Stop) -> int:
    if not dry_run:
        return archive_segments(log, upto, stop)
    lasts = [segment.first - 1 for segment in segments[1:]]
    pairs = zip(segments, lasts, strict=False)
    return sum(1 for segment, last in pairs if floor < last <= upto and not segment.marked_ms)
