"""The spreadsheet: seed 004 as a program. A sheet is a log of an engine's revisions; the engine's model is its state.

General layout
--------------
sheets      the sheets of a store                      sheet · answers     one sheet: follow, look, change, keep
events      what entries say, and which messages may   window      which message may come next
story       a kept state and the messages after it     state       the engine's state, cut into parts
models      models that are open in an engine          history · blame · moves     what the entries say of the past
engine      o-spreadsheet in a process of its own      engine_process      that process's program
bounds      how far a message's numbers may reach
pool        the engines of this process                unopenable  versions that engines failed at
place       where the engine's files come from
xlsx        workbooks as archives                      cells       names of cells
titles      what a sheet is called                     settings    how far undo reaches, what engines may take
http · wire · pages     what browsers are served            warm        what a server keeps of its sheets

`docs/concepts/sheet.md` tells how it works, `formats/sheet.md` what is stored.
"""

from stratalog.apps.sheet.answers import Cell, Loaded, Since
from stratalog.apps.sheet.blame import CellHistory
from stratalog.apps.sheet.engine import Engine
from stratalog.apps.sheet.events import Change
from stratalog.apps.sheet.history import Activity, CellChange, NamedVersion
from stratalog.apps.sheet.pool import EnginePool
from stratalog.apps.sheet.settings import EngineSettings, SheetSettings
from stratalog.apps.sheet.sheet import Sheet
from stratalog.apps.sheet.sheets import SheetInfo, Sheets, snapshots_due

__all__ = [
    "Activity",
    "Cell",
    "CellChange",
    "CellHistory",
    "Change",
    "Engine",
    "EnginePool",
    "EngineSettings",
    "Loaded",
    "NamedVersion",
    "Sheet",
    "SheetInfo",
    "SheetSettings",
    "Sheets",
    "Since",
    "snapshots_due",
]
