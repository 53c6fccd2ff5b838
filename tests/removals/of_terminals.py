"""Removals of fixes: what commands print on a terminal, signals, and types and deletions of tables."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

TABLE = "apps/table/src/stratalog_table"
TESTS = "apps/table/tests"
TERMINALS = "tests/cli/test_terminals.py"
EMPTY = "tests/cli/test_commands.py::test_verify_says_that_an_empty_store_has_nothing_to_verify"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B1132",
        (Edit(f"{TABLE}/columns.py", "if 1 <= length < 2**31", "if 0 <= length < 2**31"),),
        (
            f"{TESTS}/test_columns.py::test_a_column_type_that_parquet_cannot_store_is_refused_at_ingest",
            f"{TESTS}/test_columns.py::test_an_invalid_column_type_is_refused",
        ),
    ),
    Removal(
        "B1133",
        (
            Edit(
                f"{TABLE}/arrow_types.py",
                "        if not pc.all(pc.equal(cast.cast(pa.float64()), plain.cast(pa.float64()))).as_py():\n",
                "        if False:\n",
            ),
        ),
        (f"{TESTS}/test_key_types.py::test_a_key_that_is_no_value_of_its_columns_type_is_refused_and_not_converted",),
    ),
    Removal(
        "B1134",
        (Edit(f"{TABLE}/table_creation.py", "    if not document.version and not any(", "    if False and not any("),),
        (
            f"{TESTS}/test_table_creation.py::test_an_empty_document_without_an_entry_is_resumed_and_not_deleted",
            f"{TESTS}/test_cli.py::test_the_leftovers_of_an_unfinished_creation_are_deleted",
        ),
    ),
    Removal(
        "B1135",
        (Edit("src/stratalog/cli/output.py", "part.translate(_ESCAPES)", "part"),),
        (
            f"{TERMINALS}::test_control_characters_are_printed_as_escapes",
            f"{TERMINALS}::test_an_error_is_one_line_although_its_argument_has_control_characters",
        ),
    ),
    Removal(
        "B1135",
        (Edit("src/stratalog/cli/output.py", "    return line.translate(_ESCAPES)\n", "    return line\n"),),
        (f"{TERMINALS}::test_control_characters_are_printed_as_escapes",),
    ),
    Removal(
        "B1136",
        (Edit("src/stratalog/cli/program.py", "            signal.signal(number, end)\n", "            pass\n"),),
        ("tests/cli/test_signals.py::test_a_signal_ends_a_command_without_a_partly_written_file",),
    ),
    Removal(
        "B1137",
        (
            Edit(
                "src/stratalog/cli/inspection.py",
                "        if of_store and not is_any and not results.codes:\n",
                "        if False:\n",
            ),
        ),
        (EMPTY,),
    ),
    Removal(
        "B1137",
        (
            Edit(
                "src/stratalog/cli/verification.py",
                "        if of_store and not is_any and not results.codes:\n",
                "        if False:\n",
            ),
        ),
        (EMPTY,),
    ),
    Removal(
        "B1138",
        (Edit("src/stratalog/log/names.py", 'DOCUMENT_OR_LOG = "document or log"', 'DOCUMENT_OR_LOG = "log"'),),
        ("tests/cli/test_commands.py::test_a_command_on_documents_and_logs_names_both_if_it_finds_neither",),
    ),
)
