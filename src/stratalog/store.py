"""The store: documents, logs, records and a queue behind one URL."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeGuard

from stratalog.arguments import check_class
from stratalog.clock import Clock, SystemClock
from stratalog.documents import Document, Rules
from stratalog.errors import Closed, Conflict, Invalid, NotFound
from stratalog.homes import location_of, open_ports, text_of
from stratalog.limits import DOCUMENTS_HELD_MAX
from stratalog.log import Environment, Log, LogSettings, Upcasters, create_log, delete_log, fork_log, open_log
from stratalog.log.directory import LOGS, Listing, NameHolder, list_directory, list_organisations, organisations_of
from stratalog.log.listed_items import Damaged, ignore, raise_damage
from stratalog.ports.announcements import Announcements
from stratalog.ports.meter import Meter
from stratalog.ports.queue import Queue
from stratalog.process_fork import close_in_child, is_inherited
from stratalog.records import Records

__all__ = ["Store", "open_store"]


class Store:
    """An index, blobs and a queue behind one URL. Close it, or use it in a ``with`` statement.

    A store, and every handle made by it, belongs to its process: in a forked child their calls raise Closed.

    ``queue`` may be a function that opens the queue. The store calls the function on first use, since many callers need
    no queue. ``meter`` is the meter of the ports, if they have one. ``location`` is the URL of the store without
    secrets, or the absolute path of its folder; empty for a store made of ports. With ``announcements``, processes send
    each other hints that a log has new entries.
    """

    def __init__(
        self,
        environment: Environment,
        queue: Queue | Callable[[], Queue],
        rules: Rules | None = None,
        meter: Meter | None = None,
        location: str = "",
        announcements: Announcements | None = None,
    ) -> None:
        self.environment = environment
        self.location = location
        self.meter = meter
        self.announcements = announcements
        self._queue = queue
        self.rules: Rules = Rules() if rules is None else rules
        check_class(Rules, rules=self.rules)
        self._documents: OrderedDict[tuple[str, str], Document] = OrderedDict()
        self._lock = threading.Lock()
        self._queue_lock = threading.Lock()
        """The lock for opening the queue. It is not `_lock`, since the requests that open a hosted queue take time."""

        close_in_child(self, "_lock", "_queue_lock")

    def __repr__(self) -> str:
        return f"<Store {self.location or 'of ports'}>"

    @property
    def queue(self) -> Queue:
        """The queue. Raises Unavailable if it does not exist; Closed if the store was closed before the first use."""
        with self._queue_lock:
            if callable(self._queue):
                self._queue = self._queue()
            return self._queue

    def create(self, organisation: str, document: str) -> Document:
        """Create an empty document. Raises Conflict if the organisation has a document or log of that name.

        Other organisations may have unrelated documents of the same name. Raises QuotaExceeded, Invalid, LimitExceeded,
        Unavailable, OutcomeUnknown; see `stratalog.log.create_log`.
        """
        return self._remember(Document(create_log(self.environment, organisation, document, "document"), self.rules))

    def document(self, organisation: str, document: str, *, create: bool = False) -> Document:
        """Return the document of that name. With ``create``, create an empty document if none has the name.

        Raises NotFound, with ``create`` only if another process deletes the document meanwhile. Raises Invalid for a
        log of another kind. With ``create``, also raises the errors of `create`, except Conflict.

        All callers of this object get the same handle, so that threads share state and commits. Beyond
        `DOCUMENTS_HELD_MAX` documents the object drops the least recently used handle; a caller can still use it.
        """
        known = self._held(organisation, document)
        try:
            log = open_log(
                self.environment, organisation, document, known=None if known is None else known.log, noun="document"
            )
        except NotFound:
            if not create:
                raise
            # If another process has created the document meanwhile, return that document.
            with suppress(Conflict):
                return self.create(organisation, document)
            return self.document(organisation, document)
        if known is not None and log is known.log:
            return known
        if log.record.kind != "document":
            raise Invalid("the log is not a document", organisation=organisation, log=document, kind=log.record.kind)
        return self._remember(Document(log, self.rules))

    def held_document(self, organisation: str, document: str) -> Document | None:
        """Return the document as this object last opened it, without a read; None if it must be opened.

        The document may be deleted by now, and another document may have its name. A commit by the handle then raises
        NotFound. Only an index that checks the head in the commit itself ensures this error. With any other index the
        result is None.
        """
        if not self.environment.index.joint_commits:
            return None
        known = self._held(organisation, document)
        return None if known is None or known.log.is_lost else known

    def is_contended(self, organisation: str, document: str) -> bool:
        """Whether other processes wrote to the document recently, as far as this object knows.

        This is a hint, and reads nothing. It is False for a document of which this object has no handle.
        """
        known = self._held(organisation, document)
        return known is not None and known.log.is_contended

    def delete(self, document: Document) -> None:
        """Delete a document. Versions that its forks need stay. A new document may then have the name.

        Afterwards, commits and reads of the head raise NotFound in every handle. A repeated call raises NotFound.
        """
        check_class(Document, document=document)
        delete_log(document.log)

    def create_log(self, organisation: str, log: str, kind: str = "log", *, upcasters: Upcasters | None = None) -> Log:
        """Create an empty log for an application's own events. Raises the errors of `create`.

        An application that saves app snapshots (`Log.save_snapshot`) gives its logs another ``kind`` than ``log``. Such
        a log begins its next segment only once the current segment has a snapshot, or twice the target number of
        entries.
        """
        return create_log(self.environment, organisation, log, kind, upcasters=upcasters)

    def log(self, organisation: str, log: str, *, upcasters: Upcasters | None = None, noun: str = "log") -> Log:
        """Return the log of that name, which may be the log of a document.

        Raises NotFound, whose message calls the log a ``noun``, for example "sheet".
        """
        return open_log(self.environment, organisation, log, upcasters=upcasters, noun=noun)

    def fork_log(self, log: Log, name: str, at: int, *, upcasters: Upcasters | None = None) -> Log:
        """Create a log in the same organisation that shares the versions of ``log`` up to ``at``. Nothing is copied.

        Raises NotFound, VersionForgotten, Conflict, QuotaExceeded, Invalid, LimitExceeded, ContentionError,
        Unavailable, OutcomeUnknown; see `stratalog.log.fork_log`.
        """
        return fork_log(log, name, at, upcasters=upcasters)

    def delete_log(self, log: Log) -> None:
        """Delete an application's own log. Versions that forks need stay. A new log may then have the name.

        Afterwards, appends and reads of the head raise NotFound in every handle. A repeated call raises NotFound.
        """
        delete_log(log)

    def records(self, organisation: str) -> Records:
        """Return the organisation's records."""
        return Records(self.environment, organisation)

    def organisations(self, *, damaged: Damaged = ignore) -> Iterator[str]:
        """Yield every organisation that has ever stored something, even if all of it is deleted.

        An organisation whose key is damaged is left out. ``damaged`` is called with an error that names the key.
        """
        return list_organisations(self.environment.index, damaged)

    def list(self, organisation: str, *, after: str = "", damaged: Damaged = raise_damage) -> Iterator[Listing]:
        """Yield the organisation's documents and logs in UTF-8 order of the ids, by pages.

        ``damaged`` is called with the error of each damaged line of the list, which names the line. Without
        ``damaged``, the list raises this error.
        """
        return list_directory(self.environment.index, organisation, LOGS, after=after, damaged=damaged)

    def organisations_of(self, document: str, *, damaged: Damaged = raise_damage) -> Iterator[NameHolder]:
        """Yield the organisations that have a document or log of the name, in order, by pages: usually one read.

        ``damaged`` is called as in `list`.

        The method is for operators. A caller that serves a tenant must leave out organisations that the tenant may not
        read.
        """
        return organisations_of(self.environment.index, document, damaged)

    def close(self) -> None:
        """Wait for background tasks, then release files and connections. Closing twice is harmless.

        In a forked child the method closes nothing: the files and connections belong to the parent.
        """
        if is_inherited(self.environment.index):
            return
        self.environment.background.close()
        if self.announcements is not None:
            self.announcements.close()
        with self._queue_lock:
            if callable(self._queue):
                self._queue = _closed
            else:
                self._queue.close()
        self.environment.chunk_source.blobs.close()
        self.environment.blobs.close()
        self.environment.index.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _held(self, organisation: str, document: str) -> Document | None:
        name = (organisation, document)
        with self._lock, suppress(TypeError):  # a list, for example, has no hash, and names no document
            if name in self._documents:
                self._documents.move_to_end(name)
            return self._documents.get(name)
        return None

    def _remember(self, document: Document) -> Document:
        """Keep a handle and return it. If another thread has opened the same document meanwhile, return its handle."""
        name = (document.organisation, document.name)
        with self._lock:
            known = self._documents.get(name)
            if _is_handle_of(known, document.log):
                return known
            self._documents[name] = document
            if len(self._documents) > DOCUMENTS_HELD_MAX:
                self._documents.popitem(last=False)
        return document


def _is_handle_of(known: Document | None, log: Log) -> TypeGuard[Document]:
    """Return whether ``known`` is a handle of the incarnation of ``log`` and has not found another stored history."""
    return known is not None and known.log.record.incarnation == log.record.incarnation and not known.log.is_lost


def open_store(
    url: str | Path = "./data",
    *,
    create: bool = True,
    rules: Rules | None = None,
    settings: LogSettings | None = None,
    clock: Clock | None = None,
    meter: Meter | None = None,
    chunk_cache: str | Path | None = None,
) -> Store:
    """Open the store at ``url``. Create a missing store first, unless ``create`` is False.

    A URL is one of these:

    * a folder: SQLite and files;
    * ``aws://TABLE?bucket=…&queue=…&region=…&prefix=…&freed=…``: bucket and queue have the table's name by default.
      AWS's usual configuration gives the credentials, the endpoints and the default region;
    * ``postgresql://USER@HOST/DATABASE?schema=…&blobs=…``: tables in one schema, by default ``stratalog``. ``blobs``
      is a folder or ``s3://BUCKET/PREFIX`` for blobs over 64 KiB. libpq gets all other parts of the URL. The usual
      configuration of libpq, for example ``PGPASSWORD``, applies;
    * ``memory:``: a store that ends with the process.

    ``meter`` counts the requests that hosted services would bill. ``chunk_cache`` is a folder for the chunks that this
    machine has read from an object store, up to `CHUNK_FILES_BYTES_MAX`. The processes of the machine share the folder.
    A store without a bucket ignores it.

    Raises Corrupt, Unsupported, Unavailable. Raises OutcomeUnknown if the creation of a store on AWS may be incomplete:
    call the function again. Raises Invalid for a URL that no backend supports, and MissingExtra (an Invalid) if a
    library of the backend is missing. With ``create`` False, raises Invalid for a folder or a PostgreSQL schema without
    a store. With ``create`` False the function sends no request to AWS: missing resources raise Unavailable on first
    use. With ``create`` False, a folder that this process may not write, such as a read-only mount, is opened for
    reads: each write raises Unavailable.
    """
    clock, text = clock or SystemClock(), text_of(url)
    rules = Rules() if rules is None else rules
    settings = LogSettings() if settings is None else settings
    check_class(Rules, rules=rules)
    check_class(LogSettings, settings=settings)
    ports = open_ports(text, create, clock, meter, chunk_cache)
    environment = Environment(ports.index, ports.blobs, clock, settings, chunk_source=ports.chunk_source)
    return Store(environment, ports.queue, rules, ports.meter, location_of(text), ports.announcements)


def _closed() -> Queue:
    raise Closed("the store is closed")
