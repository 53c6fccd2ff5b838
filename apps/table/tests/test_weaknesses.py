"""The table state store, one of the four systems that Stratalog unites, has ten known weaknesses.

Each test checks that our table lacks the weakness whose number is in the test's name. `docs/coverage.md` describes the
weaknesses.
"""

from __future__ import annotations

import pytest

from apps.table.tests.helpers import (
    assignment,
    children_of,
    halves,
    memory_store,
    new_file,
    refused,
    reopened,
    replacement,
    rows_held,
    table_of,
)
from stratalog import Corrupt
from stratalog.backends.memory import MemoryIndex
from stratalog.keys import entries_partition, number
from stratalog.testing.clock import ManualClock
from stratalog_table import FileReference, NewReference, Split, Table, TransactionRefused, open_table


def test_1_a_gap_in_the_log_is_an_error() -> None:
    index = MemoryIndex()
    table = table_of(memory_store(index=index))
    for n in range(5):
        table.add_files([new_file(str(n))])
    prefix = table.document.log.record.prefix
    index._partitions[entries_partition(prefix, 1)].delete(number(3))
    with pytest.raises(Corrupt):
        open_table(table.store, "acme", "events")


def test_2_a_process_behind_a_truncated_log_writes_a_version_that_all_processes_see() -> None:
    clock = ManualClock()
    table = table_of(memory_store(clock, segment_entries_target=4, snapshot_entries_interval=4))
    asleep = reopened(table)
    for n in range(30):
        table.add_files([new_file(str(n))])
    table.forget_below(table.version)
    clock.sleep(1000)
    assert table.document.free_segments() > 3
    version = asleep.add_files([new_file("late")])
    assert version == table.version == table.document.version
    assert reopened(table).at().file("late") is not None
    assert len(table.at().files(0).files) == 31


def test_3_a_failure_in_a_shared_commit_is_reported_for_the_job_that_failed() -> None:
    table = table_of(memory_store())
    table.add_files([new_file("a"), new_file("b")])
    table.assign_job_ids([assignment("good", "a")])
    with pytest.raises(TransactionRefused) as caught:
        table.replace_file_references([replacement("good", "a"), replacement("bad", "b")])
    (failure,) = caught.value.failures
    assert (failure.request, failure.kind) == (1, "file-reference-not-assigned-to-job")
    assert [reference.filename for reference in table.at().file_references()] == ["b", "good.parquet"]
    assert caught.value.version == table.version


def test_4_a_transaction_that_assigns_a_reference_twice_is_refused() -> None:
    table = table_of(memory_store())
    table.add_files([new_file("a")])
    reason = "Reference to file is already assigned to job one, in partition root, filename a"
    with refused("file-reference-assigned-to-job", reason):
        table.assign_job_ids([assignment("one", "a"), assignment("two", "a")])
    assert table.at().file_references() == [FileReference("a", "root", 100)]


def test_4_a_transaction_that_splits_a_reference_twice_is_refused() -> None:
    table = table_of(memory_store())
    table.add_files([new_file("a")])
    table.split_at("root", 50)
    pair = children_of(table)
    with refused("file-reference-not-found", "File reference not found in partition root, filename a"):
        table.split_file_references([halves("a", "root", pair, 100), halves("a", "root", pair, 100)])
    assert rows_held(table) == 100


def test_4_a_transaction_that_adds_a_file_twice_is_refused() -> None:
    table = table_of(memory_store())
    with refused("file-already-exists", "File already exists: a"):
        table.add_files([new_file("a"), new_file("a")])
    assert table.at().has_no_files()


def test_5_the_tracker_agrees_with_the_state_after_two_replacements_of_the_same_input() -> None:
    table = table_of(memory_store())
    table.add_files([new_file("a")])
    table.assign_job_ids([assignment("job", "a")])
    with refused("file-reference-not-found", "File reference not found in partition root, filename a"):
        table.replace_file_references([replacement("job", "a"), replacement("job", "a", output="other")])
    job = table.jobs.job("job", "root")
    assert job is not None
    assert (job.status, job.outputs, job.waiting) == ("committed", ("job.parquet",), 0)
    assert job.reasons == ((4, "File reference not found in partition root, filename a"),)
    assert [reference.filename for reference in table.at().file_references()] == ["job.parquet"]


def test_6_a_file_for_a_missing_partition_and_an_invalid_tree_are_refused() -> None:
    table = table_of(memory_store())
    with refused("partition-not-found", "Partition not found: nowhere"):
        table.add_files([new_file("a", partition="nowhere")])
    for tree in ([], [*table.at().partitions()] * 2):
        with pytest.raises(TransactionRefused, match="Initialised with invalid partition tree"):
            table.initialise_partitions(tree)


def test_7_a_process_opened_before_a_clear_sees_the_clear() -> None:
    table = table_of(memory_store())
    table.add_files([new_file("a")])
    other = reopened(table)
    assert not other.at().has_no_files()
    table.reinitialise([10])
    assert other.at().has_no_files()
    left, right = children_of(other)
    other.add_files([new_file("a", (left, 1), (right, 1))])
    assert rows_held(table) == 2


@pytest.mark.parametrize("rows", [0, 1, 2, 101, 2**40 + 1])
def test_8_a_split_of_an_odd_number_of_rows_loses_no_row(rows: int) -> None:
    table = table_of(memory_store())
    table.add_files([new_file("a", rows=rows)])
    table.split_at("root", 50)
    table.split_file_references([halves("a", "root", children_of(table), rows)])
    assert rows_held(table) == rows


def test_8_a_split_that_loses_a_row_is_refused() -> None:
    table = table_of(memory_store())
    table.add_files([new_file("a", rows=101)])
    table.split_at("root", 50)
    pieces = tuple(NewReference(id, 50, approximate=True, complete=False) for id in children_of(table))
    with refused("partitions", "Split of 101 rows into 100, in partition root, filename a"):
        table.split_file_references([Split("a", "root", pieces)])
    with refused("partitions", "Split leaves out a part of partition root, filename a"):
        table.split_file_references([Split("a", "root", (NewReference(pieces[0].partition, 101, approximate=True),))])


def test_9_a_view_has_files_and_partitions_of_the_same_version() -> None:
    table = table_of(memory_store())
    table.add_files([new_file("a")])
    table.split_at("root", 50)
    before = table.version
    table.reinitialise([10])
    old, new = table.at(before), table.at()
    assert (old.version + 1, old.has_no_files(), new.has_no_files()) == (new.version, False, True)
    assert old.partition("root").children != new.partition("root").children


def test_10_a_new_process_commits_without_loading_the_table() -> None:
    table = table_of(memory_store(), points=range(1, 3000))
    at = [holding.partition for holding in table.at().holdings() if holding.leaf]
    table.add_files([new_file(f"{n}", partition=id) for n, id in enumerate(at)])
    table.snapshot()
    other = reopened(table)
    other.add_files([new_file("one", partition=at[1234])])
    assert_read(other, chunks_max=12, of=table)


def assert_read(table: Table, chunks_max: int, of: Table) -> None:
    """Check that a process read at most ``chunks_max`` chunks, and that ``of`` wrote over ten times as many chunks."""
    assert 0 < table.document.chunks.reads <= chunks_max
    assert of.document.chunks.writes > 10 * chunks_max
