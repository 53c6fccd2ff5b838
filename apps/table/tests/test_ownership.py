"""The ownership of files: maintenance and deletion delete a table's own files, and no others."""

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import stratalog
from apps.table.tests.helpers import (
    LONG,
    assignment,
    collect_now,
    everything_is_old,
    memory_store,
    replacement,
    table_of,
)
from apps.table.tests.test_data_files import ROWS, all_of, numbered, rows_in
from stratalog import Invalid, Store
from stratalog.keys import ORGANISATIONS_PARTITION
from stratalog.log.directory import LOGS, line_partition
from stratalog.maintenance.document_export import export_document
from stratalog.maintenance.document_import import import_document
from stratalog_table import NewFile, NewReference, Table, create_table, open_table
from stratalog_table.collection import FileRights, collect, delete_table
from stratalog_table.data_folder import DataFolder
from stratalog_table.folder_register import REGISTER, DataFolderTaken, FolderRegister
from stratalog_table.limits import DURATION_MS_MAX
from stratalog_table.maintenance import compact, maintain_table
from stratalog_table.rows import data_files_of, ingest, new_filename


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store in a folder."""
    with stratalog.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def table(store: Store, tmp_path: Path) -> Table:
    """A table with two data files, in a folder next to the store."""
    made = create_table(store, "acme", "events", LONG, data=(tmp_path / "lake").as_uri())
    fill(made, 2)
    return made


def fill(table: Table, batches: int, start: int = 0) -> None:
    for batch in range(start, start + batches):
        ingest(table, data_files_of(table), numbered(batch * ROWS))


def maintain(table: Table) -> None:
    with everything_is_old():
        done = maintain_table(table, data_files_of(table), rows_max=10**6, files_min=2, age_ms=0)
    assert done.faults == ()


def rows_of(table: Table) -> list[tuple[int]]:
    return rows_in(table, data_files_of(table))


def data_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.parquet"))


def forked(table: Table, name: str = "fork") -> Table:
    table.document.fork(name)
    return open_table(table.store, "acme", name)


def copied(table: Table, store: Store, name: str = "copy") -> Table:
    exported = io.BytesIO()
    export_document(table.document, exported)
    exported.seek(0)
    import_document(store, "acme", name, exported)
    return open_table(store, "acme", name)


def test_maintenance_and_a_clear_delete_no_foreign_file(table: Table, tmp_path: Path) -> None:
    foreign = [
        "thesis.txt",
        "src/main.py",
        "a/b.parquet",
        "b.parquet",
        f"{table.incarnation}/notes.txt",
        "x.unfinished",
    ]
    for name in foreign:
        path = tmp_path / "lake" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    maintain(table)
    table.clear_files()
    maintain(table)
    assert [name for name in foreign if not (tmp_path / "lake" / name).exists()] == []
    assert len(data_in(tmp_path / "lake")) == 2


def test_a_copied_store_does_not_take_over_files_while_the_first_store_is_unreadable(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests may run as root, who may read every folder. So the test makes `os.stat` fail for the store's folder."""
    shutil.copytree(tmp_path / "store", tmp_path / "twin")
    real = os.stat

    def stat(path: Any, **options: Any) -> os.stat_result:
        if str(path).startswith(str(tmp_path / "store")):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, **options)

    with stratalog.open(tmp_path / "twin") as second:
        twin = open_table(second, "acme", "events")
        monkeypatch.setattr(os, "stat", stat)
        with pytest.raises(DataFolderTaken, match="another store"):
            fill(twin, 1)


@pytest.mark.parametrize("content", ["thesis.txt", "index.sqlite", ".hidden", "folder/x"])
def test_a_folder_that_is_not_empty_is_refused_and_nothing_is_made(store: Store, tmp_path: Path, content: str) -> None:
    (tmp_path / "taken" / content).parent.mkdir(parents=True)
    (tmp_path / "taken" / content).write_text("mine")
    with pytest.raises(DataFolderTaken):
        create_table(store, "acme", "events", LONG, data=(tmp_path / "taken").as_uri())
    assert [*store.list("acme")] == []
    assert [path.name for path in (tmp_path / "taken").iterdir()] == [content.split("/")[0]]


def test_a_data_folder_inside_a_store_or_a_table_folder_is_refused(store: Store, table: Table, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("mine")
    for taken in ("store", "store/blobs/x", "lake", "lake/below", "a file", "."):
        with pytest.raises(DataFolderTaken):
            create_table(store, "acme", "other", LONG, data=(tmp_path / taken).resolve().as_uri())
    (tmp_path / "empty").mkdir()
    create_table(store, "acme", "other", LONG, data=(tmp_path / "empty").as_uri())


def test_an_interrupted_creation_is_resumed(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (tmp_path / "lake").as_uri()

    def fail(*_: object) -> None:
        raise OSError("no power")

    with monkeypatch.context() as patched:
        patched.setattr(Table, "commit", fail)
        with pytest.raises(OSError, match="no power"):
            create_table(store, "acme", "events", LONG, data=data)
    fill(create_table(store, "acme", "events", LONG, data=data), 1)


def test_a_creation_with_unordered_split_points_leaves_nothing(store: Store, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="split points must be in order"):
        create_table(store, "acme", "events", LONG, [2, 1], data=(tmp_path / "lake").as_uri())
    assert [*store.list("acme")] == []
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("name", ["../thesis.txt", "a/../../thesis.txt", "/thesis.txt", "link/thesis.txt"])
def test_a_filename_that_leads_out_of_the_folder_is_neither_read_nor_deleted(
    table: Table, tmp_path: Path, name: str
) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    (tmp_path / "lake/link").symlink_to(tmp_path)
    table.add_files([NewFile(name, (NewReference("root", 1),))])
    with pytest.raises(Invalid, match="leads out of the table's folder"):
        rows_of(table)
    with pytest.raises(Invalid, match="leads out of the table's folder"):
        data_files_of(table).delete(name)
    table.assign_job_ids([assignment("job", name)])
    table.replace_file_references([replacement("job", name)])
    collect_now(table, data_files_of(table))
    assert table.at().file(name) is None
    table.add_files([NewFile(name, (NewReference("root", 1),))])
    table.clear_files()
    maintain(table)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_collection_does_not_follow_a_symbolic_link(table: Table, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "aa"
    target.mkdir(parents=True)
    name = f"{'a' * 20}.parquet"
    (target / name).write_text("mine")
    (tmp_path / "lake" / table.incarnation / "aa").symlink_to(target)
    collect_now(table, data_files_of(table))
    assert (target / name).exists()


def test_maintenance_of_a_fork_or_its_source_preserves_the_rows_of_both(table: Table) -> None:
    fork = forked(table)
    fill(fork, 1, 2)
    fill(table, 2, 2)
    for _ in range(2):
        maintain(table)
        maintain(fork)
    assert rows_of(fork) == all_of(3 * ROWS)
    assert rows_of(table) == all_of(4 * ROWS)
    fork.clear_files()
    maintain(fork)
    maintain(table)
    assert rows_of(table) == all_of(4 * ROWS)


@pytest.mark.parametrize(
    ("partition", "sort", "damage"),
    [
        (ORGANISATIONS_PARTITION, "acme", "sort = CAST(x'ff' AS TEXT)"),
        (line_partition("acme", LOGS, "fork"), "fork", "sort = CAST(x'ff' AS TEXT)"),
        (line_partition("acme", LOGS, "fork"), "fork", "body = x'c1'"),
    ],
    ids=["the-key-of-the-organisation", "the-key-of-the-fork", "the-line-of-the-fork"],
)
def test_a_fork_that_no_list_shows_because_of_damage_keeps_its_rows(
    table: Table, tmp_path: Path, partition: str, sort: str, damage: str
) -> None:
    fork = forked(table)
    database = apsw.Connection(str(tmp_path / "store/index.sqlite"))
    database.execute(f"UPDATE items SET {damage} WHERE partition = ? AND sort = ?", (partition, sort))
    assert database.changes() == 1
    maintain(table)
    assert rows_of(fork) == rows_of(table) == all_of(2 * ROWS)


def test_the_owner_collects_files_that_a_fork_no_longer_references(table: Table, tmp_path: Path) -> None:
    fork = forked(table)
    maintain(table)
    assert len(data_in(tmp_path / "lake")) == 3
    maintain(fork)
    maintain(table)
    tracked = {file.filename for each in (table, fork) for file in each.at().files(0).files}
    present = {path.relative_to(tmp_path / "lake").as_posix() for path in data_in(tmp_path / "lake")}
    assert present == tracked
    assert len(present) == 2


def test_maintenance_of_a_copy_in_the_same_store_or_of_its_source_preserves_the_rows_of_both(table: Table) -> None:
    copy = copied(table, table.store)
    for _ in range(2):
        maintain(table)
        assert rows_of(copy) == all_of(2 * ROWS)
        maintain(copy)
        assert rows_of(table) == all_of(2 * ROWS)
    copy.clear_files()
    maintain(copy)
    assert rows_of(table) == all_of(2 * ROWS)


def test_a_copy_opened_in_another_store_and_its_source_both_retain_their_rows(table: Table, tmp_path: Path) -> None:
    with stratalog.open(tmp_path / "second") as second:
        copy = copied(table, second)
        assert rows_of(copy) == all_of(2 * ROWS)
        maintain(table)
        assert rows_of(copy) == all_of(2 * ROWS)
        maintain(copy)
        copy.clear_files()
        maintain(copy)
    assert rows_of(table) == all_of(2 * ROWS)


def test_a_copied_store_can_read_data_files_but_not_change_them(table: Table, tmp_path: Path) -> None:
    before = len(data_in(tmp_path / "lake"))
    shutil.copytree(tmp_path / "store", tmp_path / "twin")
    with stratalog.open(tmp_path / "twin") as second:
        twin = open_table(second, "acme", "events")
        assert rows_of(twin) == all_of(2 * ROWS)
        for act in (lambda: fill(twin, 1), lambda: collect_now(twin, data_files_of(twin))):
            with pytest.raises(DataFolderTaken, match="adopt"):
                act()
        with pytest.raises(DataFolderTaken):
            delete_table(twin, data_files_of(twin))
        assert rows_of(twin) == all_of(2 * ROWS)
    assert len(data_in(tmp_path / "lake")) == before
    fill(table, 1, 2)
    maintain(table)
    assert rows_of(table) == all_of(3 * ROWS)


@pytest.mark.parametrize("location", ["{0}/lake", "{0}/store/lake", "{0}/store-lake/acme/events"])
@pytest.mark.parametrize("move", [os.rename, shutil.copytree])
def test_data_files_in_or_next_to_the_store_can_be_moved_and_copied_with_the_store(
    tmp_path: Path, location: str, move: object
) -> None:
    project = tmp_path / "project"
    with stratalog.open(project / "store") as store:
        fill(create_table(store, "acme", "events", LONG, data=Path(location.format(project)).as_uri()), 2)
    move(project, tmp_path / "other")  # type: ignore[operator]
    with stratalog.open(tmp_path / "other/store") as store:
        table = open_table(store, "acme", "events")
        fill(table, 1, 2)
        maintain(table)
        assert rows_of(table) == all_of(3 * ROWS)
    assert len(data_in(tmp_path / "other")) == 1
    if project.exists():
        with stratalog.open(project / "store") as store:
            assert rows_of(open_table(store, "acme", "events")) == all_of(2 * ROWS)


def test_a_store_moved_without_its_data_files_can_still_change_them(table: Table, tmp_path: Path) -> None:
    table.store.close()
    os.rename(tmp_path / "store", tmp_path / "renamed")
    with stratalog.open(tmp_path / "renamed") as store:
        moved = open_table(store, "acme", "events")
        fill(moved, 1, 2)
        maintain(moved)
        assert rows_of(moved) == all_of(3 * ROWS)
    assert len(data_in(tmp_path / "lake")) == 1


def test_deleting_a_table_deletes_only_its_own_files_and_jobs(table: Table, tmp_path: Path) -> None:
    other = create_table(table.store, "acme", "other", LONG, data=(tmp_path / "other").as_uri())
    fill(other, 1)
    maintain(table)
    assert len([*table.jobs.jobs()]) == 1
    assert delete_table(table, data_files_of(table)) == 1
    assert [listing.id for listing in table.store.list("acme")] == ["other"]
    assert not (tmp_path / "lake").exists()
    assert rows_of(other) == all_of(ROWS)
    fill(create_table(table.store, "acme", "events", LONG, data=(tmp_path / "lake").as_uri()), 1)


def test_files_of_a_deleted_table_remain_until_no_fork_references_them(table: Table, tmp_path: Path) -> None:
    fork = forked(table)
    (tmp_path / "lake/thesis.txt").write_text("mine")
    assert delete_table(table, data_files_of(table)) == 0
    assert rows_of(fork) == all_of(2 * ROWS)
    maintain(fork)
    assert rows_of(fork) == all_of(2 * ROWS)
    assert len(data_in(tmp_path / "lake")) == 1
    assert delete_table(fork, data_files_of(fork)) == 1
    assert (tmp_path / "lake/thesis.txt").exists()


def test_an_interrupted_deletion_can_be_repeated(table: Table, tmp_path: Path) -> None:
    files = data_files_of(table)
    files.delete = lambda filename: (_ for _ in ()).throw(OSError("no power"))  # type: ignore[method-assign]
    with pytest.raises(OSError, match="no power"):
        delete_table(table, files)
    assert delete_table(table, data_files_of(table)) == 2
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("step", [(FileRights, "retire"), (FolderRegister, "retire"), (Store, "delete")])
@pytest.mark.parametrize("done", [False, True])
def test_a_deletion_interrupted_near_its_end_can_be_repeated_and_frees_the_folder(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: tuple[type, str], done: bool
) -> None:
    act = getattr(*step)

    def interrupted(*args: Any) -> None:
        if done:
            act(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(*step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            delete_table(table, data_files_of(table))
    if not (done and step[0] is Store):
        delete_table(table, data_files_of(table))
    assert [*table.store.list("acme")] == []
    fill(create_table(table.store, "acme", "events", LONG, data=(tmp_path / "lake").as_uri()), 1)


def test_deleting_the_last_of_a_table_and_its_forks_frees_the_folder(table: Table, tmp_path: Path) -> None:
    forks = [forked(table, name) for name in ("one", "two")]
    assert [delete_table(each, data_files_of(each)) for each in (table, *forks)] == [0, 0, 2]
    assert not (tmp_path / "lake").exists()


def test_a_table_collects_files_named_without_an_incarnation_when_no_copy_tracks_them(
    table: Table, tmp_path: Path
) -> None:
    files = data_files_of(table)
    for name in ("old/a.parquet", "old/b.parquet"):
        files.write(name, numbered(2 * ROWS + ROWS * (name[4] == "b")).sort_by("id"))
        table.add_files([NewFile(name, (NewReference("root", ROWS),))])
    copy = copied(table, table.store)
    maintain(copy)
    compact(table, files, files_min=2)
    collect_now(table, data_files_of(table))
    assert (tmp_path / "lake/old/a.parquet").exists()  # The copy still tracks this file.
    copy.store.delete(copy.document)
    table.clear_files()
    maintain(table)
    collect_now(table, data_files_of(table))
    assert not (tmp_path / "lake/old/b.parquet").exists()


def test_a_table_of_an_older_program_collects_its_files_only_after_an_adoption(table: Table, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "lake" / REGISTER)
    files = data_files_of(table)
    files.write("old/a.parquet", numbered(2 * ROWS).sort_by("id"))
    table.add_files([NewFile("old/a.parquet", (NewReference("root", ROWS),))])
    maintain(table)
    assert rows_of(table) == all_of(3 * ROWS)
    assert (tmp_path / "lake/old/a.parquet").exists()
    table.register(files.folder).adopt()
    maintain(table)
    assert not (tmp_path / "lake/old/a.parquet").exists()


def test_files_removed_by_a_clear_are_collected_only_after_the_age_limit(table: Table, tmp_path: Path) -> None:
    view = table.at()
    for path in data_in(tmp_path / "lake"):
        os.utime(path, (0, 0))
    table.clear_files()
    assert collect(table, data_files_of(table), 60_000) == 0
    maintain_table(table, data_files_of(table), rows_max=10**6, files_min=2, age_ms=60_000)
    assert len([*view.files(0).files]) == len(data_in(tmp_path / "lake")) == 2
    maintain(table)
    assert data_in(tmp_path / "lake") == []


@pytest.mark.parametrize("step", ["write", "move"])
def test_a_failed_write_leaves_the_entry_of_the_folder_register_unchanged(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    folder = DataFolder((tmp_path / "lake").as_uri())
    folder.is_local = False  # So the folder calls `files.move`, as on an object store.
    before = table.register(folder).adopt()
    files = folder.files

    class Failing:
        """A file system that fails after it begins a file, or that fails to move a file."""

        def open_output_stream(self, path: str) -> Any:
            if step == "write":
                files.open_output_stream(path).close()
                raise OSError("no network")
            return files.open_output_stream(path)

        def move(self, *_: str) -> None:
            raise OSError("no network")

        def __getattr__(self, name: str) -> Any:
            return getattr(files, name)

    monkeypatch.setattr(folder, "files", Failing())
    with pytest.raises(OSError, match="no network"):
        table.register(folder).adopt()
    assert table.register(folder).registration(table.incarnation) == before
    assert len([*(tmp_path / "lake" / REGISTER).iterdir()]) == 1


def test_an_age_or_a_lease_outside_its_range_is_refused(table: Table, tmp_path: Path) -> None:
    files = data_files_of(table)
    files.write(new_filename(table), numbered(0))
    version = table.version
    for age_ms in (-1, -5000, DURATION_MS_MAX + 1):
        for act in (
            lambda age=age_ms: collect(table, files, age),
            lambda age=age_ms: maintain_table(table, files, rows_max=1, files_min=2, age_ms=age),
            lambda age=age_ms: maintain_table(table, files, rows_max=1, files_min=2, age_ms=0, lease_ms=age),
            lambda age=age_ms: compact(table, files, files_min=2, lease_ms=age),
        ):
            with pytest.raises(Invalid, match="outside its range"):
                act()
    assert len(data_in(tmp_path / "lake")) == 3
    assert table.version == version
    assert collect(table, files, DURATION_MS_MAX) == 0


def test_a_table_without_files_is_made_and_deleted_without_a_folder() -> None:
    store = memory_store()
    delete_table(table_of(store), None)
    assert [*store.list("acme")] == []
