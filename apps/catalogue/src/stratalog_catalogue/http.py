"""The catalogue over HTTP: what its page and other programs read. Nothing is written here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from litestar import Response, Router
from litestar.di import NamedDependency, Provide
from litestar.response import Stream

from stratalog import Records
from stratalog.server import (
    PREFIX,
    Application,
    Authenticate,
    Authorize,
    Count,
    IfNoneMatch,
    Key,
    Name,
    RangeHeader,
    Served,
    Text,
    Version,
    answer_body,
    reading,
)
from stratalog_catalogue.metrics import exposition
from stratalog_catalogue.names import source_id
from stratalog_catalogue.queries import differences, read_work, search, show_versions
from stratalog_catalogue.summary import read_stats

__all__ = ["app", "application"]

FOLDER = Path(__file__).with_name("web")
SAFE = {"X-Content-Type-Options": "nosniff"}
CatalogueRecords = NamedDependency[Records]


def _records(service: Served, organisation: Name) -> Records:
    return service.store.records(organisation)


@reading("/works", opt={"action": "list"}, summary="Works by their ids, or by words of their titles")
def works(records: CatalogueRecords, text: Text = "", source: Text = "", begins: Text = "", limit: Count = 50) -> Any:
    """In order of source and id. Titles are those of the last scan."""
    return search(records, text, source=source, begins=begins, limit=limit)


@reading("/stats", opt={"action": "list"}, summary="Counts by source, format and kind")
def stats(records: CatalogueRecords) -> Any:
    """As of the last scan of each source; dead letters as of now."""
    return read_stats(records)


@reading("/metrics", opt={"action": "list"}, media_type="text/plain; version=0.0.4", summary="The same for Prometheus")
def metrics(records: CatalogueRecords) -> str:
    """An alarm watches `stratalog_catalogue_dead_letters`."""
    return exposition(read_stats(records))


@reading("/work", opt={"action": "read"}, summary="The work of a source's record")
def work(records: CatalogueRecords, source: Key, id: Key) -> Any:
    """In the shared model."""
    return read_work(records, source, id)


@reading(
    "/record", opt={"action": "read"}, media_type="application/octet-stream", summary="A version as its source gave it"
)
def record(
    records: CatalogueRecords,
    source: Key,
    id: Key,
    version: Version = 0,
    wanted: RangeHeader = None,
    known: IfNoneMatch = None,
) -> Response[bytes] | Stream:
    """The newest where no version is said. Of any size, or a part of it."""
    record_id = source_id(source, id)
    stored = records.stat(record_id, version or None)
    pieces = records.open(record_id, stored.version)
    return answer_body(pieces, stored.size, stored.digest.hex(), wanted, known, SAFE, immutable=bool(version))


@reading("/versions", opt={"action": "read"}, summary="The versions of a source's record")
def versions(records: CatalogueRecords, source: Key, id: Key) -> Any:
    """Newest first, no body opened."""
    return list(show_versions(records, source, id))


@reading("/diff", opt={"action": "read"}, summary="How one version became another")
def diff(records: CatalogueRecords, source: Key, id: Key, before: Version, after: Version) -> Any:
    """By value where the source gives JSON, else by lines."""
    return differences(records, source, id, before, after)


def application(
    authenticate: Authenticate | None = None, authorize: Authorize | None = None, **options: Any
) -> Application:
    """The catalogue as an application: its page at `/web/catalogue/`, and its paths."""
    return Application(
        authenticate=authenticate,
        authorize=authorize,
        pages={"catalogue": FOLDER},
        routes=[
            Router(
                PREFIX + "/catalogue",
                route_handlers=[works, stats, metrics, work, record, versions, diff],
                dependencies={"records": Provide(_records, sync_to_thread=False)},
                tags=["catalogue"],
            )
        ],
        **options,
    )


app = application()
"""What `stratalog serve stratalog_catalogue.http:app` serves."""
