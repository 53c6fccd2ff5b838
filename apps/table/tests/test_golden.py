"""The format is stable: the same transactions always write the same rows, and old rows can still be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from apps.table.tests.helpers import TWO, assignment, memory_store, new_file, replacement, table_of
from stratalog import Document, Draft, Rules
from stratalog_table import File, FileReference, NewFile, NewReference, Split, Table
from stratalog_table.model import Partition
from stratalog_table.queries import TableView
from stratalog_table.tree import split

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[3] / "formats/golden/table-v1.json").read_text())


def grown() -> Table:
    """Return a table with rows of all kinds but those of columns, sources, claims and damaged files."""
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


def rows(document: Document) -> dict[str, Any]:
    return {key: value for key, value in document.at().scan() if not key.startswith("file0/")}


def test_the_same_transactions_leave_the_same_rows() -> None:
    assert rows(grown().document) == GOLDEN["rows"]


def test_the_same_transactions_are_recorded_alike() -> None:
    found = [[one.name, one.args, one.reason] for version in grown().document.versions() for one in version.mutations]
    assert found == GOLDEN["transactions"]


def test_rows_that_were_written_once_read_for_ever() -> None:
    def load(draft: Draft, args: Any) -> None:
        for key, value in GOLDEN["rows"].items():
            draft.put(key, value)

    document = memory_store().create("acme", "old")
    document.rules = Rules(mutators={"load": load})
    document.mutate("load")
    view = TableView(document.at())
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
    whole = ("0000000000000000", "8000000000000400")
    assert view.partition("left") == Partition("left", (whole, ("", None)), "root")
    assert view.partition("right").children == ("low", "high")
    assert {one.partition: (one.tally.files, one.tally.rows, one.tally.sure) for one in view.holdings()} == {
        "high": (0, 0, 0),
        "left": (1, 50, 0),
        "low": (0, 0, 0),
        "right": (1, 51, 0),
        "root": (2, 107, 107),
    }
    assert {one.partition for one in view.in_range(TWO.region([(5000, 5001), ("a", "b")]))} == {"low", "right", "root"}
