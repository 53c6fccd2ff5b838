"""Full or read-only folders: until the repair, a request that cannot write its files fails with a typed error."""

from __future__ import annotations

import errno
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from stratalog.backends.files import FileBlobs
from stratalog.backends.sqlite import SqliteIndex
from stratalog.store import Store, open_store
from stratalog.testing.clock import ManualClock
from tests.server.api import BUDGET, Client, mutation, problem, push, serving

ACME = "/v1/organisations/acme"
LARGE = b"x" * 3_000_000
"""A body so large that the server keeps it in a temporary file while it receives or sends the body."""

FULL = OSError(errno.ENOSPC, "No space left on device")
READ_ONLY = OSError(errno.EROFS, "Read-only file system")
GONE = FileNotFoundError(errno.ENOENT, "No usable temporary directory found")


class Served:
    """A client of a server, and the server's store in a folder."""

    def __init__(self, client: Client, store: Store) -> None:
        self.client = client
        self.store = store

    def writes(self, name: str) -> dict[str, Any]:
        """Send one write of each kind, and return the responses. ``name`` must be new."""
        small, large = (mutation(name + size, 1, key=f"cells/{name}{size}", value=size) for size in ("a", "b"))
        large["args"]["value"] = os.urandom(150_000).hex()
        facts = {"events": [{"type": "said", "data": name}]}
        return {
            "create": self.client.put(f"{ACME}/documents/{name}"),
            "push": self.client.post(f"{BUDGET}/push", json={"group": "g", "mutations": [small]}),
            "push of a blob": self.client.post(f"{BUDGET}/push", json={"group": "g", "mutations": [large]}),
            "append": self.client.post(f"{ACME}/logs/events/append", json=facts),
            "record": self.client.put(f"{ACME}/records/{name}", content=os.urandom(1_000_000)),
            "fork": self.client.post(f"{BUDGET}/fork", json={"name": name + "-copy"}),
            "delete": self.client.delete(f"{ACME}/documents/old-{name}"),
        }

    def reads(self) -> set[int]:
        asked = (BUDGET, f"{ACME}/records", f"{ACME}/records/kept", "/health")
        return {self.client.get(path).status_code for path in asked}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with open_store(tmp_path / "store", clock=ManualClock()) as store, serving(store=store) as client:
        for name in ("budget", "old-first", "old-second"):
            assert client.put(f"{ACME}/documents/{name}").status_code == 201
        assert client.put(f"{ACME}/logs/events").status_code == 201
        push(client, mutation("ada", 1, key="title", value="Budget"))
        assert client.put(f"{ACME}/records/kept", content=b"body").status_code == 200
        yield Served(client, store)


@contextmanager
def unwritable(store: Store, pragma: str, refuses: int, allows: int, error: OSError) -> Iterator[None]:
    """Make the database and the files of the store refuse writes during the block, as a full or read-only disk does."""
    index = store.environment.index
    assert isinstance(index, SqliteIndex)
    connection = index._file._writer._connection

    def fail(self: FileBlobs, path: str, data: bytes) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FileBlobs, "_write_durably", fail)
        connection.pragma(pragma, refuses)
        try:
            yield
        finally:
            connection.pragma(pragma, allows)


def test_a_read_only_data_folder_is_503_until_it_is_writable_again(served: Served) -> None:
    with unwritable(served.store, "query_only", 1, 0, READ_ONLY):
        refused = served.writes("first")
        assert {name: problem(answer) for name, answer in refused.items()} == dict.fromkeys(
            refused, (503, "unavailable")
        )
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused.values())
        assert "attempt to write a readonly database" in refused["create"].json()["message"]
        assert served.reads() == {200}
    done = served.writes("second")
    assert {name: answer.status_code for name, answer in done.items() if answer.status_code >= 300} == {}


def test_a_full_data_folder_is_storage_full_until_there_is_room_again(served: Served) -> None:
    unlimited = 2**32 - 2
    with unwritable(served.store, "max_page_count", 1, unlimited, FULL):
        fill(served)
        refused = served.writes("first")
        for name in ("create", "push of a blob", "record", "fork"):
            assert problem(refused[name]) == (503, "storage-full"), name
            assert int(refused[name].headers["retry-after"]) >= 1
        assert {answer.status_code for answer in refused.values()} <= {200, 204, 503}
        assert served.reads() == {200}
    done = served.writes("second")
    assert {name: answer.status_code for name, answer in done.items() if answer.status_code >= 300} == {}


def fill(served: Served) -> None:
    """Create documents until the database has no free page."""
    for number in range(1000):
        if served.client.put(f"{ACME}/documents/more-{number}").status_code == 503:
            return
    pytest.fail("the database never became full")


@pytest.mark.parametrize(
    ("error", "expected"),
    [(FULL, (507, "storage-full")), (READ_ONLY, (503, "unavailable")), (GONE, (503, "unavailable"))],
)
def test_large_bodies_get_a_typed_error_while_the_temporary_folder_accepts_no_file(
    client: Client, monkeypatch: pytest.MonkeyPatch, error: OSError, expected: tuple[int, str]
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise error

    assert client.put(f"{ACME}/records/sent", content=LARGE).status_code == 200
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "TemporaryFile", refuse)
        assert problem(client.put(f"{ACME}/records/received", content=LARGE)) == expected
        assert problem(client.get(f"{ACME}/records/sent")) == expected
        assert client.put(f"{ACME}/records/small", content=b"x").status_code == 200
        assert client.get(f"{ACME}/records/received").status_code == 404
    assert client.put(f"{ACME}/records/received", content=LARGE).status_code == 200
    assert client.get(f"{ACME}/records/sent").content == LARGE


def test_a_disk_that_is_full_at_the_flush_of_the_last_bytes_is_507(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(io.BytesIO):
        """A file that fails on a full disk when it writes its buffer: on a seek to the beginning, or on close."""

        def seek(self, position: int, whence: int = 0) -> int:
            if not position:
                raise FULL
            return super().seek(position, whence)

        def close(self) -> None:
            raise FULL

    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "TemporaryFile", lambda **_: Late())
        assert problem(client.put(f"{ACME}/records/report", content=LARGE)) == (507, "storage-full")
    assert client.put(f"{ACME}/records/report", content=LARGE).status_code == 200


def test_a_temporary_file_that_becomes_read_only_is_replaced_by_another(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[IO[bytes]] = []
    real = tempfile.TemporaryFile

    def note(*given: Any, **named: Any) -> IO[bytes]:
        opened.append(real(*given, **named))
        return opened[-1]

    def refuse(*_: object) -> int:
        raise READ_ONLY

    assert client.put(f"{ACME}/records/sent", content=LARGE).status_code == 200
    monkeypatch.setattr(tempfile, "TemporaryFile", note)
    assert client.get(f"{ACME}/records/sent").content == LARGE
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", refuse)
        patched.setattr(opened[0], "truncate", refuse, raising=False)
        assert problem(client.get(f"{ACME}/records/sent")) == (503, "unavailable")
    assert client.get(f"{ACME}/records/sent").content == LARGE
    assert len(opened) == 2
