"""Removals of fixes: a store in PostgreSQL, the hints between processes, and what tests on PostgreSQL found."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

ANNOUNCEMENTS = "src/stratalog/backends/postgres_announcements.py"
COMMITS = "src/stratalog/backends/postgres_commits.py"
CONNECTIONS = "src/stratalog/backends/postgres_connections.py"
QUEUE = "src/stratalog/backends/postgres_queue.py"
SESSION = "src/stratalog/backends/postgres_session.py"
TEST_POOLER = "tests/postgres/test_pooler.py"
TABLES = "src/stratalog/backends/postgres_tables.py"
TEST_OTHERS = "tests/postgres/test_other_programs.py"
TEST_STATEMENTS = "tests/postgres/test_statements.py"
FEW_ROWS = f"{TEST_STATEMENTS}::test_a_statement_reads_the_rows_of_its_keys_and_not_the_table"
TEST_STORE = "tests/postgres/test_store.py"
TEST_STANDBY = "tests/postgres/test_standby.py"
ENDED_WAIT = f"{TEST_STANDBY}::test_a_commit_whose_wait_for_the_standby_ends_early_is_unknown_and_not_shown"
SILENT = "tests/postgres/test_silence.py::test_a_call_without_an_answer_ends_and_the_next_call_uses_another_session"
READ_ONLY = "tests/postgres/test_failover.py::test_sessions_of_a_primary_that_turned_read_only_are_replaced"
HUB_WORLD = "tests/server/test_hub_world.py"
TEST_SESSIONS = "tests/postgres/test_sessions.py"
TEST_ANNOUNCEMENTS = "tests/postgres/test_announcements.py"

MET = "tests/postgres/test_store.py::test_a_call_concurrent_with_close_raises_no_error"

CUSTOM_PLANS = Edit(CONNECTIONS, '"force_generic_plan"', '"force_custom_plan"')

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B447",
        (
            Edit(
                "src/stratalog/backends/postgres_connections.py",
                "                self.check_open()  # `close` may have closed the pool since the first check\n",
                "",
            ),
        ),
        ("tests/postgres/test_store.py::test_a_first_read_concurrent_with_close_opens_no_pool",),
    ),
    Removal(
        "B447",
        (
            Edit(
                "src/stratalog/backends/postgres_connections.py",
                "        pool = self._pool  # `close` may set the attribute to None at any time\n"
                "        if pool is not None:\n            pool.drain()\n",
                "        if self._pool is not None:\n            self._pool.drain()\n",
            ),
        ),
        (MET,),
        raises=("AttributeError",),
    ),
    Removal(
        "B447",
        (
            Edit(
                "src/stratalog/backends/postgres_connections.py",
                "        pool.putconn(connection)  # replaces a broken connection\n",
                "        self._pool.putconn(connection)\n",
            ),
        ),
        (MET,),
        raises=("AttributeError",),
    ),
    Removal(
        "B401",
        (
            Edit(
                COMMITS,
                "        self._disconnect()\n        return error_of(",
                "        if error.sqlstate != READ_ONLY:\n            self._disconnect()\n        return error_of(",
            ),
        ),
        (f"{READ_ONLY}[commit]",),
    ),
    Removal(
        "B401",
        (Edit(CONNECTIONS, "if in_doubt or exc.sqlstate == READ_ONLY", "if in_doubt"),),
        (f"{READ_ONLY}[send]",),
    ),
    Removal(
        "B402",
        (Edit(CONNECTIONS, '    "keepalives_idle": "10",\n', ""),),
        ("tests/postgres/test_store.py::test_tcp_keepalive_is_set_to_detect_a_vanished_host_within_30_seconds",),
    ),
    Removal(
        "B403",
        (Edit(ANNOUNCEMENTS, "_poll_of(closed).poll(RETRY_SECONDS * 1000)", "self._clock.sleep(RETRY_SECONDS)"),),
        (f"{TEST_ANNOUNCEMENTS}::test_closing_wakes_a_listener_that_waits_to_connect_again",),
    ),
    Removal(
        "B403",
        (Edit(ANNOUNCEMENTS, "readable = _poll_of(closed)", "readable = select.poll()"),),
        (f"{TEST_ANNOUNCEMENTS}::test_closing_wakes_a_listener_that_waits_for_hints",),
    ),
    Removal(
        "B404",
        (Edit("src/stratalog/server/hub.py", "            self._take_hint((organisation, name))\n", ""),),
        (f"{HUB_WORLD}::test_a_commit_while_the_first_listener_joins_is_reported_without_polling",),
    ),
    Removal(
        "B406",
        (Edit("src/stratalog/maintenance/copy_check.py", "    except Redacted:\n        return Redacted\n", ""),),
        ("tests/documents/test_redaction.py::test_a_copy_succeeds_although_its_check_selects_redacted_versions",),
        raises=("Redacted",),
    ),
    Removal(
        "B405",
        (Edit("tests/selection.py", '{"aws", "dynamodb", "postgres"}', '{"aws", "dynamodb"}'),),
        ("tests/test_selection.py::test_a_quick_run_leaves_out_planted_bugs_slow_tests_and_tests_with_services",),
    ),
    Removal(
        "B440",
        (
            Edit(
                COMMITS,
                """    except psycopg.errors.InvalidSqlStatementName:
""",
                """    except psycopg.errors.DuplicatePreparedStatement:
""",
            ),
        ),
        ("tests/postgres/test_store.py::test_commits_succeed_after_a_rollback",),
    ),
    Removal(
        "B526",
        (
            Edit(
                COMMITS,
                """    locking = connection.cursor(binary=True).execute(LOCK, _columns(keys))
    inserting = connection""",
                "    inserting = connection",
            ),
            Edit(
                COMMITS,
                """    stored = {(partition, sort): body for""",
                """    locking = connection.cursor(binary=True).execute(LOCK, _columns(keys))
    stored = {(partition, sort): body for""",
            ),
        ),
        ("tests/postgres/test_store.py::test_a_commit_that_waits_for_a_lock_has_inserted_no_row",),
    ),
    Removal(
        "B533",
        (Edit(COMMITS, ") AS seen ON true\nORDER BY added.partition, added.sort", ") AS seen ON true"),),
        ("tests/postgres/test_store.py::test_a_group_of_appends_that_waits_for_a_lock_has_inserted_no_row",),
    ),
    Removal(
        "B611",
        (
            Edit(
                COMMITS,
                "        self._disconnect()\n        return error_of(",
                "        if is_lost(connection, error):\n            self._disconnect()\n        else:\n"
                '            connection.execute("ROLLBACK")\n        return error_of(',
            ),
        ),
        (f"{TEST_SESSIONS}::test_a_commit_succeeds_after_a_commit_that_waited_too_long_for_a_lock",),
    ),
    Removal(
        "B612",
        (Edit(CONNECTIONS, '    "default_transaction_isolation": "read committed",\n', ""),),
        (f"{TEST_SESSIONS}::test_a_session_replaces_the_defaults_of_its_role_that_change_its_statements",),
    ),
    Removal(
        "B612",
        (Edit(CONNECTIONS, '    "standard_conforming_strings": "on",\n', ""),),
        (f"{TEST_SESSIONS}::test_a_store_reads_back_its_bytes_if_its_role_turns_off_standard_conforming_strings",),
    ),
    Removal(
        "B612",
        (Edit(CONNECTIONS, '    "array_nulls": "on",\n', ""),),
        (f"{TEST_SESSIONS}::test_a_session_replaces_the_defaults_of_its_role_that_change_its_statements",),
    ),
    Removal(
        "B613",
        (
            Edit(
                ANNOUNCEMENTS,
                "json.dumps([self._own, *name])",
                "msgspec.json.encode([self._own, *name]).decode()",
            ),
        ),
        (f"{TEST_SESSIONS}::test_hints_are_heard_of_names_that_the_database_s_encoding_lacks",),
    ),
    Removal(
        "B613",
        (Edit(CONNECTIONS, '{"client_encoding": "UTF8"}', "{}"),),
        (f"{TEST_SESSIONS}::test_a_schema_whose_name_the_database_s_encoding_lacks_is_refused",),
    ),
    Removal(
        "B614",
        (Edit(CONNECTIONS, 'return CONNECTING.sub("", str(error).strip().partition("\\n")[0])', "return str(error)"),),
        (f"{TEST_SESSIONS}::test_an_error_shows_why_the_server_cannot_be_reached",),
    ),
    Removal(
        "B614",
        (
            Edit(
                "src/stratalog/backends/objectstore.py",
                'f"the object store refused {operation}"',
                '"the object store refused the request"',
            ),
        ),
        ("tests/cloud/test_objectstore_failures.py::test_a_refusal_names_the_operation",),
    ),
    Removal(
        "B615",
        (
            Edit(
                "src/stratalog/backends/objectstore.py",
                "isinstance(exc, REFUSALS) or REDIRECTED in text",
                "isinstance(exc, REFUSALS)",
            ),
        ),
        (
            "tests/cloud/test_objectstore_failures.py::test_a_put_to_a_bucket_of_another_region_is_refused_with_this_reason",
        ),
    ),
    Removal(
        "B664",
        (
            Edit(
                CONNECTIONS,
                "if connection.execute(HAS_STANDBYS).fetchall() == [(True,)]:",
                "if False:",
            ),
        ),
        (
            f"{TEST_STANDBY}::test_a_session_that_opens_while_the_standby_is_away_is_unavailable_until_commits_need_no_standby",
            ENDED_WAIT,
        ),
    ),
    Removal(
        "B664",
        (Edit(COMMITS, "if in_doubt or error.sqlstate == READ_ONLY", "if error.sqlstate == READ_ONLY"),),
        (f"{ENDED_WAIT}[pg_terminate_backend-insert]", f"{ENDED_WAIT}[pg_terminate_backend-put]"),
    ),
    Removal(
        "B664",
        (Edit(CONNECTIONS, "if in_doubt or exc.sqlstate == READ_ONLY", "if exc.sqlstate == READ_ONLY"),),
        (f"{ENDED_WAIT}[pg_terminate_backend-send]",),
    ),
    Removal(
        "B664",
        (
            Edit(
                COMMITS,
                "        self._connections.require_replicated(connection)\n        return True\n",
                "        return True\n",
            ),
        ),
        (f"{ENDED_WAIT}[pg_cancel_backend-insert]",),
    ),
    Removal(
        "B664",
        (
            Edit(
                COMMITS,
                "                self._connections.require_replicated(connection)\n                return",
                "                return",
            ),
        ),
        (f"{ENDED_WAIT}[pg_cancel_backend-put]",),
    ),
    Removal(
        "B664",
        (Edit(CONNECTIONS, "                self.require_replicated(connection)\n", ""),),
        (f"{ENDED_WAIT}[pg_cancel_backend-send]",),
    ),
    Removal(
        "B665",
        (Edit(SESSION, "if silent_seconds >= self.answer_seconds_max:", "if False:"),),
        (SILENT,),
    ),
    Removal(
        "B665",
        (Edit(COMMITS, "connection.execute_prepared(", "connection.pgconn.exec_prepared("),),
        (f"{SILENT}[insert]",),
    ),
    Removal(
        "B665",
        (
            Edit(
                SESSION,
                "                    if not self._waits_for_standby():\n                        self._shut_down()\n",
                "                    self._shut_down()\n",
            ),
        ),
        (f"{TEST_STANDBY}::test_a_commit_waits_for_the_standby_for_longer_than_for_another_answer",),
    ),
    Removal(
        "B694",
        (
            Edit(
                "src/stratalog/backends/postgres_address.py",
                """        return f"{url.partition(':')[0]}:..." if ":" in url else "..."\n""",
                "        return url\n",
            ),
        ),
        ("tests/postgres/test_address.py::test_a_shown_url_has_only_parts_that_are_no_password",),
    ),
    Removal(
        "B698",
        (
            Edit(
                "src/stratalog/homes.py",
                "    if not scheme and MISTYPED.match(url):\n",
                "    if False:\n",
            ),
        ),
        ("tests/test_urls.py::test_a_url_without_a_colon_and_two_slashes_is_refused",),
    ),
    Removal(
        "B727",
        (Edit(SESSION, "if self._process == self.info.backend_pid:", "if self._process:"),),
        (
            f"{TEST_POOLER}::test_a_pooler_that_gives_each_transaction_another_session_is_refused",
            f"{TEST_POOLER}::test_a_call_through_a_pooler_that_gives_each_transaction_another_session_is_unavailable",
        ),
    ),
    Removal(
        "B730",
        (Edit(CONNECTIONS, '    "client_min_messages": "warning",\n', ""),),
        (f"{TEST_STANDBY}::test_a_commit_whose_wait_ends_early_is_unknown_although_sessions_get_no_warnings",),
    ),
    Removal(
        "B731",
        (Edit(CONNECTIONS, "AS level\n", "AS level WHERE level = 'off'\n"),),
        (f"{TEST_STORE}::test_an_open_session_keeps_its_durability_if_the_server_loads_another_configuration",),
    ),
    Removal(
        "B732",
        (Edit(CONNECTIONS, '    "row_security": "off",\n', ""),),
        (f"{TEST_SESSIONS}::test_rows_that_a_policy_hides_from_the_role_are_an_error_and_not_absent",),
    ),
    Removal(
        "B738",
        (Edit(SESSION, "WAITS_FOR_STANDBY, [self._process]", "WAITS_FOR_STANDBY, [self.info.backend_pid]"),),
        (f"{TEST_STANDBY}::test_a_commit_through_a_pooler_waits_for_the_standby_for_longer_too",),
    ),
    Removal(
        "B1005",
        (
            Edit(
                COMMITS,
                """    SELECT substr(body, 2, {CHECKED_PAIR_BYTES}) AS pair
    FROM items WHERE partition = added.checked AND sort = added.checked_sort FOR SHARE
) AS seen ON true
""",
                """    SELECT partition, sort, substr(body, 2, {CHECKED_PAIR_BYTES}) AS pair FROM items FOR SHARE
) AS seen ON seen.partition = added.checked AND seen.sort = added.checked_sort
""",
            ),
        ),
        (FEW_ROWS,),
    ),
    Removal(
        "B1009",
        (Edit(CONNECTIONS, '    "enable_seqscan": "off",\n', ""),),
        (f"{TEST_STATEMENTS}::test_a_statement_that_was_planned_for_a_small_table_reads_few_rows_of_a_large_one",),
    ),
    Removal(
        "B1010",
        (Edit(CONNECTIONS, '    "enable_bitmapscan": "off",\n', ""), CUSTOM_PLANS),
        (FEW_ROWS,),
    ),
    Removal(
        "B1011",
        (Edit(CONNECTIONS, '    "enable_hashjoin": "off",\n    "enable_mergejoin": "off",\n', ""), CUSTOM_PLANS),
        (FEW_ROWS,),
    ),
    Removal(
        "B1012",
        (
            Edit(
                QUEUE, "WHERE name BETWEEN %(name)s AND %(name)s ORDER BY name, id", "WHERE name = %(name)s ORDER BY id"
            ),
        ),
        (FEW_ROWS,),
    ),
    Removal(
        "B1058",
        (
            Edit(
                CONNECTIONS,
                "            self._apply_settings(connection)\n"
                "        except BaseException:\n"
                "            connection.close()\n",
                "            self._apply_settings(connection)\n        except BaseException:\n",
            ),
        ),
        (f"{TEST_POOLER}::test_a_session_behind_a_refused_pooler_is_closed",),
    ),
    Removal(
        "B1094",
        (
            Edit(
                TABLES,
                "except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateObject) as exc:",
                "except () as exc:",
            ),
            Edit(TABLES, "if row[0] is None or not is_decimal(row[0]):", "if False:"),
            Edit(TABLES, "except psycopg.errors.UndefinedColumn as exc:", "except () as exc:"),
        ),
        (
            f"{TEST_OTHERS}::test_a_schema_with_an_object_of_another_program_is_refused_and_stays_as_it_is",
            f"{TEST_OTHERS}::test_a_schema_whose_format_another_program_wrote_is_refused",
        ),
    ),
    Removal(
        "B1095",
        (Edit(SESSION, "            with self.transaction():\n                pass\n", "            pass\n"),),
        (f"{TEST_POOLER}::test_a_pooler_in_statement_mode_is_refused_and_its_sessions_keep_their_settings",),
    ),
    Removal(
        "B1109",
        (
            Edit(
                ANNOUNCEMENTS,
                "        self._heard = heard\n        if",
                "        if self._wakes_listener is None:\n            self._heard = heard\n        if",
            ),
        ),
        (f"{TEST_ANNOUNCEMENTS}::test_the_second_server_on_an_open_store_hears_the_hints",),
    ),
    Removal(
        "B1114",
        (
            Edit(
                "src/stratalog/backends/postgres_connections.py",
                'ADVICE.get(state, "the database could not execute a request")',
                '"the database could not execute a request"',
            ),
        ),
        (
            "tests/postgres/test_refused_roles.py::test_a_role_that_may_only_read_is_told_which_rights_it_lacks_and_writes_nothing",
        ),
    ),
    Removal(
        "B1114",
        (
            Edit(
                "src/stratalog/backends/postgres_tables.py",
                "    except psycopg.errors.InsufficientPrivilege as exc:\n",
                "    except psycopg.errors.UndefinedTable as exc:\n",
            ),
        ),
        (
            "tests/postgres/test_refused_roles.py::test_a_role_that_may_not_create_the_store_is_told_to_create_it_with_another_role",
        ),
    ),
    Removal(
        "B1114",
        (
            Edit(
                "src/stratalog/backends/postgres_connections.py",
                "NO_WRITES if READ_ONLY_HOST in str(exc) else",
                "NO_WRITES if False else",
            ),
        ),
        (
            "tests/postgres/test_refused_roles.py::test_a_role_that_must_only_read_is_told_so_and_not_that_the_server_is_away",
        ),
    ),
)
