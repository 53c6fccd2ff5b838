"""SQLite fulfils the contracts of index and queue, and detects a damaged, full, locked or foreign file."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest

from stratalog.backends.files import FileBlobs
from stratalog.backends.sqlite import SqliteDatabase, SqliteIndex
from stratalog.backends.sqlite_file import READERS_IDLE_MAX, SqliteFile, _GroupWriter, _nothing, _Ticket
from stratalog.backends.sqlite_queue import SqliteQueue
from stratalog.clock import Clock, SystemClock
from stratalog.codec import sha256
from stratalog.errors import (
    Closed,
    ConditionFailed,
    Corrupt,
    Invalid,
    OutcomeUnknown,
    StorageFull,
    StratalogError,
    Unavailable,
    Unsupported,
)
from stratalog.group_commit import GroupCommit, PendingCommit
from stratalog.limits import OPENING_WAIT_MS_MAX
from stratalog.log.listed_items import list_items
from stratalog.maintenance.damage import DamageList
from stratalog.maintenance.recording_ports import RecordingIndex
from stratalog.ports.index import Absent, Attribute, Check, Equals, Item, Put
from stratalog.testing.clock import ManualClock
from stratalog.testing.index_contract import IndexContract
from stratalog.testing.queue_contract import QueueContract
from tests.interrupts import Interrupter, ends_of
from tests.processes import start

SECONDS_MAX = 60
LEADING = (
    *(_GroupWriter._run_group, _GroupWriter._transact, _GroupWriter._insert, _GroupWriter._run_each),
    *(GroupCommit.take, PendingCommit.send, PendingCommit.settle),
)

HASH, OTHER = b"h" * 32, b"o" * 32

COUNT_TO_200 = """
import sys
from stratalog.backends import sqlite_connections
from stratalog.backends.sqlite import SqliteDatabase
from stratalog.clock import SystemClock
from stratalog.ports.index import Absent, Item, Put
sqlite_connections.BUSY_MS = 120_000  # the other process may stop for some seconds during a transaction
database = SqliteDatabase(sys.argv[1], SystemClock())
for n in range(200):
    database.index.commit([Put(Item(sys.argv[2], f"{n:03d}", {}), Absent())])
"""


class TestSqliteIndex(IndexContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make(self) -> SqliteIndex:
        return _open(self.folder / "store.db").index


class TestSqliteQueue(QueueContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make(self, clock: Clock, receives_max: int) -> SqliteQueue:
        return SqliteDatabase(self.folder / "store.db", clock, receives_max=receives_max).queue


def test_items_messages_and_dead_letters_survive_closing_and_reopening(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "store.db", ManualClock(), receives_max=1)
    database.index.commit([Put(_item("s"))])
    database.queue.send("dead", [b"letter"])
    [message] = database.queue.receive()
    assert database.queue.release(message)
    assert database.queue.receive() == []
    database.queue.send("g", [b"body"])
    letters = list(database.queue.dead_letters())
    assert [(letter.group, letter.body) for letter in letters] == [("dead", b"letter")]
    database.close()
    again = _open(tmp_path / "store.db")
    assert again.index.get("p", "s") == _item("s")
    assert list(again.queue.dead_letters()) == letters
    assert [message.body for message in again.queue.receive()] == [b"body"]


def test_a_message_in_flight_is_hidden_from_another_handle_of_the_file(tmp_path: Path) -> None:
    first, second = _open(tmp_path / "store.db"), _open(tmp_path / "store.db")
    first.queue.send("g", [b"body"])
    assert len(first.queue.receive()) == 1
    assert second.queue.receive() == []


def test_a_second_handle_of_the_file_sees_each_commit_immediately(tmp_path: Path) -> None:
    first, second = _open(tmp_path / "store.db"), _open(tmp_path / "store.db")
    for n in range(20):
        first.index.commit([Put(_item(f"{n}"), Absent())])
        assert second.index.get("p", f"{n}") is not None
        with pytest.raises(ConditionFailed):
            second.index.commit([Put(_item(f"{n}"), Absent())])


def test_concurrent_commits_of_two_processes_are_all_stored(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    commands = [[sys.executable, "-c", COUNT_TO_200, str(path), name] for name in ("a", "b")]
    with start(commands[0]) as first, start(commands[1]) as second:
        for process in (first, second):
            process.end()
            assert process.stderr == ""
    index = _open(path).index
    assert [len(list(index.query(name))) for name in ("a", "b")] == [200, 200]


def test_each_commit_of_a_group_gets_its_own_result(tmp_path: Path) -> None:
    database = _open(tmp_path / "store.db")
    answers = _together(database, [[Put(_item("same", n), Absent())] for n in range(8)])
    winners = [n for n, answer in enumerate(answers) if answer is None]
    assert len(winners) == 1
    failures = [answer for answer in answers if answer is not None]
    assert all(isinstance(failure, ConditionFailed) for failure in failures)
    assert [failure.items for failure in failures if isinstance(failure, ConditionFailed)] == [
        {0: _item("same", winners[0])}
    ] * 7


def test_a_failed_commit_of_a_group_does_not_fail_the_other_commits(tmp_path: Path) -> None:
    database = _open(tmp_path / "store.db")
    database.index.commit([Put(_item("3"))])
    answers = _together(database, [[Put(_item(f"{n}"), Absent())] for n in range(8)])
    assert [n for n, answer in enumerate(answers) if answer is not None] == [3]
    assert len(list(database.index.query("p"))) == 8


def _damage(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()


def test_a_commit_on_a_damaged_item_fails_without_effect_on_other_commits(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    database = _open(path)
    database.index.commit([Put(_item("3"))])
    _damage(path, "UPDATE items SET body = x'c1'")
    with pytest.raises(Corrupt):
        database.index.commit([Put(_item("3", 2), Equals("n", 1))])
    database.index.commit([Put(_item("after"), Absent())])
    assert _open(path).index.get("p", "after") == _item("after")
    answers = _together(database, [[Put(_item(f"{n}", 2), Equals("n", 1) if n == 3 else Absent())] for n in range(8)])
    assert [type(answer) for answer in answers if answer is not None] == [Corrupt]
    assert all(_open(path).index.get("p", f"{n}") == _item(f"{n}", 2) for n in range(8) if n != 3)


def test_a_commit_on_a_blob_of_an_unknown_codec_fails_without_effect_on_later_commits(tmp_path: Path) -> None:
    path, body = tmp_path / "store.db", b"hello" * 100
    key = f"o/d/{sha256(body).hex()}"
    database = _open(path)
    blobs = database.blobs(FileBlobs(tmp_path / "blobs", SystemClock()))
    blobs.put(key, body)
    _damage(path, "UPDATE blob_bodies SET codec = 'Q', body = x'00'")
    with pytest.raises(Unsupported):
        database.index.commit([Put(_item("with"))], {key: body})
    database.index.commit([Put(_item("after"), Absent())])
    again = _open(path).index
    assert again.get("p", "with") is None
    assert again.get("p", "after") == _item("after")


def test_a_commit_does_not_join_a_transaction_that_was_left_open(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    database = _open(path)
    database._file._writer._connection.execute("BEGIN IMMEDIATE")
    database.index.commit([Put(_item("after"), Absent())])
    assert _open(path).index.get("p", "after") == _item("after")


def test_a_write_beyond_the_size_limit_of_the_file_has_no_effect(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    database = SqliteDatabase(path, ManualClock(), file_bytes_max=200_000)
    database.index.commit([Put(_item("small"))])
    large = [Put(Item("p", f"large{n}", {"b": bytes(100_000)})) for n in range(3)]
    with pytest.raises(StorageFull):
        database.index.commit([Put(_item("before")), *large])
    with pytest.raises(StorageFull):
        database.queue.send("g", [bytes(400_000)])
    database.index.commit([Put(_item("after"))])
    database.close()
    again = _open(path)
    assert [item.sort for item in again.index.query("p")] == ["after", "small"]
    assert again.queue.receive() == []


def test_a_writer_that_ignores_the_lock_file_makes_commits_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog.backends.sqlite_connections.BUSY_MS", 1)
    database = _open(tmp_path / "store.db")
    intruder = apsw.Connection(str(tmp_path / "store.db"))
    intruder.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable):
        database.index.commit([Put(_item("s"))])
    intruder.execute("ROLLBACK")
    assert database.index.get("p", "s") is None
    database.index.commit([Put(_item("s"))])


def test_an_open_waits_at_most_the_limit_for_another_process_that_opens_the_file(tmp_path: Path) -> None:
    path, clock = tmp_path / "store.db", ManualClock()
    begun = clock.boot_ms()
    ends: list[object] = []

    def open_file() -> None:
        try:
            ends.append(SqliteDatabase(path, clock))
        except Unavailable as exc:
            ends.append(exc)

    with open(f"{path}.lock", "w") as stopped:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        thread = threading.Thread(target=open_file)
        thread.start()
        thread.join(SECONDS_MAX)
    thread.join()
    assert isinstance(ends[0], Unavailable)
    assert clock.boot_ms() - begun == OPENING_WAIT_MS_MAX
    SqliteDatabase(path, clock).close()


def test_a_file_cut_short_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _filled(path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(Corrupt):
        _open(path)


def test_a_page_overwritten_is_corrupt_when_read(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _filled(path)
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    with pytest.raises(Corrupt):
        list(_open(path).index.query("p"))


def test_a_flipped_bit_in_a_text_of_an_item_is_corrupt(tmp_path: Path) -> None:
    """The text becomes invalid UTF-8. The decoder raises another error for such a text than for a wrong structure."""
    path = tmp_path / "store.db"
    database = _open(path)
    database.index.commit([Put(Item("p", "s", {"a": "text"}))])
    database.close()
    connection = apsw.Connection(str(path))
    [(body,)] = connection.execute("SELECT body FROM items WHERE partition = 'p'").fetchall()
    connection.execute("UPDATE items SET body = ? WHERE partition = 'p'", (body.replace(b"text", b"\xf4ext"),))
    connection.close()
    index = _open(path).index
    with pytest.raises(Corrupt):
        index.get("p", "s")
    with pytest.raises(Corrupt):
        list(index.query("p"))


def test_an_item_that_is_nested_too_deeply_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    database = _open(path)
    database.index.commit([Put(Item("p", "s", {"a": "text"}))])
    database.close()
    body = b"\x81\xa1a" + b"\x91" * 100_000 + b"\xc0"
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE items SET body = ? WHERE partition = 'p'", (body,))
    connection.close()
    index = _open(path).index
    with pytest.raises(Corrupt):
        index.get("p", "s")
    with pytest.raises(Corrupt):
        list(index.query("p"))


def _damaged_row(path: Path, change: str) -> SqliteIndex:
    """Return an index with three items of one partition after ``change`` of the row of the item ``2``."""
    database = _open(path)
    database.index.commit([Put(Item("p", sort, {"a": b"\xff"})) for sort in "123"])
    database.close()
    connection = apsw.Connection(str(path))
    connection.execute(f"UPDATE items SET {change} WHERE sort = '2'")
    connection.close()
    return _open(path).index


@pytest.mark.parametrize("body", ["'text'", "7", "CAST(body AS TEXT)"])
def test_a_body_of_another_type_is_damage_of_one_item(tmp_path: Path, body: str) -> None:
    index = _damaged_row(tmp_path / "store.db", f"body = {body}")
    assert [(listed.sort, listed.item is None) for listed in list_items(index, "p")] == [
        ("1", False),
        ("2", True),
        ("3", False),
    ]
    with pytest.raises(Corrupt, match=r"partition='p' sort='2' reason=.*, not '(str|int)'"):
        index.get("p", "2")
    with pytest.raises(Corrupt, match=r"partition='p' sort='2' reason=.*, not '(str|int)'"):
        index.commit([Put(Item("p", "4", {})), Check("p", "2", Equals("a", 1))])
    assert index.get("p", "4") is None
    index.commit([Put(Item("p", "2", {"a": 2}))])
    assert len(list(index.query("p"))) == 3


@pytest.mark.parametrize("sort", ["CAST(sort AS BLOB)", "CAST(x'ff' AS TEXT)", "CAST(x'31ff' AS TEXT)"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_sort_key_that_is_not_text_in_utf8_is_corrupt(tmp_path: Path, sort: str, reverse: bool) -> None:
    index = _damaged_row(tmp_path / "store.db", f"sort = {sort}")
    with pytest.raises(Corrupt, match="partition='p' sort="):
        list(index.query("p", reverse=reverse))
    assert [item.sort for item in index.query("p", before="14")] == ["1"]


@pytest.mark.parametrize(
    ("sort", "named"),
    [("CAST(sort AS BLOB)", "2 (not text)"), ("CAST(x'ff' AS TEXT)", "\\xff"), ("CAST(x'31ff' AS TEXT)", "1\\xff")],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_listing_names_an_item_with_a_damaged_sort_key_and_has_all_others(
    tmp_path: Path, sort: str, named: str, reverse: bool
) -> None:
    """Two neighbours have damaged keys. Each limit ends the listing at another item."""
    index = _damaged_row(tmp_path / "store.db", f"sort = {sort}")
    connection = apsw.Connection(str(tmp_path / "store.db"))
    connection.execute("INSERT INTO items SELECT partition, CAST(x'ff' || sort AS TEXT), body FROM items")
    listed = list(list_items(index, "p", reverse=reverse))
    assert sorted(line.sort for line in listed if line.item is not None) == ["1", "3"]
    assert sorted(line.sort for line in listed if line.item is None and line.sort == named) == [named]
    assert len(listed) == 6
    for limit in range(7):
        assert list(list_items(index, "p", reverse=reverse, limit=limit)) == listed[:limit]
    damages = DamageList()
    sound = [item.sort for item in RecordingIndex(index, damages).query("p", reverse=reverse)]
    assert sound == [line.sort for line in listed if line.item is not None]
    assert {damage.key for damage in damages.damages()} == {f"p {line.sort}" for line in listed if line.item is None}


def test_garbage_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"this is no database at all. " * 1000)
    with pytest.raises(Corrupt):
        _open(path)


def test_a_newer_format_is_unsupported_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _filled(path)
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 99)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(Unsupported):
        _open(path)
    assert path.read_bytes() == before


def test_another_program_s_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs(x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(Invalid):
        _open(path)
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    database = _open(path)
    database.index.commit([Put(_item("s"))])
    assert database.index.get("p", "s") == _item("s")


def test_a_missing_folder_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        _open(tmp_path / "none" / "store.db")


def test_a_database_is_closed_in_a_forked_child_and_usable_in_the_parent(tmp_path: Path) -> None:
    database = _open(tmp_path / "store.db")
    database.index.commit([Put(_item("s"))])
    child = os.fork()
    if child == 0:
        os._exit(_closed_in_child(database))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    database.index.commit([Put(_item("t"))])
    assert [item.sort for item in database.index.query("p")] == ["s", "t"]


def test_an_integer_attribute_beyond_64_bits_is_invalid(tmp_path: Path) -> None:
    index = _open(tmp_path / "store.db").index
    with pytest.raises(Invalid):
        index.commit([Put(Item("p", "s", {"n": 2**70}))])
    assert index.get("p", "s") is None


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("attributes", [{"h": HASH, "c": 1}, {"c": 1, "h": HASH}, {"h": HASH}], ids=repr)
def test_an_append_finds_the_hash_at_any_position_among_the_attributes(
    tmp_path: Path, attributes: dict[str, Attribute]
) -> None:
    index = _open(tmp_path / "store.db").index
    index.commit([Put(Item("p", "1", attributes))])
    index.commit([Put(Item("p", "2", {"h": OTHER}), Absent()), Check("p", "1", Equals("h", HASH))])
    assert index.get("p", "2") == Item("p", "2", {"h": OTHER})


@pytest.mark.parametrize(
    "attributes",
    [{"h": OTHER}, {"b": b"\xa1h\xc4 " + HASH, "h": OTHER}, {"H": HASH}, {"h": "a" * 32}, {"h": OTHER, "g": HASH}],
    ids=repr,
)
def test_an_append_fails_if_the_previous_entry_has_another_hash(
    tmp_path: Path, attributes: dict[str, Attribute]
) -> None:
    index = _open(tmp_path / "store.db").index
    index.commit([Put(Item("p", "1", attributes))])
    with pytest.raises(ConditionFailed) as caught:
        index.commit([Put(Item("p", "2", {"h": OTHER}), Absent()), Check("p", "1", Equals("h", HASH))])
    assert caught.value.items == {1: Item("p", "1", attributes)}
    assert index.get("p", "2") is None


def test_an_append_that_checks_its_own_key_is_invalid(tmp_path: Path) -> None:
    index = _open(tmp_path / "store.db").index
    with pytest.raises(Invalid):
        index.commit([Put(Item("p", "1", {"h": HASH}), Absent()), Check("p", "1", Equals("h", HASH))])


@pytest.mark.parametrize("value", [None, 1.5, 2**64, ["a"]], ids=repr)
def test_an_append_with_an_attribute_of_an_unsupported_type_is_invalid(tmp_path: Path, value: Any) -> None:
    index = _open(tmp_path / "store.db").index
    index.commit([Put(Item("p", "1", {"h": HASH}))])
    with pytest.raises(Invalid):
        index.commit([Put(Item("p", "2", {"h": HASH, "c": value}), Absent()), Check("p", "1", Equals("h", HASH))])


@pytest.mark.parametrize("conditions", [(Absent(),), ()], ids=["inserts", "puts"])
def test_an_interrupt_of_the_leader_acknowledges_no_commit_that_was_not_written(
    conditions: tuple[Absent, ...], tmp_path: Path
) -> None:
    database = _open(tmp_path / "store.db")
    writer, names = database._file._writer, ("leader", "second", "third")
    for step in count():
        items = {name: Item(f"p{step}", name, {}) for name in names}
        calls = {name: partial(database.index.commit, [Put(item, *conditions)]) for name, item in items.items()}
        interrupter = Interrupter(step, LEADING)
        with interrupter.active():
            ends = ends_of(writer._group_commit, _Ticket(_nothing), calls)
        for name, end in ends.items():
            if isinstance(end, KeyboardInterrupt):
                assert name == interrupter.victim, step
            elif not isinstance(end, OutcomeUnknown):
                assert (end, database.index.get(f"p{step}", name)) == (None, items[name]), step
        if interrupter.victim is None:
            break
    assert step > 100
    database.close()


def _closed_in_child(database: SqliteDatabase) -> int:
    try:
        database.index.commit([Put(_item("child"))])
    except Closed:
        database.close()
        return 7
    return 1


def _together(database: SqliteDatabase, commits: list[list[Put]]) -> list[StratalogError | None]:
    """Run the commits in one group. Return the error of each commit, or None."""
    writer = database._file._writer
    before = writer._commits
    calls = {str(n): partial(database.index.commit, writes) for n, writes in enumerate(commits)}
    ends = ends_of(writer._group_commit, _Ticket(_nothing), calls)
    assert writer._commits == before + 1
    return [ends[name] for name in calls]


def _filled(path: Path) -> None:
    database = _open(path)
    for n in range(100):
        database.index.commit([Put(Item("p", f"{n:03d}", {"b": bytes(2000)}))])
    database.close()


def _open(path: Path) -> SqliteDatabase:
    return SqliteDatabase(path, ManualClock())


def _item(sort: str, n: int = 0) -> Item:
    return Item("p", sort, {"n": n})


def test_a_burst_of_reads_leaves_few_connections_behind(tmp_path: Path) -> None:
    file = SqliteFile(str(tmp_path / "index.sqlite"), ManualClock(), "NORMAL", None)
    readers = [file._take_reader() for _ in range(40)]
    for reader in readers:
        file._give_back(reader)
    assert len(file._readers) == READERS_IDLE_MAX
    assert file.read("SELECT 1", ()) == [(1,)]
    with pytest.raises(apsw.ConnectionClosedError):
        readers[-1].execute("SELECT 1")
    file.close()
    assert file._readers == []
