"""Checks of the answers about creations, forks, deletions and raised floors, against the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from stratalog.errors import Conflict, NotFound, OutcomeUnknown, StratalogError, VersionForgotten
from stratalog.testing.checkers import Answered, Violation
from tests.simulation.log_truth import LogTruth, Truth

__all__ = ["Change", "check_changes"]

T = TypeVar("T")
CREATIONS = ("create", "fork")


class Change:
    """The caller's view of one call that creates, forks or deletes a log, or raises its floor.

    ``moment`` returns the number of commits that have taken effect. ``outcome`` is None until the answer arrives, and
    stays None if the caller's process ends first. ``value`` is the version at which a log was forked, or the floor in
    the answer.
    """

    def __init__(
        self, kind: str, name: tuple[str, str], moment: Callable[[], int], prefix: str = "", source: str = ""
    ) -> None:
        self.kind = kind
        self.name = name
        self.prefix = prefix
        self.source = source
        """The prefix of the log that a call forks."""

        self.value = 0
        self.outcome: Answered | None = None
        self.error: StratalogError | None = None
        self.sent = moment()
        self.answered = 0
        self._moment = moment

    def run(self, action: Callable[[], T]) -> T:
        """Make the call and record its outcome. Raises the call's errors."""
        try:
            result = action()
        except StratalogError as exc:
            self._note(Answered.UNKNOWN if isinstance(exc, OutcomeUnknown) else Answered.REFUSED)
            self.error = exc
            raise
        self._note(Answered.ACKNOWLEDGED)
        return result

    def may_have(self, moment: int) -> bool:
        """Return whether the call's commit may have taken effect at ``moment``, according to the call's outcome.

        A floor may have risen even if the call raised NotFound, because another call may delete the log before the
        answer.
        """
        gone = self.kind == "floor" and type(self.error) is NotFound
        if self.outcome is Answered.ACKNOWLEDGED or gone:
            return self.sent < moment <= self.answered
        return self.outcome is not Answered.REFUSED and self.sent < moment

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} {self.value} {self.outcome} {self.error!r} {self.sent}..{self.answered}>"

    def _note(self, outcome: Answered) -> None:
        self.outcome, self.answered = outcome, self._moment()


def check_changes(changes: Sequence[Change], truth: Truth) -> None:
    """Check that each answer fits the journal, and that a call explains each creation, deletion and raised floor."""
    for change in changes:
        if change.outcome is Answered.ACKNOWLEDGED:
            _check_done(change, truth.logs[change.prefix])
        elif change.outcome is Answered.REFUSED:
            _check_refused(change, truth)
    _check_creations(changes, truth)
    for prefix, log in truth.logs.items():
        of_log = [change for change in changes if change.prefix == prefix]
        if log.deleted is not None:
            _require_cause("delete", log.deleted, prefix, of_log)
        for moment, _ in log.floors:
            _require_cause("floor", moment, prefix, of_log)


def _check_done(change: Change, log: LogTruth) -> None:
    """Check that an acknowledged call took effect during the call."""
    if change.kind in CREATIONS:
        if not change.sent < log.created <= change.answered:
            raise Violation("created", "an acknowledged creation did not happen during its call", change=change)
        if change.kind == "fork" and log.first != change.value + 1:
            raise Violation("created", "a fork starts at the wrong version", change=change, first=log.first)
    elif change.kind == "delete":
        if log.deleted is None or not change.sent < log.deleted <= change.answered:
            raise Violation("deleted", "an acknowledged deletion did not happen during its call", change=change)
    # The floor of a fork can be the floor of an ancestor, below the fork's own first version.
    elif not log.floor_at(change.sent) <= change.value <= max(log.floor_at(change.answered), log.first - 1):
        raise Violation("floor", "a returned floor was not valid at any time during the call", change=change)


def _check_refused(change: Change, truth: Truth) -> None:
    """Check that the journal justifies the error of a refused call at some moment of the call."""
    if change.kind in CREATIONS and type(change.error) is Conflict and not _was_taken(change, truth):
        raise Violation("created", "a creation failed although the name was free", change=change)
    if change.kind == "delete" and isinstance(change.error, NotFound):
        deleted = truth.logs[change.prefix].deleted
        if deleted is None or deleted > change.answered:
            raise Violation("deleted", "a call reported an existing log as deleted", change=change)
    if change.kind == "fork" and isinstance(change.error, VersionForgotten) and not _was_forgotten(change, truth):
        raise Violation("created", "a version at or above the floor was reported as forgotten", change=change)


def _was_forgotten(change: Change, truth: Truth) -> bool:
    """Return whether the version to fork was below the floor, or may have been swept with the deleted log."""
    deleted = truth.logs[change.source].deleted
    is_deleted = deleted is not None and deleted <= change.answered
    return is_deleted or change.value < truth.floor_at(change.source, change.answered)


def _was_taken(change: Change, truth: Truth) -> bool:
    return any(log.name == change.name and log.lived(change.sent, change.answered) for log in truth.logs.values())


def _check_creations(changes: Iterable[Change], truth: Truth) -> None:
    """Check that each log was created by a call that was acknowledged or whose outcome is unknown."""
    calls = [change for change in changes if change.kind in CREATIONS]
    known = {change.prefix for change in calls if change.outcome is Answered.ACKNOWLEDGED}
    unsure = [change for change in calls if change.outcome in (None, Answered.UNKNOWN)]
    for prefix, log in truth.logs.items():  # the logs are in the order of their creation
        if prefix not in known:
            cause = next((call for call in unsure if call.name == log.name and call.may_have(log.created)), None)
            if cause is None:
                raise Violation(
                    "created",
                    "no acknowledged or unanswered call explains the creation of a log",
                    log=prefix,
                    moment=log.created,
                )
            unsure.remove(cause)


def _require_cause(kind: str, moment: int, prefix: str, of_log: Iterable[Change]) -> None:
    if not any(change.kind == kind and change.may_have(moment) for change in of_log):
        checker = "deleted" if kind == "delete" else "floor"
        raise Violation(
            checker, f"no acknowledged or unanswered call explains this change: {kind}", log=prefix, moment=moment
        )
