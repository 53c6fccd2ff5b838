"""The failures of transactions: the exact texts, and the kind by which a program distinguishes them.

The docstring of each function states the cause of a failure, and in brackets the transactions that can fail with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stratalog.errors import Conflict

__all__ = [
    "FILES_PRESENT",
    "TransactionFailure",
    "TransactionRefused",
    "columns_refused",
    "failure_of",
    "file_already_exists",
    "file_collected",
    "file_has_references",
    "file_not_found",
    "file_not_set_aside",
    "file_tracked",
    "job_claimed",
    "job_not_found",
    "partition_not_found",
    "reference_already_assigned",
    "reference_already_exists",
    "reference_not_assigned",
    "reference_not_found",
    "same_filename",
    "source_content_differs",
    "source_content_known",
    "source_rows_present",
]

FILES_PRESENT = "Cannot initialise state store when files are present"


def file_already_exists(filename: str) -> str:
    """The table tracks a file of this name already (add, replace)."""
    return f"File already exists: {filename}"


def file_not_found(filename: str) -> str:
    """The table does not track the file (replace, split, delete, set aside)."""
    return f"File not found: {filename}"


def file_collected(filename: str) -> str:
    """An earlier transaction declared the file garbage (add, replace)."""
    return f"File was collected before it was added: {filename}"


def file_tracked(filename: str) -> str:
    """The table tracks the file, for example because another transaction has just added it (collect)."""
    return f"File is tracked: {filename}"


def reference_not_found(partition: str, filename: str) -> str:
    """The partition has no reference to the file (assign, replace, split, a query of assignments)."""
    return f"File reference not found in partition {partition}, filename {filename}"


def reference_already_assigned(job: str, partition: str, filename: str) -> str:
    """The reference has a job already (assign, split), or another job (a query of assignments)."""
    return f"Reference to file is already assigned to job {job}, in partition {partition}, filename {filename}"


def reference_not_assigned(job: str, partition: str, filename: str) -> str:
    """Another job has the reference, or no job has the reference (replace)."""
    return f"Reference to file is not assigned to job {job}, in partition {partition}, filename {filename}"


def reference_already_exists(partition: str, filename: str) -> str:
    """The request names a partition twice (add, split), or a partition already has a reference to the file (split)."""
    return f"Reference to file already exists in partition {partition}, filename {filename}"


def file_has_references(filename: str, count: int) -> str:
    """The file still has references (delete)."""
    return f"Cannot remove file as it still has references, filename {filename}, {count} references"


def same_filename(filename: str) -> str:
    """The new file is one of the input files (replace)."""
    return f"New file has the same filename as a file being removed: {filename}"


def partition_not_found(partition: str) -> str:
    """The partition does not exist (add, split of references, cancel, a query of one partition)."""
    return f"Partition not found: {partition}"


def source_content_differs(source: str, name: str) -> str:
    """The source had other content under this name before (add)."""
    return f"Source brought other content, source {source}, name {name}"


def source_content_known(source: str, name: str, known: str) -> str:
    """The source had this content under another name before (add)."""
    return f"Source brought the same content before, source {source}, name {name}, before as {known}"


def source_rows_present(source: str, name: str, count: int) -> str:
    """The rows do not begin right after the last row of the source's file that the table has (add)."""
    return f"Source rows are present up to {count}, source {source}, name {name}"


def columns_refused(reason: str) -> str:
    """The columns do not fit the table's columns, or no table can have them (create, set columns)."""
    return f"Columns do not fit: {reason}"


def job_not_found(job: str, partition: str) -> str:
    """No reference of the partition is assigned to the job (claim, cancel)."""
    return f"Job not found: {job}, in partition {partition}"


def job_claimed(job: str, partition: str, worker: str) -> str:
    """The stored claim differs from the claim that the worker saw (claim)."""
    return f"Job is claimed: {job}, in partition {partition}, by {worker}"


def file_not_set_aside(filename: str) -> str:
    """The file is not set aside (release)."""
    return f"File is not set aside: {filename}"


class TransactionFailure(msgspec.Struct, frozen=True):
    """One failed request of a call: its index, the kind of failure, and the text."""

    request: int
    kind: str
    reason: str


class TransactionRefused(Conflict):
    """Transactions of a call failed their checks.

    The call's other transactions are committed. Only `Table.replace_file_references` makes several, one for each job.
    """

    code = "refused"

    def __init__(self, failures: Sequence[TransactionFailure], version: int | None = None) -> None:
        self.failures = tuple(failures)
        self.version = version
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        super().__init__(failures[0].reason + more)

    @property
    def kind(self) -> str:
        """The kind of the first failure."""
        return self.failures[0].kind


_KINDS = (
    ("File already exists: ", "file-already-exists"),
    ("File not found: ", "file-not-found"),
    ("File was collected ", "file-collected"),
    ("File is tracked: ", "file-tracked"),
    ("File reference not found ", "file-reference-not-found"),
    ("Reference to file is already assigned ", "file-reference-assigned-to-job"),
    ("Reference to file is not assigned ", "file-reference-not-assigned-to-job"),
    ("Reference to file already exists ", "file-reference-already-exists"),
    ("Cannot remove file ", "file-has-references"),
    ("New file has the same filename ", "new-reference-same-as-old"),
    (FILES_PRESENT, "files-present"),
    ("Partition not found: ", "partition-not-found"),
    ("Source brought ", "source-conflict"),
    ("Source rows are present ", "source-rows-present"),
    ("Columns do not fit: ", "columns"),
    ("Job not found: ", "job-not-found"),
    ("Job is claimed: ", "job-claimed"),
    ("File is not set aside: ", "file-not-set-aside"),
    ("Malformed transaction", "malformed"),
    ("there is no table", "no-table"),
)


def failure_of(reason: str, request: int = 0) -> TransactionFailure:
    """Return the failure for the reason of a rejected mutation. The kind of an unlisted reason is ``partitions``."""
    kind = next((kind for text, kind in _KINDS if reason.startswith(text)), "partitions")
    return TransactionFailure(request, kind, reason)
