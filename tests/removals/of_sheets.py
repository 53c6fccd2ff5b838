"""Removals of fixes: spreadsheets, their pages and their engines."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

SHEET = "apps/sheet/src/stratalog_sheet"
ENGINE = f"{SHEET}/engine.py"
WEB = f"{SHEET}/web"
TURNS = f"{SHEET}/warm_sheets.py"
TESTS = "apps/sheet/tests"

RUNS_IN_A_PROCESS = """\
            self._start()
            self._await_ready()
            return self._run(name, request)
"""
RUNS_HERE = """\
            if not hasattr(self, "_here"):
                self._here = EngineProcess(json.loads(self._options()))
            return self._here.run(name, request[0].decode(), 30)[1].encode()
"""


def story(name: str) -> str:
    """Return the browser test of that name."""
    return f"{TESTS}/test_e2e.py::test_the_story_passes_in_the_browser[{name}]"


def loaded(case: str) -> str:
    """Return the test of a page that loads the messages of that case."""
    name = "test_a_page_that_loaded_messages_has_the_heights_and_subtotals_of_a_page_that_received_them"
    return f"{TESTS}/test_loaded.py::{name}[{case}]"


REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B111",
        (Edit(f"{SHEET}/branches.py", '        raise VersionLost("the', '        raise VersionConflict("the'),),
        (
            (
                f"{TESTS}/test_restored.py"
                "::test_open_pages_follow_a_server_restored_from_a_backup[aTabAheadOfARestoredServerReturnsToTheVersionOfTheServer]"
            ),
        ),
    ),
    Removal(
        "B129",
        (
            Edit(
                f"{WEB}/engine.js",
                '  if (stores.get(Stores.CellComposerStore).editionMode === "inactive") target.replaceChildren();\n',
                "",
            ),
        ),
        (story("quickTypingReplacesTheContentOfACell"),),
    ),
    Removal(
        "B130",
        (Edit(f"{WEB}/server.js", "    if (!this.incarnation) return path;\n", "    return path;\n"),),
        (story("aNewSheetIsNotMistakenForADeletedSheetOfTheSameName"),),
    ),
    Removal(
        "B130",
        (
            Edit(
                f"{WEB}/loader.js",
                "    if (!typed || typed === this.#facts.incarnation) return;\n",
                "    return;\n",
            ),
        ),
        (story("pendingChangesOfADeletedSheetAreShownOnReturn"),),
    ),
    Removal(
        "B131",
        (Edit(f"{WEB}/dom.js", '{ class: "notice", role:', '{ class: "toast", role:'),),
        (story("aRefusedTitleStaysInTheFieldForCorrection"),),
    ),
    Removal(
        "B132",
        (Edit(f"{WEB}/workbook.js", "    if (this.#isSaving) return;\n", ""),),
        (story("theStatusIsShownOnceForABurstOfChanges"),),
    ),
    Removal(
        "B133",
        (
            Edit(
                f"{SHEET}/titles.py",
                "return title_in(next(self._log.read_snapshot(snapshot)))",
                'return ""',
            ),
        ),
        (f"{TESTS}/test_titles.py::test_a_title_outlives_its_forgotten_rename_entry",),
    ),
    Removal(
        "B134",
        (Edit(f"{SHEET}/events.py", "    check_bounds(commands)\n", ""),),
        (f"{TESTS}/test_poison.py::test_the_server_refuses_a_message_that_would_make_its_sheet_unopenable",),
    ),
    Removal(
        "B134",
        (
            Edit(
                f"{SHEET}/failed_versions.py",
                "            if failure is None or failure.kills < SHEET_KILLS_MAX:\n",
                "            if True:\n",
            ),
        ),
        (f"{TESTS}/test_poison.py::test_reads_of_an_unopenable_sheet_are_refused_and_a_restore_repairs_the_sheet",),
    ),
    Removal(
        "B135",
        (
            Edit(ENGINE, RUNS_IN_A_PROCESS, RUNS_HERE),
            Edit(
                ENGINE,
                "from stratalog_sheet.limits import",
                "from stratalog_sheet.engine_process import EngineProcess\nfrom stratalog_sheet.limits import",
            ),
        ),
        (
            f"{TESTS}/test_engine.py::test_many_threads_make_and_use_engines_at_once",
            f"{TESTS}/test_engine.py::test_engines_end_with_their_parent_process_which_never_loads_v8",
        ),
    ),
    Removal(
        "B136",
        (Edit(TURNS, "threads_of_key_max=1", "threads_of_key_max=settings.engines_max"),),
        (f"{TESTS}/test_poison.py::test_a_sheet_with_a_busy_engine_does_not_block_another_sheet",),
    ),
    Removal(
        "B136",
        (Edit(TURNS, "threads=settings.engines_max", "threads=64"),),
        (f"{TESTS}/test_poison.py::test_callers_waiting_for_an_engine_are_bounded_and_occupy_no_thread",),
    ),
    Removal(
        "B137",
        (
            Edit(
                f"{SHEET}/sheets.py", "(LimitExceeded, Invalid, Unavailable) as exc:", "(Invalid, Unavailable) as exc:"
            ),
        ),
        (f"{TESTS}/test_poison.py::test_maintenance_continues_after_an_unopenable_sheet",),
    ),
    Removal(
        "B239",
        (Edit(f"{SHEET}/xlsx_cells.py", 'decoded("".join(cell.inline) or text)', "decoded(text)"),),
        (
            f"{TESTS}/test_workbook_import.py::test_inline_strings_are_imported_with_their_text_and_rich_text_is_reported",
        ),
    ),
    Removal(
        "B240",
        (
            Edit(
                f"{SHEET}/xlsx_cells.py",
                "if self._context.is_1904 and self._style(cell) in self._context.date_styles:",
                "if False:",
            ),
        ),
        (f"{TESTS}/test_workbook_import.py::test_dates_of_the_1904_date_system_are_converted",),
    ),
    Removal(
        "B241",
        (
            Edit(
                f"{SHEET}/workbook_names.py",
                "        if self._names or NEEDS_WORK.search(formula):\n",
                "        if False:\n",
            ),
        ),
        (f"{TESTS}/test_workbook_import.py::test_defined_names_and_table_references_evaluate_to_their_values",),
    ),
    Removal(
        "B241",
        (Edit(f"{SHEET}/workbook_names.py", 'text.replace("[", BRACKET) if self._tables else text', "text"),),
        (f"{TESTS}/test_workbook_import.py::test_defined_names_and_table_references_evaluate_to_their_values",),
    ),
    Removal(
        "B242",
        (
            Edit(
                f"{SHEET}/xlsx_texts.py",
                '    return f"\'{text}" if not is_text and NOT_PLAIN.match(text) else text\n',
                "    return text\n",
            ),
        ),
        (f"{TESTS}/test_workbook_import.py::test_a_text_that_looks_like_another_value_stays_a_text",),
    ),
    Removal(
        "B243",
        (
            Edit(
                f"{SHEET}/xlsx_cells.py",
                "            text = shift(source, cell.position[0] - at[0], cell.position[1] - at[1])\n",
                '            text = source.replace("A1", "A2")\n',
            ),
        ),
        (f"{TESTS}/test_workbook_import.py::test_a_shared_formula_moves_only_its_relative_references",),
    ),
    Removal(
        "B244",
        (
            Edit(
                f"{SHEET}/xlsx_import.py",
                "        for number, (sheet, target) in enumerate(sheets, 1):\n",
                "        for number, (sheet, target) in enumerate(sorted(sheets, key=lambda pair: pair[1]), 1):\n",
            ),
        ),
        (f"{TESTS}/test_workbook_import.py::test_tabs_have_the_order_of_the_workbook_and_not_of_the_part_names",),
    ),
    Removal(
        "B245",
        (
            Edit(
                f"{SHEET}/xlsx_repair.py",
                '            if name == "c:doughnutChart" and self._is_pie:\n',
                "            if False:\n",
            ),
        ),
        (f"{TESTS}/test_workbook_export.py::test_an_independent_reader_opens_exported_charts",),
    ),
    Removal(
        "B246",
        (Edit(f"{SHEET}/xlsx_repair.py", "{key: value for key, value in attributes.items() if value}", "attributes"),),
        (f"{TESTS}/test_workbook_export.py::test_an_independent_reader_opens_exported_validations",),
    ),
    Removal(
        "B247",
        (
            Edit(
                f"{SHEET}/xlsx_export.py",
                'if "content" not in file and (body := _image',
                "if False and (body := _image",
            ),
        ),
        (
            f"{TESTS}/test_workbook_export.py::test_an_export_has_the_bytes_of_each_image_and_reports_an_image_without_data",
        ),
    ),
    Removal(
        "B248",
        (
            Edit(
                f"{SHEET}/xlsx_repair.py",
                '            if ref != retained["r"] or is_array(formula):\n',
                "            if True:\n",
            ),
        ),
        (f"{TESTS}/test_workbook_export.py::test_every_value_keeps_its_type_through_an_import_and_an_export",),
    ),
    Removal(
        "B249",
        (
            Edit(
                f"{SHEET}/xlsx_export.py",
                '        listed = f"<definedNames>{names}</definedNames>" if names else ""\n',
                '        listed = ""\n',
            ),
        ),
        (f"{TESTS}/test_workbook_export.py::test_an_export_has_defined_names_tables_and_hidden_tabs",),
    ),
    Removal(
        "B250",
        (
            Edit(
                f"{SHEET}/sheets.py",
                '                findings += broken_formulas(models.engine.call("brokenFormulas", **limits))\n',
                "",
            ),
        ),
        (f"{TESTS}/test_workbook_import.py::test_unsupported_features_of_a_workbook_are_reported",),
    ),
    Removal(
        "B251",
        (Edit(f"{SHEET}/file_routes.py", "    await bytes_of(request.scope).take_decoded(import_bytes(xlsx))\n", ""),),
        (f"{TESTS}/test_http.py::test_the_unpacked_bytes_of_an_import_count_toward_the_server_limit",),
    ),
    Removal(
        "B252",
        (
            Edit(
                f"{SHEET}/xlsx_cells.py",
                "return super().rewritten(without_empty_cells(chunks))",
                "return super().rewritten(chunks)",
            ),
        ),
        (f"{TESTS}/test_workbook_import.py::test_empty_cells_do_not_count_toward_the_element_limit",),
    ),
    Removal(
        "B253",
        (
            Edit(
                f"{WEB}/engine.js",
                '  if (command.type === "ADD_COLUMNS_ROWS" || command.type === "REMOVE_COLUMNS_ROWS") return;\n',
                "",
            ),
            Edit(f"{WEB}/tracker.js", "    else moveEdit(composer, position);\n", ""),
        ),
        (
            story("typedTextStaysInItsCellWhenRowsAndColumnsAreInsertedOrRemoved"),
            story("aPendingInsertionDoesNotMoveATypedCellTwice"),
        ),
    ),
    Removal(
        "B254",
        (Edit(f"{WEB}/positions.js", "position.sheetId !== command.sheetId || ", ""),),
        (story("typedTextStaysInItsCellWhenRowsAndColumnsAreInsertedOrRemoved"),),
    ),
    Removal(
        "B255",
        (
            Edit(
                f"{WEB}/conflictWatch.js",
                "if (target) this.#across(model, deliver);\n    else deliver();",
                "deliver();",
            ),
        ),
        (story("anUndoneInsertionMovesTheTypedCellBack"),),
    ),
    Removal(
        "B256",
        (
            Edit(
                f"{WEB}/engine.js",
                'if (pending.type === "REMOTE_REVISION") pending.commands',
                "if (!pending) pending.commands",
            ),
        ),
        (story("aTypedCellMovesWithAPendingInsertionThatTheEngineRebased"),),
    ),
    Removal(
        "B257",
        (Edit(f"{WEB}/tracker.js", "if (isChanged && text) this.#conflicts", "if (!text) this.#conflicts"),),
        (story("textTypedInADeletedRowOrSheetCanBeRestored"),),
    ),
    Removal(
        "B258",
        (Edit(f"{WEB}/conflicts.js", "    this.#noteDeleted(entry, commands, before, pending, isSheetGone);\n", ""),),
        (story("offlineTextInADeletedRowIsPutIntoANewRow"),),
    ),
    Removal(
        "B259",
        (
            Edit(
                f"{WEB}/conflicts.js",
                '    if (message.type === "REMOTE_REVISION") this.#noteOverwrote(entry, commands, before);\n',
                "",
            ),
        ),
        (story("bothUsersAreShownTheConflictOfTheirOfflineEdits"),),
    ),
    Removal(
        "B259",
        (Edit(f"{WEB}/conflictWatch.js", "typedAt < version ? { ...message, typedAt } : message", "message"),),
        (story("bothUsersAreShownTheConflictOfTheirOfflineEdits"), story("aReopenedWindowListsItsOverwrittenText")),
    ),
    Removal(
        "B260",
        (Edit(f"{WEB}/plugins.js", '    this.page.onUndoRefused?.(type === "REQUEST_REDO");\n', ""),),
        (story("anUndoRequestedOfflineIsOfferedOnReturn"),),
    ),
    Removal(
        "B261",
        (Edit(f"{WEB}/workbook.js", "    if (error) this.#watch.noteRefused(message, error);\n", ""),),
        (story("aRefusedChangeIsListedWithItsReason"),),
    ),
    Removal(
        "B262",
        (Edit(f"{WEB}/workbook.js", '    this.#announce("reload");\n', ""),),
        (story("textBeingTypedSurvivesARestore"),),
    ),
    Removal(
        "B263",
        (Edit(f"{WEB}/plugins.js", 'registries.featurePluginRegistry.replace("sort", SortPlugin);\n', ""),),
        (story("aSortAsksBeforeMovingAHeaderRow"),),
    ),
    Removal(
        "B289",
        (
            Edit(
                f"{SHEET}/comparison.py",
                "        changes = self._from_entries(low, high)\n",
                "        changes: Iterable[CellChange] | None = None\n",
            ),
        ),
        (
            f"{TESTS}/test_comparison.py::test_many_changes_of_a_large_sheet_are_compared_without_an_engine",
            story("changedCellsStandOut"),
        ),
    ),
    Removal(
        "B290",
        (
            Edit(
                f"{SHEET}/comparison.py",
                "            common = self._common(low, high)\n",
                "            common = self._common(low, high)\n"
                "            if common < low:\n                return None\n",
            ),
        ),
        (f"{TESTS}/test_comparison.py::test_a_comparison_matches_cells_across_a_restore",),
    ),
    Removal(
        "B291",
        (Edit(f"{SHEET}/writes.py", '    elif kind == "ADD_MERGE":', '    elif kind == "":'),),
        (f"{TESTS}/test_comparison.py::test_cells_hidden_by_a_merge_count_as_emptied",),
    ),
    Removal(
        "B292",
        (
            Edit(
                f"{WEB}/workbook.js",
                "    this.#watch.carry(moves, this.version, (message) => this.#transport.emit(message));\n",
                "",
            ),
        ),
        (
            story("pendingTextFollowsItsCellAcrossARestore"),
            story("pendingTextOfAClosedWindowFollowsItsCellAcrossARestore"),
        ),
    ),
    Removal(
        "B293",
        (Edit(f"{WEB}/rebase.js", "  Branch.insert = function", "  Branch.insertInOrder = function"),),
        (
            f"{TESTS}/test_rebase.py::test_texts_stay_in_their_cells_when_rows_and_columns_are_inserted_and_removed[waits]",
        ),
    ),
    Removal(
        "B301",
        (Edit(f"{WEB}/rebase.js", "message.rebase === IN_ORDER", "false"),),
        (
            f"{TESTS}/test_rebase.py::test_texts_written_after_a_row_removal_stay_in_their_rows_when_the_removal_is_undone",
            f"{TESTS}/test_rebase.py::test_texts_stay_in_their_cells_when_rows_and_columns_are_inserted_and_removed[undone]",
        ),
    ),
    Removal(
        "B302",
        (Edit(f"{WEB}/rebase.js", "walk.skip(later);", "void later;"),),
        (
            f"{TESTS}/test_rebase.py::test_texts_stay_in_their_cells_when_rows_and_columns_are_inserted_and_removed[undone]",
        ),
    ),
    Removal(
        "B306",
        (Edit(f"{WEB}/conflicts.js", "if (isShift(command)) writes =", "if (!command) writes ="),),
        (f"{TESTS}/test_convergence.py::test_a_seed_that_once_lost_a_text_loses_no_text[writesAroundAnInsertedRow]",),
    ),
    Removal(
        "B307",
        (Edit(f"{WEB}/engine.js", "  blockWhileAnUndoWaits(model.session);\n", ""),),
        (f"{TESTS}/test_convergence.py::test_a_seed_that_once_lost_a_text_loses_no_text[anothersUndo]",),
    ),
    Removal(
        "B314",
        (Edit(f"{WEB}/rebase.js", '  views.replace("row_size", RowSizes);\n', ""),),
        (
            *map(loaded, ("deletedSheet", "twoDeletedSheets", "rowsAddedBeforeADeletion", "viewedDeletion")),
            f"{TESTS}/test_loaded.py::test_an_open_model_applies_the_undo_of_a_loaded_tab_deletion",
        ),
    ),
    Removal(
        "B314",
        (Edit(f"{WEB}/rebase.js", "if (!this.tallestCellInRow[id]) this", "if (!id) this"),),
        (loaded("rowsAddedBeforeADeletion"), loaded("rowsRemovedBeforeADeletion")),
    ),
    Removal(
        "B314",
        (Edit(f"{WEB}/rebase.js", "isHistory && this.isStale", "isHistory && !command"),),
        tuple(map(loaded, ("rowsAddedAboveALargeText", "largeText", "deletedSubtotal", "viewedLargeText"))),
    ),
    Removal(
        "B314",
        (Edit(f"{WEB}/rebase.js", "  getCellsWithTrackedFormula(formula) {", "  getCellsWithFormula(formula) {"),),
        (loaded("sheetDuplicatedBeforeADeletion"),),
    ),
    Removal(
        "B322",
        (Edit(f"{WEB}/edit.js", "  save(file, file.name);", "  save(file, `${name}.xlsx`);"),),
        (story("theOriginalIsDownloadedUnderItsFileName"),),
    ),
    Removal(
        "B323",
        (Edit(f"{WEB}/edit.js", "(shownModel() ?? workbook.model).getters", "workbook.model.getters"),),
        (story("theVersionViewerDownloadsTheWorksheetThatItShows"),),
    ),
    Removal(
        "B324",
        (
            Edit(
                f"{SHEET}/history.py",
                "for command in commands if not _is_write(command))",
                'for command in commands if command["type"] not in _CELL_COMMANDS)',
            ),
        ),
        (f"{TESTS}/test_sheet.py::test_activity_describes_a_change_of_cell_style",),
    ),
    Removal(
        "B326",
        (Edit(f"{SHEET}/commands.py", "    if original and at is not None:\n", "    if not name:\n"),),
        (f"{TESTS}/test_commands.py::test_an_option_that_would_be_ignored_is_refused",),
    ),
    Removal(
        "B326",
        (Edit(f"{SHEET}/commands.py", "    if cell is None and tab is not None:\n", "    if not name:\n"),),
        (f"{TESTS}/test_commands.py::test_an_option_that_would_be_ignored_is_refused",),
    ),
    Removal(
        "B328",
        (Edit(f"{SHEET}/pool.py", "self._mine.is_refused = was_refused", "self._mine.is_refused = False"),),
        (f"{TESTS}/test_engine.py::test_a_pool_lends_no_engine_until_the_outermost_refusing_block_ends",),
    ),
    Removal(
        "B329",
        (
            Edit(
                f"{TESTS}/engine_kills.py",
                '                    exc.add_note(f"session {number} of the run, with seed {seed + number}")\n',
                "",
            ),
        ),
        (f"{TESTS}/test_engine_kills.py::test_a_failure_of_the_run_names_its_session_and_seed",),
    ),
    Removal(
        "B341",
        (Edit(f"{SHEET}/contents.py", "if self._refuses(command):", "if not command:"),),
        (
            f"{TESTS}/test_comparison.py::test_a_refused_deletion_of_the_last_tab_is_not_compared_as_a_deletion",
            f"{TESTS}/test_comparison.py::test_a_comparison_agrees_with_the_engine_on_tabs_rows_columns_and_cells",
            f"{TESTS}/test_convergence.py::test_a_seed_that_once_lost_a_text_loses_no_text[eachDeletesASheet]",
        ),
    ),
    Removal(
        "B341",
        (Edit(f"{WEB}/conflictWatch.js", "settle(pending(), nameOf, isSheetGone)", "settle(pending(), nameOf)"),),
        (f"{TESTS}/test_rebase.py::test_texts_of_a_new_tab_refused_by_the_engine_are_listed_as_conflicts",),
    ),
    Removal(
        "B341",
        (Edit(f"{WEB}/refusal.js", "commands.filter((command) => !(REFUSED in command))", "commands"),),
        (f"{TESTS}/test_rebase.py::test_a_duplication_refused_by_the_engine_leaves_an_open_model_unchanged",),
    ),
    Removal(
        "B342",
        (Edit(f"{WEB}/workbook.js", '    this.#announce("state");\n    freeze(this.model);\n', ""),),
        (story("aPageWhoseEngineFailsTakesNoMoreEdits"),),
    ),
    Removal(
        "B342",
        (Edit(f"{WEB}/edit.js", "if (!workbook.isComplete) canvases.now.clear();", ""),),
        (story("aPageWhoseEngineFailsTakesNoMoreEdits"),),
    ),
    Removal(
        "B342",
        (Edit(f"{WEB}/workbook.js", "await this.#makeWithout(cached, loaded, error);", "throw error;"),),
        (story("aSheetOpensWithoutItsPendingChangesIfTheEngineFailsAtThem"),),
    ),
    Removal(
        "B347",
        (
            Edit(
                f"{WEB}/dom.js",
                'Number.isFinite(value) ? `: ${value.toLocaleString("en")}` : "";',
                '`: ${value.toLocaleString("en")}`;',
            ),
        ),
        (story("aFileThatExceedsALimitIsRefusedWithTheLimit"),),
    ),
    Removal(
        "B348",
        (Edit(f"{SHEET}/blame.py", "read_retained(log, log.floor(), at)", "read_retained(log, log.floor())"),),
        (f"{TESTS}/test_blame.py::test_blame_at_an_earlier_version_starts_from_the_cell_position_in_that_version",),
    ),
    Removal(
        "B348",
        (Edit(f"{WEB}/edit.js", "at: timeline.at,", "at: null,"),),
        (story("blameOfAnEarlierVersionIsForTheCellAtThatVersion"),),
    ),
    Removal(
        "B349",
        (
            Edit(
                f"{WEB}/rebase.js",
                '  registries.statefulUIPluginRegistry.add("stratalog_subtotals", Subtotals);\n',
                "",
            ),
        ),
        (f"{TESTS}/test_sheet.py::test_a_subtotal_is_evaluated_when_a_user_hides_rows[hide]",),
    ),
    Removal(
        "B353",
        (
            Edit(
                f"{SHEET}/engine.py",
                "        except StratalogError as exc:\n            # The engine",
                "        except KeyError as exc:\n            # The engine",
            ),
        ),
        (f"{TESTS}/test_poison.py::test_a_slow_engine_start_is_not_remembered_as_a_failure_of_the_version",),
    ),
    Removal(
        "B360",
        (
            Edit(
                f"{WEB}/panel.js",
                "    this.#turn++; // an answer for another tab may still arrive, and must not be shown in this tab\n",
                "",
            ),
        ),
        (story("aLateAnswerForAnotherPanelTabIsNotShown"),),
    ),
    Removal(
        "B373",
        (Edit(f"{WEB}/rebase.js", '  registries.corePluginRegistry.replace("merge", Merges);\n', ""),),
        (f"{TESTS}/test_loaded.py::test_loading_the_removal_of_a_merges_first_column_removes_the_style_of_the_merge",),
    ),
    Removal(
        "B374",
        (
            Edit(
                f"{SHEET}/load_plan.py",
                "        except VersionForgotten:\n            return self._retained_plan(at)",
                "        except VersionForgotten:\n            raise",
            ),
        ),
        (f"{TESTS}/test_forgotten.py::test_versions_at_or_above_the_floor_are_unchanged_and_usable",),
    ),
    Removal(
        "B374",
        (Edit(f"{SHEET}/window.py", "            if retained <= lowest:\n                raise", "            raise"),),
        (
            f"{TESTS}/test_forgotten.py::test_versions_at_or_above_the_floor_are_unchanged_and_usable",
            f"{TESTS}/test_forgotten.py::test_each_route_works_or_reports_a_forgotten_version",
        ),
    ),
    Removal(
        "B374",
        (Edit(f"{SHEET}/sheet.py", "wanted = check_retained(self.log, self._version(version))", "wanted = version"),),
        (f"{TESTS}/test_forgotten.py::test_versions_at_or_above_the_floor_are_unchanged_and_usable",),
    ),
    Removal(
        "B374",
        (Edit("src/stratalog/log/floors.py", "for parent in record.lineage:", "for parent in ():"),),
        (f"{TESTS}/test_forgotten.py::test_a_copy_is_read_and_changed_after_its_source_has_forgotten_versions",),
    ),
    Removal(
        "B374",
        (Edit(f"{SHEET}/blame.py", "if fact.version >= self._after:", "if fact.version:"),),
        (f"{TESTS}/test_forgotten.py::test_blame_lists_a_restore_of_a_forgotten_version_with_its_content",),
    ),
    Removal(
        "B375",
        (
            Edit(
                f"{SHEET}/snapshot_versions.py",
                "head.version < version + settings.undo_entries",
                "head.version < version",
            ),
            Edit(f"{SHEET}/snapshot_versions.py", ">= version + settings.undo_entries", ">= version"),
        ),
        (f"{TESTS}/test_forgotten.py::test_no_undo_crosses_an_app_snapshot",),
    ),
    Removal(
        "B375",
        (Edit(f"{SHEET}/snapshot_versions.py", "            yield entry.version  # no undo crosses it\n", ""),),
        (f"{TESTS}/test_forgotten.py::test_snapshot_due_saves_the_missing_snapshot_of_a_restore",),
    ),
    Removal(
        "B376",
        (
            Edit(f"{SHEET}/xlsx_cells.py", "self._arrays = ArrayRanges()", "self._arrays: list[Any] = []"),
            Edit(
                f"{SHEET}/xlsx_cells.py",
                'self._arrays.add(*parse_range(written["ref"]))',
                'self._arrays.append(parse_range(written["ref"]))',
            ),
            Edit(
                f"{SHEET}/xlsx_cells.py",
                "if self._arrays.contain(cell.position) if",
                "if any(one[0] <= cell.position <= one[1] for one in self._arrays) if",
            ),
        ),
        (f"{TESTS}/test_import_costs.py::test_the_cost_of_an_import_is_not_quadratic_in_the_number_of_array_formulas",),
    ),
    Removal(
        "B377",
        (Edit(f"{SHEET}/empty_cells.py", "if not end and sum(map(len, held)) < UNENDED_BYTES:", "if not end:"),),
        (f"{TESTS}/test_import_costs.py::test_a_long_text_is_streamed_before_its_closing_tag",),
    ),
    Removal(
        "B378",
        (
            Edit(f"{SHEET}/xlsx_cells.py", "            self.allowance.check(self._collected)\n", ""),
            Edit(f"{SHEET}/xlsx_parts.py", "            self.allowance.check(self._collected)\n", ""),
            Edit(f"{SHEET}/xlsx_markup.py", "                self.allowance.check(unended)\n", ""),
        ),
        (f"{TESTS}/test_import_memory.py::test_a_too_large_text_is_refused_within_the_reserved_memory",),
    ),
    Removal(
        "B379",
        (Edit(f"{SHEET}/csv_files.py", 'be read", value=size', 'be read", value=len(sheet)'),),
        (f"{TESTS}/test_csv.py::test_the_error_of_a_too_large_file_counts_its_worksheet_in_bytes",),
    ),
    Removal(
        "B380",
        (
            Edit(
                f"{SHEET}/commits.py",
                "        await compute(turns, sheet, save)\n    except StratalogError",
                "        await compute(turns, sheet, save)\n    except KeyError",
            ),
        ),
        (f"{TESTS}/test_commits.py::test_a_snapshot_refused_by_busy_engine_threads_is_only_logged",),
    ),
    Removal(
        "B454",
        (
            Edit(
                f"{WEB}/server.js",
                "({ response: answer, body: content } = await fetchBody(this.#exact(path), options, silenceMs))",
                "answer = await fetch(this.#exact(path), options)",
            ),
            Edit(
                f"{WEB}/server.js",
                "    if (!answer.ok) throw errorOf(answer, decoded(await content.text()));\n",
                "    content = answer.ok ? await answer.blob() : await answer.blob().catch(() => new Blob());\n"
                "    if (!answer.ok) throw errorOf(answer, decoded(await content.text()));\n",
            ),
        ),
        (
            f"{TESTS}/test_broken_bodies.py::test_a_page_reports_an_unknown_outcome_and_reads_again_after_a_broken_response_body",
        ),
    ),
    Removal(
        "B527",
        (
            Edit(
                "src/stratalog/web/client/errors.js",
                'status === 429 ? "unreached" : status === 401 ? "forbidden" : (body?.code ?? guess)',
                "body?.code ?? guess",
            ),
        ),
        (f"{TESTS}/test_broken_bodies.py::test_a_page_keeps_a_message_that_a_proxy_refuses_with_429_or_401",),
    ),
    Removal(
        "B531",
        (
            Edit(
                f"{SHEET}/pool.py",
                "            self._check_open()\n            self._is_ahead",
                "            self._is_ahead",
            ),
        ),
        (f"{TESTS}/test_engine.py::test_a_closed_pool_starts_no_engine",),
    ),
    Removal(
        "B739",
        (
            Edit(
                f"{SHEET}/commands.py",
                "opened.version if version is None else version",
                "version or opened.version",
            ),
        ),
        (f"{TESTS}/test_commands.py::test_a_time_before_the_first_version_is_refused_with_the_time_of_that_version",),
    ),
    Removal(
        "B735",
        (Edit(f"{SHEET}/file_reports.py", "if finding.count == 1 and not finding.where:", "if False:"),),
        (f"{TESTS}/test_csv.py::test_a_non_unicode_encoding_and_removed_control_characters_are_reported",),
    ),
    Removal(
        "B791",
        (
            Edit(
                f"{SHEET}/snapshot_versions.py",
                " and (newest is None or seals_later):",
                ":",
            ),
        ),
        (
            f"{TESTS}/test_forgotten.py::test_a_restore_that_lacked_its_snapshot_keeps_its_content_after_the_floor_rises",
        ),
    ),
    Removal(
        "B791",
        (
            Edit(
                f"{SHEET}/sheet.py",
                "        state = RestoredState(self.log, self._titles, with_revision(self.state(wanted), revision))\n"
                "        return self._commit(lambda window: Restored(wanted, window.revision, revision), author, "
                "state=state)\n",
                "        change = self._commit(lambda window: Restored(wanted, window.revision, revision), author)\n"
                "        self.state(wanted)\n"
                "        return change\n",
            ),
        ),
        (f"{TESTS}/test_forgotten.py::test_a_restore_writes_nothing_if_no_engine_can_compute_its_state",),
    ),
    Removal(
        "B794",
        (Edit(f"{SHEET}/sheet.py", "state.snapshot_after(at) if state else None", "None"),),
        (f"{TESTS}/test_forgotten.py::test_a_restore_commits_its_snapshot_together_with_its_entry",),
    ),
    Removal(
        "B794",
        (Edit(f"{SHEET}/snapshot_versions.py", "(newest is None or seals_later)", "newest is None"),),
        (f"{TESTS}/test_forgotten.py::test_maintenance_reads_no_entry_of_a_short_sheet",),
    ),
    Removal(
        "B784",
        (
            Edit(
                "src/stratalog/log/log.py",
                "                if floor == before:\n",
                "                if before is not None:\n",
            ),
        ),
        (
            "apps/sheet/tests/test_reads_beside_retention.py::test_kept_entries_are_read_although_the_floor_rises_again_during_the_read",
        ),
    ),
    Removal(
        "B821",
        (Edit(f"{WEB}/retitle.js", 'event.key === "Escape" && !input.readOnly', 'event.key === "Escape"'),),
        (story("escapeDoesNotHideATitleThatIsBeingSaved"),),
    ),
    Removal(
        "B822",
        (Edit(f"{WEB}/retitle.js", "        if (document.activeElement !== input) end();\n", ""),),
        (story("aTitleFieldThatTheUserLeavesDuringAFailingSaveCloses"),),
    ),
    Removal(
        "B883",
        (
            Edit(
                "examples/colleagues.py",
                "            if is_missing(exc):\n",
                "            if not is_missing(exc):\n",
            ),
        ),
        ("tests/test_demo.py::test_a_simulated_colleague_of_a_deleted_sheet_stops",),
    ),
)
