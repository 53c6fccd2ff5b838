"""Removals of fixes: the sheet's page while the network or the server fails, and loads and exports of a sheet."""

from __future__ import annotations

from tests.removals.of_sheets import SHEET, TESTS, WEB, story
from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

EXPORTS = f"{TESTS}/test_workbook_export.py"
FORMATS = f"{TESTS}/test_number_formats.py"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B559",
        (
            Edit(
                f"{WEB}/transport.js",
                "return this.#hooks.onReload(this.#reload);",
                "return this.#hooks.onReload(this.#reload).catch((error) => this.#end(error));",
            ),
        ),
        (story("aReloadIsRepeatedWhileTheServerFails"),),
    ),
    Removal(
        "B560",
        (Edit(f"{WEB}/workbook.js", "  if (isPassing(error)) throw error;\n  return fallback;", "  return fallback;"),),
        (
            story("pendingTextFollowsItsCellAfterAFailedRequest"),
            story("aSentChangeBeforeARestoreIsNotRepeatedAfterAFailedRequest"),
        ),
    ),
    Removal(
        "B561",
        (Edit(f"{WEB}/loader.js", "      await this.#fetchBase(cached, loaded);\n", ""),),
        (story("pendingTextFollowsItsCellIfAnotherTabHasLoadedARestoredVersion"),),
    ),
    Removal(
        "B562",
        (
            Edit(
                f"{WEB}/loader.js",
                "isPassing(error) && hasBase(cached)",
                '["outcome-unknown", "unreached"].includes(error.code)',
            ),
        ),
        (story("aCachedSheetOpensWhileTheServerIsUnavailable"),),
    ),
    Removal(
        "B563",
        (
            Edit(f"{WEB}/versionViewer.js", "      if (turn !== this.#turn) return false;\n", ""),
            Edit(f"{WEB}/versionViewer.js", "    if (turn !== this.#turn) return false;\n    this", "    this"),
            Edit(f"{WEB}/edit.js", "if (shownVersion !== versionViewer.model || find", "if (find"),
        ),
        (
            story("aLateVersionIsNotShownInPlaceOfTheChosenVersion"),
            story("lateEntriesOfAnEarlierSliderMoveAreNotReadTwice"),
        ),
    ),
    Removal(
        "B564",
        (Edit(f"{WEB}/edit.js", "      if (timeline.at === version) returnToShown(version);\n", ""),),
        (story("aFailedMoveOfTheSliderReturnsToTheShownVersion"),),
    ),
    Removal(
        "B565",
        (Edit(f"{WEB}/edit.js", '  workbook.addEventListener("model", showFacts);\n', ""),),
        (story("thePageShowsTheNewestTitleAndVersionNamesAfterARestore"),),
    ),
    Removal(
        "B566",
        (
            Edit(
                f"{WEB}/canvas.js",
                "fetchTemplates());\n    if (turn !== this.#turn) return false;",
                "fetchTemplates());",
            ),
        ),
        (story("aPageThatReloadsARestoredSheetWhileItOpensShowsTheSheetOnce"),),
    ),
    Removal(
        "B567",
        (Edit(f"{WEB}/canvas.js", "answer?.ok ? await", "answer ? await"),),
        (story("aSheetIsShownAfterAFailedRequestForTheTemplates"),),
    ),
    Removal(
        "B568",
        (Edit(f"{WEB}/dialogs.css", ".notice {\n  padding", ".notice {\n  position: absolute;\n  padding"),),
        (story("messagesShownTogetherDoNotCoverEachOther"),),
    ),
    Removal(
        "B569",
        (Edit(f"{SHEET}/models.py", "if objects > SHEET_OBJECTS_ADDED_MAX or not calls:", "if not calls:"),),
        (
            (
                f"{TESTS}/test_limits_reached.py"
                "::test_a_load_with_many_objects_takes_several_calls_and_continues_after_its_time"
            ),
        ),
    ),
    Removal(
        "B570",
        (
            Edit(f"{SHEET}/xlsx_repair.py", "if _is_beyond(name, attributes) or (", "if ("),
            Edit(
                f"{SHEET}/xlsx_repair.py",
                "if column >= COLUMNS_MAX or row >= ROWS_MAX:",
                "if column > 18_278:",
            ),
        ),
        ((f"{TESTS}/test_workbook_export.py::test_an_export_leaves_out_columns_and_cells_that_a_file_cannot_contain"),),
    ),
    Removal(
        "B622",
        (
            Edit(
                f"{SHEET}/sheets.py",
                "not (isinstance(exc, LongOpening) or ",
                "not (",
            ),
        ),
        (
            f"{TESTS}/test_limits_reached.py::test_maintenance_continues_a_long_opening_and_skips_a_sheet_that_is_unavailable",
        ),
    ),
    Removal(
        "B623",
        (Edit(f"{SHEET}/models.py", "(model.version >= model.planned and model.messages", "(model.messages"),),
        (f"{TESTS}/test_limits_reached.py::test_an_opening_with_more_messages_than_a_model_may_have_continues",),
    ),
    Removal(
        "B636",
        (Edit(f"{WEB}/clipboard.js", 'cellHandlers.replace("cell", Cells);\n', ""),),
        (story("aTablePastedFromAnotherProgramFillsOnlyItsOwnCells"),),
    ),
    Removal(
        "B637",
        (
            Edit(f"{WEB}/clipboard.js", "  getPlainTextContent() {", "  getPlainText() {"),
            Edit(f"{WEB}/clipboard.js", "  async getHTMLContent() {", "  async getHTML() {"),
        ),
        (story("copiedCellsHaveTheirTextsInOtherPrograms"),),
    ),
    Removal(
        "B638",
        (Edit(f"{WEB}/clipboard.js", "this.copiedData === cut && changes(command, cut)", "false"),),
        (story("cutCellsThatAnotherUserChangesAreNotPasted"), story("aPasteAfterAnotherUsersUndoClearsNoOtherCell")),
    ),
    Removal(
        "B639",
        (
            Edit(
                f"{WEB}/conflicts.js",
                "      own.delete(keyOf(command)); // the newest write comes last\n",
                "      for (const cell of commands) if (isSame(cell, command)) own.delete(keyOf(cell));\n",
            ),
        ),
        (f"{TESTS}/test_rebase.py::test_the_conflicts_of_a_large_table_take_few_reads_of_each_command",),
    ),
    Removal(
        "B640",
        (Edit(f"{WEB}/timeline.js", "    this.#show();\n    this.#moveTicks();", "    this.#show();"),),
        (story("aNamedVersionStaysInItsPlaceOnTheSlider"),),
    ),
    Removal(
        "B641",
        (
            Edit(
                f"{WEB}/edit.js",
                "  const { model } = workbook;\n  if (!(await canvases.now.mount(model))) return;\n",
                "  const { model } = workbook;\n  const before = shownNow;\n  shownNow = model;\n"
                "  if (!(await canvases.now.mount(model))) return;\n  shownNow = before;\n",
            ),
        ),
        (story("aSecondRestoreBeforeTheFirstIsDrawnKeepsTheView"),),
    ),
    Removal(
        "B642",
        (Edit(f"{SHEET}/xlsx_repair.py", "    if columns[1] < COLUMNS_MAX:\n", "    if columns:\n"),),
        (f"{EXPORTS}::test_an_export_leaves_out_ranges_after_the_last_column_of_a_file",),
    ),
    Removal(
        "B642",
        (Edit(f"{SHEET}/xlsx_figures.py", 'if self._name == "xdr:col" and int(text)', "if 0"),),
        (f"{EXPORTS}::test_an_export_leaves_out_a_figure_after_the_last_column_of_a_file",),
    ),
    Removal(
        "B642",
        (Edit(f"{SHEET}/xlsx_export.py", "if exceeds_file(cells):", "if False:"),),
        (f"{EXPORTS}::test_an_export_leaves_out_a_name_of_a_range_after_the_last_column_of_a_file",),
    ),
    Removal(
        "B642",
        (Edit(f"{SHEET}/xlsx_export.py", "if match and exceeds_file(match[1]):", "if False:"),),
        (f"{EXPORTS}::test_an_export_leaves_out_tables_with_cells_after_the_last_column_of_a_file",),
    ),
    Removal(
        "B642",
        (
            Edit(
                f"{SHEET}/xlsx_repair.py", "            if exceeds_file(text):\n                self._leave_out()\n", ""
            ),
        ),
        (f"{EXPORTS}::test_an_export_leaves_out_rules_with_references_after_the_last_column_of_a_file",),
    ),
    Removal(
        "B642",
        (Edit(f"{SHEET}/xlsx_figures.py", "            if exceeds_file(reference):\n", "            if False:\n"),),
        (f"{EXPORTS}::test_an_export_leaves_out_series_of_charts_with_cells_after_the_last_column_of_a_file",),
    ),
    Removal(
        "B642",
        (Edit(f"{SHEET}/javascript/bridge.js", "ranges.some((range) =>", "[].some((range) =>"),),
        (f"{EXPORTS}::test_a_formula_that_needs_cells_beyond_the_last_column_or_row_is_exported_as_values",),
    ),
    Removal(
        "B643",
        (Edit(f"{SHEET}/xlsx_import.py", "self._allowance, engine_code, BUILT_IN)", "self._allowance)"),),
        (f"{FORMATS}::test_imported_number_formats_apply_to_cells_and_exports",),
    ),
    Removal(
        "B643",
        (Edit(f"{SHEET}/file_reports.py", "listed[:SHEET_REPORT_CELLS_MAX])] if listed else []", "listed)][:0]"),),
        (f"{FORMATS}::test_a_format_that_the_engine_does_not_know_is_reported",),
    ),
    Removal(
        "B644",
        (Edit(f"{SHEET}/xlsx_export.py", "_with_normal_style(_with_file_codes(", "_with_normal_style(("),),
        (f"{FORMATS}::test_imported_number_formats_apply_to_cells_and_exports",),
    ),
    Removal(
        "B647",
        (
            Edit(
                f"{SHEET}/xlsx_figures.py",
                "self._is_literal = RANGE.fullmatch(text) is None",
                "self._is_literal = False",
            ),
        ),
        (
            (
                f"{TESTS}/test_workbooks_of_others.py"
                "::test_a_chart_whose_series_has_a_title_that_is_no_cell_is_imported_without_the_title"
            ),
        ),
    ),
    Removal(
        "B648",
        (Edit(f"{SHEET}/xlsx_cells.py", "        if self._has_rule:\n", "        if False:\n"),),
        (
            (
                f"{TESTS}/test_workbooks_of_others.py"
                "::test_all_supported_rules_of_a_range_are_imported_and_an_unsupported_rule_is_reported"
            ),
        ),
    ),
    Removal(
        "B645",
        (Edit(f"{SHEET}/files.py", 'ZIP = b"PK\\x03\\x04"', 'ZIP = b"PK"'),),
        (f"{TESTS}/test_csv.py::test_a_csv_file_may_begin_with_the_letters_pk_of_an_archive",),
    ),
    Removal(
        "B646",
        (Edit(f"{WEB}/home.js", '  target.value = "";\n', ""),),
        (story("aRefusedFileCanBeChosenAgainAndTwoFilesAreRefused"),),
    ),
    Removal(
        "B704",
        (Edit(f"{SHEET}/javascript/bridge.js", "        this.noteFormulas(sheet);\n", ""),),
        (f"{EXPORTS}::test_a_formula_with_a_function_that_excel_lacks_is_exported_as_its_value",),
    ),
    Removal(
        "B704",
        (Edit(f"{SHEET}/javascript/bridge.js", "this.isTextOfFormula(id, name)", "false"),),
        (f"{EXPORTS}::test_a_formula_with_a_function_that_excel_lacks_is_exported_as_its_value",),
    ),
    Removal(
        "B705",
        (Edit(f"{SHEET}/workbook_names.py", ', "SUBTOTAL": "SUBTOTAL "}', "}"),),
        (f"{TESTS}/test_workbooks_of_others.py::test_a_subtotal_is_imported_as_a_subtotal",),
    ),
    Removal(
        "B706",
        (
            Edit(
                f"{WEB}/rebase.js", "this.history.update(rules, sheetId, helpers.deepCopy(this[rules][sheetId]));", "{}"
            ),
        ),
        (
            f"{TESTS}/test_rebase.py::test_the_message_of_a_rule_has_the_formula_from_before_a_later_insertion",
            f"{TESTS}/test_rebase.py::test_an_inserted_row_moves_the_formulas_of_its_own_sheet_and_not_those_of_a_copy",
        ),
    ),
    Removal(
        "B707",
        (Edit(f"{WEB}/charts.js", "    chartTypeRegistry.replace(type, { ...chart, getRuntime });\n", ""),),
        (
            f"{EXPORTS}::test_a_sheet_is_exported_despite_a_treemap_with_more_values_than_groups",
            f"{TESTS}/test_loaded.py::test_a_chart_with_more_values_than_groups_shows_its_groups",
        ),
    ),
    Removal(
        "B708",
        (Edit(f"{WEB}/trial.js", '    names.splice(REMOVED, 0, "");\n', ""),),
        (f"{TESTS}/test_refusals.py::test_a_sheet_opens_without_an_unusable_command_and_lists_the_command",),
    ),
    Removal(
        "B708",
        (Edit(f"{WEB}/trial.js", "      pivot.init({ reload: true });\n", ""),),
        (f"{TESTS}/test_refusals.py::test_a_sheet_opens_without_an_unusable_command_and_lists_the_command",),
    ),
    Removal(
        "B709",
        (Edit(f"{WEB}/rebase.js", "({ ...sheet, merges: [] })", "({ ...sheet })"),),
        (f"{TESTS}/test_loaded.py::test_a_loaded_state_has_the_borders_of_the_open_model",),
    ),
    Removal(
        "B709",
        (Edit(f"{WEB}/rebase.js", "this.setBorder = (", "this.unused = ("),),
        (f"{TESTS}/test_loaded.py::test_a_loaded_state_has_the_borders_of_the_open_model",),
    ),
    Removal(
        "B1085",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/web/rebase.js",
                "point.value = `=${point.value}`;",
                ";",
            ),
        ),
        ("apps/sheet/tests/test_thresholds.py::test_a_threshold_typed_without_an_equals_sign_moves_with_its_cells",),
    ),
    Removal(
        "B1085",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/xlsx_rules.py",
                "f\"={self.formula(value.removeprefix('='), ranges)}\"",
                "self.formula(value, ranges)",
            ),
        ),
        (
            "apps/sheet/tests/test_thresholds.py::test_the_thresholds_of_an_imported_format_move_with_their_cells_and_are_exported",
        ),
    ),
    Removal(
        "B1086",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/xlsx_rules.py",
                'kind == "formula" or (kind == "num" and not is_number)',
                'kind == "formula"',
            ),
        ),
        (
            "apps/sheet/tests/test_thresholds.py::test_the_thresholds_of_an_imported_format_move_with_their_cells_and_are_exported[num]",
        ),
    ),
    Removal(
        "B1087",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/javascript/formulas.js",
                '({ ...point, type: "number", value',
                "({ ...point, value",
            ),
        ),
        (
            "apps/sheet/tests/test_thresholds.py::test_the_thresholds_of_an_imported_format_move_with_their_cells_and_are_exported[formula]",
        ),
    ),
    Removal(
        "B1124",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/web/rebase.js",
                '  registries.corePluginRegistry.replace("borders", Borders);\n',
                """  class Formats extends registries.corePluginRegistry.get("conditional formatting") {
    mapToConditionalFormatInternal(sheetId, format) {
      return super.mapToConditionalFormatInternal(
        sheetId,
        JSON.parse(JSON.stringify(format).replace(/"value":"\\$/g, '"value":"=$')),
      );
    }
  }
  registries.corePluginRegistry.replace("conditional formatting", Formats);
  registries.corePluginRegistry.replace("borders", Borders);
""",
            ),
        ),
        (
            "apps/sheet/tests/test_thresholds.py::test_a_threshold_without_an_equals_sign_in_a_stored_message_stays_as_its_users_saw_it",
            "apps/sheet/tests/test_golden_history.py::test_a_golden_version_still_has_the_state_that_its_users_saw",
        ),
    ),
    Removal(
        "B1125",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/javascript/formulas.js",
                'value.startsWith("=") ? value : `=${value}`);',
                "value);",
            ),
        ),
        (
            "apps/sheet/tests/test_thresholds.py::test_a_stored_threshold_that_means_something_else_in_a_file_is_left_out_and_reported",
        ),
    ),
    Removal(
        "B1088",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/xlsx_cells.py",
                "for loss in (*lost, *self._thresholds.start(name, attributes, self._ranges)):",
                "for loss in lost:",
            ),
        ),
        (
            "apps/sheet/tests/test_thresholds.py::test_thresholds_and_formulas_that_the_engine_does_not_read_are_reported[icons]",
            "apps/sheet/tests/test_thresholds.py::test_thresholds_and_formulas_that_the_engine_does_not_read_are_reported[percent]",
            "apps/sheet/tests/test_thresholds.py::test_thresholds_and_formulas_that_the_engine_does_not_read_are_reported[bar]",
        ),
    ),
    Removal(
        "B1089",
        (Edit("apps/sheet/src/stratalog_sheet/formulas.py", 'text += ")*1>0"', 'text += ")>0"'),),
        ("apps/sheet/tests/test_thresholds.py::test_the_order_of_a_sort_may_be_a_text_or_a_truth_value",),
    ),
    Removal(
        "B1090",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/javascript/bridge.js",
                "        for (const cell of unreadRules(getters, sheetId)) broken.add(cell);\n",
                "",
            ),
        ),
        (
            "apps/sheet/tests/test_thresholds.py::test_thresholds_and_formulas_that_the_engine_does_not_read_are_reported[sort]",
        ),
    ),
    Removal(
        "B1091",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/javascript/bridge.js",
                "sheet.conditionalFormats.filter(({ rule }) => isOfFile(rule))",
                "sheet.conditionalFormats",
            ),
        ),
        (
            "apps/sheet/tests/test_thresholds.py::test_a_format_whose_formula_means_something_else_in_a_file_is_left_out_and_reported",
        ),
    ),
    Removal(
        "B1092",
        (Edit("apps/sheet/src/stratalog_sheet/web/workbook.js", ", ...queuedOf(this.model, this.version)]", "]"),),
        (
            "apps/sheet/tests/test_e2e.py::test_the_story_passes_in_the_browser[textTypedWhileAnUndoWaitsSurvivesACrash]",
        ),
    ),
    Removal(
        "B1092",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/web/engine.js",
                "withId(model.session, stored?.nextRevisionId, ",
                "withId(model.session, undefined, ",
            ),
        ),
        (
            "apps/sheet/tests/test_rebase.py::test_a_stored_command_that_waits_for_an_undo_is_sent_with_the_id_under_which_it_is_stored",
        ),
    ),
    Removal(
        "B1093",
        (Edit("apps/sheet/src/stratalog_sheet/web/access.js", "    leave(event.shiftKey ? -1 : 1);\n", ""),),
        (
            "apps/sheet/tests/test_e2e.py::test_the_story_passes_in_the_browser[theCellsAreLeftByKeyboardAndControlsHaveNames]",
        ),
    ),
)
