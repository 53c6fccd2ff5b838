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
        return _none(request.mutations, "wrong-group")
"""

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B76",
        (Edit(PUSH, '    if request.origin not in ("", document.origin):\n', "    if False:\n"),),
        ("tests/server/test_push.py::test_what_was_meant_for_a_deleted_document_does_not_touch_its_heir",),
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
            "tests/documents/test_apply.py::test_nobody_joins_a_group_of_another_owner",
            "tests/server/test_push.py::test_of_two_who_found_a_group_at_once_it_is_the_first_ones",
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
        (
            "tests/documents/test_beside_commits.py::test_the_group_of_a_newcomer_is_found_without_a_walk_over_all_clients",
        ),
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
        (f"{API_SECURITY}::test_a_long_name_is_cut_where_the_history_ends",),
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
        (f"{API_SECURITY}::test_a_token_whose_key_is_known_waits_for_no_fetch",),
    ),
    Removal(
        "B80",
        (Edit(TOKENS, "id in self._keys else TOKEN_KEYS_REFETCH_SECONDS_MIN\n", "id in self._keys else 0\n"),),
        (f"{API_SECURITY}::test_unknown_keys_are_fetched_once_a_minute_at_most",),
    ),
    Removal(
        "B81",
        (Edit(MIDDLEWARE, 'return scheme in ("http", "https") and', 'return scheme == self._scope["scheme"] and'),),
        (f"{API_EDGE}::test_behind_a_proxy_with_tls_the_pages_of_the_server_are_its_own",),
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
        (f"{API_EDGE}::test_who_goes_on_asking_too_fast_is_served_at_the_rate",),
    ),
    Removal(
        "B83",
        (Edit(SERVE, "        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n", ""),),
        (f"{API_SERVE}::test_an_answer_in_two_writes_waits_for_no_acknowledgement",),
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
        (f"{API_EDGE}::test_what_is_large_is_neither_read_nor_written_on_the_event_loop",),
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
        (f"{API_EDGE}::test_what_is_large_is_neither_read_nor_written_on_the_event_loop",),
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
        (f"{API_EDGE}::test_a_caller_who_goes_away_in_the_middle_is_no_fault_of_the_server",),
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
        (f"{API_LIVE}::test_a_document_made_again_between_two_looks_ends_the_listeners_of_the_old_one",),
    ),
    Removal(
        "B88",
        (Edit(HUB, "            except Exception:  # noqa", "            except StratalogError:  # noqa"),),
        (f"{API_LIVE}::test_a_look_that_fails_is_not_the_last",),
    ),
    Removal(
        "B89",
        (Edit("src/stratalog/server/live.py", "        await anyio.sleep(PRESENCE_SECONDS_MIN)\n", ""),),
        (f"{API_LIVE}::test_what_a_listener_shows_is_taken_no_faster_than_the_others_are_told",),
    ),
    Removal(
        "B99",
        (Edit("src/stratalog/cli/session.py", "self.url = STORE_DEFAULT", "self.url: str = None"),),
        (f"{API_SERVE}::test_the_default_store_is_found_without_any_option",),
    ),
    Removal(
        "B153",
        (Edit(CONNECTIONS, '            return "head"\n', "            pass\n"),),
        (
            f"{OF_CONNECTIONS}::test_who_sends_no_head_is_dropped",
            f"{OF_CONNECTIONS}::test_a_head_that_drips_does_not_last_longer",
            f"{OF_WEB_SERVER}::test_half_heads_hold_their_connections_for_a_moment_only",
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
        (f"{OF_WEB_SERVER}::test_where_descriptors_run_out_the_server_waits_and_says_so_once_a_second",),
    ),
    Removal(
        "B154",
        (
            Edit("src/stratalog/server/descriptors.py", "(hard, hard)", "(soft, hard)"),
            Edit("src/stratalog/server/descriptors.py", "    _, hard = ", "    soft, hard = "),
        ),
        (
            f"{OF_WEB_SERVER}::test_a_process_with_few_descriptors_raises_its_limit_and_survives_more_callers_than_it_has",
        ),
    ),
    Removal(
        "B154",
        (Edit(THROTTLE, "                return False\n", "                return True\n"),),
        ("tests/server/test_log_throttle.py::test_of_one_kind_a_line_a_second_is_written_and_the_others_are_counted",),
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
        (f"{OF_CONNECTIONS}::test_who_does_not_read_is_dropped",),
    ),
    Removal(
        "B155",
        (Edit(CONNECTIONS, 'len(message["body"]) <= ANSWER_PIECE_BYTES:', "ANSWER_PIECE_BYTES:"),),
        (f"{OF_CONNECTIONS}::test_an_answer_waits_in_pieces_for_who_does_not_read",),
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
        ("tests/server/test_deadlines.py::test_a_body_that_drips_is_refused_as_soon_as_its_time_is_over",),
    ),
    Removal(
        "B157",
        (Edit(MIDDLEWARE, "            passing.check_framing()\n", ""),),
        (f"{OF_WEB_SERVER}::test_a_request_of_two_lengths_is_refused_and_what_follows_is_not_read",),
    ),
    Removal(
        "B158",
        (Edit(CONNECTIONS, "            self.transport.pause_reading()\n", "            pass\n"),),
        (f"{OF_CONNECTIONS}::test_a_websocket_that_pings_and_does_not_read_is_heard_no_more",),
    ),
    Removal(
        "B158",
        (Edit(CONNECTIONS, "if self.flow.write_paused and not self.transport.is_closing():", "if False:"),),
        (f"{OF_CONNECTIONS}::test_of_pipelined_requests_the_next_runs_once_the_answer_before_it_is_read",),
    ),
    Removal(
        "B159",
        (Edit("src/stratalog/cli/program.py", "os.umask(0o077)", "os.umask(0o022)"),),
        ("tests/cli/test_program_files.py::test_a_store_that_a_command_makes_is_its_user_s_alone",),
    ),
    Removal(
        "B162",
        (Edit(POOLS, 'self._by_name.get(name or "", self.applications)', "self.applications"),),
        (f"{TEST_STALLS}::test_a_pool_without_a_free_thread_stalls_only_its_own_calls",),
    ),
    Removal(
        "B163",
        (Edit("src/stratalog/server/health_check.py", "look.done() or is_recent", "look.done()"),),
        (f"{TEST_STALLS}::test_a_slow_store_is_well_as_long_as_the_last_look_is_young",),
    ),
    Removal(
        "B164",
        (Edit("src/stratalog/server/rotation.py", "self._groups.move_to_end(group)", "pass"),),
        (f"{TEST_POOLS}::test_callers_take_turns_at_a_document_however_many_calls_one_has",),
    ),
    Removal(
        "B164",
        (Edit(POOLS, "calls_of_caller_max=max(1, pushes_waiting_max // 2), ", ""),),
        (f"{TEST_POOLS}::test_one_principal_cannot_fill_the_room_of_a_document",),
    ),
    Removal(
        "B165",
        (Edit("src/stratalog/worker/queued_pushes.py", "if owner and sum(", "if False and sum("),),
        ("tests/server/test_queue.py::test_one_principal_fills_half_of_a_documents_queue",),
    ),
    Removal(
        "B166",
        (
            Edit(
                "src/stratalog/server/pages.py",
                "OWN_CONNECTIONS = \"connect-src 'self'\"",
                "OWN_CONNECTIONS = \"connect-src 'self' ws: wss:\"",
            ),
        ),
        ("tests/server/test_pages.py::test_a_page_may_load_nothing_from_elsewhere",),
    ),
    Removal(
        "B167",
        (Edit(MIDDLEWARE, "            self._check_site()\n", ""),),
        (f"{TEST_HOME}::test_no_page_of_another_site_uses_the_local_server",),
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
        ("tests/server/test_api_documents.py::test_a_push_to_a_document_that_is_held_reads_nothing",),
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
        ("tests/server/test_audit.py::test_a_request_of_two_lengths_and_a_preflight_are_in_the_logs_and_the_metrics",),
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
        (f"{TEST_POOLS}::test_a_thread_that_cannot_be_started_takes_no_place",),
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
        ("tests/postgres/test_announcements.py::test_an_announcement_without_a_thread_is_sent_with_the_next",),
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
        ("tests/backends/test_hosted_turns.py::test_a_commit_does_not_fail_where_there_are_no_more_threads",),
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
        ("tests/log/test_admission.py::test_refusals_of_two_organisations_at_once_are_both_counted",),
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
        ("tests/server/test_audit.py::test_lines_that_two_threads_omit_at_once_are_both_counted",),
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
        ("tests/log/test_admission.py::test_the_ratio_includes_the_clients_of_the_document_with_the_most",),
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
        ("tests/server/test_stalls.py::test_a_store_that_cannot_be_read_is_answered_503",),
    ),
)
