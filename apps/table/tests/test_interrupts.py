"""The leader is the thread that commits for other threads. An interrupt of the leader is raised in no other thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

import pytest

from apps.table.tests.helpers import memory_store, table_of
from stratalog import OutcomeUnknown, Unavailable
from stratalog.group_commit import GroupCommit, PendingCommit
from stratalog_table import Table
from stratalog_table.transaction_group import Committer, PendingTransaction, Request
from tests.interrupts import Interrupter, ends_of

LEADING = (
    *(Committer._serve, Committer._gather, Committer._commit, Committer._apply, Committer._retried),
    *(GroupCommit.take, PendingCommit.send, PendingCommit.settle),
)


def add(filename: str) -> Request:
    return Request("add_files", {"files": [{"filename": filename, "references": [{"partition": "root", "rows": 1}]}]})


def committer_of(table: Table) -> Committer:
    return table._committer


def together(
    committer: Committer, names: Sequence[str], prepare: Callable[[], object] = lambda: None
) -> dict[str, Any]:
    """Return the results of commits by threads that share one batch. The first thread is the leader."""
    calls = {name: partial(committer.commit, [add(name)]) for name in names}
    return ends_of(committer._group_commit, PendingTransaction([]), calls, prepare)


@pytest.mark.parametrize("committed", [False, True])
def test_threads_that_share_the_batch_of_an_interrupted_leader_get_outcome_unknown(committed: bool) -> None:
    table = table_of(memory_store())
    committer, document = committer_of(table), committer_of(table)._document
    apply = document.apply

    def interrupted(*args: Any, **options: Any) -> Any:
        del document.apply
        if committed:
            apply(*args, **options)
        raise KeyboardInterrupt

    def prepare() -> None:
        document.apply = interrupted  # type: ignore[method-assign]

    ends = together(committer, ["leader", "second", "third"], prepare)
    assert isinstance(ends["leader"], KeyboardInterrupt)
    assert isinstance(ends["second"], OutcomeUnknown)
    assert isinstance(ends["third"], OutcomeUnknown)
    assert ends["second"] is not ends["third"]
    (answer,) = committer.commit([add("after")])
    assert (answer.reason, answer.version) == (None, table.version)
    assert len(table.at().files(9).files) == (4 if committed else 1)


def test_the_next_leader_commits_a_batch_that_an_interrupted_leader_did_not_send() -> None:
    table = table_of(memory_store())
    committer = committer_of(table)
    gather = committer._gather

    def interrupted(batch: list[PendingTransaction]) -> None:
        del committer._gather
        gather(batch)
        raise KeyboardInterrupt

    def prepare() -> None:
        committer._gather = interrupted  # type: ignore[method-assign]

    ends = together(committer, ["leader", "second", "third"], prepare)
    assert isinstance(ends["leader"], KeyboardInterrupt)
    assert [answer.reason for name in ("second", "third") for answer in ends[name]] == [None, None]
    assert len(table.at().files(9).files) == 2


def test_threads_that_share_a_failed_batch_raise_separate_errors() -> None:
    table = table_of(memory_store())
    committer, document = committer_of(table), committer_of(table)._document

    def prepare() -> None:
        def fail(*args: Any, **options: Any) -> Any:
            raise Unavailable("no index today")

        document.apply = fail  # type: ignore[method-assign]

    ends = together(committer, ["leader", "second"], prepare)
    assert all(isinstance(error, Unavailable) for error in ends.values())
    assert ends["leader"] is not ends["second"]


@pytest.mark.usefixtures("untraced")
def test_an_interrupt_of_the_leader_at_any_step_loses_no_call_and_repeats_no_commit() -> None:
    for step in count():
        table = table_of(memory_store())
        interrupter = Interrupter(step, LEADING)
        with interrupter.active():
            ends = together(committer_of(table), ["leader", "second", "third"])
        committed = [
            file["filename"]
            for version in table.document.versions(1)
            for m in version.mutations
            for file in m.args["files"]
        ]
        assert len(committed) == len(set(committed)), step
        for name, end in ends.items():
            if isinstance(end, KeyboardInterrupt):
                assert name == interrupter.victim, step
            elif not isinstance(end, OutcomeUnknown):
                assert ([answer.reason for answer in end], name in committed) == ([None], True), step
        if interrupter.victim is None:
            break
    assert step > 100
