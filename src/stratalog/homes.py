"""Opens the ports behind a store's URL. No other module of the library opens the backends of a store.

A backend that needs an optional dependency, or takes time to import, is imported only when it is opened. A program on
AWS Lambda starts faster without the modules of other backends.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from stratalog.backends.metered_ports import MeteredBlobs, MeteredIndex, MeteredQueue
from stratalog.backends.postgres_address import parse_address, without_password
from stratalog.clock import Clock, SystemClock
from stratalog.codec import escaped
from stratalog.errors import Invalid
from stratalog.extras import needs_extra
from stratalog.folders import file_errors, make_folder
from stratalog.limits import CHUNK_GETS_MAX
from stratalog.ports.announcements import Announcements
from stratalog.ports.blob_source import BlobSource
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index
from stratalog.ports.meter import Meter
from stratalog.ports.queue import Queue

if TYPE_CHECKING:
    from stratalog.backends.aws_store import AwsStore
    from stratalog.backends.postgres import PostgresStore

__all__ = [
    "BLOBS_FOLDER",
    "INDEX_FILE",
    "Ports",
    "is_inside",
    "location_of",
    "make_store",
    "open_blobs",
    "open_ports",
    "shown_url",
    "text_of",
]

MISTYPED = re.compile("(?:aws|file|memory|postgres|postgresql|s3)(?::|//)", re.IGNORECASE)
"""The start of a mistyped URL, which may have a password. No folder's name may begin like this."""

_MISTAKEN = {
    "": "the store's URL is empty; for the current folder write `.`",
    ":memory:": "for a store in memory write `memory:`, without the first colon",
    "~": "only a shell replaces `~`; use `Path.home()`, or write `./~` for a folder of this name",
}
"""Names from which `open` would make a folder that nobody wants: a variable that is not set, SQLite's name, a home."""

FILE_SCHEME = "file://"
KNOWN = "a folder, memory:, postgresql:// and aws://"
INDEX_FILE = "index.sqlite"
BLOBS_FOLDER = "blobs"


def make_store(url: str | Path, *, clock: Clock | None = None) -> list[str]:
    """Create the missing resources of the store at ``url``; return their names. Raises the errors of `open_ports`."""
    clock, text = clock or SystemClock(), text_of(url)
    if _scheme(text) in ("aws", "postgresql"):
        hosted = _aws(text, clock, None) if _scheme(text) == "aws" else _postgres(text, clock)
        try:
            return hosted.create()
        finally:
            hosted.close()
    stood = _scheme(text) == "memory" or _exists(_folder(text) / INDEX_FILE)
    _close(open_ports(text, True, clock, None))
    return [] if stood else [f"folder {_folder(text)}"]


def open_blobs(url: str | Path, *, create: bool = True, clock: Clock | None = None) -> Blobs:
    """Open blobs without an index. ``url`` is a folder or ``s3://BUCKET/PREFIX``. A bucket must exist.

    Raises Invalid for a URL that no backend supports, and for a missing folder if ``create`` is False. Raises
    MissingExtra without the libraries for AWS, and Unavailable.
    """
    clock, text = clock or SystemClock(), text_of(url)
    if text.startswith("s3://"):
        with needs_extra("aws", "a bucket"):
            from stratalog.backends.aws_store import open_bucket

            return open_bucket(text, clock)
    from stratalog.backends.files import FileBlobs

    if _scheme(text) or text == "memory:":
        raise Invalid("the URL must be a folder or s3://BUCKET/PREFIX", url=text)
    folder = _folder(text)
    _refuse_file(folder)
    if not _exists(folder) and not create:
        raise Invalid("the folder does not exist", url=text)
    return FileBlobs(folder, clock)


class Ports(msgspec.Struct, frozen=True):
    """The ports behind a URL, and the meter that counts their requests.

    ``queue`` may be a function that opens the queue. Without ``announcements``, processes find each other's commits by
    polling alone. Without ``chunk_source``, chunks are loaded from ``blobs`` one at a time.
    """

    index: Index
    blobs: Blobs
    queue: Queue | Callable[[], Queue]
    meter: Meter | None = None
    announcements: Announcements | None = None
    chunk_source: BlobSource | None = None


def open_ports(
    url: str, create: bool, clock: Clock, meter: Meter | None, chunk_cache: str | Path | None = None
) -> Ports:
    """Open the ports of the store at ``url``; see `stratalog.store.open_store`, which also lists the errors."""
    scheme = _scheme(url)
    if scheme == "aws":
        return _aws_ports(url, create, clock, meter, chunk_cache)
    if scheme == "postgresql":
        return _postgres_ports(url, create, clock, meter, chunk_cache)
    if scheme == "memory":
        from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue

        memory = MemoryBlobs(clock)
        return _local_ports(MemoryIndex(memory), memory, MemoryQueue(clock), meter)
    return _folder_ports(_folder(url), create, clock, meter)


def _scheme(url: str) -> str:
    """Return the kind of store that a URL names: memory, aws or postgresql; ``""`` for a folder. Raises Invalid."""
    if url == "memory:":
        return "memory"
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    scheme = {"postgres": "postgresql"}.get(scheme, scheme)
    if scheme not in ("", "aws", "file", "postgresql"):
        raise Invalid("the store's URL has an unknown scheme", url=without_password(url), known=KNOWN)
    if not scheme and (advice := _MISTAKEN.get(url.partition("/")[0] or url)):
        raise Invalid(advice, url=url)
    if not scheme and MISTYPED.match(url):
        text = "the store's URL is malformed; for a folder with this name write `./` before the name"
        raise Invalid(text, url=without_password(url))
    return scheme.removeprefix("file")


def _folder(url: str) -> Path:
    """Return the folder of a URL. Raises Invalid for a name that no folder can have."""
    try:
        if b"\0" not in os.fsencode(url):
            return Path(url[len(FILE_SCHEME) :] if url.lower().startswith(FILE_SCHEME) else url)
    except UnicodeEncodeError:
        pass  # a lone surrogate
    raise Invalid("the name of the folder is malformed", url=escaped(url))


def _exists(path: Path) -> bool:
    """Return whether a file or folder exists. Raises Unavailable, for example if the path is too long."""
    with file_errors():
        return path.exists()


def _refuse_file(folder: Path) -> None:
    """Raise Invalid if a file is at the path of a folder or above it. A retry would not help, nor `stratalog init`."""
    lowest = next((path for path in (folder, *folder.parents) if _exists(path)), folder)
    if _exists(lowest) and not lowest.is_dir():
        raise Invalid("this path is a file: name a folder", path=lowest)


def text_of(url: str | Path) -> str:
    """Return the URL as text. Raises Invalid for another type, such as None: ``str`` would name a folder ``None``."""
    if isinstance(url, str | os.PathLike) and isinstance(text := os.fspath(url), str):
        return text
    raise Invalid("the URL must be text or a path", type=type(url).__name__)


def location_of(url: str) -> str:
    """Return the text that names the store at ``url``: the URL without secrets, or the absolute path of a folder.

    Raises Invalid for a URL that no backend supports.
    """
    scheme = _scheme(url)
    if not scheme:
        return str(_folder(url).absolute())
    return parse_address(url).location if scheme == "postgresql" else url


def is_inside(url: str, store: str) -> bool:
    """Return whether ``url`` names a folder of the store at the URL ``store``, or a folder inside it.

    The folder of the blobs of a store in PostgreSQL counts too. Return False if either URL names no folder. Raises
    Invalid for a malformed URL.
    """
    folder, outer = _real_folder(url), _real_folder(store)
    if outer is None and _scheme(store) == "postgresql" and (blobs := parse_address(store).blobs):
        outer = _real_folder(blobs)
    return folder is not None and outer is not None and folder.is_relative_to(outer)


def _real_folder(url: str) -> Path | None:
    """Return the folder that a URL names, without symbolic links. None if the URL names no folder."""
    if url == "memory:" or ("://" in url and not url.lower().startswith(FILE_SCHEME)):
        return None
    # Unlike `Path.resolve`, this function accepts a loop of links.
    return Path(os.path.realpath(_folder(url)))


def shown_url(url: str) -> str:
    """Return the URL without its password, and without other parts that may be secret."""
    return parse_address(url).shown if _scheme(url) == "postgresql" else url


def _folder_ports(folder: Path, create: bool, clock: Clock, meter: Meter | None) -> Ports:
    from stratalog.backends.files import FileBlobs
    from stratalog.backends.sqlite import SqliteDatabase
    from stratalog.sqlite_files import check_path

    _refuse_file(folder)
    if not _exists(folder / INDEX_FILE) and not create:
        raise Invalid("the folder has no store; create it with `stratalog init`", store=folder)
    check_path(str(folder / INDEX_FILE))
    make_folder(folder)
    database = SqliteDatabase(folder / INDEX_FILE, clock, allow_read_only=not create)
    with _closed_on_error(database):
        # Make the folder of the blobs last. The sync of its name also makes the names of the other files durable.
        blobs = database.blobs(FileBlobs(folder / BLOBS_FOLDER, clock))
    return _local_ports(database.index, blobs, database.queue, meter)


def _local_ports(index: Index, blobs: Blobs, queue: Queue, meter: Meter | None) -> Ports:
    """Return the ports of three backends. With a meter, each port counts its requests."""
    if meter is None:
        return Ports(index, blobs, queue)
    return Ports(MeteredIndex(index, meter), MeteredBlobs(blobs, meter), MeteredQueue(queue, meter), meter)


def _aws_ports(url: str, create: bool, clock: Clock, meter: Meter | None, chunk_cache: str | Path | None) -> Ports:
    aws = _aws(url, clock, meter)
    with _closed_on_error(aws):
        if create:
            aws.create()
    source = _chunk_source(aws.blobs, chunk_cache, clock, CHUNK_GETS_MAX)
    return Ports(aws.index, aws.blobs, aws.open_queue, aws.meter, chunk_source=source)


def _chunk_source(blobs: Blobs, folder: str | Path | None, clock: Clock, gets_max: int = 1) -> BlobSource:
    """Return the source of a hosted store's chunks, behind the cache in ``folder`` if one is given."""
    if not folder:
        return BlobSource(blobs, gets_max)
    from stratalog.backends.cached_blobs import CachedBlobs

    cached = CachedBlobs(blobs, folder, clock)
    return BlobSource(cached, gets_max, cached.is_near)


def _aws(url: str, clock: Clock, meter: Meter | None) -> AwsStore:
    """Open the store on AWS. Raises MissingExtra."""
    with needs_extra("aws", "a store on AWS"):
        from stratalog.backends.aws_store import AwsStore, parse_address

        return AwsStore(parse_address(url), clock, meter)


def _postgres_ports(url: str, create: bool, clock: Clock, meter: Meter | None, chunk_cache: str | Path | None) -> Ports:
    store = _postgres(url, clock)
    with _closed_on_error(store):
        if create:
            store.create()
        else:
            store.require()
    ports = _local_ports(store.index, store.blobs, store.queue, meter)
    in_bucket = parse_address(url).blobs.startswith("s3://")
    source = _chunk_source(ports.blobs, chunk_cache if in_bucket else None, clock)
    return msgspec.structs.replace(ports, announcements=store.announcements, chunk_source=source)


def _postgres(url: str, clock: Clock) -> PostgresStore:
    """Open the store in PostgreSQL. Raises MissingExtra."""
    with needs_extra("postgres", "a store in PostgreSQL"):
        from stratalog.backends.postgres import PostgresStore
    address = parse_address(url)
    if not address.blobs:
        return PostgresStore(address, clock)
    blobs = open_blobs(address.blobs, clock=clock)
    with _closed_on_error(blobs):
        return PostgresStore(address, clock, blobs)


class _Closes(Protocol):
    def close(self) -> None: ...


@contextmanager
def _closed_on_error(opened: _Closes) -> Iterator[None]:
    """Close ``opened`` if the block raises, since no caller then receives ``opened``."""
    try:
        yield
    except BaseException:
        opened.close()
        raise


def _close(ports: Ports) -> None:
    if ports.announcements is not None:
        ports.announcements.close()
    if not callable(ports.queue):
        ports.queue.close()
    ports.blobs.close()
    ports.index.close()
