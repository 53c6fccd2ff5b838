"""Sheets: creates, imports, opens and lists the spreadsheets of a store."""

from __future__ import annotations

import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import msgspec

from stratalog import Log, Store
from stratalog.clock import new_id
from stratalog.errors import (
    Conflict,
    Corrupt,
    Invalid,
    LimitExceeded,
    NotFound,
    StratalogError,
    Unavailable,
    VersionConflict,
)
from stratalog.limits import DOCUMENTS_HELD_MAX
from stratalog.process_fork import close_in_child
from stratalog_sheet.events import UPCASTERS, Created, Fact, Imported, check_text, event_of
from stratalog_sheet.file_reports import FileFinding, FileReport, broken_formulas, other_values, unread_formats
from stratalog_sheet.files import read_file
from stratalog_sheet.limits import SHEET_CELLS_MAX, SHEET_REPORT_CELLS_MAX
from stratalog_sheet.load_plan import with_revision
from stratalog_sheet.models import LongOpening, until_opened
from stratalog_sheet.pool import EnginePool
from stratalog_sheet.settings import SheetSettings
from stratalog_sheet.sheet import REVISION_CHARACTERS, Sheet
from stratalog_sheet.state import BLANK, count_cells, split_state
from stratalog_sheet.workbook_names import BRACKET
from stratalog_sheet.xlsx_fallback import reduced
from stratalog_sheet.xlsx_import import Workbook

__all__ = ["KIND", "SheetInfo", "Sheets", "snapshots_due", "warn_of_damage"]

KIND = "sheet"
ENDING = re.compile(r"\.(?:xls[xm]|csv)\Z", re.IGNORECASE)
"""The extension of a file, in any letter case. The title of the imported sheet omits the extension."""

_log = logging.getLogger("stratalog.sheet")


def _raise(error: Corrupt) -> NoReturn:
    raise error


def warn_of_damage(error: Corrupt) -> None:
    """Log a warning that a list leaves out a damaged sheet."""
    _log.warning("a damaged sheet or line of a list is left out: %s", error)


class SheetInfo(msgspec.Struct, frozen=True):
    """A sheet in the list of sheets."""

    name: str
    title: str
    version: int
    created_ms: int
    changed_ms: int
    incarnation: str


class Sheets:
    """The spreadsheets of a store, and the engines of this process. Safe to share between threads.

    Engines are child processes that start on first use. `close` ends the engines.
    """

    def __init__(self, store: Store, engines: EnginePool | None = None, settings: SheetSettings | None = None) -> None:
        self.store = store
        self.settings = settings or SheetSettings()
        self.engines = engines or EnginePool()
        self._held: OrderedDict[tuple[str, str], Sheet] = OrderedDict()
        self._owners: dict[str, str] = {}
        self._lock = threading.Lock()
        close_in_child(self, "_lock")

    def create(self, organisation: str, name: str, *, title: str = "", author: str = "") -> Sheet:
        """Create an empty sheet. Raises Conflict if the name is taken."""
        revision = self._new_revision()
        data = msgspec.json.encode({**BLANK, "revisionId": revision})
        return self._make(organisation, name, Created(check_text(title, "title"), revision, data), author)

    def import_file(
        self, organisation: str, name: str, xlsx: bytes, *, file_name: str = "", title: str = "", author: str = ""
    ) -> Sheet:
        """Create a sheet from a workbook or a .csv file. The sheet stores the file; `Sheet.files` reports losses.

        Raises Conflict if the name is taken, and Invalid for another kind of file or a file that the engine refuses.
        Raises LimitExceeded for a file that is too large, or for more than `SHEET_CELLS_MAX` filled cells in the file
        (before the engine reads the file) or in the engine's state. Raises the other errors of `Engine.raw`.
        """
        check_text(title, "title")
        check_text(file_name, "file name")
        # Do not assign the workbook to a variable, which would keep its text in memory until the sheet is stored.
        data, report = self._converted(read_file(file_name, xlsx))
        _check_cells(count_cells(data))
        revision = self._new_revision()
        data = with_revision(data, revision)
        title = title or ENDING.sub("", file_name)
        fact = Imported(title, revision, data, file_name, xlsx, report)
        made = self._make(organisation, name, fact, author)
        with suppress(StratalogError):  # the entry is committed, and a later snapshot saves the state
            made.log.save_snapshot(1, split_state(data, fact.title))
        return made

    def open(self, organisation: str, name: str) -> Sheet:
        """Return the sheet of that name. Raises NotFound, and Invalid if the log of that name is not a sheet."""
        log = self.store.log(organisation, name, upcasters=UPCASTERS, noun="sheet")
        if log.record.kind != KIND:
            raise Invalid("the log is not a sheet", organisation=organisation, name=name)
        with self._lock:
            known = self._held.get((organisation, name))
            is_same = known is not None and known.log.record.incarnation == log.record.incarnation
            if known is not None and is_same and known.log.is_lost:
                # The engines have models of the lost history. With a new owner key, the sheet uses new models.
                self._owners[log.record.prefix] = f"{log.record.prefix} {new_id(self.store.environment.clock)}"
            elif known is not None and is_same:
                self._held.move_to_end((organisation, name))
                return known
            owner = self._owners.get(log.record.prefix, "")
        return self._remember(Sheet(self.store, log, self.engines, self.settings, owner))

    def list(self, organisation: str, *, damaged: Callable[[Corrupt], object] = _raise) -> Iterator[SheetInfo]:
        """Yield the organisation's sheets in order of name. The method opens each sheet.

        ``damaged`` is called with the error of each damaged sheet or line of the list. Without ``damaged``, the list
        raises this error.
        """
        for listing in self.store.list(organisation, damaged=damaged):
            if listing.kind != KIND:
                continue
            with suppress(NotFound), _naming(damaged):  # not found: deleted meanwhile, or not fully created
                sheet = self.open(organisation, listing.id)
                head = sheet.log.head()
                if head.version:
                    title = sheet.title_at(head.version)
                    incarnation = sheet.log.record.incarnation
                    yield SheetInfo(listing.id, title, head.version, listing.created_ms, head.created_ms, incarnation)

    def snapshots_due(self, organisation: str, *, damaged: Callable[[Corrupt], object] = warn_of_damage) -> int:
        """Save the due snapshots of an organisation's sheets, and return their number.

        Skip a sheet that engines cannot open. ``damaged`` is called as by `list`. Without ``damaged``, log a warning.
        """
        saved = 0
        for listing in self.store.list(organisation, damaged=damaged):
            if listing.kind == KIND:
                with _naming(damaged):
                    saved += self._save_due(organisation, listing.id)
        return saved

    def _converted(self, workbook: Workbook) -> tuple[bytes, bytes]:
        """Return the engine's JSON of a workbook, and the report as JSON; the report is empty without findings."""
        _check_cells(workbook.cells)
        key = new_id(self.store.environment.clock)
        with self.engines.lend(key) as models:
            data, taken = _imported(models.engine, key, workbook)
            findings = list(taken.report.findings)
            findings += unread_formats(models.engine.call("unreadFormats", formats=[*taken.formats]), taken.formats)
            limits = {"key": key, "limit": SHEET_REPORT_CELLS_MAX}
            try:
                findings += broken_formulas(models.engine.call("brokenFormulas", **limits))
                findings += other_values(models.engine.call("otherValues", **limits, values=taken.values))
                models.engine.call("close", key=key)
            except (LimitExceeded, Unavailable):  # the report is optional: import the sheet without these findings
                findings.append(FileFinding("formula-unchecked", "the formulas take too long to be checked", 1))
        return data.replace(BRACKET.encode(), b"["), msgspec.json.encode(FileReport(findings)) if findings else b""

    def _save_due(self, organisation: str, name: str) -> int:
        """Save the due snapshots of one sheet. If engines cannot open the sheet, log a warning and skip the sheet."""
        saved = 0
        try:
            sheet = self.open(organisation, name)
            while until_opened(sheet.snapshot_due) is not None:
                saved += 1
        except NotFound:
            pass
        except (LimitExceeded, Invalid, Unavailable) as exc:
            if isinstance(exc, Unavailable) and not (isinstance(exc, LongOpening) or "ended_by" in exc.details):
                raise  # the error concerns all sheets: an engine does not start, or the store cannot be read
            _log.warning("the state of a sheet could not be saved: %s/%s", organisation, name, exc_info=True)
        return saved

    def close(self) -> None:
        """End the engines."""
        self.engines.close()

    def _make(self, organisation: str, name: str, fact: Fact, author: str) -> Sheet:
        """Create a log and append its first entry. Reuse a log without entries, because its creator may have died."""
        try:
            log = self.store.create_log(organisation, name, KIND, upcasters=UPCASTERS)
        except Conflict:
            unfinished = self._unfinished(organisation, name)
            if unfinished is None:
                raise
            log = unfinished
        try:
            log.append(event_of(fact), expected=0, author=author)
        except VersionConflict as exc:
            raise Conflict("the name is in use", organisation=organisation, name=name) from exc
        return self._remember(Sheet(self.store, log, self.engines, self.settings))

    def _unfinished(self, organisation: str, name: str) -> Log | None:
        with suppress(NotFound):
            log = self.store.log(organisation, name, upcasters=UPCASTERS)
            if log.record.kind == KIND and not log.head().version:
                return log
        return None

    def _remember(self, sheet: Sheet) -> Sheet:
        with self._lock:
            self._held[sheet.organisation, sheet.name] = sheet
            if len(self._held) > DOCUMENTS_HELD_MAX:
                self._held.popitem(last=False)
        return sheet

    def _new_revision(self) -> str:
        return new_id(self.store.environment.clock, REVISION_CHARACTERS)


def snapshots_due(store: Store) -> None:
    """Save the due snapshots of all sheets in a store. `Application.maintenance` calls this function.

    The function skips a sheet that engines cannot open.
    """
    sheets = Sheets(store)
    try:
        for organisation in store.organisations(damaged=warn_of_damage):
            sheets.snapshots_due(organisation)
    finally:
        sheets.close()


@contextmanager
def _naming(damaged: Callable[[Corrupt], object]) -> Iterator[None]:
    try:
        yield
    except Corrupt as exc:
        damaged(exc)


def _check_cells(count: int) -> None:
    if count > SHEET_CELLS_MAX:
        text = "the workbook has too many cells for a browser"
        raise LimitExceeded(text, value=count, limit=SHEET_CELLS_MAX)


def _imported(engine: Any, key: str, workbook: Workbook) -> tuple[bytes, Workbook]:
    """Return the engine's JSON, and the workbook that the engine read: ``workbook``, or a reduced form of it.

    Raises Invalid if the engine refuses the workbook and every reduced form.
    """
    try:
        return engine.raw("importXlsx", key=key, files=workbook.files, client=key, names=workbook.names), workbook
    except Invalid:
        for less in reduced(workbook):
            with suppress(Invalid):
                return engine.raw("importXlsx", key=key, files=less.files, client=key, names=less.names), less
        raise
