"""Transactions on files and references, on every backend: their effects, their refusals, and the exact reasons."""

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
from stratalog_table import File, FileReference, NewFile, NewReference, Split, Table
from stratalog_table.transaction_group import Request


def test_files_are_added_with_their_references(table: Table) -> None:
    table.add_files([new_file("b"), new_file("a", rows=7), NewFile("c")])
    view = reopened(table).at()
    assert view.file_references() == [FileReference("a", "root", 7), FileReference("b", "root", 100)]
    assert view.files(10).files == (File("a", ("root",)), File("b", ("root",)), File("c", ()))
    assert rows_held(table) == 107


def test_a_file_may_be_added_to_several_partitions(table: Table) -> None:
    table.split_at("root", 50)
    left, right = children_of(table)
    table.add_files([new_file("a", (left, 30), (right, 71))])
    assert table.at().file("a") == File("a", tuple(sorted((left, right))))
    assert rows_held(table) == 101


def test_adding_a_tracked_file_refuses_the_complete_transaction(table: Table) -> None:
    table.add_files([new_file("a")])
    with refused("file-already-exists", "File already exists: a"):
        table.add_files([new_file("b"), new_file("a")])
    assert table.at().file("b") is None


def test_a_file_without_references_is_tracked_too(table: Table) -> None:
    table.add_files([NewFile("a")])
    with refused("file-already-exists", "File already exists: a"):
        table.add_files([new_file("a")])


def test_a_file_is_not_added_to_a_missing_partition(table: Table) -> None:
    with refused("partition-not-found", "Partition not found: nowhere"):
        table.add_files([new_file("a", partition="nowhere")])


def test_a_file_is_not_added_to_a_partition_and_its_descendant(table: Table) -> None:
    table.split_at("root", 50)
    left, _ = children_of(table)
    with refused("partitions", f"Partition {left} lies in another that file a is added to"):
        table.add_files([new_file("a", (left, 1), ("root", 1))])
    with refused("file-reference-already-exists", f"Reference to file already exists in partition {left}, filename a"):
        table.add_files([new_file("a", (left, 1), (left, 1))])


def test_data_may_be_added_to_a_partition_that_was_split(table: Table) -> None:
    table.split_at("root", 50)
    table.add_files([new_file("a")])
    assert table.at().on_partition("root").references == (FileReference("a", "root", 100),)


def test_references_are_assigned_to_a_job(table: Table) -> None:
    table.add_files([new_file("a"), new_file("b")])
    table.assign_job_ids([assignment("job", "a")])
    view = table.at()
    assert [reference.job for reference in view.file_references()] == ["job", None]
    assert [reference.filename for reference in view.file_references_without_job()] == ["b"]
    assert view.is_assigned([assignment("job", "a")])
    assert not view.is_assigned([assignment("job", "a", "b")])


def test_job_assignments_of_a_call_succeed_or_fail_together(table: Table) -> None:
    table.add_files([new_file("a"), new_file("b")])
    with refused("file-reference-not-found", "File reference not found in partition root, filename c"):
        table.assign_job_ids([assignment("one", "a"), assignment("two", "c")])
    assert len(table.at().file_references_without_job()) == 2


def test_a_job_cannot_be_assigned_a_file_of_another_partition(table: Table) -> None:
    table.split_at("root", 50)
    left, right = children_of(table)
    table.add_files([new_file("a", partition=left)])
    with refused("file-reference-not-found", f"File reference not found in partition {right}, filename a"):
        table.assign_job_ids([assignment("job", "a", partition=right)])


@pytest.mark.parametrize("other", ["job", "another"])
def test_an_assigned_reference_cannot_be_assigned_again(table: Table, other: str) -> None:
    table.add_files([new_file("a")])
    table.assign_job_ids([assignment("job", "a")])
    reason = "Reference to file is already assigned to job job, in partition root, filename a"
    with refused("file-reference-assigned-to-job", reason):
        table.assign_job_ids([assignment(other, "a")])
    with refused("file-reference-assigned-to-job", reason):
        table.at().is_assigned([assignment("third", "a")])


def test_is_assigned_refuses_a_missing_reference(table: Table) -> None:
    with refused("file-reference-not-found", "File reference not found in partition root, filename a"):
        table.at().is_assigned([assignment("job", "a")])


def test_is_assigned_is_decided_by_the_first_unassigned_or_conflicting_reference(table: Table) -> None:
    table.add_files([new_file("a"), new_file("b")])
    table.assign_job_ids([assignment("job", "a")])
    assert not table.at().is_assigned([assignment("other", "b"), assignment("other", "a")])
    reason = "Reference to file is already assigned to job job, in partition root, filename a"
    with refused("file-reference-assigned-to-job", reason):
        table.at().is_assigned([assignment("other", "a"), assignment("other", "b")])


def test_a_job_replaces_its_inputs_with_its_output(table: Table) -> None:
    table.add_files([new_file("a"), new_file("b", rows=11)])
    table.assign_job_ids([assignment("job", "a", "b")])
    table.replace_file_references([replacement("job", "a", "b", output="out", rows=111)])
    view = table.at()
    assert view.file_references() == [FileReference("out", "root", 111)]
    assert [*view.unreferenced(view.version)] == ["a", "b"]
    assert [*view.jobs()] == []
    assert rows_held(table) == 111


def test_a_job_replaces_only_the_references_of_its_partition(table: Table) -> None:
    table.split_at("root", 50)
    left, right = children_of(table)
    table.add_files([new_file("a", (left, 60), (right, 41))])
    table.assign_job_ids([assignment("job", "a", partition=left)])
    table.replace_file_references([replacement("job", "a", output="out", partition=left, rows=60)])
    view = table.at()
    assert view.file("a") == File("a", (right,))
    assert [*view.unreferenced(view.version)] == []
    assert rows_held(table) == 101


def test_a_file_is_unreferenced_after_the_last_of_several_references_is_gone(table: Table) -> None:
    table.split_at("root", 50)
    pair = children_of(table)
    table.add_files([new_file("a", (pair[0], 60), (pair[1], 41))])
    for position, partition in enumerate(pair):
        assert [*table.at().unreferenced(table.version)] == []
        table.assign_job_ids([assignment(f"job-{position}", "a", partition=partition)])
        table.replace_file_references([replacement(f"job-{position}", "a", partition=partition, rows=1)])
    assert [*table.at().unreferenced(table.version)] == ["a"]
    table.delete_files(["a"])
    assert table.at().file("a") is None


def test_a_replacement_without_input_files_is_refused(table: Table) -> None:
    with refused("malformed", "Malformed transaction: a job replaces no file"):
        table.replace_file_references([replacement("job")])
    assert table.at().has_no_files()


def test_a_job_cannot_replace_an_untracked_file(table: Table) -> None:
    with refused("file-not-found", "File not found: a"):
        table.replace_file_references([replacement("job", "a")])


def test_a_job_cannot_replace_a_missing_reference(table: Table) -> None:
    table.split_at("root", 50)
    left, right = children_of(table)
    table.add_files([new_file("a", partition=left)])
    with refused("file-reference-not-found", f"File reference not found in partition {right}, filename a"):
        table.replace_file_references([replacement("job", "a", partition=right)])


@pytest.mark.parametrize("assigned", [False, True])
def test_a_job_cannot_replace_a_reference_that_is_not_assigned_to_the_job(table: Table, assigned: bool) -> None:
    table.add_files([new_file("a")])
    if assigned:
        table.assign_job_ids([assignment("other", "a")])
    reason = "Reference to file is not assigned to job job, in partition root, filename a"
    with refused("file-reference-not-assigned-to-job", reason):
        table.replace_file_references([replacement("job", "a")])


def test_the_output_of_a_job_must_be_a_new_file(table: Table) -> None:
    table.add_files([new_file("a"), new_file("b")])
    table.assign_job_ids([assignment("job", "a")])
    with refused("file-already-exists", "File already exists: b"):
        table.replace_file_references([replacement("job", "a", output="b")])
    with refused("new-reference-same-as-old", "New file has the same filename as a file being removed: a"):
        table.replace_file_references([replacement("job", "a", output="a")])
    assert rows_held(table) == 200


def test_a_reference_is_split_between_child_partitions(table: Table) -> None:
    table.add_files([new_file("a", rows=101)])
    table.split_at("root", 50)
    left, right = children_of(table)
    table.split_file_references([halves("a", "root", (left, right), 101)])
    view = table.at()
    assert view.on_partition(left).references == (FileReference("a", left, 50, approximate=True, complete=False),)
    assert view.on_partition(right).references == (FileReference("a", right, 51, approximate=True, complete=False),)
    assert view.file("a") == File("a", tuple(sorted((left, right))))
    assert rows_held(table) == 101


def test_a_reference_may_be_split_over_several_levels(table: Table) -> None:
    table.add_files([new_file("a", rows=30)])
    table.extend_at("root", [10, 20])
    below = [holding.partition for holding in table.at().holdings() if holding.leaf]
    pieces = tuple(NewReference(id, 10, complete=False) for id in below)
    table.split_file_references([Split("a", "root", pieces)])
    assert table.at().files_by_partition() == {id: ["a"] for id in sorted(below)}


def test_a_reference_is_moved_whole_where_all_its_rows_are_in_one_partition(table: Table) -> None:
    table.add_files([new_file("a", rows=30)])
    table.split_at("root", 50)
    left, _ = children_of(table)
    table.split_file_references([Split("a", "root", (NewReference(left, 30),))])
    assert table.at().file("a") == File("a", (left,))


def test_a_split_of_a_missing_or_assigned_reference_is_refused(table: Table) -> None:
    table.add_files([new_file("a")])
    table.split_at("root", 50)
    pair = children_of(table)
    with refused("file-not-found", "File not found: b"):
        table.split_file_references([halves("b", "root", pair, 100)])
    with refused("file-reference-not-found", f"File reference not found in partition {pair[0]}, filename a"):
        table.split_file_references([halves("a", pair[0], pair, 100)])
    table.assign_job_ids([assignment("job", "a")])
    reason = "Reference to file is already assigned to job job, in partition root, filename a"
    with refused("file-reference-assigned-to-job", reason):
        table.split_file_references([halves("a", "root", pair, 100)])


def test_a_split_into_a_partition_that_already_has_the_file_is_refused(table: Table) -> None:
    table.add_files([new_file("a")])
    table.split_at("root", 50)
    pair = children_of(table)
    table.split_file_references([halves("a", "root", pair, 100)])
    reason = f"Reference to file already exists in partition {pair[1]}, filename a"
    with refused("file-reference-already-exists", reason):
        table.split_file_references([Split("a", pair[0], (NewReference(pair[1], 50),))])


def test_splits_of_a_call_succeed_or_fail_together(table: Table) -> None:
    table.add_files([new_file("a"), new_file("b")])
    table.split_at("root", 50)
    pair = children_of(table)
    with refused("file-not-found", "File not found: c"):
        table.split_file_references([halves("a", "root", pair, 100), halves("c", "root", pair, 100)])
    assert table.at().files_by_partition() == {"root": ["a", "b"]}


def test_only_files_without_references_can_be_deleted(table: Table) -> None:
    table.add_files([NewFile("a"), new_file("b"), NewFile("c")])
    with refused("file-not-found", "File not found: d"):
        table.delete_files(["a", "d"])
    reason = "Cannot remove file as it still has references, filename b, 1 references"
    with refused("file-has-references", reason):
        table.delete_files(["a", "b"])
    table.delete_files(["a", "c"])
    assert table.at().files(10).files == (File("b", ("root",)),)


def test_a_call_cannot_delete_a_file_twice(table: Table) -> None:
    table.add_files([NewFile("a")])
    with refused("file-not-found", "File not found: a"):
        table.delete_files(["a", "a"])
    assert not table.at().has_no_files()


def test_the_refusal_of_a_deletion_has_the_number_of_references(table: Table) -> None:
    table.split_at("root", 50)
    left, right = children_of(table)
    table.add_files([new_file("a", (left, 1), (right, 2))])
    reason = "Cannot remove file as it still has references, filename a, 2 references"
    with refused("file-has-references", reason):
        table.delete_files(["a"])


def test_a_clear_removes_all_files_and_preserves_the_partition_tree(table: Table) -> None:
    table.split_at("root", 50)
    left, right = children_of(table)
    table.add_files([new_file("a", (left, 1), (right, 2)), new_file("b"), NewFile("c")])
    table.assign_job_ids([assignment("job", "a", partition=left)])
    table.clear_files()
    view = table.at()
    assert view.has_no_files()
    assert ([*view.jobs()], view.file_references(), [*view.unreferenced(view.version)]) == ([], [], [])
    assert len([*view.leaf_partitions()]) == 2
    table.add_files([new_file("a", partition=left)])
    assert rows_held(table) == 100


def test_purge_deletes_the_items_that_a_clear_leaves_behind(table: Table) -> None:
    table.add_files([new_file(str(n)) for n in range(20)])
    table.clear_files()
    assert any(key.startswith("file0/") for key, _ in table.document.at().scan())
    assert table.purge() >= 1
    assert table.purge() == 0
    assert not any(key.split("/")[0].endswith("0") and "partition" not in key for key, _ in table.document.at().scan())


@pytest.mark.parametrize("limit", [0, -1])
def test_a_purge_without_a_positive_limit_is_refused_and_the_next_purge_deletes_all(limit: int) -> None:
    table = table_of(memory_store())
    table.add_files([new_file("a")])
    table.clear_files()
    with refused("malformed", "Malformed transaction: Expected `int` >= 1 - at `$.limit`"):
        table._each([Request("purge", {"limit": limit})])
    assert table.purge() == 1


def test_a_collected_file_cannot_be_added(table: Table) -> None:
    table.add_files([new_file("a")])
    with refused("file-tracked", "File is tracked: a"):
        table.collect_files(["a"])
    table.collect_files(["b"])
    with refused("file-collected", "File was collected before it was added: b"):
        table.add_files([new_file("b")])


def test_an_empty_call_adds_no_version(table: Table) -> None:
    version = table.version
    assert table.add_files([]) is None
    assert table.assign_job_ids([]) is None
    assert table.assign_job_ids([assignment("job")]) is None
    assert table.replace_file_references([]) is None
    assert table.split_file_references([]) is None
    assert table.delete_files([]) is None
    assert table.collect_files([]) is None
    assert table.version == version


@pytest.mark.parametrize("filename", ["", "a\tb", "x" * 257, "é" * 129])
def test_an_invalid_filename_is_refused(table: Table, filename: str) -> None:
    with refused("malformed", f"Malformed transaction: a filename cannot be: {filename[:80]!r}"):
        table.add_files([new_file(filename)])


def test_a_filename_may_contain_slashes_and_special_characters(table: Table) -> None:
    names = ["s3a://bucket/x//y", "a", "a/b", "é|~%", "x" * 256]
    table.add_files([new_file(name) for name in names])
    assert [file.filename for file in table.at().files(0).files] == sorted(names)


def test_a_task_without_a_run_is_refused(table: Table) -> None:
    import msgspec

    table.add_files([new_file("a")])
    table.assign_job_ids([assignment("job", "a")])
    half = msgspec.structs.replace(replacement("job", "a"), task="task")
    with refused("malformed", "Malformed transaction: a task and a run are named together, or neither"):
        table.replace_file_references([half])
