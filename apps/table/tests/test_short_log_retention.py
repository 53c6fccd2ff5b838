"""A retention policy of the store that forgets the versions of a table before the table's files are old enough."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.table.tests.helpers import LONG, assignment, memory_store, new_file, refused, replacement, table_of
from apps.table.tests.test_data_files import made_of, numbered
from stratalog import MaintenancePolicy, RetentionPolicy, maintain
from stratalog.testing.clock import ManualClock
from stratalog_table import Table, TransactionRefused
from stratalog_table.application import app
from stratalog_table.collection import FileRights, Verdict, collect_as
from stratalog_table.data_folder import DataFile
from stratalog_table.maintenance import maintain_table
from stratalog_table.queries import TableView
from stratalog_table.rows import ingest
from stratalog_table.version_times import RecordTime, VersionTime, _thinned, known_by, newest_before

DAY = 86_400
DAY_MS = DAY * 1000
FORGET = MaintenancePolicy(documents=RetentionPolicy(retain_days=2))


class OwnedFiles(FileRights):
    """The rights of a table whose files are all its own, without a folder."""

    def __init__(self, *untracked: DataFile) -> None:
        self.untracked = untracked

    def verdict(self, filename: str) -> Verdict:
        return Verdict.DELETE

    def own_files(self, view: TableView) -> Iterator[DataFile]:
        return iter(self.untracked)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def table(clock: ManualClock) -> Table:
    """A table that keeps its files for eight days. The policy `FORGET` keeps its versions for about two days."""
    table = table_of(memory_store(clock, segment_entries_target=4, snapshot_entries_interval=4))
    table.set_retention(8)
    return table


def collected(table: Table, rights: OwnedFiles | None = None) -> list[str]:
    """Run the store's maintenance and a collection. Return the deleted files."""
    assert maintain(table.store, FORGET).failures == ()
    deleted: list[str] = []
    collect_as(table, rights or OwnedFiles(), deleted.append, 1000)
    return deleted


def merge(table: Table, day: int) -> None:
    """Add files and merge two of them, so that these two lose their references."""
    for number in range(4):
        table.add_files([new_file(f"{day}-{number}")])
    table.assign_job_ids([assignment(f"job-{day}", f"{day}-0", f"{day}-1")])
    table.replace_file_references([replacement(f"job-{day}", f"{day}-0", f"{day}-1")])


def test_files_are_collected_although_the_log_forgets_versions_before_the_files_are_old(
    table: Table, clock: ManualClock
) -> None:
    ages: list[int] = []
    for day in range(30):
        merge(table, day)
        clock.sleep(DAY)
        ages += [day + 1 - int(name.split("-")[0]) for name in collected(table)]
    assert table.version_before(clock.wall_ms() - 8 * DAY_MS) is None
    assert min(ages) >= 8
    assert max(ages) <= 8 * 4 / 3 + 1  # a pass each day, and times that are a quarter of their age apart
    assert len(ages) >= 2 * 18


def test_a_pass_with_the_application_forgets_no_version_that_the_table_keeps(table: Table, clock: ManualClock) -> None:
    table.store.rules = app.rules
    newest: list[int] = []
    for day in range(20):
        merge(table, day)
        newest.append(table.version)
        clock.sleep(DAY)
        collected(table)
        assert table.document.log.floor() <= (newest[day - 7] if day >= 7 else 0)
    assert table.document.log.floor() > newest[8]


def test_a_pass_with_the_application_keeps_no_versions_of_other_documents(table: Table, clock: ManualClock) -> None:
    plain = table.store.create("acme", "plain")
    for number in range(20):
        plain.put("table", number)
        clock.sleep(DAY)
    table.store.rules = app.rules
    assert maintain(table.store, FORGET).failures == ()
    assert plain.log.floor() > 10


def test_files_of_a_clear_stay_for_the_retained_time_although_the_log_has_forgotten_the_clear(
    table: Table, clock: ManualClock
) -> None:
    rights = OwnedFiles(DataFile("0-0", 0))  # written long before the clear
    merge(table, 0)
    table.clear_files()
    days = []
    for day in range(1, 14):
        merge(table, day)
        clock.sleep(DAY)
        if "0-0" in collected(table, rights):
            days.append(day)
            rights.untracked = ()
            assert table.document.log.floor() > 10
    assert len(days) == 1
    assert 8 < days[0] <= 12


def test_a_collection_records_times_only_while_the_log_has_forgotten_too_much(table: Table, clock: ManualClock) -> None:
    merge(table, 0)
    clock.sleep(9 * DAY)
    collected(table)
    merge(table, 1)
    version = table.version
    collected(table)
    assert table.at().times() == []
    clock.sleep(3 * DAY)
    merge(table, 2)
    before = table.version
    collected(table)
    assert before > version
    (time,) = table.at().times()
    assert time.time_ms == clock.wall_ms()
    recorded = table.version
    collected(table)
    assert table.at().times() == [time]
    assert table.version - recorded <= 2  # the entries that raise the floor


def test_a_recorded_time_of_a_clock_that_was_ahead_is_replaced(table: Table, clock: ManualClock) -> None:
    merge(table, 0)
    table._commit("record_time", RecordTime(table.version, clock.wall_ms() + 1000 * DAY_MS))
    for day in range(1, 16):
        merge(table, day)
        clock.sleep(DAY)
        collected(table)
    assert max(time.time_ms for time in table.at().times()) <= clock.wall_ms()
    assert table.at().file("0-0") is None


def test_a_time_of_an_older_version_changes_no_recorded_time(table: Table) -> None:
    table.record_time()
    known = table.at().times()
    table._commit("record_time", RecordTime(1, 5))
    assert table.at().times() == known
    with refused("malformed", "Malformed transaction: Expected `int` >= 1 - at `$.version`"):
        table._commit("record_time", RecordTime(0, 5))


def test_few_times_are_recorded_and_each_age_has_a_time_that_is_close_to_it() -> None:
    times: list[VersionTime] = []
    for hour in range(1, 20_000):
        times = _thinned([*times, VersionTime(hour, hour)])
    assert len(times) < 60
    for age in (1, 10, 100, 1000, 10_000):
        version = newest_before(times, 19_999 - age)
        assert age < 19_999 - version <= age * 4 / 3 + 2
        assert known_by(times, version) == version
    assert newest_before([], 5) == 0
    assert known_by(times, 20_000) is None


def test_a_pass_of_a_table_reads_its_finished_jobs_before_the_store_forgets_them(tmp_path: Path) -> None:
    table, data_files = made_of(tmp_path, LONG)
    ingest(table, data_files, numbered(0, 10), job="ingest")
    table.add_files([new_file("a")])
    with pytest.raises(TransactionRefused):
        table.replace_file_references([replacement("refused", "a")])
    maintain_table(table, data_files, rows_max=10**6, files_min=50, age_ms=1000)
    table.document.forget_below(table.version)
    assert [(job.job, job.status) for job in table.jobs.jobs()] == [("ingest", "ingested"), ("refused", "failed")]


def test_a_pass_of_a_table_lists_a_foreign_document_with_the_name_of_the_job_tracker(tmp_path: Path) -> None:
    table, data_files = made_of(tmp_path, LONG)
    table.store.create("acme", "events.jobs").mutate("put", {"key": "mine", "value": 1})
    report = maintain_table(table, data_files, rows_max=10**6, files_min=50, age_ms=1000)
    assert [(fault.action, fault.subject) for fault in report.faults] == [("list", "jobs")]
    assert "another document has the name" in report.faults[0].reason


def test_a_job_lists_its_latest_output_files_only() -> None:
    table = table_of(memory_store())
    for start in range(0, 250, 50):
        table.add_files([new_file(f"{start + number:03}") for number in range(50)], job="ingest")
    job = table.jobs.job("ingest")
    assert job is not None
    assert job.outputs == tuple(f"{number:03}" for number in range(150, 250))
    assert (job.files, job.rows) == (250, 25_000)
    table.assign_job_ids([assignment("merge", *(f"{number:03}" for number in range(101)))])
    for number in range(101):
        table.replace_file_references([replacement("merge", f"{number:03}", output=f"out-{number:03}")])
    merged = table.jobs.job("merge", "root")
    assert merged is not None
    assert merged.outputs == tuple(f"out-{number:03}" for number in range(1, 101))
