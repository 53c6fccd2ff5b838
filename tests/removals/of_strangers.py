"""Removals of fixes: hostile input, rights of callers, files, diffs, scripts, and the end of programs."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

OF_LOGS = "tests/server/test_api_logs.py"
OF_PUSH_PARTS = "tests/server/test_push_parts.py"
OF_WEB_SERVER = "tests/server/test_web_server.py"
UNDECODABLE = "test_a_mutation_whose_arguments_cannot_be_decoded_is_rejected_and_blocks_nobody"
REFUSED_HEAD = "test_a_websocket_handshake_with_a_head_that_only_http_accepts_is_refused_and_the_connection_closed"
CANCELLED = "test_a_request_that_a_stopping_server_cancels_is_answered_with_an_unknown_outcome_and_no_traceback"
QUERY_PARAMETERS = "src/stratalog/server/query_parameters.py"
OF_QUERIES = "tests/server/test_query_parameters.py"
OF_PROCESSES = "tests/server/test_processes.py"
OF_SHEETS = "apps/sheet/tests/test_http.py"
EVERY_PATH = "test_every_path_for_programs_refuses_an_undeclared_parameter_and_names_the_declared_ones"
MISSPELT = "test_a_misspelt_field_or_parameter_of_a_request_is_refused_and_nothing_is_committed"


REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B426",
        (Edit("scripts/website/__main__.py", "if foreign := [folder", "if foreign := [] and [folder"),),
        ("tests/test_website.py::test_a_folder_that_the_script_did_not_make_is_not_deleted",),
    ),
    Removal(
        "B427",
        (Edit("scripts/check_javascript.py", "sys.exit(any(codes))", "sys.exit(max(codes))"),),
        ("tests/test_check_javascript.py::test_the_script_fails_if_a_check_fails_or_is_killed_by_a_signal",),
    ),
    Removal(
        "B425",
        (
            Edit(
                "src/stratalog/cli/history.py",
                "changed = {name for name, _ in old ^ new}",
                "changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}",
            ),
        ),
        ("tests/cli/test_commands.py::test_diff_shows_the_fields_that_differ",),
    ),
    Removal(
        "B185",
        (
            Edit(
                "apps/catalogue/src/stratalog_catalogue/xml_bounds.py",
                "        parser.StartDoctypeDeclHandler = self._refuse\n",
                "",
            ),
        ),
        ("apps/catalogue/tests/test_xml.py::test_a_document_type_with_an_internal_subset_is_refused_with_its_name",),
    ),
    Removal(
        "B186",
        (
            Edit(
                "apps/catalogue/src/stratalog_catalogue/xml_bounds.py",
                "token_bytes, XML_TOKEN_BYTES_MAX)",
                "0, XML_TOKEN_BYTES_MAX)",
            ),
        ),
        ("apps/catalogue/tests/test_xml.py::test_a_token_without_an_end_is_refused_at_the_token_limit",),
    ),
    Removal(
        "B187",
        (
            Edit(
                "apps/catalogue/src/stratalog_catalogue/http.py",
                '@reading("/works", opt={"action": "read-record"}',
                '@reading("/works", opt={"action": "read"}',
            ),
        ),
        ("apps/catalogue/tests/test_http.py::test_the_routes_to_works_and_records_require_the_action_read_record",),
    ),
    Removal(
        "B188",
        (Edit("src/stratalog/server/pages.py", "if path.resolve().is_relative_to(inside):", "if True:"),),
        ("tests/server/test_pages.py::test_a_symbolic_link_out_of_the_folder_is_not_served_and_is_logged",),
    ),
    Removal(
        "B189",
        (Edit("src/stratalog/server/metrics.py", "str(given or scope.get", "str(scope.get"),),
        ("tests/server/test_metrics.py::test_all_page_files_share_a_path_in_the_metrics",),
    ),
    Removal(
        "B190",
        (Edit("src/stratalog/server/middleware.py", "self._proxies.restore_caller(scope)", "pass"),),
        (
            "tests/server/test_trusted_proxies.py::test_invalid_tokens_behind_a_trusted_proxy_count_for_each_caller_s_own_address",
        ),
    ),
    Removal(
        "B191",
        (
            Edit(
                "src/stratalog/limits.py",
                "GATEWAY_CONNECTION_SECONDS_MAX = 900",
                "GATEWAY_CONNECTION_SECONDS_MAX = 2 * 3600 + 300",
            ),
        ),
        ("tests/aws/test_sockets.py::test_a_connection_is_closed_15_minutes_after_its_hello_and_gets_no_more_pokes",),
    ),
    Removal(
        "B192",
        (Edit("src/stratalog/maintenance/checkpoint.py", "and is_decimal(rest[0])", "and rest[0].isdecimal()"),),
        ("tests/maintenance/test_checkpoint.py::test_the_history_count_of_a_store_checkpoint_must_be_ascii_digits",),
    ),
    Removal(
        "B384",
        (Edit("src/stratalog/cli/records.py", "with output_file(output) as out", 'with open(output, "wb") as out'),),
        ("tests/cli/test_user_files.py::test_a_record_that_cannot_be_read_leaves_an_existing_file_unchanged",),
    ),
    Removal(
        "B384",
        (
            Edit("src/stratalog/cli/records.py", "handle.open(id, version.version)", "handle.open(id, at)"),
            Edit(
                "src/stratalog/cli/records.py",
                '_plain(record, version), f"wrote',
                '_plain(record, handle.stat(id, at)), f"wrote',
            ),
        ),
        ("tests/cli/test_user_files.py::test_the_answer_describes_the_version_that_was_written",),
    ),
    Removal(
        "B384",
        (
            Edit(
                "apps/table/src/stratalog_table/commands.py",
                "with output_file(output) as out",
                'with open(output, "wb") as out',
            ),
        ),
        ("apps/table/tests/test_cli.py::test_a_scan_that_fails_leaves_an_existing_file",),
    ),
    Removal(
        "B385",
        (
            Edit(
                "src/stratalog/cli/verification.py",
                '    except FileExistsError as exc:\n        raise click.UsageError(f"{file}',
                '    except ZeroDivisionError as exc:\n        raise click.UsageError(f"{file}',
            ),
        ),
        ("tests/cli/test_user_files.py::test_checkpoint_key_does_not_overwrite_an_existing_file",),
    ),
    Removal(
        "B385",
        (
            Edit(
                "src/stratalog/cli/program.py",
                "        except OSError as exc:\n",
                "        except ZeroDivisionError as exc:\n",
            ),
        ),
        ("tests/cli/test_user_files.py::test_an_error_of_the_file_system_is_one_line",),
    ),
    Removal(
        "B385",
        (
            Edit(
                "src/stratalog/cli/files.py",
                "    except UnicodeDecodeError as exc:\n",
                "    except ZeroDivisionError as exc:\n",
            ),
        ),
        ("tests/cli/test_user_files.py::test_a_file_that_is_not_utf_8_text_is_refused",),
    ),
    Removal(
        "B386",
        (
            Edit(
                "src/stratalog/cli/files.py",
                'made, temporary = tempfile.mkstemp(prefix=".stratalog-", suffix=".partial", dir=target.parent)',
                'made = os.open(temporary := f"{target}.partial", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)',
            ),
        ),
        (
            "tests/cli/test_user_files.py::test_an_export_leaves_a_file_with_the_suffix_partial_unchanged",
            "tests/cli/test_user_files.py::test_two_commands_that_write_one_file_do_not_mix",
        ),
        ("FileNotFoundError",),
    ),
    Removal(
        "B386",
        (
            Edit(
                "src/stratalog/cli/files.py",
                "if descriptor is not None or (Path(path).exists() and not Path(path).is_file()):",
                "if descriptor is not None:",
            ),
        ),
        ("tests/cli/test_user_files.py::test_a_pipe_is_written_directly",),
    ),
    Removal(
        "B387",
        (
            Edit(
                "src/stratalog/cli/inspection.py",
                "    if cut[: len(LINE_START)] != LINE_START[: len(cut)]:\n",
                "    if False:\n",
            ),
        ),
        ("tests/cli/test_user_files.py::test_verify_does_not_truncate_a_resume_file_of_another_format",),
    ),
    Removal(
        "B387",
        (
            Edit(
                "src/stratalog/cli/inspection.py",
                '    *lines, cut = content.split(b"\\n")\n',
                '    *lines, cut = content.split(b"\\n")\n    os.truncate(file, len(content) - len(cut))\n',
            ),
        ),
        ("tests/cli/test_user_files.py::test_verify_does_not_truncate_a_resume_file_of_another_format",),
    ),
    Removal(
        "B412",
        (
            Edit("src/stratalog/cli/files.py", "descriptor = _descriptor_of(str(path))", "descriptor = None"),
            Edit(
                "src/stratalog/cli/files.py",
                "(Path(path).exists() and not Path(path).is_file())",
                "(Path(os.path.realpath(path)).exists() and not Path(path).is_file())",
            ),
            Edit(
                "src/stratalog/cli/files.py",
                "if cause.errno in _NOT_REPLACEABLE and target.exists():",
                "if cause.errno is None:",
            ),
        ),
        (
            "tests/cli/test_user_files.py::test_the_standard_output_is_written_directly",
            "tests/cli/test_user_files.py::test_an_existing_file_that_cannot_be_replaced_stays_unchanged_with_an_error",
        ),
    ),
    Removal(
        "B538",
        (Edit("src/stratalog/codec.py", "    if reason != _CUT:\n", "    if reason:\n"),),
        (
            "tests/test_codec.py::test_the_reason_for_a_lone_surrogate_near_the_end_of_a_text_names_the_surrogate",
            "tests/maintenance/test_exchange.py::test_the_import_of_a_state_with_a_lone_surrogate_names_the_surrogate",
            "tests/maintenance/test_exchange.py::test_the_import_of_a_document_with_a_lone_surrogate_names_the_surrogate",
        ),
    ),
    Removal(
        "B571",
        (
            Edit(
                "src/stratalog/server/bodies.py",
                '            return Undecodable(str(exc.details.get("reason", exc.message)))\n',
                "            raise Invalid(exc.message) from exc\n",
            ),
        ),
        (f"{OF_PUSH_PARTS}::{UNDECODABLE}",),
    ),
    Removal(
        "B571",
        (Edit("src/stratalog/server/bodies.py", "(unescaped := unescape_surrogates(body))", "(unescaped := body)"),),
        (f"{OF_PUSH_PARTS}::{UNDECODABLE}",),
    ),
    Removal(
        "B572",
        (Edit("src/stratalog/server/connections.py", "            self._refuse_head()\n", "            pass\n"),),
        (f"{OF_WEB_SERVER}::{REFUSED_HEAD}",),
    ),
    Removal(
        "B573",
        (
            Edit(
                "src/stratalog/server/logs.py",
                'encode_checked(data.body, "snapshot")',
                "msgspec.msgpack.encode(data.body)",
            ),
        ),
        (f"{OF_LOGS}::test_a_snapshot_that_is_no_value_is_refused_and_a_later_snapshot_is_saved",),
    ),
    Removal(
        "B574",
        (
            Edit(
                "src/stratalog/protocol/live.py",
                "    except OverflowError as exc:\n",
                "    except KeyError as exc:\n",
            ),
        ),
        ("tests/server/test_api_live.py::test_a_presence_state_with_an_integer_beyond_64_bits_is_refused_as_invalid",),
    ),
    Removal(
        "B574",
        (Edit("src/stratalog/log/entries.py", "not 1 <= event.schema <= INTEGER_MAX:", "not 1 <= event.schema:"),),
        (f"{OF_LOGS}::test_an_event_with_a_schema_version_out_of_range_is_refused",),
    ),
    Removal(
        "B575",
        (Edit(QUERY_PARAMETERS, "    _check_utf_8(query)\n", ""),),
        ("tests/server/test_api_records.py::test_a_query_that_is_not_utf_8_is_refused",),
    ),
    Removal(
        "B576",
        (Edit("src/stratalog/server/records.py", 'from_json(text.encode("latin-1"))', "from_json(text)"),),
        ("tests/server/test_api_records.py::test_metadata_is_read_as_utf_8",),
    ),
    Removal(
        "B577",
        (
            Edit(
                "src/stratalog/server/bodies.py",
                "if not self._body and field is not None and field.is_required:",
                "if False and field is not None:",
            ),
        ),
        ("tests/server/test_api_edge.py::test_a_request_without_its_body_is_told_that_it_needs_one",),
    ),
    Removal(
        "B578",
        (
            Edit(
                "src/stratalog/server/middleware.py",
                '            if scope["type"] != ScopeType.HTTP or passing.status:\n',
                "            if passing:\n",
            ),
        ),
        (f"{OF_WEB_SERVER}::{CANCELLED}",),
    ),
    Removal(
        "B581",
        (Edit("src/stratalog/server/web_server.py", "if not self.lifespan.shutdown_event.is_set():", "if False:"),),
        (f"{OF_WEB_SERVER}::test_a_second_ctrl_c_ends_the_server_without_a_traceback",),
    ),
    Removal(
        "B692",
        (
            Edit(
                "src/stratalog/server/web_server.py",
                "if not self.lifespan.shutdown_event.is_set():",
                "if self.force_exit:",
            ),
        ),
        (f"{OF_WEB_SERVER}::test_a_second_ctrl_c_while_the_application_ends_does_not_end_it_again",),
    ),
    Removal(
        "B914",
        (Edit(QUERY_PARAMETERS, "        if name not in known.names:\n", "        if False:\n"),),
        (
            f"{OF_QUERIES}::test_a_write_with_a_misspelt_condition_is_refused_and_writes_nothing",
            f"{OF_QUERIES}::test_a_read_with_a_misspelt_parameter_is_refused",
            f"{OF_QUERIES}::{EVERY_PATH}",
            f"{OF_QUERIES}::test_a_handler_s_list_may_be_given_twice",
        ),
    ),
    Removal(
        "B915",
        (Edit(QUERY_PARAMETERS, "        if count > 1 and name not in known.repeatable:\n", "        if False:\n"),),
        (f"{OF_QUERIES}::test_a_parameter_that_is_given_twice_is_refused",),
    ),
    Removal(
        "B916",
        (
            Edit(
                "src/stratalog/server/logs.py",
                "class AppendRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):",
                "class AppendRequest(msgspec.Struct, frozen=True):",
            ),
        ),
        (f"{OF_QUERIES}::test_an_unknown_field_of_a_body_is_refused_and_nothing_is_written",),
    ),
    Removal(
        "B916",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/wire.py",
                "class Moment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):",
                "class Moment(msgspec.Struct, frozen=True):",
            ),
        ),
        (f"{OF_SHEETS}::{MISSPELT}",),
    ),
    Removal(
        "B1105",
        (
            Edit(
                "src/stratalog/server/connections.py",
                "            self.cycle.default_headers = [*self.server_state.default_headers, CLOSING]\n",
                "",
            ),
        ),
        (
            f"{OF_WEB_SERVER}::test_a_stopping_server_answers_the_running_request_and_says_that_it_closes_the_connection",
        ),
    ),
    Removal(
        "B1106",
        (
            Edit(
                "src/stratalog/server/connections.py",
                "self.conn.their_state is h11.IDLE and self._connection.has_unread_bytes()",
                "False",
            ),
        ),
        (f"{OF_WEB_SERVER}::test_a_stopping_server_answers_a_complete_request_that_waits_unread",),
    ),
    Removal(
        "B1107",
        (Edit("src/stratalog/server/web_server.py", "        self._listening.close()\n", ""),),
        (f"{OF_WEB_SERVER}::test_a_stopping_server_refuses_new_connections_while_it_finishes_a_request",),
    ),
    Removal(
        "B1108",
        (Edit("src/stratalog/server/processes.py", "        self._listening.close()\n", ""),),
        (f"{OF_PROCESSES}::test_a_stopping_supervisor_closes_the_listening_socket_before_it_ends_the_processes",),
    ),
    Removal(
        "B1111",
        (
            Edit(
                "src/stratalog/server/connections.py",
                "        if self.transport.is_closing():\n            return\n",
                "",
            ),
        ),
        (f"{OF_WEB_SERVER}::test_a_server_stops_while_it_closes_the_connection_of_a_response_that_was_cut_short",),
    ),
)
