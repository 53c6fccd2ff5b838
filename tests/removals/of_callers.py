"""Removals of fixes: the callers of a server: shared limits, identity, and presence."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

PUSH_PARTS = "tests/server/test_push_parts.py"

CONNECTIONS = "src/stratalog/server/connection_shares.py"
PRESENCE = "src/stratalog/server/presence.py"
LIVE_RIGHT = "src/stratalog/server/live_right.py"
AUTHENTICATION = "src/stratalog/server/authentication.py"
RATES = "src/stratalog/server/rates.py"
SERVICE = "src/stratalog/server/service.py"
CLIENT = "src/stratalog/client/live.py"
OF_LETTERS = "tests/records/test_dead_letters.py"
ROW_PAGES = "src/stratalog/server/row_pages.py"
SPOOL = "src/stratalog/server/body_spool.py"
LOGS = "src/stratalog/server/logs.py"
OF_ROW_PAGES = "tests/server/test_row_pages.py"
OF_SPOOL = "tests/server/test_body_spool.py"
OF_CONNECTIONS = "tests/server/test_connection_shares.py"
OF_PRESENCE = "tests/server/test_presence.py"
OF_LIVE_RIGHT = "tests/server/test_live_right.py"
OF_AUTHENTICATION = "tests/server/test_authentication.py"
OF_CLIENT = "tests/client/test_live.py"

TURNS = "src/stratalog/server/turns.py"
OF_TURNS = "tests/server/test_turns.py"
OF_ACCEPTOR = "tests/server/test_acceptor.py"
OF_WEB_SERVER = "tests/server/test_web_server.py"
PACES = "src/stratalog/server/paces.py"
OF_POOLS = "tests/server/test_pools.py"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B169",
        (Edit(CONNECTIONS, "_shares(limit, limits) if is_shared else {}", "{}"),),
        (
            f"{OF_CONNECTIONS}::test_a_principal_at_its_share_of_live_connections_is_refused_and_another_is_not",
            f"{OF_CONNECTIONS}::test_a_connection_with_an_incomplete_body_counts_for_its_principal_and_not_for_its_address",
        ),
    ),
    Removal(
        "B170",
        (Edit(PRESENCE, ", size / PRESENCE_ROOM_BYTES_PER_SECOND)", ", 0)"),),
        (f"{OF_PRESENCE}::test_presence_of_two_hundred_listeners_stays_within_the_byte_rate",),
    ),
    Removal(
        "B171",
        (Edit(LIVE_RIGHT, "        if self.due_seconds() > 0:\n", "        if True:\n"),),
        (
            f"{OF_LIVE_RIGHT}::test_a_revoked_right_is_noticed_at_the_next_heartbeat",
            f"{OF_LIVE_RIGHT}::test_a_websocket_is_closed_with_4403_after_its_right_is_withdrawn",
        ),
    ),
    Removal(
        "B172",
        (Edit(AUTHENTICATION, "            self.invalid_tokens.check(holder)\n", "            pass\n"),),
        (f"{OF_AUTHENTICATION}::test_tokens_of_an_address_that_guesses_are_not_checked_until_time_has_passed",),
    ),
    Removal(
        "B173",
        (
            Edit(
                RATES,
                "self._buckets.setdefault(holder[0], OrderedDict())",
                'self._buckets.setdefault("", OrderedDict())',
            ),
            Edit(RATES, "buckets = self._buckets[holder[0]]", 'buckets = self._buckets[""]'),
        ),
        (f"{OF_AUTHENTICATION}::test_a_principal_who_is_named_like_an_address_has_a_bucket_of_its_own",),
    ),
    Removal(
        "B174",
        (Edit(CLIENT, "        except msgspec.ValidationError:\n            return None\n", ""),),
        (f"{OF_CLIENT}::test_a_message_of_an_unknown_type_is_ignored",),
    ),
    Removal(
        "B175",
        (Edit(CLIENT, "        if token != self._refused_token:\n", "        if True:\n"),),
        (f"{OF_CLIENT}::test_a_refused_token_is_not_offered_again",),
    ),
    Removal(
        "B176",
        (Edit(SERVICE, '        if action == "create" and principal.id:\n', "        if False:\n"),),
        (f"{OF_CONNECTIONS}::test_the_rate_of_document_creations_of_a_principal_is_limited",),
    ),
    Removal(
        "B177",
        (
            Edit(
                "src/stratalog/server/web_server.py",
                "        self._service.connections.bound(connections_max)\n",
                "",
            ),
        ),
        (f"{OF_CONNECTIONS}::test_the_web_server_s_connection_limit_bounds_the_application_s_budget",),
    ),
    Removal(
        "B178",
        (
            Edit(ROW_PAGES, "        if page.rows and row_bytes > left:\n", "        if False:\n"),
            Edit(ROW_PAGES, " or (page.rows and row_bytes > left)", ""),
        ),
        (
            f"{OF_ROW_PAGES}::test_following_next_gives_the_rows_of_one_large_page",
            f"{OF_ROW_PAGES}::test_a_page_of_a_state_reads_no_value_that_does_not_fit",
            f"{OF_ROW_PAGES}::test_a_page_of_versions_changes_or_differences_reads_no_value_that_does_not_fit",
        ),
    ),
    Removal(
        "B178",
        (Edit("apps/sheet/src/stratalog_sheet/events.py", "        if bytes_max < 0:\n", "        if False:\n"),),
        ("apps/sheet/tests/test_sheet.py::test_since_requests_a_reload_from_a_reader_that_is_too_many_bytes_behind",),
    ),
    Removal(
        "B179",
        (Edit(LOGS, "page_of(request, stored, limit, _described", "page_of(request, list(stored), limit, _described"),),
        (f"{OF_ROW_PAGES}::test_a_page_of_snapshots_reads_only_its_rows_and_the_next_row",),
    ),
    Removal(
        "B180",
        (
            Edit(
                "src/stratalog/server/history.py",
                ".unread_diff(source, target, after=after)\n",
                ".unread_diff(source, target)\n"
                "    differences = (row for row in differences if row.load() and row.position > after)\n",
            ),
        ),
        (f"{OF_ROW_PAGES}::test_a_page_of_differences_reads_no_value_of_the_pages_before_it",),
    ),
    Removal(
        "B181",
        (Edit("src/stratalog/sync/pull.py", "            if left < 0:\n", "            if False:\n"),),
        (
            f"{OF_SPOOL}::test_a_streamed_patch_reads_values_only_as_they_are_sent",
            f"{OF_SPOOL}::test_a_streamed_patch_equals_the_patch_of_a_direct_pull",
            f"{OF_SPOOL}::test_replicaches_patch_is_streamed_too",
        ),
    ),
    Removal(
        "B182",
        (Edit(SPOOL, "            if len(given[0]) <= BODY_PIECE_BYTES:\n", "            if True:\n"),),
        (f"{OF_SPOOL}::test_concurrent_readers_each_receive_their_own_bytes",),
    ),
    Removal(
        "B182",
        (Edit(SPOOL, "            del part  # what follows comes from the file alone\n", ""),),
        (f"{OF_SPOOL}::test_no_stored_part_of_a_body_is_in_memory_while_a_piece_is_sent",),
    ),
    Removal(
        "B183",
        (
            Edit(ROW_PAGES, "    taken.cover_answer(left)\n", ""),
            Edit(
                "src/stratalog/server/byte_budgets.py",
                "        if amount > allocation.amount_max:\n            limit = allocation.amount_max\n",
                "        if False:\n            limit = allocation.amount_max\n",
            ),
        ),
        (
            f"{OF_ROW_PAGES}::test_a_page_is_refused_unread_if_its_principal_s_share_of_answers_is_used_up",
            f"{OF_ROW_PAGES}::test_the_bytes_of_a_page_are_allocated_while_its_values_are_read",
            f"{OF_ROW_PAGES}::test_a_row_larger_than_a_share_is_an_error_with_the_size_and_the_limit",
        ),
    ),
    Removal(
        "B184",
        (
            Edit(
                LOGS,
                "service.log(organisation, log).record.prefix, before)",
                "service.log(organisation, log).record.prefix)",
            ),
            Edit(
                "src/stratalog/server/records.py",
                "versions(record, reverse=True, before=before)",
                "versions(record, reverse=True)",
            ),
        ),
        (f"{OF_ROW_PAGES}::test_a_list_in_descending_order_continues_below_a_version",),
    ),
    Removal(
        "B202",
        (
            Edit(
                "src/stratalog/maintenance/store_check.py",
                "        _check_line(environment, gone, damages)\n        partition =",
                "        _check_line(environment, gone, damages)\n"
                "        if any(segment.marked_ms and segment.archive is None for segment in segments):\n"
                "            continue\n        partition =",
            ),
        ),
        ("tests/maintenance/test_inspection.py::test_an_end_marker_lost_during_a_sweep_is_reported",),
    ),
    Removal(
        "B203",
        (Edit("src/stratalog/records/content.py", "            _require_failure(environment, name, item, exc)\n", ""),),
        (f"{OF_LETTERS}::test_a_body_whose_failure_was_resolved_or_replaced_while_it_is_read_is_not_found",),
    ),
    Removal(
        "B204",
        (
            Edit(
                "tests/removals/broken_code.py",
                "    if session.config.stash.get(_broken, False):\n",
                "    if False:\n",
            ),
        ),
        ("tests/removals/test_removals.py::test_a_removal_that_breaks_the_code_is_distinguished_from_a_failing_test",),
    ),
    Removal(
        "B345",
        (
            Edit(
                TURNS,
                "            beyond.update(sockets[_count(len(sockets), PRINCIPAL_SOCKETS_PER_TURN_MAX) :])\n",
                "            pass\n",
            ),
        ),
        (
            f"{OF_TURNS}::test_many_sockets_of_a_principal_leave_room_in_each_turn_for_another_principal",
            f"{OF_TURNS}::test_the_event_loop_serves_another_caller_between_the_sockets_of_a_principal",
        ),
    ),
    Removal(
        "B345",
        (Edit(TURNS, "        beyond = set(self._beyond_addresses(of_addresses))\n", "        beyond = set()\n"),),
        (f"{OF_TURNS}::test_all_addresses_share_a_limited_number_of_sockets_per_turn_and_take_turns",),
    ),
    Removal(
        "B345",
        (Edit(CONNECTIONS, 'self._socket.assign(("principal", principal))', "self._socket.assign()"),),
        ("tests/server/test_web_server.py::test_a_known_callers_sockets_count_for_the_principal",),
    ),
    Removal(
        "B345",
        (Edit("src/stratalog/server/connections.py", "dropped % DROPS_PER_TURN_MAX == 0", "dropped < 0"),),
        ("tests/server/test_connections.py::test_a_turn_of_the_loop_drops_a_limited_number_of_overdue_connections",),
    ),
    Removal(
        "B358",
        (Edit("src/stratalog/server/acceptor.py", "self._waiting.add(holders, ", "self._waiting.add(None, "),),
        ("tests/server/test_acceptor.py::test_a_new_address_does_not_wait_for_all_connections_of_another_address",),
    ),
    Removal(
        "B362",
        (
            Edit(
                PACES,
                "        return before - self._change(caller, -account.expected, now).left\n",
                "        return 0.0\n",
            ),
        ),
        (f"{OF_POOLS}::test_calls_that_begin_together_are_charged_before_they_end",),
    ),
    Removal(
        "B363",
        (Edit(TURNS, "lately[socket.address] + socket.earlier", "socket.earlier"),),
        (f"{OF_TURNS}::test_a_new_address_is_served_before_addresses_that_were_served_recently",),
    ),
    Removal(
        "B363",
        (Edit("src/stratalog/server/acceptor.py", "            if number % 2:\n", "            if False:\n"),),
        (f"{OF_ACCEPTOR}::test_an_address_never_served_is_set_up_before_recently_served_addresses",),
    ),
    Removal(
        "B364",
        (Edit(AUTHENTICATION, "            await self._sleep(self._wait_seconds)\n", "            pass\n"),),
        (
            f"{OF_AUTHENTICATION}::test_the_refusals_of_an_address_that_guesses_are_delayed",
            "tests/server/test_trusted_proxies.py::test_a_connection_counts_for_its_address_while_its_refusal_is_delayed",
            f"{OF_LIVE_RIGHT}::test_the_refusal_of_a_live_connection_is_delayed_for_an_address_that_guesses",
        ),
    ),
    Removal(
        "B365",
        (Edit("src/stratalog/server/web_server.py", "= (500, 5, 400)", "= (2000, 10, 50)"),),
        (f"{OF_WEB_SERVER}::test_serve_tunes_thread_switching_and_garbage_collection_and_restores_both",),
    ),
    Removal(
        "B382",
        (
            Edit(
                "src/stratalog/server/web_tokens.py",
                "        except Exception as exc:\n",
                "        except (OSError, ValueError, TypeError, msgspec.DecodeError, jwt.PyJWTError) as exc:\n",
            ),
        ),
        ("tests/server/test_api_security.py::test_known_keys_stay_valid_while_the_fetch_of_new_keys_fails",),
    ),
    Removal(
        "B383",
        (Edit("src/stratalog/server/line_log.py", "        while left:\n", "        for _ in range(1):\n"),),
        ("tests/server/test_audit.py::test_a_line_cut_by_a_full_disk_is_counted_and_the_next_line_is_complete",),
    ),
    Removal(
        "B383",
        (Edit("src/stratalog/server/line_log.py", 'memoryview(b"\\n" * self._is_cut + line', "memoryview(line"),),
        ("tests/server/test_audit.py::test_a_line_cut_by_a_full_disk_is_counted_and_the_next_line_is_complete",),
    ),
    Removal(
        "B392",
        (
            Edit(
                "src/stratalog/server/acceptor.py",
                '                    _log.error("cannot accept connections: %s", exc.strerror)\n',
                "",
            ),
        ),
        ("tests/server/test_acceptor.py::test_any_error_of_the_listening_socket_is_logged",),
    ),
    Removal(
        "B502",
        (Edit("src/stratalog/server/live_right.py", "if self.principal.expires_ms is not None:", "if False:"),),
        ("tests/server/test_live_right.py::test_a_right_ends_when_its_token_expires_and_not_a_heartbeat_later",),
    ),
    Removal(
        "B912",
        (
            Edit(
                LIVE_RIGHT,
                "            principal = await authentication.identify(",
                "            principal = self.principal = await authentication.identify(",
            ),
        ),
        (
            f"{OF_LIVE_RIGHT}::test_a_changed_principal_ends_the_connection_even_if_its_right_could_first_not_be_checked",
        ),
    ),
    Removal(
        "B843",
        (Edit("src/stratalog/server/web_server.py", "is_late = not was_late and", "is_late = False and"),),
        (
            f"{OF_WEB_SERVER}::test_after_a_stop_of_the_process_requests_are_read_before_overdue_connections_are_dropped",
        ),
    ),
    Removal(
        "B843",
        (Edit("src/stratalog/server/web_server.py", "is_late = not was_late and", "is_late ="),),
        (
            f"{OF_WEB_SERVER}::test_after_a_stop_of_the_process_requests_are_read_before_overdue_connections_are_dropped",
        ),
    ),
    Removal(
        "B860",
        (
            Edit(
                "src/stratalog/server/connections.py",
                "        if self._connection.has_unread_bytes():\n",
                "        if False:\n",
            ),
        ),
        ("tests/server/test_handovers.py::test_a_connection_whose_next_request_is_unread_does_not_end_as_idle",),
    ),
    Removal(
        "B906",
        (
            Edit(
                "src/stratalog/server/connections.py",
                "max(1, int(connections_max * PRINCIPAL_SOCKETS_SHARE)),",
                "connections_max,",
            ),
        ),
        (f"{OF_WEB_SERVER}::test_idle_and_closing_sockets_of_a_principal_leave_room_for_another_caller",),
    ),
    Removal(
        "B906",
        (Edit(CONNECTIONS, "                self._own.assign(*before)\n", ""),),
        (f"{OF_CONNECTIONS}::test_a_request_on_a_socket_above_its_principal_s_share_counts_for_its_address_as_before",),
    ),
    Removal(
        "B907",
        (Edit("src/stratalog/server/history.py", "digest, version_at, diff", "digest, diff"),),
        ("tests/server/test_api_documents.py::test_the_newest_version_at_a_time_is_found",),
    ),
    Removal(
        "B907",
        (Edit("src/stratalog/server/logs.py", "entries, version_at, snapshots", "entries, snapshots"),),
        ("tests/server/test_api_logs.py::test_the_newest_version_of_a_log_at_a_time_is_found",),
    ),
    Removal(
        "B1020",
        (
            Edit("src/stratalog/client/replica.py", "        check_class(Mapping, mutators=mutators)\n", ""),
            Edit("src/stratalog/client/replica.py", "mutator in mutators.items():", "mutator in ():"),
        ),
        ("tests/client/test_client.py::test_mutators_that_cannot_be_called_are_refused_and_make_no_file",),
    ),
    Removal(
        "B1021",
        (Edit("src/stratalog/records/decisions.py", "; give the first body of a new record as create=", ""),),
        ("tests/records/test_put.py::test_b21_update_of_an_unknown_record_is_not_found_and_writes_nothing",),
    ),
    Removal(
        "B1096",
        (
            Edit(
                "src/stratalog/server/bodies.py",
                "        try:\n            decode_body(body, self.kind, plain=self.is_plain)\n",
                "        decode_body(body, self.kind, plain=self.is_plain)\n        try:\n            pass\n",
            ),
        ),
        (f"{PUSH_PARTS}::test_a_mutation_whose_arguments_cannot_be_decoded_is_rejected_and_blocks_nobody",),
    ),
    Removal(
        "B1097",
        (Edit("src/stratalog/server/ranges.py", "if has_same_body else None", ""),),
        ("tests/server/test_api_records.py::test_a_resumed_download_of_a_replaced_body_begins_again",),
    ),
    Removal(
        "B1100",
        (Edit("src/stratalog/server/records.py", "        if name in headers:", "        if name in ():"),),
        ("tests/server/test_api_records.py::test_a_write_with_a_header_that_the_server_would_not_obey_is_refused",),
    ),
    Removal(
        "B1101",
        (
            Edit(
                "src/stratalog/documents/replay.py",
                "if fork.log.record.prefix == target.log.record.prefix:",
                "if fork.log.record.prefix == target:",
            ),
        ),
        ("tests/documents/test_merging.py::test_a_document_is_not_merged_into_itself",),
    ),
)
