"""Removals of fixes: the bodies of requests, and their memory."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

BODIES = "src/stratalog/server/bodies.py"
PACKED = "src/stratalog/server/packed_bodies.py"
QUEUE = "src/stratalog/server/budget_queue.py"
API_BODIES = "tests/server/test_api_bodies.py"
PUSH = "tests/server/test_push.py"
PUSH_PARTS = "tests/server/test_push_parts.py"
BUDGET_QUEUE = "tests/server/test_budget_queue.py"

DEADLINE = "            return within_deadline(receive, self._application.limits)\n"
UNPACKED = """\
            from stratalog.server.packed_bodies import PackedBody

            list(PackedBody("gzip").unpack((await receive())["body"]))
"""

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B193",
        (Edit(PACKED, "packed = self._part.unused_data + packed\n", "packed = b''\n"),),
        (f"{API_BODIES}::test_a_body_of_several_gzip_members_or_zstd_frames_is_concatenated",),
    ),
    Removal(
        "B193",
        (Edit(PACKED, "if self._part is not None or not self._parts:", "if not self._parts:"),),
        (f"{API_BODIES}::test_a_truncated_compressed_body_or_trailing_garbage_is_invalid",),
    ),
    Removal(
        "B194",
        (
            Edit(BODIES, "                    self._check_size(size.decoded_bytes, self._decoded_bytes_max)\n", ""),
            Edit(BODIES, "        self._check_size(size, limit)\n", ""),
        ),
        (f"{API_BODIES}::test_a_small_compressed_body_of_very_many_elements_is_refused",),
    ),
    Removal(
        "B194",
        (Edit("src/stratalog/server/decoded_sizes.py", "OBJECT_BYTES = 130", "OBJECT_BYTES = 13"),),
        (f"{API_BODIES}::test_no_body_takes_more_memory_than_was_counted",),
    ),
    Removal(
        "B195",
        (Edit("src/stratalog/server/middleware.py", DEADLINE, UNPACKED + DEADLINE),),
        (
            f"{API_BODIES}::test_a_route_that_takes_no_body_does_not_decompress_the_request_body",
            f"{API_BODIES}::test_the_body_of_an_unauthorised_write_is_not_decompressed",
        ),
    ),
    Removal(
        "B196",
        (Edit("src/stratalog/server/temporary_files.py", "if exc.errno in NO_ROOM:", "if False:"),),
        (f"{API_BODIES}::test_a_full_temporary_folder_is_507_and_a_later_request_succeeds",),
    ),
    Removal(
        "B197",
        (
            Edit(
                BODIES,
                "if failure is None and size <= min(PUSH_PART_DECODED_BYTES, self._decoded_bytes_max):",
                "if failure is None:",
            ),
        ),
        (f"{PUSH_PARTS}::test_a_large_push_is_applied_in_parts_and_answered_as_one",),
    ),
    Removal(
        "B197",
        (Edit("src/stratalog/server/push_parts.py", "size + added > PUSH_PART_DECODED_BYTES or ", ""),),
        (f"{PUSH_PARTS}::test_a_part_has_a_bounded_decoded_size_and_is_decoded_on_demand",),
    ),
    Removal(
        "B198",
        (
            Edit(
                BODIES,
                "size = max(self._decoded_bytes(body), len(body) * REQUEST_COPIES)",
                "size = self._decoded_bytes(body)",
            ),
            Edit(BODIES, "        size = max(size, len(body) * REQUEST_COPIES)\n", ""),
        ),
        (f"{PUSH_PARTS}::test_a_text_is_counted_for_each_copy_in_memory",),
    ),
    Removal(
        "B199",
        (Edit("src/stratalog/server/allocator.py", "mallopt(name, value) == 1", "name < 0 < value"),),
        ("tests/server/test_allocator.py::test_large_blocks_go_back_to_the_system_when_they_are_free",),
    ),
    Removal(
        "B200",
        (Edit(QUEUE, "        await self._wait(_Waiting(allocation, amount, refused))\n", "        raise refused\n"),),
        (f"{BUDGET_QUEUE}::test_a_waiting_call_is_admitted_as_soon_as_the_budget_has_room",),
    ),
    Removal(
        "B201",
        (
            Edit(
                "src/stratalog/server/web_server.py",
                "is_shared = self._service.authentication.is_asked",
                "is_shared = False",
            ),
        ),
        ("tests/server/test_web_server.py::test_unauthenticated_sockets_of_an_address_leave_room_for_another_address",),
    ),
    Removal(
        "B473",
        (
            Edit(
                "src/stratalog/server/byte_budgets.py",
                "                if not self._bytes.may_have_written:\n",
                "                if self._start is None:\n",
            ),
        ),
        (
            "tests/server/test_limits_reached.py::test_the_answer_to_a_push_is_not_refused_when_the_answer_budget_is_full",
        ),
    ),
    Removal(
        "B477",
        (
            Edit(
                "src/stratalog/server/decoded_sizes.py",
                "        piece = self._carried + piece\n"
                '        self._is_ascii = self._is_ascii and piece.isascii() and b"\\\\u" not in piece\n',
                '        self._is_ascii = self._is_ascii and piece.isascii() and b"\\\\u" not in piece\n'
                "        piece = self._carried + piece\n",
            ),
        ),
        (f"{API_BODIES}::test_an_escape_sequence_split_between_pieces_is_counted_as_a_wide_character",),
    ),
    Removal(
        "B478",
        (
            Edit(
                QUEUE,
                "if amount <= self._small_max or not is_full:",
                "if amount <= self._small_max or not self._waiting:",
            ),
        ),
        (f"{BUDGET_QUEUE}::test_a_call_that_waits_for_its_principal_s_share_delays_no_later_caller",),
    ),
    Removal(
        "B487",
        (
            Edit(
                "src/stratalog/aws/api.py",
                "_after_a_write(exc) if bytes_of(self._scope).may_have_written else exc",
                "exc",
            ),
        ),
        ("tests/aws/test_api.py::test_a_write_whose_answer_is_too_large_for_lambda_has_an_unknown_outcome",),
    ),
    Removal(
        "B488",
        (Edit("src/stratalog/server/sync.py", "if number and denies_commit(exc):", "if False:"),),
        (f"{PUSH_PARTS}::test_a_push_whose_later_part_is_refused_has_an_unknown_outcome",),
    ),
    Removal(
        "B536",
        (
            Edit(
                "src/stratalog/sync/push.py",
                "if denies_commit(exc) and any(",
                "if False and any(",
            ),
            Edit(
                "src/stratalog/sync/push.py",
                "_REPEATED = (Unavailable, QuotaExceeded, OutcomeUnknown, Corrupt, Closed)",
                "_REPEATED = (Unavailable, QuotaExceeded, OutcomeUnknown, Corrupt, Closed, Unsupported)",
            ),
        ),
        (
            f"{PUSH_PARTS}::test_a_push_whose_later_batch_is_refused_has_an_unknown_outcome",
            f"{PUSH}::test_a_push_that_is_refused_after_a_commit_has_an_unknown_outcome",
            f"{PUSH}::test_each_error_after_which_a_client_may_renumber_its_mutations_denies_a_commit",
        ),
    ),
)
