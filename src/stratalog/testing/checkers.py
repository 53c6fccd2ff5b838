"""Checkers: pure functions over a recorded history and the log that was found, each raising a Violation by its name.

A history is what clients were *told*; the log is what is *there*. ``sent`` and ``answered`` are moments in one order
that all share (the scheduler's steps), so that "before" has a meaning.
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
    """An invariant does not hold. ``checker`` names it."""

    def __init__(self, checker: str, message: str, **details: Any) -> None:
        self.checker = checker
        super().__init__(" ".join([f"{checker}: {message}", *(f"{name}={value}" for name, value in details.items())]))


class Answered(Enum):
    """What the caller of an append was told in the end."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class CheckedAppend(msgspec.Struct, frozen=True, gc=False):
    """One append as its caller saw it. ``version`` counts only where it was acknowledged."""

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
    """One entry of the log at the end. ``number`` orders the writes of one writer as it issued them."""

    version: int
    writer: str
    write_id: str
    number: int


def check_appends(
    appends: Sequence[CheckedAppend], reads: Sequence[HeadRead], log: Sequence[LoggedEntry], floor: int = 0
) -> None:
    """Every check below. ``log`` holds the entries above ``floor``, in the order the store gives them."""
    check_gapless([entry.version for entry in log], floor)
    check_once(entry.write_id for entry in log)
    check_acknowledged(appends, log, floor)
    check_refused(appends, log)
    check_writer_order(log)
    check_real_time(appends, reads)


def check_gapless(versions: Sequence[int], floor: int = 0) -> None:
    """The versions are floor + 1, floor + 2, … without a gap or a repetition."""
    for expected, version in enumerate(versions, floor + 1):
        if version != expected:
            raise Violation("gapless", "the log has a gap or a repeated version", expected=expected, actual=version)


def check_once(write_ids: Iterable[str]) -> None:
    """No write took effect twice."""
    seen: set[str] = set()
    for write_id in write_ids:
        if write_id in seen:
            raise Violation("once", "a write stands in the log twice", write_id=write_id)
        seen.add(write_id)


def check_acknowledged(appends: Iterable[CheckedAppend], log: Iterable[LoggedEntry], floor: int = 0) -> None:
    """What was acknowledged above the floor stands where it was said to stand."""
    standing = {entry.version: entry.write_id for entry in log}
    for append in appends:
        if append.outcome is Answered.ACKNOWLEDGED and append.version > floor:
            logged = standing.get(append.version)
            if logged != append.write_id:
                raise Violation("acknowledged", "an acknowledged write is lost", append=append, actual=logged)


def check_refused(appends: Iterable[CheckedAppend], log: Iterable[LoggedEntry]) -> None:
    """What was refused for certain does not stand in the log."""
    standing = {entry.write_id: entry.version for entry in log}
    for append in appends:
        if append.outcome is Answered.REFUSED and append.write_id in standing:
            raise Violation("refused", "a refused write took effect", append=append, actual=standing[append.write_id])


def check_writer_order(log: Iterable[LoggedEntry]) -> None:
    """The writes of one writer stand in the order in which it issued them."""
    newest: dict[str, int] = {}
    for entry in log:
        if entry.number <= newest.get(entry.writer, -1):
            raise Violation("writer-order", "a writer's writes changed places", entry=entry, after=newest[entry.writer])
        newest[entry.writer] = entry.number


def check_real_time(appends: Iterable[CheckedAppend], reads: Iterable[HeadRead]) -> None:
    """What was answered before another call was sent is older than what that call answers."""
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
                "an answer is older than one given before it was asked",
                step=moment,
                version=version,
                established=established,
            )
