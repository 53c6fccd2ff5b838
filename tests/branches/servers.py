"""Servers in this process, or in a process that tests kill. Each server has its own store folder and keeps its port."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

import stratalog
from stratalog.documents import Document
from stratalog.homes import INDEX_FILE
from stratalog.server.app import create_app
from stratalog.server.application import Application
from stratalog.store import open_store
from stratalog.testing.emulators import reserved_ports
from stratalog.testing.loopback_server import serve_on_loopback
from stratalog.worker.worker import Worker
from tests.processes import COMMAND_LINE, start
from tests.threads import join_all, start_all

__all__ = ["DOCUMENT", "ORGANISATION", "BranchServer", "Committed"]

ORGANISATION, DOCUMENT = "acme", "plan"
PATH = f"/v1/organisations/{ORGANISATION}/documents/{DOCUMENT}"
TAKE_QUEUE = tuple(
    statement
    for table in ("messages", "message_groups")
    for statement in (f"DELETE FROM {table}", f"INSERT INTO {table} SELECT * FROM newer.{table}")
)


class Committed(msgspec.Struct, frozen=True):
    """A mutation in a log."""

    client: str
    id: int
    args: Any
    reason: str | None


class BranchServer:
    """A server on its own port.

    With ``queued``, pushes wait for a worker. With ``killed``, the server has its own process, and `stop` kills it.
    """

    def __init__(self, folder: Path, *, queued: bool = False, killed: bool = False) -> None:
        self.folder = folder
        self.queued = queued
        self.killed = killed
        self._reservation = ExitStack()
        (self.port,) = self._reservation.enter_context(reserved_ports(1))
        self._running = ExitStack()

    @property
    def base(self) -> str:
        """The URL without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The document's URL."""
        return self.base + PATH

    def create(self) -> None:
        """Create the store and its document. The server must not be running."""
        with stratalog.open(self.folder) as store:
            store.create(ORGANISATION, DOCUMENT).mutate("put", {"key": "text", "value": "no list"})

    def start(self) -> None:
        """Serve the folder. Return when the server is ready."""
        if self.killed:
            self._start_process()
            return
        store = self._running.enter_context(open_store(self.folder))
        if self.queued:
            self._running.enter_context(_working(store))
        application = Application(queued=lambda organisation, document: self.queued)
        self._running.enter_context(serve_on_loopback(create_app(store, application), self.port, ws="none"))

    def stop(self) -> None:
        """Stop serving. With ``killed``, kill the server's process."""
        self._running.close()

    def close(self) -> None:
        """Stop, and release the port."""
        self.stop()
        self._reservation.close()

    def copy(self, target: Path) -> Path:
        """Copy the folder to ``target``. The server stops during the copy."""
        self.stop()
        shutil.copytree(self.folder, target)
        self.start()
        return target

    def put_back(self, backup: Path) -> None:
        """Replace the store folder by a copy of ``backup``."""
        self.stop()
        shutil.rmtree(self.folder)
        shutil.copytree(backup, self.folder)
        self.start()

    def roll_back(self, backup: Path) -> None:
        """Replace the index by the index of a backup. The blobs and the queue stay as they are."""
        self.stop()
        newer = self.folder / "newer"
        newer.mkdir()
        # SQLite's write-ahead log may exist beside the index file. Move both.
        for file in self.folder.glob(f"{INDEX_FILE}*"):
            file.rename(newer / file.name)
        for file in backup.glob(f"{INDEX_FILE}*"):
            shutil.copy(file, self.folder)
        _take_queue(self.folder / INDEX_FILE, newer / INDEX_FILE)
        shutil.rmtree(newer)
        self.start()

    def committed(self) -> list[Committed]:
        """Return every mutation in the log, in order."""
        with self.document() as document:
            return [
                Committed(mutation.client, mutation.id, mutation.args, mutation.reason)
                for version in document.versions()
                for mutation in version.mutations
            ]

    def content(self) -> dict[str, Any]:
        """Return the present content of the document."""
        with self.document() as document:
            return document.at().to_dict()

    @contextmanager
    def document(self) -> Iterator[Document]:
        """Open the document anew, as another process would."""
        with stratalog.open(self.folder) as store:
            yield store.document(ORGANISATION, DOCUMENT)

    def _start_process(self) -> None:
        process = start([*COMMAND_LINE, "--store", str(self.folder), "serve", "--port", str(self.port)])
        self._running.callback(process.kill)
        assert f":{self.port} " in process.read_line()


@contextmanager
def _working(store: stratalog.Store) -> Iterator[None]:
    worker = Worker(store)
    threads = start_all([worker.run])
    try:
        yield
    finally:
        worker.stop()
        join_all(threads)


def _take_queue(index: Path, newer: Path) -> None:
    """Replace the queue's messages in ``index`` by the messages in ``newer``."""
    with closing(sqlite3.connect(index)) as connection:
        connection.execute("ATTACH ? AS newer", (str(newer),))
        for statement in TAKE_QUEUE:
            connection.execute(statement)
        connection.commit()
