"""Workers of merge jobs. A worker claims a job, merges the files, renews the claim and commits the output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa  # type: ignore[import-untyped]

from stratalog import NotFound
from stratalog.clock import is_interval_over
from stratalog_table.data_files import DataFileDamaged, DataFiles
from stratalog_table.job_claims import JobClaim
from stratalog_table.limits import check_duration
from stratalog_table.merge import OutOfOrder, merged
from stratalog_table.messages import TransactionRefused
from stratalog_table.model import FileReference, Held
from stratalog_table.references import Output, ReplaceFileReferences
from stratalog_table.rows import new_filename
from stratalog_table.table import Table

__all__ = ["JobWorker"]

BEATS_PER_LEASE = 4


class JobWorker:
    """One worker. It may take over a job if the job's worker has not renewed the claim for ``lease_ms``."""

    def __init__(self, table: Table, data_files: DataFiles, lease_ms: int) -> None:
        check_duration("lease_ms", lease_ms)
        self._table = table
        self._data_files = data_files
        self._lease_ms = lease_ms
        self._id = table.new_id()

    def work(self, job: str, partition: str) -> bool:
        """Claim a job, merge its files and commit the output.

        Return False if another worker has the job, or if the job no longer exists. Raises DataFileDamaged if a file is
        missing or unreadable, or if its rows or columns do not fit. The worker then cancels the job. After the caller
        has set the file aside, the next plan can merge the other files.
        """
        claim = _Claim(self._table, job, partition, self._id, self._lease_ms)
        try:
            return claim.take() and self._merge(claim)
        except _JobLost:
            return False
        except DataFileDamaged:
            with suppress(TransactionRefused):
                self._table.cancel_job(job, partition)
            raise

    def _merge(self, claim: _Claim) -> bool:
        view = self._table.at()
        held = view.on_partition(claim.partition)
        inputs = [reference for reference in held.references if reference.job == claim.job]
        if not inputs:
            return False
        # Take the columns of the same view. A file that an earlier view does not track may have more columns, and the
        # merge would drop their values.
        schema = self._data_files.with_columns(view.columns()).rows_schema or self._joined_schema(claim, inputs)
        parts = merged(self._data_files.schema, [self._rows(claim, held, reference, schema) for reference in inputs])
        filename = new_filename(self._table)
        try:
            count = self._data_files.write_parts(filename, schema, claim.renewing(parts))
        except OutOfOrder as exc:
            text = "the rows of a data file are not in the order of the key"
            raise DataFileDamaged(text, filename=inputs[exc.position].filename) from exc
        output, names = Output(filename, count), tuple(reference.filename for reference in inputs)
        try:
            self._table.replace_file_references([ReplaceFileReferences(claim.job, claim.partition, names, output)])
        except TransactionRefused:
            # Only a refusal proves that no version names the output. After any other error the transaction may be
            # committed, so the file must stay.
            self._data_files.delete(filename)
            return False
        return True

    def _rows(self, claim: _Claim, held: Held, reference: FileReference, schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield the rows of a reference. Raises DataFileDamaged if the table records another exact count."""
        count = 0
        try:
            for part in self._data_files.stream(reference.filename, held.region, schema):
                count += part.num_rows
                yield part
        except FileNotFoundError as exc:
            raise claim.missing(reference) from exc
        if count != reference.rows and not reference.approximate:
            raise DataFileDamaged(
                "a data file does not have the rows that the table records",
                filename=reference.filename,
                value=count,
                rows=reference.rows,
            )

    def _joined_schema(self, claim: _Claim, references: Sequence[FileReference]) -> pa.Schema:
        """Return the union of the files' columns, for a table that declares no columns."""
        schema = None
        for reference in references:
            try:
                own = self._data_files.file_schema(reference.filename)
                schema = own if schema is None else pa.unify_schemas([schema, own], promote_options="permissive")
            except FileNotFoundError as exc:
                raise claim.missing(reference) from exc
            except (pa.ArrowInvalid, pa.ArrowTypeError) as exc:
                text = "a data file's columns do not fit those of the other files"
                raise DataFileDamaged(text, filename=reference.filename, reason=str(exc)) from exc
        return schema


class _JobLost(Exception):
    """Another worker has the job by now, or the job no longer exists."""


class _Claim:
    """A worker's claim of a job."""

    def __init__(self, table: Table, job: str, partition: str, worker: str, lease_ms: int) -> None:
        self.job = job
        self.partition = partition
        self._table = table
        self._worker = worker
        self._lease_ms = lease_ms
        self._clock = table.store.environment.clock
        self._seen: JobClaim | None = None
        self._renewed_ms = 0

    def take(self) -> bool:
        """Claim the job and return True, or return False if another worker's claim is younger than the lease."""
        known = self._table.at().claim(self.job, self.partition)
        if known is not None:
            self._seen, version = known
            # The worker's clock may have been behind. The version's time is later after a commit by a clock far ahead.
            times_ms = (self._seen.claimed_ms, self._changed_ms(version))
            if not all(is_interval_over(self._clock, time_ms, self._lease_ms) for time_ms in times_ms):
                return False
        self._renew()
        return True

    def renewing(self, parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield the parts. After a part, renew the claim if a heartbeat is due. Raises _JobLost for a lost claim."""
        for part in parts:
            yield part
            if self._lease_ms and self._clock.wall_ms() - self._renewed_ms >= self._lease_ms // BEATS_PER_LEASE:
                self._renew()

    def missing(self, reference: FileReference) -> Exception:
        """Return the error for a missing file: _JobLost if the job lost the reference, else DataFileDamaged."""
        known = self._table.at().reference(self.partition, reference.filename)
        if known is None or known.job != self.job:
            return _JobLost()
        return DataFileDamaged("a data file is missing", filename=reference.filename)

    def _renew(self) -> None:
        try:
            self._table.claim_job(self.job, self.partition, self._worker, self._seen)
        except TransactionRefused as exc:
            raise _JobLost from exc
        self._seen = JobClaim(self._worker, 1 if self._seen is None else self._seen.beats + 1)
        self._renewed_ms = self._clock.wall_ms()

    def _changed_ms(self, version: int) -> int:
        try:
            return self._table.changed_ms(version)
        except NotFound:
            # The log no longer has the version of the claim, so the claim is old. Time 0 makes the claim expire.
            return 0
