"""Removals of fixes: losses of an import or export of workbooks, and columns of tables that no read finds."""

from __future__ import annotations

from tests.removals.of_sheets import SHEET
from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

TESTS = "apps/sheet/tests/test_losses.py"
BRIDGE = f"{SHEET}/javascript/bridge.js"
CELLS = f"{SHEET}/xlsx_cells.py"
FORMULAS = f"{SHEET}/javascript/formulas.js"
RECEIVED = "apps/sheet/tests/test_received_files.py"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B894",
        (Edit(BRIDGE, "    if (!/\\\\ud[89a-f]/.test(text)) return text;\n", "    if (text) return text;\n"),),
        (
            f"{TESTS}::test_half_a_character_in_a_cell_prevents_no_read_and_no_export",
            f"{TESTS}::test_a_tab_whose_long_name_ends_in_half_a_character_is_exported",
        ),
    ),
    Removal(
        "B895",
        (Edit(CELLS, 'text.strip().lower() in ("1", "true")', 'text.strip() == "1"'),),
        (f"{TESTS}::test_a_boolean_that_a_file_writes_as_a_word_is_imported",),
    ),
    Removal(
        "B896",
        (
            Edit(
                f"{SHEET}/filled_cells.py",
                "if any(cell != (left, top) for cell, _ in self.within(cells)):",
                "if False:",
            ),
        ),
        (f"{TESTS}::test_a_merge_that_hides_filled_cells_is_left_out_and_reported",),
    ),
    Removal(
        "B896",
        (
            Edit(
                f"{SHEET}/filled_cells.py", "if any(_overlaps(merged, left, right) for merged, _ in rows):", "if False:"
            ),
        ),
        (
            f"{TESTS}::test_of_two_merges_that_overlap_the_second_is_left_out_and_reported",
            f"{TESTS}::test_filled_cells_find_every_cell_of_a_range_in_any_order_of_the_file",
        ),
    ),
    Removal(
        "B931",
        (
            Edit(
                f"{SHEET}/filled_cells.py",
                "        count = bottom - top + 1\n",
                "        self._rows += (count := bottom - top + 1)\n",
            ),
        ),
        (f"{TESTS}::test_a_merge_of_too_many_rows_does_not_refuse_later_merges",),
    ),
    Removal(
        "B897",
        (Edit(CELLS, 'elif name == "hyperlink" and not self.is_skipping:', "elif False:"),),
        (f"{TESTS}::test_links_of_ranges_are_imported_and_links_of_empty_cells_are_reported",),
    ),
    Removal(
        "B898",
        (Edit(BRIDGE, " || (zone.bottom >= rows && zone.top < rows) ? rows", " ? rows"),),
        (f"{TESTS}::test_ranges_to_the_last_row_are_exported_after_rows_were_inserted",),
    ),
    Removal(
        "B899",
        (Edit(BRIDGE, "rest[1]?.useBoundedReference && !range.invalidXc", "false"),),
        (
            f"{TESTS}::test_an_open_range_is_exported_with_open_ends",
            f"{TESTS}::test_an_open_range_with_a_beginning_is_exported_to_the_last_row_and_column",
        ),
    ),
    Removal(
        "B899",
        (Edit(f"{SHEET}/formulas.py", "pieces[at].text = _end_in_file(first.text, pieces[at])", "pass"),),
        (f"{TESTS}::test_a_formula_in_a_file_has_only_ranges_that_a_file_can_contain",),
    ),
    Removal(
        "B900",
        (Edit(BRIDGE, " -\\uFFFD]/g;", " -\\uFFFF]/g;"),),
        (f"{TESTS}::test_characters_that_xml_does_not_allow_are_exported_or_named",),
    ),
    Removal(
        "B900",
        (Edit(f"{SHEET}/xlsx_export.py", 'NO_CHARACTER.sub("\\ufffd", file["content"])', 'file["content"]'),),
        (f"{TESTS}::test_a_name_with_a_code_point_that_xml_does_not_allow_prevents_no_export",),
        ("ParseError",),
    ),
    Removal(
        "B901",
        (
            Edit(
                f"{SHEET}/xlsx_losses.py",
                "    elif depth == 1 and local not in READ | ELSEWHERE:\n",
                "    elif False:\n",
            ),
        ),
        (f"{TESTS}::test_a_feature_that_the_engine_does_not_read_is_reported",),
    ),
    Removal(
        "B901",
        (Edit(f"{SHEET}/xlsx_losses.py", '"pageMargins"}', "}"),),
        (f"{TESTS}::test_a_workbook_without_lost_features_has_an_empty_report",),
    ),
    Removal(
        "B901",
        (Edit(f"{SHEET}/xlsx_parts.py", "            self._findings.add(*losses.PHONETIC)\n", ""),),
        (f"{TESTS}::test_phonetic_texts_are_reported",),
    ),
    Removal(
        "B902",
        (
            Edit(CELLS, "if not is_decimal(text) or int(text) >= self._context.string_count:", "if False:"),
            Edit(CELLS, "if kind not in KINDS and formula is None:", "if False:"),
        ),
        (f"{TESTS}::test_cells_without_a_known_text_or_type_are_reported",),
    ),
    Removal(
        "B903",
        (Edit(f"{SHEET}/xlsx_texts.py", 'return 0 < text.find("](", 2) < len(text) - 3', "return False"),),
        (f"{TESTS}::test_a_text_that_becomes_a_link_is_reported",),
    ),
    Removal(
        "B904",
        (Edit("apps/table/src/stratalog_table/columns.py", "    if name in RESERVED:\n", "    if False:\n"),),
        (
            (
                "apps/table/tests/test_columns.py"
                "::test_a_column_whose_name_pyarrow_reserves_is_refused_before_any_row_is_added"
            ),
        ),
    ),
    Removal(
        "B920",
        (
            Edit(f"{SHEET}/xlsx_export.py", "self._renamed = file_names(written)", "self._renamed = {}"),
            Edit(
                f"{SHEET}/xlsx_figures.py",
                'with_sheet_names("".join(self._reference or []), self._names)',
                '"".join(self._reference or [])',
            ),
        ),
        (
            f"{TESTS}::test_names_of_sheets_that_a_file_cannot_contain_are_changed_everywhere_and_reported",
            f"{TESTS}::test_a_chart_names_the_changed_name_of_its_sheet",
        ),
    ),
    Removal(
        "B921",
        (
            Edit(
                f"{SHEET}/sheet_names.py",
                'return f"{quote_sheet(changed.get(name, name))}!{cells}" if name and cells else location',
                "return location",
            ),
        ),
        (f"{TESTS}::test_the_location_of_a_link_quotes_the_name_of_its_sheet",),
    ),
    Removal(
        "B922",
        (Edit(CELLS, 'if sheet or "r:id" in attributes else ():', "if True else ():"),),
        (f"{TESTS}::test_a_link_reports_the_place_that_it_loses_and_needs_a_target",),
    ),
    Removal(
        "B923",
        (Edit(f"{SHEET}/engine.py", "except UnicodeEncodeError as exc:", "except MemoryError as exc:"),),
        (f"{TESTS}::test_a_text_with_half_a_character_is_refused_with_the_reason",),
    ),
    Removal(
        "B924",
        (
            Edit(
                f"{SHEET}/xlsx_losses.py",
                '    "rowBreaks": losses',
                '    "headerFooter": losses.PRINT_SETUP,\n    "rowBreaks": losses',
            ),
        ),
        (f"{TESTS}::test_a_workbook_without_lost_features_has_an_empty_report",),
    ),
    Removal(
        "B925",
        (Edit(BRIDGE, "    model.getters.getCellConditionalFormatStyle = () => undefined;\n", ""),),
        (f"{TESTS}::test_an_export_computes_no_conditional_format",),
    ),
    Removal(
        "B952",
        (
            Edit(f"{SHEET}/files.py", "    if body.startswith(COMPOUND):\n", "    if False:\n"),
            Edit(f"{SHEET}/xlsx_archive.py", "if _folded(OPEN_DOCUMENT) in self._entries and", "if False and"),
            Edit(f"{SHEET}/xlsx_import.py", 'if target.endswith(".bin"):', "if False:"),
        ),
        (f"{RECEIVED}::test_a_file_of_another_kind_is_refused_with_its_kind_and_the_next_step",),
    ),
    Removal(
        "B953",
        (
            Edit(
                f"{SHEET}/xlsx_parts.py",
                "        for loss, where in workbook_losses(name, attributes):\n",
                "        for loss, where in ():\n",
            ),
        ),
        (
            f"{RECEIVED}::test_settings_of_a_workbook_that_the_engine_lacks_are_reported",
            f"{RECEIVED}::test_a_workbook_whose_sheets_are_all_hidden_shows_the_first_one",
        ),
    ),
    Removal(
        "B954",
        (Edit(f"{SHEET}/xlsx_losses.py", "None if kind in USUAL_PARTS else OTHER_PART", "None"),),
        (f"{RECEIVED}::test_parts_of_unknown_kinds_are_reported_and_usual_parts_are_not",),
    ),
    Removal(
        "B955",
        (Edit(f"{SHEET}/xlsx_import.py", "renamed = engine_names(listed)", "renamed = {}"),),
        (f"{RECEIVED}::test_formulas_and_charts_refer_to_a_tab_whose_name_has_an_apostrophe",),
    ),
    Removal(
        "B956",
        (
            Edit(
                f"{SHEET}/workbook_names.py",
                "        return self._absolute.get(plain.lower(), plain)\n",
                "        return formula\n",
            ),
        ),
        (
            f"{RECEIVED}::test_rules_have_the_meaning_of_defined_names_and_other_lists_are_reported",
            f"{RECEIVED}::test_a_chart_series_of_a_defined_name_has_its_range_or_is_reported",
        ),
    ),
    Removal(
        "B957",
        (
            Edit(
                f"{SHEET}/xlsx_rules.py",
                "        if kind in WITH_FORMULA and not first:\n            return None\n",
                "",
            ),
        ),
        (f"{RECEIVED}::test_a_validation_without_a_formula_costs_no_other_rule",),
    ),
    Removal(
        "B958",
        (Edit(f"{SHEET}/xlsx_repair.py", 'elif attributes.get("location") == MISSING_SHEET:', "elif False:"),),
        (f"{RECEIVED}::test_a_link_to_a_missing_sheet_is_left_out_and_reported",),
    ),
    Removal(
        "B959",
        (Edit(f"{SHEET}/filled_cells.py", "if self._links > SHEET_XLSX_LINKS_MAX:", "if False:"),),
        (f"{RECEIVED}::test_links_of_too_many_cells_are_reported_and_refuse_no_workbook",),
    ),
    Removal(
        "B960",
        (
            Edit(
                f"{SHEET}/sheet_names.py",
                'if is_changed or match["plain"] else match[0]',
                "if is_changed else match[0]",
            ),
        ),
        (f"{RECEIVED}::test_an_export_quotes_names_of_sheets_that_look_like_numbers_or_references",),
    ),
    Removal(
        "B961",
        (
            Edit(
                f"{SHEET}/xlsx_import.py", 'if not any(sheet.state == "visible" for sheet, _ in sheets):', "if False:"
            ),
            Edit(
                f"{SHEET}/xlsx_import.py",
                "if not all(listed) or len({name.lower() for name in listed}) < len(listed):",
                "if False:",
            ),
        ),
        (
            f"{RECEIVED}::test_a_workbook_whose_sheets_are_all_hidden_shows_the_first_one",
            f"{RECEIVED}::test_sheets_without_names_of_their_own_are_refused_before_the_engine",
        ),
    ),
    Removal(
        "B962",
        (
            Edit(
                BRIDGE, "  for (const name of OF_FILES) registries.functionRegistry.get(name).isExported = true;\n", ""
            ),
            Edit(
                f"{SHEET}/xlsx_repair.py",
                "formula = for_file(with_sheet_names(formula, self._names))",
                "formula = with_sheet_names(formula, self._names)",
            ),
        ),
        ("apps/sheet/tests/test_workbook_export.py::test_a_function_that_excel_has_is_exported_as_excel_writes_it",),
    ),
    Removal(
        "B963",
        (Edit(f"{SHEET}/number_formats.py", 'text == "\'" or not text.isascii()', "False"),),
        ("apps/sheet/tests/test_number_formats.py::test_imported_number_formats_apply_to_cells_and_exports",),
    ),
    Removal(
        "B964",
        (Edit(f"{SHEET}/workbook_names.py", "        if not pieces:\n", "        if pieces is not None:\n"),),
        (f"{RECEIVED}::test_a_text_of_a_formula_may_have_quotation_marks_and_backslashes",),
    ),
    Removal(
        "B965",
        (
            Edit(f"{SHEET}/workbook_names.py", "        return for_engine(formula)\n", "        return formula\n"),
            Edit(BRIDGE, "        else cells[name] = forFile(cells[name]);\n", ""),
        ),
        (f"{RECEIVED}::test_a_sign_before_a_power_means_the_same_in_the_engine_and_in_a_file",),
    ),
    Removal(
        "B965",
        (
            Edit(
                f"{SHEET}/formulas.py",
                '    if not ("^" in formula and "-" in formula) and not _SIGNED.search(formula):\n',
                "    if formula:\n",
            ),
        ),
        (f"{RECEIVED}::test_a_sign_before_a_power_has_parentheses_for_the_engine",),
    ),
    Removal(
        "B966",
        (
            Edit(
                CELLS,
                'if formula is not None or (kind in ("", "b", "e") and value',
                'if formula is None and (kind == "" and value',
            ),
        ),
        (f"{RECEIVED}::test_a_boolean_and_an_error_in_a_text_format_stay_a_boolean_and_an_error",),
    ),
    Removal(
        "B967",
        (Edit(f"{SHEET}/csv_files.py", "    hint = SEPARATOR.match(text)\n", "    hint = None\n"),),
        ("apps/sheet/tests/test_csv.py::test_a_first_line_that_names_the_delimiter_is_no_row",),
    ),
    Removal(
        "B997",
        (
            Edit(f"{SHEET}/formulas.py", ' or (before in ("/", "^") and follows in ("*", "/"))', ""),
            Edit(FORMULAS, "beginsWithPower(ast.operand) ?", 'ast.operand.value === "^" ?'),
            Edit(
                FORMULAS,
                "    if (isProduct(ast)) return { ...ast, left: isSign",
                "    if (false) return { ...ast, left: isSign",
            ),
        ),
        (
            f"{RECEIVED}::test_a_sign_before_a_power_has_parentheses_for_the_engine",
            f"{RECEIVED}::test_a_sign_before_a_power_means_the_same_in_the_engine_and_in_a_file",
            f"{RECEIVED}::test_a_sign_after_a_power_or_a_quotient_means_the_same_in_the_engine_and_in_a_file",
        ),
    ),
    Removal(
        "B997",
        (Edit(FORMULAS, 'value.startsWith("=") ? forFile(value) : value', "value ? value : value"),),
        (f"{RECEIVED}::test_rules_keep_the_meaning_of_their_signs",),
    ),
    Removal(
        "B998",
        (Edit(BRIDGE, "...unwritable, ...foreignFormulas(getters)]", "...unwritable]"),),
        (
            f"{RECEIVED}::test_an_array_or_a_filter_that_a_file_lacks_is_exported_as_its_value",
            f"{RECEIVED}::test_a_quotation_mark_in_an_array_of_a_file_costs_the_export_its_formula_and_no_value",
        ),
    ),
    Removal(
        "B999",
        (Edit(f"{SHEET}/xlsx_figures.py", ".removeprefix(THIS_WORKBOOK)", ""),),
        (f"{RECEIVED}::test_a_chart_series_of_a_defined_name_has_its_range_or_is_reported",),
    ),
    Removal(
        "B1001",
        (
            Edit(
                f"{SHEET}/workbook_names.py",
                "        is_long = self._replaced > ",
                "        is_long = self._replaced > 9 * ",
            ),
        ),
        (f"{RECEIVED}::test_names_that_multiply_at_each_level_are_replaced_up_to_a_limited_length",),
    ),
    Removal(
        "B1028",
        (Edit("apps/sheet/src/stratalog_sheet/sheets.py", "        damaged(exc)\n", "        raise\n"),),
        (
            "apps/sheet/tests/test_damaged_lists.py::test_a_list_of_sheets_names_a_damaged_sheet_and_lists_the_others",
            "apps/sheet/tests/test_damaged_lists.py::test_the_snapshots_of_the_other_sheets_are_saved_and_the_damage_is_named",
        ),
    ),
    Removal(
        "B1029",
        (
            Edit(
                "apps/catalogue/src/stratalog_catalogue/letter_commands.py",
                ".dead_letters(damaged=damaged.append)",
                ".dead_letters()",
            ),
        ),
        (
            "apps/catalogue/tests/test_commands.py::test_damaged_dead_letters_are_named_and_the_others_are_listed_and_redriven",
        ),
    ),
    Removal(
        "B1029",
        (
            Edit(
                "apps/catalogue/src/stratalog_catalogue/redrive.py",
                ".dead_letters(damaged=errors.append)",
                ".dead_letters()",
            ),
        ),
        (
            "apps/catalogue/tests/test_commands.py::test_damaged_dead_letters_are_named_and_the_others_are_listed_and_redriven",
        ),
    ),
    Removal(
        "B1030",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/csv_files.py",
                "if 4 * (first + second) < len(body) or not body:",
                "if first or second or True:",
            ),
        ),
        (
            "apps/sheet/tests/test_csv.py::test_utf_16_without_a_byte_order_mark_is_read_and_reported",
            "apps/sheet/tests/test_csv.py::test_utf_32_is_read_with_a_byte_order_mark_and_refused_without_it",
        ),
    ),
    Removal(
        "B1031",
        (
            Edit(
                "apps/catalogue/src/stratalog_catalogue/encodings.py",
                'if not mark and not declared and b"\\0" in head[:MARK_BYTES] and any(head[:MARK_BYTES]):',
                "if False:",
            ),
        ),
        ("apps/catalogue/tests/test_encodings.py::test_a_text_with_zero_bytes_needs_a_declared_encoding",),
    ),
    Removal(
        "B1032",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/engine.py",
                "return Unavailable(text, call=name, limit_seconds=limit, ended_by=signal.SIGKILL.name)",
                "return LimitExceeded(text, call=name, limit_seconds=limit)",
            ),
        ),
        (
            "apps/sheet/tests/test_engine.py::test_a_call_beyond_its_time_on_a_loaded_machine_may_be_tried_again",
            "apps/sheet/tests/test_engine.py::test_a_process_that_does_not_answer_is_killed",
        ),
    ),
)
