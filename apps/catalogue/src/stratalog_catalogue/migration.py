"""The migration of a versioned hybrid store on DynamoDB and S3: its rows become records of a source.

A row has an id, a version and a payload. The payload is the record itself (text, bytes, a map or a list) or its
location in a bucket. The location is ``{bucket, key}``, the older ``{namespace, path}``, or one of these two forms
within ``typedStoreId``. A table may have one row for each id, or one row for each version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from decimal import Decimal
from itertools import takewhile
from typing import Any

import msgspec

from stratalog import DeadLetter, Invalid, NotFound, Records, Unavailable, VersionConflict
from stratalog.extras import needs_extra
from stratalog_catalogue.ingest import ROW, IngestFailure, fail, is_row_letter, resolve
from stratalog_catalogue.letters import letters_with
from stratalog_catalogue.names import MIGRATIONS, SOURCES, source_id
from stratalog_catalogue.record_splitter import PIECE_BYTES, time_ms_of, value_at
from stratalog_catalogue.source_rename import is_moved
from stratalog_catalogue.sources import Source

__all__ = ["Migrated", "migrate"]

ROWS_PER_PAGE = 100


class _Target(msgspec.Struct):
    """The record to which the rows of one id are copied, as last read."""

    latest: int = 0
    """The latest version, or 0 for a record without versions."""

    rows: set[int] = set()
    """The versions of the rows that were copied to the record. Polls may have added versions without a row."""

    is_pruned: bool = False
    """Whether the record's first version is forgotten."""


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

    A record's metadata has the row's version, so a version that is already stored is not copied again, whatever polls
    have stored since. A row that cannot be read becomes a dead letter, which a later run resolves. ``dynamodb`` and
    ``s3`` are boto3 clients. Without them, the function creates clients from the environment.

    Raises Unavailable if the old store cannot be read, and Invalid if boto3 is not installed.
    """
    tables, objects = dynamodb or _client("dynamodb"), s3 or _client("s3")
    migrated, dead = Migrated(), {letter.id for letter in _row_letters(records, source)}
    try:
        ranged = len(tables.describe_table(TableName=table)["Table"]["KeySchema"]) > 1
        is_repeated, start = _begun(records, source, table)
        for rows, following in _pages(tables, table, ranged, start):
            # A later run must know that this run may have copied rows, also if it is interrupted on its first page.
            _note(records, source, table, start)
            _PageCopy(records, source, objects, dead, migrated, is_repeated).run(rows, progress)
            start = following
        _note(records, source, table, None)
    except _failures() as exc:
        raise Unavailable("the old store cannot be read", table=table, reason=str(exc)) from exc
    return migrated


def _row_letters(records: Records, source: Source) -> Iterator[DeadLetter]:
    """Yield the dead letters of rows that could not be copied to a source. Only another migration can resolve them."""
    letters = letters_with(records, f"{SOURCES}{source.name}/")
    return (letter for letter in letters if is_row_letter(letter))


class _PageCopy:
    """The copy of one page of rows. All rows of an id are on one page, so the records are read once.

    ``dead`` has the ids of records with a row that an earlier run could not copy. ``is_repeated`` is whether an earlier
    run may have copied rows.
    """

    def __init__(
        self,
        records: Records,
        source: Source,
        objects: Any,
        dead: AbstractSet[str],
        migrated: Migrated,
        is_repeated: bool,
    ) -> None:
        self._records = records
        self._source = source
        self._objects = objects
        self._dead = dead
        self._migrated = migrated
        self._is_repeated = is_repeated
        self._targets: dict[str, _Target] = {}

    def run(self, rows: Iterable[Mapping[str, Any]], progress: Callable[[int], None]) -> None:
        """Copy the rows. If the records of some dead letters now have all their rows, resolve these letters."""
        copied: set[str] = set()
        failed: set[str] = set()
        for row in rows:
            (copied if self._try(row) else failed).add(source_id(self._source.name, _id(row) or "?"))
            progress(1)
        for id in (copied - failed) & self._dead:
            resolve(self._records, id)

    def _try(self, row: Mapping[str, Any]) -> bool:
        """Copy a row, and return whether the record has it now. Otherwise make a dead letter."""
        objects, migrated, id = self._objects, self._migrated, _id(row)
        migrated.rows += 1
        try:
            version = _version(row)
            if not id:
                raise Invalid("a row has no id")
            is_new = self._copy(row, version)
            migrated.new += is_new
            migrated.same += not is_new
            return True
        except (Invalid, KeyError, ValueError, objects.exceptions.NoSuchKey, objects.exceptions.NoSuchBucket) as exc:
            migrated.failed += 1
            reason = f"{ROW} {row.get('version')}: {type(exc).__name__}: {exc}"
            fail(self._records, source_id(self._source.name, id or "?"), reason, IngestFailure(id=id or "?"), None)
            return False

    def _copy(self, row: Mapping[str, Any], version: int) -> bool:
        """Store a row as the next version of its record, and return True. Return False if it was copied before.

        If a later row was copied, this row was copied too and has been pruned since, or it is the row of the dead
        letter. Raises Invalid in the second case, since the row would become the newest version. Also raises Invalid if
        an earlier run may have copied the row, and a prune has left no version of a row.
        """
        source, id = self._source, source_id(self._source.name, _id(row))
        metadata, is_dead = {"format": source.format, "version": version}, id in self._dead
        while True:
            target = self._targets.get(id) or self._targets.setdefault(id, _target(self._records, id))
            if self._is_repeated and target.is_pruned and not target.rows:
                text = "it is unknown whether this row was copied, since the record's earlier versions were pruned"
                raise Invalid(f"{text}; dismiss the letter", latest=target.latest)
            is_past = version < max(target.rows, default=version)
            if version in target.rows or (is_past and not is_dead):
                return False
            if is_past:
                text = "a later version is stored already, so this row can no longer be copied; dismiss the letter"
                raise Invalid(text, latest=target.latest)
            body, time_ms = _body(row.get("payload"), self._objects), _time(source, row)
            try:
                stored = self._records.put(id, body, expected=target.latest, metadata=metadata, source_time_ms=time_ms)
            except VersionConflict:  # another process has written the record
                del self._targets[id]
                continue
            target.latest = stored.version
            target.rows.add(version)
            return True


def _version(row: Mapping[str, Any]) -> int:
    try:
        return int(row["version"])
    except (TypeError, OverflowError) as exc:
        raise Invalid("a row's version is no number") from exc


def _target(records: Records, record_id: str) -> _Target:
    try:
        versions = list(records.versions(record_id, reverse=True))
    except NotFound:
        return _Target()
    # The versions before a rename belong to the renamed source.
    own = list(takewhile(lambda version: not is_moved(version), versions))
    rows = {int(version.metadata["version"]) for version in own if "version" in version.metadata}
    return _Target(versions[0].version, rows, len(own) == len(versions) and versions[-1].version > 1)


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


def _begun(records: Records, source: Source, table: str) -> tuple[bool, dict[str, Any] | None]:
    """Return whether an earlier run may have copied rows of the table to this source, and the start key of this run.

    The key is None if there was no earlier run, or if the last one was complete.
    """
    # Earlier builds noted only the last source of a table.
    for id in (_note_id(source, table), MIGRATIONS + table):
        with suppress(NotFound):
            note = records.get(id)
            if note.version.metadata.get("source") == source.name:
                return True, msgspec.json.decode(note.body)
    return False, None


def _note(records: Records, source: Source, table: str, start: dict[str, Any] | None) -> None:
    """Store the start key of the next run. With the key None, the next run starts from the beginning."""
    id = _note_id(source, table)
    records.put(id, msgspec.json.encode(start), metadata={"source": source.name})
    records.prune(id, retain=1)


def _note_id(source: Source, table: str) -> str:
    return f"{MIGRATIONS}{source.name}/{table}"


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
