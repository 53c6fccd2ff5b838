"""The scrub: read and hash every blob within a number of days. Each maintenance pass reads some of the blobs.

The scrub reads the blobs in the order of their keys and saves its position in the index. A damaged blob is a failure in
the report of the pass that reads it. The scrub cannot notice a missing blob. `stratalog verify` notices it.
"""

from __future__ import annotations

import msgspec

from stratalog.clock import is_interval_over
from stratalog.errors import Corrupt, NotFound, Unsupported
from stratalog.limits import SCRUB_PASS_BYTES_MIN
from stratalog.log import Environment
from stratalog.log.callbacks import Stop, never
from stratalog.log.scrub_record import ScrubRecord, load_scrub_record, save_scrub_record
from stratalog.maintenance.collection import MaintenanceFailure

__all__ = ["ScrubReport", "last_scrub_ms", "scrub"]

DAY_MS = 86_400_000
SHARE = 0.8
"""A round may start when this share of ``days`` is left, and is planned to take this share of the time left.

A round reads every blob once. The rest of the time is for late and failing passes.
"""


class ScrubReport(msgspec.Struct, frozen=True):
    """The result of the scrub in one pass."""

    blobs: int
    bytes_read: int
    failures: tuple[MaintenanceFailure, ...]
    is_round_finished: bool


def scrub(environment: Environment, days: float, *, dry_run: bool = False, stop: Stop = never) -> ScrubReport:
    """Read the due share of the blobs, so that regular passes read every blob within ``days``.

    Raises Unavailable, OutcomeUnknown.

    A new round starts when a fifth of ``days`` (``1 - SHARE``) has passed since the last finished round began. Until
    then the scrub reads nothing. A round first adds up the sizes of all blobs, which may take several passes. A pass
    reads at least `SCRUB_PASS_BYTES_MIN` stored bytes, if so many bytes of the round are left. ``stop`` is called
    before each blob. A dry run reads the blobs that the next run would read, and saves no position.
    """
    clock = environment.clock
    position, now_ms = load_scrub_record(environment), clock.wall_ms()
    if position.began_ms == position.round_began_ms:
        is_due = is_interval_over(clock, position.round_began_ms, days * DAY_MS * (1 - SHARE))
        if position.round_began_ms and not is_due:
            return ScrubReport(0, 0, (), True)
        position.began_ms = position.passed_ms = now_ms
        position.counted, position.total_bytes, position.damaged = "", 0, 0
    if not position.after and not _count(environment, position, stop):
        if not dry_run:
            save_scrub_record(environment, position)
        return ScrubReport(0, 0, (), False)
    budget = _budget(position, now_ms, days)
    blobs = size = bytes_read = 0
    failures: list[MaintenanceFailure] = []
    is_finished = True
    keys: list[str] = []
    for stat in environment.blobs.list("", after=position.after, damaged=keys.append):
        if size >= budget or stop():
            is_finished = False
            break
        size += stat.stored_bytes
        try:
            bytes_read += len(environment.blobs.get(stat.key))
        except NotFound:
            pass  # the blob was collected after the listing
        except (Corrupt, Unsupported) as exc:
            failures.append(MaintenanceFailure(stat.key, exc.code, exc.message))
        blobs += 1
        position.after = stat.key
    position.damaged += len(failures)
    failures += [
        MaintenanceFailure(key, Corrupt.code, "the key of a blob is damaged", key) for key in dict.fromkeys(keys)
    ]
    position.passed_ms = now_ms
    if is_finished:
        position.after = ""
        position.round_began_ms, position.round_damaged = position.began_ms, position.damaged
    if not dry_run:
        save_scrub_record(environment, position)
    return ScrubReport(blobs, bytes_read, tuple(failures), is_finished)


def last_scrub_ms(environment: Environment) -> int:
    """Return the time in ms at which the last finished round began; 0 if no round has finished.

    The round read all blobs that were stored when it began.
    """
    return load_scrub_record(environment).round_began_ms


def _count(environment: Environment, position: ScrubRecord, stop: Stop) -> bool:
    """Add up the sizes of all blobs. Return False if ``stop`` ended the count, which the next pass then resumes."""
    for stat in environment.blobs.list("", after=position.counted):
        if stop():
            return False
        position.counted = stat.key
        position.total_bytes += stat.stored_bytes
    return True


def _budget(position: ScrubRecord, now_ms: int, days: float) -> int:
    """Return the stored bytes that this pass must read, at least `SCRUB_PASS_BYTES_MIN`.

    If one percent of a round's planned duration passed since the last pass, the pass must read one percent of the bytes
    that were stored when the round began.
    """
    elapsed_ms = max(0, now_ms - position.passed_ms)
    # `SHARE` squared: a round may start only after `1 - SHARE` of the days, and is planned to take `SHARE` of the rest.
    due = position.total_bytes * elapsed_ms / max(1.0, days * DAY_MS * SHARE * SHARE)
    return max(SCRUB_PASS_BYTES_MIN, int(due))
