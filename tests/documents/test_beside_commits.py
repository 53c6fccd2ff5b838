"""Commits continue while a snapshot is due or is being taken, even if the blob store is unavailable."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stratalog
from stratalog.documents.snapshot_schedule import BACKOFF
from stratalog.errors import Unavailable
from stratalog.log import open_log
from stratalog.log.snapshots import list_snapshots
from stratalog.log.tasks import BackgroundTasks, InlineTasks
from stratalog.testing.clock import ManualClock
from tests.documents.helpers import World, inc, put

INTERVAL = 5
COMMIT_SECONDS = 0.1
AWAY_SECONDS = 600


class HeldTasks(InlineTasks):
    """Background tasks that run only when the test calls `run`, or when a caller joins them."""

    def __init__(self) -> None:
        self.held: list[Callable[[], None]] = []
        self.pauses = 0

    def pause(self) -> None:
        self.pauses += 1

    def offer(self, work: Callable[[], None]) -> HeldTasks:
        self.held.append(work)
        return self

    def run(self) -> None:
        held, self.held = self.held, []
        for work in held:
            work()

    join = run


@pytest.mark.parametrize("kind", [BackgroundTasks, InlineTasks])
def test_closed_background_tasks_run_no_more_work(kind: type[BackgroundTasks] | type[InlineTasks]) -> None:
    tasks, run = kind(), list[str]()
    begun = tasks.offer(lambda: run.append("before"))
    assert begun is not None
    tasks.close()
    assert tasks.offer(lambda: run.append("after")) is None
    assert run == ["before"]


def snapshots(document: stratalog.Document) -> list[int]:
    log = document.log
    return [snapshot.version for snapshot in list_snapshots(log.environment.index, log.record.prefix)]


def test_small_commits_continue_while_the_blob_store_is_unavailable_and_a_snapshot_is_due() -> None:
    world = World(snapshot_entries_interval=INTERVAL)
    tasks = world.environment.background = HeldTasks()
    document = world.create()
    document.apply([put(f"c/{n}", "x" * 900) for n in range(50)])

    def away(name: str, target: str) -> None:
        if name.startswith("blob"):
            world.clock.sleep(10)
            raise Unavailable("the blob store is away")

    world.recorder.before = away
    document.apply([inc()])
    began_ms, longest, attempts = world.clock.wall_ms(), 0, 0
    while world.clock.wall_ms() - began_ms < AWAY_SECONDS * 1000:
        before = world.watched()
        at_ms = world.clock.wall_ms()
        document.apply([inc(), put(f"own/{world.clock.wall_ms()}", "new")])
        longest = max(longest, world.clock.wall_ms() - at_ms)
        assert [name for name, _ in before.calls] == ["commit"]
        world.clock.sleep(COMMIT_SECONDS)
        attempts += len(tasks.held)
        tasks.run()
    assert longest == 0
    assert 2 <= attempts <= 60
    assert snapshots(document) == []
    world.recorder.before = None
    world.clock.sleep(BACKOFF.wait_seconds_max)
    document.apply([inc()])
    tasks.run()
    assert snapshots(document) == [document.version]
    assert document.at().to_dict() == world.open().at().to_dict()


def test_the_cost_of_a_commit_does_not_grow_without_snapshots() -> None:
    document = World(snapshot_entries_interval=10**9).create()
    copied: list[int] = []
    for n in range(3000):
        document.apply([put(f"c/{n}", n)])
        copied.append(sum(len(run.slots) for run in document.state().content._runs[:1]))
    assert len(document.state().content._runs) <= 4
    assert sum(copied[-1000:]) <= 3 * sum(copied[:1000])


def test_commits_continue_during_a_background_snapshot_and_close_waits_for_the_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(snapshot_entries_interval=INTERVAL)
    tasks = world.environment.background = BackgroundTasks()
    document = world.create()
    document.apply([put(f"c/{n}", "x" * 900) for n in range(50)])
    reached, released = threading.Event(), threading.Event()

    def hold(name: str, target: str) -> None:
        if threading.current_thread() is not threading.main_thread():
            reached.set()
            assert released.wait(30)

    world.recorder.before = hold
    for _ in range(2 * INTERVAL):
        document.apply([inc()])
    assert reached.wait(30)
    for _ in range(3 * INTERVAL):
        document.apply([inc()])
    assert snapshots(document) == []
    join = threading.Thread.join

    def release_and_join(thread: threading.Thread) -> None:
        released.set()
        join(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "join", release_and_join)
        tasks.close()
    world.recorder.before = None
    assert len(snapshots(document)) == 1
    document.apply([inc()])
    assert len(snapshots(document)) == 1


def test_a_snapshot_lets_commits_run_after_each_chunk() -> None:
    world = World(snapshot_entries_interval=1)
    tasks = world.environment.background = HeldTasks()
    document = world.create()
    document.apply([put(f"c/{n:04}", "x" * 900) for n in range(1000)])
    tasks.run()
    writes, tasks.pauses = document.chunks.writes, 0
    document.apply([put(f"c/{n:04}", "y") for n in range(0, 1000, 10)])
    tasks.run()
    assert tasks.pauses >= document.chunks.writes - writes > 10


def test_a_pause_of_a_background_task_is_a_sleep_of_less_than_a_millisecond() -> None:
    slept = []

    class Watched(ManualClock):
        def sleep(self, seconds: float) -> None:
            slept.append(seconds)

    BackgroundTasks(clock=Watched()).pause()
    assert len(slept) == 1
    assert 0 < slept[0] < 0.001


def test_background_tasks_accept_a_bounded_number_of_unfinished_offers() -> None:
    tasks, released = BackgroundTasks(offers_max=2), threading.Event()

    def wait() -> None:
        released.wait(30)

    assert [tasks.offer(wait) is not None for _ in range(4)] == [True, True, False, False]
    released.set()
    tasks.wait()
    assert tasks.offer(released.set)
    tasks.close()
    assert not tasks.offer(released.set)


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_an_offer_is_refused_where_the_system_has_no_thread_left(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise error

    tasks = BackgroundTasks(offers_max=1)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert [tasks.offer(lambda: None) for _ in range(2)] == [None, None]
    monkeypatch.undo()
    assert tasks.offer(lambda: None)
    tasks.close()


def test_an_offer_interrupted_before_its_thread_starts_uses_no_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    tasks = BackgroundTasks(offers_max=1)
    monkeypatch.setattr(threading.Thread, "start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        tasks.offer(lambda: None)
    monkeypatch.undo()
    tasks.wait()
    assert tasks.offer(lambda: None)
    tasks.close()


def test_close_waits_for_a_thread_whose_offer_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, released, ended = BackgroundTasks(offers_max=1), threading.Event(), list[str]()
    begin, join = threading.Thread.start, threading.Thread.join

    def begin_and_interrupt(thread: threading.Thread) -> None:
        begin(thread)
        raise KeyboardInterrupt

    def release_and_join(thread: threading.Thread) -> None:
        released.set()
        join(thread)

    def work() -> None:
        released.wait(30)
        ended.append("work")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", begin_and_interrupt)
        with pytest.raises(KeyboardInterrupt):
            tasks.offer(work)
    assert tasks.offer(work) is None
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "join", release_and_join)
        tasks.close()
    released.set()
    assert ended == ["work"]


def test_a_single_threaded_program_has_its_snapshots_after_the_store_is_closed(tmp_path: Path) -> None:
    url = str(tmp_path)
    with stratalog.open(url, settings=stratalog.LogSettings(snapshot_entries_interval=INTERVAL)) as store:
        document = store.create("acme", "plan")
        for _ in range(INTERVAL):
            document.mutate("inc", {"key": "n"})
    with stratalog.open(url) as store:
        assert snapshots(store.document("acme", "plan")) == [INTERVAL]


def test_the_documents_of_a_store_share_one_cache_of_chunks() -> None:
    world = World(snapshot_entries_interval=10**9)
    for name in ("one", "two"):
        document = world.create(name)
        document.apply([put(f"c/{n}", "x" * 900) for n in range(200)])
        document.snapshot()
    environment = world.open_environment()
    assert environment.chunk_cache.held_bytes == 0
    handles = [stratalog.Document(open_log(environment, "acme", name)) for name in ("one", "two")]
    held = []
    for handle in (*handles, *handles):
        assert sum(1 for _ in handle.scan()) == 200
        held.append(environment.chunk_cache.held_bytes)
    assert 0 < held[0] < held[1] == held[2] == held[3]


def test_reading_the_owner_of_a_group_does_not_scan_all_clients() -> None:
    document = World(snapshot_entries_interval=10**9).create()
    for n in range(20):
        document.apply([inc(client=f"c{n}-{m}", id=1) for m in range(100)], group=f"g{n}", owner="ann")
    state, looked = document.state(), 0

    class Keys(list[str]):
        def __getitem__(self, position: Any) -> Any:
            nonlocal looked
            looked += 1
            return super().__getitem__(position)

        def __iter__(self) -> Iterator[str]:
            return (self[position] for position in range(len(self)))

    for run in state.clients._runs:
        run._keys = Keys(sorted(run.slots))
    assert state.group_owner("new") is None
    assert state.group_owner("g7") == "ann"
    assert 0 < looked <= 100
