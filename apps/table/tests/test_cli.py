"""The commands on tables, as typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from stratalog.cli import main

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The program in a folder with two Parquet files."""
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


def test_rows_go_in_are_kept_and_come_out(run: Run, tmp_path: Path) -> None:
    assert "created acme/events" in run("create", "acme/events", "--key", "id:long", "--split-at", "500")
    assert run("ingest", "acme/events", "0.parquet", "1.parquet", "--rows-per-file", "300") == "1,000 rows in 4 files\n"
    maintained = run("maintain", "acme/events", "--rows-max", "300", "--files-min", "2", "--age", "0", "--lease", "0")
    assert maintained.startswith("2 leaves split, 8 references moved, 4 merged")
    shown = [json.loads(line) for line in run("show", "acme/events", "--json").splitlines()]
    assert sum(one["rows"] for one in shown) == 1000
    assert [one["from"] for one in shown][2] == 500
    assert "500" in run("show", "acme/events")
    assert run("scan", "acme/events", "--from", "14", "--to", "15") == '{"id":14,"name":"n2"}\n'
    assert run("scan", "acme/events", "--output", "found.parquet") == "1,000 rows in found.parquet\n"
    assert sorted(pq.read_table("found.parquet").column("id").to_pylist()) == list(range(1000))
    assert run("jobs", "acme/events").count("committed") == 4
    assert "cleared acme/events" in run("clear", "acme/events", "--yes")
    assert run("scan", "acme/events", "--output", "none.parquet").endswith("0 rows in none.parquet\n")
    assert not (tmp_path / "none.parquet").exists()


def test_a_source_brings_each_of_its_files_once(run: Run) -> None:
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
    assert "names the one file" in run("ingest", "acme/events", "0.parquet", "--as", "x", code=2)


def test_a_folder_of_the_user_s_is_refused_and_maintenance_leaves_it_alone(run: Run, tmp_path: Path) -> None:
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


def test_files_that_were_moved_are_found_once_the_table_is_told(run: Run, tmp_path: Path) -> None:
    run("create", "acme/events", "--key", "id:long", "--data", "lake")
    run("ingest", "acme/events", "0.parquet")
    (tmp_path / "lake").rename(tmp_path / "moved")
    assert "was collected" in run("scan", "acme/events", "--from", "0", code=3)
    assert "owns the data files in" in run("adopt", "acme/events", "--data", "moved", "--yes")
    assert len(run("scan", "acme/events", "--from", "0").splitlines()) == 500


def test_what_is_no_parquet_is_an_error(run: Run) -> None:
    run("create", "acme/events", "--key", "id:long")
    Path("bad.parquet").write_text("id,name")
    assert "no Parquet, or damaged" in run("ingest", "acme/events", "bad.parquet", code=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create", "acme/t", "--key", "id"], "is not NAME:TYPE"),
        (["create", "acme/t", "--key", "id:float"], "is not NAME:TYPE"),
        (["create", "acme/t", "--key", "id:long", "--split-at", "x"], "no key of type long"),
        (
            ["create", "acme/t", "--key", "id:long", "--split-at", "2", "--split-at", "1"],
            "split points must be in order",
        ),
    ],
)
def test_what_cannot_be_is_told(run: Run, arguments: list[str], message: str) -> None:
    assert message in run(*arguments, code=2)


def test_a_document_that_is_no_table_is_told_so(run: Run) -> None:
    assert CliRunner().invoke(main, ["init"]).exit_code == 0
    assert CliRunner().invoke(main, ["create", "acme/budget"]).exit_code == 0
    assert "there is no table in the document" in run("show", "acme/budget", code=3)


def test_keys_are_typed_by_the_type_of_their_column(run: Run) -> None:
    pq.write_table(pa.table({"k": [b"\x00", b"\xff"]}), "bytes.parquet")
    run("create", "acme/bytes", "--key", "k:bytes", "--split-at", "80")
    run("ingest", "acme/bytes", "bytes.parquet")
    assert run("scan", "acme/bytes", "--from", "80") == '{"k":{"$bytes":"/w=="}}\n'
    shown = [json.loads(line) for line in run("show", "acme/bytes", "--json").splitlines()]
    assert [one["rows"] for one in shown] == [1, 1]
