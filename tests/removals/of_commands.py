"""Removals of fixes: what commands accept and list, and what their messages say."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

BACKUPS = "src/stratalog/cli/backups.py"
CATALOGUE = "apps/catalogue/tests/test_commands.py"
CONNECTIONS = "src/stratalog/backends/sqlite_connections.py"
DAMAGED_ITEMS = "tests/backups/test_damaged_items.py"
FAILURES = "src/stratalog/records/failures.py"
FULL_DISK = "tests/backends/test_full_disk.py"
HISTORY = "src/stratalog/documents/history.py"
LETTERS = "apps/catalogue/src/stratalog_catalogue/letter_commands.py"
RECORDS = "src/stratalog/cli/records.py"
RECORDS_STORE = "src/stratalog/records/store.py"
SHEET_LISTS = "apps/sheet/tests/test_damaged_lists.py"
SHEETS = "apps/sheet/src/stratalog_sheet/commands.py"
TABLE = "apps/table/src/stratalog_table/table.py"
TIMES = "tests/cli/test_times.py"
UNKNOWN_LETTER = "test_a_command_on_an_unknown_dead_letter_says_that_it_is_not_found"
NOT_FOUND = "dead letter not found: the record has no failures"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B1059",
        (
            Edit(
                SHEETS,
                "damaged=damaged)\n    fail_for_damage(damaged)",
                "damaged=damaged)\n    if damaged:\n        raise damaged[-1]",
            ),
        ),
        (f"{SHEET_LISTS}::test_a_list_of_sheets_reports_damage_in_the_form_of_all_lists",),
    ),
    Removal(
        "B1059",
        (Edit(LETTERS, "    fail_for_damage(damaged)\n", "    if damaged:\n        raise damaged[-1]\n"),),
        (f"{CATALOGUE}::test_damaged_dead_letters_are_named_and_the_others_are_listed_and_redriven",),
    ),
    Removal(
        "B1060",
        (Edit(RECORDS, "        if oldest.created_ms <= time_ms:\n", "        if oldest.created_ms < time_ms:\n"),),
        (f"{TIMES}::test_a_record_is_read_as_of_a_time",),
    ),
    Removal(
        "B1060",
        (
            Edit(
                RECORDS,
                '"--at", metavar="VERSION|TIME", help="The version to read.  [default: the latest]"',
                '"--at", type=int, metavar="VERSION", help="The version to read.  [default: the latest]"',
            ),
        ),
        (f"{TIMES}::test_a_record_is_read_as_of_a_time",),
    ),
    Removal(
        "B1061",
        (Edit(HISTORY, "state.floor if at is None else max(state.floor, log.floor())", "state.floor"),),
        ("tests/documents/test_history.py::test_the_history_up_to_an_old_version_ends_above_the_present_floor",),
    ),
    Removal(
        "B1062",
        (Edit(TABLE, ', noun="table"', ""),),
        ("apps/table/tests/test_cli.py::test_a_missing_table_is_reported_as_a_table",),
    ),
    Removal(
        "B1062",
        (Edit(TABLE, 'version), f"{self.document.organisation}/{self.document.name}")', "version))"),),
        ("apps/table/tests/test_cli.py::test_a_document_that_is_not_a_table_is_reported",),
    ),
    Removal(
        "B1063",
        (
            Edit(FAILURES, NOT_FOUND, "the record has no failures"),
            Edit(RECORDS_STORE, NOT_FOUND, "the record's failures have no stored body"),
        ),
        (f"{CATALOGUE}::{UNKNOWN_LETTER}",),
    ),
    Removal(
        "B1064",
        (Edit(BACKUPS, 'if new_name is not None and new_name.startswith(f"{organisation}/"):', "if False:"),),
        ("tests/cli/test_backups.py::test_a_version_is_restored_beside_the_document",),
    ),
    Removal(
        "B1065",
        (Edit("scripts/website/python_reference.py", ', "stratalog_table.rows"]', "]"),),
        ("tests/test_website.py::test_the_python_reference_describes_the_applications_that_programs_import",),
    ),
    Removal(
        "B1066",
        (
            Edit(
                CONNECTIONS,
                "            open_alone(opened, vfs).close()\n            return None, opened\n",
                "            raise\n",
            ),
        ),
        (
            f"{FULL_DISK}::test_a_closed_store_is_read_without_room_for_shared_memory_and_a_write_says_so",
            f"{FULL_DISK}::test_a_store_opened_without_room_for_shared_memory_is_written_once_there_is_room",
            f"{FULL_DISK}::test_threads_read_a_killed_store_without_room_for_shared_memory",
        ),
    ),
    Removal(
        "B1066",
        (Edit(CONNECTIONS, '        connection.pragma("locking_mode", "exclusive")\n', ""),),
        (f"{FULL_DISK}::test_threads_read_a_killed_store_without_room_for_shared_memory",),
    ),
    Removal(
        "B1067",
        (Edit("src/stratalog/backups/records.py", "        if type(hash) is not bytes:\n", "        if False:\n"),),
        (f"{DAMAGED_ITEMS}::test_a_hash_of_the_wrong_type_is_a_failure_and_the_rest_is_backed_up",),
    ),
    Removal(
        "B1068",
        (
            Edit(
                "src/stratalog/cli/program.py",
                '" ".join(line.strip() for line in error.format_message().splitlines())',
                "error.format_message()",
            ),
        ),
        ("tests/cli/test_commands.py::test_the_error_of_a_missing_option_with_choices_is_one_line",),
    ),
)
