"""Only one client at a time can open a client's file, and a kill loses no finished mutation."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from stratalog.client import Client
from stratalog.client.file import ClientFile
from stratalog.codec import encode
from stratalog.errors import Closed, Corrupt, Invalid, StratalogError, Unavailable, Unsupported
from tests.client.helpers import InProcess, new_document
from tests.processes import start

WRITER = """
import sys
from stratalog.client import Client

class Nowhere:
    def close(self): pass

client = Client(Nowhere(), sys.argv[1])
number = 0
while True:
    number += 1
    client.mutate("append", {"key": "list", "item": number})
    print(number, flush=True)
"""


def test_a_second_client_cannot_open_a_file_that_is_open(tmp_path: Path) -> None:
    path = str(tmp_path / "plan.sqlite")
    client = Client(InProcess(new_document()), path)
    with pytest.raises(Unavailable, match="another client has the file open"):
        Client(InProcess(new_document()), path)
    client.close()
    Client(InProcess(new_document()), path).close()


def test_a_file_is_locked_under_each_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "plan.sqlite")
    client = Client(InProcess(new_document()), str(tmp_path / "plan.sqlite"))
    with pytest.raises(Unavailable):
        Client(InProcess(new_document()), str(tmp_path / "link.sqlite"))
    client.close()


def test_mutations_acknowledged_before_a_kill_survive(tmp_path: Path) -> None:
    path = str(tmp_path / "plan.sqlite")
    with start([sys.executable, "-c", WRITER, path]) as writer:
        acknowledged = [int(writer.read_line()) for _ in range(20)]
        with pytest.raises(Unavailable):
            Client(InProcess(new_document()), path)
        writer.signal(signal.SIGKILL)
        acknowledged += [int(line) for line in writer.lines()]
    document = new_document()
    with Client(InProcess(document), path) as client:
        stored = client.get("list")
        client.sync()
    assert stored[: len(acknowledged)] == acknowledged
    assert len(stored) <= len(acknowledged) + 1
    assert document.get("list") == stored


def test_a_forked_child_neither_uses_nor_locks_its_parents_file(tmp_path: Path) -> None:
    path = str(tmp_path / "plan.sqlite")
    client = Client(InProcess(new_document()), path)
    until, done = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(done)
        os.read(until, 1)
        try:
            client.get("k")
        except Closed:
            client.close()
            os._exit(0)
        os._exit(1)
    with pytest.raises(Unavailable):
        Client(InProcess(new_document()), path)
    client.close()
    Client(InProcess(new_document()), path).close()
    os.close(done)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(until)


def test_a_file_belongs_to_a_single_document(tmp_path: Path) -> None:
    path = str(tmp_path / "plan.sqlite")
    Client(InProcess(new_document()), path, document="acme/plan").close()
    with pytest.raises(Invalid, match="another document"):
        Client(InProcess(new_document()), path, document="acme/other")
    Client(InProcess(new_document()), path, document="acme/plan").close()


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "theirs.sqlite")
    connection = apsw.Connection(path)
    connection.execute("CREATE TABLE theirs(x)")
    connection.close()
    before = Path(path).read_bytes()
    with pytest.raises(Invalid):
        Client(InProcess(new_document()), path)
    assert Path(path).read_bytes() == before


def test_a_file_of_a_newer_format_is_unsupported_and_left_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "plan.sqlite")
    Client(InProcess(new_document()), path).close()
    connection = apsw.Connection(path)
    connection.pragma("user_version", 99)
    connection.close()
    before = Path(path).read_bytes()
    with pytest.raises(Unsupported):
        Client(InProcess(new_document()), path)
    assert Path(path).read_bytes() == before


def test_a_file_that_is_not_a_database_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "plan.sqlite"
    path.write_bytes(b"not a database at all, but long enough to be looked at" * 100)
    with pytest.raises(Corrupt):
        Client(InProcess(new_document()), str(path))


def test_a_client_of_a_file_with_a_damaged_page_works_or_raises_a_stratalog_error(tmp_path: Path) -> None:
    path, document = tmp_path / "plan.sqlite", new_document()
    client = Client(InProcess(document), str(path))
    for number in range(60):
        client.mutate("put", {"key": f"k/{number}", "value": "v" * (37 * number % 900)})
    client.sync()
    client.mutate("inc", {"key": "n"})
    client.close()
    intact, refused = path.read_bytes(), 0
    for damage in range(4096, len(intact), 512):
        path.write_bytes(intact[:damage] + bytes(512) + intact[damage + 512 :])
        try:
            damaged = Client(InProcess(document), str(path))
        except Corrupt:
            refused += 1
            continue
        try:
            # The file has no hashes, so the content may differ.
            read = damaged.failures(), [handle.args for handle in damaged.pending()], dict(damaged.scan())
            assert all(type(key) is str for key in read[2])
            damaged.sync()
        except StratalogError:
            refused += 1
        finally:
            damaged.close()
    assert refused > 50


def test_a_file_with_a_damaged_cookie_is_corrupt(tmp_path: Path) -> None:
    path = str(tmp_path / "plan.sqlite")
    Client(InProcess(new_document()), path).close()
    with closing(apsw.Connection(path)) as connection:
        connection.execute("INSERT INTO facts VALUES ('cookie', ?)", (encode({"origin": "x"}),))
    with Client(InProcess(new_document()), path) as client, pytest.raises(Corrupt, match="cookie"):
        client.sync()


def test_the_path_of_a_file_is_a_text_or_a_path_object(tmp_path: Path) -> None:
    with Client(InProcess(new_document()), tmp_path / "plan.sqlite") as client:
        client.mutate("put", {"key": "k", "value": 1})
    with Client(InProcess(new_document()), str(tmp_path / "plan.sqlite")) as client:
        assert client.get("k") == 1
    for wrong in (None, 5, b"plan.sqlite"):
        with pytest.raises(Invalid, match="a text or a Path"):
            Client(InProcess(new_document()), wrong)  # type: ignore[arg-type]


def test_a_missing_folder_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="folder"):
        Client(InProcess(new_document()), str(tmp_path / "nowhere" / "plan.sqlite"))


def test_a_file_that_could_not_be_opened_is_not_left_locked(tmp_path: Path) -> None:
    path = tmp_path / "plan.sqlite"
    path.write_bytes(b"damaged" * 1000)
    with pytest.raises(Corrupt):
        Client(InProcess(new_document()), str(path))
    path.unlink()
    Client(InProcess(new_document()), str(path)).close()


def test_a_child_that_outlives_a_killed_parent_locks_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "plan.sqlite")
    until, done = os.pipe()
    started, start = os.pipe()
    parent = os.fork()
    if parent == 0:
        client = Client(InProcess(new_document()), path)
        if os.fork() == 0:
            os.close(done)
            os.write(start, b"x")
            os.read(until, 1)
        else:
            os.read(started, 1)  # the child writes this byte after it has closed the inherited lock
        del client
        os._exit(0)  # as after a kill, no code closes the client
    os.waitpid(parent, 0)
    Client(InProcess(new_document()), path).close()
    for file in (done, until, started, start):
        os.close(file)


def test_closing_a_file_releases_the_lock_that_a_forked_child_has_inherited(tmp_path: Path) -> None:
    path = str(tmp_path / "plan.sqlite")
    file = ClientFile(path)
    assert file._lock_file is not None
    inherited = os.dup(file._lock_file)
    file.close()
    ClientFile(path).close()
    os.close(inherited)


def test_a_file_can_be_opened_despite_the_remains_of_an_unfinished_creation(tmp_path: Path) -> None:
    """A kill or a power failure ended the creation of a file before its rename, and left these parts."""
    left = [tmp_path / f"plan.sqlite{suffix}" for suffix in ("", ".new", ".new-journal", "-journal")]
    for path in left:
        path.write_bytes(b"" if path.name == "plan.sqlite" else b"half")
    ClientFile(str(left[0])).close()
    assert [path.name for path in left if path.exists()] == ["plan.sqlite"]
    ClientFile(str(left[0])).close()
