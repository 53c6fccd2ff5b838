"""The job tracker: a second model of the same log, which agrees with the state of the table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from apps.table.tests.helpers import assignment, memory_store, new_file, reopened, replacement, table_of
from stratalog import Conflict, Document, NotFound
from stratalog_table import Job, Table, TransactionRefused, jobs
from stratalog_table.jobs import JobTracker


@contextmanager
def advancing_by(entries: int) -> Iterator[None]:
    """Fail if a tracker tries to write more entries. Otherwise a tracker that does not advance would never end."""
    left = iter(range(entries))
    mutate = Document.mutate

    def counted(document: Document, *args: Any, **names: Any) -> Any:
        assert next(left, None) is not None, "the tracker writes too many entries"
        return mutate(document, *args, **names)

    with patch.object(Document, "mutate", counted):
        yield


def worked() -> Table:
    """Return a table with an ingest job, a committed job, a waiting job and a refused job."""
    table = table_of(memory_store(segment_entries_target=4, snapshot_entries_interval=4))
    table.add_files([new_file(name) for name in "abcd"], job="ingest", task="t", run="r", written_ms=5)
    table.assign_job_ids([assignment("done", "a", "b"), assignment("waits", "c")])
    table.replace_file_references([replacement("done", "a", "b", rows=200)])
    with pytest.raises(TransactionRefused):
        table.replace_file_references([replacement("refused", "d")])
    return table


def test_the_tracker_has_the_status_and_the_refusal_reasons_of_each_job() -> None:
    table = worked()
    assert {job.job: job.status for job in table.jobs.jobs()} == {
        "done": "committed",
        "ingest": "ingested",
        "refused": "failed",
        "waits": "created",
    }
    assert table.jobs.job("done", "root") == Job("done", "root", "committed", 3, 4, 0, 2, 200, ("done.parquet",))
    reason = "Reference to file is not assigned to job refused, in partition root, filename d"
    refused = table.jobs.job("refused", "root")
    assert refused is not None
    assert (refused.reasons, refused.waiting) == (((5, reason),), 0)
    ingested = table.jobs.job("ingest")
    assert ingested is not None
    assert (ingested.files, ingested.rows, ingested.finished) == (4, 400, 2)
    assert table.jobs.job("unheard of") is None


def test_the_tracker_lists_a_refused_ingest_with_its_reason() -> None:
    table = worked()
    with pytest.raises(TransactionRefused):
        table.add_files([new_file("c")], job="late")
    refused = table.jobs.job("late")
    assert refused is not None
    assert (refused.status, refused.reasons) == ("failed", ((6, "File already exists: c"),))


def test_a_read_of_the_tracker_includes_the_requested_version() -> None:
    table = worked()
    tracker = JobTracker(table.store, table.document)
    assert tracker.waiting(version_min=2) == []
    assert tracker.catch_up(2) == 2
    assert tracker.waiting(version_min=3) == [("done", "root", 2), ("waits", "root", 1)]
    assert tracker.waiting() == [("waits", "root", 1)] == [*table.at().jobs()]


def test_several_trackers_of_a_table_agree() -> None:
    table = worked()
    others = [JobTracker(table.store, table.document) for _ in range(3)]
    for version in range(1, table.version + 1):
        assert {tracker.catch_up(version) for tracker in others} == {version}
    assert [*others[0].jobs()] == [*others[2].jobs()]


def test_a_new_tracker_that_another_process_fills_meanwhile_is_used() -> None:
    table = worked()
    other, at = reopened(table), Document.at

    def overtaken(document: Document, version: int | None = None) -> Any:
        view = at(document, version)
        if document.name.endswith(".jobs"):
            with patch.object(Document, "at", at):
                other.jobs.catch_up()
        return view

    with patch.object(Document, "at", overtaken):
        assert table.jobs.catch_up() == table.version
    assert [*table.jobs.jobs()] == [*other.jobs.jobs()]


def test_a_rebuild_of_the_tracker_gives_the_same_jobs() -> None:
    table = worked()
    before = [*table.jobs.jobs()]
    assert table.jobs.rebuild() == table.version
    assert [*table.jobs.jobs()] == before
    assert [*reopened(table).jobs.jobs()] == before


def test_a_tracker_continues_after_another_process_rebuilds_the_model() -> None:
    table = worked()
    first, second = (JobTracker(table.store, table.document) for _ in range(2))
    before = [*first.jobs()]
    for _ in range(2):
        second.rebuild()
        assert [*first.jobs()] == before
        first.rebuild()
        assert second.waiting() == [("waits", "root", 1)]
        first.rebuild()
        assert second.rebuild() == table.version
        assert first.job("done", "root") == before[0]


def test_a_clear_ends_the_waiting_jobs_of_a_table() -> None:
    table = worked()
    table.clear_files()
    waiting = table.jobs.job("waits", "root")
    assert waiting is not None
    assert (waiting.status, waiting.waiting, waiting.finished) == ("cleared", 0, 6)
    assert table.jobs.waiting() == [] == [*table.at().jobs()]


def test_the_tracker_retains_jobs_of_forgotten_versions_until_a_rebuild() -> None:
    table = worked()
    for n in range(10):
        table.add_files([new_file(f"more-{n}")])
    table.forget_below(12)
    assert len([*table.jobs.jobs()]) == 4
    table.jobs.rebuild()
    assert [(job.job, job.status) for job in table.jobs.jobs()] == [("waits", "created")]
    assert table.jobs.waiting() == [*table.at().jobs()]


def test_a_tracker_that_missed_forgotten_versions_takes_waiting_jobs_from_the_table() -> None:
    table = table_of(memory_store(segment_entries_target=4, snapshot_entries_interval=4))
    table.add_files([new_file(name) for name in "abcdefgh"])
    table.assign_job_ids([assignment("same", "a", "b"), assignment("more", "c"), assignment("less", "d", "e")])
    table.assign_job_ids([assignment("gone", "f")])
    table.jobs.catch_up()
    table.assign_job_ids([assignment("more", "g"), assignment("new", "h")])
    table.replace_file_references([replacement("less", "d"), replacement("gone", "f")])
    for n in range(10):
        table.add_files([new_file(f"more-{n}")])
    # `Document.forget_below` does not let the tracker read the versions first, unlike `Table.forget_below`.
    table.document.forget_below(table.version - 1)
    jobs = {job.job: (job.status, job.finished, job.waiting, job.files) for job in table.jobs.jobs()}
    assert jobs == {
        "same": ("created", 0, 2, 2),
        "more": ("created", 0, 2, 2),
        "less": ("created", 0, 1, 2),
        "new": ("created", 0, 1, 1),
        "gone": ("cleared", 4, 0, 1),
    }
    assert table.jobs.waiting() == [*table.at().jobs()]


def test_a_job_that_gets_more_references_is_not_finished() -> None:
    table = worked()
    table.assign_job_ids([assignment("done", "d")])
    job = table.jobs.job("done", "root")
    assert job is not None
    assert (job.status, job.finished, job.waiting, job.files) == ("created", 0, 1, 3)


def test_a_job_may_be_done_in_parts() -> None:
    table = table_of(memory_store())
    table.add_files([new_file("a"), new_file("b")])
    table.assign_job_ids([assignment("job", "a", "b")])
    table.replace_file_references([replacement("job", "a", output="one")])
    assert table.jobs.waiting() == [("job", "root", 1)] == [*table.at().jobs()]
    table.replace_file_references([replacement("job", "b", output="two")])
    job = table.jobs.job("job", "root")
    assert job is not None
    assert (job.status, job.outputs, job.rows) == ("committed", ("one", "two"), 200)


def test_a_recreated_table_has_no_jobs_of_its_predecessor() -> None:
    table = worked()
    assert len([*table.jobs.jobs()]) == 4
    table.store.delete(table.document)
    again = table_of(table.store)
    again.add_files([new_file("a")], job="new")
    assert [job.job for job in again.jobs.jobs()] == ["new"]
    with pytest.raises(NotFound):
        [*table.jobs.jobs()]
    assert [job.job for job in reopened(again).jobs.jobs()] == ["new"]


@pytest.fixture
def unnamed(monkeypatch: pytest.MonkeyPatch) -> Table:
    """Return a table whose job tracker does not name the table, like the tracker of an older program."""
    table = worked()
    with monkeypatch.context() as patched:
        patched.setattr(jobs, "TABLE", "unnamed")
        table.jobs.catch_up()
    return table


def incarnation_of_tracker(table: Table) -> str:
    return table.store.document("acme", "events.jobs").log.record.incarnation


def test_a_tracker_of_an_older_program_is_reused_for_its_table(unnamed: Table) -> None:
    tracker = incarnation_of_tracker(unnamed)
    unnamed.add_files([new_file("late")], job="late")
    names = [job.job for job in JobTracker(unnamed.store, unnamed.document).jobs()]
    assert names == ["done", "ingest", "late", "refused", "waits"]
    assert incarnation_of_tracker(unnamed) == tracker


def test_a_tracker_of_an_older_program_is_recreated_for_a_recreated_table(unnamed: Table) -> None:
    tracker = incarnation_of_tracker(unnamed)
    unnamed.store.delete(unnamed.document)
    unnamed.store.environment.clock.sleep(1)
    again = table_of(unnamed.store)
    again.add_files([new_file("a")], job="new")
    assert [job.job for job in again.jobs.jobs()] == ["new"]
    assert incarnation_of_tracker(again) != tracker


def test_a_foreign_document_with_the_name_of_the_tracker_is_not_changed() -> None:
    table = worked()
    document = table.store.create("acme", "events.jobs")
    document.mutate("put", {"key": "mine", "value": 1})
    for act in (table.jobs.catch_up, table.jobs.rebuild, table.jobs.delete):
        with pytest.raises(Conflict, match="another document has"):
            act()
    assert document.at().to_dict() == {"mine": 1}


def test_deleting_a_tracker_does_not_delete_the_tracker_of_another_incarnation() -> None:
    table = worked()
    table.jobs.catch_up()
    table.store.delete(table.document)
    again = table_of(table.store)
    again.add_files([new_file("a")], job="new")
    again.jobs.catch_up()
    table.jobs.delete()
    assert [job.job for job in again.jobs.jobs()] == ["new"]
    again.jobs.delete()
    assert [listing.id for listing in table.store.list("acme")] == ["events"]


def test_a_refused_transaction_of_a_job_with_an_impossible_name_does_not_stop_the_tracker() -> None:
    table = table_of(memory_store())
    with pytest.raises(TransactionRefused, match="a job cannot be"):
        table.add_files([new_file("a")], job="j" * 600)
    with pytest.raises(TransactionRefused, match="File not found"):
        table.replace_file_references([replacement("j" * 600, "b")])
    with pytest.raises(TransactionRefused):
        table.assign_job_ids([assignment("job", "b", partition="p" * 600)])
    # The keys of these jobs are about as long as a key may be.
    for size in range(480, 512):
        with pytest.raises(TransactionRefused, match="File not found"):
            table.replace_file_references([replacement("j" * size, "b")])
    table.add_files([new_file("a")], job="ingest")
    with advancing_by(1):
        assert table.jobs.catch_up() == table.version
    *impossible, ingest = sorted(table.jobs.jobs(), key=lambda job: -len(job.job))
    assert (ingest.job, ingest.status) == ("ingest", "ingested")
    assert {job.status for job in impossible} == {"failed"}


def test_a_tracker_that_cannot_store_the_events_of_a_version_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(memory_store())
    table.add_files([new_file("a")], job="ingest")
    monkeypatch.setattr("stratalog.documents.run.PATCH_BYTES_MAX", 100)
    with advancing_by(1), pytest.raises(Conflict, match="cannot store the events"):
        table.jobs.catch_up()


def test_the_events_of_large_versions_are_stored_in_several_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(memory_store())
    for part in range(10):
        table.add_files([new_file(f"{part}/{number}") for number in range(100)], job=f"ingest-{part}")
    monkeypatch.setattr("stratalog_table.jobs.EVENTS_BYTES", 1000)
    monkeypatch.setattr("stratalog.protocol.messages.VALUE_BYTES_MAX", 4000)
    with advancing_by(11):
        assert table.jobs.catch_up() == table.version
    assert [job.files for job in table.jobs.jobs()] == [100] * 10


def test_a_tracker_reads_a_version_whose_names_of_files_are_larger_than_an_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = table_of(memory_store())
    table.add_files([new_file(f"{number}") for number in range(1000)], job="ingest")
    monkeypatch.setattr("stratalog.protocol.messages.VALUE_BYTES_MAX", 2000)
    job = table.jobs.job("ingest")
    assert job is not None
    assert (job.files, job.rows, job.outputs) == (1000, 100_000, tuple(f"{number}" for number in range(900, 1000)))
