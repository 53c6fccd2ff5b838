"""Times of versions in a table's state. The collection needs them after the log has forgotten the versions.

Usually the time of a version is the time of its entry. If the log's retention is shorter than the retention of the data
files, the entry is gone before a file is old enough. So the collection records the time of the newest version now and
then. Few times are kept: the older they are, the farther apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec

from stratalog import Draft
from stratalog.struct_types import resolved
from stratalog_table.layout import TIMES
from stratalog_table.table_draft import meta_of, read

__all__ = ["RecordTime", "VersionTime", "known_by", "newest_before", "record_time", "times_from"]

SPARED_SHARE = 4
"""Two recorded times are at most a quarter of their age apart, unless the collection paused for longer."""


class VersionTime(msgspec.Struct, frozen=True, array_like=True):
    """A version, and a time at which it was committed already."""

    version: int
    time_ms: int


class RecordTime(msgspec.Struct, frozen=True):
    """A version, and a time at which it was committed already."""

    version: Annotated[int, msgspec.Meta(ge=1)]
    time_ms: Annotated[int, msgspec.Meta(ge=0)]


def record_time(draft: Draft, args: Any) -> None:
    """Record a time of a version, unless a time of this or of a later version is recorded."""
    wanted: RecordTime = read(args, RecordTime)
    meta_of(draft)
    known = times_from(draft.get(TIMES))
    if known and known[-1].version >= wanted.version:
        return
    # An older version with a later time is from a clock that was ahead: this version was committed after it.
    usable = [time for time in known if time.time_ms < wanted.time_ms]
    draft.put(TIMES, msgspec.to_builtins(_thinned([*usable, VersionTime(wanted.version, wanted.time_ms)])))


def times_from(row: Any) -> list[VersionTime]:
    """Return the recorded times of a row, the oldest first."""
    return [] if row is None else msgspec.convert(row, resolved(list[VersionTime]))


def newest_before(times: Iterable[VersionTime], time_ms: int) -> int:
    """Return the newest version that was committed before a time, as far as recorded; 0 if none is recorded."""
    return max((time.version for time in times if time.time_ms < time_ms), default=0)


def known_by(times: Iterable[VersionTime], version: int) -> int | None:
    """Return the earliest recorded time at which a version was committed already, or None."""
    return min((time.time_ms for time in times if time.version >= version), default=None)


def _thinned(times: Sequence[VersionTime]) -> list[VersionTime]:
    """Return the times without those whose neighbours are close to each other for their age."""
    newest_ms = times[-1].time_ms
    spaced = [times[-1]]
    for older, time in zip(times[-3::-1], times[-2::-1], strict=False):
        if (spaced[-1].time_ms - older.time_ms) * SPARED_SHARE > newest_ms - older.time_ms:
            spaced.append(time)
    return [*times[: len(times) > 1], *reversed(spaced)]
