"""Assembly: the one place where a URL becomes backends, and the store that stands on them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

from stratalog.backends.files import FileBlobs, make_folder
from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.backends.sqlite import SqliteDatabase
from stratalog.clock import Clock, SystemClock
from stratalog.documents import Document, Rules
from stratalog.errors import Invalid
from stratalog.limits import DOCUMENTS_HELD_MAX
from stratalog.log import Log, Place, Settings, Upcasters, create_log, open_log
from stratalog.log.directory import LOGS, Listing, home_of, list_directory, list_organisations
from stratalog.ports.queue import Queue
from stratalog.records import Records

__all__ = ["Store", "open_store"]

INDEX_FILE = "index.sqlite"
BLOBS_FOLDER = "blobs"


class Store:
    """An opened place: an index, blobs and a queue behind one URL. Close it, or use it in a ``with`` statement."""

    def __init__(self, place: Place, queue: Queue, rules: Rules | None = None) -> None:
        self.place = place
        self.queue = queue
        self.rules = rules or Rules()
        self._documents: OrderedDict[tuple[str, str], Document] = OrderedDict()
        self._lock = threading.Lock()

    def create(self, organisation: str, document: str) -> Document:
        """A new, empty document. Raises Conflict where one of that id lives, in this organisation or another."""
        return self._keep(Document(create_log(self.place, organisation, document, "document"), self.rules))

    def document(self, organisation: str, document: str) -> Document:
        """The document that lives under the id. Raises NotFound.

        The handle is shared within the process, so that its threads share state and commits. Those used longest ago are
        let go of; somebody who still has one goes on with it.
        """
        log = open_log(self.place, organisation, document)
        if log.record.kind != "document":
            raise Invalid("the log is no document", organisation=organisation, log=document)
        known = self._held(organisation, document)
        if known is not None and known.log.record.incarnation == log.record.incarnation:
            return known
        return self._keep(Document(log, self.rules))

    def create_log(self, organisation: str, log: str, *, upcasters: Upcasters | None = None) -> Log:
        """A new, empty log for an application's own events. Raises Conflict."""
        return create_log(self.place, organisation, log, upcasters=upcasters)

    def log(self, organisation: str, log: str, *, upcasters: Upcasters | None = None) -> Log:
        """The log that lives under the id: a document's too. Raises NotFound."""
        return open_log(self.place, organisation, log, upcasters=upcasters)

    def records(self, organisation: str) -> Records:
        """The organisation's records."""
        return Records(self.place, organisation)

    def organisations(self) -> Iterator[str]:
        """Every organisation that ever created something."""
        return list_organisations(self.place.index)

    def list(self, organisation: str, *, after: str = "") -> Iterator[Listing]:
        """The organisation's documents and logs in order of id, by pages."""
        return list_directory(self.place.index, organisation, LOGS, after=after)

    def organisation_of(self, document: str) -> str:
        """Who a document or log belongs to; ids are unique in the store. Raises NotFound."""
        return home_of(self.place.index, document)

    def close(self) -> None:
        """Let go of files and connections. Closing twice is fine."""
        self.queue.close()
        self.place.blobs.close()
        self.place.index.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _held(self, organisation: str, document: str) -> Document | None:
        name = (organisation, document)
        with self._lock:
            if name in self._documents:
                self._documents.move_to_end(name)
            return self._documents.get(name)

    def _keep(self, document: Document) -> Document:
        with self._lock:
            self._documents[document.organisation, document.name] = document
            if len(self._documents) > DOCUMENTS_HELD_MAX:
                self._documents.popitem(last=False)
        return document


def open_store(
    url: str | Path = "./data",
    *,
    create: bool = True,
    rules: Rules | None = None,
    settings: Settings | None = None,
    clock: Clock | None = None,
) -> Store:
    """Open the store at ``url``: a folder (SQLite and files), or ``memory:`` for one that ends with the process.

    Raises Invalid for a URL no backend knows, and for a folder without a store unless ``create``; Corrupt, Unsupported.
    """
    clock = clock or SystemClock()
    text = str(url)
    if text == "memory:":
        place = Place(MemoryIndex(), MemoryBlobs(clock), clock, settings)
        return Store(place, MemoryQueue(clock), rules)
    if "://" in text and urlsplit(text).scheme != "file":
        raise Invalid("no backend is known for the store's URL", url=text)
    return _open_folder(Path(text.removeprefix("file://")), create, rules, settings, clock)


def _open_folder(folder: Path, create: bool, rules: Rules | None, settings: Settings | None, clock: Clock) -> Store:
    if not create and not (folder / INDEX_FILE).exists():
        raise Invalid("there is no store in the folder; create it with `stratalog init`", store=folder)
    make_folder(folder)
    database = SqliteDatabase(folder / INDEX_FILE, clock)
    # Last, since making the blobs' folder makes durable the names of all that stands beside it.
    blobs = FileBlobs(folder / BLOBS_FOLDER, clock)
    return Store(Place(database.index, blobs, clock, settings), database.queue, rules)
