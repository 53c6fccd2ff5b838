"""Removals of fixes: the first steps of a new user, from the installation to odd arguments of commands."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

ARGUMENTS = "tests/test_arguments.py"
EXTRAS = "tests/test_extras.py"
UNDECODABLE = "tests/cli/test_undecodable_names.py"
BAD_INPUT = "tests/test_bad_input.py::test_bad_input_is_refused_with_the_value_its_type_or_the_limit"
CLI_SESSION = "src/stratalog/cli/session.py"
DAMAGED_LISTS = "tests/cli/test_damaged_lists.py"
MAPPING = "tests/documents/test_mapping.py"
STREAMS = "tests/cli/test_standard_streams.py"
WEBSITE = "tests/test_website.py"
CATALOGUE = "apps/catalogue/tests/test_commands.py"

REMOVALS = (
    Removal(
        "B600",
        (Edit("pyproject.toml", "litestar>=2.23", "litestar>=2.21"),),
        (f"{EXTRAS}::test_the_server_extra_needs_the_first_litestar_with_the_names_that_the_server_imports",),
    ),
    Removal(
        "B693",
        (Edit("pyproject.toml", "anyio>=4.16", "anyio>=4.10"),),
        (f"{EXTRAS}::test_the_server_extra_needs_the_first_anyio_that_loses_no_cancellation",),
    ),
    Removal(
        "B601",
        (Edit("src/stratalog/extras.py", "except ModuleNotFoundError as exc:", "except NotImplementedError as exc:"),),
        (f"{EXTRAS}::test_an_import_without_its_extra_names_the_extra",),
    ),
    Removal(
        "B602",
        (Edit("src/stratalog/cli/output.py", "    except UnicodeEncodeError:\n", "    except NotImplementedError:\n"),),
        (
            f"{UNDECODABLE}::test_the_json_error_has_the_escape_of_an_argument",
            f"{UNDECODABLE}::test_a_result_in_json_has_the_escape_of_a_file_name",
        ),
        raises=("UnicodeEncodeError",),
    ),
    Removal(
        "B603",
        (
            Edit("src/stratalog/homes.py", "    check_path(str(folder / INDEX_FILE))\n", ""),
            Edit("src/stratalog/client/file.py", "        if path != MEMORY:\n            check_path(path)\n", ""),
        ),
        (
            f"{UNDECODABLE}::test_a_store_in_a_folder_that_is_not_utf_8_is_refused_and_makes_no_folder",
            f"{UNDECODABLE}::test_a_path_that_sqlite_cannot_open_is_invalid_for_a_store_and_for_a_client",
            f"{UNDECODABLE}::test_a_store_in_memory_needs_no_path",
        ),
        raises=("UnicodeEncodeError", "ValueError"),
    ),
    Removal(
        "B604",
        (Edit("src/stratalog/cli/documents.py", "min(limit, sys.maxsize)", "limit"),),
        ("tests/cli/test_option_values.py::test_a_limit_above_every_count_shows_all_keys",),
        raises=("ValueError",),
    ),
    Removal(
        "B605",
        (
            Edit(
                "src/stratalog/log/pending_entry.py",
                "    if expected is not None:\n        check_version(expected)\n",
                "",
            ),
        ),
        (BAD_INPUT,),
        raises=("TypeError",),
    ),
    Removal(
        "B606",
        (
            Edit("src/stratalog/keys.py", "if type(value) is not int or not 0 <= value", "if not 0 <= value"),
            Edit("src/stratalog/keys.py", "if type(version) is int and (", "if isinstance(version, float | int) and ("),
        ),
        (BAD_INPUT,),
        raises=("TypeError",),
    ),
    Removal(
        "B607",
        (
            Edit(
                "src/stratalog/homes.py",
                "if isinstance(url, str | os.PathLike) and isinstance(text := os.fspath(url), str):",
                "if text := str(url):",
            ),
        ),
        ("tests/test_bad_input.py::test_a_store_whose_url_is_no_text_is_refused_and_makes_no_folder",),
    ),
    Removal(
        "B608",
        (
            Edit(
                "src/stratalog/records/content.py", "isinstance(body, str) or not isinstance(body, Iterable)", "False"
            ),
            Edit(
                "src/stratalog/records/content.py",
                "if not isinstance(piece, bytes | bytearray | memoryview)",
                "if False",
            ),
            Edit("src/stratalog/log/entries.py", "if not isinstance(event, Event)", "if False"),
            Edit("src/stratalog/protocol/messages.py", "if not isinstance(mutation, Mutation)", "if False"),
        ),
        (BAD_INPUT,),
        raises=("TypeError", "AttributeError"),
    ),
    Removal(
        "B689",
        (Edit("src/stratalog/arguments.py", "if not isinstance(value, wanted):", "if False:"),),
        (
            f"{ARGUMENTS}::test_an_object_of_a_wrong_class_is_a_type_error",
            f"{ARGUMENTS}::test_an_object_of_a_wrong_class_is_a_type_error_of_a_store",
        ),
        raises=("AttributeError",),
    ),
    Removal(
        "B690",
        (
            Edit(
                "src/stratalog/arguments.py",
                'raise TypeError(f"{name} is not valid: {words}") from exc',
                "converted = plain",
            ),
        ),
        (f"{ARGUMENTS}::test_a_field_of_a_wrong_type_is_a_type_error",),
    ),
    Removal(
        "B691",
        (
            Edit("src/stratalog/store.py", "with self._lock, suppress(TypeError):", "with self._lock:"),
            Edit("src/stratalog/log/log.py", "if not isinstance(time_ms, Real):", "if False:"),
        ),
        (
            f"{ARGUMENTS}::test_a_name_that_is_no_text_is_invalid",
            f"{ARGUMENTS}::test_a_time_that_is_no_number_is_invalid",
        ),
        raises=("TypeError",),
    ),
    Removal(
        "B609",
        (
            Edit("src/stratalog/cli/output.py", "    if sys.stdin is None:\n        raise click.Abort\n", ""),
            Edit("src/stratalog/cli/output.py", "if sys.stderr is None or not", "if not"),
            Edit("src/stratalog/cli/files.py", "if sys.stdin is None:", "if False:"),
            Edit("src/stratalog/cli/files.py", "if sys.stdout is None:", "if False:"),
            Edit("src/stratalog/cli/program.py", 'out.reconfigure(errors="backslashreplace")', "out.flush()"),
        ),
        (
            f"{STREAMS}::test_a_command_with_a_closed_stream_reports_it_and_changes_nothing",
            f"{STREAMS}::test_a_text_that_standard_output_cannot_encode_is_escaped",
        ),
        raises=("UnicodeEncodeError",),
    ),
    Removal(
        "B610",
        (
            Edit(
                "apps/table/src/stratalog_table/table.py",
                "except (OverflowError, UnicodeEncodeError) as exc:",
                "except NotImplementedError as exc:",
            ),
            Edit("apps/table/src/stratalog_table/data_folder.py", 'if not base.strip("/"):', "if False:"),
            Edit(
                "apps/catalogue/src/stratalog_catalogue/sources.py",
                "except UnicodeEncodeError as exc:",
                "except NotImplementedError as exc:",
            ),
            Edit(
                "apps/catalogue/src/stratalog_catalogue/migration.py",
                '    except _failures() as exc:\n        raise Invalid("the configuration',
                '    except NotImplementedError as exc:\n        raise Invalid("the configuration',
            ),
        ),
        (
            "apps/table/tests/test_cli.py::test_a_value_that_cannot_be_stored_or_opened_is_refused",
            "apps/catalogue/tests/test_commands.py::test_a_source_whose_folder_is_not_utf_8_is_refused_and_not_added",
            "apps/catalogue/tests/test_commands.py::test_a_migration_without_a_region_of_aws_is_refused",
        ),
        raises=("OverflowError", "UnicodeEncodeError"),
    ),
    Removal(
        "B722",
        (Edit("src/stratalog/cli/records.py", 'if output not in (None, "-"):', "if output is not None:"),),
        ("tests/cli/test_commands.py::test_the_body_of_a_record_is_written_to_standard_output",),
    ),
    Removal(
        "B722",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/commands.py", '    if str(file) == "-":\n', '    if str(file) == "":\n'
            ),
        ),
        ("apps/sheet/tests/test_commands.py::test_an_export_to_a_dash_is_written_to_standard_output",),
    ),
    Removal(
        "B815",
        (
            Edit("src/stratalog/protocol/mutators.py", "    if result is None:\n", "    if True:\n"),
            Edit(
                "src/stratalog/web/client/mutators.js",
                "checkHasRun(mutators[name](child, args));",
                "mutators[name](child, args);",
            ),
        ),
        (
            "tests/documents/test_faults.py::test_a_mutator_whose_call_runs_nothing_is_rejected_and_not_applied",
            "tests/client/test_optimistic_state.py::test_a_mutator_whose_call_runs_nothing_is_an_error_and_stores_nothing",
            "tests/web/test_node.py::test_the_tests_of_the_browser_client_in_node_pass_and_none_is_skipped",
        ),
    ),
    Removal(
        "B816",
        (
            Edit(CLI_SESSION, "if not args and not ctx.resilient_parsing:", "if False:"),
            Edit(CLI_SESSION, "get_short_help_str(SUMMARY_CHARACTERS_MAX)", "get_short_help_str()"),
        ),
        (
            "tests/cli/test_commands.py::test_a_group_without_a_command_prints_its_help_and_no_error",
            "tests/cli/test_commands.py::test_help_shows_the_whole_first_sentence_of_each_command",
        ),
    ),
    Removal(
        "B817",
        (
            Edit("src/stratalog/maintenance/signed_note.py", "if text.lstrip().startswith(PRIVATE):", "if False:"),
            Edit("src/stratalog/cli/verification.py", 'if text.count("+") < PLUS_SIGNS_OF_KEY:', "if False:"),
        ),
        ("tests/cli/test_commands.py::test_the_refusal_of_a_wrong_key_for_a_checkpoint_says_which_key_to_give",),
    ),
    Removal(
        "B818",
        (
            Edit("src/stratalog/cli/backups.py", "if is_inside(to, session.url):", "if False:"),
            Edit("src/stratalog/cli/copies.py", "if is_inside(target, source):", "if False:"),
        ),
        (
            "tests/cli/test_backups.py::test_a_backup_inside_the_folder_of_its_store_is_refused",
            "tests/cli/test_commands.py::test_a_store_is_not_copied_into_its_own_folder",
        ),
    ),
    Removal(
        "B819",
        (Edit("src/stratalog/records/content.py", "if callable(read) else body\n", "if False else body\n"),),
        ("tests/records/test_bodies.py::test_a_file_without_line_breaks_is_read_in_pieces_of_limited_size",),
    ),
    Removal(
        "B836",
        (
            Edit(
                "src/stratalog/homes.py",
                "if url.lower().startswith(FILE_SCHEME) else url",
                "if url.startswith(FILE_SCHEME) else url",
            ),
        ),
        ("tests/test_urls.py::test_the_scheme_of_a_folder_may_have_capitals",),
    ),
    Removal(
        "B861",
        (Edit("src/stratalog/cli/plugins.py", "except (Exception, SystemExit) as exc:", "except Exception as exc:"),),
        ("tests/cli/test_plugins.py::test_a_broken_command_is_shown_as_broken_and_another_command_works",),
    ),
    Removal(
        "B887",
        (
            Edit("src/stratalog/__init__.py", "return sorted({*globals(), *__all__})", "return sorted(globals())"),
            Edit(
                "src/stratalog/server/__init__.py", "return sorted({*globals(), *__all__})", "return sorted(globals())"
            ),
        ),
        ("tests/test_layers.py::test_dir_lists_every_public_name_before_its_first_use",),
    ),
    Removal(
        "B888",
        (Edit("src/stratalog/homes.py", "if _exists(lowest) and not lowest.is_dir():", "if False:"),),
        ("tests/test_store.py::test_a_store_at_the_path_of_a_file_is_invalid_and_the_file_stays",),
        raises=("Unavailable",),
    ),
    Removal(
        "B889",
        (
            Edit("scripts/website/docstrings.py", 'signature.replace("= <factory>", "= ...")', "signature"),
            Edit("scripts/website/python_reference.py", "if get_origin(value) is Annotated:", "if False:"),
            Edit("scripts/website/python_reference.py", "    while met:\n", "    while False:\n"),
            Edit("scripts/website/python_reference.py", "described = description_of(module, name)", 'described = ""'),
        ),
        (
            f"{WEBSITE}::test_a_signature_in_the_python_reference_has_only_defaults_that_sphinx_can_parse",
            f"{WEBSITE}::test_the_parameter_types_of_handlers_are_shown_without_their_annotations",
            f"{WEBSITE}::test_the_python_reference_describes_the_methods_that_a_client_inherits_and_the_results_of_reads",
            f"{WEBSITE}::test_every_public_value_has_a_description_in_the_python_reference",
        ),
    ),
    Removal(
        "B890",
        (Edit("src/stratalog/cli/backups.py", '            args = ["make", *args]\n', "            pass\n"),),
        ("tests/cli/test_backups.py::test_the_options_of_a_backup_may_stand_before_its_target",),
    ),
    Removal(
        "B891",
        (
            Edit(
                "apps/catalogue/src/stratalog_catalogue/commands.py",
                "nothing = scanned if catalogue_stats.sources else",
                "nothing = scanned if False else",
            ),
        ),
        (f"{CATALOGUE}::test_stats_of_a_scan_that_found_no_record_say_so_and_ask_for_no_poll",),
    ),
    Removal(
        "B892",
        (
            Edit(
                "src/stratalog/cli/program.py",
                'getattr(click, "NoSuchCommand", click.NoSuchOption)',
                "click.NoSuchOption",
            ),
            Edit(
                "src/stratalog/backups/repository.py",
                '"this folder or bucket has no backup; to make one: stratalog backup TO"',
                '"the repository has no backup", id=""',
            ),
        ),
        (
            "tests/cli/test_commands.py::test_the_refusal_of_an_unknown_command_names_the_help",
            "tests/cli/test_backups.py::test_a_folder_without_a_backup_is_refused_with_the_command_that_makes_one",
        ),
    ),
    Removal(
        "B893",
        (
            Edit("scripts/website/static/site.css", "width: clamp(44em, 100vw - 37em, 52em);", "width: 52em;"),
            Edit(
                "scripts/website/static/site.css",
                "table.genindextable td { overflow-wrap: anywhere; }",
                "table.genindextable td { white-space: nowrap; }",
            ),
        ),
        (f"{WEBSITE}::test_a_page_is_not_wider_than_its_window",),
    ),
    Removal(
        "B926",
        (
            Edit(
                "src/stratalog/documents/document.py",
                "        self._states = StateCache(log, self.chunks)\n",
                "        self._states = StateCache(log, self.chunks)\n        self.values = self.stored_values\n",
            ),
        ),
        (f"{MAPPING}::test_a_document_has_no_attribute_with_the_name_of_another_method_of_a_mapping",),
    ),
    Removal(
        "B927",
        (
            Edit(
                "src/stratalog/arguments.py",
                "    if get_origin(wanted) is Mapping:\n",
                "    if get_origin(wanted) is Mapping and isinstance(value, Mapping):\n",
            ),
        ),
        (f"{ARGUMENTS}::test_a_field_of_a_wrong_type_is_a_type_error",),
    ),
    Removal(
        "B928",
        (
            Edit(
                "src/stratalog/cli/stores.py",
                'fail(f"{line.sort}/{name}", Corrupt(f"a line of the list of names is damaged: {line.fault}"))',
                "raise Corrupt(line.fault)",
            ),
            Edit(CLI_SESSION, "        elif not (self.json or damaged):\n", "        elif not self.json:\n"),
        ),
        (
            f"{DAMAGED_LISTS}::test_a_list_of_a_name_names_the_damaged_part_and_lists_the_other_organisations",
            f"{DAMAGED_LISTS}::test_a_list_whose_only_log_or_record_is_damaged_does_not_say_that_there_is_none",
        ),
    ),
    Removal(
        "B974",
        (Edit("src/stratalog/arguments.py", "_IN_PYTHON[match[0]], str(exc))", "match[0], str(exc))"),),
        (f"{ARGUMENTS}::test_a_field_of_a_wrong_type_is_a_type_error",),
    ),
    Removal(
        "B975",
        # Without any check the test ends with an AttributeError, which would count as broken code.
        (
            Edit(
                "src/stratalog/records/batch.py",
                "        check_class(NewBody, body=body)\n",
                "        if not isinstance(body, NewBody):\n            continue\n",
            ),
        ),
        (f"{ARGUMENTS}::test_an_object_of_a_wrong_class_is_a_type_error_of_a_store",),
    ),
    Removal(
        "B976",
        (
            Edit(
                "src/stratalog/documents/projections.py",
                '        check_class(Iterable, **{"the result of project": result})\n',
                "",
            ),
        ),
        (f"{ARGUMENTS}::test_an_object_of_a_wrong_class_is_a_type_error",),
    ),
    Removal(
        "B977",
        (
            Edit(
                "src/stratalog/client/background.py",
                "            if stopping.is_set():  # after `clear`, which would undo the wake of `stop`\n",
                "            if False:\n",
            ),
            Edit(
                "src/stratalog/client/background.py", "        while True:\n", "        while not stopping.is_set():\n"
            ),
        ),
        ("tests/client/test_background.py::test_a_stop_just_before_a_sync_cycle_ends_the_thread_without_a_wait",),
    ),
    Removal(
        "B978",
        (Edit("scripts/website/python_reference.py", '    "stratalog.extras",\n', ""),),
        ("tests/test_layers.py::test_the_python_reference_has_exactly_the_modules_that_applications_may_import",),
    ),
    Removal(
        "B979",
        (
            Edit(
                "src/stratalog/protocol/rebase.py",
                'mutator=intent.name, known=", ".join(sorted(mutators))',
                "name=intent.name",
            ),
        ),
        ("tests/client/test_client.py::test_a_pending_mutation_whose_mutator_is_gone_is_still_sent",),
    ),
    Removal(
        "B980",
        (
            Edit(
                "src/stratalog/cli/template/myapp.py.txt",
                "def add_task(draft: Draft, args: dict[str, Any])",
                "def add_task(draft: Draft, args: dict)",
            ),
        ),
        ("tests/test_user_project.py::test_mypy_passes_on_the_project_and_on_a_new_application",),
    ),
    Removal(
        "B1033",
        (Edit("scripts/website/conf.py", 'smartquotes_action = "qe"', 'smartquotes_action = "qDe"'),),
        (f"{WEBSITE}::test_an_option_of_a_command_begins_with_two_hyphens_on_every_page",),
    ),
    Removal(
        "B1039",
        (Edit("scripts/website/python_reference.py", "PAGES = [*MODULES, *APPLICATIONS]", "PAGES = MODULES"),),
        (f"{WEBSITE}::test_the_python_reference_describes_the_applications_that_programs_import",),
        raises=("KeyError",),
    ),
    Removal(
        "B1040",
        (Edit("scripts/website/docstrings.py", 'if link["reftype"] == "class" and', "if False and"),),
        (f"{WEBSITE}::test_a_built_in_type_in_a_signature_has_no_link",),
        raises=("ProcessFailure",),
    ),
    Removal(
        "B1037",
        (Edit("src/stratalog/cli/history.py", "if after < floor and not session.json:", "if False:"),),
        ("tests/cli/test_commands.py::test_lists_of_changes_name_the_version_up_to_which_changes_are_forgotten",),
    ),
)
