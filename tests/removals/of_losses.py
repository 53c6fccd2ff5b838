"""Removals of fixes: losses of an import or export of workbooks, and columns of tables that no read finds."""

from __future__ import annotations

from tests.removals.of_sheets import SHEET
from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

TESTS = "apps/sheet/tests/test_losses.py"
BRIDGE = f"{SHEET}/javascript/bridge.js"
CELLS = f"{SHEET}/xlsx_cells.py"

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
                'with_file_names("".join(self._reference or []), self._names)',
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
        (
            Edit(
                f"{SHEET}/xlsx_losses.py",
                'return "r:id" in hyperlink or "!" in hyperlink.get("location", "")',
                "return True",
            ),
        ),
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
)
