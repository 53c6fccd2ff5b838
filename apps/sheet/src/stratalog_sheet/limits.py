"""Limits of spreadsheets, each with its unit in its name."""

from __future__ import annotations

# A browser stays at ease up to about this many cells; a file with more is refused.
SHEET_CELLS_MAX = 200_000
SHEET_XLSX_BYTES_MAX = 32 * 1024 * 1024
SHEET_XLSX_UNPACKED_BYTES_MAX = 256 * 1024 * 1024
SHEET_XLSX_FILES_MAX = 2000
SHEET_MESSAGE_BYTES_MAX = 4 * 1024 * 1024
SHEET_COMMANDS_MAX = 100_000
SHEET_TEXT_BYTES_MAX = 200
# What a message may say, so that the engine can open what was committed: how large a sheet is at most, and how much one
# message adds. A million rows take the engine three seconds to open, and a thousand columns beside them too long.
SHEET_ROWS_MAX = 1_048_576
SHEET_COLUMNS_MAX = 18_278
SHEET_ROWS_ADDED_MAX = 20_000
SHEET_COLUMNS_ADDED_MAX = 500
SHEET_SHEETS_ADDED_MAX = 100
SHEET_SHEETS_COPIED_MAX = 5
# An undo reaches back this many entries; so a state is loaded from one that many entries back, with those after it.
SHEET_UNDO_ENTRIES_MAX = 200
SHEET_SNAPSHOT_ENTRIES = 200
# A reader who is further behind, by entries or by their bytes, loads the sheet again.
SHEET_BEHIND_ENTRIES_MAX = 2000
SHEET_BEHIND_BYTES_MAX = 16 * 1024 * 1024
SHEET_MODELS_MAX = 3
# The engine's processes: how many, what V8's heap and the whole process beyond its start may hold, how long a call may
# take by the clock and on the CPU, and how many callers wait how long for one.
SHEET_ENGINES_MIN = 2
SHEET_ENGINES_MAX = 4
SHEET_ENGINE_BYTES_MAX = 1_200_000_000
SHEET_ENGINE_PROCESS_BYTES_MAX = 2_000_000_000
SHEET_ENGINE_START_SECONDS_MAX = 30
SHEET_ENGINE_WAIT_SECONDS_MAX = 30
SHEET_ENGINE_WAITING_MAX = 64
SHEET_CALL_SECONDS_MAX = 20
SHEET_CALL_CPU_SECONDS_MAX = 10
SHEET_WORKBOOK_SECONDS_MAX = 60
SHEET_WORKBOOK_CPU_SECONDS_MAX = 40
SHEET_ANSWER_BYTES_MAX = 512 * 1024 * 1024
# A version that could not be opened is refused for so long without another try, and so many of them are remembered.
SHEET_UNOPENABLE_SECONDS = 60
SHEET_UNOPENABLE_MAX = 1000
# What of a workbook is read: the text that the engine is given, the elements that it is read from, and its images.
SHEET_XLSX_READ_BYTES_MAX = 32 * 1024 * 1024
# So often it is held at once: as read, as JSON, and as the engine's answer.
SHEET_XLSX_COPIES = 3
SHEET_XLSX_ELEMENTS_MAX = 2_000_000
SHEET_IMAGE_BYTES_MAX = 1024 * 1024
SHEET_IMAGES_BYTES_MAX = 4 * 1024 * 1024
# So many places a finding of a report names, and so many formulas that the engine does not know are looked for.
SHEET_REPORT_CELLS_MAX = 100
SHEET_CSV_ROWS_MAX = 200_000
