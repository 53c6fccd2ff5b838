"""A poll of the SQLite queue has a constant cost, and the queue migrates a file of an older format."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from stratalog.backends.sqlite import SqliteDatabase
from stratalog.backends.sqlite_queue import SqliteQueue
from stratalog.errors import Corrupt
from stratalog.limits import VISIBILITY_SECONDS_MAX
from stratalog.ports.queue import Message
from stratalog.testing.clock import ManualClock

OLD_FORMAT = """
DROP TABLE message_groups; DROP INDEX messages_group; DROP INDEX messages_given;
CREATE INDEX messages_hidden ON messages(hidden_until_ms, name); PRAGMA user_version = 2;
"""
STEPS_EACH = 100
YEAR_MS = 365 * 86_400_000


class Steps:
    """Counts SQLite's steps on a reader and the writer of a database, in hundreds."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.count = 0
        reader = database._file._take_reader()
        for connection in (reader, database._file._writer._connection):
            connection.set_progress_handler(self._step, STEPS_EACH)
        database._file._give_back(reader)

    def _step(self) -> bool:
        self.count += 1
        return False


def filled(path: Path, groups: int, backlog: int) -> tuple[SqliteDatabase, ManualClock]:
    """Return a database and its clock. Each group of its queue has messages in flight, so the others must wait."""
    clock = ManualClock()
    database = SqliteDatabase(path, clock, synchronous="OFF")
    for group in range(groups):
        for _ in range(backlog // 10):
            database.queue.send(f"g{group}", [b"body"] * 10)
    while database.queue.receive(10, visibility_seconds=600):
        pass
    return database, clock


def receive_steps(path: Path, backlog: int) -> tuple[int, int]:
    """Return the steps of two polls. The first poll finds nothing, and the second poll finds a new message."""
    database, _ = filled(path / f"{backlog}.sqlite", 20, backlog)
    steps = Steps(database)
    assert database.queue.receive() == []
    idle = steps.count
    database.queue.send("another", [b"1"])
    steps.count = 0
    assert [message.body for message in database.queue.receive()] == [b"1"]
    return idle, steps.count


def test_the_cost_of_a_poll_does_not_depend_on_the_number_of_messages_in_the_queue(tmp_path: Path) -> None:
    small, large = receive_steps(tmp_path, 10), receive_steps(tmp_path, 1000)
    assert all(after <= before + 1 for before, after in zip(small, large, strict=True))
    assert max(large) <= 10


def test_a_poll_that_finds_no_group_ready_takes_no_write_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database, clock = filled(tmp_path / "queue.sqlite", 3, 20)
    monkeypatch.setattr(type(database._file), "write", lambda *_: pytest.fail("the file was locked"))
    assert database.queue.receive() == []
    monkeypatch.undo()
    clock.sleep(600)
    assert len(database.queue.receive()) == 10


def test_a_poll_returns_the_next_group_after_it_has_moved_groups_to_the_dead_letters(tmp_path: Path) -> None:
    clock = ManualClock()
    queue = SqliteDatabase(tmp_path / "queue.sqlite", clock, receives_max=1).queue
    for group in range(5):
        queue.send(f"poison-{group}", [b"1"])
    for _ in range(5):
        assert len(queue.receive(1)) == 1
    clock.sleep(60)
    queue.send("good", [b"2"])
    assert [message.group for message in queue.receive(2)] == ["good"]
    clock.sleep(1)
    assert queue.receive(2) == []
    assert [letter.group for letter in queue.dead_letters()] == [f"poison-{group}" for group in range(5)]


def test_the_messages_of_a_file_of_format_2_are_received_in_order(tmp_path: Path) -> None:
    path = tmp_path / "queue.sqlite"
    database, clock = filled(path, 2, 20)
    database.queue.send("fresh", [b"new"])
    database.close()
    connection = apsw.Connection(str(path))
    connection.execute(OLD_FORMAT)
    connection.close()
    queue = SqliteDatabase(path, clock).queue
    assert [message.body for message in queue.receive()] == [b"new"]
    clock.sleep(600)
    ids = [message.id for message in given(queue)]
    assert len(ids) == 41
    assert ids == sorted(ids)


def given(queue: SqliteQueue) -> list[Message]:
    """Receive and acknowledge all messages that can be received."""
    messages: list[Message] = []
    while batch := [message for message in queue.receive() if queue.acknowledge(message)]:
        messages += batch
    return messages


def test_a_group_that_was_hidden_before_the_clock_was_set_back_by_a_year_is_delivered(tmp_path: Path) -> None:
    clock = ManualClock()
    queue = SqliteDatabase(tmp_path / "store.db", clock).queue
    queue.send("g", [b"1", b"2"])
    assert [message.body for message in queue.receive(1)] == [b"1"]
    clock.set_wall(clock.wall_ms() - YEAR_MS)
    assert [message.body for message in queue.receive()] == [b"1", b"2"]


def test_a_message_with_the_longest_visibility_timeout_stays_hidden(tmp_path: Path) -> None:
    queue = SqliteDatabase(tmp_path / "store.db", ManualClock()).queue
    queue.send("g", [b"1"])
    queue.receive(visibility_seconds=VISIBILITY_SECONDS_MAX)
    assert queue.receive() == []


def test_a_group_whose_name_is_not_utf8_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "queue.sqlite"
    database = SqliteDatabase(path, ManualClock())
    database.queue.send("group", [b"1"])
    database.close()
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE message_groups SET name = CAST(x'ff' AS TEXT)")
    connection.close()
    with pytest.raises(Corrupt, match="not UTF-8"):
        SqliteDatabase(path, ManualClock()).queue.receive()
