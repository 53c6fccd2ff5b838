"""Files of a sheet: the imported file, and exports of any version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stratalog import Log
from stratalog.errors import NotFound, VersionForgotten
from stratalog_sheet.csv_files import write_csv
from stratalog_sheet.events import Fact, Imported, fact_of
from stratalog_sheet.file_reports import FileReport, report_in
from stratalog_sheet.formulas import COLUMNS_MAX, ROWS_MAX
from stratalog_sheet.limits import SHEET_REPORT_CELLS_MAX
from stratalog_sheet.tabs import tab_id
from stratalog_sheet.xlsx_export import write_workbook

__all__ = ["SheetFiles"]


class SheetFiles:
    """The files of one sheet. ``query`` calls an engine on a version."""

    def __init__(self, log: Log, query: Callable[..., Any]) -> None:
        self._log = log
        self._query = query

    def original(self) -> tuple[str, bytes]:
        """Return the name and bytes of the imported file. Raises NotFound for a sheet that was created empty.

        Raises VersionForgotten once the log has forgotten its first entry, which has the file.
        """
        fact = self._first()
        if not isinstance(fact, Imported):
            raise NotFound("the sheet was not made from a file", sheet=self._log.record.name)
        return fact.file_name, fact.xlsx

    def import_report(self) -> FileReport:
        """Return the losses of the import; an empty report for a sheet that was created empty.

        Raises VersionForgotten once the log has forgotten its first entry, which has the report.
        """
        fact = self._first()
        return report_in(fact.report) if isinstance(fact, Imported) else FileReport()

    def _first(self) -> Fact:
        try:
            return fact_of(self._log.entry(1))
        except VersionForgotten as exc:
            text = "the sheet no longer keeps its first version, which may have the imported file"
            raise VersionForgotten(text, sheet=self._log.record.name, version=1, floor=self._log.floor()) from exc

    def export(self, at: int | None = None) -> tuple[bytes, FileReport]:
        """Return a version as an .xlsx workbook, and the losses of the export."""
        bounds = {"limit": SHEET_REPORT_CELLS_MAX, "columns": COLUMNS_MAX, "rows": ROWS_MAX}
        return write_workbook(self._query(at, "exportXlsx", **bounds))

    def csv(self, *, sheet: str | None = None, at: int | None = None) -> bytes:
        """Return one of the workbook's sheets as CSV in UTF-8. Raises NotFound.

        The file has values without formulas and formats, but dates and times have their formats.
        """
        return write_csv(self._query(at, "values", sheet=tab_id(self._query(at, "sheets"), sheet)))
