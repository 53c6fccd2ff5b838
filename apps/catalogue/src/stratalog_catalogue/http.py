"""The read-only HTTP API of a catalogue, for its page and other programs.

Works and titles contain parts of records' bodies. So the routes to works require the action `read-record`, like the
server's own routes to a body. The server's guard does not read the query, and the query names the record. So a route to
one record checks the permission for this record itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from litestar import Request, Response, Router
from litestar.di import NamedDependency, Provide
from litestar.response import Stream

from stratalog import Records
from stratalog.server import (
    PREFIX,
    Application,
    At,
    Authenticate,
    Authorize,
    Count,
    IfNoneMatch,
    Key,
    Name,
    Principal,
    RangeHeader,
    Served,
    Text,
    Version,
    answer_body,
    answer_page,
    page_of,
    reading,
)
from stratalog_catalogue.metrics import exposition
from stratalog_catalogue.names import source_id
from stratalog_catalogue.queries import HistoryPage, differences, read_work, search, show_versions
from stratalog_catalogue.summary import read_stats

__all__ = ["app", "application"]

FOLDER = Path(__file__).with_name("web")
SAFE = {"X-Content-Type-Options": "nosniff"}
Asked = Request[Principal, Any, Any]
CatalogueRecords = NamedDependency[Records]
RecordId = NamedDependency[str]


def _records(service: Served, organisation: Name) -> Records:
    return service.store.records(organisation)


async def _record_id(
    service: Served, request: Request[Principal, Any, Any], organisation: Name, source: Key, id: Key
) -> str:
    """Return the id of a source's record. Raises Forbidden if the caller may not read the record."""
    record_id = source_id(source, id)
    await service.permit(request.user, "read-record", organisation, record_id)
    return record_id


@reading("/works", opt={"action": "read-record"}, summary="Find works by their ids or by words of their titles")
def works(records: CatalogueRecords, text: Text = "", source: Text = "", begins: Text = "", limit: Count = 50) -> Any:
    """The works are in order of source and id. A search by words reads the titles that the last scan stored."""
    return search(records, text, source=source, begins=begins, limit=limit)


@reading("/stats", opt={"action": "list"}, summary="Count records by source, format and kind")
def stats(records: CatalogueRecords) -> Any:
    """The counts of records come from the last complete scan of each source. The counts of dead letters are current."""
    return read_stats(records)


@reading(
    "/metrics",
    opt={"action": "list"},
    media_type="text/plain; version=0.0.4",
    summary="The counts as Prometheus metrics",
)
def metrics(records: CatalogueRecords) -> str:
    """To learn of new dead letters, set an alarm on `stratalog_catalogue_dead_letters`."""
    return exposition(read_stats(records))


@reading("/work", opt={"action": "read-record"}, summary="The work of a source's record")
def work(records: CatalogueRecords, record_id: RecordId, source: Key, id: Key) -> Any:
    """The work is in the shared model."""
    return read_work(records, source, id)


@reading(
    "/record",
    pool="bodies",
    opt={"action": "read-record"},
    media_type="application/octet-stream",
    summary="Read a version in its source's original bytes",
)
def record(
    request: Asked,
    records: CatalogueRecords,
    record_id: RecordId,
    version: Version = 0,
    wanted: RangeHeader = None,
    known: IfNoneMatch = None,
) -> Response[bytes] | Stream:
    """The default is the newest version. A row of CSV is a JSON object. Range requests are supported."""
    stored = records.stat(record_id, version or None)
    parts = records.open(record_id, stored.version)
    return answer_body(request, parts, stored.size, stored.digest.hex(), wanted, known, SAFE, immutable=bool(version))


@reading("/versions", opt={"action": "read-record"}, summary="The versions of a source's record")
def versions(
    request: Asked,
    records: CatalogueRecords,
    record_id: RecordId,
    source: Key,
    id: Key,
    before: At = None,
    limit: Count = 100,
) -> Response[HistoryPage]:
    """The newest version is first. With ``before``, the list has only versions below ``before``. Reads no body."""
    page = page_of(request, show_versions(records, source, id, before), limit, lambda version: version)
    following = page.last.version if page.last and page.has_more else None
    return answer_page(request, HistoryPage, versions=page.rows, next=following)


@reading("/diff", opt={"action": "read-record"}, summary="The differences between two versions")
def diff(records: CatalogueRecords, record_id: RecordId, source: Key, id: Key, before: Version, after: Version) -> Any:
    """The differences are by value if the format is JSON, JSON lines or CSV and both bodies can be decoded.

    Otherwise the differences are by line, also if one version is a deletion.
    """
    return differences(records, source, id, before, after)


def application(
    authenticate: Authenticate | None = None, authorize: Authorize | None = None, **options: Any
) -> Application:
    """Return the catalogue as an application: its page at `/web/catalogue/`, and its routes."""
    return Application(
        authenticate=authenticate,
        authorize=authorize,
        pages={"catalogue": FOLDER},
        routes=[
            Router(
                PREFIX + "/catalogue",
                route_handlers=[works, stats, metrics, work, record, versions, diff],
                dependencies={
                    "record_id": Provide(_record_id),
                    "records": Provide(_records, sync_to_thread=False),
                },
                tags=["catalogue"],
            )
        ],
        **options,
    )


app = application()
"""The application that `stratalog serve stratalog_catalogue.http:app` serves."""
