"""Removals of fixes: the server's pushes, pulls, connections, deadlines, limits, pools and pages."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

PUSH = "src/stratalog/sync/push.py"
RATES = "src/stratalog/server/rates.py"
MIDDLEWARE = "src/stratalog/server/middleware.py"
HUB = "src/stratalog/server/hub.py"
SYNC = "src/stratalog/server/sync.py"
SERVE = "src/stratalog/cli/serve.py"
TOKENS = "src/stratalog/server/web_tokens.py"
API_SECURITY = "tests/server/test_api_security.py"
API_EDGE = "tests/server/test_api_edge.py"
API_SERVE = "tests/server/test_api_serve.py"
API_LIVE = "tests/server/test_api_live.py"
CONNECTIONS = "src/stratalog/server/connections.py"
ACCEPTOR = "src/stratalog/server/acceptor.py"
DEADLINES = "src/stratalog/server/deadlines.py"
THROTTLE = "src/stratalog/server/log_throttle.py"
OF_CONNECTIONS = "tests/server/test_connections.py"
OF_WEB_SERVER = "tests/server/test_web_server.py"
POOLS = "src/stratalog/server/pools.py"
THREAD_POOL = "src/stratalog/server/thread_pool.py"
TEST_POOLS = "tests/server/test_pools.py"
TEST_STALLS = "tests/server/test_stalls.py"
TEST_HOME = "tests/server/test_home.py"

NEWCOMER = """\
        if self._group and self._state.group_owner(self._group) not in (None, self._owner):
            return "wrong-group"
        return None if"""
REFUSED = "    refused = refusal(document, request)\n"
OWNER_LOOKED_AT_BEFORE = """\
    if document.state().group_owner(request.group) not in (None, owner):
        sent = request.mutations
        return Pushed([Outcome(client=mutation.client, id=mutation.id, status="wrong-group") for mutation in sent])
"""

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B76",
        (Edit(PUSH, '    if request.origin not in ("", document.origin):\n', "    if False:\n"),),
        ("tests/server/test_push.py::test_a_push_for_a_deleted_document_does_not_change_the_recreated_document",),
    ),
    Removal(
        "B77",
        (Edit(PUSH, "        if len(batch) == 1:\n", "        if len(batch) == 1:\n            raise\n"),),
        (
            "tests/server/test_push.py::test_a_mutation_that_cannot_be_stored_is_rejected_and_blocks_nobody",
            "tests/server/test_replicache.py::test_a_mutation_that_cannot_be_stored_blocks_nobody",
        ),
    ),
    Removal(
        "B78",
        (
            Edit("src/stratalog/documents/run.py", NEWCOMER, "        return None if"),
            Edit(PUSH, REFUSED, OWNER_LOOKED_AT_BEFORE + REFUSED),
        ),
        (
            "tests/documents/test_apply.py::test_a_client_cannot_join_a_group_of_another_owner",
            "tests/server/test_push.py::test_a_group_belongs_to_the_first_of_two_concurrent_pushes",
        ),
    ),
    Removal(
        "B78",
        (
            Edit(
                "src/stratalog/documents/state.py",
                "        first = next(self.members(group), None)\n",
                "        clients = [client for client, _ in self.client_ids()]\n"
                "        first = next((one for one in clients if (self.binding(one) or [None])[0] == group), None)\n",
            ),
        ),
        ("tests/documents/test_beside_commits.py::test_reading_the_owner_of_a_group_does_not_scan_all_clients",),
    ),
    Removal(
        "B79",
        (
            Edit(
                "src/stratalog/server/security.py",
                '(self.name or self.id).encode(errors="ignore")[:AUTHOR_BYTES_MAX].decode(errors="ignore")',
                "self.name or self.id",
            ),
        ),
        (f"{API_SECURITY}::test_a_long_author_name_is_truncated_in_the_history",),
    ),
    Removal(
        "B80",
        (
            Edit(
                TOKENS,
                "        if self._is_due(id):\n            with self._lock:\n                if self._is_due(id):\n"
                "                    self._refresh()\n",
                "        with self._lock:\n            if self._is_due(id):\n                self._refresh()\n",
            ),
        ),
        (f"{API_SECURITY}::test_a_token_with_a_known_key_does_not_wait_for_a_fetch_of_keys",),
    ),
    Removal(
        "B80",
        (Edit(TOKENS, "id in self._keys else TOKEN_KEYS_REFETCH_SECONDS_MIN\n", "id in self._keys else 0\n"),),
        (f"{API_SECURITY}::test_unknown_keys_cause_no_more_than_a_single_fetch_per_minute",),
    ),
    Removal(
        "B81",
        (Edit(MIDDLEWARE, 'return scheme in ("http", "https") and', 'return scheme == self._scope["scheme"] and'),),
        (f"{API_EDGE}::test_the_server_s_own_pages_may_call_it_behind_a_tls_proxy",),
    ),
    Removal(
        "B82",
        (
            Edit(
                "src/stratalog/server/rates.py",
                "(left if left < needed else left - amount, now_ms)",
                "(max(0.0, left - 1), now_ms)",
            ),
        ),
        (f"{API_EDGE}::test_a_caller_constantly_above_the_request_rate_is_served_at_the_rate",),
    ),
    Removal(
        "B83",
        (Edit(SERVE, "        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n", ""),),
        (f"{API_SERVE}::test_accepted_connections_have_tcp_nodelay",),
    ),
    Removal(
        "B84",
        (
            Edit(
                "src/stratalog/server/bodies.py",
                "return function() if size <= LOOP_BYTES_MAX else await sync_to_thread(function)",
                "return function()",
            ),
        ),
        (f"{API_EDGE}::test_large_bodies_are_decoded_and_encoded_off_the_event_loop",),
    ),
    Removal(
        "B84",
        (
            Edit(
                SYNC,
                "            return encoded(request, opened.start)\n",
                "            return opened.start\n",
            ),
            Edit(
                SYNC,
                "partial(encode_body, kind=kind))\n\n    return await service.run(run)\n",
                "partial(encode_body, kind=kind))\n\n    return Encoded(await service.run(run))\n",
            ),
        ),
        (f"{API_EDGE}::test_large_bodies_are_decoded_and_encoded_off_the_event_loop",),
    ),
    Removal(
        "B85",
        (
            Edit(
                DEADLINES,
                '        if message["type"] == "http.disconnect":\n',
                "        if False:\n",
            ),
            Edit(
                "src/stratalog/server/request_bodies.py",
                '        if event["type"] != "http.request":\n',
                "        if False:\n",
            ),
        ),
        (f"{API_EDGE}::test_a_disconnect_during_a_request_body_is_not_logged_as_an_error",),
    ),
    Removal(
        "B86",
        (Edit(HUB, "                listener.end()\n", "                pass\n"),),
        (f"{API_LIVE}::test_a_server_that_stops_ends_its_live_connections",),
    ),
    Removal(
        "B86",
        (Edit("src/stratalog/server/web_server.py", "        self._service.hub.close()\n", ""),),
        (f"{API_SERVE}::test_a_signal_ends_a_stream_of_events_and_then_the_server",),
    ),
    Removal(
        "B87",
        (
            Edit(
                HUB,
                "            if room is not None and room.log.record.incarnation == log.record.incarnation:\n",
                "            if room is not None:\n",
            ),
        ),
        (f"{API_LIVE}::test_a_recreation_between_two_polls_ends_the_listeners_of_the_old_document",),
    ),
    Removal(
        "B88",
        (Edit(HUB, "            except Exception:  # noqa", "            except StratalogError:  # noqa"),),
        (f"{API_LIVE}::test_polling_continues_after_a_failed_read_of_the_head",),
    ),
    Removal(
        "B89",
        (Edit("src/stratalog/server/live.py", "        await anyio.sleep(PRESENCE_SECONDS_MIN)\n", ""),),
        (f"{API_LIVE}::test_the_server_pauses_after_each_presence_message_from_a_listener",),
    ),
    Removal(
        "B99",
        (Edit("src/stratalog/cli/session.py", "self.url = STORE_DEFAULT", "self.url: str = None"),),
        (f"{API_SERVE}::test_init_without_options_creates_the_store_in_the_folder_data",),
    ),
    Removal(
        "B153",
        (Edit(CONNECTIONS, '            return "head"\n', "            pass\n"),),
        (
            f"{OF_CONNECTIONS}::test_a_caller_that_sends_no_complete_head_is_dropped",
            f"{OF_CONNECTIONS}::test_a_slowly_sent_head_does_not_extend_its_deadline",
            f"{OF_WEB_SERVER}::test_connections_with_an_incomplete_head_are_dropped_after_the_deadline",
        ),
    ),
    Removal(
        "B154",
        (
            Edit(
                ACCEPTOR,
                "                await asyncio.sleep(ACCEPT_RETRY_SECONDS)\n",
                "                await asyncio.sleep(0.1)\n",
            ),
        ),
        (f"{OF_WEB_SERVER}::test_without_free_descriptors_the_server_retries_accept_once_a_second",),
    ),
    Removal(
        "B154",
        (
            Edit("src/stratalog/server/web_server.py", "(hard, hard)", "(soft, hard)"),
            Edit("src/stratalog/server/web_server.py", "    _, hard = ", "    soft, hard = "),
        ),
        (f"{OF_WEB_SERVER}::test_a_process_with_few_descriptors_raises_its_limit_and_survives_more_callers",),
    ),
    Removal(
        "B154",
        (Edit(THROTTLE, "return not is_silenced", "return True"),),
        ("tests/server/test_log_throttle.py::test_each_kind_of_line_is_written_once_a_second_and_the_rest_is_counted",),
    ),
    Removal(
        "B155",
        (
            Edit(
                DEADLINES,
                "answer_silence_seconds_max:\n            return True\n",
                "answer_silence_seconds_max:\n            return False\n",
            ),
        ),
        (f"{OF_CONNECTIONS}::test_a_caller_that_does_not_read_its_answer_is_dropped",),
    ),
    Removal(
        "B155",
        (Edit(CONNECTIONS, 'len(message["body"]) <= ANSWER_PIECE_BYTES:', "ANSWER_PIECE_BYTES:"),),
        (f"{OF_CONNECTIONS}::test_no_more_than_two_pieces_of_an_answer_wait_for_a_slow_reader",),
    ),
    Removal(
        "B155",
        (
            Edit(
                "src/stratalog/server/pages.py", "if known is None or known[0] != stamp:", "if self._path.read_bytes():"
            ),
        ),
        ("tests/server/test_pages.py::test_a_large_file_is_read_in_pieces_and_hashed_once",),
    ),
    Removal(
        "B156",
        (Edit(DEADLINES, "        waited_seconds += loop.time() - began\n", ""),),
        ("tests/server/test_deadlines.py::test_a_body_that_arrives_too_slowly_is_refused_with_408",),
    ),
    Removal(
        "B157",
        (Edit(MIDDLEWARE, "            passing.check_framing()\n", ""),),
        (f"{OF_WEB_SERVER}::test_a_request_with_two_framings_is_refused_and_the_next_request_is_not_read",),
    ),
    Removal(
        "B158",
        (Edit(CONNECTIONS, "            self.transport.pause_reading()\n", "            pass\n"),),
        (f"{OF_CONNECTIONS}::test_the_server_stops_reading_a_websocket_that_pings_and_does_not_read",),
    ),
    Removal(
        "B158",
        (Edit(CONNECTIONS, "if self.flow.write_paused and not self.transport.is_closing():", "if False:"),),
        (f"{OF_CONNECTIONS}::test_a_pipelined_request_runs_after_the_previous_answer_has_been_read",),
    ),
    Removal(
        "B159",
        (Edit("src/stratalog/cli/program.py", "os.umask(0o077)", "os.umask(0o022)"),),
        ("tests/cli/test_program_files.py::test_only_the_user_can_access_a_store_that_a_command_creates",),
    ),
    Removal(
        "B162",
        (Edit(POOLS, 'self._by_name.get(name or "", self.applications)', "self.applications"),),
        (f"{TEST_STALLS}::test_a_pool_without_a_free_thread_stalls_only_its_own_calls",),
    ),
    Removal(
        "B163",
        (Edit("src/stratalog/server/health_check.py", "look.done() or is_recent", "look.done()"),),
        (f"{TEST_STALLS}::test_a_slow_store_is_healthy_while_its_last_result_is_recent",),
    ),
    Removal(
        "B164",
        (Edit("src/stratalog/server/rotation.py", "self._groups.move_to_end(group)", "pass"),),
        (f"{TEST_POOLS}::test_callers_of_a_document_take_turns_regardless_of_their_numbers_of_calls",),
    ),
    Removal(
        "B164",
        (Edit(POOLS, "calls_of_caller_max=max(1, pushes_waiting_max // 2), ", ""),),
        (f"{TEST_POOLS}::test_a_single_principal_cannot_fill_the_queue_of_a_document",),
    ),
    Removal(
        "B165",
        (Edit("src/stratalog/worker/queued_pushes.py", "if owner and sum(", "if False and sum("),),
        ("tests/server/test_queue.py::test_a_single_principal_fills_no_more_than_half_of_a_document_s_queue",),
    ),
    Removal(
        "B166",
        (
            Edit(
                "src/stratalog/server/page_frame.py",
                "OWN_CONNECTIONS = \"connect-src 'self'\"",
                "OWN_CONNECTIONS = \"connect-src 'self' ws: wss:\"",
            ),
        ),
        ("tests/server/test_pages.py::test_the_content_security_policy_of_a_page_forbids_other_hosts",),
    ),
    Removal(
        "B167",
        (Edit(MIDDLEWARE, "            self._check_site()\n", ""),),
        (f"{TEST_HOME}::test_the_local_server_refuses_requests_from_pages_of_other_sites",),
    ),
    Removal(
        "B167",
        (Edit(MIDDLEWARE, "(*_ALWAYS, *self._resource_policy)", "_ALWAYS"),),
        (f"{TEST_HOME}::test_no_other_origin_may_embed_an_answer_unless_it_may_read_it",),
    ),
    Removal(
        "B168",
        (
            Edit(
                THREAD_POOL,
                "            call.timer = call.loop.call_later(self.settings.wait_seconds_max, self._expire, call)\n",
                "            pass\n",
            ),
        ),
        (f"{TEST_POOLS}::test_a_call_that_waits_too_long_is_refused_and_never_runs",),
    ),
    Removal(
        "B286",
        (
            Edit(
                "src/stratalog/server/service.py",
                "self.store.held_document(organisation, document) if self.applies_pushes else None",
                "None",
            ),
        ),
        ("tests/server/test_api_documents.py::test_a_push_to_a_cached_document_reads_nothing_from_the_index",),
    ),
    Removal(
        "B287",
        (Edit(THREAD_POOL, "if self._woken is not call.loop:", "if call.is_running:"),),
        (f"{TEST_POOLS}::test_calls_that_end_while_the_loop_is_busy_wake_it_once",),
    ),
    Removal(
        "B288",
        (Edit(THREAD_POOL, "if not call.loop.is_closed():", "if call.is_running:"),),
        (f"{TEST_POOLS}::test_a_call_that_ended_after_its_loop_leaves_its_thread_to_the_next_loop",),
    ),
    Removal(
        "B352",
        (Edit(MIDDLEWARE, '            return "framing-refused"\n', "            return None\n"),),
        ("tests/server/test_audit.py::test_a_request_with_ambiguous_framing_and_a_preflight_are_logged_and_counted",),
    ),
    Removal(
        "B398",
        (
            Edit(THREAD_POOL, "with suppress(RuntimeError, MemoryError):", "with suppress():"),
            Edit(
                THREAD_POOL,
                "            thread.start()\n            self._threads.append(thread)\n",
                "            self._threads.append(thread)\n            thread.start()\n",
            ),
        ),
        (f"{TEST_POOLS}::test_a_thread_that_cannot_start_does_not_count_as_busy",),
        raises=("RuntimeError",),
    ),
    Removal(
        "B398",
        (
            Edit(
                "src/stratalog/backends/postgres_announcements.py",
                "                thread.start()\n                self._threads.append(thread)\n",
                "                self._threads.append(thread)\n                thread.start()\n",
            ),
        ),
        (
            "tests/postgres/test_announcements.py::test_an_announcement_whose_thread_cannot_start_is_sent_with_the_next_announcement",
        ),
        raises=("RuntimeError",),
    ),
    Removal(
        "B398",
        (
            Edit(
                "src/stratalog/backends/hosted_turns.py",
                "except (RuntimeError, MemoryError):  # the process",
                "except RuntimeError:  # the process",
            ),
        ),
        ("tests/backends/test_hosted_turns.py::test_a_commit_succeeds_although_no_thread_can_be_started",),
        raises=("MemoryError",),
    ),
    Removal(
        "B398",
        (
            Edit(
                "src/stratalog/client/background.py",
                "            thread.start()\n            self._thread = thread\n",
                "            self._thread = thread\n            thread.start()\n",
            ),
        ),
        ("tests/client/test_background.py::test_a_client_whose_thread_could_not_be_started_can_be_started_again",),
        raises=("RuntimeError",),
    ),
    Removal(
        "B399",
        (
            Edit(
                "src/stratalog/log/admission.py",
                "        with self._lock:\n            self.refusals[quota] += 1\n",
                "        self.refusals[quota] += 1\n",
            ),
        ),
        ("tests/log/test_admission.py::test_concurrent_refusals_of_two_organisations_are_both_counted",),
    ),
    Removal(
        "B411",
        (
            Edit("src/stratalog/server/siblings.py", "if len(text) > SIBLING_LINE_BYTES_MAX:", "if not text:"),
            Edit(
                "src/stratalog/server/siblings.py",
                "            is_rest = True\n            continue\n",
                "            return\n",
            ),
        ),
        (
            "tests/server/test_siblings.py::test_metrics_that_are_too_long_are_left_out",
            "tests/server/test_siblings.py::test_a_line_that_is_no_message_is_dropped",
        ),
    ),
    Removal(
        "B435",
        (Edit("src/stratalog/server/line_log.py", "self._unwritten += 1", "self._refused += 1"),),
        ("tests/server/test_audit.py::test_lines_that_two_threads_omit_concurrently_are_both_counted",),
    ),
    Removal(
        "B436",
        (Edit(TOKENS, "principal.expires_ms + round(self._leeway * 1000)", "principal.expires_ms"),),
        (f"{API_SECURITY}::test_a_principal_expires_when_its_token_is_no_longer_accepted",),
    ),
    Removal(
        "B471",
        (
            Edit(
                "src/stratalog/log/admission.py",
                "            pairs.append((self.measured.document_clients, self.quotas.document_clients_max))\n",
                "            pass\n",
            ),
        ),
        ("tests/log/test_admission.py::test_the_usage_ratio_includes_the_largest_number_of_clients_of_a_document",),
    ),
    Removal(
        "B472",
        (
            Edit(
                "src/stratalog/server/health_check.py",
                "self._error = exc if is_503 else",
                "self._error = exc if exc else",
            ),
        ),
        ("tests/server/test_stalls.py::test_the_health_of_an_unreadable_store_is_answered_503",),
    ),
    Removal(
        "B855",
        (
            Edit(
                "src/stratalog/server/page_frame.py",
                'return method in ("GET", "HEAD") and accept',
                "return False and accept",
            ),
        ),
        (
            "tests/server/test_home.py::test_a_person_gets_a_page_for_an_unknown_address",
            "tests/server/test_home.py::test_a_person_gets_a_page_for_an_address_that_needs_a_token",
        ),
    ),
    Removal(
        "B865",
        (
            Edit(
                "src/stratalog/server/error_responses.py",
                "    status, headers, body = error_response(request.scope, error)\n",
                "    status, (headers, body) = status_of(error), encoded_problem(error)\n",
            ),
            Edit(
                "src/stratalog/server/error_responses.py",
                "import MEANINGS, Problem",
                "import MEANINGS, encoded_problem, Problem",
            ),
        ),
        ("tests/server/test_home.py::test_a_person_gets_a_page_for_each_error_of_a_handler",),
    ),
    Removal(
        "B1152",
        (
            Edit(
                "src/stratalog/server/web_server.py",
                (
                    "        if self._handovers is not None:\n            self._handovers.close()\n"
                    "        accepting.cancel()\n"
                ),
                (
                    "        accepting.cancel()\n"
                    "        if self._handovers is not None:\n            self._handovers.close()\n"
                ),
            ),
        ),
        ("tests/server/test_web_server.py::test_a_stopping_server_closes_its_handovers_before_it_stops_to_accept",),
    ),
)
