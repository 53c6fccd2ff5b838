"""Table: the handle through which programs change and read one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from stratalog import Conflict, Document, Draft, Rules, Store
from stratalog.clock import new_id
from stratalog.codec import decode, encode
from stratalog.errors import Invalid, NotFound, VersionForgotten
from stratalog_table import damaged_files, job_claims, partitions, references, table_changes, version_times
from stratalog_table.columns import ValueColumn, check_columns
from stratalog_table.damaged_files import FileDamage, SetAside
from stratalog_table.data_folder import DataFolder
from stratalog_table.folder_register import FolderRegister
from stratalog_table.job_claims import CancelJob, ClaimJob, JobClaim
from stratalog_table.jobs import JobTracker
from stratalog_table.limits import TRANSACTIONS_PER_CALL_MAX
from stratalog_table.locations import store_location
from stratalog_table.messages import TransactionRefused, failure_of
from stratalog_table.model import NewFile, Partition, Schema
from stratalog_table.partitions import ExtendPartitionTree, Partitions, Purge, SetData, SplitPartition
from stratalog_table.queries import TableView
from stratalog_table.references import (
    AddFiles,
    AssignJobIds,
    Assignment,
    Filenames,
    ReplaceFileReferences,
    Split,
    SplitFileReferences,
)
from stratalog_table.retention import oldest_needed
from stratalog_table.row_order import Key, check_edge, encode_key
from stratalog_table.table_changes import Alteration, SetColumns, SetRetention
from stratalog_table.transaction_group import CommittedTransaction, Committer, Request
from stratalog_table.tree import extended, from_split_points, split

__all__ = ["MUTATORS", "RULES", "Table", "open_table", "plain", "table_handle"]

MUTATORS: Mapping[str, Callable[[Draft, Any], None]] = MappingProxyType(
    {
        "create_table": partitions.create_table,
        "initialise_partitions": partitions.initialise_partitions,
        "split_partition": partitions.split_partition,
        "extend_partition_tree": partitions.extend_partition_tree,
        "reinitialise": partitions.reinitialise,
        "add_files": references.add_files,
        "assign_job_ids": references.assign_job_ids,
        "replace_file_references": references.replace_file_references,
        "split_file_references": references.split_file_references,
        "delete_files": references.delete_files,
        "collect_files": references.collect_files,
        "clear_files": partitions.clear_files,
        "purge": partitions.purge,
        "set_data": partitions.set_data,
        "alter": table_changes.alter,
        "set_columns": table_changes.set_columns,
        "set_retention": table_changes.set_retention,
        "claim_job": job_claims.claim_job,
        "cancel_job": job_claims.cancel_job,
        "set_aside_files": damaged_files.set_aside_files,
        "release_files": damaged_files.release_files,
        "record_time": version_times.record_time,
    }
)
RULES = Rules(mutators=MUTATORS, oldest_needed=oldest_needed)
"""The rules of a store with tables, for a program that opens the documents of tables itself."""

PURGE_ROWS = 5000


class Table:
    """One table. Threads may share a handle. Their concurrent transactions then share entries of the log.

    A transaction is checked against the newest state and committed before the call returns. The call returns the
    version that contains the transaction. If a check fails, the call raises TransactionRefused, and nothing of that
    request takes effect. The call also raises the errors of `Committer.commit`.
    """

    def __init__(self, store: Store, document: Document, author: str = "") -> None:
        self.store = store
        self.document = document
        self.jobs = JobTracker(store, document)
        """The merge and ingest jobs: `jobs.jobs()` yields them, and `jobs.job(name)` returns one or None."""
        self._clock = store.environment.clock
        self._committer = Committer(document, self._clock, author)

    def __repr__(self) -> str:
        return f"<Table {self.document.organisation}/{self.document.name}>"

    # Reading

    @property
    def version(self) -> int:
        """The newest version, read now."""
        return self.document.version

    def at(self, version: int | None = None) -> TableView:
        """Return the table at a version, by default the newest. Raises NotFound, VersionForgotten."""
        return TableView(self.document.at(version), f"{self.document.organisation}/{self.document.name}")

    @property
    def schema(self) -> Schema:
        """The columns of the row key."""
        return self.at().meta.schema

    def unreferenced_before(self, time_ms: int) -> Iterator[str]:
        """Yield the files that lost their last reference strictly before a time.

        If the log has forgotten the versions of that time, the times that `record_time` recorded decide.
        """
        version = self.version_before(time_ms)
        view = self.at()
        return view.unreferenced(version_times.newest_before(view.times(), time_ms) if version is None else version)

    def version_before(self, time_ms: int) -> int | None:
        """Return the newest version that was committed strictly before a time, or None if the log has forgotten it."""
        try:
            return self.document.log.version_at(time_ms - 1)
        except VersionForgotten:
            return None

    def cleared_ms(self) -> int:
        """Return the time of the version that last wrote the table's metadata. The last clear was not later.

        Return 0 if no row from before the clear is left. If the log has forgotten that version, return a later time:
        the earliest recorded time that is known to be later, or the time now.
        """
        view = self.at()
        version = view.cleared_in()
        try:
            return self.changed_ms(version) if version else 0
        except VersionForgotten:
            recorded_ms = version_times.known_by(view.times(), version)
            return self._clock.wall_ms() if recorded_ms is None else recorded_ms

    def changed_ms(self, version: int) -> int:
        """Return the time at which a version was committed. Raises NotFound, VersionForgotten."""
        return self.document.log.entry(version).created_ms

    # Data files

    @property
    def incarnation(self) -> str:
        """The id of this table among all tables that have had its name. Names of its data files begin with this id."""
        return self.document.log.record.incarnation

    def register(self, folder: DataFolder) -> FolderRegister:
        """Return the register of a folder of data files, opened for this table."""
        return FolderRegister(self.store, self.document.log, folder)

    def set_data(self, url: str) -> int:
        """Set the location of the data files. The files themselves are not moved."""
        return self._commit("set_data", SetData(store_location(self.store, url)))

    # Files

    def add_files(self, new: Sequence[NewFile], *, job: str | None = None, **details: Any) -> int | None:
        """Track files. ``job`` is the ingest job that wrote the files. ``details`` are the job's task, run and
        written_ms, and the ``source`` of the rows.

        In each method of `Table` that may return None, an empty list commits nothing, and the call returns None.
        """
        weight = sum(1 + len(file.references) for file in new)
        return self._commit("add_files", AddFiles(tuple(new), job=job, **details), weight) if new else None

    def assign_job_ids(self, requests: Sequence[Assignment]) -> int | None:
        """Assign either all these references to jobs, or none of them."""
        wanted = tuple(request for request in requests if request.filenames)
        weight = sum(len(request.filenames) for request in wanted)
        return self._commit("assign_job_ids", AssignJobIds(wanted), weight) if wanted else None

    def replace_file_references(self, jobs: Sequence[ReplaceFileReferences]) -> int | None:
        """Commit the results of jobs, each as a separate transaction.

        Raises TransactionRefused with the jobs that failed. The other jobs are committed.
        """
        requests = [Request("replace_file_references", plain(job), 1 + len(job.inputs)) for job in jobs]
        return self._each(requests) if requests else None

    def split_file_references(self, requests: Sequence[Split]) -> int | None:
        """Move either all these references to partitions below, or none of them."""
        weight = sum(1 + len(request.references) for request in requests)
        wanted = SplitFileReferences(tuple(requests))
        return self._commit("split_file_references", wanted, weight) if requests else None

    def delete_files(self, filenames: Sequence[str]) -> int | None:
        """Stop tracking either all these files, which have no references, or none of them."""
        return self._commit("delete_files", Filenames(tuple(filenames)), len(filenames)) if filenames else None

    def collect_files(self, filenames: Sequence[str]) -> int | None:
        """Declare either all these untracked files to be garbage, or none of them. The caller then deletes them."""
        return self._commit("collect_files", Filenames(tuple(filenames)), len(filenames)) if filenames else None

    def clear_files(self) -> int:
        """Stop tracking all files, in one small entry. `purge` deletes the rows that a clear leaves behind."""
        return self._commit("clear_files", None)

    # Jobs and damage

    def claim_job(self, job: str, partition: str, worker: str, seen: JobClaim | None = None) -> int:
        """Claim a job for a worker. ``seen`` is the stored claim that the new claim replaces, or None."""
        return self._commit("claim_job", ClaimJob(job, partition, worker, seen, self._clock.wall_ms()))

    def cancel_job(self, job: str, partition: str) -> int:
        """Unassign all references of a partition from a job. So the table refuses the commit of the job's worker."""
        return self._commit("cancel_job", CancelJob(job, partition))

    def set_aside_files(self, files: Sequence[FileDamage]) -> int | None:
        """Set unreadable files aside. The files stay referenced, and no maintenance step uses them."""
        return self._commit("set_aside_files", SetAside(tuple(files)), len(files)) if files else None

    def release_files(self, filenames: Sequence[str]) -> int | None:
        """Release files that were set aside and can be read again."""
        return self._commit("release_files", Filenames(tuple(filenames)), len(filenames)) if filenames else None

    # Columns and retention

    def alter(self, columns: Sequence[SetColumns] = (), *, retention_days: int | None = None) -> int:
        """Make changes of the columns in this order, and set the retention unless it is None: all changes or none.

        Raises the errors of `set_columns`.
        """
        for change in columns:
            check_columns(change.columns)
        return self._commit("alter", Alteration(tuple(columns), retention_days))

    def set_columns(self, columns: Sequence[ValueColumn], *, add: bool = False, widen: bool = False) -> int:
        """Set, add or widen value columns. Raises Invalid, LimitExceeded and TransactionRefused.

        A table without declared columns gets exactly these columns. In any other table ``add`` allows new columns, and
        ``widen`` allows wider types.
        """
        check_columns(columns)
        return self._commit("set_columns", SetColumns(tuple(columns), add, widen))

    def set_retention(self, retention_days: int) -> int:
        """Set the number of days for which data files stay after the last version that needs them."""
        return self._commit("set_retention", SetRetention(retention_days))

    def record_time(self) -> int:
        """Record in the state that the newest version is committed by now. The time outlives the log's retention."""
        version = self.version
        try:
            committed_ms = self.changed_ms(version)
        except NotFound:
            committed_ms = 0
        # The time of the entry is later than this clock's if this clock is behind.
        time_ms = max(committed_ms, self._clock.wall_ms())
        return self._commit("record_time", version_times.RecordTime(version, time_ms))

    # Partitions

    def initialise(self, points: Sequence[Key] = ()) -> int:
        """Replace the tree of a table without files by a tree that is split at ``points`` on the first column."""
        return self.initialise_partitions(self._tree(points))

    def initialise_partitions(self, tree: Sequence[Partition]) -> int:
        """Replace the tree of a table without files."""
        return self._commit("initialise_partitions", Partitions(tuple(tree)), len(tree))

    def reinitialise(self, points: Sequence[Key] = ()) -> int:
        """Stop tracking all files and replace the tree, in one version."""
        tree = self._tree(points)
        return self._commit("reinitialise", Partitions(tuple(tree)), len(tree))

    def split_at(self, partition: str, point: Key, dimension: int = 0) -> int:
        """Split a leaf in two at the key ``point`` of the key column with the index ``dimension``."""
        view = self.at()
        edge = check_edge(encode_key(view.meta.schema.keys[dimension].type, point))
        parent, *children = split(view.partition(partition), edge, dimension, self.new_id(), self.new_id())
        return self.split_partition(parent, children)

    def split_partition(self, parent: Partition, children: Sequence[Partition]) -> int:
        """Split a leaf. ``parent`` is the leaf after the split."""
        return self._commit("split_partition", SplitPartition(parent, tuple(children)), 3)

    def extend_at(self, partition: str, points: Sequence[Key]) -> int:
        """Split a leaf at many keys of the first column, in one transaction."""
        view = self.at()
        top, *below = extended(view.meta.schema, view.partition(partition), points, self.new_id)
        return self.extend_partition_tree([top], below)

    def extend_partition_tree(self, update: Sequence[Partition], new: Sequence[Partition]) -> int:
        """Split leaves into whole subtrees."""
        return self._commit(
            "extend_partition_tree", ExtendPartitionTree(tuple(update), tuple(new)), len(update) + len(new)
        )

    # Snapshots and retention of the log

    def snapshot(self) -> int:
        """Write the snapshot of the newest version and return that version."""
        return self.document.snapshot()

    def forget_below(self, version: int) -> int:
        """Delete the log below ``version``.

        Before the deletion, the job tracker reads the log up to ``version``, and a snapshot of ``version`` is verified.
        Raises Conflict, with nothing deleted, if the table's retention covers an older version.
        """
        self._check_promise(version)
        # The tracker must read the versions before the log deletes them.
        self.jobs.catch_up(version)
        return self.document.forget_below(version)

    def _check_promise(self, version: int) -> None:
        retention_days = self.at().meta.retention_days
        if retention_days and version > (promised := oldest_needed(self.document)):
            text = "the table's retention keeps its versions longer"
            raise Conflict(text, version=version, promised=promised, days=retention_days)

    def purge(self) -> int:
        """Delete the rows that clears left behind and return the number of commits."""
        commits = 0
        while (meta := self.at().meta) and (meta.purged_tree, meta.purged_files) != (meta.tree, meta.files):
            self._commit("purge", Purge(PURGE_ROWS), PURGE_ROWS)
            commits += 1
        return commits

    def new_id(self) -> str:
        """Return a random id for a partition, a job or a file."""
        return new_id(self._clock, 20)

    def commit(self, requests: Sequence[Request]) -> list[CommittedTransaction]:
        """Commit at most `TRANSACTIONS_PER_CALL_MAX` transactions and return each outcome. See `Committer.commit`."""
        return self._committer.commit(requests)

    def _tree(self, points: Sequence[Key]) -> list[Partition]:
        return from_split_points(self.schema, points, self.new_id)

    def _commit(self, name: str, transaction: msgspec.Struct | None, weight: int = 1) -> int:
        return self._each([Request(name, plain(transaction), weight)])

    def _each(self, requests: Sequence[Request]) -> int:
        """Commit each request as a transaction. Return the newest version. Raises TransactionRefused for failures."""
        answers: list[CommittedTransaction] = []
        for start in range(0, len(requests), TRANSACTIONS_PER_CALL_MAX):
            answers += self._committer.commit(requests[start : start + TRANSACTIONS_PER_CALL_MAX])
        failures = [
            failure_of(answer.reason, position) for position, answer in enumerate(answers) if answer.reason is not None
        ]
        version = max(answer.version for answer in answers)
        if failures:
            raise TransactionRefused(failures, version)
        return version


def open_table(store: Store, organisation: str, name: str, *, author: str = "") -> Table:
    """Return the table with this name. Raises NotFound."""
    table = table_handle(store, organisation, name, author)
    table.at()
    return table


def table_handle(store: Store, organisation: str, name: str, author: str = "") -> Table:
    """Return the handle of the log with this name, whether or not the log contains a table. Raises NotFound."""
    return Table(store, Document(store.log(organisation, name, noun="table"), RULES), author)


def plain(transaction: msgspec.Struct | None) -> Any:
    """Return a mutation's arguments in the form in which the log returns them: lists, not tuples.

    Raises Invalid for a number of over 64 bits and for a lone surrogate.
    """
    try:
        return None if transaction is None else decode(encode(transaction))
    except (OverflowError, UnicodeEncodeError) as exc:
        raise Invalid("a transaction has a value that cannot be stored", reason=str(exc)) from exc
