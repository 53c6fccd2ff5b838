"""Blobs over HTTP. The address of a blob contains the hash of its bytes, so clients may cache blobs for ever."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, Response, Router
from litestar.params import PathParameter
from litestar.response import Stream

from stratalog.keys import escape, record_key, record_owner
from stratalog.server.parameters import PREFIX, Name, Text
from stratalog.server.ranges import BODY_RESPONSES, OCTETS, IfNoneMatch, RangeHeader, answer_body
from stratalog.server.service import Served, Service, reading

__all__ = ["BLOBS"]

Asked = Request[Any, Any, Any]
Digest = Annotated[str, PathParameter(pattern="^[0-9a-f]{64}$")]


@reading(
    "/documents/{document:str}/blobs/{digest:str}",
    pool="bodies",
    opt={"action": "read"},
    media_type=OCTETS,
    responses=BODY_RESPONSES,
    summary="Read the encoded bytes of a large value",
)
def document_blob(
    service: Served,
    request: Asked,
    organisation: Name,
    document: Name,
    digest: Digest,
    collection: Text = "",
    wanted: RangeHeader = None,
    known: IfNoneMatch = None,
) -> Response[bytes] | Stream:
    """The bytes are canonical MessagePack. The route `items` returns the hash as ``blob``.

    ``collection`` is the collection of the key. ``collection`` is empty for a field.
    """
    owner = service.document(organisation, document).log.record.owner
    folder = f"items/{escape(collection, 'collection')}" if collection else "fields"
    return _blob(service, request, f"{owner}/{folder}/{digest}", wanted, known)


@reading(
    "/records/{record:str}/blobs/{digest:str}",
    pool="bodies",
    opt={"action": "read-record"},
    media_type=OCTETS,
    responses=BODY_RESPONSES,
    summary="Read a record's body that is one blob",
)
def record_blob(
    service: Served,
    request: Asked,
    organisation: Name,
    record: Name,
    digest: Digest,
    wanted: RangeHeader = None,
    known: IfNoneMatch = None,
) -> Response[bytes] | Stream:
    """``digest`` is the digest of a version.

    The version's body must be stored as one blob, not in the index and not in parts.
    """
    return _blob(service, request, f"{record_owner(organisation, record_key(record))}/bodies/{digest}", wanted, known)


def _blob(
    service: Service, request: Asked, key: str, wanted: str | None, known: str | None
) -> Response[bytes] | Stream:
    body = [service.store.environment.blobs.get(key)]
    # Reading ``parts`` empties the list. So no reference here keeps the body in memory while the spool sends it.
    parts, size = (body.pop() for _ in range(1)), len(body[0])
    return answer_body(request, parts, size, key.rpartition("/")[2], wanted, known, {}, immutable=True)


BLOBS = Router(PREFIX, route_handlers=[document_blob, record_blob], tags=["blobs"])
