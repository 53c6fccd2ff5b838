"""Files of a sheet: the one that it was made of, and those that its versions make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stratalog import Log
from stratalog.errors import NotFound
from stratalog_sheet.csv_files import write_csv
from stratalog_sheet.events import Imported, fact_of
from stratalog_sheet.file_reports import FileReport, report_in
from stratalog_sheet.xlsx_export import write_workbook

__all__ = ["SheetFiles"]


class SheetFiles:
    """The files of one sheet. ``query`` asks the engine about a version."""

    def __init__(self, log: Log, query: Callable[..., Any]) -> None:
        self._log = log
        self._query = query

    def original(self) -> tuple[str, bytes]:
        """The name and bytes of the file that the sheet was made of. Raises NotFound for one that began empty."""
        fact = fact_of(self._log.entry(1))
        if not isinstance(fact, Imported):
            raise NotFound("the sheet was made of no workbook", sheet=self._log.record.name)
        return fact.file_name, fact.xlsx

    def import_report(self) -> FileReport:
        """What of that file was not understood; an empty report for a sheet that was made of no file."""
        fact = fact_of(self._log.entry(1))
        return report_in(fact.report) if isinstance(fact, Imported) else FileReport()

    def export(self, at: int | None = None) -> tuple[bytes, FileReport]:
        """A version as an .xlsx workbook, and what of the version is not in it."""
        return write_workbook(self._query(at, "exportXlsx"))

    def csv(self, *, sheet: str | None = None, at: int | None = None) -> bytes:
        """One of the workbook's sheets as CSV in UTF-8: what its cells give, not their formulas or formats."""
        tabs = self._query(at, "sheets")
        wanted = next((tab["id"] for tab in tabs if sheet in (None, tab["id"], tab["name"])), None)
        if wanted is None:
            raise NotFound("the workbook has no such sheet", sheet=sheet)
        return write_csv(self._query(at, "values", sheet=wanted))
