"""Many changes start a snapshot of a table, commits continue during it, and the changes in memory are bounded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stratalog
from apps.table.tests.helpers import memory_store, new_file, reopened, table_of
from stratalog import Store
from stratalog.documents import verify
from stratalog.errors import Unavailable
from stratalog.log.snapshots import list_snapshots
from stratalog.log.tasks import BackgroundTasks
from stratalog_table import Table, open_table, transaction_group

WEIGHT = 16
BATCH = 4
"""The number of files of one commit. Each file has the weight two: one for the file, and one for its reference."""


class Later:
    """A replacement for background threads. It runs the offered work only when a caller waits for the work."""

    def __init__(self) -> None:
        self.begun = 0
        self.done = 0
        self._work: list[Callable[[], None]] = []

    def offer(self, work: Callable[[], None]) -> Later:
        self.begun += 1
        self._work.append(work)
        return self

    def pause(self) -> None:
        pass

    def join(self) -> None:
        for work in self._work:
            work()
            self.done += 1
        self._work.clear()

    wait = join


def snapshots(table: Table) -> list[int]:
    log = table.document.log
    return [snapshot.version for snapshot in list_snapshots(log.environment.index, log.record.prefix)]


def load(table: Table, first: int, commits: int) -> None:
    for number in range(first, first + commits):
        table.add_files([new_file(f"{number:03}/{position}") for position in range(BATCH)])


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    monkeypatch.setattr(transaction_group, "SNAPSHOT_WEIGHT", WEIGHT)
    return Later()


def slowly(store: Store, later: Any) -> Table:
    store.environment.background = later
    return table_of(store)


def test_commits_continue_during_a_snapshot_until_the_same_amount_has_changed_again(later: Later) -> None:
    table = slowly(memory_store(), later)
    rounds = WEIGHT // BATCH // 2
    for turn in range(1, 5):
        load(table, turn * rounds, rounds)
        assert (later.begun, later.done) == (turn, turn - 1)
    assert len(table.at().files(0).files) == 4 * rounds * BATCH


def test_the_changes_in_memory_that_wait_for_a_snapshot_are_bounded(later: Later) -> None:
    table = slowly(memory_store(), later)
    for number in range(20):
        load(table, number, 1)
        state = table.document.state()
        waiting = [key for key in state.content.changes() if key.startswith("file")]
        assert len(waiting) <= WEIGHT
    later.wait()
    assert table.document.state().snapshot_version == max(snapshots(table))
    assert reopened(table).at().files(0) == table.at().files(0)
    verify(table.document)


def test_commits_wait_for_a_snapshot_when_no_background_task_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_group, "SNAPSHOT_WEIGHT", WEIGHT)
    table = slowly(memory_store(), BackgroundTasks(offers_max=0))
    load(table, 0, WEIGHT // BATCH // 2)
    assert snapshots(table) == [table.document.version]


def test_a_failed_background_snapshot_fails_no_commit_and_a_later_snapshot_succeeds(
    later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = slowly(memory_store(), later)
    put = table.store.environment.blobs.put

    def refuse(key: str, body: bytes) -> None:
        raise Unavailable("scripted")

    load(table, 0, 10)
    made = snapshots(table)
    assert later.begun > later.done
    monkeypatch.setattr(table.store.environment.blobs, "put", refuse)
    later.wait()
    monkeypatch.setattr(table.store.environment.blobs, "put", put)
    load(table, 10, 10)
    later.wait()
    assert len(snapshots(table)) > len(made)
    assert len(table.at().files(0).files) == 20 * BATCH
    verify(table.document)


def test_closing_a_store_waits_for_a_running_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_group, "SNAPSHOT_WEIGHT", WEIGHT)
    gate, join = threading.Event(), threading.Thread.join

    def release_and_join(thread: threading.Thread, timeout: float | None = None) -> None:
        gate.set()
        join(thread, timeout)

    with stratalog.open(tmp_path) as store:
        table = table_of(store)
        snapshot = table.document.snapshot

        def wait_first() -> int:
            gate.wait()
            return snapshot()

        monkeypatch.setattr(table.document, "snapshot", wait_first)
        load(table, 0, 3)
        assert snapshots(table) == []
        monkeypatch.setattr(threading.Thread, "join", release_and_join)  # The snapshot ends only once close waits.
    with stratalog.open(tmp_path) as store:
        assert len(snapshots(open_table(store, "acme", "events"))) == 1
