"""Maintenance deletes only a table's own files, also beside foreign files, other tables, forks and copies.

After any sequence of actions, every table has each of its rows once, and every foreign file is unchanged.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import stratalog
from apps.table.tests.helpers import LONG
from apps.table.tests.test_data_files import numbered, rows_in
from apps.table.tests.test_ownership import copied, forked, maintain
from stratalog import Store
from stratalog_table import Table, create_table, open_table
from stratalog_table.collection import delete_table
from stratalog_table.folder_register import DataFolderTaken
from stratalog_table.rows import data_files_of, ingest

TABLES_MAX = 6
ROWS = 10
FOREIGN = ("thesis.txt", "src/main.py", "ab/data.parquet", "input.parquet", "x.unfinished")


class World:
    """A project with a store, its tables and foreign files, and the content that each table and file must have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project-0"
        self.store: Store = stratalog.open(self.project / "store")
        self.rows: dict[str, list[tuple[int]]] = {}
        self.foreign: dict[str, str] = {}
        self.made = 0
        self.create(0)
        self.ingest(0)
        self.ingest(0)

    def create(self, number: int) -> None:
        """Create a table in a new folder, next to or below the store. A creation in a folder in use must fail."""
        name = self._new_name("table")
        data = self.project / ("store/tables" if number % 2 else "lakes") / name
        for taken in (self.project, self.project / "store", data.parent / "table-1" / "inner"):
            with suppress(DataFolderTaken):
                create_table(self.store, "acme", f"taken-{name}", LONG, data=taken.as_uri())
                # Only ``inner`` may be free, if an earlier action deleted the table whose folder contains ``inner``.
                assert taken.name == "inner"
                table = open_table(self.store, "acme", f"taken-{name}")
                delete_table(table, data_files_of(table))
        create_table(self.store, "acme", name, LONG, data=data.as_uri())
        self.rows[name] = []

    def ingest(self, number: int) -> None:
        table = self._table(number)
        start = self.made * ROWS
        self.made += 1
        ingest(table, data_files_of(table), numbered(start, ROWS))
        self.rows[table.document.name] += [(row,) for row in range(start, start + ROWS)]

    def maintain(self, number: int) -> None:
        maintain(self._table(number))

    def fork(self, number: int) -> None:
        table = self._table(number)
        name = self._new_name("fork")
        forked(table, name)
        self.rows[name] = list(self.rows[table.document.name])

    def copy(self, number: int) -> None:
        table = self._table(number)
        name = self._new_name("copy")
        copied(table, self.store, name)
        self.rows[name] = list(self.rows[table.document.name])

    def clear(self, number: int) -> None:
        table = self._table(number)
        table.clear_files()
        self.rows[table.document.name] = []

    def delete(self, number: int) -> None:
        if len(self.rows) > 1:
            table = self._table(number)
            delete_table(table, data_files_of(table))
            del self.rows[table.document.name]

    def move(self, number: int) -> None:
        """Rename the folder of the project."""
        self.store.close()
        self.made += 1
        target = self.folder / f"project-{self.made}"
        os.rename(self.project, target)
        self.project = target
        self.store = stratalog.open(target / "store")

    def twin(self, number: int) -> None:
        """Copy the store's folder, run maintenance and a deletion in the copy, then remove the copy."""
        twin = self.project / "twin"
        shutil.copytree(self.project / "store", twin)
        with stratalog.open(twin) as store:
            table = open_table(store, "acme", self._table(number).document.name)
            with suppress(DataFolderTaken, FileNotFoundError):
                maintain(table)
            with suppress(DataFolderTaken, FileNotFoundError):
                delete_table(table, data_files_of(table))
        shutil.rmtree(twin)

    def drop_foreign(self, number: int) -> None:
        """Write a foreign file into the folder of a table."""
        folder = Path(data_files_of(self._table(number)).folder.base)
        path = folder / FOREIGN[number % len(FOREIGN)]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        self.foreign[path.relative_to(self.project).as_posix()] = "mine"

    def check(self) -> None:
        for name, rows in self.rows.items():
            table = open_table(self.store, "acme", name)
            assert rows_in(table, data_files_of(table)) == sorted(rows), name
        assert {name: (self.project / name).read_text() for name in self.foreign} == self.foreign

    def _table(self, number: int) -> Table:
        names = list(self.rows)
        return open_table(self.store, "acme", names[number % len(names)])

    def _new_name(self, kind: str) -> str:
        self.made += 1
        return f"{kind}-{self.made}"


MAKERS = ("create", "fork", "copy")
ACTS = (*MAKERS, "ingest", "maintain", "maintain", "clear", "delete", "move", "twin", "drop_foreign")
STEPS = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 9)), max_size=10)


@settings(max_examples=12)
@example([("drop_foreign", 0), ("maintain", 0)])
@example([("fork", 0), ("maintain", 0), ("ingest", 1), ("maintain", 1), ("clear", 0), ("maintain", 0)])
@example([("copy", 0), ("ingest", 0), ("maintain", 1), ("clear", 1), ("maintain", 1), ("maintain", 0)])
@example([("twin", 0), ("ingest", 0), ("maintain", 0)])
@example([("move", 0), ("ingest", 0), ("maintain", 0), ("fork", 0), ("delete", 0), ("maintain", 1)])
@example([("create", 0), ("ingest", 1), ("create", 1), ("ingest", 2), ("delete", 0), ("maintain", 1)])
@given(STEPS)
def check_all(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        for name, number in steps:
            if name in MAKERS and len(world.rows) >= TABLES_MAX:
                continue
            act: Callable[[int], None] = getattr(world, name)
            act(number)
            world.check()
        for number in range(2 * len(world.rows)):
            world.maintain(number)
            world.check()
        world.store.close()


@pytest.mark.usefixtures("untraced")
def test_nothing_but_a_table_s_own_files_is_ever_deleted_and_no_row_is_lost() -> None:
    check_all()
