"""Records over HTTP: the routes of records and their versions. Bodies are streamed.

A put accepts up to `REQUEST_RECORD_BYTES_MAX`. A response may be larger: a program can put larger bodies by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import IO, Annotated, Any

import msgspec
from litestar import Request, Response, Router, put
from litestar.params import HeaderParameter, QueryParameter
from litestar.response import Stream

from stratalog.errors import Invalid
from stratalog.limits import INTEGER_MAX, REQUEST_RECORD_BYTES_MAX, WRITE_ID_BYTES_MAX
from stratalog.log.directory import Listing
from stratalog.protocol.readable import from_json
from stratalog.records import RecordVersion
from stratalog.server.byte_budgets import bytes_of
from stratalog.server.error_responses import PROBLEMS
from stratalog.server.parameters import PREFIX, At, Count, Flag, Name, Text
from stratalog.server.ranges import BODY_RESPONSES, OCTETS, IfNoneMatch, RangeHeader, answer_body
from stratalog.server.request_headers import headers_of
from stratalog.server.row_pages import DamagedRows, answer_page, page_of
from stratalog.server.security import Principal
from stratalog.server.service import Served, deleting, posting, reading
from stratalog.server.temporary_files import spooled_body, temporary_folder_errors

__all__ = ["RECORDS"]

Asked = Request[Principal, Any, Any]
SPOOL_BYTES_MAX = 1024 * 1024
PIECE_BYTES = 1024 * 1024
RECEIVED = "the body, and nothing was written"
WriteId = Annotated[str | None, QueryParameter(min_length=1, max_length=WRITE_ID_BYTES_MAX)]
SourceTime = Annotated[int | None, QueryParameter(ge=-INTEGER_MAX, le=INTEGER_MAX)]
Metadata = Annotated[str | None, HeaderParameter(name="Stratalog-Metadata")]


class RecordInfo(msgspec.Struct, frozen=True):
    """One version of a record without its body. ``digest`` is the SHA-256 of the body.

    ``principal`` is an id. ``hash`` identifies the history up to the version. Digests are hexadecimal. If ``redacted``
    is true, the body of the version was erased. For a deletion or a redacted version, ``digest`` is empty and ``size``
    is 0.
    """

    id: str
    version: int
    created_ms: int
    write_id: str
    size: int
    digest: str
    source_time_ms: int | None
    metadata: Mapping[str, Any]
    deleted: bool
    principal: str
    hash: str
    redacted: bool = False


class RecordPage(msgspec.Struct, frozen=True):
    """Records, ordered by the UTF-8 bytes of the ids.

    To read the next page, pass ``next`` as ``after``. ``next`` is None at the end. ``damaged`` has the ids of damaged
    lines of the list that were read for this page, at most 100, and ``more_damaged`` is
    the number of the others. These lines are not in ``records``.
    """

    records: list[Listing]
    next: str | None
    damaged: list[str]
    more_damaged: int


class RecordVersionPage(msgspec.Struct, frozen=True):
    """The kept versions of a record, newest first.

    To read the next page, pass ``next`` as ``before``. At the end, ``next`` is None and ``more`` is false.
    """

    versions: list[RecordInfo]
    more: bool
    next: int | None


@reading("/records", opt={"action": "read-record"}, summary="The records of an organisation")
def list_records(
    service: Served, request: Asked, organisation: Name, after: Text = "", limit: Count = 100
) -> Response[RecordPage]:
    """The list includes deleted records."""
    damaged = DamagedRows()
    rows = service.store.records(organisation).list(after, damaged=damaged.add)
    page = page_of(request, rows, limit, lambda listing: listing)
    following = page.last.id if page.last and page.has_more else None
    return answer_page(
        request, RecordPage, records=page.rows, next=following, damaged=damaged.ids, more_damaged=damaged.more
    )


@put(
    "/records/{record:str}",
    pool="writes",
    opt={"action": "write-record"},
    status_code=200,
    request_max_body_size=REQUEST_RECORD_BYTES_MAX,
    responses=PROBLEMS,
    summary="Store the body as the next version",
)
async def put_record(
    service: Served,
    request: Request[Principal, Any, Any],
    organisation: Name,
    record: Name,
    expected: At = None,
    source_time_ms: SourceTime = None,
    if_newer: Flag = False,
    write_id: WriteId = None,
    metadata: Metadata = None,
) -> RecordInfo:
    """With ``expected`` the write fails unless ``expected`` is the latest version. A request with ``if_newer`` accepts
    no ``expected``.

    A write repeated with the same ``expected`` returns the version that the first write made. With ``if_newer`` the
    server discards a body if the latest version's source time is the same or later.

    A body that equals the latest body makes no new version, unless the request has other metadata or another source
    time. The response is the version that contains the body, or the latest version if the body was discarded. Metadata
    is a JSON object.
    """
    _refuse_conditions(request)
    decoded = _metadata(metadata)
    own: dict[str, Any] = {"write_id": write_id, "principal": request.user.id}
    if if_newer and source_time_ms is None:
        raise Invalid("if_newer needs source_time_ms")
    if if_newer and expected is not None:
        raise Invalid("if_newer accepts no expected version", expected=expected)
    with spooled_body(SPOOL_BYTES_MAX) as spooled:
        taken = bytes_of(request.scope)
        async for piece in request.stream():
            taken.take_file(len(piece))
            await service.run(partial(_spool, spooled, piece))

        def run() -> RecordVersion:
            with temporary_folder_errors(RECEIVED):
                spooled.seek(0)  # writes the bytes that are still buffered
            records = service.store.records(organisation)
            pieces = iter(partial(spooled.read, PIECE_BYTES), b"")
            if not if_newer or source_time_ms is None:
                given = {"expected": expected, "source_time_ms": source_time_ms, **own}
                return records.put(record, pieces, metadata=decoded, **given)
            made = records.put_if_newer(record, pieces, source_time_ms, metadata=decoded, **own)
            return made or records.stat(record)

        return _info(await service.run(run))


@reading(
    "/records/{record:str}",
    pool="bodies",
    opt={"action": "read-record"},
    media_type=OCTETS,
    responses=BODY_RESPONSES,
    summary="Read the body of a version",
)
def get_record(
    service: Served,
    request: Asked,
    organisation: Name,
    record: Name,
    version: At = None,
    wanted: RangeHeader = None,
    known: IfNoneMatch = None,
) -> Response[bytes] | Stream:
    """The default is the latest version. A named version never gets another body, so clients may cache its body.

    The server may erase or forget the body later. A cache then still has it.
    """
    records = service.store.records(organisation)
    stored = records.stat(record, version)
    parts = records.open(record, stored.version)
    headers = {"Stratalog-Version": str(stored.version)}
    return answer_body(
        request, parts, stored.size, stored.digest.hex(), wanted, known, headers, immutable=version is not None
    )


@reading("/records/{record:str}/versions", opt={"action": "read-record"}, summary="The versions of a record")
def versions(
    service: Served, request: Asked, organisation: Name, record: Name, before: At = None, limit: Count = 100
) -> Response[RecordVersionPage]:
    """Lists versions, newest first, including deletions.

    With ``before``, lists only lower versions. The server reads no body.
    """
    stored = service.store.records(organisation).versions(record, reverse=True, before=before)
    page = page_of(request, stored, limit, _info)
    following = page.last.version if page.last and page.has_more else None
    return answer_page(request, RecordVersionPage, versions=page.rows, more=page.has_more, next=following)


@deleting("/records/{record:str}", opt={"action": "write-record"}, summary="Store a deletion as the next version")
def delete_record(
    service: Served,
    request: Request[Principal, Any, Any],
    organisation: Name,
    record: Name,
    expected: At = None,
    write_id: WriteId = None,
) -> None:
    """Earlier versions stay readable. If the record is deleted already, nothing is written."""
    _refuse_conditions(request)
    service.store.records(organisation).delete(record, expected=expected, write_id=write_id, principal=request.user.id)


@posting("/records/{record:str}/undelete", opt={"action": "write-record"}, summary="Restore the body before a deletion")
def undelete(
    service: Served, request: Request[Principal, Any, Any], organisation: Name, record: Name, write_id: WriteId = None
) -> RecordInfo:
    """The restored body is a new version. If the record is not deleted, nothing is written."""
    records = service.store.records(organisation)
    return _info(records.undelete(record, write_id=write_id, principal=request.user.id))


def _refuse_conditions(request: Asked) -> None:
    """Raise Invalid for a header of HTTP that makes a write conditional or partial: the server would not obey it."""
    headers = headers_of(request.scope)
    for name in ("if-match", "if-none-match", "if-unmodified-since", "content-range"):
        if name in headers:
            raise Invalid("a write of a record takes no such header; use the parameter expected", value=name)


def _metadata(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    # Litestar decodes headers as Latin-1. JSON is UTF-8, so decode the header's bytes again.
    decoded = from_json(text.encode("latin-1"))
    if not isinstance(decoded, dict):
        raise Invalid("metadata must be a JSON object", value=text)
    return decoded


def _spool(spooled: IO[bytes], piece: bytes) -> None:
    with temporary_folder_errors(RECEIVED):
        spooled.write(piece)


def _info(version: RecordVersion) -> RecordInfo:
    return RecordInfo(
        version.id,
        version.version,
        version.created_ms,
        version.write_id,
        version.size,
        version.digest.hex(),
        version.source_time_ms,
        dict(version.metadata),
        version.deleted,
        version.principal,
        version.hash.hex(),
        version.redacted,
    )


RECORDS = Router(
    PREFIX, route_handlers=[list_records, put_record, get_record, versions, delete_record, undelete], tags=["records"]
)
