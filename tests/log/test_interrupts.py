"""An interrupt of the leader fails only the leader's own append."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count
from types import FunctionType

import pytest

from stratalog.errors import Corrupt, StratalogError
from stratalog.group_commit import GroupCommit
from stratalog.log import Entry, Log
from stratalog.log.append import Appender, LogAppend
from stratalog.log.conditional_append import ConditionalAppend
from stratalog.log.pending_entry import PendingEntry, draw_ids, prepare_entry
from stratalog.ports.index import Write
from tests.interrupts import Interrupter, ends_of
from tests.log.helpers import Mishap, ScriptedIndex, data, event, lost_answer, new_log, scripted
from tests.threads import join_all, start_all, until

LEADING = (
    *(Appender._serve, Appender._fill, Appender._run, GroupCommit.take, PendingEntry.settle, draw_ids),
    # `interrupt` records an interrupt. These tests cover no second interrupt during a call of `interrupt`.
    *(
        each
        for machine in (ConditionalAppend, LogAppend)
        for name, each in vars(machine).items()
        if isinstance(each, FunctionType) and name != "interrupt"
    ),
)


class Group:
    """Threads that append the events ``names`` in one shared commit. The first thread is the leader."""

    def __init__(self, log: Log, names: Sequence[str], mishap: Mishap) -> None:
        self.ends: dict[str, object] = {}
        self._log = log
        group_commit = log._appender._group_commit
        held = prepare_entry(log.environment, log.record.owner, [event("held")])
        threads = []

        def gather(_: object) -> None:
            for waiting, name in enumerate(names, 1):
                threads.extend(start_all([partial(self._append, name)]))
                until(lambda count=waiting: len(group_commit.waiting) == count)  # type: ignore[misc]
            scripted(log.environment).script = [mishap]

        group_commit.commit(held, gather)
        join_all(threads)

    def _append(self, name: str) -> None:
        try:
            self.ends[name] = self._log.append(event(name)).version
        except BaseException as exc:  # noqa: BLE001 - the test looks at any error
            self.ends[name] = exc


def interrupted_before(index: ScriptedIndex, writes: Sequence[Write]) -> None:
    raise KeyboardInterrupt


def interrupted_after(index: ScriptedIndex, writes: Sequence[Write]) -> None:
    index.backend.commit(writes)
    raise KeyboardInterrupt


def out_of_memory(index: ScriptedIndex, writes: Sequence[Write]) -> None:
    raise MemoryError


def damaged(index: ScriptedIndex, writes: Sequence[Write]) -> None:
    raise Corrupt("scripted", cause="test")


@pytest.mark.parametrize("mishap", [interrupted_before, interrupted_after, out_of_memory])
def test_appends_queued_behind_an_interrupted_leader_are_written_once(mishap: Mishap) -> None:
    log = new_log()
    group = Group(log, ["leader", "second", "third"], mishap)
    assert isinstance(group.ends["leader"], KeyboardInterrupt | MemoryError)
    stored = data(log)
    assert [stored[version - 1] for version in (group.ends["second"], group.ends["third"])] == ["second", "third"]  # type: ignore[operator]
    assert len(stored) == len(set(stored))


def test_the_next_leader_recognises_entries_that_an_interrupted_leader_committed() -> None:
    log = new_log()
    group = Group(log, ["leader", "second", "third"], interrupted_after)
    assert (group.ends["second"], group.ends["third"]) == (2, 3)
    assert data(log) == ["leader", "second", "third"]


def test_after_a_lost_answer_and_an_interrupt_the_next_leader_recognises_the_commit() -> None:
    log = new_log()
    clock = log.environment.clock

    def interrupt(seconds: float) -> None:
        del clock.sleep  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    clock.sleep = interrupt  # type: ignore[method-assign]
    group = Group(log, ["leader", "second"], lost_answer)
    assert isinstance(group.ends["leader"], KeyboardInterrupt)
    assert group.ends["second"] == 2
    assert data(log) == ["leader", "second"]


@pytest.mark.usefixtures("untraced")
def test_an_interrupt_at_any_step_of_a_leader_fails_no_other_append() -> None:
    for step in count():
        log, interrupter = new_log(), Interrupter(step, LEADING)
        held = prepare_entry(log.environment, log.record.owner, [event("held")])
        calls = {name: partial(log.append, event(name)) for name in ("leader", "second", "third")}
        with interrupter.active():
            ends = ends_of(log._appender._group_commit, held, calls)
        stored = data(log)
        assert len(stored) == len(set(stored)), step
        if interrupter.victim is not None:
            assert isinstance(ends.pop(interrupter.victim), KeyboardInterrupt), step
        assert all(stored[entry.version - 1] == name for name, entry in ends.items()), step
        if interrupter.victim is None:
            break
    assert step > 100


def test_each_append_of_a_failed_shared_commit_raises_its_own_error_object() -> None:
    group = Group(new_log(), ["leader", "second", "third"], damaged)
    errors = [group.ends[name] for name in ("leader", "second", "third")]
    assert all(isinstance(error, Corrupt) and error.details == {"cause": "test"} for error in errors)
    assert len(set(map(id, errors))) == 3


def test_an_append_settled_before_its_leader_is_interrupted_returns_its_version() -> None:
    log = new_log()
    settle, interrupts = PendingEntry.settle, [KeyboardInterrupt]

    def interrupted(self: PendingEntry, entry: Entry) -> None:
        if self.events[0].data == "third" and interrupts:
            raise interrupts.pop()
        settle(self, entry)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PendingEntry, "settle", interrupted)
        group = Group(log, ["leader", "second", "third"], lambda index, writes: index.backend.commit(writes))
    assert isinstance(group.ends["leader"], KeyboardInterrupt)
    assert (group.ends["second"], group.ends["third"]) == (2, 3)
    assert data(log) == ["leader", "second", "third"]


def test_a_copied_error_has_the_same_text_details_and_cause() -> None:
    cause = ValueError("why")
    error = StratalogError("failed", limit=3)
    error.__cause__ = cause
    copied = error.copy()
    assert copied is not error
    assert (str(copied), copied.details, copied.__cause__) == ("failed limit=3", {"limit": 3}, cause)
