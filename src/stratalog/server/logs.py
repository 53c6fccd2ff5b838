"""Logs over HTTP, for applications with their own events."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router
from litestar.params import JSONBody

from stratalog.codec import encode_checked
from stratalog.errors import Conflict, Invalid, LimitExceeded, NotFound
from stratalog.limits import SNAPSHOT_BODY_BYTES_MAX, VERSION_MAX
from stratalog.log import Entry, Event, Log, fork_log
from stratalog.log.app_snapshots import manifest_in
from stratalog.log.lifecycle import delete_log
from stratalog.log.retained_entries import read_retained
from stratalog.log.snapshots import Snapshot, latest_snapshots, newest_snapshot, put_snapshot
from stratalog.server.bodies import Answer
from stratalog.server.error_responses import PROBLEMS, response
from stratalog.server.parameters import PREFIX, At, Count, Name, Number, Time
from stratalog.server.row_pages import answer_page, page_of
from stratalog.server.security import Principal
from stratalog.server.service import Served, deleting, posting_async, putting, reading

__all__ = ["LOGS"]

Asked = Request[Principal, Any, Any]
Bound = Annotated[int, msgspec.Meta(ge=0, le=VERSION_MAX)]


class LogInfo(msgspec.Struct, frozen=True):
    """The present state of a log.

    ``first`` is the version at which the log was forked from another log, or 0 if the log is no fork. ``floor`` is the
    oldest version that the server keeps, or 0 if it keeps all versions.
    """

    organisation: str
    log: str
    incarnation: str
    version: int
    first: int
    floor: int


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One event: a type, its data, and the version of the data's shape."""

    type: str
    data: Any = None
    schema: Annotated[int, msgspec.Meta(ge=1)] = 1


class AppendRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Events to commit as one entry. With ``expected`` the append fails unless the log is at the version ``expected``.

    An append repeated with the same ``write_id`` and ``expected`` returns the entry that the first append wrote.
    """

    events: list[Fact]
    expected: Bound | None = None
    write_id: str | None = None


class AppendedEntry(msgspec.Struct, frozen=True):
    """One entry.

    ``version`` is the entry's number. ``principal`` is the id of the writer, and ``author`` is the writer's display
    name. ``hash`` is hexadecimal. If ``redacted`` is true, the events of the entry were erased.
    """

    version: int
    created_ms: int
    author: str
    principal: str
    write_id: str
    hash: str
    events: list[Fact]
    redacted: bool = False


class EntryPage(msgspec.Struct, frozen=True):
    """Entries in order. To read the next page, pass ``next`` as ``after``. ``next`` is None at the end."""

    entries: list[AppendedEntry]
    next: int | None


class NewestVersion(msgspec.Struct, frozen=True):
    """The newest version at a time, or 0 if all versions are newer."""

    version: int


class SnapshotInfo(msgspec.Struct, frozen=True):
    """A version with a saved state. ``size`` is in bytes."""

    version: int
    created_ms: int
    size: int


class SnapshotPage(msgspec.Struct, frozen=True):
    """The log's own snapshots, ordered by version.

    To read the next page, pass ``next`` as ``before``. ``next`` is None at the end.
    """

    snapshots: list[SnapshotInfo]
    next: int | None


class SnapshotBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A state in the application's own form."""

    body: Any


class SnapshotState(msgspec.Struct, frozen=True):
    """The newest snapshot at or below the requested version."""

    version: int
    created_ms: int
    body: Any


class ForkLog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name of the fork, and the version at which to fork. The default of ``at`` is the newest version."""

    name: str
    at: Bound | None = None


@putting(
    "/",
    opt={"action": "create"},
    status_code=201,
    responses={**PROBLEMS, 200: response(LogInfo, "the log already exists")},
    summary="Create a log",
)
def create(service: Served, organisation: Name, log: Name) -> Response[LogInfo]:
    """Answers 201 if the log was created and 200 if it already exists, so a request may be repeated."""
    with suppress(Conflict):
        return Answer(_info(service.store.create_log(organisation, log)), status_code=201)
    return Answer(_info(service.log(organisation, log)), status_code=200)


@reading("/", opt={"action": "read"}, summary="Show a log")
def show(service: Served, organisation: Name, log: Name) -> LogInfo:
    """The response has the newest version and the oldest version that is kept."""
    return _info(service.log(organisation, log))


@deleting("/", opt={"action": "delete"}, summary="Delete a log")
def remove(service: Served, organisation: Name, log: Name) -> None:
    """A later log may have the same name."""
    delete_log(service.log(organisation, log))


@posting_async("/append", opt={"action": "write"}, summary="Commit events as one entry")
async def append(
    service: Served, request: Asked, organisation: Name, log: Name, data: JSONBody[AppendRequest]
) -> AppendedEntry:
    """Answers 409 with the code `version-conflict` if the log is not at the ``expected`` version."""
    who = request.user
    events = [Event(fact.type, fact.data, fact.schema) for fact in data.events]

    def run() -> Entry:
        opened = service.log(organisation, log)
        return opened.append(
            events, expected=data.expected, author=who.author, principal=who.id, write_id=data.write_id
        )

    entry = await service.in_turn(organisation, log, run)
    service.hub.poke(organisation, log, entry.version)
    return _committed(entry)


@reading("/entries", opt={"action": "read"}, summary="Read entries")
def entries(
    service: Served,
    request: Asked,
    organisation: Name,
    log: Name,
    after: At = None,
    upto: At = None,
    limit: Count = 100,
) -> Response[EntryPage]:
    """Lists entries in order. The server limits the entries and the bytes of a page."""
    opened = service.log(organisation, log)
    rows = read_retained(opened, upto) if after is None else opened.read(after, upto)
    page = page_of(request, rows, limit, _committed)
    following = page.last.version if page.last and page.has_more else None
    return answer_page(request, EntryPage, entries=page.rows, next=following)


@reading("/version", opt={"action": "read"}, summary="The newest version at a time")
def version_at(service: Served, organisation: Name, log: Name, time_ms: Time) -> NewestVersion:
    """To read the entries up to that time, pass the version as ``upto``."""
    return NewestVersion(service.log(organisation, log).version_at(time_ms))


@reading("/snapshots", opt={"action": "read"}, summary="The versions with a saved state")
def snapshots(
    service: Served, request: Asked, organisation: Name, log: Name, before: At = None, limit: Count = 100
) -> Response[SnapshotPage]:
    """The newest snapshots, or with ``before`` the newest snapshots below the version ``before``."""
    stored = latest_snapshots(service.store.environment.index, service.log(organisation, log).record.prefix, before)
    page = page_of(request, stored, limit, _described, lambda snapshot: len(snapshot.body))
    following = page.last.version if page.last and page.has_more else None
    return answer_page(request, SnapshotPage, snapshots=page.rows[::-1], next=following)


@reading("/snapshot", opt={"action": "read"}, summary="The newest saved state at or below a version")
def snapshot(service: Served, organisation: Name, log: Name, at: At = None) -> SnapshotState:
    """Apply the entries after the snapshot to get the state of the requested version.

    A state that the application saved in parts is refused with 400: its parts are bytes in the application's own form.
    """
    opened = service.log(organisation, log)
    stored = opened.snapshot_at(opened.head().version if at is None else at)
    if stored is None:
        raise NotFound("no snapshot at or below the version", log=log, version=at)
    if manifest_in(stored.body) is not None:
        raise Invalid("the state was saved in parts; read it with Log.read_snapshot", version=stored.version)
    return SnapshotState(stored.version, stored.created_ms, msgspec.msgpack.decode(stored.body))


@putting("/snapshot", opt={"action": "write"}, status_code=200, summary="Save the state of a version")
def save_snapshot(
    service: Served, organisation: Name, log: Name, version: Number, data: JSONBody[SnapshotBody]
) -> SnapshotInfo:
    """Each version has at most one snapshot. The first saved snapshot stays, and a later snapshot is ignored."""
    opened = service.log(organisation, log)
    entry = opened.entry(version)
    body = encode_checked(data.body, "snapshot")
    if len(body) > SNAPSHOT_BODY_BYTES_MAX:
        raise LimitExceeded("a snapshot is too large", value=len(body), limit=SNAPSHOT_BODY_BYTES_MAX)
    if manifest_in(body) is not None:
        raise Invalid("the body has the form of the list of parts of a state", version=version)
    put_snapshot(service.store.environment, opened.record, version, entry.hash, body, None)
    stored = newest_snapshot(service.store.environment.index, opened.record.prefix, version)
    if stored is None or stored.version != version:
        raise NotFound("the snapshot was forgotten", log=log, version=version)
    return _described(stored)


@posting_async("/fork", pool="writes", opt={"action": "read"}, status_code=201, summary="Fork a log at a version")
async def fork(service: Served, request: Asked, organisation: Name, log: Name, data: JSONBody[ForkLog]) -> LogInfo:
    """The fork is in the same organisation. The fork shares the history up to the version, so nothing is copied."""
    await service.permit(request.user, "create", organisation, data.name)

    def run() -> LogInfo:
        opened = service.log(organisation, log)
        at = opened.head().version if data.at is None else data.at
        return _info(fork_log(opened, data.name, at))

    return await service.run(run)


def _info(log: Log) -> LogInfo:
    record = log.record
    return LogInfo(record.organisation, record.name, record.incarnation, log.head().version, log.first, log.floor())


def _committed(entry: Entry) -> AppendedEntry:
    facts = [Fact(event.type, event.data, event.schema) for event in entry.events]
    return AppendedEntry(
        entry.version,
        entry.created_ms,
        entry.author,
        entry.principal,
        entry.write_id,
        entry.hash.hex(),
        facts,
        bool(entry.redacted),
    )


def _described(snapshot: Snapshot) -> SnapshotInfo:
    return SnapshotInfo(snapshot.version, snapshot.created_ms, len(snapshot.body))


LOGS = Router(
    PREFIX + "/logs/{log:str}",
    route_handlers=[create, show, remove, append, entries, version_at, snapshots, snapshot, save_snapshot, fork],
    tags=["logs"],
)
