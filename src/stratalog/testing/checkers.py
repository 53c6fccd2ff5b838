"""Checkers: pure functions that compare a recorded history with the log at the end, and raise a named Violation.

A history contains the answers that callers got. The log contains the stored entries. ``sent`` and ``answered`` are
moments on one clock that all callers share (the scheduler's steps), so the checkers can order these moments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

import msgspec

__all__ = [
    "Answered",
    "CheckedAppend",
    "HeadRead",
    "LoggedEntry",
    "Violation",
    "check_acknowledged",
    "check_appends",
    "check_gapless",
    "check_once",
    "check_real_time",
    "check_refused",
    "check_writer_order",
]


class Violation(Exception):
    """An invariant does not hold. ``checker`` is the name of the invariant's checker."""

    def __init__(self, checker: str, message: str, **details: Any) -> None:
        self.checker = checker
        super().__init__(" ".join([f"{checker}: {message}", *(f"{name}={value}" for name, value in details.items())]))


class Answered(Enum):
    """The final answer to an append: its version, an error after which nothing was written, or an unknown outcome."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class CheckedAppend(msgspec.Struct, frozen=True, gc=False):
    """One append as its caller saw it. ``version`` is set only for an acknowledged append."""

    writer: str
    write_id: str
    sent: int
    answered: int
    outcome: Answered
    version: int = 0


class HeadRead(msgspec.Struct, frozen=True, gc=False):
    """One consistent read of the head as its caller saw it."""

    sent: int
    answered: int
    version: int


class LoggedEntry(msgspec.Struct, frozen=True, gc=False):
    """One entry of the log at the end. ``number`` increases with each write that a writer issues."""

    version: int
    writer: str
    write_id: str
    number: int


def check_appends(
    appends: Sequence[CheckedAppend], reads: Sequence[HeadRead], log: Sequence[LoggedEntry], floor: int = 0
) -> None:
    """Run every check below. ``log`` contains the entries above ``floor``, in the order that the store returns."""
    check_gapless([entry.version for entry in log], floor)
    check_once(entry.write_id for entry in log)
    check_acknowledged(appends, log, floor)
    check_refused(appends, log)
    check_writer_order(log)
    check_real_time(appends, reads)


def check_gapless(versions: Sequence[int], floor: int = 0) -> None:
    """Check that the versions are floor + 1, floor + 2, … without a gap or a repetition."""
    for expected, version in enumerate(versions, floor + 1):
        if version != expected:
            raise Violation("gapless", "the log has a gap or a repeated version", expected=expected, actual=version)


def check_once(write_ids: Iterable[str]) -> None:
    """Check that no write took effect twice."""
    seen: set[str] = set()
    for write_id in write_ids:
        if write_id in seen:
            raise Violation("once", "a write is in the log twice", write_id=write_id)
        seen.add(write_id)


def check_acknowledged(appends: Iterable[CheckedAppend], log: Iterable[LoggedEntry], floor: int = 0) -> None:
    """Check that every append that was acknowledged above the floor is in the log at its version."""
    standing = {entry.version: entry.write_id for entry in log}
    for append in appends:
        if append.outcome is Answered.ACKNOWLEDGED and append.version > floor:
            logged = standing.get(append.version)
            if logged != append.write_id:
                raise Violation("acknowledged", "an acknowledged write is lost", append=append, actual=logged)


def check_refused(appends: Iterable[CheckedAppend], log: Iterable[LoggedEntry]) -> None:
    """Check that no append that was certainly refused is in the log."""
    standing = {entry.write_id: entry.version for entry in log}
    for append in appends:
        if append.outcome is Answered.REFUSED and append.write_id in standing:
            raise Violation("refused", "a refused write took effect", append=append, actual=standing[append.write_id])


def check_writer_order(log: Iterable[LoggedEntry]) -> None:
    """Check that the log has the writes of each writer in the order in which the writer issued them."""
    newest: dict[str, int] = {}
    for entry in log:
        if entry.number <= newest.get(entry.writer, -1):
            raise Violation("writer-order", "a writer's writes are reordered", entry=entry, after=newest[entry.writer])
        newest[entry.writer] = entry.number


def check_real_time(appends: Iterable[CheckedAppend], reads: Iterable[HeadRead]) -> None:
    """Check real-time order: if call A was answered before call B was sent, B returns no older state than A.

    A read returns the state of its version. An acknowledged append at version n returns state n, and extends state
    n - 1. So if B is an append, state n - 1 must be no older than the state of A. The check ignores other appends.
    """
    certain = [append for append in appends if append.outcome is Answered.ACKNOWLEDGED]
    sent = [(append.sent, append.version - 1) for append in certain] + [(read.sent, read.version) for read in reads]
    answered = [(append.answered, append.version) for append in certain]
    answered += [(read.answered, read.version) for read in reads]
    answered.sort(reverse=True)
    established = 0
    for moment, version in sorted(sent):
        while answered and answered[-1][0] < moment:
            established = max(established, answered.pop()[1])
        if version < established:
            raise Violation(
                "real-time",
                "a call returned an older state than a call that had already been answered",
                step=moment,
                version=version,
                established=established,
            )
