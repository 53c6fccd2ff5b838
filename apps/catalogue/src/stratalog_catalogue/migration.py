"""The migration of a versioned hybrid store on DynamoDB and S3: its rows become records of a source.

A row has an id, a version and a payload. The payload is the record itself (text, bytes, a map or a list) or its
location in a bucket. The location is ``{bucket, key}``, the older ``{namespace, path}``, or one of these two forms
within ``typedStoreId``. A table may have one row for each id, or one row for each version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from stratalog import Invalid, NotFound, Records, Unavailable
from stratalog.extras import needs_extra
from stratalog_catalogue.ingest import IngestFailure, fail
from stratalog_catalogue.names import CHECKPOINTS, source_id
from stratalog_catalogue.record_splitter import PIECE_BYTES, time_ms_of, value_at
from stratalog_catalogue.sources import Source

__all__ = ["Migrated", "migrate"]

ROWS_PER_PAGE = 100


class Migrated(msgspec.Struct):
    """The counts of a table's rows by outcome."""

    rows: int = 0
    new: int = 0
    same: int = 0
    failed: int = 0


def migrate(
    records: Records,
    source: Source,
    table: str,
    *,
    dynamodb: Any = None,
    s3: Any = None,
    progress: Callable[[int], None] = lambda count: None,
) -> Migrated:
    """Copy all rows of ``table``. A repeated call resumes an interrupted run. Rows of one id are copied in order.

    A record's metadata has the row's version, so a version that is already stored is not copied again. A row that
    cannot be read becomes a dead letter. ``dynamodb`` and ``s3`` are boto3 clients. Without them, the function
    creates clients from the environment.

    Raises Unavailable if the old store cannot be read, and Invalid if boto3 is not installed.
    """
    tables, objects = dynamodb or _client("dynamodb"), s3 or _client("s3")
    migrated = Migrated()
    try:
        ranged = len(tables.describe_table(TableName=table)["Table"]["KeySchema"]) > 1
        for rows, position in _pages(tables, table, ranged, _begun(records, table)):
            for row in rows:
                _migrate_row(records, source, row, objects, migrated)
                progress(1)
            _note(records, table, position)
    except _failures() as exc:
        raise Unavailable("the old store cannot be read", table=table, reason=str(exc)) from exc
    return migrated


def _migrate_row(records: Records, source: Source, row: Mapping[str, Any], objects: Any, migrated: Migrated) -> None:
    migrated.rows += 1
    id = _id(row)
    try:
        version = _version(row)
        if not id:
            raise Invalid("a row has no id")
        record_id = source_id(source.name, id)
        if _is_migrated(records, record_id, version):
            migrated.same += 1
            return
        metadata = {"format": source.format, "version": version}
        records.put(record_id, _body(row.get("payload"), objects), metadata=metadata, source_time_ms=_time(source, row))
        migrated.new += 1
    except (Invalid, KeyError, ValueError, objects.exceptions.NoSuchKey, objects.exceptions.NoSuchBucket) as exc:
        migrated.failed += 1
        reason = f"row of version {row.get('version')}: {type(exc).__name__}: {exc}"
        fail(records, source_id(source.name, id or "?"), reason, IngestFailure(id=id or "?"), None)


def _version(row: Mapping[str, Any]) -> int:
    try:
        return int(row["version"])
    except (TypeError, OverflowError) as exc:
        raise Invalid("a row's version is no number") from exc


def _is_migrated(records: Records, record_id: str, version: int) -> bool:
    try:
        return int(records.stat(record_id).metadata.get("version", -1)) >= version
    except NotFound:
        return False


def _body(payload: Any, objects: Any) -> Any:
    """Return the record's bytes, as a stream if they are in a bucket. Raises Invalid without a payload."""
    where = value_at(payload, "typedStoreId") or payload
    if isinstance(where, dict) and len(where) == 2:
        for bucket, key in (("bucket", "key"), ("namespace", "path")):
            if bucket in where and key in where:
                body = objects.get_object(Bucket=where[bucket], Key=where[key])["Body"]
                return body.iter_chunks(PIECE_BYTES)
    if isinstance(payload, str):
        return payload.encode()
    if isinstance(payload, dict | list):
        return msgspec.json.encode(payload)
    if isinstance(payload, bytes):
        return payload
    raise Invalid("a row has no payload")


def _time(source: Source, row: Mapping[str, Any]) -> int | None:
    value = value_at(row, source.time) if source.time else None
    return None if value is None else time_ms_of(value)


def _pages(
    tables: Any, table: str, ranged: bool, start: dict[str, Any] | None
) -> Iterator[tuple[list[dict[str, Any]], dict[str, Any] | None]]:
    """Yield pages of rows, each with the start key of the next page.

    In a ``ranged`` table an id may have several rows. A scan has no defined order of ids, so each id on a page is
    queried for its rows in the order of versions. A scan returns the rows of an id one after another. So only the last
    id of a page can have rows on the next page, and these rows are not read again.
    """
    while True:
        read = _id(_plain(start)) if start else None
        more = {"ExclusiveStartKey": start} if start else {}
        page = tables.scan(TableName=table, Limit=ROWS_PER_PAGE, ConsistentRead=True, **more)
        start = page.get("LastEvaluatedKey")
        rows = [_plain(item) for item in page["Items"]]
        if ranged:
            ids = dict.fromkeys(id for id in map(_id, rows) if id != read)
            rows = [row for id in ids for row in _all(tables, table, id)]
        yield rows, start
        if start is None:
            return


def _all(tables: Any, table: str, id: str) -> Iterator[dict[str, Any]]:
    asked = {
        "TableName": table,
        "ConsistentRead": True,
        "KeyConditionExpression": "id = :id",
        "ExpressionAttributeValues": {":id": {"S": id}},
    }
    for page in tables.get_paginator("query").paginate(**asked):
        yield from (_plain(item) for item in page["Items"])


def _id(row: Mapping[str, Any]) -> str:
    return str(row.get("id", ""))


def _plain(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in item.items()}


def _value(typed: Mapping[str, Any]) -> Any:
    """Return a DynamoDB attribute as a plain JSON value."""
    ((kind, value),) = typed.items()
    if kind == "N":
        number = Decimal(value)
        return int(number) if number == number.to_integral_value() else float(number)
    if kind == "M":
        return _plain(value)
    if kind == "L":
        return [_value(part) for part in value]
    if kind in ("SS", "NS", "BS"):
        return [_value({kind[0]: part}) for part in value]
    return None if kind == "NULL" else value


def _begun(records: Records, table: str) -> dict[str, Any] | None:
    try:
        position: dict[str, Any] | None = msgspec.json.decode(records.get(f"{CHECKPOINTS}!migrate/{table}").body)
        return position
    except NotFound:
        return None


def _note(records: Records, table: str, position: dict[str, Any] | None) -> None:
    """Store the start key of the next run. With the key None, the next run starts from the beginning."""
    id = f"{CHECKPOINTS}!migrate/{table}"
    records.put(id, msgspec.json.encode(position))
    records.prune(id, retain=1)


def _client(service: str) -> Any:
    with needs_extra("aws", "a migration"):
        import boto3  # type: ignore[import-untyped]
    try:
        return boto3.client(service)
    except _failures() as exc:
        raise Invalid("the configuration of AWS is not complete", reason=str(exc)) from exc


def _failures() -> tuple[type[Exception], ...]:
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

    return (BotoCoreError, ClientError)
