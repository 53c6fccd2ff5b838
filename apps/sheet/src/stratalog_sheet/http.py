"""The spreadsheet over HTTP: the routes for its page and other programs.

A listener of a sheet gets the live pokes of the sheet's log.

Each write except a deletion takes ``author`` in its query. The server uses this name only if the caller's principal has
no author, as on a server without tokens.
"""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Response, Router, post, put
from litestar.di import Provide
from litestar.params import JSONBody

from stratalog.server import (
    PREFIX,
    PROBLEMS,
    Application,
    At,
    Authenticate,
    Authorize,
    Count,
    Key,
    Name,
    Served,
    Text,
    Version,
    reading,
)
from stratalog_sheet.branches import Standing, check_standing
from stratalog_sheet.commits import announce, commit, compute
from stratalog_sheet.events import SheetChange
from stratalog_sheet.file_routes import FILE_HANDLERS
from stratalog_sheet.load_response import load_response
from stratalog_sheet.pages import page_files
from stratalog_sheet.pool import EngineNeeded
from stratalog_sheet.route_parts import (
    JSON,
    Asked,
    Opened,
    Signer,
    Turns,
    Warm,
    computing,
    deleting,
    opened_sheet,
    signer_of,
    writing,
)
from stratalog_sheet.settings import EngineSettings
from stratalog_sheet.sheets import Sheets, snapshots_due, warn_of_damage
from stratalog_sheet.warm_sheets import WarmSheets
from stratalog_sheet.wire import (
    Facts,
    ListedSheet,
    Moment,
    NewFork,
    NewMessage,
    NewRows,
    NewSheet,
    NewText,
    Title,
    facts_of,
)

__all__ = ["app", "application"]


@reading("/", opt={"action": "list"}, summary="The sheets of an organisation")
def listing(request: Asked, sheets: Warm, organisation: Name) -> list[ListedSheet]:
    """The list is ordered by name. The server logs a warning for each damaged sheet, and lists the others."""
    read_only, listed = request.user.read_only, sheets.list(organisation, damaged=warn_of_damage)
    return [ListedSheet(**msgspec.structs.asdict(info), read_only=read_only) for info in listed]


@put("/", opt={"action": "create"}, status_code=201, sync_to_thread=True, responses=PROBLEMS, summary="Create a sheet")
def create(
    request: Asked, sheets: Warm, organisation: Name, log: Name, signer: Signer, data: JSONBody[NewSheet]
) -> Facts:
    """The new sheet is empty. Answers 409 if the name is taken."""
    return facts_of(request.user, sheets.create(organisation, log, title=data.title, author=signer))


@reading("/", opt={"action": "read"}, summary="Show a sheet")
def show(request: Asked, sheet: Opened) -> Facts:
    """The response has the sheet's title, its newest version, and whether the caller may only read the sheet."""
    return facts_of(request.user, sheet)


@writing("/rename", summary="Change a sheet's title")
async def rename(service: Served, turns: Turns, sheet: Opened, signer: Signer, data: JSONBody[Title]) -> Any:
    """A changed title is committed as an entry. The name in the sheet's address stays."""
    return await commit(service, turns, sheet, lambda: sheet.rename(data.title, author=signer))


@deleting("/", summary="Delete a sheet")
async def remove(service: Served, sheet: Opened) -> None:
    """All versions are deleted. Copies of the sheet stay, and the name may be used again."""

    def run() -> int:
        version = sheet.version
        sheet.delete()
        return version

    version = await service.in_turn(sheet.organisation, sheet.name, run)
    # The next version does not exist. The poke makes listeners read, and the read reports that the sheet is deleted.
    service.hub.poke(sheet.organisation, sheet.name, version + 1)


@computing("/load", media_type=JSON, summary="Load a state and the entries after it")
async def load(
    service: Served,
    sheets: Warm,
    turns: Turns,
    sheet: Opened,
    at: At = None,
    known: At = None,
    after: At = None,
    hash: Text = "",
) -> Response[bytes]:
    """The response has the engine's data of version ``base``, and the entries after ``base`` up to ``version``.

    A browser may state that it has the data of the base ``known`` and the entries up to ``after``. ``hash`` is the hash
    of entry ``after``. The response then has only the later entries, unless the browser is too far behind or the sheet
    was restored. Answers 409 with the code `version-lost` in the same cases as `entries`.
    """

    def find() -> Response[bytes]:
        return load_response(sheet, at, known, after, hash)

    def find_without_engine() -> Response[bytes]:
        with sheets.engines.without():
            return find()

    try:
        return await service.run(find_without_engine)
    except EngineNeeded:  # a restored version without a snapshot: an engine must compute its state
        return await compute(turns, sheet, find)


@reading("/entries", opt={"action": "read"}, summary="The entries after a version")
def entries(sheet: Opened, after: Version, hash: Text = "") -> Any:
    """If ``reload`` is true, the reader must load the sheet again: it is too far behind, or the sheet was restored.

    Answers 409 with the code `version-lost` if the sheet has no version ``after`` of this ``hash``, for example after a
    restore from an older backup. The reader must then load the sheet again.
    """
    return sheet.since(after, hash)


@writing("/append", summary="Commit a message of the engine")
async def append(service: Served, turns: Turns, sheet: Opened, signer: Signer, data: JSONBody[NewMessage]) -> Any:
    """If a message is repeated within 200 entries, without a restore in between, the first response is repeated.

    Answers 409 with the code `version-conflict` if the message is not based on the present revision. Answers 409 with
    `version-lost` if the sheet no longer has the version of the sender.
    """
    reader = Standing(data.version, data.hash)
    return await commit(service, turns, sheet, lambda: sheet.append(data.message, author=signer, reader=reader))


@computing("/state", media_type=JSON, summary="The engine's data of a version")
async def state(turns: Turns, sheet: Opened, at: At = None) -> Response[bytes]:
    """The response is the complete state of the sheet, without its history."""
    return Response(await compute(turns, sheet, lambda: sheet.state(at)), media_type=JSON)


@computing("/cells/{cell:str}", summary="One cell")
async def read_cell(turns: Turns, sheet: Opened, cell: Name, tab: Text = "", at: At = None) -> Any:
    """The response has the cell's typed content, value and shown text at version ``at``; the default is the newest."""
    return await compute(turns, sheet, lambda: sheet.get(cell, sheet=tab or None, at=at))


@put("/cells/{cell:str}", opt={"action": "write"}, responses=PROBLEMS, summary="Write one cell")
async def write_cell(
    service: Served,
    turns: Turns,
    sheet: Opened,
    signer: Signer,
    cell: Name,
    data: JSONBody[NewText],
    tab: Text = "",
) -> Any:
    """Open pages show the change at once."""

    def change() -> SheetChange:
        return sheet.set(cell, data.content, sheet=tab or None, author=signer)

    return announce(service, turns, sheet, await compute(turns, sheet, change))


@writing("/rows", summary="Insert empty rows")
async def insert_rows(
    service: Served, turns: Turns, sheet: Opened, signer: Signer, data: JSONBody[NewRows], tab: Text = ""
) -> Any:
    """The engine adjusts references in formulas."""

    def change() -> SheetChange:
        return sheet.insert_rows(data.row, data.count, sheet=tab or None, author=signer)

    return announce(service, turns, sheet, await compute(turns, sheet, change))


@computing("/changes", summary="The cells that differ between two versions")
async def changes(turns: Turns, sheet: Opened, source: Version, target: Version) -> Any:
    """For each cell, the list has the content in both versions."""
    return await compute(turns, sheet, lambda: sheet.changes(source, target))


@computing("/moves", summary="How cells moved between two versions")
async def moves(turns: Turns, sheet: Opened, source: Version, target: Version, hash: Text = "") -> Any:
    """The response has commands of the engine that move cells from their positions in ``source`` to ``target``.

    After a restore, a browser moves its pending changes by these commands. Answers 409 with the code `version-lost` if
    the sheet has no version ``source`` of this ``hash``.
    """

    def find() -> list[dict[str, Any]]:
        check_standing(sheet.log, sheet.version, Standing(source, hash))
        return sheet.comparison.moves(source, min(target, sheet.version))

    return await compute(turns, sheet, find)


@computing("/blame", summary="The changes of one cell")
async def blame(turns: Turns, sheet: Opened, cell: Key, tab: Text = "", limit: Count = 100, at: At = None) -> Any:
    """The list has the author, time, old and new content of each change, newest first. The list follows the cell
    through inserted and removed rows and columns. With ``at``, ``cell`` is a name in version ``at``, and the list has
    no later changes.
    """
    return await compute(turns, sheet, lambda: sheet.blame(cell, sheet=tab or None, limit=limit, at=at))


@reading("/activity", opt={"action": "read"}, summary="The changes of a sheet and their authors")
def activity(sheet: Opened, before: At = None, limit: Count = 50) -> Any:
    """The newest change is first. With ``before``, the list has only changes before that version."""
    return sheet.activity(before, limit)


@reading("/versions", opt={"action": "read"}, summary="The versions that have a name")
def versions(sheet: Opened) -> Any:
    """A later name of a version replaces its earlier name."""
    return sheet.versions()


@writing("/versions", summary="Name a version")
async def name_version(service: Served, turns: Turns, sheet: Opened, signer: Signer, data: JSONBody[Moment]) -> Any:
    """The name is committed as an entry."""
    return await commit(service, turns, sheet, lambda: sheet.name_version(data.version, data.label, author=signer))


@writing("/restore", summary="Restore a version")
async def restore(service: Served, turns: Turns, sheet: Opened, signer: Signer, data: JSONBody[Moment]) -> Any:
    """The state becomes a new version. All versions stay. Works even if no engine can open the newest version."""
    done = await compute(turns, sheet, lambda: sheet.restore(data.version, author=signer))
    return announce(service, turns, sheet, done)


@post("/fork", opt={"action": "read"}, status_code=201, responses=PROBLEMS, summary="Copy a version to a new sheet")
async def fork(
    request: Asked, service: Served, sheet: Opened, organisation: Name, signer: Signer, data: JSONBody[NewFork]
) -> Facts:
    """The new sheet is in the same organisation, and shares the history up to that version."""
    await service.permit(request.user, "create", organisation, data.name)

    def run() -> Facts:
        return facts_of(request.user, sheet.fork(data.version, data.name, title=data.title, author=signer))

    return await service.run(run)


@computing("/refused", summary="The committed commands that the engine cannot execute")
async def refused(turns: Turns, sheet: Opened, at: At = None) -> Any:
    """Each command is listed with its version, its author, its content and the engine's reason.

    The list has only commands of the messages that a load of version ``at`` contains.
    """
    return await compute(turns, sheet, lambda: sheet.refused(at))


ALL = [listing]
SHEET_HANDLERS = [
    create, show, rename, remove, load, entries, append, state, read_cell, write_cell, insert_rows,
    changes, moves, blame, activity, versions, name_version, restore, fork, refused, *FILE_HANDLERS,
]  # fmt: skip


def application(
    authenticate: Authenticate | None = None,
    authorize: Authorize | None = None,
    *,
    engines: EngineSettings | None = None,
    **options: Any,
) -> Application:
    """Return the spreadsheet as an application: its page at `/web/sheet/`, and its routes.

    ``engines`` limits the engines; ``options`` are further fields of `Application`. Maintenance saves due snapshots.
    """
    warm = WarmSheets(engines)

    def sheets(service: Served) -> Sheets:
        return warm.sheets(service.store)

    dependencies = {
        "sheets": Provide(sheets, sync_to_thread=True),
        "signer": Provide(signer_of, sync_to_thread=False),
        "turns": Provide(lambda: warm.turns, sync_to_thread=False),
    }
    opened = {"sheet": Provide(opened_sheet, sync_to_thread=True)}
    sheet_router = Router("/{log:str}", route_handlers=SHEET_HANDLERS, dependencies=opened)
    return Application(
        authenticate=authenticate,
        authorize=authorize,
        maintenance=[snapshots_due],
        running=[warm.running],
        routes=[
            Router(PREFIX + "/sheets", route_handlers=[*ALL, sheet_router], dependencies=dependencies, tags=["sheets"]),
            page_files(),
        ],
        **options,
    )


app = application()
"""The application of `stratalog serve stratalog_sheet.http:app`. Every user of this machine may change every sheet."""
