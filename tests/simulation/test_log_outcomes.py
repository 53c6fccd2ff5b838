"""The checks of answers about heads, forks and floors, against the journal of an index in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from stratalog.backends.memory import MemoryBlobs
from stratalog.errors import VersionForgotten
from stratalog.log import Environment, Log, LogSettings, create_log, delete_log, fork_log
from stratalog.log.retention import raise_floor
from stratalog.ports.index import NO_BLOBS, Write
from stratalog.testing.checkers import Violation
from stratalog.testing.clock import ManualClock
from tests.log.helpers import NAME, ORGANISATION, ScriptedIndex, event
from tests.simulation.log_outcomes import Change, check_changes
from tests.simulation.log_truth import Answer, Truth, check_answers


class JournalIndex(ScriptedIndex):
    """An index with a journal of its commits."""

    def __init__(self) -> None:
        super().__init__()
        self.journal: list[Sequence[Write]] = []

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        super().commit(writes, blobs)
        self.journal.append(writes)


class Calls:
    """Calls on a log with ten versions, in segments of two."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.index = JournalIndex()
        environment = Environment(self.index, MemoryBlobs(clock), clock, LogSettings(segment_entries_target=2))
        self.changes: list[Change] = []
        create = self._change("create", NAME)
        self.log = create.run(lambda: create_log(environment, ORGANISATION, NAME))
        create.prefix = self.log.record.prefix
        self.fill(self.log, 10)

    def fill(self, log: Log, count: int) -> None:
        for number in range(count):
            log.append(event(), write_id=f"{log.record.name}.{number}")

    def fork(self, source: Log, name: str, at: int) -> Log:
        change = self._change("fork", name, source=source.record.prefix)
        change.value = at
        forked = change.run(lambda: fork_log(source, name, at))
        change.prefix = forked.record.prefix
        return forked

    def refuse_fork(self, source: Log, at: int) -> None:
        """Record a fork whose error says that the version is forgotten."""
        change = self._change("fork", "refused", source=source.record.prefix)
        change.value = at

        def refuse() -> None:
            raise VersionForgotten("the version is no longer kept", floor=at + 1)

        with pytest.raises(VersionForgotten):
            change.run(refuse)

    def raise_floor(self, log: Log, version: int) -> int:
        change = self._change("floor", log.record.name, log.record.prefix)
        change.value = change.run(lambda: raise_floor(log, version))
        return change.value

    def check(self) -> None:
        check_changes(self.changes, Truth(self.index.journal))

    def _change(self, kind: str, name: str, prefix: str = "", source: str = "") -> Change:
        self.changes.append(Change(kind, (ORGANISATION, name), lambda: len(self.index.journal), prefix, source))
        return self.changes[-1]


def test_a_version_below_the_floor_of_a_log_or_an_ancestor_was_forgotten() -> None:
    calls = Calls()
    fork = calls.fork(calls.log, "fork", 8)
    calls.fill(fork, 2)
    assert calls.raise_floor(calls.log, 6) == 6
    assert calls.raise_floor(fork, 3) == 6
    for source in (calls.log, fork):
        with pytest.raises(VersionForgotten):
            calls.fork(source, "refused", 5)
    calls.check()


def test_an_error_that_reports_a_retained_version_as_forgotten_is_a_violation() -> None:
    calls = Calls()
    fork = calls.fork(calls.log, "fork", 8)
    assert calls.raise_floor(calls.log, 6) == 6
    calls.refuse_fork(fork, 6)
    with pytest.raises(Violation, match="was reported as forgotten"):
        calls.check()


def test_a_floor_that_rises_after_the_call_does_not_justify_the_error_of_the_call() -> None:
    calls = Calls()
    calls.refuse_fork(calls.log, 5)
    assert calls.raise_floor(calls.log, 6) == 6
    with pytest.raises(Violation, match="was reported as forgotten"):
        calls.check()


def test_the_floor_of_an_ancestor_forgets_only_the_versions_that_the_ancestor_holds() -> None:
    calls = Calls()
    middle = calls.fork(calls.log, "middle", 8)
    calls.fill(middle, 4)
    fork = calls.fork(middle, "fork", 12)
    assert calls.raise_floor(middle, 8) == 8
    calls.refuse_fork(fork, 5)
    with pytest.raises(Violation, match="was reported as forgotten"):
        calls.check()


def test_a_head_returned_by_a_call_after_the_deletion_of_the_log_is_a_violation() -> None:
    calls = Calls()
    prefix, sent = calls.log.record.prefix, len(calls.index.journal)
    delete_log(calls.log)
    answered = len(calls.index.journal)
    truth = Truth(calls.index.journal)
    check_answers([Answer(prefix, sent, answered, 10)], truth)
    with pytest.raises(Violation):
        check_answers([Answer(prefix, answered, answered, 10)], truth)
