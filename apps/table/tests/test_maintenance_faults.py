"""Faults of maintenance: a pass lists the failure of one file, job or leaf, and does all other work."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apps.table.tests.helpers import (
    LONG,
    assignment,
    collect_now,
    everything_is_old,
    leaves,
    memory_store,
    new_file,
    refused,
    reopened,
    table_of,
)
from apps.table.tests.test_data_files import all_of, made_of, numbered, rows_in
from stratalog import Conflict, Corrupt
from stratalog.testing.clock import ManualClock
from stratalog_table import Table, maintenance
from stratalog_table.damaged_files import FileDamage
from stratalog_table.data_files import DataFileDamaged, DataFiles
from stratalog_table.job_claims import JobClaim
from stratalog_table.job_worker import JobWorker, _Claim
from stratalog_table.limits import DAMAGE_REASON_CHARACTERS_MAX, RETENTION_DAYS_MAX
from stratalog_table.maintenance import (
    TableMaintenanceReport,
    compact,
    maintain_table,
    push_down,
    retry_damaged,
)
from stratalog_table.maintenance_faults import MaintenanceFaults
from stratalog_table.merge_plan import plan
from stratalog_table.rows import ingest, scan

DAY_MS = 86_400_000


@pytest.fixture
def made(tmp_path: Path) -> tuple[Table, DataFiles]:
    """A table with nine files on two leaves."""
    table, data_files = made_of(tmp_path, LONG)
    table.initialise([500])
    for batch in range(9):
        ingest(table, data_files, numbered(batch * 100, 100))
    return table, data_files


def maintain(table: Table, data_files: DataFiles, rows_max: int = 10**6) -> TableMaintenanceReport:
    with everything_is_old():
        return maintain_table(table, data_files, rows_max=rows_max, files_min=3, age_ms=0)


def path_of(data_files: DataFiles, filename: str) -> Path:
    return Path(data_files.folder.path(filename))


def files_of(table: Table) -> list[str]:
    return [file.filename for file in table.at().files(0).files]


def flip(path: Path) -> None:
    """Change a byte in the pages of a file."""
    body = bytearray(path.read_bytes())
    body[len(body) // 4] ^= 0x55
    path.write_bytes(body)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def swap(path: Path) -> None:
    """Replace a file by a readable file with the same columns and other rows."""
    pq.write_table(pa.table({"id": [1], "row": [0]}), path)


def retype(path: Path) -> None:
    rows = pq.read_table(path)
    pq.write_table(rows.set_column(1, "row", rows.column("row").cast(pa.string())), path)


def shuffle(path: Path) -> None:
    """Move a row to the end. Without a check of the order, a merge never ends, because bisection misses this row."""
    rows = pq.read_table(path).to_pylist()
    pq.write_table(pa.Table.from_pylist([rows[0], *rows[2:], rows[1]], pq.read_schema(path)), path)


@pytest.mark.parametrize("damage", [flip, cut, swap, retype, shuffle, Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_damaged_file_is_set_aside_and_all_undamaged_files_are_merged(
    made: tuple[Table, DataFiles], damage: Any
) -> None:
    table, data_files = made
    chosen, *_ = files_of(table)
    path = path_of(data_files, chosen)
    body = path.read_bytes()
    damage(path)
    first = maintain(table, data_files)
    assert {fault.subject for fault in first.faults} == {chosen}
    assert [file.filename for file in table.at().damaged()] == [chosen]
    second = maintain(table, data_files)
    assert second.faults == ()
    assert len(files_of(table)) <= 3
    assert sum(holding.tally.rows for holding in table.at().holdings()) == 900
    assert path.exists() == (damage is not Path.unlink)
    # Restore the file, as from a backup.
    path.write_bytes(body)
    assert retry_damaged(table, data_files) == 1
    assert [*table.at().damaged()] == []
    assert rows_in(table, data_files) == all_of(900)
    assert maintain(table, data_files).faults == ()


def test_a_set_aside_file_named_outside_the_folder_does_not_stop_a_retry(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    chosen, *_ = files_of(table)
    # Another program may have added such a name.
    table.add_files([new_file("../x", partition=leaves(table)[0], rows=1)])
    table.set_aside_files([FileDamage("../x", "x"), FileDamage(chosen, "x")])
    assert retry_damaged(table, data_files) == 1
    assert [file.filename for file in table.at().damaged()] == ["../x"]


def test_a_scan_reports_or_skips_a_damaged_file(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    chosen, *_ = files_of(table)
    cut(path_of(data_files, chosen))
    with pytest.raises(DataFileDamaged, match=chosen):
        [*scan(table.at(), data_files)]
    skipped: list[DataFileDamaged] = []
    rows = sum(part.num_rows for part in scan(table.at(), data_files, skip=skipped.append))
    assert rows == 800
    assert {exc.details["filename"] for exc in skipped} == {chosen}
    path_of(data_files, chosen).unlink()
    assert sum(part.num_rows for part in scan(table.at(), data_files, skip=skipped.append)) == 800
    assert retry_damaged(table, data_files) == 0


def test_a_leaf_with_a_damaged_file_is_split_by_its_readable_files(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    chosen, *_ = files_of(table)
    cut(path_of(data_files, chosen))
    done = maintain(table, data_files, rows_max=300)
    assert done.splits == 2
    assert {fault.subject for fault in done.faults} == {chosen}
    for _ in range(2):
        assert maintain(table, data_files, rows_max=300).faults == ()
    assert len(leaves(table)) == 4
    # The references of the damaged file stay on the partitions that were split.
    above = [
        reference.filename for reference in table.at().file_references() if reference.partition not in leaves(table)
    ]
    assert {*above} == {chosen}
    assert sum(holding.tally.rows for holding in table.at().holdings()) == 900


def test_unavailable_storage_sets_no_file_aside(made: tuple[Table, DataFiles], monkeypatch: pytest.MonkeyPatch) -> None:
    table, data_files = made

    def away(self: DataFiles, filename: str) -> None:
        raise OSError("the network is away")

    monkeypatch.setattr(DataFiles, "_dataset", away)
    monkeypatch.setattr(DataFiles, "_is_intact", away)
    done = maintain(table, data_files)
    assert {fault.reason for fault in done.faults} == {"the network is away"}
    assert [*table.at().damaged()] == []
    monkeypatch.undo()
    assert maintain(table, data_files).faults == ()
    assert rows_in(table, data_files) == all_of(900)


def test_maintenance_sets_no_file_aside_if_the_storage_fails_one_request(
    made: tuple[Table, DataFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, data_files = made
    real = DataFiles._dataset
    failing = {"the first request": True}

    def away_once(self: DataFiles, filename: str) -> Any:
        if failing.pop("the first request", False):
            raise OSError("AWS Error SLOW_DOWN")
        return real(self, filename)

    monkeypatch.setattr(DataFiles, "_dataset", away_once)
    assert [fault.reason for fault in maintain(table, data_files).faults] == ["AWS Error SLOW_DOWN"]
    assert [*table.at().damaged()] == []
    assert maintain(table, data_files).faults == ()
    assert rows_in(table, data_files) == all_of(900)


@pytest.mark.parametrize(
    "error", [pa.ArrowMemoryError("malloc failed"), OSError(errno.ENOSPC, "no space left")], ids=["memory", "disk"]
)
def test_a_file_that_this_machine_cannot_check_is_not_reported_as_damaged(
    made: tuple[Table, DataFiles], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    table, data_files = made

    def away(self: DataFiles, filename: str) -> None:
        raise OSError("AWS Error SLOW_DOWN")

    def fail(*rest: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(DataFiles, "_dataset", away)
    monkeypatch.setattr(pq, "ParquetFile", fail)
    with pytest.raises(type(error), match=str(error.args[-1])):
        data_files.read(table.at().file_references()[0].filename, data_files.schema.full_region())


def test_a_file_that_cannot_be_deleted_does_not_stop_the_collection(
    made: tuple[Table, DataFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, data_files = made
    chosen, *_ = files_of(table)
    delete = DataFiles.delete

    def stubborn(self: DataFiles, filename: str) -> None:
        if filename == chosen:
            raise PermissionError("not this one")
        delete(self, filename)

    monkeypatch.setattr(DataFiles, "delete", stubborn)
    for _ in range(2):
        done = maintain(table, data_files)
        assert [(fault.action, fault.subject) for fault in done.faults] == [("collect", chosen)]
    assert {file.filename for file in data_files.list()} == {chosen, *files_of(table)}
    with pytest.raises(PermissionError):
        collect_now(table, data_files)
    monkeypatch.undo()
    assert maintain(table, data_files).collected == 1
    assert {file.filename for file in data_files.list()} == {*files_of(table)}


def test_damage_of_the_store_in_a_job_does_not_stop_the_remaining_jobs(
    made: tuple[Table, DataFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, data_files = made
    at, met = Table.at, list[str]()

    def damaged(self: Table, *args: Any) -> Any:
        view = at(self, *args)
        on_partition = view.on_partition

        def read(partition: str) -> Any:
            if not met:
                met.append(partition)
            if partition == met[0]:
                raise Corrupt("a blob's bytes do not have the hash in its key")
            return on_partition(partition)

        view.on_partition = read  # type: ignore[method-assign]
        return view

    plan(table, 3)
    jobs = [job for job, _, _ in table.at().jobs()]
    assert len(jobs) == 2
    faults = MaintenanceFaults(table)
    with monkeypatch.context() as patch:
        patch.setattr(Table, "at", damaged)
        patch.setattr(maintenance, "plan", lambda table, files_min: None)
        assert compact(table, data_files, faults, files_min=3) == 1
    assert [(fault.action, fault.subject in jobs) for fault in faults.faults] == [("merge", True)]
    assert compact(table, data_files, files_min=3) == 1


def test_a_maintenance_pass_executes_its_own_merge_jobs(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    done = maintain_table(table, data_files, rows_max=10**6, files_min=3, age_ms=0, lease_ms=300_000)
    assert done.jobs == 2
    assert [*table.at().jobs()] == []


def claimed_by(table: Table, worker: str) -> tuple[str, str]:
    plan(table, 2)
    ((job, partition, _),) = table.at().jobs()
    table.claim_job(job, partition, worker)
    return job, partition


def test_a_worker_that_saw_a_claim_before_its_renewal_cannot_take_over_the_job() -> None:
    clock = ManualClock()
    table = table_of(memory_store(clock))
    table.add_files([new_file(f"{n}.parquet") for n in range(2)])
    job, partition = claimed_by(table, "first")
    with refused("job-claimed", f"Job is claimed: {job}, in partition {partition}, by first"):
        table.claim_job(job, partition, "second")
    clock.sleep(299)
    table.claim_job(job, partition, "first", JobClaim("first", 1))
    known = table.at().claim(job, partition)
    assert known is not None
    assert known[0] == JobClaim("first", 2, clock.wall_ms())
    with refused("job-claimed", f"Job is claimed: {job}, in partition {partition}, by first"):
        # The second worker saw the claim before its renewal.
        table.claim_job(job, partition, "second", JobClaim("first", 1))
    table.claim_job(job, partition, "second", JobClaim("first", 2))
    table.cancel_job(job, partition)
    assert table.at().claim(job, partition) is None
    with refused("job-not-found", f"Job not found: {job}, in partition {partition}"):
        table.claim_job(job, partition, "second", JobClaim("second", 3))
    with refused("job-not-found", f"Job not found: {job}, in partition {partition}"):
        table.cancel_job(job, partition)
    assert [job.status for job in table.jobs.jobs()] == ["cancelled"]
    assert plan(table, 2) == 1


def test_a_worker_renews_its_claim_and_stops_after_another_worker_takes_the_claim(
    made: tuple[Table, DataFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, data_files = made
    plan(table, 3)
    (job, partition, _), *_ = table.at().jobs()
    write_parts = DataFiles.write_parts
    seen: list[JobClaim] = []

    def slow(self: DataFiles, filename: str, schema: Any, parts: Any) -> int:
        def each() -> Any:
            for part in parts:
                # The lease of 1 ms below makes a heartbeat due after each part.
                yield part.slice(0, 1)
                yield part.slice(1)

        return write_parts(self, filename, schema, each())

    def claimed(job: str, partition: str, worker: str, known: JobClaim | None = None) -> int:
        seen.append(JobClaim(worker, 0 if known is None else known.beats))
        return claim_job(job, partition, worker, known)

    claim_job = table.claim_job
    monkeypatch.setattr(DataFiles, "write_parts", slow)
    monkeypatch.setattr(table, "claim_job", claimed)
    assert JobWorker(table, data_files, 1).work(job, partition)
    assert [claim.beats for claim in seen] == [0, 1]

    (job, partition, _), *_ = table.at().jobs()

    def overtaken(self: DataFiles, filename: str, schema: Any, parts: Any) -> int:
        other = reopened(table)
        known = other.at().claim(job, partition)
        other.claim_job(job, partition, "another", known and known[0])
        return write_parts(self, filename, schema, parts)

    monkeypatch.setattr(DataFiles, "write_parts", overtaken)
    before = {file.filename for file in data_files.list()}
    assert not JobWorker(table, data_files, 1).work(job, partition)
    assert {file.filename for file in data_files.list()} == before
    monkeypatch.undo()
    assert JobWorker(table, data_files, 0).work(job, partition)
    assert rows_in(table, data_files) == all_of(900)


def test_a_job_that_is_cancelled_while_it_is_done_changes_nothing(
    made: tuple[Table, DataFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, data_files = made
    plan(table, 3)
    (job, partition, _), *_ = table.at().jobs()
    write_parts = DataFiles.write_parts

    def cancelled(self: DataFiles, filename: str, schema: Any, parts: Any) -> int:
        count = write_parts(self, filename, schema, parts)
        reopened(table).cancel_job(job, partition)
        return count

    monkeypatch.setattr(DataFiles, "write_parts", cancelled)
    before = {file.filename for file in data_files.list()}
    assert not JobWorker(table, data_files, 0).work(job, partition)
    assert {file.filename for file in data_files.list()} == before
    assert rows_in(table, data_files) == all_of(900)


def test_a_claim_of_a_worker_whose_clock_was_far_ahead_can_be_taken_over() -> None:
    clock = ManualClock()
    table = table_of(memory_store(clock))
    table.add_files([new_file("a"), new_file("b")])
    table.assign_job_ids([assignment("job", "a", "b")])
    now_ms = clock.wall_ms()
    clock.set_wall(now_ms + 365 * 86_400_000)
    assert _Claim(table, "job", "root", "ahead", 60_000).take()
    assert not _Claim(table, "job", "root", "other", 60_000).take()
    clock.set_wall(now_ms)
    assert _Claim(table, "job", "root", "other", 60_000).take()


def test_a_claim_of_a_worker_whose_clock_is_behind_lasts_for_its_lease() -> None:
    clock = ManualClock()
    table = table_of(memory_store(clock))
    table.add_files([new_file("a"), new_file("b")])
    table.assign_job_ids([assignment("job", "a", "b")])
    now_ms = clock.wall_ms()
    clock.set_wall(now_ms - 600_000)
    assert _Claim(table, "job", "root", "behind", 60_000).take()
    clock.set_wall(now_ms + 59_000)
    assert not _Claim(table, "job", "root", "other", 60_000).take()
    clock.sleep(1)
    assert _Claim(table, "job", "root", "other", 60_000).take()


def test_a_claim_lasts_for_its_lease_after_a_commit_by_a_clock_that_was_far_ahead() -> None:
    clock = ManualClock()
    table = table_of(memory_store(clock))
    table.add_files([new_file("a"), new_file("b")])
    now_ms = clock.wall_ms()
    clock.set_wall(now_ms + 365 * 86_400_000)
    table.assign_job_ids([assignment("job", "a", "b")])
    clock.set_wall(now_ms)
    assert _Claim(table, "job", "root", "first", 60_000).take()
    clock.sleep(59)
    assert not _Claim(table, "job", "root", "other", 60_000).take()
    clock.sleep(1)
    assert _Claim(table, "job", "root", "other", 60_000).take()


def test_input_files_collected_after_another_worker_did_the_job_are_not_damage(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    slow = JobWorker(table, data_files.with_columns(table.at().columns()), 0)
    plan(table, 3)
    (job, partition, _), *_ = table.at().jobs()
    read = slow._data_files.stream

    def late(*args: Any) -> Any:
        compact(reopened(table), data_files, files_min=3, lease_ms=0)
        collect_now(reopened(table), data_files)
        return read(*args)

    slow._data_files.stream = late  # type: ignore[method-assign]
    assert not slow.work(job, partition)
    assert [*table.at().damaged()] == []
    assert rows_in(table, data_files) == all_of(900)


def test_a_repeated_push_down_moves_no_reference(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    (left, *_) = leaves(table)
    table.split_at(left, 250)
    assert push_down(table, data_files) == 9
    assert push_down(table, data_files) == 0


def test_a_damaged_file_on_a_split_partition_keeps_no_reference_above_it(tmp_path: Path) -> None:
    table, data_files = made_of(tmp_path, LONG)
    above = ingest(table, data_files, numbered(0, 1000))
    table.split_at("root", 500)
    left, _ = leaves(table)
    damaged = ingest(table, data_files, numbered(0, 400))
    table.split_at(left, 250)
    assert above is not None
    assert damaged is not None
    table.set_aside_files([FileDamage(damaged.filename, "damaged")])
    assert push_down(table, data_files) == 1
    held = table.at().files_by_partition()
    assert held[left] == [damaged.filename]
    assert [leaf for leaf in leaves(table) if above.filename not in held[leaf]] == []
    assert "root" not in held


def test_retention_prevents_forgetting_versions_within_its_period() -> None:
    clock = ManualClock()
    table = table_of(memory_store(clock))
    table.set_retention(30)
    table.add_files([new_file(f"{n}.parquet") for n in range(2)])
    old = table.version
    clock.sleep(31 * 86_400)
    table.clear_files()
    newest = table.version
    clock.sleep(29 * 86_400)
    with pytest.raises(Conflict, match="retention keeps its versions longer"):
        table.forget_below(newest)
    table.forget_below(old)
    table.set_retention(0)
    table.forget_below(newest)


def test_retention_longer_than_the_history_protects_the_versions_above_the_floor() -> None:
    clock = ManualClock()
    table = table_of(memory_store(clock))
    for n in range(4):
        clock.sleep(86_400)
        table.add_files([new_file(f"{n}.parquet")])
    floor = table.forget_below(table.version - 2)
    table.set_retention(3)
    with pytest.raises(Conflict, match="retention keeps its versions longer") as caught:
        table.forget_below(floor + 1)
    assert caught.value.details["promised"] == floor
    assert table.forget_below(floor) == floor  # A repeated call deletes nothing.


def test_retention_preserves_the_data_files_of_earlier_versions(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    before = table.version
    table.set_retention(1)
    files = {file.filename for file in data_files.list()}
    maintain(table, data_files)
    assert files < {file.filename for file in data_files.list()}
    assert sum(part.num_rows for part in scan(table.at(before), data_files)) == 900
    table.set_retention(0)
    assert maintain(table, data_files).collected == len(files)


def test_retention_days_and_damage_reasons_are_limited(made: tuple[Table, DataFiles]) -> None:
    table, _ = made
    table.set_retention(RETENTION_DAYS_MAX)
    for days in (-1, RETENTION_DAYS_MAX + 1):
        with refused("malformed", f"Malformed transaction: files are kept 0 to 36500 days, not {days}"):
            table.set_retention(days)
    chosen, *_ = files_of(table)
    table.set_aside_files([FileDamage(chosen, "x" * 1000)])
    assert [len(file.reason) for file in table.at().damaged()] == [DAMAGE_REASON_CHARACTERS_MAX]
    with refused("file-not-found", "File not found: none.parquet"):
        table.set_aside_files([FileDamage("none.parquet", "x")])
    table.release_files([chosen])
    with refused("file-not-set-aside", f"File is not set aside: {chosen}"):
        table.release_files([chosen])


def test_a_clear_removes_the_damage_records_of_its_files(made: tuple[Table, DataFiles]) -> None:
    table, data_files = made
    chosen, *_ = files_of(table)
    table.set_aside_files([FileDamage(chosen, "x")])
    table.clear_files()
    assert [*table.at().damaged()] == []
    table.purge()
    assert maintain(table, data_files).collected == 9
