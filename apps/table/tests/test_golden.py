"""The format is stable: the same transactions always write the same rows, and the program still reads old rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from apps.table.tests.helpers import TWO, assignment, memory_store, new_file, replacement, table_of
from stratalog import Document, Draft, Rules
from stratalog_table import File, FileReference, NewFile, NewReference, Split, Table, ValueColumn, create_table
from stratalog_table.damaged_files import FileDamage
from stratalog_table.job_claims import JobClaim
from stratalog_table.model import Partition
from stratalog_table.queries import TableView
from stratalog_table.sources import SourceRows
from stratalog_table.table_changes import SetColumns
from stratalog_table.tree import split
from stratalog_table.version_times import VersionTime

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[3] / "formats/golden/table-v1.json").read_text())
MAINTAINED: dict[str, Any] = GOLDEN["maintained"]


def grown() -> Table:
    """Return a table with rows of all kinds, except the kinds that `maintained` writes."""
    table = table_of(memory_store(), schema=TWO)
    table.add_files([new_file("gone"), NewFile("c"), new_file("d")])
    table.clear_files()
    table.add_files([new_file("a", rows=101), new_file("b"), NewFile("c"), new_file("d", rows=7)])
    parent, left, right = split(table.at().partition("root"), "8000000000000400", 0, "left", "right")
    table.split_partition(parent, [left, right])
    parent, low, high = split(table.at().partition("right"), "6d", 1, "low", "high")
    table.split_partition(parent, [low, high])
    pieces = tuple(NewReference(id, n, approximate=True, complete=False) for id, n in (("left", 50), ("right", 51)))
    table.split_file_references([Split("a", "root", pieces)])
    table.assign_job_ids([assignment("merge", "b", "d")])
    table.replace_file_references([replacement("merge", "b", output="e", rows=100)])
    table.collect_files(["orphan"])
    return table


def maintained() -> Table:
    """Return a table with rows of columns, sources, claims, damaged files and times."""
    columns = (ValueColumn("price", "int32"), ValueColumn("tags", ["list", "string"]))
    table = create_table(memory_store(), "acme", "events", TWO, columns=columns, retention_days=30)
    for number in range(4):
        brought = SourceRows("daily", f"{number // 2}.parquet", f"{number // 2:064x}", number % 2 * 100, 100)
        table.add_files([new_file(f"{number}")], job="ingest", source=brought)
    table.set_columns([ValueColumn("price", "int64"), ValueColumn("at", "timestamp[us, tz=UTC]")], add=True, widen=True)
    table.assign_job_ids([assignment("merge", "0", "1"), assignment("cancelled", "2")])
    table.claim_job("merge", "root", "worker")
    table.claim_job("merge", "root", "worker", JobClaim("worker", 1))
    table.claim_job("cancelled", "root", "other")
    table.cancel_job("cancelled", "root")
    table.set_aside_files([FileDamage("3", "the file is not Parquet"), FileDamage("2", "released")])
    table.release_files(["2"])
    table.alter([SetColumns((ValueColumn("note", "string"),), add=True)], retention_days=60)
    table.record_time()
    return table


def transactions(document: Document) -> list[list[Any]]:
    return [
        [mutation.name, mutation.args, mutation.reason]
        for version in document.versions()
        for mutation in version.mutations
    ]


def rows(document: Document) -> dict[str, Any]:
    return {key: value for key, value in document.at().scan() if not key.startswith("file0/")}


def test_the_same_transactions_leave_the_same_rows() -> None:
    assert rows(grown().document) == GOLDEN["rows"]
    assert maintained().document.at().to_dict() == MAINTAINED["rows"]


def test_the_same_transactions_have_the_golden_log_records() -> None:
    assert transactions(grown().document) == GOLDEN["transactions"]
    assert transactions(maintained().document) == MAINTAINED["transactions"]


def loaded(stored: dict[str, Any]) -> TableView:
    """Return the view of a table with the stored rows."""

    def load(draft: Draft, args: Any) -> None:
        for key, value in stored.items():
            draft.put(key, value)

    document = memory_store().create("acme", "old")
    document.rules = Rules(mutators={"load": load})
    document.mutate("load")
    return TableView(document.at())


def test_golden_rows_of_a_maintained_table_can_still_be_read() -> None:
    view = loaded(MAINTAINED["rows"])
    assert view.meta.retention_days == 60
    assert view.columns() == (
        ValueColumn("price", "int64"),
        ValueColumn("tags", ["list", "string"]),
        ValueColumn("at", "timestamp[us, tz=UTC]"),
        ValueColumn("note", "string"),
    )
    known = view.source_file("daily", "1.parquet")
    assert known is not None
    assert (known.sha256, known.rows) == (f"{1:064x}", 200)
    claim = view.claim("merge", "root")
    assert claim is not None
    assert claim[0] == JobClaim("worker", 2, 1_700_000_000_000)
    assert view.claim("cancelled", "root") is None
    assert [*view.damaged()] == [FileDamage("3", "the file is not Parquet")]
    assert view.times() == [VersionTime(14, 1_700_000_000_000)]


def test_golden_rows_can_still_be_read() -> None:
    view = loaded(GOLDEN["rows"])
    assert view.file_references() == [
        FileReference("a", "left", 50, approximate=True, complete=False),
        FileReference("a", "right", 51, approximate=True, complete=False),
        FileReference("d", "root", 7, job="merge"),
        FileReference("e", "root", 100),
    ]
    assert view.files(10).files == (
        File("a", ("left", "right")),
        File("b", ()),
        File("c", ()),
        File("d", ("root",)),
        File("e", ("root",)),
    )
    assert [*view.jobs()] == [("merge", "root", 1)]
    region = ("0000000000000000", "8000000000000400")
    assert view.partition("left") == Partition("left", (region, ("", None)), "root")
    assert view.partition("right").children == ("low", "high")
    assert {
        holding.partition: (holding.tally.files, holding.tally.rows, holding.tally.sure) for holding in view.holdings()
    } == {
        "high": (0, 0, 0),
        "left": (1, 50, 0),
        "low": (0, 0, 0),
        "right": (1, 51, 0),
        "root": (2, 107, 107),
    }
    assert {holding.partition for holding in view.in_range(TWO.region([(5000, 5001), ("a", "b")]))} == {
        "low",
        "right",
        "root",
    }
