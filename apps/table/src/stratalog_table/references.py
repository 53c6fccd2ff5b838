"""Transactions on files and their references, as mutators. A transaction takes full effect or is rejected.

Within a transaction each request sees the effects of the earlier requests. So a transaction that assigns a reference
twice, splits a reference twice or adds a file twice fails the same checks as two transactions.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stratalog import Draft, Rejected
from stratalog_table import messages
from stratalog_table.layout import COLLECTED
from stratalog_table.model import FileReference, NewFile, NewReference, Partition, Rows
from stratalog_table.sources import SourceRows, note_rows
from stratalog_table.table_draft import TableDraft, check_filename, check_id, check_names, read

__all__ = [
    "AddFiles",
    "AssignJobIds",
    "Assignment",
    "Filenames",
    "Output",
    "ReplaceFileReferences",
    "Split",
    "SplitFileReferences",
    "add_files",
    "assign_job_ids",
    "collect_files",
    "delete_files",
    "replace_file_references",
    "split_file_references",
]


class AddFiles(msgspec.Struct, frozen=True, omit_defaults=True):
    """New files, and the ingest job that wrote them, if any."""

    files: tuple[NewFile, ...]
    job: str | None = None
    task: str | None = None
    run: str | None = None
    written_ms: int | None = None
    source: SourceRows | None = None
    """The rows of a source's file that the new files contain, or None if the rows come from no source."""


class Assignment(msgspec.Struct, frozen=True):
    """The references of files on one partition that one job is to merge."""

    job: str
    partition: str
    filenames: tuple[str, ...]


class AssignJobIds(msgspec.Struct, frozen=True):
    """Assignments that take effect together or not at all."""

    requests: tuple[Assignment, ...]


class Output(msgspec.Struct, frozen=True):
    """The file that a job wrote. All its rows lie in the job's partition."""

    filename: str
    rows: Rows


class ReplaceFileReferences(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a job: its output replaces its inputs on one partition."""

    job: str
    partition: str
    inputs: tuple[str, ...]
    output: Output
    task: str | None = None
    run: str | None = None


class Split(msgspec.Struct, frozen=True):
    """A reference, and the references that replace it. They are on partitions below the partition of the reference."""

    filename: str
    partition: str
    references: tuple[NewReference, ...]


class SplitFileReferences(msgspec.Struct, frozen=True):
    """Splits that take effect together or not at all."""

    requests: tuple[Split, ...]


class Filenames(msgspec.Struct, frozen=True):
    """The arguments of a transaction on files: their names."""

    filenames: tuple[str, ...]


def add_files(draft: Draft, args: Any) -> None:
    """Track new files, each on existing partitions that share no key."""
    wanted: AddFiles = read(args, AddFiles)
    table_draft = TableDraft(draft)
    if wanted.job is not None:
        check_id(wanted.job, "job")
    if wanted.source is not None:
        note_rows(draft, table_draft.meta, wanted.source)
    for file in wanted.files:
        table_draft.add_file(file.filename, file.references)
    table_draft.close()


def assign_job_ids(draft: Draft, args: Any) -> None:
    """Assign references without a job to jobs."""
    wanted: AssignJobIds = read(args, AssignJobIds)
    table_draft = TableDraft(draft)
    for request in wanted.requests:
        check_id(request.job, "job")
        for filename in request.filenames:
            reference = table_draft.reference(request.partition, filename)
            if reference is None:
                raise Rejected(messages.reference_not_found(request.partition, filename))
            _check_free(reference)
            table_draft.assign(reference, request.job)
    table_draft.close()


def replace_file_references(draft: Draft, args: Any) -> None:
    """Replace a job's inputs by its output. Each job is a transaction of its own."""
    job: ReplaceFileReferences = read(args, ReplaceFileReferences)
    if (job.task is None) != (job.run is None):
        raise Rejected("Malformed transaction: a task and a run are named together, or neither")
    if not job.inputs:
        raise Rejected("Malformed transaction: a job replaces no file")
    if job.output.filename in job.inputs:
        raise Rejected(messages.same_filename(job.output.filename))
    check_names(job.inputs)
    table_draft = TableDraft(draft)
    inputs = [_input(table_draft, job, filename) for filename in job.inputs]
    for reference in inputs:
        table_draft.drop_reference(reference)
    table_draft.add_file(job.output.filename, [NewReference(job.partition, job.output.rows)])
    table_draft.close()


def split_file_references(draft: Draft, args: Any) -> None:
    """Move references to partitions below their own partition. No row is lost, and no row is referenced twice."""
    wanted: SplitFileReferences = read(args, SplitFileReferences)
    table_draft = TableDraft(draft)
    for request in wanted.requests:
        _split(table_draft, request)
    table_draft.close()


def delete_files(draft: Draft, args: Any) -> None:
    """Stop tracking files without references. The caller has deleted their data, or leaves it to another table."""
    wanted: Filenames = read(args, Filenames)
    table_draft = TableDraft(draft)
    for filename in wanted.filenames:
        count = table_draft.count(filename)
        if count is None:
            raise Rejected(messages.file_not_found(filename))
        if count:
            raise Rejected(messages.file_has_references(filename, count))
        table_draft.forget_file(filename)


def collect_files(draft: Draft, args: Any) -> None:
    """Declare untracked files to be garbage. No later transaction can add them."""
    wanted: Filenames = read(args, Filenames)
    table_draft = TableDraft(draft)
    for filename in wanted.filenames:
        if table_draft.is_tracked(check_filename(filename)):
            raise Rejected(messages.file_tracked(filename))
        draft.put(COLLECTED + filename, None)


def _input(table_draft: TableDraft, job: ReplaceFileReferences, filename: str) -> FileReference:
    if not table_draft.is_tracked(filename):
        raise Rejected(messages.file_not_found(filename))
    reference = table_draft.reference(job.partition, filename)
    if reference is None:
        raise Rejected(messages.reference_not_found(job.partition, filename))
    if reference.job != job.job:
        raise Rejected(messages.reference_not_assigned(job.job, job.partition, filename))
    return reference


def _split(table_draft: TableDraft, request: Split) -> None:
    if not table_draft.is_tracked(request.filename):
        raise Rejected(messages.file_not_found(request.filename))
    reference = table_draft.reference(request.partition, request.filename)
    if reference is None:
        raise Rejected(messages.reference_not_found(request.partition, request.filename))
    _check_free(reference)
    for new in request.references:
        if table_draft.reference(new.partition, request.filename) is not None:
            raise Rejected(messages.reference_already_exists(new.partition, request.filename))
    _check_pieces(table_draft, reference, request.references)
    table_draft.drop_reference(reference, [new.partition for new in request.references])
    for new in request.references:
        piece = FileReference(request.filename, new.partition, new.rows, new.approximate, complete=new.complete)
        table_draft.put_reference(piece)


def _check_free(reference: FileReference) -> None:
    if reference.job is not None:
        text = messages.reference_already_assigned(reference.job, reference.partition, reference.filename)
        raise Rejected(text)


def _check_pieces(table_draft: TableDraft, reference: FileReference, pieces: tuple[NewReference, ...]) -> None:
    """Raise Rejected unless the pieces lie below the reference, share no key, and have all of its rows."""
    filename, partition = reference.filename, reference.partition
    if not pieces:
        raise Rejected(f"Malformed transaction: a reference is split into none, filename {filename}")
    table_draft.check_apart(filename, [piece.partition for piece in pieces])
    for piece in pieces:
        if partition not in table_draft.ancestors(piece.partition):
            raise Rejected(f"Partition {piece.partition} does not lie in partition {partition}, filename {filename}")
    rows = sum(piece.rows for piece in pieces)
    counted = not any(piece.approximate for piece in pieces)
    if rows != reference.rows and not (counted and reference.approximate):
        raise Rejected(f"Split of {reference.rows} rows into {rows}, in partition {partition}, filename {filename}")
    parent = table_draft.need_partition(partition)
    # Equal exact sums prove that no row is lost. With an approximate count, the pieces must cover the partition.
    if (reference.approximate or not counted) and not _covers(
        table_draft, parent, {piece.partition for piece in pieces}
    ):
        raise Rejected(f"Split leaves out a part of partition {partition}, filename {filename}")


def _covers(table_draft: TableDraft, partition: Partition, chosen: set[str]) -> bool:
    """Return whether the chosen partitions at or below ``partition`` together cover it."""
    if partition.id in chosen:
        return True
    return bool(partition.children) and all(
        _covers(table_draft, table_draft.need_partition(child), chosen) for child in partition.children
    )
