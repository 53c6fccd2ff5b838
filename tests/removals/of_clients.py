"""Removals of fixes: clients, in Python and in the browser."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

LOCAL = "src/stratalog/client/local.py"
CYCLE = "src/stratalog/client/sync_cycle.py"
FILE = "src/stratalog/client/file.py"
BROWSER_LOCAL = "src/stratalog/web/client/local.js"
BROWSER_CYCLE = "src/stratalog/web/client/syncCycle.js"
REFUSALS = "tests/client/test_refusals.py"
IN_NODE = ("tests/web/test_node.py::test_the_tests_of_the_browser_client_in_node_pass_and_none_is_skipped",)

NOT_APPLIED = "test_a_mutation_confirmed_just_before_another_document_takes_the_name_is_not_called_applied"
PULLS_FIRST = """\
        if self._must_pull_first():
            self._pull()
        self._met = True
"""
MEETS_FIRST = """\
        must_pull_first, self._met = self._must_pull_first(), True
        if must_pull_first:
            self._pull()
"""

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B419",
        (
            Edit(
                CYCLE,
                'leaves = forbidden.details.get("value") == local.group',
                "leaves = local.count() == 0",
            ),
        ),
        (f"{REFUSALS}::test_a_restarted_client_with_pending_mutations_leaves_the_group_of_another_principal",),
    ),
    Removal(
        "B419",
        (Edit(BROWSER_CYCLE, "error.details.value === group", "!local.pending.length"),),
        IN_NODE,
    ),
    Removal(
        "B419",
        (
            Edit(
                "src/stratalog/web/client/errors.js",
                "{ status, retryAfter, limit: body?.limit, value: body?.value }",
                "{ status, retryAfter, limit: body?.limit }",
            ),
        ),
        IN_NODE,
    ),
    Removal(
        "B100",
        (
            Edit(
                "src/stratalog/sync/pull.py",
                "if not clients or state.version - since > REJECTIONS_SHOWN_VERSIONS:",
                "if not clients or state.version - since > 1:",
            ),
        ),
        ("tests/server/test_pull.py::test_rejections_of_old_versions_are_not_reported",),
    ),
    Removal(
        "B100",
        (Edit(LOCAL, "not _is_complete(pulled) and passed <= REJECTIONS_SHOWN_VERSIONS", "not _is_complete(pulled)"),),
        (f"{REFUSALS}::test_a_mutation_whose_rejection_is_no_longer_reported_becomes_unknown",),
    ),
    Removal(
        "B101",
        (Edit(LOCAL, "            if elsewhere and self.client not in pulled.last:\n", "            if False:\n"),),
        (f"{REFUSALS}::test_a_copied_document_without_the_client_gets_no_mutation_twice",),
    ),
    Removal(
        "B102",
        (
            Edit(
                CYCLE,
                "            # A server that accepts no push of this client may still answer its pull.\n"
                "            self._pull()\n",
                "",
            ),
        ),
        ("tests/client/test_client.py::test_a_client_whose_pushes_are_forbidden_still_pulls_changes",),
    ),
    Removal(
        "B103",
        (Edit("src/stratalog/client/background.py", "thread.join(CLOSE_SECONDS_MAX)", "thread.join()"),),
        ("tests/client/test_background.py::test_a_client_can_be_closed_while_a_sync_cycle_hangs",),
    ),
    Removal(
        "B104",
        (
            Edit(
                FILE,
                "                os.close(self._lock_file)\n            if clean:",
                "                pass\n            if clean:",
            ),
            Edit(FILE, "            fcntl.flock(self._lock_file, fcntl.LOCK_UN)\n", ""),
        ),
        ("tests/client/test_file.py::test_a_forked_child_neither_uses_nor_locks_its_parents_file",),
    ),
    Removal(
        "B104",
        (
            Edit(
                FILE,
                "                os.close(self._lock_file)\n            if clean:",
                "                pass\n            if clean:",
            ),
        ),
        ("tests/client/test_file.py::test_a_child_that_outlives_a_killed_parent_locks_nothing",),
    ),
    Removal(
        "B104",
        (Edit(FILE, "            fcntl.flock(self._lock_file, fcntl.LOCK_UN)\n", ""),),
        ("tests/client/test_file.py::test_closing_a_file_releases_the_lock_that_a_forked_child_has_inherited",),
    ),
    Removal(
        "B105",
        (Edit(CYCLE, "            size = min(2 * size, MUTATIONS_PER_BATCH_MAX)\n", ""),),
        ("tests/client/test_client.py::test_a_push_that_is_too_large_is_made_smaller_and_later_pushes_grow_again",),
    ),
    Removal(
        "B106",
        (
            Edit(CYCLE, PULLS_FIRST, MEETS_FIRST),
            Edit(
                CYCLE,
                "return local.cookie is None or (not self._met and local.has_unsent())",
                "return not self._met and (local.cookie is None or local.has_unsent())",
            ),
        ),
        (f"{REFUSALS}::test_after_a_failed_first_pull_the_next_sync_cycle_pulls_before_it_pushes",),
    ),
    Removal(
        "B107",
        (Edit(BROWSER_CYCLE, "      if (!LOST.has(error.code)) await this.#pull();\n", ""),),
        IN_NODE,
    ),
    Removal(
        "B107",
        (
            Edit(
                BROWSER_LOCAL,
                "const REJECTIONS_SHOWN_VERSIONS = 1000;",
                "const REJECTIONS_SHOWN_VERSIONS = 1001;",
            ),
        ),
        IN_NODE,
    ),
    Removal(
        "B107",
        (
            Edit(
                BROWSER_LOCAL,
                "    if (elsewhere && !Object.hasOwn(pulled.last, this.client)) {\n",
                "    if (false) {\n",
            ),
        ),
        IN_NODE,
    ),
    Removal(
        "B108",
        (
            Edit(
                LOCAL,
                "if self.cookie != asked or (asked is not None and pulled.cookie.order < asked.order):",
                "if self.cookie != asked:",
            ),
        ),
        (f"{REFUSALS}::test_a_pull_older_than_the_state_changes_nothing",),
    ),
    Removal(
        "B108",
        (
            Edit(
                LOCAL,
                "if self.cookie != asked or (asked is not None and pulled.cookie.order < asked.order):",
                "if asked is not None and pulled.cookie.order < asked.order:",
            ),
        ),
        (f"{REFUSALS}::test_an_answer_to_another_cookie_changes_nothing",),
    ),
    Removal(
        "B108",
        (
            Edit(
                LOCAL,
                "\"UPDATE pending SET answer = '' WHERE answer = 'queued'\")\n        if self._fact",
                "\"UPDATE pending SET answer = '', sent = 0\")\n        if self._fact",
            ),
        ),
        (f"{REFUSALS}::test_a_copied_document_without_the_client_gets_no_mutation_twice",),
    ),
    Removal(
        "B109",
        (
            Edit(
                "src/stratalog/sync/replicache.py",
                '    if "collected" in statuses:\n',
                '    if statuses & {"collected", "unknown-client"}:\n',
            ),
        ),
        ("tests/branches/test_scenarios.py::test_a_client_that_began_after_the_backup_continues[replicache]",),
    ),
    Removal(
        "B110",
        (Edit(LOCAL, '        connection.execute("DELETE FROM confirmed")  #', "        #"),),
        (f"{REFUSALS}::test_a_new_client_id_forgets_the_confirmed_numbers_of_the_former_id",),
    ),
    Removal(
        "B116",
        (
            Edit(
                BROWSER_LOCAL,
                "    if (this.#fault) throw this.#fault;\n    for (const waiting of some)",
                "    for (const waiting of some)",
            ),
        ),
        IN_NODE,
    ),
    Removal(
        "B205",
        (Edit("src/stratalog/web/client/stratalog.js", "        stays = true;\n", ""),),
        ("tests/e2e/test_browser.py::test_the_story_passes_in_the_browser[whatAClosedTabLeavesIsSentOnce]",),
    ),
    Removal(
        "B340",
        (
            Edit(
                "src/stratalog/web/client/values.js",
                "new TextEncoder().encode(encode(value)).length",
                "encode(value).length",
            ),
        ),
        IN_NODE,
    ),
    Removal(
        "B381",
        (
            Edit(
                "src/stratalog/client/live.py",
                "except Exception:  # noqa",
                "except ZeroDivisionError:  # noqa",
            ),
        ),
        ("tests/client/test_live.py::test_a_token_function_that_fails_once_is_called_again",),
    ),
    Removal(
        "B381",
        (Edit("src/stratalog/web/client/live.js", "    } catch {\n", "    } catch (error) {\n      throw error;\n"),),
        IN_NODE,
    ),
    Removal(
        "B434",
        (
            Edit(
                "src/stratalog/client/background.py",
                "                self._thread = None\n                self._stop_listening()\n",
                "                self._thread = None\n",
            ),
        ),
        ("tests/client/test_background.py::test_a_client_that_is_closed_while_it_starts_stops_listening",),
    ),
    Removal(
        "B579",
        (Edit(LOCAL, "WHERE answer IN ('applied', 'seen')", "WHERE answer = 'queued'"),),
        (f"{REFUSALS}::{NOT_APPLIED}",),
    ),
    Removal(
        "B579",
        (Edit(BROWSER_LOCAL, 'answer === "applied" || answer === "seen"', 'answer === "queued"'),),
        IN_NODE,
    ),
    Removal(
        "B580",
        (Edit(FILE, 'if (problem := connection.pragma("quick_check", 1)) != "ok":', 'if (problem := "ok") != "ok":'),),
        ("tests/client/test_file.py::test_a_client_of_a_file_with_a_damaged_page_works_or_raises_a_stratalog_error",),
    ),
    Removal(
        "B580",
        (Edit(LOCAL, "        except msgspec.ValidationError as exc:\n", "        except KeyError as exc:\n"),),
        ("tests/client/test_file.py::test_a_file_with_a_damaged_cookie_is_corrupt",),
    ),
    Removal(
        "B618",
        (
            Edit(
                "src/stratalog/client/replica.py",
                'mutation.status in ("lost", "rejected")',
                'mutation.status == "lost"',
            ),
        ),
        ("tests/client/test_undo.py::test_a_rejected_increment_has_nothing_to_undo",),
    ),
    Removal(
        "B618",
        (Edit("src/stratalog/web/client/undo.js", ' || status === "rejected"', ""),),
        IN_NODE,
    ),
    Removal(
        "B619",
        (Edit("src/stratalog/client/undo.py", "    if not changed:\n", "    if not effect.after:\n"),),
        ("tests/client/test_undo.py::test_a_mutation_without_effect_has_nothing_to_undo",),
    ),
    Removal(
        "B620",
        (Edit("src/stratalog/ports/index.py", "value=len(text.encode())", "value=len(text)"),),
        ("tests/backends/test_memory.py::test_the_error_of_a_long_key_counts_bytes",),
    ),
    Removal(
        "B733",
        (Edit("src/stratalog/client/live.py", "            logger=_websockets_log,\n", ""),),
        ("tests/client/test_live.py::test_a_ping_without_an_answer_ends_the_connection_and_logs_nothing",),
    ),
    Removal(
        "B820",
        (
            Edit(
                "src/stratalog/web/client/pushDecision.js",
                "!Number.isInteger(gap.expected) || gap.expected >= gap.id",
                "!(gap.expected < gap.id)",
            ),
        ),
        IN_NODE,
    ),
    Removal(
        "B878",
        (
            Edit(
                "src/stratalog/client/live.py",
                "        except (msgspec.DecodeError, RecursionError) as exc:\n",
                "        except msgspec.DecodeError as exc:\n",
            ),
        ),
        ("tests/client/test_live.py::test_a_message_that_does_not_decode_ends_the_connection_and_logs_nothing",),
        raises=("RecursionError",),
    ),
    Removal(
        "B878",
        (
            Edit(
                "src/stratalog/worker/messages.py",
                "        return _decode_envelope(message[1:])\n"
                "    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:\n",
                "        return _decode_envelope(message[1:])\n"
                "    except (msgspec.DecodeError, UnicodeDecodeError) as exc:\n",
            ),
        ),
        (
            "tests/test_deep_nesting.py::test_each_handler_of_a_text_that_does_not_decode_handles_deep_nesting_too",
            "tests/test_deep_nesting.py::test_a_stored_body_that_is_nested_too_deeply_is_corrupt",
        ),
        raises=("RecursionError",),
    ),
    Removal(
        "B994",
        (Edit("src/stratalog/client/background.py", "        with self._starting:\n", "        if self._starting:\n"),),
        ("tests/client/test_background.py::test_several_threads_that_start_a_client_at_once_make_one_thread",),
    ),
)
