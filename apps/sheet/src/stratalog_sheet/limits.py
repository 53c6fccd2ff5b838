"""Limits of spreadsheets, each with its unit in its name."""

from __future__ import annotations

# The maximum number of filled cells of an imported file. Browsers stay responsive up to about this number of cells.
SHEET_CELLS_MAX = 200_000
SHEET_XLSX_BYTES_MAX = 32 * 1024 * 1024
SHEET_XLSX_UNPACKED_BYTES_MAX = 256 * 1024 * 1024
SHEET_XLSX_FILES_MAX = 2000
SHEET_MESSAGE_BYTES_MAX = 4 * 1024 * 1024
SHEET_COMMANDS_MAX = 100_000
SHEET_TEXT_BYTES_MAX = 200
# Bounds on positions in a sheet and on the additions of one message. Without these bounds, one message could make a
# version that no engine can open. The engine opens a million rows in three seconds. It takes too long to open a million
# rows and a thousand columns.
SHEET_ROWS_MAX = 1_048_576
SHEET_COLUMNS_MAX = 18_278
SHEET_ROWS_ADDED_MAX = 20_000
SHEET_COLUMNS_ADDED_MAX = 500
SHEET_SHEETS_ADDED_MAX = 100
SHEET_SHEETS_COPIED_MAX = 5
# The maximum number of cells in the ranges that one message writes. The engine applies a range cell by cell.
SHEET_RANGE_CELLS_MAX = 200_000
# The maximum number of different objects that one message has, such as charts and conditional formats. The engine tries
# each object in a small workbook, which takes about ten milliseconds: web/trial.js.
SHEET_OBJECTS_ADDED_MAX = 200
# An undo may reach back this many entries, so a load starts from a state that is at least this many entries back, or
# from a newer complete state. A snapshot is at least `SHEET_SNAPSHOT_ENTRIES` entries after the previous snapshot. Only
# the snapshot of a restored version may be nearer.
SHEET_UNDO_ENTRIES_MAX = 200
SHEET_SNAPSHOT_ENTRIES = 200
# A reader that lacks more entries, or more bytes of entries, loads the sheet again.
SHEET_BEHIND_ENTRIES_MAX = 2000
SHEET_BEHIND_BYTES_MAX = 16 * 1024 * 1024
# The maximum size of a load, which has the base state and the messages after it. Undo needs all these messages.
SHEET_LOAD_BYTES_MAX = 256 * 1024 * 1024
SHEET_MODELS_MAX = 3
# Limits of the engine's processes, in this order: the bounds of the default number of processes, the bytes of V8's
# heap, the bytes that a process allocates after its start, and the seconds of its start. Then follow the seconds that a
# caller waits, the number of waiting callers, and the seconds of a call by the clock and on the CPU. `WORKBOOK` means a
# call that imports or exports a workbook or looks for broken formulas. The last limit is the bytes of a reply.
SHEET_ENGINES_MIN = 2
SHEET_ENGINES_MAX = 4
SHEET_ENGINE_BYTES_MAX = 1_200_000_000
SHEET_ENGINE_PROCESS_BYTES_MAX = 2_000_000_000
SHEET_ENGINE_START_SECONDS_MAX = 120
SHEET_ENGINE_WAIT_SECONDS_MAX = 30
SHEET_ENGINE_WAITING_MAX = 64
SHEET_CALL_SECONDS_MAX = 20
SHEET_CALL_CPU_SECONDS_MAX = 10
SHEET_WORKBOOK_SECONDS_MAX = 60
SHEET_WORKBOOK_CPU_SECONDS_MAX = 40
SHEET_ANSWER_BYTES_MAX = 512 * 1024 * 1024
# After a call on a version has exceeded a limit or crashed an engine, no engine of the process tries the call again for
# `SHEET_UNOPENABLE_SECONDS`. For kills see `SHEET_KILLS_MAX`. A process records at most `SHEET_UNOPENABLE_MAX` such
# calls.
SHEET_UNOPENABLE_SECONDS = 60
SHEET_UNOPENABLE_MAX = 1000
# Limits on reading a workbook: the text for the engine, the elements parsed, and the images.
SHEET_XLSX_READ_BYTES_MAX = 32 * 1024 * 1024
# In measurements, an import had fewer than this many copies of the unpacked bytes in memory at once. A part with an
# emoji takes four bytes for each ASCII character as a Python string, one byte as UTF-8 and one byte as JSON. The object
# of a numeric cell is larger than its text.
SHEET_XLSX_COPIES = 10
# The memory that one import may reserve: nearly all the memory for decoded bodies of a server with default settings.
SHEET_IMPORT_BYTES_MAX = 96 * 1024 * 1024
SHEET_XLSX_ELEMENTS_MAX = 2_000_000
SHEET_IMAGE_BYTES_MAX = 1024 * 1024
SHEET_IMAGES_BYTES_MAX = 4 * 1024 * 1024
# The maximum number of positions that one finding of a report lists.
SHEET_REPORT_CELLS_MAX = 100
SHEET_CSV_ROWS_MAX = 200_000

# After this many kills of an engine (SIGKILL or SIGTERM) during the same call, the call counts as the cause. A single
# kill may come from a user, or from a kernel that is short of memory. Any other death counts as this many kills.
SHEET_KILLS_MAX = 3
# The maximum number of attempts to commit a change after a fresh read of the log, when other writers commit first.
SHEET_ATTEMPTS_MAX = 20
# Names are expanded to this depth, because a name of a workbook may refer to other names or to itself.
SHEET_XLSX_NAME_DEPTH_MAX = 8
# The number of characters of all definitions that replace names in one formula: each level of names may multiply them.
SHEET_XLSX_NAME_CHARACTERS_MAX = 65_536
# The maximum number of cells that one item of the activity lists.
SHEET_ACTIVITY_CELLS_MAX = 100
# The number of cells and rows that all merges and links of one worksheet may visit: a file may have many of both.
SHEET_XLSX_STEPS_MAX = 2_000_000
# The number of cells of one worksheet that links may fill. Excel has this limit. An import writes a link for each cell.
SHEET_XLSX_LINKS_MAX = 65_530
