"""The failures of transactions: the exact texts, and the kind by which a program distinguishes them.

The docstring of each text names the transactions that fail with it, and the cause.
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
    """Add, replace: the name is tracked already."""
    return f"File already exists: {filename}"


def file_not_found(filename: str) -> str:
    """Replace, split, delete, set aside: the table does not track the file."""
    return f"File not found: {filename}"


def file_collected(filename: str) -> str:
    """Add, replace: the file was declared garbage before this transaction."""
    return f"File was collected before it was added: {filename}"


def file_tracked(filename: str) -> str:
    """Collect: the table tracks the file, for example because it was added meanwhile."""
    return f"File is tracked: {filename}"


def reference_not_found(partition: str, filename: str) -> str:
    """Assign, replace, split, and a query of assignments: the partition has no reference to the file."""
    return f"File reference not found in partition {partition}, filename {filename}"


def reference_already_assigned(job: str, partition: str, filename: str) -> str:
    """Assign, split: the reference has a job already. A query of assignments: the reference has another job."""
    return f"Reference to file is already assigned to job {job}, in partition {partition}, filename {filename}"


def reference_not_assigned(job: str, partition: str, filename: str) -> str:
    """Replace: another job has the reference, or no job has it."""
    return f"Reference to file is not assigned to job {job}, in partition {partition}, filename {filename}"


def reference_already_exists(partition: str, filename: str) -> str:
    """Add, split: a partition is named twice. Split: the partition already has a reference to the file."""
    return f"Reference to file already exists in partition {partition}, filename {filename}"


def file_has_references(filename: str, count: int) -> str:
    """Delete: the file still has references."""
    return f"Cannot remove file as it still has references, filename {filename}, {count} references"


def same_filename(filename: str) -> str:
    """Replace: the new file is one of its own inputs."""
    return f"New file has the same filename as a file being removed: {filename}"


def partition_not_found(partition: str) -> str:
    """Transactions and queries that name a partition: the partition does not exist."""
    return f"Partition not found: {partition}"


def source_content_differs(source: str, name: str) -> str:
    """Add: the source brought other content under this name before."""
    return f"Source brought other content, source {source}, name {name}"


def source_content_known(source: str, name: str, known: str) -> str:
    """Add: the source brought this content under another name before."""
    return f"Source brought the same content before, source {source}, name {name}, before as {known}"


def source_rows_present(source: str, name: str, count: int) -> str:
    """Add: the rows do not begin right after the last row of the source's file that the table has."""
    return f"Source rows are present up to {count}, source {source}, name {name}"


def columns_refused(reason: str) -> str:
    """Set columns: the columns do not fit the table's columns."""
    return f"Columns do not fit: {reason}"


def job_not_found(job: str, partition: str) -> str:
    """Claim, cancel: no reference of the partition is assigned to the job."""
    return f"Job not found: {job}, in partition {partition}"


def job_claimed(job: str, partition: str, worker: str) -> str:
    """Claim: the stored claim differs from the claim that the worker saw."""
    return f"Job is claimed: {job}, in partition {partition}, by {worker}"


def file_not_set_aside(filename: str) -> str:
    """Release: the file is not set aside."""
    return f"File is not set aside: {filename}"


class TransactionFailure(msgspec.Struct, frozen=True):
    """One failed request of a call: its index, the kind of failure, and the text."""

    request: int
    kind: str
    reason: str


class TransactionRefused(Conflict):
    """Requests of a call failed their checks.

    Each request is a transaction of its own, so the requests that are not in ``failures`` are committed.
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
