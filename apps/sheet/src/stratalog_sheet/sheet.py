"""Sheet: the handle of one spreadsheet. A handle changes the spreadsheet and reads any version."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

import msgspec

from stratalog import Log, Store, VersionConflict, VersionForgotten
from stratalog.clock import new_id
from stratalog.errors import Conflict, ContentionError, Invalid, NotFound, StratalogError
from stratalog.process_fork import close_in_child
from stratalog.struct_types import resolved
from stratalog_sheet import history
from stratalog_sheet.answers import Cell, Loaded, Since
from stratalog_sheet.blame import Blame, CellHistory
from stratalog_sheet.bounds import check_added_rows
from stratalog_sheet.branches import ANYWHERE, Standing, check_standing
from stratalog_sheet.cells import parse_cell
from stratalog_sheet.comparison import CellChange, Comparison
from stratalog_sheet.events import (
    MESSAGES,
    Fact,
    Forked,
    Named,
    Renamed,
    Restored,
    Revision,
    SheetChange,
    change_of,
    changes_within,
    check_message,
    check_text,
    check_title,
    event_of,
)
from stratalog_sheet.limits import SHEET_ATTEMPTS_MAX, SHEET_BEHIND_BYTES_MAX, SHEET_BEHIND_ENTRIES_MAX
from stratalog_sheet.load_plan import LoadPlans, with_revision
from stratalog_sheet.models import Model, Models
from stratalog_sheet.moves import Spot
from stratalog_sheet.pool import EnginePool
from stratalog_sheet.refusals import RefusedCommand, refused_commands
from stratalog_sheet.restored_state import RestoredState
from stratalog_sheet.retention import check_retained
from stratalog_sheet.settings import SheetSettings
from stratalog_sheet.sheet_files import SheetFiles
from stratalog_sheet.snapshot_versions import save_due_snapshot
from stratalog_sheet.state import BLANK
from stratalog_sheet.tabs import engine_refusal, tab_id, tab_not_found
from stratalog_sheet.titles import Titles
from stratalog_sheet.window import Window, fresh_window

__all__ = ["Sheet"]

REVISION_CHARACTERS = 16
NO_CHANGES = "NoChanges"
COMPLETE_STATE_TYPES = ("created", "imported", "restored")


class Sheet:
    """One spreadsheet: a log of the engine's revisions, and the state of this log. Safe to share between threads.

    A cell has a name such as ``B7``. ``sheet`` is the name or id of a sheet of the workbook; None means the first one.
    ``owner`` is the key of the sheet's models in the engines; the default is the log's prefix.
    """

    def __init__(self, store: Store, log: Log, engines: EnginePool, settings: SheetSettings, owner: str = "") -> None:
        self.log = log
        self._owner = owner or log.record.prefix
        self._store = store
        self._engines = engines
        self._settings = settings
        self._load_plans = LoadPlans(log, self.state, settings.undo_entries)
        self._turn = threading.Lock()
        close_in_child(self, "_turn")
        self._window: Window | None = None
        self._titles = Titles(log)
        self._labels = history.Labels(log)

    def __repr__(self) -> str:
        return f"<Sheet {self.organisation}/{self.name}>"

    @property
    def organisation(self) -> str:
        """The organisation that owns the sheet."""
        return self.log.record.organisation

    @property
    def name(self) -> str:
        """The sheet's id, unique in its organisation."""
        return self.log.record.name

    @property
    def title(self) -> str:
        """The present title, read now."""
        return self.title_at(self.version)

    @property
    def version(self) -> int:
        """The newest version, read now."""
        return self.log.head().version

    def title_at(self, version: int) -> str:
        """Return the title at a version, or the sheet's name if the version has no title."""
        return (self._titles.at(version) if version else "") or self.name

    # Following

    def load(self, at: int | None = None) -> Loaded:
        """Return the base state and entries that a reader needs for a version and for later undos: the load plan."""
        load_plan = self._load_plans.plan(self._version(at))
        base = load_plan.base
        return Loaded(load_plan.version, base.version, base.revision, base.data, [*map(change_of, load_plan.entries)])

    def since(self, version: int, hash: str = "") -> Since:
        """Return the entries after ``version``. Raises VersionLost if the log has no ``version`` of this ``hash``."""
        head = self.log.head()
        is_near = head.version - version <= SHEET_BEHIND_ENTRIES_MAX
        try:
            check_standing(self.log, head.version, Standing(version, hash))
            self.log.note_hash(head.version, head.hash)  # the check in the reader's next call then needs no read
            changes = changes_within(self.log.read(version, head=head), SHEET_BEHIND_BYTES_MAX) if is_near else None
        except VersionForgotten:
            changes = None
        must_reload = changes is None or any(change.type in COMPLETE_STATE_TYPES for change in changes)
        return Since(head.version, changes or [], must_reload)

    def append(self, message: dict[str, Any], *, author: str = "", reader: Standing = ANYWHERE) -> SheetChange:
        """Commit one complete message of the engine: a revision, undo or redo. ``reader`` is the sender's version.

        The message must be based on the present revision. For a repetition within `SheetSettings.undo_entries` entries,
        without a restore in between, return the first commit. Raises VersionConflict for another base. The sender reads
        `since`, rebases the message and sends it again. Raises VersionLost or VersionForgotten if the log no longer has
        the reader's version, LimitExceeded for a large message or an undo that reaches too far back, and Invalid. After
        these errors, the log is unchanged. Raises the errors of `Log.append`.
        """
        checked = check_message(message)

        def plan(window: Window) -> Fact | int:
            if (position := window.version_of(checked["nextRevisionId"])) is not None:
                return position
            window.check_revision(self.name, checked["serverRevisionId"], reader, self.log)
            return Revision(checked, window.check_target(checked))

        return self._commit(plan, author, write_id=checked["nextRevisionId"])

    # Reading

    def state(self, at: int | None = None) -> bytes:
        """Return the engine's JSON of a version; None means the newest version."""
        version = self._version(at)
        if (saved_state := self._load_plans.snapshot_state(version)) is not None:
            return saved_state
        with self._lent() as models:
            return models.raw(self._model(models, version), "export")

    def sheets(self, at: int | None = None) -> list[dict[str, Any]]:
        """Return the workbook's sheets in order, each with its id, name, rows and cols."""
        return msgspec.convert(self._query(at, "sheets"), list[dict[str, Any]])

    def get(self, cell: str, *, sheet: str | None = None, at: int | None = None) -> Cell:
        """Return one cell at a version, with its value. Raises Invalid, and NotFound for a missing sheet or version."""
        column, row = parse_cell(cell)
        if (content := self._query(at, "cell", sheet=sheet, col=column, row=row)) is None:
            raise tab_not_found(self.sheets(at), sheet)
        return msgspec.convert(content, resolved(Cell))

    def refused(self, at: int | None = None) -> list[RefusedCommand]:
        """Return the commands of a version's load plan that the engine cannot execute. They do not change the state."""
        return refused_commands(self.load(at), self._query(at, "refused"))

    @property
    def files(self) -> SheetFiles:
        """The imported file, and exports of any version."""
        return SheetFiles(self.log, self._query)

    def export(self, at: int | None = None) -> bytes:
        """Return a version as an .xlsx workbook. The engine's output is repaired so that other programs open it."""
        return self.files.export(at)[0]

    def original(self) -> tuple[str, bytes]:
        """Return the name and bytes of the imported file. Raises NotFound for a sheet that was created empty."""
        return self.files.original()

    # Changing

    def set(self, cell: str, content: str, *, sheet: str | None = None, author: str = "") -> SheetChange:
        """Write ``content`` into one cell as if a user typed it. Open pages show the change without a reload."""
        column, row = parse_cell(cell)
        return self._dispatch({"type": "UPDATE_CELL", "col": column, "row": row, "content": content}, sheet, author)

    def insert_rows(self, row: int, count: int = 1, *, sheet: str | None = None, author: str = "") -> SheetChange:
        """Insert empty rows before row ``row``, counted from 1, and adapt formulas. Raises LimitExceeded, Invalid."""
        check_added_rows(row, count)
        where = {"dimension": "ROW", "base": row - 1, "quantity": count, "position": "before"}
        return self._dispatch({"type": "ADD_COLUMNS_ROWS", **where}, sheet, author)

    def rename(self, title: str, *, author: str = "") -> SheetChange:
        """Change the sheet's title. Open pages show the new title without a reload. An unchanged title adds no version.

        The sheet's name in addresses does not change. Raises LimitExceeded, and Invalid for an empty title.
        """
        wanted = check_title(title)

        def plan(window: Window) -> Fact | int:
            before = self.title_at(window.version)
            return window.version if before == wanted else Renamed(wanted, before)

        with self._turn:
            self._catch_up()  # compare with the newest title, because a stale title could drop this rename
        return self._commit(plan, author)

    def delete(self) -> None:
        """Delete the sheet with all its versions. Its forks keep their history, and its name may be used again.

        Every later call raises NotFound.
        """
        self._store.delete_log(self.log)

    def name_version(self, version: int, label: str, *, author: str = "") -> SheetChange:
        """Give a version a label. An empty label removes the present label. Raises NotFound, LimitExceeded, Invalid."""
        fact = Named(check_retained(self.log, self._version(version)), check_text(label, "label"))
        return self._commit(lambda window: fact, author)

    def restore(self, version: int, *, author: str = "") -> SheetChange:
        """Restore the state of a version as a new entry.

        Readers then load the sheet again, and users can no longer undo earlier edits. No other version is opened.
        Raises NotFound, Unavailable if no engine is free, LimitExceeded if engines cannot open ``version`` or a part of
        its state is too large to save. Also raises the errors of `Log.prepare_snapshot` and `Log.append`.
        """
        wanted = check_retained(self.log, self._version(version))
        self._engines.unopenable.check(self._owner, wanted)
        revision = new_id(self.log.environment.clock, REVISION_CHARACTERS)
        # The entry is committed together with its state, because the log may forget ``wanted`` after the commit.
        state = RestoredState(self.log, self._titles, with_revision(self.state(wanted), revision))
        return self._commit(lambda window: Restored(wanted, window.revision, revision), author, state=state)

    def fork(self, version: int, name: str, *, title: str = "", author: str = "") -> Sheet:
        """Return a new sheet of the same organisation that shares this sheet's history up to ``version``.

        Raises NotFound, and Conflict if the name is taken or ``version`` belongs to the deleted source of this sheet.
        """
        check_text(title, "title")
        at = self._version(version)
        try:
            log = self._store.fork_log(self.log, name, at)
        except NotFound as exc:
            if at >= self.log.first or isinstance(exc, VersionForgotten):
                raise
            self.log.head()  # raises NotFound if this sheet itself was deleted meanwhile
            raise Conflict("the version belongs to a deleted sheet; copy a later version", version=at) from exc
        made = Sheet(self._store, log, self._engines, self._settings)
        fact = Forked(title or f"{self.title} (copy)", self.name, at)
        made.log.append(event_of(fact), expected=at, author=author)
        return made

    # History

    def changes(self, source: int, target: int) -> list[CellChange]:
        """Return the cells whose content differs between two versions; see `Comparison.between`."""
        return self.comparison.between(self._version(source), self._version(target))

    @property
    def comparison(self) -> Comparison:
        """The comparison of existing versions: the cells that differ, and how rows and columns moved."""
        return Comparison(self.log, self._load_plans, self._executed, self.state)

    def blame(
        self, cell: str, *, sheet: str | None = None, limit: int = 100, at: int | None = None
    ) -> list[CellHistory]:
        """Return the changes of the cell that has this name at version ``at``, newest first. See `Blame`."""
        spot = Spot(tab_id(self.sheets(at), sheet), parse_cell(cell))
        return Blame(self.log, self._executed, self.state, at).of(spot)[:limit]

    def activity(self, before: int | None = None, limit: int = 50) -> list[history.Activity]:
        """Return descriptions of at most ``limit`` entries below the version ``before``, newest first."""
        return history.activity(self.log, before, limit)

    def versions(self) -> list[history.NamedVersion]:
        """Return the labelled versions, in order."""
        return self._labels.read()

    # Snapshots

    def snapshot_due(self) -> int | None:
        """Save a snapshot if one is due, and return its version; else return None.

        Call this method until it returns None, in one or more processes. Raises LimitExceeded if no due version opens.
        """
        return save_due_snapshot(self.log, self._settings, self._titles, self.state)

    # The state of this process

    def _commit(
        self,
        plan: Callable[[Window], Fact | int],
        author: str,
        write_id: str | None = None,
        state: RestoredState | None = None,
    ) -> SheetChange:
        """Append the fact that ``plan`` returns, with retries; append nothing if ``plan`` returns a version instead."""
        with self._turn:
            if self._window is not None:
                with suppress(VersionConflict):  # the cached window may be stale: plan again from a fresh window
                    return self._append(plan(self._window), self._window, author, write_id, state)
            for _ in range(SHEET_ATTEMPTS_MAX):
                with self.log.turn():
                    window = self._catch_up()
                    fact = plan(window)  # a conflict that `plan` raises is final, because the window is fresh
                    with suppress(VersionConflict):
                        return self._append(fact, window, author, write_id, state)
        raise ContentionError("other writers kept changing the sheet first", sheet=self.name)

    def _append(
        self, fact: Fact | int, window: Window, author: str, write_id: str | None, state: RestoredState | None
    ) -> SheetChange:
        if isinstance(fact, int):
            return change_of(self.log.entry(fact))
        if isinstance(fact, Revision | Restored | Named):
            fact = msgspec.structs.replace(fact, titled=window.titled)
        at = window.version
        snapshot = state.snapshot_after(at) if state else None
        entry = self.log.append(event_of(fact), expected=at, author=author, write_id=write_id, snapshot=snapshot)
        window.follow([entry])
        return change_of(entry)

    def _catch_up(self) -> Window:
        """Read the new entries of the log, and return the window at the newest version."""
        window, self._window = self._window, None
        if window is not None:
            with suppress(VersionForgotten):  # the floor rose above the window
                window.follow(self.log.read(window.version))
                self._window = window
        if self._window is None:
            self._window = fresh_window(self.log, self._settings.undo_entries, self._load_plans.revision_at)
        return self._window

    def _dispatch(self, command: dict[str, Any], sheet: str | None, author: str) -> SheetChange:
        """Have the engine make a message of a command at the head, and commit the message."""
        for _ in range(SHEET_ATTEMPTS_MAX):
            with self._lent() as models:
                change = self._dispatched(models, command, sheet, author)
            if change is not None:
                return change
        raise ContentionError("other writers kept changing the sheet first", sheet=self.name)

    def _dispatched(
        self, models: Models, command: dict[str, Any], sheet: str | None, author: str
    ) -> SheetChange | None:
        """Try `_dispatch` once. Return None if another commit came first."""
        model = self._model(models, self.version)
        answer = models.engine.call("dispatch", key=model.key, sheet=sheet, command=command)
        if reasons := [reason for reason in answer["refused"] if reason != NO_CHANGES]:
            raise engine_refusal(reasons, models.query(model, "sheets"), sheet)
        message = next((candidate for candidate in answer["messages"] if candidate["type"] in MESSAGES), None)
        if message is None:
            return change_of(self.log.entry(model.version))
        try:
            change = self.append(message, author=author)
        except VersionConflict:
            models.drop(model)
            return None
        except BaseException:
            models.drop(model)
            raise
        with suppress(StratalogError):  # the message is committed, and after an error `confirm` drops the model
            models.confirm(model, message, change.version)
        return change

    def _executed(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the effective commands of messages (see `Blame`). Each message is based on the previous message."""
        start = with_revision(msgspec.json.encode(BLANK), messages[0]["serverRevisionId"])
        executed = self._engines.call("executed", data=start, messages=messages, client="none")
        return msgspec.convert(executed, list[dict[str, Any]])

    def _query(self, at: int | None, name: str, **arguments: Any) -> Any:
        version = self._version(at)
        with self._lent() as models:
            return models.query(self._model(models, version), name, **arguments)

    def _lent(self) -> AbstractContextManager[Models]:
        return self._engines.lend(self._owner)

    def _model(self, models: Models, version: int) -> Model:
        return models.at(self._owner, self._load_plans, self.log, version)

    def _version(self, at: int | None) -> int:
        """Return ``at`` if the version exists; the newest version for None. Raises NotFound, Invalid."""
        head = self.log.head().version
        if at is None:
            return head
        if type(at) is not int or at < 0:
            raise Invalid("a version must be a whole number", value=at)
        if not 0 < at <= head:
            raise NotFound("version not found", sheet=self.name, version=at, head=head)
        return at
