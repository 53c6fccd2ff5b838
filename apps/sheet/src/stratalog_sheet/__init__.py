"""The spreadsheet application. Each sheet is a log, and most entries of the log are messages of the engine.

Modules
-------
sheets             the sheets of a store
sheet              the handle of one sheet
answers            results of a sheet's methods: a cell, a load, and the entries after a version
events             the events of a sheet's log, and the check of new messages
bounds             bounds on the numbers of a message
branches           the check for readers whose history the log has lost
window             the check whether a message may be committed next
load_plan          a base state and the messages after it
restored_state     the state that a restore commits together with its entry
retention          the entries that retention kept
refusals           committed commands that the engine cannot execute
snapshot_versions  the versions of app snapshots
state              the engine's state in parts
models             open models in an engine
engine             o-spreadsheet in a child process
engine_process     the program of that child process
engine_files       finds and fetches the engine's files
pool               the engines of this process
failed_versions    versions that an engine could not open
settings           settings of sheets and limits of engines
history            descriptions of entries, and labels of versions
comparison         the cells that differ between two versions, derived from entries
contents           contents of cells, followed without an engine
blame              the authors and changes of a cell
command_fields     the commands of the engine, and the types of their fields
writes             the ranges that commands write
moves              positions of cells in earlier versions
cells              names of cells
tabs               the sheets of a workbook
titles             the title of a sheet at any version
sheet_files        the imported file and the exports of a sheet
files              imported files: .xlsx or .csv
file_responses     files that a browser saves
file_reports       reports of the losses of an import or export
losses             the losses of an import that several places in the code report
xlsx_import        import: workbooks rewritten for the engine
xlsx_fallback      a refused workbook without the likely causes of the refusal
xlsx_archive       the parts of a workbook, unpacked piece by piece
xlsx_markup        the XML of a part, read and rewritten
xlsx_texts         the texts of cells, escaped for the engine
xlsx_parts         the workbook part, styles, strings, tables and relationships
xlsx_cells         worksheets
xlsx_rules         validations
sheet_names        the names of sheets that a file or the engine cannot contain, and their replacements
xlsx_numbers       numbers and stored values in the XML of worksheets
xlsx_losses        the features of workbooks that the engine does not read
empty_cells        worksheets without the empty cells and rows that many programs write
filled_cells       the filled cells of a worksheet, and its merges
number_formats     the codes of number formats, for the engine and for workbooks
array_ranges       the ranges of array formulas
array_formulas     whether an exported formula computes with each cell of a range
xlsx_export        export: the engine's output, repaired for other programs
xlsx_repair        worksheets and shared strings of an export
xlsx_figures       drawings and charts, of an import and of an export
workbook_names     defined names and tables, replaced in formulas
formulas           the tokens of a formula, its translation to another cell, and the limits of a file
csv_files          CSV
http               routes
file_routes        routes of imports, exports and their reports
route_parts        kinds of routes, and the values that a route gets
commits            commits of the routes, and their announcement
load_response      responses to a browser that loads a sheet
wire               request and response bodies of the routes
pages              the page and its files
warm_sheets        handles, engines and waiting requests of a server
limits             limits of spreadsheets
commands           the command `stratalog sheet`
serve              the command that serves spreadsheets

`docs/concepts/sheet.md` explains the design. `formats/sheet.md` describes the stored bytes.
"""

from stratalog_sheet.answers import Cell, Loaded, Since
from stratalog_sheet.blame import CellHistory
from stratalog_sheet.comparison import CellChange
from stratalog_sheet.engine import Engine
from stratalog_sheet.events import SheetChange
from stratalog_sheet.file_reports import FileFinding, FileReport
from stratalog_sheet.history import Activity, NamedVersion
from stratalog_sheet.pool import EnginePool
from stratalog_sheet.refusals import RefusedCommand
from stratalog_sheet.settings import EngineSettings, SheetSettings
from stratalog_sheet.sheet import Sheet
from stratalog_sheet.sheets import SheetInfo, Sheets, snapshots_due

__all__ = [
    "Activity",
    "Cell",
    "CellChange",
    "CellHistory",
    "Engine",
    "EnginePool",
    "EngineSettings",
    "FileFinding",
    "FileReport",
    "Loaded",
    "NamedVersion",
    "RefusedCommand",
    "Sheet",
    "SheetChange",
    "SheetInfo",
    "SheetSettings",
    "Sheets",
    "Since",
    "snapshots_due",
]
