"""Waiting writers of a hosted index write a mark. Busy writers read the mark and pause. A lone writer pays little."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from bench.turns import Load, compete, main
from stratalog.backends import hosted_turns
from stratalog.backends.hosted_turns import HostedTurns
from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.clock import SystemClock
from stratalog.errors import Closed, ConditionFailed, Unavailable
from stratalog.keys import (
    MARK_SORT,
    entries_partition,
    log_prefix,
    number,
    record_key,
    record_partition,
    snapshots_partition,
    turn_partition,
    waiting_partition,
)
from stratalog.log import Environment, Event, create_log, open_log
from stratalog.log.lifecycle import delete_log
from stratalog.log.sweep import sweep_deleted
from stratalog.ports.index import Absent, Item, Put
from stratalog.records import Records
from stratalog.testing.clock import ManualClock
from stratalog.testing.index_contract import IndexContract
from tests.threads import SECONDS_MAX, run_together

PREFIX = log_prefix("acme", "plan", "i1")
ENTRIES = entries_partition(PREFIX, 1)
WAITING = waiting_partition(PREFIX)
COMMIT_MS = 10


class Slow(MemoryIndex):
    """An index that records its gets and commits. Each call takes 10 ms."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock = clock
        self.call_ms = COMMIT_MS
        self.calls: list[tuple[str, str]] = []
        self.fails = False

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        self._pass("get", partition)
        return super().get(partition, sort)

    def commit(self, writes, blobs=hosted_turns.NO_BLOBS) -> None:  # type: ignore[no-untyped-def]
        self._pass("commit", writes[0].item.partition if isinstance(writes[0], Put) else "")
        super().commit(writes, blobs)

    def marks(self) -> list[str]:
        return [what for what, partition in self.calls if partition == WAITING]

    def _pass(self, what: str, partition: str) -> None:
        self.calls.append((what, partition))
        self.clock.sleep(self.call_ms / 1000)
        if self.fails and partition == WAITING:
            raise Unavailable("scripted")


class Writer:
    """A simulated process that writes. The process reads the head again only in the turn after a lost race."""

    def __init__(self, index: Slow, scale_min: float = 1.0) -> None:
        self.index = index
        self.looks: list[Callable[[], None]] = []
        self.turns = HostedTurns(index, index.clock, self.looks.append, scale_min=scale_min)
        self.head = 0

    def put(self) -> bool:
        """Try one append. Return whether it succeeded."""
        try:
            self.turns.commit([Put(Item(ENTRIES, number(self.head + 1), {"n": 1}), Absent())])
        except ConditionFailed:
            return False
        self.head += 1
        return True

    def read(self) -> None:
        last = next(self.index.query(ENTRIES, reverse=True, limit=1), None)
        self.head = int(last.sort) if last else 0

    def look(self) -> None:
        """Run the reads of marks that commits have scheduled."""
        for look in self.looks:
            look()
        self.looks.clear()

    def wait(self) -> bool:
        """Take the turn after a lost race. Return whether the index waited or wrote the mark."""
        with self.turns.turn(PREFIX) as has_turn:
            self.read()
        return has_turn


@pytest.fixture
def index() -> Slow:
    return Slow(ManualClock())


@pytest.fixture(autouse=True)
def nobody_waits() -> Iterator[None]:
    """Delete this thread's record of its wait. All tests run in one thread, and must not see each other's waits."""
    hosted_turns._waiting.set(None)
    yield
    hosted_turns._waiting.set(None)


def as_others(act: Callable[[], object]) -> None:
    """Run ``act`` in another thread, as another writer does."""
    run_together([act])


def mark(index: Slow, id: str) -> None:
    MemoryIndex.commit(index, [Put(Item(WAITING, MARK_SORT, {"i": id}))])


def write_repeatedly(writer: Writer, commits: int = 6) -> None:
    for _ in range(commits):
        assert writer.put()
        writer.look()


class TestContract(IndexContract):
    def make(self) -> HostedTurns:
        return HostedTurns(MemoryIndex(), SystemClock())


def test_only_logs_and_records_have_turns() -> None:
    record = record_partition("acme", record_key("plan/1"))
    assert turn_partition(entries_partition(PREFIX, 10_001)) == PREFIX
    assert turn_partition(record) == record
    for other in (PREFIX, snapshots_partition(PREFIX), waiting_partition(PREFIX), waiting_partition(record), "p"):
        assert turn_partition(other) is None


def test_a_busy_writer_reads_the_mark_every_50_to_70_ms(index: Slow) -> None:
    writer = Writer(index)
    begun = index.clock.boot_ms()
    write_repeatedly(writer, 60)
    passed = index.clock.boot_ms() - begun
    assert passed / 70 <= len(index.marks()) <= passed / 50 + 1
    assert set(index.marks()) == {"get"}


def test_a_writer_that_commits_every_200_ms_never_reads_the_mark(index: Slow) -> None:
    writer = Writer(index)
    for _ in range(10):
        index.clock.sleep(0.2)
        write_repeatedly(writer, 1)
    assert index.marks() == []


def test_a_new_mark_pauses_a_busy_writer_once_for_up_to_100_ms(index: Slow) -> None:
    writer = Writer(index)
    write_repeatedly(writer)
    mark(index, "new")
    write_repeatedly(writer)
    gets = [partition for what, partition in index.calls if what == "get" and partition == ENTRIES]
    assert 4 <= len(gets) <= 100 / COMMIT_MS
    write_repeatedly(writer, 20)
    assert len([partition for what, partition in index.calls if (what, partition) == ("get", ENTRIES)]) == len(gets)


@pytest.mark.parametrize(("scale_min", "looks"), [(1.0, 4), (0.2, 20), (0.01, 20)])
def test_a_lower_minimum_scale_makes_a_writer_of_a_fast_index_read_the_mark_more_often(
    index: Slow, scale_min: float, looks: int
) -> None:
    index.call_ms = 2
    writer = Writer(index, scale_min)
    write_repeatedly(writer, 60)  # until the estimate of a round trip is 2 ms
    index.calls.clear()
    begun = index.clock.boot_ms()
    while index.clock.boot_ms() - begun < 200:
        write_repeatedly(writer, 1)
    assert looks - 4 <= len(index.marks()) <= looks + 1


def test_a_writer_pauses_for_a_shorter_time_on_a_fast_index(index: Slow) -> None:
    index.call_ms = 2
    writer = Writer(index, 0.2)
    write_repeatedly(writer, 60)
    writer.turns._traffic[PREFIX].stop = True
    begun = index.clock.boot_ms()
    assert writer.put()
    assert 20 <= index.clock.boot_ms() - begun <= 30


def test_a_waiting_writer_of_a_fast_index_writes_the_mark_earlier(index: Slow) -> None:
    index.call_ms = 2
    writer, other = Writer(index, 0.2), Writer(index, 0.2)
    other.turns._round_trip_ms = writer.turns._round_trip_ms = 2.0
    lose_for(writer, other, 0.004)
    assert index.marks() == []
    lose_for(writer, other, 0.012)
    assert index.marks() == ["get", "commit"]


def test_a_pause_ends_without_a_commit_if_another_writer_takes_the_position(index: Slow) -> None:
    writer = Writer(index)
    write_repeatedly(writer)
    mark(index, "new")
    while not writer.turns._traffic[PREFIX].stop:
        write_repeatedly(writer, 1)
    sent = index.calls.count(("commit", ENTRIES))
    item = Item(ENTRIES, number(writer.head + 1), {"n": 2})
    MemoryIndex.commit(index, [Put(item, Absent())])
    begun = index.clock.boot_ms()
    with pytest.raises(ConditionFailed) as failed:
        writer.turns.commit([Put(Item(ENTRIES, item.sort, {"n": 1}), Absent())])
    assert failed.value.items == {0: item}
    assert index.calls.count(("commit", ENTRIES)) == sent
    assert index.clock.boot_ms() - begun < 30


def test_a_writer_without_recent_commits_does_not_pause(index: Slow) -> None:
    writer = Writer(index)
    write_repeatedly(writer)
    mark(index, "new")
    write_repeatedly(writer, 5)
    writer.turns._traffic[PREFIX].stop = True
    index.clock.sleep(1)
    begun = index.clock.boot_ms()
    assert writer.put()
    assert index.clock.boot_ms() - begun == COMMIT_MS


def test_a_writer_waits_up_to_two_round_trips_once_after_a_lost_race(index: Slow) -> None:
    writer, other = Writer(index), Writer(index)
    assert not writer.wait()
    as_others(lambda: other.put())
    assert not writer.put()
    index.clock.random = lambda: 0.999  # type: ignore[method-assign]
    begun = index.clock.boot_ms()
    assert writer.wait()
    assert 0 < index.clock.boot_ms() - begun <= 2 * COMMIT_MS
    assert not writer.wait()  # one turn for each lost race
    assert index.marks() == []


def lose_for(writer: Writer, other: Writer, seconds: float) -> None:
    """Lose every race for ``seconds``."""
    ends = writer.index.clock.boot_ms() + 1000 * seconds
    while writer.index.clock.boot_ms() < ends:
        as_others(lambda: (other.read(), other.put()))
        assert not writer.put()
        writer.wait()


def test_a_writer_that_lost_two_races_and_waited_40_ms_writes_the_mark(index: Slow) -> None:
    writer, other = Writer(index), Writer(index)
    lose_for(writer, other, 0.03)
    assert index.marks() == []
    lose_for(writer, other, 0.07)
    assert index.marks() == ["get", "commit"]


def test_a_writer_with_recent_commits_waits_250_ms_before_it_writes_the_mark(index: Slow) -> None:
    writer, other = Writer(index), Writer(index)
    write_repeatedly(writer, 2)
    write_repeatedly(writer, 6)
    index.calls.clear()
    lose_for(writer, other, 0.2)
    assert "commit" not in index.marks()
    lose_for(writer, other, 0.15)
    assert "commit" in index.marks()


def test_a_writer_does_not_replace_a_new_mark_of_another_waiter(index: Slow) -> None:
    writer, other = Writer(index), Writer(index)
    mark(index, "of another waiter")
    lose_for(writer, other, 0.1)
    assert index.marks() == ["get"]
    lose_for(writer, other, 0.1)
    assert index.marks() == ["get", "get", "commit"]


def test_a_writer_does_not_pause_for_its_own_mark(index: Slow) -> None:
    writer, other = Writer(index), Writer(index)
    lose_for(writer, other, 0.1)
    writer.read()
    begun = index.clock.boot_ms()
    write_repeatedly(writer, 30)
    looks = len(index.marks()) - 2
    assert looks > 3
    assert index.clock.boot_ms() - begun == COMMIT_MS * (30 + looks)


def test_a_known_mark_that_a_late_read_returns_again_counts_as_known(index: Slow) -> None:
    writer = Writer(index)
    traffic = writer.turns._traffic_of(PREFIX)
    assert [traffic.learn(id) for id in ("a", "b", "a", "b")] == [True, True, False, False]


def test_threads_of_a_process_pause_for_each_other(index: Slow) -> None:
    writer, other = Writer(index), Writer(index)
    write_repeatedly(writer)
    index.clock.sleep(2)

    def wait_in_vain() -> None:
        sibling = Writer(index)
        sibling.turns = writer.turns
        lose_for(sibling, other, 0.1)

    as_others(wait_in_vain)
    writer.read()
    writer.turns._traffic[PREFIX].wins_ms = (index.clock.boot_ms(),) * 5
    begun = index.clock.boot_ms()
    assert writer.put()
    assert index.clock.boot_ms() - begun >= 100


def test_writers_continue_if_marks_can_be_neither_read_nor_written(index: Slow) -> None:
    writer, other = Writer(index), Writer(index)
    index.fails = True
    lose_for(writer, other, 0.2)
    writer.read()
    write_repeatedly(writer, 20)
    assert "commit" not in index.marks()


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_a_commit_succeeds_although_no_thread_can_be_started(index: Slow, error: Exception) -> None:
    tried: list[object] = []

    def none(look: Callable[[], None]) -> None:
        tried.append(look)
        raise error

    writer = Writer(index)
    writer.turns = HostedTurns(index, index.clock, none)
    write_repeatedly(writer, 20)
    assert tried


def test_closing_the_index_waits_for_a_read_of_a_mark() -> None:
    reached, answered = threading.Event(), threading.Event()

    class Stuck(MemoryIndex):
        def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
            reached.set()
            answered.wait(SECONDS_MAX)
            return None

    turns = HostedTurns(Stuck(), SystemClock())
    for version in range(1, 200):
        turns.commit([Put(Item(ENTRIES, number(version), {}), Absent())])
        if reached.is_set():
            break
    assert reached.wait(SECONDS_MAX)
    closing = threading.Thread(target=turns.close, daemon=True)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive(), "the index closed during a read of a mark"
    answered.set()
    closing.join(SECONDS_MAX)
    assert not closing.is_alive()
    assert not [thread for thread in threading.enumerate() if thread.name == "stratalog-look"]
    with pytest.raises(Closed):
        turns.commit([Put(Item(ENTRIES, number(1000), {}), Absent())])


def test_sweeping_a_deleted_log_deletes_its_mark(index: Slow) -> None:
    environment = Environment(HostedTurns(index, index.clock), MemoryBlobs(index.clock), index.clock)
    log = create_log(environment, "acme", "plan")
    log.append(Event("step", 1))
    partition = waiting_partition(log.record.prefix)
    MemoryIndex.commit(index, [Put(Item(partition, MARK_SORT, {"i": "a"}))])
    delete_log(log)
    index.clock.sleep(3600)
    assert sweep_deleted(environment, "acme") == 1
    assert list(index.query(partition)) == []


def test_a_writer_that_loses_races_for_a_record_writes_the_mark_of_the_record(index: Slow) -> None:
    """Another process puts between each read and each put of our process, so our process writes the record's mark."""
    turns = HostedTurns(index, index.clock, lambda look: None)
    ours = Records(Environment(turns, MemoryBlobs(index.clock), index.clock), "acme")
    theirs = Records(Environment(index, MemoryBlobs(index.clock), index.clock), "acme")
    theirs.put("r", b"0")
    partition = record_partition("acme", record_key("r"))
    real, rivals = index.commit, iter(range(8))

    def commit(writes, *blobs):  # type: ignore[no-untyped-def]
        ours_goes = isinstance(writes[0], Put) and writes[0].item.partition == partition
        if ours_goes and (rival := next(rivals, None)) is not None:
            index.commit = real  # type: ignore[method-assign]
            theirs.put("r", b"theirs %d" % rival)
            index.commit = commit  # type: ignore[method-assign]
        real(writes, *blobs)

    index.commit = commit  # type: ignore[method-assign]
    ours.put("r", b"ours")
    assert MemoryIndex.get(index, waiting_partition(partition), MARK_SORT) is not None


# These simulations of the whole protocol use the log's own code, and compare ratios and round trips in simulated time.


def test_turns_cost_a_lone_writer_up_to_3_percent_of_its_speed_and_0_05_units_per_commit() -> None:
    load = Load(busy=1)
    with_turns, before = compete(load, 60), compete(load, 60, turns=False)
    assert with_turns.commits_per_second >= 0.97 * before.commits_per_second
    assert before.units == pytest.approx(1, abs=0.005)
    assert with_turns.units <= 1.05


@pytest.mark.parametrize(("busy", "round_trips"), [(1, 20), (3, 40)])
def test_a_writer_of_a_commit_per_second_waits_few_round_trips_among_busy_writers(busy: int, round_trips: int) -> None:
    outcome = compete(Load(busy=busy, seldom=1), 60)
    assert outcome.seldom_round_trips <= round_trips
    assert outcome.failed == 0


@pytest.mark.parametrize(("busy", "round_trips"), [(1, 30), (3, 100)])
def test_a_writer_of_a_mutation_per_second_waits_few_round_trips_among_busy_writers(
    busy: int, round_trips: int
) -> None:
    outcome = compete(Load(busy=busy, seldom=1, document=True), 30)
    assert outcome.seldom_round_trips <= round_trips
    assert outcome.share <= 3
    assert outcome.failed == 0


def test_without_turns_a_writer_of_a_commit_per_second_waits_over_200_round_trips() -> None:
    assert compete(Load(busy=1, seldom=1), 60, turns=False).seldom_round_trips > 200


def test_of_two_busy_writers_neither_commits_more_than_twice_as_often() -> None:
    outcome = compete(Load(busy=2), 30)
    assert outcome.share <= 2
    assert outcome.failed == 0


def test_crashed_waiters_cost_a_busy_writer_less_than_5_percent_of_its_commits() -> None:
    lone, crashed = compete(Load(busy=1), 60), compete(Load(busy=1, crashes=True), 60)
    assert crashed.commits_per_second > 0.95 * lone.commits_per_second
    seldom = compete(Load(busy=1, seldom=1, crashes=True), 60)
    assert seldom.seldom_round_trips <= 25


def test_no_commit_of_64_busy_writers_fails() -> None:
    outcome = compete(Load(busy=64), 12, seeds=(1,))
    assert outcome.failed == 0
    assert outcome.share <= 3


def test_the_program_for_the_figures_of_turns_prints_22_lines(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick"])
    assert len(capsys.readouterr().out.splitlines()) == 22


def test_two_handles_in_a_process_alternate_appends_to_a_log_without_a_mark(index: Slow) -> None:
    environment = Environment(HostedTurns(index, index.clock), MemoryBlobs(index.clock), index.clock)
    log = create_log(environment, "acme", "plan")
    other = open_log(environment, "acme", "plan")
    for _ in range(5):
        log.append(Event("step", 1))
        other.append(Event("step", 1))
    assert log.head().version == 10
    assert ("commit", waiting_partition(log.record.prefix)) not in index.calls
