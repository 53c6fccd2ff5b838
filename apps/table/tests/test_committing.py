"""Commits: threads that share entries, lost answers, the queue, and the collection of files and of the log."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import stratalog
from apps.table.tests.helpers import assignment, memory_store, new_file, reopened, replacement, rows_held, table_of
from stratalog import Conflict, LimitExceeded, OutcomeUnknown, StratalogError, Unavailable
from stratalog.backends.memory import MemoryIndex
from stratalog.clock import Observation
from stratalog.documents import Document
from stratalog.errors import QueueFull, QuotaExceeded
from stratalog.ports.index import NO_BLOBS
from stratalog.testing.clock import ManualClock
from stratalog.worker.worker import Worker
from stratalog_table import RULES, NewFile, Table, TransactionRefused
from stratalog_table.limits import LATE_SECONDS_MAX
from stratalog_table.queue_path import TableQueue
from stratalog_table.transaction_group import TRANSACTIONS_PER_CALL_MAX, CommittedTransaction, Request
from tests.threads import run_together

WRITERS = 64
DAY_SECONDS = 86_400


def add(filename: str, partition: str = "root") -> Request:
    return Request(
        "add_files", {"files": [{"filename": filename, "references": [{"partition": partition, "rows": 1}]}]}
    )


def expire_idle(table: Table) -> int:
    """Forget the clients of groups that were idle for 30 days, as maintenance does. Return their number."""
    return table.document.expire_clients(table.store.environment.clock.wall_ms() - 30 * DAY_SECONDS * 1000)


def test_threads_share_log_entries_and_each_thread_gets_its_own_outcome(tmp_path: Path) -> None:
    with stratalog.open(tmp_path) as store:
        table = table_of(store)
        answers: list[Any] = []

        def write(writer: int) -> None:
            for n in range(8):
                try:
                    answers.append(table.add_files([new_file(f"{writer}/{n}")]))
                    table.add_files([new_file(f"{writer}/{n}")])
                except TransactionRefused as exc:
                    answers.append(exc.kind)

        run_together(partial(write, writer) for writer in range(WRITERS))
        assert answers.count("file-already-exists") == WRITERS * 8 == len(answers) / 2
        assert table.version < WRITERS * 16
        assert len(table.at().files(0).files) == WRITERS * 8


def test_an_unencodable_transaction_does_not_fail_concurrent_transactions(tmp_path: Path) -> None:
    with stratalog.open(tmp_path) as store:
        table = table_of(store)
        errors: list[Exception] = []

        def write(args: Any) -> None:
            try:
                table.commit([Request("add_files", args)])
            except Exception as exc:  # noqa: BLE001 - checked below
                errors.append(exc)

        good = [{"files": [{"filename": f"{n}"}]} for n in range(20)]
        run_together(partial(write, args) for args in [*good, {"files": float("nan")}])
        assert [type(error).__name__ for error in errors] == ["Invalid"]
        assert len(table.at().files(100).files) == 20


class Losing(MemoryIndex):
    """An index whose next ``out`` commits fail, and that loses the answers of the next ``lost`` commits."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = 0
        self.out = 0

    def commit(self, writes: Any, blobs: Any = NO_BLOBS) -> None:
        if self.out:
            self.out -= 1
            raise Unavailable("no index today")
        super().commit(writes, blobs)
        if self.lost:
            self.lost -= 1
            raise OutcomeUnknown("the answer was lost")


def test_a_transaction_with_a_lost_answer_is_recognised_and_committed_once() -> None:
    index = Losing()
    table = table_of(memory_store(index=index, append_seconds_max=0.0))
    index.lost = 1
    version = table.add_files([new_file("a")])
    assert (version, table.version) == (2, 2)
    index.lost = 1
    with pytest.raises(TransactionRefused, match="File already exists: a"):
        table.add_files([new_file("a")])
    assert table.version == 3


def test_a_commit_is_retried_while_the_store_is_briefly_unavailable() -> None:
    index = Losing()
    table = table_of(memory_store(index=index, append_seconds_max=0.0))
    index.out = 5
    assert table.add_files([new_file("a")]) == 2
    index.out = 100_000
    with pytest.raises(Unavailable):
        table.add_files([new_file("b")])
    index.out = 0
    assert table.add_files([new_file("c")]) == 3


def test_the_number_of_transactions_per_call_is_limited() -> None:
    table = table_of(memory_store())
    with pytest.raises(LimitExceeded):
        table.commit([add("a")] * (TRANSACTIONS_PER_CALL_MAX + 1))
    table.add_files([new_file(str(n)) for n in range(1200)])
    table.assign_job_ids([assignment(f"job-{n}", str(n)) for n in range(1200)])
    version = table.version
    table.replace_file_references([replacement(f"job-{n}", str(n)) for n in range(1200)])
    assert table.version == version + 3
    assert [*table.at().jobs()] == []


def test_a_worker_commits_or_refuses_each_queued_transaction_separately() -> None:
    store = memory_store()
    store.rules = RULES
    first_table, second_table = table_of(store, "one"), table_of(store, "other")
    queue, background = TableQueue(first_table), TableQueue(second_table)
    first = queue.send([add("a"), add("a"), add("b", "nowhere")])
    second = queue.send([add("c")])
    third = background.send([add("a")])
    assert [queue.outcome(ticket) for ticket in first] == [None, None, None]
    Worker(store).run(drain=True)
    reasons = [queue.wait(ticket, 1).reason for ticket in first]
    assert reasons == [None, "File already exists: a", "Partition not found: nowhere"]
    assert queue.wait(second[0], 1).reason is None
    assert background.wait(third[0], 1).reason is None
    assert first_table.at().files_by_partition() == {"root": ["a", "c"]}
    assert second_table.at().files_by_partition() == {"root": ["a"]}


def test_an_empty_or_too_large_message_is_not_queued() -> None:
    store = memory_store()
    store.rules = RULES
    queue = TableQueue(table_of(store))
    assert queue.send([]) == []
    Worker(store).run(drain=True)
    assert queue.send([add("a")])[0].id == 1
    with pytest.raises(LimitExceeded):
        queue.send([add("a")] * (TRANSACTIONS_PER_CALL_MAX + 1))
    assert queue.send([add("b")])[0].id == 2


def test_transactions_queued_by_many_senders_share_log_entries() -> None:
    store = memory_store()
    store.rules = RULES
    table = table_of(store)
    began, queues = table.version, [TableQueue(table) for _ in range(32)]
    tickets = [queue.send([add(f"file-{number // 2}")])[0] for number, queue in enumerate(queues)]
    Worker(store).run(drain=True)
    done = [queue.wait(ticket, 1) for queue, ticket in zip(queues, tickets, strict=True)]
    assert [outcome.reason for outcome in done] == [
        text for number in range(16) for text in (None, f"File already exists: file-{number}")
    ]
    assert table.version - began < len(queues) / 4


def test_new_senders_can_send_after_the_idle_senders_were_collected() -> None:
    clock = ManualClock()
    store = memory_store(clock)
    store.rules = RULES
    table = table_of(store)
    for number, expired in enumerate([0, 0, 1, 1]):
        queue = TableQueue(table)
        (ticket,) = queue.send([add(f"file-{number}")])
        Worker(store).run(drain=True)
        assert queue.wait(ticket, 1).reason is None
        assert expire_idle(table) == expired
        clock.sleep(40 * DAY_SECONDS)
        table.clear_files()


def test_a_sender_continues_after_its_idle_group_was_collected() -> None:
    clock = ManualClock()
    store = memory_store(clock)
    store.rules = RULES
    table = table_of(store)
    queue, other = TableQueue(table), TableQueue(table)
    tickets = []
    for sender in (queue, other, queue):
        tickets += sender.send([add(f"file-{len(tickets)}")])
        Worker(store).run(drain=True)
        assert sender.wait(tickets[-1], 1) == CommittedTransaction(table.version)
        expire_idle(table)
        clock.sleep(40 * DAY_SECONDS)
        table.set_retention(len(tickets))
    assert [ticket.id for ticket in tickets] == [1, 1, 1]
    assert len({ticket.client for ticket in tickets}) == 3


def test_a_transaction_that_waits_while_its_idle_group_is_old_is_applied() -> None:
    clock = ManualClock()
    store = memory_store(clock)
    store.rules = RULES
    table = table_of(store)
    queue = TableQueue(table)
    queue.send([add("first")])
    Worker(store).run(drain=True)
    (ticket,) = queue.send([add("second")])
    clock.sleep(100 * DAY_SECONDS)
    table.set_retention(1)
    assert expire_idle(table) == 0
    (later,) = queue.send([add("third")])
    assert expire_idle(table) == 0
    Worker(store).run(drain=True)
    assert [queue.wait(each, 1).reason for each in (ticket, later)] == [None, None]
    clock.sleep(40 * DAY_SECONDS)
    table.set_retention(2)
    assert expire_idle(table) == 1


def test_a_sender_that_begins_while_messages_wait_reuses_no_number() -> None:
    store = memory_store()
    store.rules = RULES
    table = table_of(store)
    tickets = [ticket for name in ("a", "b") for ticket in TableQueue(table).send([add(name)])]
    Worker(store).run(drain=True)
    assert [TableQueue(table).wait(ticket, 1).reason for ticket in tickets] == [None, None]
    assert table.at().files_by_partition() == {"root": ["a", "b"]}


def test_a_message_that_was_queued_too_late_is_not_acknowledged() -> None:
    clock = ManualClock()
    store = memory_store(clock)
    store.rules = RULES
    table, send = table_of(store), store.queue.send
    queue = TableQueue(table)

    def send_late(days: float, group: str, bodies: list[bytes]) -> None:
        clock.sleep(days * DAY_SECONDS)
        table.set_retention(int(days))
        send(group, bodies)

    store.queue.send = partial(send_late, 7)  # type: ignore[method-assign]
    queue.send([add("a")])
    store.queue.send = partial(send_late, 14)  # type: ignore[method-assign]
    begun = Observation(clock)
    with pytest.raises(OutcomeUnknown, match="too late"):
        queue.send([add("b")])
    assert begun.age_seconds() - 14 * DAY_SECONDS == pytest.approx(LATE_SECONDS_MAX, abs=2)


def test_a_message_to_a_table_with_recent_commits_costs_three_requests() -> None:
    meter = stratalog.Meter()
    with stratalog.open("memory:", rules=RULES, meter=meter) as store:
        queue = TableQueue(table_of(store))
        queue.send([add("a")])
        before = meter.total("requests")
        queue.send([add("b")])
        assert meter.total("requests") - before == 3  # the state, the message, and the log's time after it


def test_a_message_to_a_table_that_was_idle_for_weeks_is_acknowledged_although_a_worker_commits_it_at_once() -> None:
    clock = ManualClock()
    store = memory_store(clock)
    store.rules = RULES
    table, send = table_of(store), store.queue.send
    clock.sleep(30 * DAY_SECONDS)
    first, second = TableQueue(table), TableQueue(table)

    def send_and_work(group: str, bodies: list[bytes]) -> None:
        store.queue.send = send  # type: ignore[method-assign]
        second.send([add("b")])
        send(group, bodies)
        Worker(store).run(drain=True)

    store.queue.send = send_and_work  # type: ignore[method-assign]
    (ticket,) = first.send([add("a")])
    assert first.wait(ticket, 1).reason is None
    assert table.at().files_by_partition() == {"root": ["a", "b"]}


@pytest.mark.parametrize(
    "error", [OutcomeUnknown("simulated"), KeyboardInterrupt()], ids=lambda raised: type(raised).__name__
)
def test_a_sender_continues_with_another_client_after_a_message_in_doubt(error: BaseException) -> None:
    store = memory_store()
    store.rules = RULES
    table = table_of(store)
    queue, send = TableQueue(table), store.queue.send

    def send_without_an_answer(group: str, bodies: list[bytes]) -> None:
        send(group, bodies)
        raise error

    store.queue.send = send_without_an_answer  # type: ignore[method-assign]
    with pytest.raises(type(error)):
        queue.send([add("a")])
    store.queue.send = send  # type: ignore[method-assign]
    (ticket,) = queue.send([add("b")])
    Worker(store).run(drain=True)
    assert queue.wait(ticket, 1).reason is None
    assert table.at().files_by_partition() == {"root": ["a", "b"]}


def test_a_large_transaction_goes_through_the_queue() -> None:
    store = memory_store()
    store.rules = RULES
    table = table_of(store)
    queue = TableQueue(table)
    files = [{"filename": f"data/{n:06}", "references": [{"partition": "root", "rows": 1}]} for n in range(10_000)]
    (ticket,) = queue.send([Request("add_files", {"files": files})])
    Worker(store).run(drain=True)
    assert queue.wait(ticket, 1).reason is None
    assert rows_held(table) == 10_000
    assert queue.send([add("next")])[0].id == 2


def test_a_worker_without_table_mutators_leaves_transactions_for_another_worker() -> None:
    clock = ManualClock()
    store = memory_store(clock)
    queue = TableQueue(table_of(store))
    (ticket,) = queue.send([add("a")])
    failures: list[str] = []
    bare = Worker(store, report_failure=lambda message, reason: failures.append(reason))
    for _ in range(3):
        while bare.step():
            pass
        clock.sleep(400)
    assert queue.outcome(ticket) is None
    assert "lacks a mutator of the push" in failures[0]
    store.document("acme", "events").rules = RULES
    Worker(store).run(drain=True)
    assert queue.wait(ticket, 1).reason is None


@pytest.mark.parametrize(
    "later",
    [Unavailable("simulated"), QueueFull("simulated"), QuotaExceeded("simulated")],
    ids=lambda raised: raised.code,
)
def test_a_push_in_doubt_stays_in_doubt_though_a_later_attempt_fails(later: StratalogError) -> None:
    store = memory_store()
    store.rules = RULES
    table = table_of(store)
    queue, send = TableQueue(table), store.queue.send
    attempts: list[int] = []

    def queued_without_an_answer(group: str, bodies: list[bytes]) -> None:
        attempts.append(len(bodies))
        if len(attempts) > 1:
            raise later
        send(group, bodies)
        raise OutcomeUnknown("simulated")

    store.queue.send = queued_without_an_answer  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown):
        queue.send([add("a")])
    assert len(attempts) > 1
    Worker(store).run(drain=True)
    assert len(table.at().files(0).files) == 1


def test_a_push_that_is_committed_before_its_next_attempt_is_accepted() -> None:
    store = memory_store()
    store.rules = RULES
    queue, send = TableQueue(table_of(store)), store.queue.send

    def committed_without_an_answer(group: str, bodies: list[bytes]) -> None:
        send(group, bodies)
        Worker(store).run(drain=True)
        raise OutcomeUnknown("simulated")

    store.queue.send = committed_without_an_answer  # type: ignore[method-assign]
    (ticket,) = queue.send([add("a")])
    assert queue.wait(ticket, 1).reason is None


def test_a_message_of_a_group_that_was_collected_is_refused() -> None:
    store = memory_store()
    store.rules = RULES
    table = table_of(store)
    queue = TableQueue(table)
    queue.send([add("a")])
    Worker(store).run(drain=True)
    group, _ = table.document.state().binding(queue.send([add("b")])[0].client) or ("", "")
    table.document.collect_clients([], [group])
    with pytest.raises(Conflict, match="collected"):
        queue.send([add("c")])


@pytest.mark.parametrize(
    "later", [Unavailable("simulated"), LimitExceeded("simulated")], ids=lambda raised: raised.code
)
def test_a_batch_in_doubt_stays_in_doubt_though_a_later_attempt_fails(
    later: StratalogError, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(memory_store(ManualClock()))
    apply, attempts = Document.apply, []

    def committed_without_an_answer(document: Document, mutations: Any, **names: Any) -> Any:
        attempts.append(mutations)
        if len(attempts) > 1:
            raise later
        apply(document, mutations, **names)
        raise OutcomeUnknown("simulated")

    monkeypatch.setattr(Document, "apply", committed_without_an_answer)
    with pytest.raises(OutcomeUnknown):
        table.add_files([new_file("a")])
    assert len(attempts) > 1
    assert len(table.at().files(0).files) == 1


def test_waiting_for_an_absent_worker_ends_with_an_error_after_the_timeout() -> None:
    table = table_of(memory_store())
    queue = TableQueue(table)
    (ticket,) = queue.send([add("a")])
    with pytest.raises(Unavailable, match="no worker"):
        queue.wait(ticket, 5)


def test_only_files_unreferenced_before_the_given_time_are_collected() -> None:
    clock = ManualClock()
    table = table_of(memory_store(clock))
    table.add_files([NewFile("a"), new_file("b"), new_file("c")])
    clock.sleep(10)
    table.assign_job_ids([assignment("job", "b")])
    table.replace_file_references([replacement("job", "b", output="d")])
    lost = table.changed_ms(table.version)
    clock.sleep(10)
    assert [*table.unreferenced_before(lost)] == ["a"]
    assert [*table.unreferenced_before(lost + 1)] == ["a", "b"]
    names = table.unreferenced_before(lost + 1)
    for name in names:
        table.delete_files([name])
    assert [file.filename for file in table.at().files(10).files] == ["c", "d"]


def test_no_file_is_collected_for_a_time_whose_versions_are_forgotten() -> None:
    clock = ManualClock()
    table = table_of(memory_store(clock, segment_entries_target=4, snapshot_entries_interval=4))
    table.add_files([NewFile("a")])
    for n in range(10):
        clock.sleep(10)
        table.add_files([new_file(str(n))])
    long_ago = table.changed_ms(6)
    table.forget_below(8)
    assert [*table.unreferenced_before(long_ago)] == []
    assert [*table.unreferenced_before(table.changed_ms(9) + 1)] == ["a"]


def test_forgetting_versions_preserves_the_state_of_the_table() -> None:
    table = table_of(memory_store(segment_entries_target=4, snapshot_entries_interval=4))
    for n in range(20):
        table.add_files([new_file(str(n))])
    before = table.at().file_references()
    assert table.forget_below(15) == 15
    other: Table = reopened(table)
    assert other.at().file_references() == before
    assert other.snapshot() == other.version
