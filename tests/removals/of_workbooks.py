"""Removals of fixes: the import and export of workbooks, and the commands, limits, engines and contents of sheets."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

SHEET = "apps/sheet/src/stratalog_sheet"
TESTS = "apps/sheet/tests/test_workbooks_of_others.py"
CSV = "apps/sheet/tests/test_csv.py"
IMPORT = "apps/sheet/tests/test_workbook_import.py"
TRIPS = "apps/sheet/tests/test_round_trips.py"
EXPORT = "apps/sheet/tests/test_workbook_export.py"
LIMITS = "apps/sheet/tests/test_limits_reached.py"
BOUNDS = "apps/sheet/tests/test_bounds.py"
ENGINE = "apps/sheet/tests/test_engine.py"
UNDONE = "apps/sheet/tests/test_rebase.py::test_a_text_lost_in_cells_that_an_undo_removed_is_restored_into_new_cells"
REFUSALS = "apps/sheet/tests/test_refusals.py"
CONTENTS = "apps/sheet/tests/test_contents.py"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B421",
        (
            Edit(
                f"{SHEET}/xlsx_numbers.py",
                "    number = float(text) if NUMBER.fullmatch(text) else math.inf\n"
                "    return number if math.isfinite(number) else None\n",
                "    try:\n        return float(text)\n    except ValueError:\n        return None\n",
            ),
        ),
        (f"{TESTS}::test_an_unreadable_number_is_imported_as_text_and_reported",),
    ),
    Removal(
        "B420",
        (
            Edit(
                f"{SHEET}/empty_cells.py",
                '    cells, cell, rest = piece.rpartition(b"<c ")\n'
                '    rows, row, rest = (EMPTY.sub(b"", cells) + cell + rest).rpartition(b"<row")\n'
                '    return EMPTY_ROW.sub(b"", rows) + row + rest\n',
                '    return EMPTY_ROW.sub(b"", EMPTY.sub(b"", piece))\n',
            ),
        ),
        (f"{TESTS}::test_a_cell_without_a_position_follows_the_last_cell_of_the_previous_chunk",),
    ),
    Removal(
        "B275",
        (
            Edit(
                f"{SHEET}/xlsx_cells.py",
                "without_single_ranges(self._context.names.plain(text, self._sheet, cell.position))",
                "self._context.names.plain(text, self._sheet, cell.position)",
            ),
        ),
        (f"{TESTS}::test_running_totals_are_imported_with_their_values",),
    ),
    Removal(
        "B276",
        (Edit(f"{SHEET}/xlsx_cells.py", '            attributes.pop("display", None)\n', "            pass\n"),),
        (f"{TESTS}::test_a_link_does_not_replace_the_text_of_its_cell",),
    ),
    Removal(
        "B277",
        (
            Edit(
                f"{SHEET}/xlsx_cells.py",
                "            self._leave_text_style(cell)\n        written",
                "            pass\n        written",
            ),
        ),
        (f"{TESTS}::test_a_number_that_is_shown_as_a_text_stays_a_number",),
    ),
    Removal(
        "B278",
        (
            Edit(
                f"{SHEET}/sheets.py",
                '                findings += other_values(models.engine.call("otherValues", **limits, '
                "values=taken.values))\n",
                "",
            ),
        ),
        (f"{TESTS}::test_a_formula_whose_result_differs_from_the_file_is_reported",),
    ),
    Removal(
        "B279",
        (Edit(f"{SHEET}/sheets.py", "        for less in reduced(workbook):\n", "        for less in ():\n"),),
        (f"{TESTS}::test_figures_and_rules_refused_by_the_engine_are_left_out_and_reported",),
    ),
    Removal(
        "B280",
        (Edit(f"{SHEET}/xlsx_figures.py", "            text = several[1] if several else text\n", ""),),
        (f"{TESTS}::test_a_chart_series_of_several_ranges_is_imported_with_its_first_range",),
    ),
    Removal(
        "B281",
        (
            Edit(
                f"{SHEET}/xlsx_repair.py",
                '            if name == "c:plotArea" and not any(child.endswith("Chart") for child, _ in children):\n',
                "            if False:\n",
            ),
        ),
        (f"{TESTS}::test_an_exported_chart_without_series_is_repaired_for_other_programs",),
    ),
    Removal(
        "B282",
        (
            Edit(
                f"{SHEET}/xlsx_repair.py",
                '            if name == "cfRule" and attributes.get("operator") not in OPERATORS:\n',
                "            if False:\n",
            ),
        ),
        (f"{TESTS}::test_a_top_10_rule_is_exported_with_the_type_of_the_schema",),
    ),
    Removal(
        "B283",
        (Edit(f"{SHEET}/empty_cells.py", 'EMPTY_ROW.sub(b"", rows) + row', "rows + row"),),
        (f"{TESTS}::test_empty_rows_without_attributes_are_dropped_from_an_import",),
    ),
    Removal(
        "B284",
        (
            Edit(
                f"{SHEET}/xlsx_cells.py",
                "if not (is_decimal(style) and int(style) < self._context.styles):",
                "if not is_decimal(style):",
            ),
        ),
        (f"{TESTS}::test_a_cell_with_a_missing_style_is_imported_with_its_value",),
    ),
    Removal(
        "B321",
        (Edit(f"{SHEET}/workbook_names.py", 'token.text.count("$") < 2', 'token.text.count("$") < 1'),),
        (f"{IMPORT}::test_a_defined_name_with_a_partly_relative_reference_is_reported_and_not_expanded",),
    ),
    Removal(
        "B325",
        (Edit(f"{SHEET}/sheets.py", 'r"\\.(?:xls[xm]|csv)\\Z", re.IGNORECASE', 'r"\\.(?:xls[xm]|csv)\\Z"'),),
        (f"{CSV}::test_a_title_omits_the_file_extension_in_any_letter_case",),
    ),
    Removal(
        "B327",
        (Edit(f"{SHEET}/csv_files.py", "        csv.field_size_limit(SHEET_XLSX_BYTES_MAX)\n", "        pass\n"),),
        (f"{CSV}::test_a_long_text_survives_an_export_and_an_import",),
    ),
    Removal(
        "B346",
        (Edit(f"{SHEET}/csv_files.py", "    _check_quotes(text, delimiter, findings)\n", ""),),
        (f"{CSV}::test_unclosed_and_misplaced_quotation_marks_are_reported",),
    ),
    Removal(
        "B415",
        (
            Edit(f"{SHEET}/xlsx_texts.py", "ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)", "text"),
            Edit(f"{SHEET}/xlsx_texts.py", 'LIKE_ESCAPE.sub("_x005F_", text)', "text"),
        ),
        (
            f"{TESTS}::test_escaped_characters_survive_an_import_and_an_export",
            f"{TESTS}::test_a_text_of_a_csv_file_that_looks_like_an_escape_is_imported_unchanged",
        ),
    ),
    Removal(
        "B416",
        (
            Edit(
                f"{SHEET}/xlsx_cells.py",
                "            self._leave_text_style(cell)\n        if is_link",
                "            pass\n        if is_link",
            ),
        ),
        (f"{TESTS}::test_a_text_like_a_formula_in_a_text_format_stays_a_text_with_its_font",),
    ),
    Removal(
        "B417",
        (Edit(f"{SHEET}/xlsx_parts.py", "else TEXT_CODE.fullmatch(code)", 'else code == "@"'),),
        (f"{TESTS}::test_texts_in_text_formats_with_literals_are_imported_unchanged",),
    ),
    Removal(
        "B418",
        (
            Edit(
                f"{SHEET}/javascript/bridge.js",
                "isOfFile(criterion)).map(withNumbers)",
                "isOfFile(criterion))",
            ),
        ),
        (
            f"{TESTS}::test_a_validation_of_dates_may_have_formulas",
            f"{EXPORT}::test_a_validation_of_a_relative_date_is_exported_with_its_formulas",
        ),
    ),
    Removal(
        "B479",
        (
            Edit(
                f"{SHEET}/command_fields.py",
                "for name in NEEDED[kind] if name not in command]",
                'for name in NEEDED[kind] if kind == "UPDATE_CELL" and name not in command]',
            ),
            Edit(f"{SHEET}/command_fields.py", "in _TYPES[kind].items():", "in list[tuple[str, Any]]():"),
        ),
        ("apps/sheet/tests/test_command_fields.py::test_a_command_that_no_engine_can_apply_is_refused",),
    ),
    Removal(
        "B480",
        (
            Edit(
                f"{SHEET}/history.py",
                "list(islice(_written(commands), SHEET_ACTIVITY_CELLS_MAX))",
                "list(islice(_written(commands), 1_000_000))",
            ),
            Edit(
                f"{SHEET}/bounds.py", '"cells in ranges", range_cells(command["targetRange"])', '"cells in ranges", 1'
            ),
        ),
        (
            f"{LIMITS}::test_the_activity_counts_the_cells_of_a_range_without_listing_all_cells",
            f"{BOUNDS}::test_a_message_beyond_the_limits_of_rows_columns_cells_or_sheets_is_refused",
        ),
    ),
    Removal(
        "B482",
        (
            Edit(
                f"{SHEET}/xlsx_archive.py", "    OSError,\n    zlib.error,\n    lzma.LZMAError,\n", "    zlib.error,\n"
            ),
        ),
        (f"{IMPORT}::test_a_damaged_part_of_any_compression_is_refused",),
        raises=("LZMAError", "OSError"),
    ),
    Removal(
        "B484",
        (
            Edit(
                f"{SHEET}/engine.py",
                "            ours, theirs = socket.socketpair()\n        except OSError as exc:",
                "            ours, theirs = socket.socketpair()\n        except ZeroDivisionError as exc:",
            ),
        ),
        (f"{ENGINE}::test_a_sheet_stays_usable_after_an_engine_start_fails_for_lack_of_file_descriptors",),
        raises=("OSError",),
    ),
    Removal(
        "B485",
        (Edit(f"{SHEET}/engine_files.py", "    home = folder or _chosen()\n", "    home = folder or _home()\n"),),
        (
            "apps/sheet/tests/test_engine_files.py::test_an_installation_uses_the_folder_named_by_the_environment_variable",
        ),
        raises=("Unavailable",),
    ),
    Removal(
        "B525",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/web/engine.js",
                'const gone = model.getters.tryGetSheet(sheetId) ? lost : "SHEET";',
                'const gone = lost && "ROW";',
            ),
        ),
        (UNDONE,),
    ),
    Removal(
        "B525",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/web/tracker.js",
                "withLine(item, positions[index], moment)",
                "positions[index]",
            ),
        ),
        (UNDONE,),
    ),
    Removal(
        "B517",
        (Edit(f"{SHEET}/web/refusal.js", "commands.filter((command) => !(REFUSED in command))", "commands"),),
        (f"{REFUSALS}::test_a_sheet_opens_without_an_unusable_command_and_lists_the_command",),
    ),
    Removal(
        "B517",
        (Edit(f"{SHEET}/web/refusals.js", "new Set(refused.map(({ version }) => version))", "new Set()"),),
        (
            "apps/sheet/tests/test_e2e.py::test_the_story_passes_in_the_browser[aSheetNamesTheCommittedChangesThatTheEngineCannotUse]",
        ),
    ),
    Removal(
        "B518",
        (
            Edit(
                f"{SHEET}/web/refusal.js",
                "    } catch (error) {\n      command[",
                "    } catch (error) {\n      throw error; command[",
            ),
            Edit(f"{SHEET}/web/refusal.js", "if (this.hasFailedView) throw error;", "throw error;"),
            Edit(f"{SHEET}/web/trial.js", "return failureOf(command) ||", "return"),
        ),
        (
            f"{REFUSALS}::test_a_sheet_opens_without_an_unusable_command_and_lists_the_command",
            f"{REFUSALS}::test_a_refused_command_has_the_reason",
        ),
    ),
    Removal(
        "B519",
        (Edit(f"{SHEET}/web/trial.js", "return failureOf(command) ||", "return"),),
        (
            f"{REFUSALS}::test_a_sheet_opens_without_an_unusable_command_and_lists_the_command",
            f"{REFUSALS}::test_a_command_with_a_wrong_value_leaves_the_sheet_openable",
        ),
    ),
    Removal(
        "B520",
        (
            Edit(f"{SHEET}/contents.py", 'command["sheetNameTo"] in self._names()', "False"),
            Edit(f"{SHEET}/contents.py", "return not text or FORBIDDEN.search(text) is not None or", "return"),
        ),
        (
            f"{CONTENTS}::test_contents_refuses_exactly_the_commands_that_the_engine_refuses",
            f"{CONTENTS}::test_contents_equals_the_engine_state_after_random_commands",
        ),
    ),
    Removal(
        "B521",
        (
            Edit(
                f"{SHEET}/contents.py",
                "        return is_any_visible and (not frozen or any(position >= frozen for position in left))",
                "        return bool(left)",
            ),
        ),
        (
            f"{CONTENTS}::test_contents_refuses_exactly_the_commands_that_the_engine_refuses",
            f"{CONTENTS}::test_contents_reads_hidden_and_frozen_rows_of_a_state",
        ),
    ),
    Removal(
        "B522",
        (
            Edit(f"{SHEET}/contents.py", "return is_repeated or not", "return not"),
            Edit(f"{SHEET}/web/refusal.js", "new Set(elements).size < elements.length", "false"),
        ),
        (f"{CONTENTS}::test_contents_refuses_exactly_the_commands_that_the_engine_refuses",),
        raises=("IndexError",),
    ),
    Removal(
        "B523",
        (
            Edit(
                f"{SHEET}/web/refusal.js",
                'isCarousel ? "Success" : "InvalidFigureId"',
                'isCarousel ? "Success" : "Success"',
            ),
            Edit(f"{SHEET}/web/refusal.js", "this.figureId !== figureId;", "false;"),
        ),
        (f"{REFUSALS}::test_a_chart_can_move_only_to_a_carousel_and_its_old_figure_is_deleted",),
    ),
    Removal(
        "B697",
        (Edit(f"{SHEET}/xlsx_markup.py", "        self.declared = {}\n\n    def _declare", "\n    def _declare"),),
        (
            f"{TESTS}::test_the_namespace_of_a_skipped_element_is_not_declared_by_the_next_element",
            f"{TESTS}::test_the_namespace_of_an_unknown_element_is_not_declared_by_its_string",
        ),
    ),
    Removal(
        "B697",
        (
            Edit(
                f"{SHEET}/xlsx_markup.py",
                "        self._skipped += 1\n\n    @property",
                "        self._skipped = 1\n\n    @property",
            ),
        ),
        (f"{TESTS}::test_the_namespace_of_a_skipped_element_is_not_declared_by_the_next_element",),
    ),
    Removal(
        "B697",
        (Edit(f"{SHEET}/xlsx_parts.py", 'if self.is_skipping or name == "extLst":', 'if name == "extLst":'),),
        (f"{TESTS}::test_an_extension_of_a_text_style_is_left_out_of_the_style_and_of_its_copy",),
    ),
    Removal(
        "B823",
        (Edit(f"{SHEET}/xlsx_parts.py", 'for sign in "hs["', 'for sign in "hs"'),),
        (f"{IMPORT}::test_durations_and_times_of_the_1904_date_system_are_not_converted",),
    ),
    Removal(
        "B823",
        (Edit(f"{SHEET}/xlsx_parts.py", r"\[(?!(?:h+|m+|s+)\])[^\]]*\]", r"\[[^\]]*\]"),),
        (f"{IMPORT}::test_durations_and_times_of_the_1904_date_system_are_not_converted",),
    ),
    Removal(
        "B823",
        (Edit(f"{SHEET}/xlsx_parts.py", "*range(27, 32), *range(34, 37)", "*range(27, 37)"),),
        (f"{IMPORT}::test_durations_and_times_of_the_1904_date_system_are_not_converted",),
    ),
    Removal(
        "B838",
        (
            Edit(
                f"{SHEET}/xlsx_parts.py",
                'LITERAL.sub("", code).partition(";")[0].lower()',
                'LITERAL.sub("", code.partition(";")[0]).lower()',
            ),
        ),
        (f"{IMPORT}::test_a_literal_semicolon_hides_no_date_of_the_1904_date_system",),
    ),
    Removal(
        "B908",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/workbook_names.py",
                "if match[1] is not None or match[2]]",
                "if match[1] is not None]",
            ),
        ),
        (
            "apps/sheet/tests/test_workbook_import.py::test_a_column_without_brackets_in_a_table_reference_is_that_column",
        ),
    ),
    Removal(
        "B909",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/file_reports.py",
                "kind = code, text",
                "kind = next((kind for kind in self._counts if kind[0] == code), (code, text))",
            ),
        ),
        ("apps/sheet/tests/test_workbook_import.py::test_unsupported_features_of_a_workbook_are_reported",),
    ),
    Removal(
        "B1023",
        (Edit(f"{SHEET}/xlsx_repair.py", "is_empty |= name == ", "is_empty |= False and name == "),),
        (f"{TRIPS}::test_an_import_of_an_export_has_no_further_empty_rows_and_the_same_heights",),
    ),
    Removal(
        "B1023",
        (Edit(f"{SHEET}/xlsx_export.py", "if last is None or before != last else last * 0.75", ""),),
        (
            f"{TRIPS}::test_an_import_of_an_export_has_no_further_empty_rows_and_the_same_heights",
            f"{TRIPS}::test_round_trips_add_no_rows_and_change_a_file_at_most_once",
        ),
    ),
    Removal(
        "B1024",
        (Edit(f"{SHEET}/javascript/formulas.js", 'name === "SORT" && args.length > 2', "false"),),
        (f"{TRIPS}::test_an_argument_that_means_something_else_in_a_file_is_translated_in_both_directions",),
    ),
    Removal(
        "B1024",
        (
            Edit(f"{SHEET}/javascript/formulas.js", "{ COUNTBLANK: 2, FILTER: 3, SORT: 4 }", "{ FILTER: 3 }"),
            Edit(f"{SHEET}/javascript/formulas.js", '(name === "SORT" && /:/', "(false && /:/"),
        ),
        (f"{TRIPS}::test_a_call_with_arguments_that_a_file_lacks_is_exported_as_its_values",),
    ),
    Removal(
        "B1024",
        (
            Edit(
                f"{SHEET}/formulas.py", "            _change_order(pieces, texts, closing, at + 1)", "            pass"
            ),
        ),
        (
            f"{TRIPS}::test_an_argument_that_means_something_else_in_a_file_is_translated_in_both_directions",
            f"{TRIPS}::test_a_sort_without_an_order_is_imported_as_an_ascending_sort",
            f"{TRIPS}::test_a_call_of_a_file_has_the_arguments_that_the_engine_expects",
        ),
    ),
    Removal(
        "B1025",
        (Edit(f"{SHEET}/javascript/formulas.js", "if (name in WITH_LAST && ", "if (false && "),),
        (f"{EXPORT}::test_a_function_that_excel_has_is_exported_as_excel_writes_it",),
    ),
    Removal(
        "B1025",
        (Edit(f"{SHEET}/formulas.py", 'NA())" if left_out > 0', ')" if left_out > 0'),),
        (f"{TRIPS}::test_a_call_of_a_file_has_the_arguments_that_the_engine_expects",),
    ),
    Removal(
        "B1026",
        (Edit(f"{SHEET}/javascript/formulas.js", "text.replaceAll(MARK, '\"')", "text"),),
        (f"{TRIPS}::test_quotation_marks_in_the_texts_of_a_list_are_kept_in_both_directions",),
    ),
    Removal(
        "B1026",
        (Edit(f"{SHEET}/xlsx_rules.py", 'item.strip(" ")', "item"),),
        (f"{TRIPS}::test_quotation_marks_in_the_texts_of_a_list_are_kept_in_both_directions",),
    ),
    Removal(
        "B1027",
        (Edit(f"{SHEET}/javascript/formulas.js", '!rule.values.some((text) => text.includes(","))', "rule.values"),),
        (f"{TRIPS}::test_a_list_with_a_comma_in_a_text_is_left_out_of_an_export_and_reported",),
    ),
)
