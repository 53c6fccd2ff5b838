"""The scrub: every blob is read and hashed within so many days, some in each pass of maintenance.

It goes through the blobs in the order of their keys and keeps its position in the index. A damaged blob is a failure of
the pass that met it. What is missing cannot be met: a verification finds it.
"""

from __future__ import annotations

import msgspec

from stratalog.errors import Corrupt, NotFound, Unsupported
from stratalog.limits import SCRUB_PASS_BYTES_MIN
from stratalog.log import Environment
from stratalog.log.retention import Stop, never
from stratalog.log.scrub_record import ScrubRecord, load_scrub_record, save_scrub_record
from stratalog.maintenance.collection import MaintenanceFailure

__all__ = ["ScrubReport", "last_scrub_ms", "scrub"]

DAY_MS = 86_400_000
SHARE = 0.8
"""A round is planned for this share of its days, so that passes that fail or are late do not make it late."""


class ScrubReport(msgspec.Struct, frozen=True):
    """What one pass read."""

    blobs: int
    bytes_read: int
    failures: tuple[MaintenanceFailure, ...]
    is_round_finished: bool


def scrub(environment: Environment, days: float, *, dry_run: bool = False, stop: Stop = never) -> ScrubReport:
    """Read the share of the blobs that is due, so that a round takes ``days`` at most. Raises Unavailable.

    A new round begins once ``days`` have nearly passed since the last one began; until then nothing is read.
    A dry run reads what the next run would, and keeps no position.
    """
    position, now_ms = load_scrub_record(environment), environment.clock.wall_ms()
    if not position.after:
        if position.round_began_ms and now_ms - position.round_began_ms < days * DAY_MS * (1 - SHARE):
            return ScrubReport(0, 0, (), True)
        position.began_ms = position.passed_ms = now_ms
        position.bytes_read = position.damaged = 0
    budget = _budget(position, now_ms, days)
    blobs = size = 0
    failures: list[MaintenanceFailure] = []
    is_finished = True
    for stat in environment.blobs.list("", after=position.after):
        if size >= budget or stop():
            is_finished = False
            break
        try:
            size += len(environment.blobs.get(stat.key))
        except NotFound:
            pass  # it was collected since it was listed
        except (Corrupt, Unsupported) as exc:
            failures.append(MaintenanceFailure(stat.key, exc.code, exc.message))
        blobs += 1
        position.after = stat.key
    position.bytes_read += size
    position.damaged += len(failures)
    position.passed_ms = now_ms
    if is_finished:
        position.after = ""
        position.round_began_ms, position.round_bytes = position.began_ms, position.bytes_read
        position.round_damaged = position.damaged
    if not dry_run:
        save_scrub_record(environment, position)
    return ScrubReport(blobs, size, tuple(failures), is_finished)


def last_scrub_ms(environment: Environment) -> int:
    """Since when every blob was read that stood then: when the last whole round began. 0: never."""
    return load_scrub_record(environment).round_began_ms


def _budget(position: ScrubRecord, now_ms: int, days: float) -> int:
    """The bytes to read: of those of the last round, the share that the time since the last pass is of a round's."""
    elapsed_ms = max(0, now_ms - position.passed_ms)
    due = position.round_bytes * elapsed_ms / max(1.0, days * DAY_MS * SHARE * SHARE)
    return max(SCRUB_PASS_BYTES_MIN, int(due))
