"""Removals of fixes: queued pushes, listeners behind API Gateway, and stores that fail."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

WORKER = "src/stratalog/worker/worker.py"
LISTENERS = "src/stratalog/aws/listeners.py"
SQS = "src/stratalog/backends/sqs.py"
SQS_TESTS = "tests/cloud/test_sqs.py"
CLAIM_CHECKED = (
    "tests/cloud/test_queued_path.py::test_a_push_that_is_too_large_for_its_queue_is_queued_by_its_claim_check"
)
ANY_TEXT = "test_dead_letters_are_listed_after_any_text_in_the_order_of_texts"
QUEUE = "tests/server/test_queue.py"
SOCKETS = "tests/aws/test_sockets.py"
WAITS = "tests/server/test_worker_waits.py"

RECEIVES_IN_TURN = "        if hand is None and (self._is_news_turn or not due) and self._receive():\n"
HANGS_UP_AS_FAR_AS_IT_GOES = """\
        try:
            self.connections.close(listener.id)
            self._forget(name, listener.id)
        except StratalogError as exc:
            _log.info("a connection of a listener of %s/%s was not closed: %s", *name, exc)
"""
COUNTED = "tests/server/test_dead_letters.py::test_a_failed_mutation_whose_commit_has_an_unknown_outcome_is_counted"
HANGS_UP = """\
        self.connections.close(listener.id)
        self._forget(name, listener.id)
"""

LETTERS = "src/stratalog/worker/dead_letters.py"
OF_LETTERS = "tests/server/test_dead_letters.py"
READS_ALL_LETTERS = """\
    items = store.environment.index.query(REJECTED_PARTITION)
    item = {item.sort: item for item in items if read_rejection(item)}.get(letter)
"""

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B442",
        (
            Edit(
                SQS,
                '        if "stringValue" in value  # another program may have sent a binary attribute\n',
                "",
            ),
        ),
        (f"{SQS_TESTS}::test_a_binary_attribute_of_another_program_is_ignored_in_a_lambda_event",),
    ),
    Removal(
        "B443",
        (Edit(SQS, '"Id": hashlib.sha256(id.encode()).hexdigest()', '"Id": id'),),
        (f"{SQS_TESTS}::test_a_message_of_another_program_becomes_a_dead_letter_whatever_its_id",),
    ),
    Removal(
        "B444",
        (
            Edit(
                SQS,
                "        receives = int(receives) if RECEIVES.fullmatch(receives) else self._receives_max\n",
                "        receives = int(receives or self._receives_max)\n",
            ),
        ),
        (f"{SQS_TESTS}::test_a_dead_letter_of_another_program_is_listed_whatever_its_attributes",),
    ),
    Removal(
        "B445",
        (Edit("src/stratalog/backends/sqlite_queue.py", "last = last_number(after)", "last = int(after or 0)"),),
        (f"src/stratalog/testing/queue_contract.py::{ANY_TEXT}",),
    ),
    Removal(
        "B445",
        (Edit("src/stratalog/backends/postgres_queue.py", "last = last_number(after)", "last = int(after or 0)"),),
        ("tests/postgres/test_store.py::test_a_listing_of_dead_letters_accepts_a_start_that_is_not_a_number",),
    ),
    Removal(
        "B428",
        (
            Edit(
                "src/stratalog/worker/execution.py",
                "            report(client=carried.client, id=carried.id, letter=letter)\n            raise\n",
                "            raise\n",
            ),
        ),
        (COUNTED,),
    ),
    Removal(
        "B428",
        (
            Edit(
                "src/stratalog/documents/writer.py",
                "                        self._report(run)\n                        raise\n",
                "                        raise\n",
            ),
        ),
        (COUNTED,),
    ),
    Removal(
        "B112",
        (
            Edit(
                "src/stratalog/worker/execution.py",
                "        if carried.refused or not self._would_run(carried):\n",
                "        if carried.refused:\n",
            ),
        ),
        (f"{QUEUE}::test_a_gap_in_a_message_does_not_hide_a_mutation_that_ends_the_process",),
    ),
    Removal(
        "B113",
        (
            Edit(
                "src/stratalog/worker/queued_pushes.py",
                "waiting = OPEN if request.origin or sent.holds_any(request.mutations) else RUNNABLE\n",
                "waiting = OPEN\n",
            ),
        ),
        (f"{QUEUE}::test_without_an_origin_a_push_that_is_a_gap_is_refused_immediately_and_not_queued",),
    ),
    Removal(
        "B113",
        (
            Edit(
                "src/stratalog/sync/replicache.py",
                "    if _is_foreign(request, opened.start):\n",
                "    if False:\n",
            ),
        ),
        (
            "tests/e2e/test_replicache_queue.py::test_the_story_passes_with_the_real_client_over_the_queue[aRecreatedDocumentReplacesTheClientState]",
        ),
    ),
    Removal(
        "B114",
        (
            Edit(
                "src/stratalog/worker/settlement.py",
                "            if claim_check_exists(self._store.environment.blobs, envelope):\n"
                "                raise\n"
                "            return []\n",
                "            raise\n",
            ),
        ),
        (f"{QUEUE}::test_a_message_whose_claim_check_another_worker_removes_is_settled",),
    ),
    Removal(
        "B115",
        (Edit(WORKER, RECEIVES_IN_TURN, "        if hand is None and not due and self._receive():\n"),),
        (f"{QUEUE}::test_unreachable_documents_do_not_stop_a_reachable_document",),
    ),
    Removal(
        "B115",
        (Edit(WORKER, RECEIVES_IN_TURN, "        if hand is None and self._receive():\n"),),
        (f"{QUEUE}::test_new_messages_do_not_starve_the_retry_of_a_document",),
    ),
    Removal(
        "B117",
        (
            Edit(
                "src/stratalog/backends/sqs.py",
                "        if message is first[message.group]\n",
                "        if message\n",
            ),
        ),
        (("tests/aws/test_processor.py::test_an_unreadable_message_becomes_a_dead_letter_and_its_group_continues"),),
    ),
    Removal(
        "B126",
        (Edit(LISTENERS, HANGS_UP_AS_FAR_AS_IT_GOES, HANGS_UP),),
        (f"{SOCKETS}::test_a_failed_close_of_an_expired_listener_does_not_prevent_other_pokes",),
    ),
    Removal(
        "B127",
        (
            Edit(
                LISTENERS,
                "        item = self._index.get(listeners_partition(*name), escape(id)) if name else None\n",
                "        found = self._index.query(listeners_partition(*name), consistent=False) if name else ()\n"
                "        item = next((one for one in found if one.sort == escape(id)), None)\n",
            ),
        ),
        (f"{SOCKETS}::test_presence_right_after_the_hello_works_although_eventual_reads_lag",),
    ),
    Removal(
        "B127",
        (
            Edit(
                LISTENERS,
                "self._notify(name, None, Observation(self._clock), consistent=True)",
                "self._notify(name, None, Observation(self._clock), consistent=False)",
            ),
        ),
        (f"{SOCKETS}::test_presence_right_after_the_hello_works_although_eventual_reads_lag",),
    ),
    Removal(
        "B128",
        (Edit("src/stratalog/retry.py", "        if isinstance(cause, Conflict):\n", "        if True:\n"),),
        ("tests/log/test_contention.py::test_a_failing_store_is_retried_less_often_than_a_lost_race",),
    ),
    Removal(
        "B388",
        (
            Edit(
                "src/stratalog/cli/queue.py",
                '_module("prometheus_client").start',
                'import_module("prometheus_client").start',
            ),
        ),
        ("tests/cli/test_option_values.py::test_a_worker_without_the_metrics_library_names_the_extra",),
    ),
    Removal(
        "B389",
        (
            Edit(
                LISTENERS,
                "            self._send(name, _shown(left), left, begun)\n",
                "            self._send(name, _shown(left), left, Observation(self._clock))\n",
            ),
            Edit(
                LISTENERS,
                "        self._end_expired(name, listeners, begun)\n",
                "        self._end_expired(name, listeners, Observation(self._clock))\n",
            ),
        ),
        (f"{SOCKETS}::test_the_messages_and_closes_of_an_announcement_share_a_time_limit",),
    ),
    Removal(
        "B389",
        (Edit("src/stratalog/aws/container.py", "Poke(version), begun)", "Poke(version))"),),
        (f"{SOCKETS}::test_announcements_of_several_documents_share_a_time_limit",),
    ),
    Removal(
        "B390",
        (
            Edit(
                "src/stratalog/worker/worker.py",
                "                self._note_end(message, future)\n",
                "                pass\n",
            ),
        ),
        (
            "tests/server/test_queue.py::test_a_failed_background_acknowledgement_is_repeated_after_redelivery",
            "tests/server/test_queue.py::test_an_unexpected_error_of_a_background_acknowledgement_is_reported",
        ),
    ),
    Removal(
        "B391",
        (Edit("src/stratalog/cli/naming.py", "        if not math.isfinite(number):\n", "        if False:\n"),),
        ("tests/cli/test_option_values.py::test_a_number_that_is_not_finite_is_a_usage_error",),
    ),
    Removal(
        "B433",
        (
            Edit(
                LETTERS,
                "    item = store.environment.index.get(REJECTED_PARTITION, letter)\n",
                READS_ALL_LETTERS,
            ),
        ),
        (
            f"{OF_LETTERS}::test_a_damaged_letter_affects_no_other_letter",
            f"{OF_LETTERS}::test_a_redrive_of_all_letters_lists_the_queue_and_the_rejections_once",
        ),
    ),
    Removal(
        "B433",
        (
            Edit(
                LETTERS,
                "    except Corrupt as exc:\n        return RejectedPush(",
                "    except OSError as exc:\n        return RejectedPush(",
            ),
        ),
        (f"{OF_LETTERS}::test_a_damaged_letter_affects_no_other_letter",),
    ),
    Removal(
        "B433",
        (Edit(LETTERS, "    except (NotFound, Corrupt):\n", "    except NotFound:\n"),),
        (f"{OF_LETTERS}::test_a_damaged_letter_with_edited_arguments_is_replaced",),
    ),
    Removal(
        "B433",
        (
            Edit(
                LETTERS,
                "    except Corrupt:\n        return AttemptRecord()\n",
                "    except OSError:\n        return AttemptRecord()\n",
            ),
        ),
        (f"{OF_LETTERS}::test_a_letter_whose_attempt_record_is_damaged_is_listed_and_redriven",),
    ),
    Removal(
        "B475",
        (Edit(LETTERS, "    require_application(document, [queued])\n", ""),),
        (f"{OF_LETTERS}::test_a_message_is_not_redriven_without_its_application",),
    ),
    Removal(
        "B475",
        (Edit(LETTERS, "    if name not in document.rules.mutators:\n", "    if not name:\n"),),
        (f"{OF_LETTERS}::test_a_rejected_mutation_is_not_redriven_without_its_application",),
    ),
    Removal(
        "B491",
        (Edit(WORKER, "if self._hands.get(group) is hand:", "if group:"),),
        (f"{QUEUE}::test_a_heartbeat_hides_no_message_that_the_worker_released_meanwhile",),
    ),
    Removal(
        "B503",
        (
            Edit(
                "src/stratalog/server/service.py",
                "version is not None), default=None)",
                "version is not None), default=0)",
            ),
        ),
        ("tests/server/test_api_documents.py::test_a_merge_that_commits_nothing_pokes_nobody",),
    ),
    Removal(
        "B532",
        (
            Edit(
                "src/stratalog/maintenance/store_pass.py",
                "            queue=lambda: self._store.queue,\n",
                "",
            ),
        ),
        (
            "tests/maintenance/test_maintain.py::test_the_body_of_a_push_that_was_never_sent_is_deleted_and_the_body_of_a_waiting_push_stays",
        ),
    ),
    Removal(
        "B532",
        (
            Edit(
                "src/stratalog/maintenance/collection.py",
                "oldest_ms = self._queue().oldest_ms() if self._queue else 0",
                "oldest_ms = self._environment.clock.wall_ms() - 28 * 86_400_000",
            ),
        ),
        (
            "tests/maintenance/test_collect.py::test_a_blob_of_a_queued_push_is_deleted_when_no_message_can_refer_to_it",
            "tests/server/test_queue.py::test_a_large_push_that_waits_for_a_year_is_applied_after_a_collection",
        ),
    ),
    Removal(
        "B616",
        (
            Edit(
                "src/stratalog/aws/events.py",
                'return text.encode(errors="replace")',
                "raise",
            ),
        ),
        (
            "tests/aws/test_api.py::test_a_header_may_have_any_characters",
            "tests/aws/test_sockets.py::test_a_connect_event_may_have_a_header_with_any_characters",
        ),
        raises=("UnicodeEncodeError",),
    ),
    Removal(
        "B666",
        (
            Edit(
                "deploy/aws/template.yaml",
                "                Resource: [!GetAtt Queue.Arn, !GetAtt DeadLetters.Arn]\n",
                "                Resource: !GetAtt FailedCalls.Arn\n",
            ),
        ),
        ("tests/aws/test_roles.py::test_no_role_refuses_a_request_of_its_function",),
    ),
    Removal(
        "B667",
        (
            Edit(
                SQS,
                "        except RequestRefused as exc:\n            if exc.reason != TOO_LONG",
                "        except RequestRefused as exc:\n            if True or exc.reason != TOO_LONG",
            ),
        ),
        (f"{SQS_TESTS}::test_a_message_above_the_limit_of_its_queue_is_refused_as_too_large", CLAIM_CHECKED),
    ),
    Removal(
        "B667",
        (
            Edit(
                "src/stratalog/worker/queued_pushes.py",
                "            self._store.queue.send(group, [write(bytes_max=0)])",
                "            raise",
            ),
        ),
        (CLAIM_CHECKED,),
    ),
    Removal(
        "B670",
        (Edit("src/stratalog/backends/s3_versions.py", "if exc.reason == DENIED:", "if False:"),),
        ("tests/cloud/test_preparation.py::test_a_bucket_that_s3_denies_may_belong_to_another_account",),
    ),
    Removal(
        "B851",
        (Edit(WORKER, "min(maximum, first * 2 ** min(idle, 30))", "min(maximum, first * 2 ** min(idle + 1, 30))"),),
        (
            f"{WAITS}::test_an_idle_worker_waits_from_its_first_wait_to_its_longest_wait",
            f"{WAITS}::test_an_idle_worker_waits_for_its_first_wait_again_after_a_message",
        ),
    ),
)
