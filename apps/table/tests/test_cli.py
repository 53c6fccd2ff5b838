"""The commands on tables, as a user types them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import stratalog
from stratalog.cli import main
from stratalog_table import maintenance, open_table
from stratalog_table.data_files import DataFiles
from stratalog_table.data_folder import DataFolder
from stratalog_table.merge_plan import plan
from stratalog_table.table import table_handle

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the program, in a folder with two Parquet files."""
    monkeypatch.setenv("STRATALOG_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    for position in range(2):
        numbers = range(position * 500, position * 500 + 500)
        pq.write_table(
            pa.table({"id": [n * 7 % 1000 for n in numbers], "name": [f"n{n}" for n in numbers]}), f"{position}.parquet"
        )

    def call(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(main, ["table", *arguments])
        assert result.exit_code == code, result.output
        return result.output

    return call


def test_a_table_of_a_store_in_memory_needs_a_location_of_its_files(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATALOG_STORE", "memory:")
    before = [*tmp_path.iterdir()]
    assert "give the location of the data files" in run("create", "acme/events", "--key", "id:long", code=2)
    assert [*tmp_path.iterdir()] == before


@pytest.mark.parametrize("url", ["store/", "./store", "file://{0}/store/", "store/../store"])
def test_the_files_are_next_to_the_store_however_its_folder_is_written(
    url: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATALOG_STORE", url.format(tmp_path))
    location = (tmp_path / "store-lake/acme/events").as_uri()
    assert location in run("create", "acme/events", "--key", "id:long")


def test_rows_are_ingested_maintained_and_scanned(run: Run, tmp_path: Path) -> None:
    assert "created acme/events" in run("create", "acme/events", "--key", "id:long", "--split-at", "500")
    assert run("ingest", "acme/events", "0.parquet", "1.parquet", "--rows-per-file", "300") == "1,000 rows in 4 files\n"
    maintained = run("maintain", "acme/events", "--rows-max", "300", "--files-min", "2", "--age", "0", "--lease", "0")
    assert maintained.startswith("2 leaves split, 8 references moved, 6 merged")
    shown = [json.loads(line) for line in run("show", "acme/events", "--json").splitlines()]
    assert sum(line["rows"] for line in shown) == 1000
    assert [line["from"] for line in shown][2] == 500
    assert "500" in run("show", "acme/events")
    assert run("scan", "acme/events", "--from", "14", "--to", "15") == '{"id":14,"name":"n2"}\n'
    for end in ("14", "13"):
        assert "the range is empty" in run("scan", "acme/events", "--from", "14", "--to", end, code=2)
    assert run("scan", "acme/events", "--output", "found.parquet") == "1,000 rows in found.parquet\n"
    assert sorted(pq.read_table("found.parquet").column("id").to_pylist()) == list(range(1000))
    assert run("jobs", "acme/events").count("committed") == 6
    assert "cleared acme/events" in run("clear", "acme/events", "--yes")
    assert run("scan", "acme/events", "--output", "none.parquet") == "0 rows in none.parquet\n"


def test_a_file_of_a_source_is_ingested_once(run: Run) -> None:
    run("create", "acme/events", "--key", "id:long", "--data", "lake")
    assert run("ingest", "acme/events", "0.parquet", "--source", "daily") == "500 rows in 1 files\n"
    again = run("ingest", "acme/events", "0.parquet", "1.parquet", "--source", "daily")
    assert again == "500 rows in 1 files; 1 of 2 files were in the table already\n"
    assert len([*Path("lake").rglob("*.parquet")]) == 2
    Path("0.parquet").write_bytes(Path("1.parquet").read_bytes())
    refused = run("ingest", "acme/events", "0.parquet", "--source", "daily", code=4)
    assert "other content under the name" in refused
    refused = run("ingest", "acme/events", "0.parquet", "--source", "daily", "--as", "2.parquet", code=4)
    assert "same content under another name" in refused
    assert run("ingest", "acme/events", "0.parquet", "--source", "daily", "--as", "2.parquet", "--repeat").startswith(
        "500 rows in 1 files"
    )
    assert "needs --source and exactly one file" in run("ingest", "acme/events", "0.parquet", "--as", "x", code=2)


def test_a_folder_with_foreign_files_is_refused_for_data_files_and_stays_unchanged(run: Run, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    for taken in (".", "store"):
        assert "folder for data files" in run("create", "acme/events", "--key", "id:long", "--data", taken, code=4)
        run("create", "acme/other", "--key", "id:long", "--data", f"free-{taken}")
        run("delete", "acme/other", "--yes")
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_table_is_deleted_with_its_files_and_made_again(run: Run, tmp_path: Path) -> None:
    for _ in range(2):
        run("create", "acme/events", "--key", "id:long")
        run("ingest", "acme/events", "0.parquet", "1.parquet")
        assert "1 merged" in run("maintain", "acme/events", "--files-min", "2", "--lease", "0")
        assert run("jobs", "acme/events").count("committed") == 1
        assert run("delete", "acme/events", "--yes") == "deleted acme/events and 3 data files\n"
        assert [*(tmp_path / "store-lake").rglob("*.parquet")] == []


def test_moved_data_files_are_read_after_adopt_names_their_folder(run: Run, tmp_path: Path) -> None:
    run("create", "acme/events", "--key", "id:long", "--data", "lake")
    run("ingest", "acme/events", "0.parquet")
    (tmp_path / "lake").rename(tmp_path / "moved")
    assert "was collected" in run("scan", "acme/events", "--from", "0", code=3)
    assert "owns the data files in" in run("adopt", "acme/events", "--data", "moved", "--yes")
    assert len(run("scan", "acme/events", "--from", "0").splitlines()) == 500


def test_ingesting_a_file_that_is_not_parquet_is_an_error(run: Run) -> None:
    run("create", "acme/events", "--key", "id:long")
    Path("bad.parquet").write_text("id,name")
    assert "not Parquet, or it is damaged" in run("ingest", "acme/events", "bad.parquet", code=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create", "acme/t", "--key", "id"], "is not NAME:TYPE"),
        (["create", "acme/t", "--key", "id:text"], "is not NAME:TYPE"),
        (["create", "acme/t", "--key", "id:long", "--column", "x:text"], "is not NAME:TYPE"),
        (["create", "acme/t", "--key", "day:date", "--split-at", "24.11."], "not a key of type date"),
        (["create", "acme/t", "--key", "id:long", "--split-at", "x"], "not a key of type long"),
        (
            ["create", "acme/t", "--key", "id:long", "--split-at", "2", "--split-at", "1"],
            "split points must be in order",
        ),
    ],
)
def test_invalid_arguments_are_reported(run: Run, arguments: list[str], message: str) -> None:
    assert message in run(*arguments, code=2)


def test_a_document_that_is_not_a_table_is_reported(run: Run) -> None:
    assert CliRunner().invoke(main, ["init"]).exit_code == 0
    assert CliRunner().invoke(main, ["create", "acme/budget"]).exit_code == 0
    assert "the document is not a table document='acme/budget'" in run("show", "acme/budget", code=3)


def test_a_missing_table_is_reported_as_a_table(run: Run) -> None:
    assert CliRunner().invoke(main, ["init"]).exit_code == 0
    assert "table not found" in run("show", "acme/nothing", code=3)


def test_key_arguments_are_parsed_by_the_type_of_their_column(run: Run) -> None:
    pq.write_table(pa.table({"k": [b"\x00", b"\xff"]}), "bytes.parquet")
    run("create", "acme/bytes", "--key", "k:bytes", "--split-at", "80")
    run("ingest", "acme/bytes", "bytes.parquet")
    assert run("scan", "acme/bytes", "--from", "80") == '{"k":{"$bytes":"/w=="}}\n'
    shown = [json.loads(line) for line in run("show", "acme/bytes", "--json").splitlines()]
    assert [line["rows"] for line in shown] == [1, 1]


def test_columns_are_listed_added_and_widened(run: Run) -> None:
    run("create", "acme/events", "--key", "id:long", "--column", "name:string", "--column", 'tags:["list","string"]')
    assert run("columns", "acme/events").splitlines() == [
        "column  type",
        "id      long               key",
        "name    string",
        'tags    ["list","string"]',
    ]
    run("ingest", "acme/events", "0.parquet")
    pq.write_table(pa.table({"id": [5000], "name": ["n"], "price": [1.5]}), "more.parquet")
    assert "a column that the table lacks" in run("ingest", "acme/events", "more.parquet", code=2)
    run("ingest", "acme/events", "more.parquet", "--add-columns")
    assert run("scan", "acme/events", "--from", "5000") == '{"id":5000,"name":"n","tags":null,"price":1.5}\n'
    altered = json.loads(run("alter", "acme/events", "--add", "count:int", "--keep-days", "30", "--json"))
    assert altered["retention_days"] == 30
    assert altered["columns"][-1] == ["count", "int32"]
    run("alter", "acme/events", "--widen", "count:long")
    listed = [json.loads(line) for line in run("columns", "acme/events", "--json").splitlines()]
    assert listed[0] == {"name": "id", "type": "long", "key": True}
    assert listed[-1] == {"name": "count", "type": "int64", "key": False}
    assert "no type holds both" in run("alter", "acme/events", "--widen", "name:long", code=4)
    assert "as wide already" in run("alter", "acme/events", "--widen", "count:int", code=2)
    assert run("alter", "acme/events", "--widen", "count:long", "--json")
    assert "at least one of --add" in run("alter", "acme/events", code=2)


def test_forget_with_the_application_keeps_the_versions_that_the_table_has_promised(run: Run) -> None:
    run("create", "acme/events", "--key", "id:long", "--keep-days", "30")
    run("alter", "acme/events", "--add", "count:int")
    floors = []
    for application in (["--application", "stratalog_table.application:app"], []):
        ran = CliRunner().invoke(main, ["forget", "acme/events", *application, "--below", "2", "--json"])
        floors.append(json.loads(ran.stdout)["floor"])
    assert floors == [0, 2]


def test_a_scan_reads_the_version_of_a_time(run: Run) -> None:
    run("create", "acme/events", "--key", "id:long")
    run("ingest", "acme/events", "0.parquet")
    newest = run("scan", "acme/events")
    assert run("scan", "acme/events", "--at", "2999-01-01") == newest != ""
    assert "no version at that time" in run("scan", "acme/events", "--at", "1999-01-01", code=3)


def test_a_refused_alteration_changes_nothing(run: Run) -> None:
    run("create", "acme/events", "--key", "id:long", "--column", "name:string")
    before = run("columns", "acme/events")
    for later in (["--widen", "other:long"], ["--widen", "name:long"], ["--keep-days", "36501"]):
        code = 2 if later[0] == "--keep-days" else 4
        run("alter", "acme/events", "--add", "count:int", *later, code=code)
        assert run("columns", "acme/events") == before


def test_an_alteration_of_columns_and_retention_is_one_version(run: Run) -> None:
    run("create", "acme/events", "--key", "id:long")
    several = ["--add", "count:int", "--widen", "count:long", "--keep-days", "36500"]
    first, second = (
        json.loads(run("alter", "acme/events", *options, "--json")) for options in (["--add", "name:string"], several)
    )
    assert second["version"] == first["version"] + 1
    assert second["columns"] == [["name", "string"], ["count", "int64"]]
    assert second["retention_days"] == 36500


def test_an_empty_option_is_refused(run: Run, tmp_path: Path) -> None:
    assert "the text is empty" in run("create", "acme/events", "--key", "id:long", "--data", "", code=2)
    run("create", "acme/events", "--key", "id:long")
    for option in (["--source", ""], ["--source", "daily", "--as", ""]):
        assert "the text is empty" in run("ingest", "acme/events", "0.parquet", *option, code=2)
    assert "the text is empty" in run("adopt", "acme/events", "--yes", "--data", "", code=2)
    assert run("scan", "acme/events") == ""


def test_a_file_whose_name_is_not_unicode_is_ingested_and_a_pipe_is_refused(run: Run, tmp_path: Path) -> None:
    run("create", "acme/events", "--key", "id:long")
    name = os.fsdecode(b"day-\xff.parquet")
    Path(name).write_bytes(Path("0.parquet").read_bytes())
    assert run("ingest", "acme/events", name) == "500 rows in 1 files\n"
    os.mkfifo("pipe")
    for path in (os.devnull, "pipe"):
        assert "not a regular file" in run("ingest", "acme/events", path, code=2)


def test_date_and_timestamp_keys_are_ingested_and_scanned(run: Run) -> None:
    run("create", "acme/days", "--key", "day:date", "--key", "at:timestamp[ms, tz=+01:30]", "--split-at", "2026-01-01")
    at = pa.array([0], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"day": pa.array([20_000], pa.int32()).cast(pa.date32()), "at": at}), "days.parquet")
    run("ingest", "acme/days", "days.parquet")
    assert (
        run("scan", "acme/days", "--from", "2024-10-04") == '{"day":"2024-10-04","at":"1970-01-01T01:30:00.000+0130"}\n'
    )
    assert run("scan", "acme/days", "--from", "2024-10-05", "--output", "none.parquet") == "0 rows in none.parquet\n"
    shown = [json.loads(line) for line in run("show", "acme/days", "--json").splitlines()]
    assert [(row["from"], row["to"]) for row in shown] == [(None, "2026-01-01"), ("2026-01-01", None)]


def test_a_damaged_file_is_listed_skipped_and_released_after_its_repair(run: Run) -> None:
    run("create", "acme/events", "--key", "id:long", "--data", "lake")
    run("ingest", "acme/events", "0.parquet", "1.parquet")
    assert run("damaged", "acme/events") == "no data file is set aside\n"
    chosen, *_ = sorted(Path("lake").rglob("*.parquet"))
    body = chosen.read_bytes()
    chosen.write_bytes(body[:100])
    maintain = ("maintain", "acme/events", "--files-min", "2", "--age", "0")
    assert "could not merge" in run(*maintain, code=1)
    assert str(chosen.relative_to("lake")) in run("damaged", "acme/events")
    run(*maintain)
    assert "cannot be read" in run("scan", "acme/events", code=6)
    left = run("scan", "acme/events", "--skip-damaged", "--output", "left.parquet", code=1)
    assert "500 rows in left.parquet" in left
    assert "1 references were left out" in left
    chosen.write_bytes(body)
    assert "1 files can be read again" in run("damaged", "acme/events", "--retry")
    assert run("scan", "acme/events", "--output", "all.parquet") == "1,000 rows in all.parquet\n"


def test_a_scan_that_fails_leaves_an_existing_file(run: Run) -> None:
    run("create", "acme/events", "--key", "id:long", "--data", "lake")
    run("ingest", "acme/events", "0.parquet", "1.parquet", "--rows-per-file", "100")
    run("scan", "acme/events", "--output", "found.parquet")
    before = Path("found.parquet").read_bytes()
    last = sorted(Path("lake").rglob("*.parquet"))[-1]
    last.write_bytes(last.read_bytes()[:100])
    assert "cannot be read" in run("scan", "acme/events", "--output", "found.parquet", code=6)
    assert Path("found.parquet").read_bytes() == before


def test_a_scan_without_rows_writes_a_file_with_the_columns_and_no_rows(run: Run) -> None:
    run("create", "acme/events", "--key", "id:long")
    run("scan", "acme/events", "--output", "before.parquet")
    assert (pq.read_table("before.parquet").column_names, pq.read_table("before.parquet").num_rows) == (["id"], 0)
    run("ingest", "acme/events", "0.parquet")
    run("scan", "acme/events", "--output", "found.parquet")
    rows = pq.read_table("found.parquet")
    answer = json.loads(run("scan", "acme/events", "--from", "9999", "--output", "found.parquet", "--json"))
    assert answer == {"table": "acme/events", "rows": 0, "output": "found.parquet"}
    assert pq.read_table("found.parquet").equals(rows.slice(0, 0))


def test_the_leftovers_of_an_unfinished_creation_are_deleted(run: Run, tmp_path: Path) -> None:
    with stratalog.open("store") as store:
        store.create("acme", "events")
        table = table_handle(store, "acme", "events")
        table.register(DataFolder((tmp_path / "store-lake/acme/events").as_uri())).enter(is_owner=True)
        store.create("acme", "plan").put("a", 1)
        store.create("acme", "draft")
    assert "no data folder shows" in run("delete", "acme/draft", "--yes", code=4)
    assert "whose creation had not finished" in run("delete", "acme/events", "--yes")
    assert not (tmp_path / "store-lake/acme/events").exists()
    run("create", "acme/events", "--key", "id:long")
    assert "is not a table" in run("delete", "acme/plan", "--yes", code=3)


@pytest.mark.parametrize("option", ["--age", "--lease", "--every"])
def test_a_duration_is_a_number_of_seconds_in_a_range(run: Run, option: str) -> None:
    run("create", "acme/events", "--key", "id:long")
    for seconds in ("0", "0.5", "900"):
        assert "0 collected" in run("maintain", "acme/events", option, seconds)
    for seconds in ("-5", "-0.001", "nan", "inf", "1e300", "x"):
        assert "Invalid value" in run("maintain", "acme/events", option, seconds, code=2)


def test_a_job_is_cancelled(run: Run) -> None:
    run("create", "acme/events", "--key", "id:long")
    run("ingest", "acme/events", "0.parquet", "1.parquet")
    with stratalog.open("store") as store:
        opened = open_table(store, "acme", "events")
        plan(opened, 2)
        ((job, partition, _),) = opened.at().jobs()
    assert f"cancelled {job}" in run("cancel", "acme/events", job, "--partition", partition)
    assert "cancelled" in run("jobs", "acme/events")
    assert "Job not found" in run("cancel", "acme/events", job, "--partition", partition, code=4)


def run_passes(monkeypatch: pytest.MonkeyPatch, ends: Sequence[BaseException | None]) -> Iterator[BaseException | None]:
    """Let each pass of maintenance end with the next error of ``ends``; None runs the pass. Return the unused ends."""
    maintain_table, left = maintenance.maintain_table, iter(ends)

    def ended(*arguments: Any, **options: Any) -> Any:
        if (error := next(left)) is not None:
            raise error
        return maintain_table(*arguments, **options)

    monkeypatch.setattr(maintenance, "maintain_table", ended)
    return left


def test_maintenance_with_watch_repeats_until_an_interrupt(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("create", "acme/events", "--key", "id:long")
    run_passes(monkeypatch, [None, None, KeyboardInterrupt()])
    assert run("maintain", "acme/events", "--watch", "--every", "0", code=1).count("0 merged") == 2


@pytest.mark.parametrize(
    "error", [stratalog.Unavailable("down"), OSError("down")], ids=lambda raised: type(raised).__name__
)
def test_maintenance_with_watch_continues_after_an_outage(
    error: Exception, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("create", "acme/events", "--key", "id:long")
    run_passes(monkeypatch, [None, error, None, KeyboardInterrupt()])
    assert run("maintain", "acme/events", "--watch", "--every", "0", code=1).count("0 merged") == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [(stratalog.NotFound("document not found"), 3), (stratalog.Corrupt("damaged"), 6)],
    ids=lambda raised: type(raised).__name__,
)
def test_maintenance_with_watch_ends_after_an_error_that_is_no_outage(
    error: Exception, code: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("create", "acme/events", "--key", "id:long")
    left = run_passes(monkeypatch, [error, KeyboardInterrupt()])
    assert str(error) in run("maintain", "acme/events", "--watch", "--every", "0", code=code)
    assert len([*left]) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("alter", "acme/events", "--keep-days", str(10**30)),
        ("create", "acme/other", "--key", "id:long", "--keep-days", str(10**30)),
        ("cancel", "acme/events", "\udcff", "--partition", "p"),
        ("adopt", "acme/events", "--yes", "--data", "s3://"),
        ("create", "acme/other", "--key", "id:long", "--data", "s3://"),
    ],
)
def test_a_value_that_cannot_be_stored_or_opened_is_refused(arguments: tuple[str, ...], run: Run) -> None:
    run("create", "acme/events", "--key", "id:long")
    assert run(*arguments, code=2).startswith("error: ")
    with stratalog.open("store", create=False) as store:
        assert [line.id for line in store.list("acme")] == ["events"]


def test_a_copied_store_without_its_data_files_takes_no_rows_and_starts_no_maintenance(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("create", "acme/events", "--key", "id:long")
    run("ingest", "acme/events", "0.parquet")
    (tmp_path / "copies").mkdir()
    shutil.copytree(tmp_path / "store", tmp_path / "copies/store")
    monkeypatch.setenv("STRATALOG_STORE", str(tmp_path / "copies/store"))
    adopt = ["adopt", "acme/events", "--data", "copies/nowhere", "--yes"]
    for command in (["ingest", "acme/events", "1.parquet"], ["maintain", "acme/events"], adopt):
        assert "table adopt --data" in run(*command, code=3)
    assert [*(tmp_path / "copies").iterdir()] == [tmp_path / "copies/store"]
    assert "no data file is set aside" in run("damaged", "acme/events")
    run("clear", "acme/events", "--yes")
    run("ingest", "acme/events", "1.parquet")
    assert len(run("scan", "acme/events").splitlines()) == 500


def test_data_files_that_cannot_be_reached_are_no_usage_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("create", "acme/events", "--key", "id:long")
    run("ingest", "acme/events", "0.parquet")

    def away(*rest: object, **options: object) -> None:
        raise OSError("AWS Error NETWORK_CONNECTION")

    for name in ("_dataset", "_is_intact"):
        monkeypatch.setattr(DataFiles, name, away)
    for name in ("_write", "delete"):
        monkeypatch.setattr(DataFolder, name, away)
    for command in (
        ["scan", "acme/events"],
        ["scan", "acme/events", "--output", "found.parquet"],
        ["ingest", "acme/events", "1.parquet"],
        ["delete", "acme/events", "--yes"],
        ["adopt", "acme/events", "--yes"],
        ["create", "acme/other", "--key", "id:long"],
    ):
        assert "cannot be reached" in run(*command, code=5)
    for name in ("is_vacant", "read_bytes"):
        monkeypatch.setattr(DataFolder, name, away)
    for command in (
        ["delete", "acme/other", "--yes"],
        ["adopt", "acme/events", "--yes"],
        ["create", "acme/third", "--key", "id:long"],
    ):
        assert "cannot be reached" in run(*command, code=5)
