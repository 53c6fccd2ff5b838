"""A table identifies a source's file by name and content. The table takes each file once, and omits no file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apps.table.tests.helpers import LONG, refused, reopened, system_store
from apps.table.tests.test_data_files import ROWS, all_of, numbered, rows_in
from stratalog import Conflict, Invalid, LimitExceeded
from stratalog_table import Table, create_table, file_ingest
from stratalog_table.data_files import DataFiles
from stratalog_table.file_ingest import FileIngestReport, ingest_files, input_file
from stratalog_table.limits import SOURCE_BYTES_MAX, SOURCE_FILE_BYTES_MAX
from stratalog_table.rows import RowSource, data_files_of, ingest
from stratalog_table.sources import SourceConflict, SourceRows


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Return an empty table. The current folder has the files of two days."""
    monkeypatch.chdir(tmp_path)
    for day in range(2):
        Path(f"day-{day}").mkdir()
        pq.write_table(numbered(day * ROWS), f"day-{day}/p1.parquet")
    return create_table(system_store(), "acme", "events", LONG, data=(tmp_path / "lake").as_uri())


def bring(table: Table, *paths: str, rows: int = 10**6, **options: Any) -> FileIngestReport:
    files = [input_file(Path(path), options.pop("name", "")) for path in paths]
    return ingest_files(table, data_files_of(table), files, rows, source="daily", **options)


def rows_of(table: Table) -> list[Any]:
    return rows_in(table, data_files_of(table))


def test_each_daily_file_is_ingested_once(table: Table) -> None:
    assert bring(table, "day-0/p1.parquet") == FileIngestReport(ROWS, 1, 0)
    assert bring(table, "day-1/p1.parquet") == FileIngestReport(ROWS, 1, 0)
    assert bring(reopened(table), "./day-1/p1.parquet", "day-0/p1.parquet") == FileIngestReport(0, 0, 2)
    assert rows_of(table) == all_of(2 * ROWS)


def test_a_file_without_rows_is_not_in_the_table(table: Table) -> None:
    pq.write_table(numbered(0).slice(0, 0), "empty.parquet")
    assert bring(table, "empty.parquet") == bring(table, "empty.parquet") == FileIngestReport(0, 0, 0)
    assert bring(table, "empty.parquet", "day-0/p1.parquet") == FileIngestReport(ROWS, 1, 0)


def test_changed_content_under_a_known_name_is_an_error_and_the_call_ingests_nothing(
    table: Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path / "day-0")
    bring(table, "p1.parquet")
    monkeypatch.chdir(tmp_path / "day-1")
    pq.write_table(numbered(2 * ROWS), "new.parquet")
    with pytest.raises(SourceConflict, match=r"other content under the name source=\S*daily\S* name=\S*p1\.parquet"):
        bring(table, "new.parquet", "p1.parquet")
    assert rows_of(table) == all_of(ROWS)
    assert bring(table, "p1.parquet", name="day-1/p1.parquet").rows == ROWS
    assert rows_of(table) == all_of(2 * ROWS)


def test_known_content_under_another_name_is_an_error_unless_repeat_is_set(table: Table) -> None:
    bring(table, "day-0/p1.parquet")
    Path("again.parquet").write_bytes(Path("day-0/p1.parquet").read_bytes())
    with pytest.raises(SourceConflict, match=r"same content under another name.*day-0/p1.parquet"):
        bring(table, "again.parquet")
    assert rows_of(table) == all_of(ROWS)
    assert bring(table, "again.parquet", repeat=True).rows == ROWS
    assert bring(table, "again.parquet") == FileIngestReport(0, 0, 1)


def test_the_same_content_under_two_names_in_a_call_is_an_error(table: Table) -> None:
    Path("again.parquet").write_bytes(Path("day-0/p1.parquet").read_bytes())
    with pytest.raises(SourceConflict, match="same content under another name"):
        bring(table, "day-0/p1.parquet", "again.parquet")
    assert table.at().has_no_files()


def test_an_interrupted_ingest_resumes_even_with_another_number_of_rows_per_file(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []

    def cut(*arguments: Any, **options: Any) -> Any:
        taken.append(options["brought"].start)
        if len(taken) > 2:
            raise KeyboardInterrupt
        return ingest(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(file_ingest, "ingest", cut)
        with pytest.raises(KeyboardInterrupt):
            bring(table, "day-0/p1.parquet", rows=70)
    assert taken == [0, 70, 140]
    assert bring(reopened(table), "day-0/p1.parquet", rows=100) == FileIngestReport(ROWS - 140, 5, 0)
    assert rows_of(table) == all_of(ROWS)


def test_a_file_ingested_by_two_processes_is_added_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    other, calls = reopened(table), []

    def interrupted(*arguments: Any, **options: Any) -> Any:
        calls.append(options["brought"].start)
        if len(calls) == 2:
            with monkeypatch.context() as patched:
                patched.setattr(file_ingest, "ingest", ingest)
                bring(other, "day-0/p1.parquet", rows=130)
        return ingest(*arguments, **options)

    monkeypatch.setattr(file_ingest, "ingest", interrupted)
    assert bring(table, "day-0/p1.parquet", rows=100).rows == 100
    assert rows_of(table) == all_of(ROWS)
    tracked = {file.filename for file in table.at().files(0).files}
    assert {file.filename for file in data_files_of(table).list()} == tracked


def test_files_can_be_ingested_again_after_a_clear(table: Table) -> None:
    bring(table, "day-0/p1.parquet")
    table.clear_files()
    assert bring(table, "day-0/p1.parquet").rows == ROWS
    assert rows_of(table) == all_of(ROWS)
    table.purge()
    assert not [key for key, _ in table.document.at().scan("source0/")]
    assert bring(table, "day-0/p1.parquet").known == 1


def test_a_source_of_numbered_batches_is_refused_for_file_ingest(table: Table) -> None:
    ingest(table, data_files_of(table), numbered(0), source=RowSource("daily", 1))
    with pytest.raises(SourceConflict, match="choose another name"):
        bring(table, "day-0/p1.parquet")


def test_a_file_that_changes_after_its_content_was_hashed_is_an_error(table: Table) -> None:
    file = input_file(Path("day-0/p1.parquet"))
    pq.write_table(numbered(ROWS), "day-0/p1.parquet")
    with pytest.raises(Conflict, match="was changed"):
        ingest_files(table, data_files_of(table), [file], 100, source="daily")
    assert table.at().has_no_files()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"id,row\n1,2\n", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_a_file_that_is_not_parquet_is_an_error_with_its_path(table: Table, content: bytes) -> None:
    Path("bad.parquet").write_bytes(content)
    with pytest.raises(Invalid, match=r"not Parquet, or it is damaged path=.*bad\.parquet"):
        bring(table, "bad.parquet")


def test_a_damaged_page_is_an_error_and_a_retry_adds_no_row_twice(table: Table) -> None:
    pq.write_table(numbered(0, 200_000), "cut.parquet", row_group_size=2**16, write_page_checksum=True)
    intact = Path("cut.parquet").read_bytes()
    middle = len(intact) // 2
    Path("cut.parquet").write_bytes(intact[:middle] + b"\xff" * 400 + intact[middle + 400 :])
    for _ in range(2):
        with pytest.raises(Invalid, match="not Parquet, or it is damaged"):
            bring(table, "cut.parquet", rows=30_000)
        # The first row group was read before the damaged page, and has two whole parts.
        assert rows_of(table) == all_of(60_000)


@pytest.mark.parametrize(
    ("error", "raised", "text"),
    [
        (OSError("AWS Error NETWORK_CONNECTION"), OSError, "^AWS Error NETWORK_CONNECTION$"),
        (
            pa.ArrowNotImplementedError("no kernel"),
            Invalid,
            r"cannot store the rows of the file path=.*reason='no kernel'",
        ),
    ],
    ids=["folder", "rows"],
)
def test_an_error_of_a_write_does_not_name_the_input_file_as_damaged(
    table: Table, monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception], text: str
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(DataFiles, "write", fail)
    with pytest.raises(raised, match=text):
        bring(table, "day-0/p1.parquet")
    monkeypatch.undo()
    assert rows_of(table) == []


def test_the_names_of_sources_and_files_are_bounded(table: Table) -> None:
    file = input_file(Path("day-0/p1.parquet"))
    files = data_files_of(table)
    for source, name in (("s" * (SOURCE_BYTES_MAX + 1), "a"), ("s", "a" * (SOURCE_FILE_BYTES_MAX + 1))):
        with pytest.raises(LimitExceeded, match=r"too long value=(257|1025) limit=(256|1024)"):
            ingest_files(table, files, [input_file(file.path, name)], 100, source=source)
    for source, name in (("s", "a\nb"), ("s\0", "a"), ("s", "\udcff")):
        with pytest.raises(Invalid, match=r"control characters|not Unicode"):
            ingest_files(table, files, [input_file(file.path, name)], 100, source=source)
    names = "s" * SOURCE_BYTES_MAX, "é" * (SOURCE_FILE_BYTES_MAX // 2)
    assert ingest_files(table, files, [input_file(file.path, names[1])], 100, source=names[0]).rows == ROWS
    assert table.at().source_file(*names) is not None


@pytest.mark.parametrize(
    ("name", "content", "start", "kind", "reason"),
    [
        ("a", "0" * 64, 0, "source-rows-present", "Source rows are present up to 5, source s, name a"),
        ("a", "1" * 64, 5, "source-conflict", "Source brought other content, source s, name a"),
        ("b", "0" * 64, 0, "source-conflict", "Source brought the same content before, source s, name b, before as a"),
        ("b", "2" * 64, 1, "source-rows-present", "Source rows are present up to 0, source s, name b"),
        (
            "b",
            "g" * 64,
            0,
            "malformed",
            "Malformed transaction: rows of a source have a hash, a start and a count",
        ),
    ],
)
def test_a_transaction_that_does_not_add_the_next_rows_of_a_source_file_is_refused(
    table: Table, name: str, content: str, start: int, kind: str, reason: str
) -> None:
    files = data_files_of(table)
    ingest(table, files, numbered(0, 5), brought=SourceRows("s", "a", "0" * 64, 0, 5))
    with refused(kind, reason):
        ingest(table, files, numbered(5, 5), brought=SourceRows("s", name, content, start, 5))
    assert rows_of(table) == all_of(5)
    assert len([*files.list()]) == 1
    ingest(table, files, numbered(5, 5), brought=SourceRows("s", "a", "0" * 64, 5, 5))
