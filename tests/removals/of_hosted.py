"""Removals of fixes: hosted stores with failing services, stopped processes, wrong clocks or foreign objects."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

DYNAMODB_CLIENT = "src/stratalog/backends/dynamodb_client.py"
DYNAMODB_HTTP = "src/stratalog/backends/dynamodb_http.py"
S3_VERSIONS = "src/stratalog/backends/s3_versions.py"
SQS = "src/stratalog/backends/sqs.py"
OBJECT_STORE = "src/stratalog/backends/objectstore.py"
OBJECT_STORE_FAILURES = "tests/cloud/test_objectstore_failures.py"
OBJECT_STORE_TESTS = "tests/cloud/test_objectstore.py"
POSTGRES_CONNECTIONS = "src/stratalog/backends/postgres_connections.py"
POSTGRES_QUEUE = "src/stratalog/backends/postgres_queue.py"
QUEUE_CLOCKS = "tests/postgres/test_queue_clocks.py"
REPLACED = (
    "tests/cloud/test_dynamodb_http.py::"
    "test_after_a_lost_response_on_a_reused_connection_all_idle_connections_are_replaced"
)
SET_BACK = (
    "tests/backends/test_sqlite_queue.py::"
    "test_a_group_that_was_hidden_before_the_clock_was_set_back_by_a_year_is_delivered"
)
SQLITE_QUEUE = "src/stratalog/backends/sqlite_queue.py"
SQS_FAILURES = "tests/cloud/test_sqs_failures.py"
STOPPED = (
    "tests/postgres/test_sessions.py::"
    "test_a_process_that_stops_after_it_has_locked_items_does_not_block_other_processes"
)

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B785",
        (
            Edit(
                DYNAMODB_HTTP,
                "                self._drop_idle()\n            raise\n",
                "                pass\n            raise\n",
            ),
        ),
        (REPLACED,),
    ),
    Removal(
        "B785",
        (Edit(DYNAMODB_CLIENT, "= ANSWER_SECONDS_MAX + 1\n", "= ANSWER_SECONDS_MAX\n"),),
        ("tests/cloud/test_dynamodb_answers.py::test_a_read_whose_reply_did_not_come_in_time_is_retried",),
    ),
    Removal(
        "B786",
        (Edit(SQS, '        if any(entry["Id"] not in answered for entry in entries):\n', "        if False:\n"),),
        (
            f"{SQS_FAILURES}::test_a_send_that_failed_once_is_sent_again_under_the_same_ids",
            f"{SQS_FAILURES}::test_a_failed_send_is_outcome_unknown_if_any_message_may_have_been_sent",
        ),
    ),
    Removal(
        "B787",
        (Edit(S3_VERSIONS, '                field="IsTruncated",\n', ""),),
        (f"{OBJECT_STORE_FAILURES}::test_a_list_whose_response_is_not_a_list_is_tried_again",),
        raises=("KeyError",),
    ),
    Removal(
        "B787",
        (Edit(S3_VERSIONS, ', field="CopyObjectResult"', ""),),
        (f"{OBJECT_STORE_FAILURES}::test_a_blob_is_deleted_only_after_its_copy_is_confirmed",),
    ),
    Removal(
        "B788",
        (Edit(POSTGRES_QUEUE, "        now = self._now_ms(*ready[0])\n", "        now = self._clock.wall_ms()\n"),),
        (f"{QUEUE_CLOCKS}::test_a_receiver_whose_clock_is_hours_ahead_hides_messages_no_longer_than_others",),
    ),
    Removal(
        "B788",
        (Edit(POSTGRES_QUEUE, "now = self._now_ms(*locked[0])\n", "now = self._clock.wall_ms()\n"),),
        (f"{QUEUE_CLOCKS}::test_a_receiver_whose_clock_is_far_ahead_can_settle_its_messages",),
    ),
    Removal(
        "B788",
        (Edit(POSTGRES_QUEUE, "            again += _names(connection, STUCK, (limit,))\n", ""),),
        (f"{QUEUE_CLOCKS}::test_a_group_that_a_wrong_clock_has_hidden_for_a_year_is_delivered",),
    ),
    Removal(
        "B788",
        (Edit(SQLITE_QUEUE, "            again += _names(connection, STUCK, (now + HIDDEN_MS_MAX, limit))\n", ""),),
        (SET_BACK,),
    ),
    Removal(
        "B789",
        (Edit("src/stratalog/backends/postgres_commits.py", "    pipeline.sync()\n", ""),),
        (STOPPED,),
    ),
    Removal(
        "B790",
        (Edit("src/stratalog/backends/postgres_commits.py", ", drained(pipeline):\n", ":\n"),),
        ("tests/postgres/test_sessions.py::test_a_lost_race_with_a_blob_logs_nothing",),
    ),
    Removal(
        "B790",
        (Edit(POSTGRES_CONNECTIONS, "        connection.end_transaction()\n", ""),),
        ("tests/postgres/test_sessions.py::test_a_failed_transaction_logs_nothing",),
    ),
    Removal(
        "B803",
        (
            Edit(
                "src/stratalog/backends/sqs.py",
                "seconds = min(hidden_seconds(after_seconds), self._seconds_left(message))",
                "seconds = after_seconds",
            ),
        ),
        (
            "tests/cloud/test_sqs_failures.py::test_a_release_for_longer_than_sqs_allows_hides_the_message_for_as_long_as_possible",
        ),
    ),
    Removal(
        "B804",
        (
            Edit(
                "src/stratalog/backends/boto.py",
                "        if not _is_of_parser(exc):\n",
                "        if True:\n",
            ),
        ),
        ("tests/cloud/test_objectstore_failures.py::test_a_list_with_a_malformed_size_or_time_is_unavailable",),
        raises=("ValueError",),
    ),
    Removal(
        "B805",
        (Edit("src/stratalog/backends/sqs.py", "    if not is_decimal(text):\n", "    if not text:\n"),),
        ("tests/cloud/test_sqs_failures.py::test_a_receive_whose_count_is_no_number_is_unavailable",),
        raises=("ValueError",),
    ),
    Removal(
        "B847",
        (Edit(OBJECT_STORE, " and not stat.key.startswith(FREED)\n", "\n"),),
        (f"{OBJECT_STORE_TESTS}::test_a_list_of_a_bucket_without_a_prefix_has_no_retained_copies",),
    ),
    Removal(
        "B848",
        (
            Edit(OBJECT_STORE, "sound_keys(filter(_is_blob, stats), damaged)", "filter(_is_blob, stats)"),
            Edit(OBJECT_STORE, "== DIGITS and not", ">= 0 and not"),
        ),
        (f"{OBJECT_STORE_TESTS}::test_a_list_leaves_out_the_objects_of_other_programs",),
    ),
    Removal(
        "B844",
        (
            Edit(
                "src/stratalog/backends/boto.py",
                "        if not _is_of_parser(exc):\n",
                "        if False:\n",
            ),
        ),
        ("tests/cloud/test_objectstore_failures.py::test_a_request_that_boto3_cannot_build_is_not_tried_again",),
        raises=("Retryable",),
    ),
    Removal(
        "B877",
        (
            Edit(
                "src/stratalog/backends/metered_ports.py",
                '            if self._retains_freed:\n                self._count("CopyObject")\n',
                "",
            ),
        ),
        (
            "tests/backends/test_metered.py::test_the_meter_of_a_local_store_counts_the_copies_that_the_template_makes_of_deleted_blobs",
            "tests/cloud/test_metered.py::test_blobs_count_the_same_requests_and_bytes",
        ),
    ),
)
