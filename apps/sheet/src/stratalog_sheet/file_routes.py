"""The routes of files: the import, the exports and their reports."""

from __future__ import annotations

from litestar import Response, post

from stratalog.server import PROBLEMS, At, Name, Text, bytes_of, reading
from stratalog_sheet.commits import compute
from stratalog_sheet.file_reports import FileReport
from stratalog_sheet.file_responses import CSV, XLSX, file_response
from stratalog_sheet.files import import_bytes
from stratalog_sheet.route_parts import Asked, Opened, Signer, Turns, Warm, computing
from stratalog_sheet.wire import Facts, facts_of

__all__ = ["FILE_HANDLERS"]


@post("/import", opt={"action": "create"}, status_code=201, responses=PROBLEMS, summary="Create a sheet from a file")
async def import_file(
    request: Asked,
    sheets: Warm,
    turns: Turns,
    organisation: Name,
    log: Name,
    signer: Signer,
    file: Text = "",
    title: Text = "",
) -> Facts:
    """The body is the file. It is CSV if the name ``file`` ends in .csv and the body is no archive, else .xlsx.

    The sheet stores the file unchanged.
    Answers 422 if the file has too many cells for a browser. `import-report` lists the parts that were not imported.
    """
    xlsx = await request.body()
    # A small file may be large once unpacked. So before unpacking, reserve memory for each copy of the unpacked bytes.
    await bytes_of(request.scope).take_decoded(import_bytes(xlsx))

    def run() -> Facts:
        made = sheets.import_file(organisation, log, xlsx, file_name=file, title=title, author=signer)
        return facts_of(request.user, made)

    return await turns.run((organisation, log), run)


@computing("/export.xlsx", media_type=XLSX, summary="A version as .xlsx")
async def export(turns: Turns, sheet: Opened, at: At = None) -> Response[bytes]:
    """The server repairs the engine's file so that other programs can open the file."""
    body, title = await compute(turns, sheet, lambda: (sheet.export(at), sheet.title))
    return file_response(body, f"{title}.xlsx")


@computing("/export-report", summary="The parts that an export cannot hold")
async def export_report(turns: Turns, sheet: Opened, at: At = None) -> FileReport:
    """The response lists the parts of a version that an .xlsx file cannot contain. It does not have the file itself."""
    return await compute(turns, sheet, lambda: sheet.files.export(at)[1])


@computing("/export.csv", media_type=CSV, summary="A sheet of a version as CSV")
async def export_csv(turns: Turns, sheet: Opened, tab: Text = "", at: At = None) -> Response[bytes]:
    """The file has the values of the workbook's sheet ``tab``; the default is the first sheet."""
    body, title = await compute(turns, sheet, lambda: (sheet.files.csv(sheet=tab or None, at=at), sheet.title))
    return file_response(body, f"{title}.csv")


@reading("/import-report", opt={"action": "read"}, summary="The parts that an import lost")
def import_report(sheet: Opened) -> FileReport:
    """The response lists the parts of the file that the import lost. A sheet that was created empty has no findings."""
    return sheet.files.import_report()


@reading("/original.xlsx", opt={"action": "read"}, media_type=XLSX, summary="The file that a sheet was made of")
def original(sheet: Opened) -> Response[bytes]:
    """The file is unchanged. Answers 404 if the sheet was created empty."""
    file_name, body = sheet.original()
    return file_response(body, file_name or f"{sheet.name}.xlsx")


FILE_HANDLERS = [import_file, export, export_report, export_csv, import_report, original]
