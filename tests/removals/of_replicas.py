"""Removals of fixes: clients on slow networks and behind proxies, their stored data, names and times that pages show.

Also methods of HTTP, and lines of the server's log.
"""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

OF_SOCKETS = "tests/aws/test_sockets.py"
WEB = "src/stratalog/web/client"
SHEET = "apps/sheet/src/stratalog_sheet/web"
CYCLE = "src/stratalog/client/sync_cycle.py"
REFUSALS = "tests/client/test_refusals.py"
UNDO = "tests/client/test_undo.py"
MOVED = "tests/backends/test_moved_files.py"
OPTIMISTIC = "tests/client/test_optimistic_state.py"
METHODS = "tests/server/test_methods.py"
IN_NODE = ("tests/web/test_node.py::test_the_tests_of_the_browser_client_in_node_pass_and_none_is_skipped",)

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B672",
        (Edit("src/stratalog/client/replica.py", "self._file.check_file()", "self._file.check_usable()"),),
        (f"{MOVED}::test_a_client_whose_file_is_gone_acknowledges_no_mutation_and_sends_those_that_it_has",),
    ),
    Removal(
        "B673",
        (
            Edit(
                CYCLE,
                'leaves = forbidden.details.get("value") == local.group\n',
                'leaves = forbidden.details.get("value") == local.group or local.count() == 0\n',
            ),
        ),
        (f"{REFUSALS}::test_a_client_without_pending_mutations_keeps_its_group_while_its_token_is_refused",),
    ),
    Removal(
        "B673",
        (
            Edit(
                f"{WEB}/syncCycle.js",
                'error.code === "forbidden" && error.details.value === group;',
                'error.code === "forbidden" && (error.details.value === group || !local.pending.length);',
            ),
        ),
        IN_NODE,
    ),
    Removal(
        "B674",
        (Edit("src/stratalog/client/http.py", ", 413: LimitExceeded}", "}"),),
        ("tests/client/test_http.py::test_an_error_response_raises_the_error_of_its_code_or_status",),
    ),
    Removal("B674", (Edit(f"{WEB}/errors.js", ', 413: "limit-exceeded" }', " }"),), IN_NODE),
    Removal(
        "B675",
        (Edit(f"{WEB}/transfer.js", "      allow(silenceMs);\n", ""),),
        IN_NODE,
    ),
    Removal(
        "B675",
        (Edit(f"{WEB}/transfer.js", "sizeOf(options.body) / UPLOAD_BYTES_PER_MS_MIN", "0"),),
        IN_NODE,
    ),
    Removal(
        "B675",
        (Edit(CYCLE, "PUSH_BYTES_TARGET = 192 * 1024", "PUSH_BYTES_TARGET = 256 * 1024"),),
        (f"{REFUSALS}::test_a_push_fits_the_time_that_a_server_gives_a_slow_network",),
    ),
    Removal(
        "B675",
        (Edit(f"{WEB}/syncCycle.js", "PUSH_BYTES_TARGET = 192 * 1024", "PUSH_BYTES_TARGET = 256 * 1024"),),
        IN_NODE,
    ),
    Removal(
        "B675",
        (
            Edit(
                "src/stratalog/client/local.py",
                "len(msgspec.msgpack.encode(waiting.mutation(client)))",
                "len(waiting.args)",
            ),
        ),
        (f"{REFUSALS}::test_a_push_fits_the_time_that_a_server_gives_a_slow_network",),
    ),
    Removal(
        "B675",
        (Edit(f"{WEB}/local.js", "encodedBytes(this.mutation(waiting))", "encodedBytes(waiting.args)"),),
        IN_NODE,
    ),
    Removal(
        "B675",
        (Edit(f"{WEB}/values.js", "new TextEncoder().encode(encode(value)).length", "encode(value).length"),),
        IN_NODE,
    ),
    Removal(
        "B675",
        (Edit(f"{WEB}/transfer.js", 'new Blob([body ?? ""]).size', "body?.size ?? body?.length ?? 0"),),
        IN_NODE,
    ),
    Removal(
        "B675",
        (Edit("src/stratalog/client/http.py", "len(body) / UPLOAD_BYTES_PER_SECOND_MIN", "0"),),
        ("tests/client/test_http.py::test_a_large_push_has_the_time_that_a_slow_network_needs_to_send_it",),
    ),
    Removal(
        "B676",
        (Edit(f"{WEB}/values.js", "return Object.freeze(plain.map(decode));", "return plain.map(decode);"),),
        IN_NODE,
    ),
    Removal(
        "B676",
        (
            Edit(
                f"{WEB}/replica.js",
                "      await this.settle((local) => local.withdraw(waiting, error.message));\n",
                "",
            ),
        ),
        IN_NODE,
    ),
    Removal(
        "B676",
        (Edit(f"{WEB}/replica.js", "const child = new Draft(this.#draft);", "const child = this.#draft;"),),
        IN_NODE,
    ),
    Removal(
        "B677",
        (Edit("src/stratalog/client/http.py", " or not token.isprintable():", ":"),),
        ("tests/client/test_http.py::test_a_token_that_no_header_can_contain_is_invalid_and_not_shown",),
    ),
    Removal(
        "B677",
        (Edit("src/stratalog/client/http.py", "(token := token.strip()).isascii()", "token.isascii()"),),
        ("tests/client/test_http.py::test_a_valid_token_gives_access_to_the_document_and_its_pokes",),
    ),
    Removal(
        "B677",
        (Edit(f"{WEB}/http.js", "if (!/^[\\x20-\\x7e]*$/.test(token)) throw", "if (false) throw"),),
        IN_NODE,
    ),
    Removal(
        "B678",
        (
            Edit(
                f"{WEB}/database.js",
                "  if (error instanceof StratalogError) return error;\n",
                "  if (error) return error;\n",
            ),
        ),
        IN_NODE,
    ),
    Removal("B678", (Edit(f"{WEB}/stratalog.js", "    if (this.#closed) throw", "    if (false) throw"),), IN_NODE),
    Removal(
        "B679",
        (
            Edit(
                f"{WEB}/live.js",
                "      if (INVALID_MESSAGE.has(code) && this.id) this.#forgetShown(code, reason);\n",
                "",
            ),
        ),
        IN_NODE,
    ),
    Removal("B725", (Edit(f"{WEB}/live.js", "[1009, 4400, 4413, 4422]", "[4400, 4413, 4422]"),), IN_NODE),
    Removal(
        "B726",
        (
            Edit(
                "src/stratalog/server/live.py",
                'len(text) if isinstance(text, bytes) else len(text.encode(errors="surrogatepass"))',
                "len(text)",
            ),
        ),
        ("tests/server/test_api_live.py::test_an_invalid_message_closes_the_connection_with_its_code",),
    ),
    Removal(
        "B680",
        (Edit(f"{SHEET}/names.js", '.replace(/[\\uD800-\\uDBFF]$/, "")', ""),),
        ("apps/sheet/tests/test_names.py::test_a_long_name_ends_with_a_whole_character",),
    ),
    Removal(
        "B680",
        (Edit(f"{SHEET}/identity.js", "return name.toWellFormed();", "return name;"),),
        ("apps/sheet/tests/test_names.py::test_a_stored_name_with_half_of_a_character_is_repaired",),
    ),
    Removal(
        "B681",
        (Edit("src/stratalog/client/undo.py", 'if current(args["key"]) is None:', "if False:"),),
        (f"{UNDO}::test_undo_of_an_increment_is_rejected_if_the_number_was_deleted_since",),
    ),
    Removal(
        "B681",
        (Edit("src/stratalog/client/replica.py", ' and mutation.status != "unknown"', ""),),
        (f"{UNDO}::test_undo_of_an_increment_of_unknown_outcome_is_rejected_if_the_number_may_lack_it",),
    ),
    Removal("B681", (Edit(f"{WEB}/undo.js", ' && status !== "unknown"', ""),), IN_NODE),
    Removal(
        "B682",
        (Edit("src/stratalog/client/file.py", "        path = _text_of(path)\n", ""),),
        ("tests/client/test_file.py::test_the_path_of_a_file_is_a_text_or_a_path_object",),
        raises=("TypeError",),
    ),
    Removal(
        "B682",
        (Edit("src/stratalog/client/optimistic_state.py", "if waiting.sequence not in self._effects:", "if False:"),),
        (f"{OPTIMISTIC}::test_a_mutation_that_is_stored_although_its_commit_failed_has_an_effect",),
        raises=("KeyError",),
    ),
    Removal(
        "B683",
        (Edit("src/stratalog/server/methods.py", 'scope["method"] != "HEAD" or', 'scope["method"] or'),),
        (
            f"{METHODS}::test_head_has_the_status_and_the_headers_of_get_and_no_body",
            f"{METHODS}::test_head_of_a_stream_of_events_ends_and_the_connection_serves_the_next_request",
        ),
    ),
    Removal(
        "B683",
        (Edit("src/stratalog/server/methods.py", 'scope["method"] != "OPTIONS" or', 'scope["method"] or'),),
        (f"{METHODS}::test_options_and_a_refused_method_name_all_methods_of_the_path",),
    ),
    Removal(
        "B683",
        (Edit("src/stratalog/server/methods.py", "if method.isupper()", "if method"),),
        (f"{METHODS}::test_a_path_with_a_websocket_alone_names_no_method_of_http",),
    ),
    Removal(
        "B684",
        (Edit("src/stratalog/server/log_throttle.py", "return record.getMessage()", "return str(record.msg)"),),
        ("tests/server/test_log_throttle.py::test_lines_omitted_at_the_end_of_a_flood_are_reported",),
    ),
    Removal(
        "B685",
        (
            Edit(
                "apps/catalogue/src/stratalog_catalogue/web/parts.js",
                "ms < YEAR_1_MS || ms >= YEAR_10000_MS ?",
                "false ?",
            ),
        ),
        ("apps/catalogue/tests/test_parts.py::test_the_node_tests_of_the_page_helpers_pass",),
    ),
    Removal(
        "B686",
        (
            Edit(
                f"{WEB}/stratalog.js",
                "  #seen = () => globalThis.document?.hidden || this.hurry();",
                "  #seen = () => {};",
            ),
        ),
        IN_NODE,
    ),
    Removal("B712", (Edit(f"{WEB}/live.js", "> PRESENCE_BYTES_MAX", "> Infinity"),), IN_NODE),
    Removal(
        "B728",
        (
            Edit(
                "src/stratalog/aws/listeners.py",
                "        check_presence(state)\n        name =",
                "        encode(state)\n        name =",
            ),
        ),
        (f"{OF_SOCKETS}::test_a_presence_with_an_integer_beyond_64_bits_closes_the_connection",),
        raises=("OverflowError",),
    ),
    Removal("B728", (Edit(f"{WEB}/values.js", "value >= 2 ** 64", "value >= Infinity"),), IN_NODE),
    Removal(
        "B729",
        (
            Edit(
                "src/stratalog/aws/listeners.py",
                "shown >= GATEWAY_SHOWN_MAX:\n                return\n",
                'shown >= GATEWAY_SHOWN_MAX:\n                raise Forbidden("too many send presence")\n',
            ),
        ),
        (f"{OF_SOCKETS}::test_a_connection_above_the_limit_of_shown_connections_stays_open_and_is_not_shown",),
    ),
    Removal(
        "B740",
        (
            Edit(
                "src/stratalog/client/replica.py",
                "        if mutation.is_undone:\n",
                "        if False:\n",
            ),
        ),
        ("tests/client/test_undo.py::test_a_mutation_is_undone_once_unless_its_undo_was_undone_or_rejected",),
    ),
    Removal("B740", (Edit(f"{WEB}/undo.js", "if (isUndone)", "if (false)"),), IN_NODE),
    Removal(
        "B1147",
        (Edit(f"{WEB}/database.js", "      release();\n      throw error;\n", "      throw error;\n"),),
        IN_NODE,
    ),
    Removal("B1148", (Edit(f"{WEB}/live.js", "this.#stopped || token ===", "token ==="),), IN_NODE),
)
