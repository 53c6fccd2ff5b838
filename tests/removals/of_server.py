"""Removals of fixes: the server, what it does with a push and a pull, and its live connections."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

PUSH = "src/stratalog/sync/push.py"
MIDDLEWARE = "src/stratalog/server/middleware.py"
HUB = "src/stratalog/server/hub.py"
SYNC = "src/stratalog/server/sync.py"
SERVE = "src/stratalog/cli/serve.py"
TOKENS = "src/stratalog/server/web_tokens.py"
API_SECURITY = "tests/server/test_api_security.py"
API_EDGE = "tests/server/test_api_edge.py"
API_SERVE = "tests/server/test_api_serve.py"
API_LIVE = "tests/server/test_api_live.py"

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
        (Edit(TOKENS, "id in self._keys else REFETCH_SECONDS_MIN\n", "id in self._keys else 0\n"),),
        (f"{API_SECURITY}::test_unknown_keys_are_fetched_once_a_minute_at_most",),
    ),
    Removal(
        "B81",
        (Edit(MIDDLEWARE, 'return scheme in ("http", "https") and', 'return scheme == self._scope["scheme"] and'),),
        (f"{API_EDGE}::test_behind_a_proxy_with_tls_the_pages_of_the_server_are_its_own",),
    ),
    Removal(
        "B82",
        (Edit(MIDDLEWARE, "(left if left < 1 else left - 1, now)", "(max(0.0, left - 1), now)"),),
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
                "return read() if len(body) <= LOOP_BYTES_MAX else await sync_to_thread(read)",
                "return read()",
            ),
        ),
        (f"{API_EDGE}::test_what_is_large_is_neither_read_nor_written_on_the_event_loop",),
    ),
    Removal(
        "B84",
        (
            Edit(
                SYNC,
                "return encoded(request, pull(service.document(organisation, document), data, who.id, may_write))",
                "return pull(service.document(organisation, document), data, who.id, may_write)",
            ),
            Edit(SYNC, "    return await service.run(run)\n", "    return Encoded(await service.run(run))\n"),
        ),
        (f"{API_EDGE}::test_what_is_large_is_neither_read_nor_written_on_the_event_loop",),
    ),
    Removal(
        "B85",
        (
            Edit(
                "src/stratalog/server/request_bodies.py",
                '        if message["type"] == "http.disconnect":\n',
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
        (Edit(SERVE, "        app.state.service.hub.close()\n", ""),),
        (f"{API_SERVE}::test_a_signal_ends_a_stream_of_events_and_then_the_server",),
    ),
    Removal(
        "B87",
        (
            Edit(
                HUB,
                "        if room is None or room.log.record.incarnation != log.record.incarnation:\n",
                "        if room is None:\n",
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
)
