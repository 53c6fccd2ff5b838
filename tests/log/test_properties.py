"""After operations in any order, a log reads like a plain list."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stratalog.errors import NotFound, VersionConflict
from stratalog.log import Log, create_log, delete_log, fork_log, open_log
from stratalog.log.retention import archive_segments, free_segments, raise_floor
from stratalog.log.sweep import sweep_deleted
from tests.log.helpers import (
    NAME,
    ORGANISATION,
    another,
    clock_of,
    data,
    event,
    lost_answer,
    lost_request,
    new_environment,
    scripted,
    unavailable,
)

FORK = "fork"


class LogMachine(RuleBasedStateMachine):
    """One log with a handle in each of two processes, a fork of the log, and the operations on both."""

    def __init__(self) -> None:
        super().__init__()
        self.environment = new_environment(segment_entries_target=3, body_inline_bytes_max=64)
        self.number = 0
        self.floor = 0
        self.model: list[str] = []
        self.fork: list[str] | None = None
        self.fork_floor = 0
        create_log(self.environment, ORGANISATION, NAME)
        self.handles = self.open()

    def open(self) -> list[Log]:
        return [open_log(another(self.environment), ORGANISATION, NAME) for _ in range(2)]

    def text(self) -> str:
        self.number += 1
        return str(self.number) * (40 if self.number % 5 == 0 else 1)

    @rule(which=st.integers(0, 1), mishaps=st.lists(st.sampled_from([lost_answer, lost_request, unavailable])))
    def append(self, which: int, mishaps: list[object]) -> None:
        text = self.text()
        scripted(self.handles[which].environment).script = mishaps[:4]  # type: ignore[assignment]
        assert self.handles[which].append(event(text)).version == len(self.model) + 1
        self.model.append(text)
        scripted(self.handles[which].environment).script = []

    @rule(which=st.integers(0, 1), expected=st.integers(0, 12))
    def append_expecting(self, which: int, expected: int) -> None:
        text, handle = self.text(), self.handles[which]
        expected = max(expected, self.floor)
        if expected == len(self.model):
            handle.append(event(text), expected=expected)
            self.model.append(text)
            return
        with pytest.raises(VersionConflict) as caught:
            handle.append(event(text), expected=expected)
        assert caught.value.details["actual"] == len(self.model)

    @rule(which=st.integers(0, 1))
    def archive(self, which: int) -> None:
        archive_segments(self.handles[which])

    @rule(which=st.integers(0, 1))
    def free(self, which: int) -> None:
        free_segments(self.handles[which])
        sweep_deleted(self.environment, ORGANISATION)

    @rule(seconds=st.sampled_from([1, 200, 700]))
    def wait(self, seconds: int) -> None:
        clock_of(self.environment).sleep(seconds)

    @rule(share=st.floats(0, 1))
    def forget(self, share: float) -> None:
        self.floor = raise_floor(self.handles[0], int(share * len(self.model)))

    @precondition(lambda self: self.fork is None)
    @rule(share=st.floats(0, 1))
    def make_fork(self, share: float) -> None:
        at = max(self.floor, int(share * len(self.model)))
        fork_log(self.handles[0], FORK, at)
        self.fork, self.fork_floor = self.model[:at], self.floor

    @precondition(lambda self: self.fork is not None)
    @rule()
    def append_to_fork(self) -> None:
        assert self.fork is not None
        text = self.text()
        self.fork.append(text)
        open_log(self.environment, ORGANISATION, FORK).append(event(text))

    @rule()
    def delete(self) -> None:
        delete_log(self.handles[0])
        stale = self.handles[1]
        create_log(self.environment, ORGANISATION, NAME)
        self.handles, self.model = self.open(), []
        if self.fork is not None:
            self.fork_floor = max(self.fork_floor, self.floor)
            delete_log(open_log(self.environment, ORGANISATION, FORK))
            self.fork = None
        self.floor = 0
        with pytest.raises(NotFound):
            stale.append(event())

    @invariant()
    def the_log_reads_as_the_list(self) -> None:
        for log in [*self.handles, open_log(another(self.environment), ORGANISATION, NAME)]:
            assert data(log, self.floor) == self.model[self.floor :]

    @invariant()
    def the_fork_reads_as_its_list(self) -> None:
        if self.fork is not None:
            floor = max(self.fork_floor, min(self.floor, len(self.fork)))
            assert data(open_log(another(self.environment), ORGANISATION, FORK), floor) == self.fork[floor:]


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=60, stateful_step_count=40)
