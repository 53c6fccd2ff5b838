"""Small blobs are rows in the file of the index. Large blobs, and all blobs of an older format, are files."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import apsw
import pytest

import stratalog
from stratalog.backends.files import FileBlobs
from stratalog.backends.row_blobs import PAGE_ROWS, RowBlobs
from stratalog.backends.sqlite import SqliteDatabase
from stratalog.backends.sqlite_file import _nothing, _Ticket
from stratalog.clock import Clock
from stratalog.codec import sha256
from stratalog.errors import ConditionFailed, Corrupt, OutcomeUnknown, StratalogError
from stratalog.limits import BLOB_ROW_BYTES_MAX, BLOB_SLICE_BYTES
from stratalog.maintenance.store_copy import copy_store
from stratalog.ports.blobs import Blobs
from stratalog.ports.commit_blobs import put_all
from stratalog.ports.index import Absent, Equals, Index, Item, Put
from stratalog.testing.blobs_contract import BlobsContract, Change
from stratalog.testing.clock import ManualClock
from stratalog.testing.commit_contract import CommitContract
from tests.backends.test_files import alter_file
from tests.threads import join_all, start_all, until

SMALL = os.urandom(2000)
LARGE = os.urandom(BLOB_ROW_BYTES_MAX + 1)
LONG = "long " * 2000
OLD_FORMAT = """
DROP TABLE blobs; DROP TABLE blob_bodies;
DROP TABLE message_groups; DROP INDEX messages_group; DROP INDEX messages_given;
CREATE INDEX messages_hidden ON messages(hidden_until_ms, name); PRAGMA user_version = 1;
"""


class TestSqliteBlobs(BlobsContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make(self, clock: Clock) -> RowBlobs:
        return _open(self.folder, clock)[1]

    def alter(self, blobs: Blobs, key: str, change: Change) -> bool:
        database = apsw.Connection(str(self.folder / "index.sqlite"))
        rows = database.execute("SELECT id, body FROM blobs JOIN blob_bodies USING (id) WHERE key = ?", (key,))
        for id, body in rows.fetchall():
            changed = change(body)
            if changed is None:
                database.execute("DELETE FROM blob_bodies WHERE id = ?", (id,))
            else:
                database.execute("UPDATE blob_bodies SET body = ? WHERE id = ?", (changed, id))
            return True
        alter_file(self.folder / "blobs" / f"{key}.bin.zst", change)
        return True

    def rename(self, blobs: Blobs, key: str, name: str) -> bool:
        apsw.Connection(str(self.folder / "index.sqlite")).execute(
            "UPDATE blobs SET key = ? WHERE key = ?", (name, key)
        )
        return True


class TestSqliteCommit(CommitContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make(self, clock: Clock) -> tuple[Index, Blobs]:
        database, blobs = _open(self.folder, clock)
        return database.index, blobs


def test_a_small_blob_is_a_row_and_a_large_one_a_file(tmp_path: Path) -> None:
    _, blobs = _open(tmp_path)
    for body in (SMALL, LARGE):
        blobs.put(_key(body), body)
    assert _files(tmp_path) == [f"{_key(LARGE)}.bin.zst"]
    assert sorted(stat.key for stat in blobs.list("")) == sorted([_key(SMALL), _key(LARGE)])


def test_a_hundred_values_of_10_kb_need_ten_files_or_fewer(tmp_path: Path) -> None:
    with stratalog.open(tmp_path / "store") as store:
        document = store.create("acme", "budget")
        for number in range(100):
            document.mutate("put", {"key": f"notes/{number}", "value": f"{number} {LONG}"})
        assert document.get("notes/7") == f"7 {LONG}"
    assert sum(len(files) for _, _, files in os.walk(tmp_path)) <= 10


def test_putting_an_existing_blob_again_does_not_rewrite_its_body(tmp_path: Path) -> None:
    database, blobs = _open(tmp_path)
    body = os.urandom(16_000)
    database.index.commit((), {_key(body): body})
    log = tmp_path / "index.sqlite-wal"
    before = log.stat().st_size
    for _ in range(5):
        database.index.commit((), {_key(body): body})
        blobs.put(_key(body), body)
    assert (log.stat().st_size - before) / 10 < 5000


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE blob_bodies SET body = x'00'",
        "UPDATE blob_bodies SET body = CAST(x'ff' AS TEXT)",
        "UPDATE blob_bodies SET body = 7",
        "DELETE FROM blob_bodies",
    ],
)
def test_putting_over_a_damaged_row_restores_it(tmp_path: Path, damage: str) -> None:
    database, blobs = _open(tmp_path)
    for restore in (lambda: blobs.put(_key(SMALL), SMALL), lambda: database.index.commit((), {_key(SMALL): SMALL})):
        blobs.put(_key(SMALL), SMALL)
        apsw.Connection(database.path).execute(damage)
        with pytest.raises(Corrupt):
            blobs.get(_key(SMALL))
        restore()
        assert blobs.get(_key(SMALL)) == SMALL


@pytest.mark.parametrize("key", ["CAST(x'ff' AS TEXT)", "CAST(x'613030ff' AS TEXT)", "CAST(key AS BLOB)"])
def test_a_list_has_each_blob_and_names_those_with_a_damaged_key(tmp_path: Path, key: str) -> None:
    """There are more damaged keys than rows on a page."""
    database, blobs = _open(tmp_path)
    blobs.put(_key(SMALL), SMALL)
    blobs.put(_key(b"other"), b"other")
    connection = apsw.Connection(database.path)
    columns, type_ = "bytes, modified_ms, stamp FROM blobs", "BLOB" if "BLOB" in key else "TEXT"
    for id in range(PAGE_ROWS + 3):
        connection.execute(f"INSERT INTO blobs SELECT CAST({key} || '{id}' AS {type_}), {1000 + id}, {columns} LIMIT 1")
    for after in ("", min(_key(SMALL), _key(b"other"))):
        named = set[str]()
        listed = [stat.key for stat in blobs.list("", after=after, damaged=named.add)]
        assert listed == sorted(each for each in (_key(SMALL), _key(b"other")) if each > after)
        is_listed_first = type_ == "BLOB" or key == "CAST(x'613030ff' AS TEXT)"
        assert len(named) == (PAGE_ROWS + 3 if not (after and is_listed_first) else 0)


def test_a_list_of_a_folder_names_the_keys_of_the_folder_that_are_bytes_and_no_others(tmp_path: Path) -> None:
    database, blobs = _open(tmp_path)
    blobs.put(_key(SMALL), SMALL)
    apsw.Connection(database.path).execute("UPDATE blobs SET key = CAST(key AS BLOB)")
    for prefix, names in (("organisation/", {f"{_key(SMALL)} (not text)"}), ("other/", set())):
        named = set[str]()
        assert [*blobs.list(prefix, damaged=named.add)] == []
        assert named == names


def test_a_restored_blob_has_the_size_of_its_new_body(tmp_path: Path) -> None:
    """The damaged row has a body of one byte, and gives this size."""
    database, blobs = _open(tmp_path)
    blobs.put(_key(SMALL), SMALL)
    before = blobs.stat(_key(SMALL))
    assert before is not None
    apsw.Connection(database.path).execute("UPDATE blob_bodies SET body = x'00'; UPDATE blobs SET bytes = 1")
    blobs.put(_key(SMALL), SMALL)
    [after] = blobs.list("")
    assert after.stored_bytes == before.stored_bytes


def test_a_group_stores_the_blobs_of_its_successful_commits_only(tmp_path: Path) -> None:
    database, blobs = _open(tmp_path)
    database.index.commit([Put(Item("p", "3", {}))])
    bodies = [bytes([number]) * 3000 for number in range(8)]
    answers: dict[int, StratalogError | None] = {}

    def commit(number: int) -> None:
        try:
            database.index.commit([Put(Item("p", str(number), {}), Absent())], {_key(bodies[number]): bodies[number]})
            answers[number] = None
        except StratalogError as exc:
            answers[number] = exc

    group_commit, threads = database._file._writer._group_commit, []

    def gather(_: object) -> None:
        threads.extend(start_all(partial(commit, number) for number in range(8)))
        until(lambda: len(group_commit.waiting) == 8)

    group_commit.commit(_Ticket(_nothing), gather)
    join_all(threads)
    assert [number for number, answer in answers.items() if isinstance(answer, ConditionFailed)] == [3]
    assert {stat.key for stat in blobs.list("")} == {_key(body) for n, body in enumerate(bodies) if n != 3}


def test_a_conditional_commit_stores_its_blobs_only_if_the_condition_holds(tmp_path: Path) -> None:
    database, blobs = _open(tmp_path)
    database.index.commit([Put(Item("p", "s", {"n": 1}))])
    with pytest.raises(ConditionFailed):
        database.index.commit([Put(Item("p", "s", {"n": 2}), Equals("n", 0))], {_key(SMALL): SMALL})
    assert blobs.stat(_key(SMALL)) is None
    database.index.commit([Put(Item("p", "s", {"n": 2}), Equals("n", 1))], {_key(SMALL): SMALL})
    assert blobs.get(_key(SMALL)) == SMALL


def test_a_commit_that_sqlite_rolls_back_raises_outcome_unknown_and_stores_no_blob(tmp_path: Path) -> None:
    database, blobs = _open(tmp_path)
    connection = database._file._writer._connection
    refused: list[bool] = []

    def refuse() -> bool:
        refused.append(True)
        return True

    connection.set_commit_hook(refuse)
    with pytest.raises(OutcomeUnknown):
        database.index.commit([Put(Item("p", "s", {}), Absent())], {_key(SMALL): SMALL})
    connection.set_commit_hook(None)
    assert len(refused) == 2, "the single insert, and the transaction that follows its failure, each try to commit"
    database.index.commit([Put(Item("p", "later", {}), Absent())])
    for index, stored in ((database.index, blobs), _reopened(tmp_path)):
        assert (index.get("p", "s"), stored.stat(_key(SMALL))) == (None, None)
        assert index.get("p", "later") is not None


def test_put_all_writes_blobs_in_slices_of_limited_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database, blobs = _open(tmp_path)
    commit, sizes = database.index.commit, []

    def watch(writes: object, bodies: dict[str, bytes]) -> None:
        sizes.append(sum(map(len, bodies.values())))
        commit((), bodies)

    monkeypatch.setattr(database.index, "commit", watch)
    bodies = [os.urandom(6000) for _ in range(200)]
    put_all(database.index, blobs, {_key(body): body for body in bodies})
    assert sum(sizes) == 200 * 6000
    assert max(sizes) <= BLOB_SLICE_BYTES


def test_a_blob_that_is_both_a_file_and_a_row_is_listed_and_deleted_as_a_single_blob(tmp_path: Path) -> None:
    clock = ManualClock()
    FileBlobs(tmp_path / "blobs", clock).put(_key(SMALL), SMALL)
    clock.sleep(60)
    database, blobs = _open(tmp_path, clock)
    before = blobs.stat(_key(SMALL))
    assert before is not None
    database.index.commit((), {_key(SMALL): SMALL})
    (after,) = blobs.list("")
    assert after.modified_ms - before.modified_ms == 60_000
    assert not blobs.delete(_key(SMALL), before.stamp)
    assert blobs.delete(_key(SMALL), after.stamp)
    assert (list(blobs.list("")), _files(tmp_path)) == ([], [])


def test_a_delete_after_another_process_deleted_the_generation_returns_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _overtaken_delete(tmp_path, monkeypatch, lambda other, files: None)


@pytest.mark.parametrize("copy", ["row", "file"])
def test_a_delete_after_another_process_deleted_the_generation_leaves_a_later_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy: str
) -> None:
    def put_again(other: RowBlobs, files: FileBlobs) -> None:
        (other if copy == "row" else files).put(_key(SMALL), SMALL)

    assert not _overtaken_delete(tmp_path, monkeypatch, put_again)
    assert _open(tmp_path, ManualClock())[1].get(_key(SMALL)) == SMALL


def _overtaken_delete(
    folder: Path, monkeypatch: pytest.MonkeyPatch, then: Callable[[RowBlobs, FileBlobs], None]
) -> bool:
    """Delete a row that another process deletes after this delete has read it. Return the result of this delete.

    ``then`` runs after the delete of the other process.
    """
    clock = ManualClock()
    (_, blobs), (_, other) = _open(folder, clock), _open(folder, clock)
    blobs.put(_key(SMALL), SMALL)
    seen = blobs.stat(_key(SMALL))
    assert seen is not None
    delete = blobs._table.delete

    def delete_late(key: str, stamp: int) -> bool:
        assert other.delete(key, seen.stamp)
        then(other, FileBlobs(folder / "blobs", clock))
        return delete(key, stamp)

    monkeypatch.setattr(blobs._table, "delete", delete_late)
    return blobs.delete(_key(SMALL), seen.stamp)


def test_a_store_of_the_older_format_stays_usable_and_its_files_are_not_moved(tmp_path: Path) -> None:
    """All old blobs are files. The store reads and copies these files, and moves none of them into a row."""
    folder = tmp_path / "old"
    clock = ManualClock()
    with stratalog.open(folder, clock=clock) as store:
        old = stratalog.store.Store(
            stratalog.log.Environment(_without_blobs(store), FileBlobs(folder / "blobs", clock), clock), store.queue
        )
        old.create("acme", "budget").mutate("put", {"key": "notes/a", "value": LONG})
    _make_old(folder)
    files = _files(folder)
    assert files
    with stratalog.open(folder, clock=clock) as store, stratalog.open("memory:", clock=clock) as copy:
        document = store.document("acme", "budget")
        assert document.get("notes/a") == LONG
        document.mutate("put", {"key": "notes/b", "value": LONG + "!"})
        copy_store(store, copy)
        assert copy.document("acme", "budget").at().to_dict() == {"notes/a": LONG, "notes/b": LONG + "!"}
    assert _files(folder) == files


def _without_blobs(store: stratalog.Store) -> Index:
    index = store.environment.index
    index.blob_bytes_max = 0
    return index


def _make_old(folder: Path) -> None:
    """Remove the tables that the older format lacks, and rename each blob's file to the key without suffixes."""
    connection = apsw.Connection(str(folder / "index.sqlite"))
    connection.execute(OLD_FORMAT)
    connection.close()
    for path in (folder / "blobs").rglob("*.zst"):
        path.rename(path.with_name(path.name.partition(".")[0]))


def _open(folder: Path, clock: Clock | None = None) -> tuple[SqliteDatabase, RowBlobs]:
    clock = clock or ManualClock()
    database = SqliteDatabase(folder / "index.sqlite", clock)
    return database, database.blobs(FileBlobs(folder / "blobs", clock))


def _reopened(folder: Path) -> tuple[Index, RowBlobs]:
    database, blobs = _open(folder)
    return database.index, blobs


def _files(folder: Path) -> list[str]:
    blobs = folder / "blobs"
    return sorted(str(path.relative_to(blobs)) for path in blobs.rglob("[!.]*") if path.is_file())


def _key(body: bytes) -> str:
    return f"organisation/document/{sha256(body).hex()}"
